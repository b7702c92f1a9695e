"""Queries in steps: released tables that decide about private rows.

    SELECT COUNT(*) FROM labs WHERE value > (SELECT AVG(value) FROM labs)

What the inner query releases was paid for, and is public from then on. So the whole is two queries, one after the
other: the inner one, and the outer one over a literal table of what the inner one released. Each is planned, checked
and charged as if it had been asked by itself, and the ledger's filter holds for adaptive questions
(docs/proofs/composition.md). No rule below the privacy boundary knows of steps.

Before the first step has run, its rows are not known. A sample stands in their place, of which the planner may conclude
nothing but how many there are; so what is refused is refused before anything is charged.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import assert_never

from sqlglot import exp

from dpquery.plan.canonical import canonical
from dpquery.plan.expr import Column
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Limit,
    LogicalPlan,
    Project,
    Relation,
    Released,
    Sort,
    Values,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import Kind, Type, Value
from dpquery.sql.bind.at_most_one import Rows, rows_of
from dpquery.sql.bind.scope import Context

MOST_STEPS = 4
"""Steps before the last one."""
MOST_ROWS = 1000
"""Rows of a step."""


def reads_released(relation: Relation) -> bool:
    """Whether a relation is computed from a released table."""
    return isinstance(relation, Released) or any(reads_released(source) for source in sources(relation))


def unique_in_released(relation: Relation, boundaries: Sequence[Aggregate]) -> Iterator[frozenset[str]]:
    """Yields sets of columns of which no two rows of a relation above the boundary agree."""
    match relation:
        case Released():
            yield frozenset(boundaries[relation.index].group_by)
        case Filter() | Sort() | Limit():
            yield from unique_in_released(relation.source, boundaries)
        case Aggregate():
            yield frozenset(relation.group_by)
        case Project():
            kept = {c.expression.id: c.id for c in relation.columns if isinstance(c.expression, Column)}
            for unique in unique_in_released(relation.source, boundaries):
                if unique <= kept.keys():
                    yield frozenset(kept[id] for id in unique)
        case _:
            return


def as_step(relation: Relation, node: exp.Expression, context: Context) -> Values:
    """Returns the literal table of what an earlier step releases, under the ids of the relation's columns.

    Equal relations are one step.
    """
    key = canonical(relation)[0]
    if key not in context.steps:
        if len(context.steps) == MOST_STEPS:
            reason = f"a query uses at most {MOST_STEPS} released results to choose private rows"
            raise context.unsupported(reason, node, "Ask for one of them first, and write its answer here.")
        context.steps[key] = relation
    place = list(context.steps).index(key)
    if place < len(context.given):
        return Values(columns=output(relation), rows=context.given[place])
    count = 1 if rows_of(relation, context.boundaries) is not Rows.MANY else MOST_ROWS
    if isinstance(relation, Limit) and relation.count is not None:
        count = max(1, min(count, relation.count))
    rows = tuple(tuple(sample(column.type, i) for column in output(relation)) for i in range(count))
    return Values(columns=output(relation), rows=rows, is_sample=True)


def sample(type: Type, number: int) -> Value:
    """Returns a value that stands for one that is not known yet; different numbers have different ones."""
    match type.kind:
        case Kind.BOOLEAN:
            return number % 2 == 0
        case Kind.INT64 | Kind.INTERVAL:
            return number
        case Kind.FLOAT64:
            return float(number)
        case Kind.DECIMAL:
            return Decimal(number).scaleb(-(type.scale or 0))
        case Kind.DATE:
            return datetime.date(2000, 1, 1) + datetime.timedelta(days=number)
        case Kind.TIMESTAMP:
            return datetime.datetime(2000, 1, 1) + datetime.timedelta(days=number)
        case Kind.TEXT:
            return f"#{number}"
        case _:
            assert_never(type.kind)


def step_plan(context: Context, place: int) -> LogicalPlan:
    """Returns the plan of one step: its columns in order, under numbers."""
    relation = list(context.steps.values())[place]
    columns = tuple(
        Computed(id=context.fresh(), name=str(number), expression=Column(id=c.id, type=c.type))
        for number, c in enumerate(output(relation), start=1)
    )
    lacking = max(0, place - len(context.given))
    plan = LogicalPlan(boundaries=(), result=Project(source=relation, columns=columns), steps=lacking)
    return of_read_tables(plan, context)


def of_read_tables(plan: LogicalPlan, context: Context) -> LogicalPlan:
    """Returns the plan with those boundaries of the query that its result reads, and none that other steps read."""
    read = sorted(set(_indexes(plan.result)))
    places = {index: place for place, index in enumerate(read)}
    families = [family for family in context.families if set(family) <= places.keys()]
    return replace(
        plan,
        boundaries=tuple(context.boundaries[index] for index in read),
        result=_renumbered(plan.result, places),
        families=tuple(tuple(places[index] for index in family) for family in families),
        reads_clock=context.reads_clock,
    )


def _indexes(relation: Relation) -> Iterator[int]:
    if isinstance(relation, Released):
        yield relation.index
    for source in sources(relation):
        yield from _indexes(source)


def _renumbered(relation: Relation, places: dict[int, int]) -> Relation:
    if isinstance(relation, Released):
        return replace(relation, index=places[relation.index])
    return with_sources(relation, tuple(_renumbered(source, places) for source in sources(relation)))
