"""Where dialects give one form two meanings: it is read as its dialect means it, or refused.

Each set names the dialects in which a form means what it means here; in any other it is refused, with what to write
instead. Comparisons of texts (by code points), LIKE's escapes, names of units and the rounding of halves (to even for
floats) are those of PostgreSQL in all.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.expr import Expression
from dpquery.plan.types import DATE, INT64, TEXT, Kind, Type

_POSTGRES = frozenset({"postgres", "redshift", "materialize", "risingwave", "duckdb", "snowflake"})
_SUNDAY_IS_0 = _POSTGRES
_ISO_WEEKS = _POSTGRES | {"spark", "spark2", "databricks", "hive", "trino", "presto", "athena", "sqlite"}
_COUNTS_FROM_BEFORE = frozenset({"postgres", "redshift", "materialize", "risingwave", "tsql"})
_DATES_SUBTRACT = _POSTGRES | {"oracle"}
_DATES_AND_DAYS = _DATES_SUBTRACT | {"bigquery", "spark", "spark2", "databricks"}
_CUTS_TO_INTEGERS = frozenset({"tsql", "fabric", "spark", "spark2", "databricks", "hive", "sqlite", "clickhouse"})
_BYTES = frozenset({"mysql", "singlestore", "starrocks", "doris"})
_COUNTS_BOUNDARIES = _POSTGRES | {"tsql", "fabric", "bigquery"}
_WEEKS = ("week", "weekofyear", "isoweek")
_DAYS_OF_WEEK = ("dow", "dayofweek", "weekday")

Objection = tuple[str, str]
"""Why a form is refused, and what to write instead."""


def objection(node: exp.Expression, dialect: str) -> Objection | None:
    """Returns why a form is refused in its dialect, or None."""
    match node:
        case exp.DPipe() | exp.Concat() if dialect == "oracle":
            return "oracle joins NULL to texts as nothing", "Ask in another dialect, with COALESCE where NULL may be."
        case exp.Literal() if dialect == "oracle" and node.is_string and not node.this:
            return "an empty text is NULL in oracle", "Ask in another dialect, or write NULL."
        case exp.Greatest() | exp.Least() if dialect in ("oracle", "sqlite"):
            return f"NULL among the arguments makes it NULL in {dialect}", "Write CASE."
        case exp.Length() if node.args.get("binary") and dialect in _BYTES:
            return f"LENGTH counts bytes in {dialect}", "Write CHAR_LENGTH."
        case exp.Substring() if dialect not in _COUNTS_FROM_BEFORE and not _is_positive(node.args.get("start")):
            return f"{dialect} counts a start below 1 from the end", "Write RIGHT, or a positive number."
        case exp.DayOfWeek() if dialect not in _SUNDAY_IS_0:
            return f"{dialect} numbers the days of the week its own way", "Write EXTRACT(ISODOW FROM ...)."
        case exp.Extract() if dialect not in _SUNDAY_IS_0 and node.name.lower() in _DAYS_OF_WEEK:
            return f"{dialect} numbers the days of the week its own way", "Write EXTRACT(ISODOW FROM ...)."
        case exp.Week() if dialect not in _ISO_WEEKS:
            return f"weeks of {dialect} are not those of ISO 8601", "Write WEEKOFYEAR, or EXTRACT(DOY FROM ...)."
        case exp.Extract() if dialect not in _ISO_WEEKS and node.name.lower() == "week":
            return f"weeks of {dialect} are not those of ISO 8601", "Write WEEKOFYEAR, or EXTRACT(DOY FROM ...)."
        case exp.DateTrunc() | exp.TimestampTrunc() if dialect not in _ISO_WEEKS and _unit(node) == "week":
            return f"weeks of {dialect} do not begin on Monday", "Ask in another dialect."
        case _:
            return None


def objection_to_types(
    name: str, arguments: Sequence[Expression], node: exp.Expression, dialect: str
) -> Objection | None:
    """Returns why an operation on arguments of these types is refused in its dialect, or None."""
    kinds = [argument.type.kind for argument in arguments]
    if name in ("add", "subtract") and Kind.DATE in kinds and isinstance(node, exp.Add | exp.Sub):
        known = _DATES_SUBTRACT if kinds == [Kind.DATE, Kind.DATE] else _DATES_AND_DAYS
        if dialect not in known and not isinstance(node.expression, exp.Interval):
            return f"{dialect} does not count in days when it adds to dates", "Write DATE_ADD or DATEDIFF."
    if name == "date_diff" and dialect not in _COUNTS_BOUNDARIES and not node.args.get("date_part_boundary"):
        in_days = node.args.get("unit") is None or _unit(node) == "day"
        if not (in_days and all(argument.type in (DATE, TEXT) for argument in arguments)):
            return f"{dialect} counts whole units of time", "Write a difference of days between dates."
    return None


def before_cast(argument: Expression, target: Type, dialect: str) -> Expression:
    """Returns what is cast: numbers cut to integers first, where the dialect's casts cut rather than round."""
    fraction = argument.type.kind in (Kind.FLOAT64, Kind.DECIMAL)
    if target == INT64 and fraction and dialect in _CUTS_TO_INTEGERS:
        return functions.call("trunc", (argument,), argument.span)
    return argument


def _unit(node: exp.Expression) -> str:
    unit = node.args.get("unit")
    return unit.name.lower() if isinstance(unit, exp.Expression) else ""


def _is_positive(node: object) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) > 0
