"""Aggregates of subqueries that nothing reads: they are not measured, and what is read has their part of the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpquery.plan.expr import Expression, columns_of
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    LogicalPlan,
    Project,
    Relation,
    Released,
    output,
    sources,
    with_sources,
)

Ids = frozenset[str]


def without_unread(plans: Sequence[LogicalPlan]) -> tuple[LogicalPlan, ...]:
    """Returns the plans without the aggregates of boundaries that no result of them reads.

    Boundaries that several plans share stay the same objects. Grouping sets stay as they are, as they are planned
    together; of groups without a number that is read one number stays.
    """
    read: dict[int, set[int]] = {}
    results = [_narrow(plan.result, frozenset(c.id for c in output(plan.result)), plan, read) for plan in plans]
    for plan in plans:
        together = {index for family in plan.families for index in family}
        for index, boundary in enumerate(plan.boundaries):
            first, every = len(boundary.group_by), range(len(boundary.group_by) + len(boundary.aggregates))
            found = read.setdefault(id(boundary), set())
            is_whole = index in together or plan.steps or plan.withheld
            found |= {*every} if is_whole else {*every[: first + 1]} - ({first} if found & {*every[first:]} else set())
    if all(len(read[id(one)]) == len(output(one)) for plan in plans for one in plan.boundaries):
        return tuple(plans)
    made = {id(one): _kept(one, read[id(one)]) for plan in plans for one in plan.boundaries}
    return tuple(
        replace(plan, boundaries=tuple(made[id(one)] for one in plan.boundaries), result=_of(result, plan, read))
        for plan, result in zip(plans, results, strict=True)
    )


def _kept(boundary: Aggregate, places: set[int]) -> Aggregate:
    first = len(boundary.group_by)
    kept = tuple(column for place, column in enumerate(boundary.aggregates, first) if place in places)
    return boundary if len(kept) == len(boundary.aggregates) else replace(boundary, aggregates=kept)


def _narrow(relation: Relation, needed: Ids, plan: LogicalPlan, read: dict[int, set[int]]) -> Relation:
    """Returns the relation without computed columns that are not needed, and notes the places of those that are read of
    boundaries, by their identity. Where rows depend on all columns of a source, as an order does, all are needed."""
    match relation:
        case Released():
            places = {place for place, column in enumerate(relation.columns) if column.id in needed}
            read.setdefault(id(plan.boundaries[relation.index]), set()).update(places)
            return relation
        case Filter():
            below = needed | _read([relation.condition])
        case Project():
            shown = tuple(column for column in relation.columns if column.id in needed) or relation.columns[:1]
            relation, below = replace(relation, columns=shown), _read(column.expression for column in shown)
        case Join():
            below = needed | _read([*(side for pair in relation.equalities for side in pair), relation.condition])
        case Aggregate():
            kept = tuple(one for one in relation.aggregates if one.id in needed) or relation.aggregates[:1]
            relation = replace(relation, aggregates=kept)
            below = _read(part for one in kept for part in (one.argument, one.second, one.filter))
            below |= {*relation.group_by}
        case _:
            below = frozenset(column.id for source in sources(relation) for column in output(source))
    given = sources(relation)
    return with_sources(relation, tuple(_narrow(one, below, plan, read) for one in given)) if given else relation


def _of(relation: Relation, plan: LogicalPlan, read: dict[int, set[int]]) -> Relation:
    """Returns the relation over what is kept of boundaries."""
    if isinstance(relation, Released):
        places = read[id(plan.boundaries[relation.index])]
        columns = tuple(column for place, column in enumerate(relation.columns) if place in places)
        return replace(relation, columns=columns)
    given = sources(relation)
    return with_sources(relation, tuple(_of(one, plan, read) for one in given)) if given else relation


def _read(parts: Iterable[Expression | None]) -> Ids:
    return frozenset(column.id for part in parts if part is not None for column in columns_of(part))
