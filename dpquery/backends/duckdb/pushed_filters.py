"""Private aggregates whose filters are as far below joins as they may be.

The engine would do this by itself, but moves no filter across the fences of `sql/sentinels`, and what it moves to files
it compares with their statistics: filters of one side stand below its join, where they are written as `RelationWriter`
does it.
"""

from __future__ import annotations

from dataclasses import replace

from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Column, Expression, columns_of, conjuncts, substitute
from dpquery.plan.logical import Filter, Join, Project, Relation, output, sources, with_sources
from dpquery.plan.types import BOOLEAN

_KEEPS_LEFT = ("inner", "cross", "semi", "anti", "left")
"""Joins whose result has the rows of the left side that pass a filter and none of the others, if it is filtered."""
_KEEPS_RIGHT = ("inner", "cross")


@cached
def pushed(aggregate: PrivateAggregate) -> PrivateAggregate:
    """Returns the aggregate over a source of the same rows."""
    return replace(aggregate, source=_pushed(aggregate.source, []))


def _pushed(relation: Relation, conditions: list[Expression]) -> Relation:
    """Returns the rows of a relation that pass all conditions."""
    match relation:
        case Filter():
            return _pushed(relation.source, [*conjuncts(relation.condition), *conditions])
        case Project():
            made = {column.id: column.expression for column in relation.columns}
            below, above = _split(conditions, {id for id, made_of in made.items() if isinstance(made_of, Column)})
            source = _pushed(relation.source, [substitute(condition, made) for condition in below])
            return _filtered(replace(relation, source=source), above)
        case Join():
            left, above = _split(conditions, _ids(relation.left) if relation.kind in _KEEPS_LEFT else set())
            right, above = _split(above, _ids(relation.right) if relation.kind in _KEEPS_RIGHT else set())
            own = [] if relation.condition is None else conjuncts(relation.condition)
            if relation.kind in ("inner", "cross", "semi"):
                more, own = _split(own, _ids(relation.left))
                left = [*left, *more]
            if relation.kind != "full" and relation.kind != "right":
                more, own = _split(own, _ids(relation.right))
                right = [*right, *more]
            sides = _pushed(relation.left, left), _pushed(relation.right, right)
            return _filtered(replace(relation, left=sides[0], right=sides[1], condition=_all(own)), above)
        case _:
            given = tuple(_pushed(source, []) for source in sources(relation))
            return _filtered(with_sources(relation, given) if given else relation, conditions)


def _split(conditions: list[Expression], ids: set[str]) -> tuple[list[Expression], list[Expression]]:
    """Returns the conditions that read these columns and no others, and the rest; one that reads none stays."""
    read = [{column.id for column in columns_of(condition)} for condition in conditions]
    inside = [bool(columns) and columns <= ids for columns in read]
    return (
        [condition for condition, is_inside in zip(conditions, inside, strict=True) if is_inside],
        [condition for condition, is_inside in zip(conditions, inside, strict=True) if not is_inside],
    )


def _ids(relation: Relation) -> set[str]:
    return {column.id for column in output(relation)}


def _filtered(relation: Relation, conditions: list[Expression]) -> Relation:
    condition = _all(conditions)
    return relation if condition is None else Filter(source=relation, condition=condition)


def _all(conditions: list[Expression]) -> Expression | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Call(function="and", arguments=tuple(conditions), type=BOOLEAN)
