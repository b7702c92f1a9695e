"""The text of `DataFrame.query` as a condition of SQL: parsed, never evaluated.

Known are comparisons (also chained), `and`, `or`, `not`, `&`, `|`, `~`, `in` and `not in` a list, arithmetic,
constants, columns (in backticks where they are no identifiers) and `@name` for a value in `local_dict`. Calls,
attributes and everything else of Python are refused. Missing values behave as in pandas: a comparison with one is False
(of `!=` True), or unknown where the column's dtype says so, as `Int64` does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpquery.catalog.names import shown
from dpquery.errors import QueryError, QuerySyntaxError, Span, UnsupportedQueryError
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.values import known, plain, quoted

LONGEST = 10_000
_PARTS = re.compile(
    r"""(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<tick>`[^`\n]*`)|(?P<local>@[A-Za-z_]\w*)|(?P<both>&)|(?P<either>\|)"""
)
_COMPARISONS = {ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_ADVICE = "Write comparisons of columns and constants, joined by and, or, not; a list follows in."


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of SQL, and the values of its parameters."""

    text: str
    params: dict[str, object]


@dataclass(slots=True)
class _Reading:
    """One text being read: its columns, the values so far, and what the names made for it stand for."""

    text: str
    columns: Mapping[str, FrameColumn]
    why_not: Mapping[str, str]
    locals: Mapping[str, object]
    first: int
    params: dict[str, object] = field(default_factory=dict)
    ticks: dict[str, str] = field(default_factory=dict)
    is_verbatim: bool = False

    def span(self, node: ast.AST | None) -> Span | None:
        """Returns a node's place in the text, where Python read the text as it was written."""
        if node is None or not self.is_verbatim or not isinstance(node, ast.expr):
            return None
        return Span(node.col_offset, node.end_col_offset or node.col_offset + 1)

    def refused(self, reason: str, node: ast.AST | None = None, advice: str = _ADVICE) -> QueryError:
        """Returns the refusal."""
        return UnsupportedQueryError(reason, advice=advice, span=self.span(node)).locate(self.text)

    def value(self, value: object) -> str:
        """Returns the parameter that stands for a value."""
        name = f"dp{self.first + len(self.params)}"
        self.params[name] = value
        return f":{name}"

    def column(self, node: ast.expr) -> FrameColumn | None:
        """Returns the column that a node names, or None where it is not a name."""
        if not isinstance(node, ast.Name):
            return None
        name = self.ticks.get(node.id, node.id)
        if name.startswith("@"):
            return None
        try:
            return self.columns[known(name, self.columns, dict(self.why_not))]
        except QueryError as error:
            error.span = self.span(node)
            raise error.locate(self.text) from None


def condition_of(
    text: str,
    columns: Mapping[str, FrameColumn],
    *,
    why_not: Mapping[str, str],
    local_dict: Mapping[str, object],
    first: int,
) -> Condition:
    """Returns the condition that a text of `DataFrame.query` means.

    Args:
        columns: The columns that it may name.
        why_not: Columns that it may not, with the reason.
        local_dict: The values of its `@name`s.
        first: The number of its first parameter.
    Raises:
        QuerySyntaxError: It is not an expression.
        UnsupportedQueryError: It holds what is not known.
        UnknownNameError: It names no column.
    """
    if not isinstance(text, str):
        raise UnsupportedQueryError(f"a condition must be a string, not {type(text).__name__}", advice=_ADVICE)
    if len(text) > LONGEST:
        raise QuerySyntaxError(f"the condition is longer than {LONGEST} characters")
    reading = _Reading(text, columns, why_not, local_dict, first)
    try:
        tree = ast.parse(_prepared(reading).strip(), mode="eval")
        return Condition(_boolean(tree.body, reading, negated=False), reading.params)
    except (SyntaxError, ValueError):
        raise QuerySyntaxError("the condition is not an expression", advice=_ADVICE) from None
    except (RecursionError, MemoryError):
        raise QuerySyntaxError("the condition is nested too deeply") from None


def _prepared(reading: _Reading) -> str:
    """Returns Python's form of the text: names in backticks and `@names` replaced, `&` and `|` as and, or."""

    def replaced(part: re.Match[str]) -> str:
        if part["text"]:
            return part[0]
        if part["both"] or part["either"]:
            return " and " if part["both"] else " or "
        name = f"dpquery_name_{len(reading.ticks)}_"
        reading.ticks[name] = part[0][1:-1] if part["tick"] else part[0]
        return name

    if "dpquery_name_" in reading.text:
        raise QuerySyntaxError("the condition uses a name reserved by dpquery")
    prepared = _PARTS.sub(replaced, reading.text)
    reading.is_verbatim = prepared == reading.text.lstrip() and prepared.isascii()
    return prepared


def _boolean(node: ast.expr, reading: _Reading, *, negated: bool) -> str:
    """Returns a condition; under a negation one that is never NULL where pandas would say False."""
    match node:
        case ast.BoolOp(op=op, values=values):
            word = " AND " if isinstance(op, ast.And) else " OR "
            return "(" + word.join(_boolean(value, reading, negated=negated) for value in values) + ")"
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            return f"(NOT {_boolean(operand, reading, negated=True)})"
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [left, *comparators]
            made = [_comparison(sides[i], op, sides[i + 1], reading, node, negated=negated) for i, op in enumerate(ops)]
            return made[0] if len(made) == 1 else "(" + " AND ".join(made) + ")"
        case ast.Constant(value=bool() as truth):
            return "TRUE" if truth else "FALSE"
        case ast.Name():
            column = reading.column(node)
            if column is not None and column.type == "boolean":
                is_two_valued = not (negated and column.nullable) or column.is_missing_unknown
                return quoted(column.name) if is_two_valued else f"COALESCE({quoted(column.name)}, FALSE)"
            raise reading.refused("a condition must be a boolean column", node)
    raise _unknown(node, reading)


def _comparison(
    left: ast.expr, op: ast.cmpop, right: ast.expr, reading: _Reading, whole: ast.expr, *, negated: bool
) -> str:
    listed = isinstance(right, ast.List | ast.Tuple | ast.Set)
    typed = _column_of(left, reading) or _column_of(right, reading)
    if isinstance(op, ast.In | ast.NotIn) or (listed and isinstance(op, ast.Eq | ast.NotEq)):
        return _membership(left, right, reading, is_not=isinstance(op, ast.NotIn | ast.NotEq), negated=negated)
    if type(op) not in _COMPARISONS:
        raise reading.refused(
            "is compares objects, not values", whole, "Write == or !=; x == x holds where x is not missing."
        )
    a, b = _value(left, reading, typed), _value(right, reading, typed)
    made = f"({a} {_COMPARISONS[type(op)]} {b})"
    if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (left, right)):
        if isinstance(op, ast.NotEq):  # beside a text, pandas reads == and != as in and not in
            return f"COALESCE({made}, TRUE)"
        if isinstance(op, ast.Eq):
            return f"COALESCE({made}, FALSE)" if negated else made
    return _as_pandas(made, [left, right], reading, type(op), negated=negated)


def _membership(left: ast.expr, right: ast.expr, reading: _Reading, *, is_not: bool, negated: bool) -> str:
    column = _column_of(left, reading)
    values: list[object] = []
    if isinstance(right, ast.List | ast.Tuple | ast.Set):
        values = [_constant(item, reading) for item in right.elts]
    elif isinstance(right, ast.Name) and reading.ticks.get(right.id, "").startswith("@"):
        given = _local(right, reading)
        if not isinstance(given, list | tuple | set | frozenset):
            raise reading.refused("`in` must be followed by a list", right)
        values = list(given)
    else:
        raise reading.refused("`in` must be followed by a list of constants", right)
    if column is None:
        raise reading.refused("`in` must follow a column", left)
    kept = [value for value in (plain(value, column) for value in values) if value is not None]
    if len(kept) < len(values):
        raise reading.refused("a missing value in a list", right, "Write x != x for where x is missing.")
    inside = f"({quoted(column.name)} IN ({', '.join(reading.value(v) for v in kept)}))" if kept else "FALSE"
    if is_not:
        return f"(NOT COALESCE({inside}, FALSE))"
    return f"COALESCE({inside}, FALSE)" if negated else inside


def _as_pandas(comparison: str, sides: list[ast.expr], reading: _Reading, op: type[ast.cmpop], *, negated: bool) -> str:
    """Returns the comparison with pandas' meaning of missing values."""
    used = [column for side in sides for column in _columns_in(side, reading)]
    if not any(column.nullable for column in used) or any(column.is_missing_unknown for column in used):
        return comparison
    if op is ast.NotEq:
        return f"COALESCE({comparison}, TRUE)"
    return f"COALESCE({comparison}, FALSE)" if negated else comparison


def _value(node: ast.expr, reading: _Reading, typed: FrameColumn | None) -> str:
    """Returns a value; a constant beside a column of dates is read as one."""
    match node:
        case ast.Name():
            column = reading.column(node)
            if column is not None:
                return quoted(column.name)
            given = _local(node, reading)
            return reading.value(plain(given, typed) if typed is not None else given)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return reading.value(plain(value, typed) if typed is not None and not isinstance(value, bool) else value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{_value(operand, reading, typed)})"
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, reading, typed)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(_value(left, reading, typed), op, _value(right, reading, typed), reading, node)
    raise _unknown(node, reading)


def _arithmetic(a: str, op: ast.operator, b: str, reading: _Reading, node: ast.expr) -> str:
    if type(op) in _SIGNS:
        return f"({a} {_SIGNS[type(op)]} {b})"
    match op:
        case ast.Div():
            return f"(CAST({a} AS DOUBLE PRECISION) / {b})"
        case ast.FloorDiv():
            return f"FLOOR(CAST({a} AS DOUBLE PRECISION) / {b})"
        case ast.Mod():
            return f"MOD(MOD({a}, {b}) + {b}, {b})"
        case ast.Pow():
            return f"POWER({a}, {b})"
    raise reading.refused("this operator is not supported here", node)


def _constant(node: ast.expr, reading: _Reading) -> object:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Name() if reading.ticks.get(node.id, "").startswith("@"):
            return _local(node, reading)
    raise reading.refused("a list can only contain constants", node)


def _local(node: ast.Name, reading: _Reading) -> object:
    name = reading.ticks[node.id][1:]
    if name not in reading.locals:
        advice = f"Give it: query(..., local_dict={{{name!r}: ...}})."
        raise reading.refused(
            f"the value of @{name} is not given; variables around the call are not read", node, advice
        )
    return reading.locals[name]


def _column_of(node: ast.expr, reading: _Reading) -> FrameColumn | None:
    return reading.column(node) if isinstance(node, ast.Name) else None


def _columns_in(node: ast.expr, reading: _Reading) -> list[FrameColumn]:
    found = (reading.column(part) for part in ast.walk(node) if isinstance(part, ast.Name))
    return [column for column in found if column is not None]


def _unknown(node: ast.expr, reading: _Reading) -> QueryError:
    """Returns the refusal of what people write most and is not known, each with what to write instead."""
    match node:
        case ast.Call() | ast.Attribute() | ast.Subscript():
            what = {ast.Call: "calls", ast.Attribute: "attributes", ast.Subscript: "brackets"}[type(node)]
            return reading.refused(f"{what} are not supported in a condition", node)
        case ast.Constant(value=None):
            advice = "Write x == x for where x is not missing, x != x for where it is."
            return reading.refused("None is not a value here", node, advice)
        case ast.BoolOp() | ast.Compare():
            return reading.refused(
                "a condition is not a value here", node, "Put the comparisons beside and, or: & binds as and."
            )
        case _:
            return reading.refused(f"{shown(type(node).__name__)} has no meaning here", node)
