"""The demo: six queries over a public medical study, each noisy answer beside the exact one, and two refusals."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from dpquery.errors import QueryError
from dpquery.frontends.cli_text import bar, number, percent
from dpquery.frontends.demo_files import CATALOG, LEDGER, TABLES, prepare
from dpquery.frontends.demo_steps import STEPS, Step

if TYPE_CHECKING:
    from dpquery.result.table import Result
    from dpquery.session import Session

WIDTH = 100
ANALYST = "reader"
INDENT = (0, 0, 0, 3)
NEXT = "SELECT died, AVG(age) AS age FROM patients GROUP BY died"


def run_demo(folder: Path) -> None:
    """Writes the study into a folder, answers the queries, and says how to go on."""
    import duckdb

    from dpquery.session import connect

    is_new = prepare(folder)
    screen = Console(highlight=False, soft_wrap=False, width=None)
    if not screen.is_terminal or screen.width > WIDTH:
        screen.width = WIDTH
    paths = {name: str(folder / f"{name}.parquet") for name in TABLES}
    session = connect(folder / CATALOG, paths, ledger=folder / LEDGER, analyst=ANALYST)
    _open(screen, folder, is_new)
    with duckdb.connect() as public:
        for name, path in paths.items():
            public.read_parquet(path).create_view(name)
        for place, step in enumerate(STEPS, start=1):
            _show(screen, place, step, session, public)
    _close(screen, folder, session)


def _open(screen: Console, folder: Path, is_new: bool) -> None:
    screen.print(Text("dpquery: a medical study under differential privacy", style="bold"))
    screen.print(
        "17,549 patients, 400,123 laboratory results and 34,340 events of the NAFLD study. The study is public, so "
        "exact answers can stand beside the noisy ones. With private data, nobody would see them."
    )
    state = "Wrote" if is_new else "Found the files of an earlier run, whose ledger counts on, in"
    screen.print(Text(f"{state} {folder}/: {', '.join(f'{name}.parquet' for name in TABLES)}, {CATALOG}, {LEDGER}."))


def _show(screen: Console, place: int, step: Step, session: Session, public: Any) -> None:
    screen.print()
    screen.print(Rule(Text(f"{place}  {step.title}", style="bold"), align="left", style="dim"))
    screen.print(Padding(Text(step.lesson), INDENT))
    screen.print()
    screen.print(Padding(Syntax(step.sql, "sql", theme="ansi_dark", background_color="default"), INDENT))
    screen.print()
    try:
        answer = session.sql(step.sql, **step.offer)
    except QueryError as error:
        screen.print(Padding(Text(f"{type(error).__name__}: {error}", style="red"), INDENT))
        return
    exact = public.execute(step.exact).fetchall() if step.exact else []
    screen.print(Padding(_compare(answer, exact, step.keys), INDENT))
    if hidden := _hidden(answer, exact, step.keys):
        screen.print(Padding(Text(f"Not shown: {hidden}.", style="dim"), INDENT))
    if step.remark:
        screen.print(Padding(Text(step.remark), INDENT))
    screen.print(Padding(_price(answer, step, session), INDENT))


def _compare(answer: Result, exact: Sequence[Sequence[object]], keys: int) -> Table:
    """Returns noisy cells with their intervals, and the exact ones of the same group in dim beside them."""
    noisy, accuracy = answer.to_arrow(), answer.accuracy
    known = {row[:keys]: row for row in map(tuple, exact)}
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for name in answer.columns[:keys]:
        table.add_column(name)
    for name in answer.columns[keys:]:
        table.add_column(Text(name), justify="right")
        table.add_column(Text("95 % interval", style="dim"))
        table.add_column(Text("exact (public study)", style="dim"), justify="right", style="dim")
    for index, row in enumerate(zip(*(column.to_pylist() for column in noisy.columns), strict=True)):
        cells = [number(value) for value in row[:keys]]
        partner = known.get(row[:keys])
        for place in range(keys, len(row)):
            ends = [accuracy[(answer.columns[place], end)].iloc[index] for end in ("lower", "upper")]
            digits = _digits((ends[1] - ends[0]) / 2)
            cells.append(_rounded(row[place], digits))
            cells.append(f"{number(float(ends[0]), digits)} to {number(float(ends[1]), digits)}")
            cells.append("" if partner is None else _rounded(partner[place], digits))
        table.add_row(*map(Text, cells))
    return table


def _digits(half: float) -> int:
    return 0 if not half > 0 or half >= 10 else min(6, 1 - math.floor(math.log10(half)))


def _rounded(value: Any, digits: int) -> str:
    return number(value, digits) if isinstance(value, float) else number(value)


def _hidden(answer: Result, exact: Sequence[Sequence[object]], keys: int) -> str:
    shown = set(zip(*(column.to_pylist() for column in answer.to_arrow().columns[:keys]), strict=True))
    hidden = [row for row in exact if keys and tuple(row[:keys]) not in shown]
    return ", ".join(f"{row[0]} (exact {number(row[-1])})" for row in hidden)


def _price(answer: Result, step: Step, session: Session) -> Text:
    taus = {made.tau for made in answer.measurements if made.tau is not None}
    asked = ", ".join(f"{name} {amount}" for name, amount in step.offer.items())
    chosen = f"   tau {min(taus)}" if taus else ""
    return Text(f"asked {asked}   charged {answer.charge}{chosen}   left {session.remaining}", style="cyan")


def _close(screen: Console, folder: Path, session: Session) -> None:
    from dpquery.kernel.ledger import Ledger

    ledger, left = Ledger.open(folder / LEDGER), session.remaining
    limit = ledger.limit(ANALYST)
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
        screen.print(Padding(Text(line, style="green", no_wrap=True, overflow="ignore"), INDENT))
