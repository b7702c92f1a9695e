"""Expressions and relations as text for people: in labels, messages and `explain`, as SQL that parses back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from dpquery.plan.aggregates.aggregate import Form
from dpquery.plan.cached import cached
from dpquery.plan.expr import Column, Expression, substitute
from dpquery.plan.expression_sql import quoted, written
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
from dpquery.plan.windows import frame_text


@cached
def names_of(relation: Relation) -> Mapping[str, Expression]:
    """Returns what each id anywhere in the relation stands for, over the names of stored columns and aggregates."""
    found: dict[str, Expression] = {}
    for source in sources(relation):
        found |= names_of(source)
    match relation:
        case Scan():
            unit = relation.ownership.column if relation.ownership is not None else ""
            for column in output(relation):
                found[column.id] = Column(id=quoted(column.name or unit), type=column.type)
        case Released():
            found |= {column.id: Column(id=column.name or column.id, type=column.type) for column in relation.columns}
        case Project():
            found |= {c.id: found.get(c.id) or substitute(c.expression, found) for c in relation.columns}
        case Aggregate():
            for a in relation.aggregates:
                found[a.id] = Column(id=show_aggregate(a, found), type=a.type)
        case SetOperation():
            found |= {
                c.id: Column(id=quoted(c.name), type=c.type) if c.name else found[c.left] for c in relation.columns
            }
        case Values():
            found |= {c.id: Column(id=quoted(c.name or c.id), type=c.type) for c in relation.columns}
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
        return id if known is None else written(known)

    arguments = ", ".join(show(argument, names) for argument in column.arguments)
    kept = "" if column.filter is None else f" FILTER (WHERE {show(column.filter, names)})"
    over = []
    if column.partition_by:
        over.append("PARTITION BY " + ", ".join(named(id) for id in column.partition_by))
    if column.order_by:
        keys = (named(key.column) + (" DESC" if key.descending else "") for key in column.order_by)
        over.append("ORDER BY " + ", ".join(keys))
    if column.frame is not None:
        over.append(frame_text(column.frame))
    if column.function == "count" and not column.arguments:
        arguments = "*"
    return f"{column.function.upper()}({arguments}){kept} OVER ({' '.join(over)})"


def show_aggregate(column: AggregateColumn, names: Mapping[str, Expression]) -> str:
    """Returns an aggregate as SQL writes it."""
    argument = "*" if column.argument is None else show(column.argument, names)
    if column.second is not None:
        chosen = column.function.form is Form.ORDERED
        argument += f"{' ORDER BY' if chosen else ','} {show(column.second, names)}"
    if column.fraction is not None:
        argument += f", {float(column.fraction):g}"
    function, has_distinct, _ = column.function.shown.partition("(DISTINCT")
    distinct = "DISTINCT " if has_distinct else ""
    kept = "" if column.filter is None else f" FILTER (WHERE {show(column.filter, names)})"
    return f"{function}({distinct}{argument}){kept}"


def show(expression: Expression, names: Mapping[str, Expression]) -> str:
    """Returns an expression as SQL would write it, with names instead of ids."""
    return written(substitute(expression, dict(names)))
