"""Private aggregates whose scans only give columns that are read: the engine would leave out others by itself, but only
after it has read all of it in the statement's text."""

from __future__ import annotations

from dataclasses import replace

from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.cached import cached
from dpquery.plan.expr import Expression, columns_of
from dpquery.plan.logical import Aggregate, Filter, Join, Project, Relation, Scan, Values, sources, with_sources


@cached
def narrowed(aggregate: PrivateAggregate) -> PrivateAggregate:
    """Returns the aggregate over scans of the columns that it reads.

    Where a node's rows depend on all columns of its source, as a window's order does, nothing is left out.
    """
    read = {id for measure in aggregate.measures for id in (measure.value, measure.filter) if id is not None}
    read |= {measure.second.value for measure in aggregate.measures if measure.second is not None}
    read |= {id for key in aggregate.keys for id in key.columns}
    read |= {id for id in (aggregate.unit, aggregate.weights.column) if id is not None}
    read |= {measure.total.column for measure in aggregate.measures if measure.total is not None}
    if not _collect(aggregate.source, read):
        return aggregate
    return replace(aggregate, source=_narrow(aggregate.source, read))


def _collect(relation: Relation, read: set[str]) -> bool:
    """Adds the ids of the columns that are read; returns whether nothing else of any row matters."""
    match relation:
        case Scan() | Values():
            parts: list[Expression | None] = []
        case Filter():
            parts = [relation.condition]
        case Project():
            parts = [column.expression for column in relation.columns]
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
        kept = tuple(column for column in relation.columns if column.id in read)
        scaled = tuple(each for each in relation.scaled if each.id in read)
        narrow = replace(relation, columns=kept or relation.columns[:1], scaled=scaled)
        return narrow if relation.weight in read else replace(narrow, weight=None, max_rows=None, strata=None)
    below = sources(relation)
    return with_sources(relation, tuple(_narrow(source, read) for source in below)) if below else relation
