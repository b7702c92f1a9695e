"""Writes docs/reference/sql.md from the code that accepts and refuses: `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from dpquery.catalog.tables import WORK
from dpquery.kernel.choice_utilities import FINEST_TARGET
from dpquery.kernel.work import TEXTS
from dpquery.plan.aggregates import AGGREGATES as KNOWN
from dpquery.plan.functions import FUNCTIONS, TEXT_LIMIT, rounding
from dpquery.plan.functions.patterns import MAX_COUNT
from dpquery.plan.logical import LONGEST_TEXT
from dpquery.plan.windows import WINDOW_FUNCTIONS
from dpquery.planner.keys.images import MAX_KEYS
from dpquery.planner.protect.protect import MAX_GROUPS
from dpquery.session.explain import amount, figure
from dpquery.sql.bind.scope import MAX_SIZE, MAX_TABLES
from dpquery.sql.bind.select import MAX_COLUMNS, MAX_JOINS
from dpquery.sql.parse import parse
from tests.docs.sql_features import AGGREGATES, CATALOG, CLAUSES, KEYS, PRICED, ROW_CLAUSES, ROWS, Answer, Engine
from tests.docs.sql_functions import arguments_of, result_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "sql.md"

TYPE_NAMES = (
    *("boolean", "smallint", "integer", "bigint", "real", "double precision", "decimal(p,s)", "numeric", "text"),
    *(
        "varchar",
        "varchar(n)",
        "char(n)",
        "date",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "json",
        "bytea",
        "int[]",
    ),
)


def main() -> int:
    """Writes the page; returns 1 with `--check` if the page that stands there differs."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """Returns the page."""
    with closing(Engine()) as engine:
        parts = [
            _opening(),
            _clauses(engine),
            _rows(engine),
            _aggregates(engine),
            _prices(engine),
            _windows(),
            _keys(engine),
            _functions(),
        ]
        parts += [_types(engine), _limits(), _examples()]
        return "\n".join(line for part in parts for line in part)


def _opening() -> Iterator[str]:
    yield """\
<!-- Written by `make docs` out of the code that accepts and refuses. Change tests/docs/generate.py instead. -->

# SQL

A query is one `SELECT` statement, in PostgreSQL's dialect unless `dialect=` names another that
[sqlglot](https://sqlglot.com) reads. The engine does not run your text. It translates it into a plan of its own, and
refuses all that it does not know, with the place in your text and before any private row is read. A refused query
is not charged.

Every example on this page was put to the engine when the page was written; the catalogs stand at the
[end](#the-catalogs-of-the-examples). Names without quotes mean the declared name in any case; names in quotes mean
exactly that name.

A query has a *privacy boundary*: its lowest aggregates over the rows of different privacy units. Below the boundary
each row belongs to one unit, above it everything is computed from noisy numbers. The
[pipeline](../concepts/pipeline.md) page explains why.

Rows of people have [weights](../concepts/weights.md): those of one unit in a table weigh `max_rows` together, in every
query. `COUNT(*)` adds up weights, `SUM(x)` weighs each x, averages, quantiles and modes are those of weighed rows; so
parts add up to totals. `COUNT(DISTINCT unit)` counts units, and one row of each unit weighs 1.

A [synopsis](../how-to/make-a-synopsis.md) is a public table of the schema `synopsis`: `SELECT * FROM synopsis.visits`
is free, in all of this SQL, beside public tables and other synopses; together with a private table it is refused.
"""


def _clauses(engine: Engine) -> Iterator[str]:
    answers = {what: engine.ask(sql) for what, sql in CLAUSES.items()}
    yield "## What is answered\n"
    yield from _table(("what", "example"), ((what, _code(a.sql)) for what, a in answers.items() if a.error is None))
    yield "\n## What is refused\n"
    yield "The message is what the engine says; below it stand the place and, mostly, what to write instead.\n"
    refused = ((what, _code(a.sql), _reason(a)) for what, a in answers.items() if a.error is not None)
    yield from _table(("what", "example", "message"), refused)
    yield ""


def _rows(engine: Engine) -> Iterator[str]:
    yield "## Where each row is a privacy unit\n"
    yield "With `privacy_unit: row`, no operation may turn one row into several or mix two rows below the boundary.\n"
    answers = ((what, engine.ask(sql, engine.rows)) for what, sql in ROW_CLAUSES.items())
    yield from _table(("what", "example", ""), ((what, _code(a.sql), _reason(a) or "answered") for what, a in answers))
    yield ""


def _aggregates(engine: Engine) -> Iterator[str]:
    yield """\
## Aggregates

*Over people* is the privacy boundary: the aggregate is measured with noise, and the column says what is measured. Equal
measurements of one query are made and charged once. *Within one unit* (below the boundary) and *over noisy groups*
(above it) aggregates are computed without further noise.

Sums of integers are decimals, as PostgreSQL's `sum(bigint)` is numeric: `decimal(32,0)`, 13 digits more than a bigint
has. They overflow nowhere, and `COUNT(*) / SUM(COUNT(*)) OVER ()` is a fraction. A sum of `decimal(p,s)` has 13 digits
more too, up to 38; one that may need more is refused with the advice to clamp. A quotient with a decimal in it is a
float64. `to_arrow()` has decimals, `to_pandas()` int64 where all numbers of a column fit.

Booleans count as 0 and 1. Aggregates of two numbers take *y* before *x* and skip pairs with a NULL; over people,
`REGR_R2` is NULL where the noisy spread of either is not positive. `COUNT(DISTINCT a, b)` skips combinations with a
NULL, `COUNT(DISTINCT (a, b))` counts them. Exact aggregates never depend on how rows are stored: `ANY_VALUE` is the
least value, `FIRST` and `LAST` need an `ORDER BY` whose NULLs stand at the other end, rows that tie give the least
value, `ARG_MIN` and `ARG_MAX` skip rows with a NULL in either argument, and `STRING_AGG` joins texts in their own
order.
"""
    rows = []
    for call in AGGREGATES:
        over = engine.ask(f"SELECT {call} AS x FROM labs")
        within = engine.ask(f"SELECT COUNT(x) AS n FROM (SELECT id, {call} AS x FROM labs GROUP BY id) AS t")
        counts = ", ".join(f"COUNT(*) AS {name}" for name in ("id", "value", "lab", "cost"))
        inner = f"SELECT test, id, value, lab, cost, urgent FROM (SELECT test, {counts}, COUNT(*) > 9 AS urgent"
        above = engine.ask(f"SELECT {call} AS x FROM ({inner} FROM labs GROUP BY test) AS t) AS noisy")
        said = ", ".join(_code(label) for label in over.measures) if over.error is None else "refused"
        rows.append((_code(call), said, *("yes" if a.error is None else "refused" for a in (within, above))))
    yield from _table(("aggregate", "over people: measured with noise", "within one unit", "over noisy groups"), rows)
    yield "\nWhat each gives, of the rows that `FILTER` leaves:\n"
    meant = ((_code(found.shown), found.doc) for found in KNOWN.values())
    yield from _table(("aggregate", "value"), meant)
    yield f"""
Quantiles, `MIN`, `MAX` and `MODE` over people *choose* a value (by permute-and-flip under a budget of epsilon,
else by the exponential mechanism) instead of adding noise to it: a value is likelier the nearer its rank is to the
rank asked for. Their error is one of ranks, so `explain` gives
`scale` and `error95` in ranks, and an answer has no interval for them: how far apart values of neighbouring ranks are
depends on the data. They need bounds, as `SUM` does, and give a value within them; over no rows they give a random one.

- `QUANTILE_CONT` and `QUANTILE_DISC` are one measurement over people, because they differ by less than a rank. `_CONT`
  of numbers gives a float64; of dates and timestamps it is `_DISC`. A fraction has a denominator of at most
  {FINEST_TARGET:,}; several quantiles of one value come in the order of their fractions.
  Three and more of them are chosen together, each among the values between those chosen before: what they pay is put
  together and serves each level of that tree, so that seven cost as much as three would alone, and 99 as much as seven.
- The k most frequent values are groups: `GROUP BY x ORDER BY COUNT(*) DESC LIMIT k`. One grouped count pays for any k;
  sorting and cutting noisy groups is free.
- The least value is that of a single person, and no mechanism may show it. `MIN` asks for the K-th smallest value, K =
  1 + 2 m ln(20 N) / epsilon for N points of the lattice, where the rows of one person weigh at most m. It is seldom
  below the least, and the larger the loss, the nearer K is to 1. `MAX` is its mirror image. For a bound of typical
  values, ask for `QUANTILE_DISC(x, 0.99)` instead.
- `MODE` chooses among public values, as a key has them (below); of values that are equally frequent the least is
  first. Within one unit all of these are exact.
"""


def _windows() -> Iterator[str]:
    yield f"""\
## Window functions

{", ".join(f"`{name.upper()}`" for name in sorted(WINDOW_FUNCTIONS))}, with frames of `ROWS`, `GROUPS` and
(without offsets) `RANGE`; aggregates with `FILTER`. They are computed after `GROUP BY` and `HAVING`, before `DISTINCT`,
`ORDER BY` and `LIMIT`.

- Below the privacy boundary `PARTITION BY` holds the privacy unit's column. A row number of the unit's rows that
  `QUALIFY` or `WHERE` limits (`= 1`, `<= k`) bounds how many rows a unit has, and so the noise. `DISTINCT ON` does too.
- Above it, windows may span all noisy groups. Values of other groups (`LAG`), running sums and moving averages have
  [intervals](../concepts/accuracy.md#intervals) where no noise decides which groups are there and in which order.
- Rows that the window's `ORDER BY` leaves equal are ordered by all columns that it or what comes after it reads, so the
  same rows give the same answer. Ranks and frames of `RANGE` and `GROUPS` still treat them as equal.
- `SUM` and `AVG` in a window are exact: each float is clamped to ±10^17 and rounded to ten decimal places before it is
  added, each decimal is clamped to 28 digits.
- Offsets of `LAG` and `LEAD`, and the numbers of `NTILE`, `NTH_VALUE` and frames, are constants.
"""


def _prices(engine: Engine) -> Iterator[str]:
    yield """\
### Price and error

What each aggregate costs where it stands alone, over the lab values of all patients, of which one patient weighs at
most 20: an epsilon of 1 is shared by the measurements of the line; the terms of one vector, and halves with opposite
filters, have all of it each. *l1* and *linf* say how far one patient moves a measurement, or its vector. 95 % of the
noise is at most *error95*, in the measurement's own unit; the error of a mean, a covariance or a slope follows from
these and from the number of rows, and `accuracy` of an answer has its interval. Measurements that several aggregates
of one query share are made once: `AVG`, `VAR_POP`, `CORR` and `REGR_SLOPE` of the same two columns cost no more than
`CORR` alone.
"""
    rows = []
    for call in PRICED:
        made = engine.price(call)
        measured = (
            "<br>".join(_code(one.label) for one in made),
            *("<br>".join(amount(norm) for norm in norms) for norms in ([m.l1 for m in made], [m.linf for m in made])),
            "<br>".join(figure(one.error95) for one in made),
        )
        rows.append((_code(call), *measured))
    yield from _table(("aggregate", "measured", "l1", "linf", "error95"), rows)
    yield ""


def _keys(engine: Engine) -> Iterator[str]:
    yield f"""\
## Group keys

The groups of a `GROUP BY` are *public* where they follow from the declarations: all of them appear in the answer, also
those without rows, and rows with other values (NULL among them) are left out. Otherwise groups are *selected*: one
appears if its noisy number of units reaches a threshold, which costs delta. One key has at most {MAX_KEYS:,} public
values, and one aggregation at most {MAX_GROUPS:,} public groups; keys that make more are selected.

Groups are all combinations of the keys' values, but for keys that *follow from each other*: columns of one public
table have the combinations that stand in its rows, also through joins of public tables on equal columns, and functions
of one column, such as the month and the day of a date, have those that its values give. They are one list of values.

Grouping a subquery by a one-to-one function of the unit's column, such as `CAST(id AS text)`, `id + 1` or `COALESCE(id,
-1)`, is grouping it by the unit, and `COUNT(DISTINCT ...)` of one counts units.
"""
    rows = []
    for what, key in KEYS.items():
        table = "labs" if any(name in key for name in ("test", "taken", "lab")) else "patients"
        answer = engine.ask(f"SELECT {key} AS k, COUNT(*) AS n FROM {table} GROUP BY 1")
        said = "refused" if answer.error is not None else "selected" if answer.selected else "public"
        rows.append((what, _code(f"GROUP BY {key}"), said))
    yield from _table(("key", "example", "groups are"), rows)
    yield ""


def _functions() -> Iterator[str]:
    yield """\
## Operators and functions

Every expression has a value on every row, or NULL; none can fail. Integer overflow, division by zero, arguments outside
a function's domain and casts that do not fit give NULL, NaN counts as NULL, and -0.0 as 0.0. Unless the table says
otherwise, NULL in gives NULL out. *number* is int64, decimal or float64. Texts and numbers that stand as `'x'` and
`7` in an example must be constants; patterns are constants for an engine of linear time.
"""
    rows = (
        (_code(function.sql), arguments_of(name), result_of(name), function.doc) for name, function in FUNCTIONS.items()
    )
    yield from _table(("SQL", "takes", "gives", "meaning"), rows)
    yield """
`a BETWEEN b AND c`, `CASE`, `CAST(a AS type)`, `a::type`, `IF`, `CURRENT_DATE` and `CURRENT_TIMESTAMP` are known too.
The last two are read when the query is planned, on the clocks of the catalog's zone, or in UTC where no column declares
one. Where all columns that declare a zone declare the same, constants with a zone are turned to it, and `AT TIME ZONE`
with it changes nothing; with another zone, or where columns differ, both are refused.
`a NOT LIKE 'x'`, `a NOT IN (1)` and the like negate. Other
dialects' names of these operations work in their dialect, such as `DATE_DIFF` and `LEN` in `dialect="duckdb"`.

The difference of two timestamps is an interval, that of two dates a number of days. Intervals are compared with each
other and with `INTERVAL '30 days'`, move timestamps, may be NULL, and have MIN, MAX, SUM, AVG and quantiles.
A text beside one, as '3 days' or '08:30', is read as one. `EXTRACT(EPOCH FROM b - a)` is the seconds of one,
`EXTRACT(DAY FROM b - a)` its full days, `CAST(b - a AS bigint)` its microseconds. A column of a subquery may be one; a
column of the answer may not. `CAST(a AS time)` of a timestamp is the interval since midnight, compared with
`TIME '08:30'` and with other times of day. Of `AGE(b, a)` the years and months are known: `EXTRACT(YEAR FROM
AGE(b, a))` is the full years between two dates, `EXTRACT(MONTH FROM AGE(b, a))` the months beyond them; other uses are
refused.

The patterns of `TO_CHAR` are PostgreSQL's: `YYYY YY IYYY Q MM Mon Month IW DD DDD ID Dy Day HH24 HH12 AM MI SS`.
`Month` and `Day` have nine characters, `FMMonth` and `FMDay` as many as the name, `FMDD` no zero in front; `MONTH` and
`month` are names in capital and in small letters. Other text is in double quotes.
"""


def _types(engine: Engine) -> Iterator[str]:
    yield "## Types in casts\n"
    known, unknown = [], []  # type: ignore[var-annotated]
    for name in TYPE_NAMES:
        written = name.replace("(p,s)", "(10,2)").replace("(n)", "(5)")
        answer = engine.ask(f"SELECT COUNT(CAST(town AS {written})) AS n FROM patients")
        (unknown if answer.error is not None else known).append(_code(name))
    yield f"Known: {', '.join(known)}. Unknown, and refused: {', '.join(unknown)}."
    yield ""


def _limits() -> Iterator[str]:
    yield """\
## Limits

All but the cut of long texts are checked before a private row is read and before anything is charged.
"""
    rows = (
        ("length of a query", f"{parse.MAX_CHARACTERS // 1024} KiB of UTF-8"),
        ("words and signs", f"{parse.MAX_TOKENS:,}"),
        ("nested brackets", f"{parse.MAX_DEPTH}"),
        ("depth of the parsed query", f"{parse.MAX_TREE_DEPTH}"),
        ("length of a text constant", f"{parse.MAX_STRING:,} characters"),
        ("columns of a result", f"{MAX_COLUMNS}"),
        ("joins of one SELECT", f"{MAX_JOINS}"),
        ("tables that a query reads, each use of a WITH counted", f"{MAX_TABLES}"),
        ("parts of expressions, written out over stored columns", f"{MAX_SIZE:,}"),
        ("public values of one key", f"{MAX_KEYS:,}"),
        ("public groups of one aggregation", f"{MAX_GROUPS:,}"),
        ("`max_groups` and `max_rows` of a query", "1,000,000"),
        ("stored text", f"`max_length` of its column ({LONGEST_TEXT:,} characters); what is beyond is cut off"),
        ("text that an operation makes", f"{TEXT_LIMIT:,} characters; it reads no more of its arguments than fit"),
        ("work that one stored row may cause", f"`work` of the catalog, {WORK:,} steps by default"),
        ("text that one stored row may have in memory", f"{TEXTS // 1_000_000} MB"),
        ("pattern of LIKE or a regular expression", "200 characters"),
        ("counts in a regular expression", f"{MAX_COUNT}"),
        ("buckets of `WIDTH_BUCKET`", f"{rounding.BUCKETS:,}"),
        ("digits of `ROUND`", f"{rounding.DIGITS}"),
        ("digits of a decimal", "38"),
    )
    yield from _table(("limit", "value"), rows)
    yield ""


def _examples() -> Iterator[str]:
    yield "## The catalogs of the examples\n"
    for text in (CATALOG, ROWS):
        yield f"```yaml\n{text}```\n"


def _reason(answer: Answer) -> str:
    if answer.error is None:
        return ""
    return f"{type(answer.error).__name__}: {_plain(answer.error.reason)}"


def _code(text: str) -> str:
    return f"`{_plain(text)}`"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    sys.exit(main())
