"""Private aggregates whose scans only give columns that are read, and whose filters are as far below joins as may be.

The engine would do both by itself. But it leaves out columns only after it has read all of them in the text of the
statement, moves no filter across the fences of `sql/sentinels`, and what it moves to files it compares with their
statistics: filters of one side stand below its join, where they are written as `RelationWriter` does it. Public
rows are also filtered by what follows for them from conditions on rows of both sides; docs/proofs/work.md, Lemma 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpquery.backends.duckdb.join_order import early
from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Column, Expression, columns_of, conjuncts, substitute
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    Values,
    is_private,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import BOOLEAN
from dpquery.units.declarations import Declarations

_KEEPS_LEFT = ("inner", "cross", "semi", "anti", "left")
"""Joins whose result has the rows of the left side that pass a filter and none of the others, if it is filtered."""
_KEEPS_RIGHT = ("inner", "cross")


@cached
def narrowed(aggregate: PrivateAggregate, declared: Declarations) -> PrivateAggregate:
    """Returns the aggregate over scans of the columns that it reads, and over the same rows.

    Where a node's rows depend on all columns of its source, as a window's order does, nothing is left out.
    """
    read = {id for measure in aggregate.measures for id in (measure.value, measure.filter) if id is not None}
    read |= {measure.second.value for measure in aggregate.measures if measure.second is not None}
    read |= {id for key in aggregate.keys for id in key.columns}
    read |= {id for id in (aggregate.unit, aggregate.weights.column) if id is not None}
    read |= {measure.total.column for measure in aggregate.measures if measure.total is not None}
    source = _narrow(aggregate.source, read) if _collect(aggregate.source, read) else aggregate.source
    return replace(aggregate, source=pushed(source, [], declared))


def _collect(relation: Relation, read: set[str]) -> bool:
    """Adds the ids of the columns that are read; returns whether nothing else of any row matters."""
    match relation:
        case Scan() | Values():
            parts: list[Expression | None] = []
        case Filter():
            parts = [relation.condition]
        case Project():
            parts = [column.expression for column in relation.columns if column.id in read]
            parts = parts or [column.expression for column in relation.columns[:1]]
        case Join():
            parts = [*(side for pair in relation.equalities for side in pair), relation.condition]
        case Aggregate():
            read |= {*relation.group_by}
            parts = [part for a in relation.aggregates for part in (a.argument, a.second, a.filter)]
        case _:
            return False
    read |= {column.id for part in parts if part is not None for column in columns_of(part)}
    return all(_collect(source, read) for source in sources(relation))


def _narrow(relation: Relation, read: set[str]) -> Relation:
    if isinstance(relation, Scan):
        kept = tuple([column for column in relation.columns if column.id in read])
        scaled = tuple([each for each in relation.scaled if each.id in read])
        narrow = replace(relation, columns=kept or relation.columns[:1], scaled=scaled)
        return narrow if relation.weight in read else replace(narrow, weight=None, max_rows=None, strata=None)
    if isinstance(relation, Project):
        shown = tuple([column for column in relation.columns if column.id in read])
        relation = replace(relation, columns=shown or relation.columns[:1])
    below = sources(relation)
    return with_sources(relation, tuple(_narrow(source, read) for source in below)) if below else relation


def pushed(
    relation: Relation, conditions: list[Expression], declared: Declarations, known: Sequence[Expression] = ()
) -> Relation:
    """Returns the rows of a relation that pass all conditions, with joins with filtered public rows as early as may be.

    Args:
        known: Conditions on its columns of which rows that do not pass are left out elsewhere.
    """
    if known and not is_private(relation):
        conditions, known = [*conditions, *known], ()
    match relation:
        case Filter():
            return pushed(relation.source, [*conjuncts(relation.condition), *conditions], declared, known)
        case Project():
            made = {column.id: column.expression for column in relation.columns}
            stored = {id for id, made_of in made.items() if isinstance(made_of, Column)}
            below, above = _split(conditions, stored)
            passed = [substitute(condition, made) for condition in _following([*known, *above], stored)]
            source = pushed(relation.source, [substitute(condition, made) for condition in below], declared, passed)
            return _filtered(replace(relation, source=source), above)
        case Join():
            ids = _ids(relation.left), _ids(relation.right)
            left, above = _split(conditions, ids[0] if relation.kind in _KEEPS_LEFT else set())
            right, above = _split(above, ids[1] if relation.kind in _KEEPS_RIGHT else set())
            own = [] if relation.condition is None else conjuncts(relation.condition)
            limits_left = relation.kind in ("inner", "cross", "semi")
            limits_right = relation.kind not in ("full", "right")
            if limits_left:
                more, own = _split(own, ids[0])
                left = [*left, *more]
            if limits_right:
                more, own = _split(own, ids[1])
                right = [*right, *more]
            passed = [*known, *above]
            of_left = [*(passed if relation.kind in _KEEPS_LEFT else []), *(own if limits_left else [])]
            of_right = [*(passed if relation.kind in _KEEPS_RIGHT else []), *(own if limits_right else [])]
            sides = (
                pushed(relation.left, left, declared, _following(of_left, ids[0])),
                pushed(relation.right, right, declared, _following(of_right, ids[1])),
            )
            join = replace(relation, left=sides[0], right=sides[1], condition=_all(own))
            return _filtered(early(join, declared), above)
        case _:
            given = tuple(pushed(source, [], declared) for source in sources(relation))
            return _filtered(with_sources(relation, given) if given else relation, conditions)


def _following(conditions: Sequence[Expression], ids: set[str]) -> list[Expression]:
    """Returns conditions that read these columns and no others, and are true wherever the given ones are."""
    found = (_implied(condition, ids) for condition in conditions)
    return [condition for condition in found if condition is not None]


def _implied(condition: Expression, ids: set[str]) -> Expression | None:
    """Returns a condition on these columns that is true wherever a condition is, or None where it says nothing of them.

    AND is true where all its parts are, OR where one of them is, and NULL is not true. So of AND any parts follow,
    and of OR something where each part says something.
    """
    read = {column.id for column in columns_of(condition)}
    if read <= ids:
        return condition if read else None
    if not isinstance(condition, Call) or condition.function not in ("and", "or"):
        return None
    parts = _following(condition.arguments, ids)
    if condition.function == "or" and len(parts) < len(condition.arguments):
        return None
    return replace(condition, arguments=tuple(parts)) if len(parts) > 1 else _all(parts)


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
