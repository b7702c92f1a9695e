"""Expressions and relations as text for people: in labels, messages and `explain`. Nothing parses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, substitute
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    WindowColumn,
    output,
    sources,
)
from dpquery.plan.remembered import remembered
from dpquery.plan.types import DATE, FLOAT64, TIMESTAMP

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "int_divide": "/",
    "modulo": "%",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
    "concat": "||",
    "like": "LIKE",
    "ilike": "ILIKE",
    "is_distinct_from": "IS DISTINCT FROM",
}


@remembered
def names_of(relation: Relation) -> Mapping[str, Expression]:
    """Returns what each id anywhere in the relation stands for, over the names of stored columns and aggregates."""
    found: dict[str, Expression] = {}
    for source in sources(relation):
        found |= names_of(source)
    match relation:
        case Scan():
            unit = relation.ownership.column if relation.ownership is not None else ""
            for column in output(relation):
                found[column.id] = Column(id=column.name or unit, type=column.type)
        case Released():
            found |= {column.id: Column(id=column.name or column.id, type=column.type) for column in relation.columns}
        case Project():
            found |= {c.id: found.get(c.id) or substitute(c.expression, found) for c in relation.columns}
        case Aggregate():
            for a in relation.aggregates:
                found[a.id] = Column(id=show_aggregate(a, found), type=a.type)
        case SetOperation():
            found |= {c.id: Column(id=c.name, type=c.type) if c.name else found[c.left] for c in relation.columns}
        case Values():
            found |= {c.id: Column(id=c.name or c.id, type=c.type) for c in relation.columns}
        case Window():
            found |= {c.id: Column(id=show_window(c, found), type=c.type) for c in relation.columns}
        case Filter() | Join() | Sort() | Limit():
            pass
        case _:
            assert_never(relation)
    return found


def show_window(column: WindowColumn, names: Mapping[str, Expression]) -> str:
    """Returns a window function as SQL writes it."""

    def named(id: str) -> str:
        known = names.get(id)
        return id if known is None else _show(known)

    arguments = ", ".join(show(argument, names) for argument in column.arguments)
    kept = "" if column.filter is None else f" FILTER (WHERE {show(column.filter, names)})"
    over = []
    if column.partition_by:
        over.append("PARTITION BY " + ", ".join(named(id) for id in column.partition_by))
    if column.order_by:
        keys = (named(key.column) + (" DESC" if key.descending else "") for key in column.order_by)
        over.append("ORDER BY " + ", ".join(keys))
    if column.frame is not None:
        ends = _end(column.frame.start, "PRECEDING"), _end(column.frame.end, "FOLLOWING")
        over.append(f"{column.frame.mode.upper()} BETWEEN {ends[0]} AND {ends[1]}")
    if column.function == "count" and not column.arguments:
        arguments = "*"
    return f"{column.function.upper()}({arguments}){kept} OVER ({' '.join(over)})"


def _end(rows: int | None, open_side: str) -> str:
    if rows is None:
        return f"UNBOUNDED {open_side}"
    if rows == 0:
        return "CURRENT ROW"
    return f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"


def show_aggregate(column: AggregateColumn, names: Mapping[str, Expression]) -> str:
    """Returns an aggregate as SQL writes it."""
    argument = "*" if column.argument is None else show(column.argument, names)
    if column.second is not None:
        chosen = column.function in ("first", "last")
        argument += f"{' ORDER BY' if chosen else ','} {show(column.second, names)}"
    if column.fraction is not None:
        argument += f", {float(column.fraction):g}"
    function, distinct = column.function.upper(), ""
    if column.function.endswith("_distinct"):
        function, distinct = function.removesuffix("_DISTINCT"), "DISTINCT "
    kept = "" if column.filter is None else f" FILTER (WHERE {show(column.filter, names)})"
    return f"{function}({distinct}{argument}){kept}"


def show(expression: Expression, names: Mapping[str, Expression]) -> str:
    """Returns an expression as SQL would write it, with names instead of ids."""
    return _show(substitute(expression, dict(names)))


def _show(expression: Expression) -> str:
    match expression:
        case Column():
            return expression.id
        case Literal():
            return _literal(expression)
        case Cast() if _widens(expression):
            return _show(expression.argument)
        case Cast():
            return f"CAST({_show(expression.argument)} AS {expression.type})"
        case Case():
            arms = " ".join(f"WHEN {_show(c)} THEN {_show(r)}" for c, r in expression.branches)
            return f"CASE {arms} ELSE {_show(expression.otherwise)} END"
        case Call():
            return _call(expression)
        case _:
            assert_never(expression)


def _widens(cast: Cast) -> bool:
    """Whether a cast loses nothing worth telling: most of these are put in by typing."""
    given = cast.argument.type
    return (given.is_numeric and cast.type == FLOAT64) or (given == DATE and cast.type == TIMESTAMP)


def _literal(literal: Literal) -> str:
    if literal.value is None:
        return "NULL"
    if isinstance(literal.value, bool):
        return str(literal.value).upper()
    if isinstance(literal.value, str):
        return "'" + literal.value.replace("'", "''") + "'"
    number = isinstance(literal.value, int | float) or literal.type.is_numeric
    return str(literal.value) if number else f"{literal.type} '{literal.value}'"


def _call(call: Call) -> str:
    parts = [_show(argument) for argument in call.arguments]
    if call.function in _INFIX and len(parts) == 2:
        nested = [
            f"({part})" if isinstance(a, Call) and a.function in _INFIX else part
            for a, part in zip(call.arguments, parts, strict=True)
        ]
        return f"{nested[0]} {_INFIX[call.function]} {nested[1]}"
    if call.function == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if call.function == "not":
        return f"NOT ({parts[0]})"
    if call.function == "negate":
        return f"-{parts[0]}"
    if call.function in ("is_null", "is_not_null", "is_true", "is_false"):
        return f"{parts[0]} {call.function.replace('_', ' ').upper()}"
    return f"{call.function.upper()}({', '.join(parts)})"
