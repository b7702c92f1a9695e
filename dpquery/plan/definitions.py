"""Where a column comes from: its definition over stored and literal columns."""

from __future__ import annotations

from dpquery.plan.cached import cached
from dpquery.plan.expr import Column, Expression, columns_of, conjuncts, size_of, substitute
from dpquery.plan.logical import (
    Aggregate,
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
    output,
    sources,
)
from dpquery.plan.types import INT64

MOST_PARTS = 1_500
"""Projections are taken apart while no expression gets more parts than these: each may double what is below it."""

Leaves = dict[str, Scan | Values]
"""The table that each stored or literal column comes from, by the column's id."""


def definition(id: str, relation: Relation) -> tuple[Expression, Leaves]:
    """Returns a column as an expression over columns that have none, and where the stored and literal ones come from.

    It ends at aggregates, windows, set operations, and at the side that an outer join fills up: there the column itself
    is NULL, even if its expression turns NULL into a value.
    """
    match relation:
        case Scan():
            found = [column for column in relation.columns if column.id == id]
            if found:
                return Column(id=id, type=found[0].type), {id: relation}
            if id == relation.weight or any(id == scaled.id for scaled in relation.scaled):
                return Column(id=id, type=INT64), {}
            assert relation.ownership is not None
            return Column(id=id, type=relation.ownership.type), {}
        case Project():
            expression = next(column.expression for column in relation.columns if column.id == id)
            values: dict[str, Expression] = {}
            scans: Leaves = {}
            for column in columns_of(expression):
                values[column.id], more = definition(column.id, relation.source)
                scans |= more
            return substitute(expression, values), scans
        case Join():
            side = side_of(id, relation)
            if _is_filled(id, relation):
                return Column(id=id, type=next(c.type for c in output(side) if c.id == id)), {}
            return definition(id, side)
        case Aggregate():
            if id in relation.group_by:
                return definition(id, relation.source)
            type = next(column.type for column in relation.aggregates if column.id == id)
            return Column(id=id, type=type), {}
        case Filter() | Sort() | Limit():
            return definition(id, relation.source)
        case Window() if gives(relation.source, id):
            return definition(id, relation.source)
        case Values():
            return Column(id=id, type=next(c.type for c in relation.columns if c.id == id)), {id: relation}
        case Released() | Window() | SetOperation():
            return Column(id=id, type=next(c.type for c in relation.columns if c.id == id)), {}


def origin_of(id: str, relation: Relation) -> tuple[Expression, Leaves]:
    """Returns the definition of a column without what outer joins do to it: where its values come from, but NULL."""
    expression, scans = definition(id, relation)
    if isinstance(expression, Column) and expression.id not in scans:
        join = ending_of(expression.id, relation)
        if isinstance(join, Join):
            return origin_of(expression.id, side_of(expression.id, join))
    return expression, scans


def ending_of(id: str, relation: Relation) -> SetOperation | Join | Window | None:
    """Returns the operation under this relation at which the column's definition ends, if it ends at one."""
    if isinstance(relation, SetOperation | Window) and any(column.id == id for column in relation.columns):
        return relation
    if isinstance(relation, Join) and _is_filled(id, relation):
        return relation
    found = (ending_of(id, source) for source in sources(relation))
    return next((origin for origin in found if origin is not None), None)


def side_of(id: str, join: Join) -> Relation:
    """Returns the side of a join that gives the column."""
    return join.left if gives(join.left, id) else join.right


def _is_filled(id: str, join: Join) -> bool:
    """Whether an outer join gives NULL for the column where the column's side has no row."""
    sides = {"left": [join.right], "right": [join.left], "full": [join.left, join.right]}.get(join.kind, [])
    return any(gives(side, id) for side in sides)


def gives(relation: Relation, id: str) -> bool:
    """Whether the relation gives the column."""
    return any(column.id == id for column in output(relation))


@cached
def kinds(relation: Relation) -> frozenset[type]:
    """Returns the classes of all nodes of a relation, which tell whether a rule finds anything in it."""
    return frozenset({type(relation)}).union(*[kinds(source) for source in sources(relation)])


def taken_apart(relation: Relation) -> tuple[Relation, list[Expression], dict[str, Expression]]:
    """Returns the rows under projections and filters, all conditions, and what each column of the top is over them.

    Expressions are total and depend on their row alone, so that it makes no difference when they are computed.
    """
    values: dict[str, Expression] = {c.id: Column(id=c.id, type=c.type) for c in output(relation)}
    conditions: list[Expression] = []
    while isinstance(relation, Filter | Project):
        if isinstance(relation, Filter):
            conditions += conjuncts(relation.condition)
            relation = relation.source
            continue
        inner = {column.id: column.expression for column in relation.columns}
        over = {id: substitute(value, inner) for id, value in values.items()}
        moved = [substitute(condition, inner) for condition in conditions]
        if max(map(size_of, (*over.values(), *moved)), default=0) > MOST_PARTS:
            break
        values, conditions, relation = over, moved, relation.source
    return relation, conditions, values
