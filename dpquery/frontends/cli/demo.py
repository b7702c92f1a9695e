"""The demo: six queries over a public medical study, each noisy answer beside the exact one, and two refusals."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from dpquery.errors import QueryError
from dpquery.frontends.cli.demo_files import CATALOG, LEDGER, TABLES, prepare
from dpquery.frontends.opening import open_ledger
from dpquery.frontends.text import bar, number, percent

if TYPE_CHECKING:
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.result.table import Result
    from dpquery.session.session import Session

WIDTH = 100
ANALYST = "reader"
INDENT = (0, 0, 0, 3)
NEXT = "SELECT died, AVG(age) AS age FROM patients GROUP BY died"


def run_demo(folder: Path) -> None:
    """Writes the study into a folder, answers the queries, and says how to go on."""
    import duckdb

    from dpquery.session.connecting import connect

    is_new = prepare(folder)
    screen = Console(highlight=False, soft_wrap=False, width=None)
    if not screen.is_terminal or screen.width > WIDTH:
        screen.width = WIDTH
    paths = {name: str(folder / f"{name}.parquet") for name in TABLES}
    with contextlib.closing(open_ledger(folder / LEDGER)) as ledger, duckdb.connect() as public:
        session = connect(folder / CATALOG, paths, ledger=ledger, analyst=ANALYST, reuse=False)
        _open(screen, folder, is_new)
        for name, path in paths.items():
            public.read_parquet(path).create_view(name)
        for step in STEPS:
            _show(screen, step, session, public)
        _close(screen, folder, session, ledger.limit(ANALYST))


def _open(screen: Console, folder: Path, is_new: bool) -> None:
    screen.print(Text("dpquery: a medical study under differential privacy", style="bold"))
    screen.print(
        "17,549 patients, 400,123 laboratory results and 34,340 events of the NAFLD study. The study is\n"
        "public, so exact answers can stand beside the noisy ones. With private data they would not be visible."
    )
    state = "Written to" if is_new else "Found, with a ledger that counts on, in"
    screen.print(Text(f"{state} {folder}: {', '.join(f'{name}.parquet' for name in TABLES)}, {CATALOG}, {LEDGER}"))


def _show(screen: Console, step: Step, session: Session, public: Any) -> None:
    screen.print()
    if step.title:
        number_of = 1 + sum(bool(other.title) for other in STEPS[: STEPS.index(step)])
        screen.print(Rule(Text(f"{number_of}  {step.title}", style="bold"), align="left", style="dim"))
    _indented(screen, Text(step.lesson), "")
    _indented(screen, Syntax(step.sql, "sql", theme="ansi_dark", background_color="default"), "")
    try:
        answer = session.sql(step.sql, **step.offer)
    except QueryError as error:
        _indented(screen, Text(f"{type(error).__name__}: {error}", style="red"))
        return
    exact = public.execute(step.exact).fetchall() if step.exact else []
    _indented(screen, _compare(answer, exact, step.keys))
    if hidden := _hidden(answer, exact, step.keys):
        _indented(screen, Text(f"Below tau, so not shown: {hidden}", style="dim"))
    if step.remark:
        _indented(screen, Text(step.remark))
    _indented(screen, _price(answer, step, session))


def _indented(screen: Console, *parts: RenderableType) -> None:
    for part in parts:
        screen.print(Padding(part, INDENT, expand=False) if part else "")


def _compare(answer: Result, exact: Sequence[Sequence[object]], keys: int) -> Table:
    """Returns noisy cells, each with its 95 % interval and, in dim, the exact cell of the same group."""
    accuracy = answer.accuracy
    known = {row[:keys]: row for row in map(tuple, exact)}
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for name in answer.columns[:keys]:
        table.add_column(Text(f"\n{name}"))
    for name in answer.columns[keys:]:
        table.add_column(Text(f"\n{name}"), justify="right")
        table.add_column(Text("95 %\ninterval"))
        table.add_column(Text("exact\n(public study)", style="dim"), justify="right", style="dim")
    for index, row in enumerate(_rows(answer)):
        cells = [number(value) for value in row[:keys]]
        partner = known.get(row[:keys])
        for place in range(keys, len(row)):
            lower, upper = (float(accuracy[(answer.columns[place], end)].iloc[index]) for end in ("lower", "upper"))
            half = max(upper - row[place], row[place] - lower) if row[place] is not None else math.nan
            digits = _digits(half)
            cells.append(_rounded(row[place], digits))
            cells.append("" if math.isnan(half) else f"± {number(half, digits)}")
            cells.append("" if partner is None else _rounded(partner[place], digits))
        table.add_row(*map(Text, cells))
    return table


def _rows(answer: Result) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in answer.to_arrow().columns), strict=True))


def _digits(half: float) -> int:
    return 0 if not half > 0 or half >= 10 else min(6, 1 - math.floor(math.log10(half)))


def _rounded(value: Any, digits: int) -> str:
    return number(value, digits) if isinstance(value, float) else number(value)


def _hidden(answer: Result, exact: Sequence[Sequence[object]], keys: int) -> str:
    shown = {row[:keys] for row in _rows(answer)}
    hidden = [row for row in exact if keys and tuple(row[:keys]) not in shown]
    return ", ".join(f"{row[0]} (exact {number(row[-1])})" for row in hidden)


def _price(answer: Result, step: Step, session: Session) -> Text:
    from dpquery.kernel.loss import show_amount

    left = session.remaining.rho
    taus = {made.tau for made in answer.measurements if made.tau is not None}
    asked = ", ".join(f"{name} {amount}" for name, amount in step.offer.items())
    chosen = f"tau {min(taus)}   " if taus else ""
    return Text(f"asked {asked}   {chosen}charged {answer.charge}   left rho {show_amount(left)}", style="cyan")


def _close(screen: Console, folder: Path, session: Session, limit: PrivacyLoss) -> None:
    left = session.remaining
    screen.print()
    screen.print(Rule(Text("What is left", style="bold"), align="left", style="dim"))
    for part in ("rho", "delta"):
        share = Fraction(getattr(left, part) / getattr(limit, part))
        screen.print(Padding(Text(f"{part:<6} {bar(share, 40)} {percent(share)} of {ANALYST}'s"), INDENT))
    place = shlex.quote(str(folder / CATALOG))
    screen.print("\nGo on:")
    lines = [
        f'dpquery query {place} "{NEXT}"',
        f'dpquery explain {place} "{NEXT}"',
        f"dpquery budget {place}",
        f"dpquery ledger show {shlex.quote(str(folder / LEDGER))}",
    ]
    for line in lines:
        screen.print(Text(f"   {line}", style="green"), soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One query of the tour.

    Attributes:
        title: What it is; "" for a further query under the same title.
        lesson: What it teaches.
        sql: The query, as an analyst writes it.
        offer: What it may lose, and other arguments of `Session.sql`.
        exact: The same question to DuckDB, without privacy: same columns, same order; "" where a refusal is expected.
        keys: How many of the first columns tell the group.
        remark: What to look at in the answer.
    """

    title: str
    lesson: str
    sql: str
    offer: Mapping[str, Any] = field(default_factory=dict)
    exact: str = ""
    keys: int = 0
    remark: str = ""


STEPS = (
    Step(
        title="How many patients?",
        lesson="Noise of known size hides each single patient. A total over thousands hardly notices it.",
        sql="SELECT COUNT(*) AS patients FROM patients",
        offer={"epsilon": "0.1"},
        exact="SELECT COUNT(*) FROM patients",
        remark="The ledger counts in rho, in which many small losses add up slowly. The next queries ask in rho.",
    ),
    Step(
        title="Averages by group",
        lesson="The tests that the catalog names always appear, others never. A narrow CLAMP means little noise.",
        sql="""\
SELECT test, COUNT(*) AS n, AVG(CLAMP(value, 20, 220)) AS mean
FROM labs
GROUP BY test""",
        offer={"rho": "0.02"},
        exact="SELECT test, COUNT(*), AVG(value) FROM labs WHERE test IN ('hdl', 'sbp') GROUP BY test",
        keys=1,
        remark="Results of patients with more than 100 weigh less, so n is a little low: in all charts alike.",
    ),
    Step(
        title="Charts that add up",
        lesson="Private tables join on the patient. Each result has the same weight here as in the table above.",
        sql="""\
SELECT p.sex, COUNT(*) AS n, AVG(CLAMP(l.value, 20, 120)) AS hdl
FROM patients p JOIN labs l ON p.id = l.id
WHERE l.test = 'hdl'
GROUP BY p.sex""",
        offer={"rho": "0.02"},
        exact="""SELECT p.sex, COUNT(*), AVG(l.value) FROM patients p JOIN labs l ON p.id = l.id WHERE l.test = 'hdl'
            GROUP BY p.sex""",
        keys=1,
        remark="The counts of F and M add up to that of hdl above, up to the noise: no chart counts otherwise.",
    ),
    Step(
        title="Totals of each patient",
        lesson="A subquery may hold one row per patient. Only aggregates over patients leave the engine.",
        sql="""\
SELECT COUNT(*) AS patients, AVG(CLAMP(tests, 0, 100)) AS tests_each
FROM (SELECT id, COUNT(*) AS tests FROM labs GROUP BY id) AS totals""",
        offer={"rho": "0.002"},
        exact="SELECT COUNT(*), AVG(tests) FROM (SELECT id, COUNT(*) AS tests FROM labs GROUP BY id)",
        remark="Few patients have more than 100 results. Counting at most 100 of each saves much noise, and takes 0.3 "
        "off the mean: the exact number counts all of them.",
    ),
    Step(
        title="Groups that are not declared",
        lesson="Types of event are data too. One is shown if its noisy number reaches tau. That costs delta.",
        sql="""\
SELECT event, COUNT(DISTINCT id) AS patients
FROM events
GROUP BY event ORDER BY patients DESC""",
        offer={"rho": "0.005"},
        exact="SELECT event, COUNT(DISTINCT id) FROM events GROUP BY event ORDER BY 2 DESC",
        keys=1,
    ),
    Step(
        title="What is refused",
        lesson="No noise hides a row that is shown. The query is refused before data are read, and costs nothing.",
        sql="SELECT id, value FROM labs WHERE value > 300",
    ),
    Step(
        title="",
        lesson="The ledger adds up what all sessions are charged. A query that exceeds the rest is refused too.",
        sql="SELECT COUNT(*) AS deaths FROM patients WHERE died",
        offer={"epsilon": "2"},
    ),
)
