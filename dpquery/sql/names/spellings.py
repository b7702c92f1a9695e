"""Forms that say the same in other words: what a dialect means by them is said in forms that are known everywhere."""

from __future__ import annotations

from sqlglot import exp

from dpquery.sql.names.date_bins import cut, in_bins
from dpquery.sql.names.date_intervals import as_moment
from dpquery.sql.names.lists import element, ratio_to_report
from dpquery.sql.names.times import compared_times

_SUNDAY_IS_1 = frozenset({"bigquery", "mysql", "singlestore", "spark", "spark2", "databricks", "hive", "oracle"})
_LENGTH_WITHOUT_SPACES = frozenset({"tsql", "fabric"})


def rewritten(node: exp.Expression, dialect: str) -> exp.Expression:
    """Returns the form that says here what the given one says in its dialect."""
    made = _rewritten(node, dialect)
    if made is not node:
        made.parent = node.parent
    return made


def _rewritten(node: exp.Expression, dialect: str) -> exp.Expression:
    match node:
        case exp.Length() if dialect in _LENGTH_WITHOUT_SPACES:
            return exp.Length(this=exp.Trim(this=node.this.copy(), position="TRAILING"))
        case exp.Date() if not any(value for key, value in node.args.items() if key != "this"):
            return exp.Cast(this=node.this.copy(), to=exp.DataType.build("date"))
        case exp.RawString():
            return exp.Literal.string(node.name)
        case exp.Dayname() | exp.Monthname():
            form = "a" if isinstance(node, exp.Dayname) else "b"
            form = form if node.args.get("abbreviated") else form.upper()
            return exp.TimeToStr(this=node.this.copy(), format=exp.Literal.string(f"%{form}"))
        case exp.DateTrunc() | exp.TimestampTrunc() if _begins_on_monday(node.args.get("unit")):
            return cut(node.this.copy(), "ISOWEEK")
        case exp.Extract() if dialect in _SUNDAY_IS_1 and node.name.lower() == "dayofweek":
            return _from_sunday(node.expression)
        case exp.DayOfWeek() if dialect in _SUNDAY_IS_1:
            return _from_sunday(node.this)
        case exp.DateBin() | exp.TimeSlice():
            return in_bins(node) or node
        case exp.Bracket():
            return element(node) or node
        case exp.Window():
            return ratio_to_report(node) or node
        case exp.Between() | exp.Binary() if any(isinstance(part, exp.Cast) for part in node.iter_expressions()):
            return compared_times(node) or node
        case _:
            return node


def _begins_on_monday(unit: object) -> bool:
    return isinstance(unit, exp.WeekStart) and unit.name.upper() == "MONDAY"


def _from_sunday(date: exp.Expression) -> exp.Expression:
    """Returns the day of the week, 1 for Sunday."""
    iso = exp.Extract(this=exp.var("ISODOW"), expression=as_moment(date).copy())
    return exp.Paren(
        this=exp.Add(this=exp.Mod(this=iso, expression=exp.Literal.number(7)), expression=exp.Literal.number(1))
    )
