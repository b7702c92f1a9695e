"""What an aggregate reads of private tables: whose weights, which clamped columns, and whether all rows of a table."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.kernel.plan import Count, PrivateAggregate, Weighing
from dpquery.plan.expr import columns_of
from dpquery.plan.logical import Aggregate, Project, Relation, Scan, SetOperation, sources
from dpquery.units.meeting import LARGEST_CUT


def weighed_tables(aggregate: PrivateAggregate, *, limited: bool = False) -> Iterator[str]:
    """Yields the tables whose rows may weigh less than 1 in an aggregate, or are left out of a join.

    Args:
        limited: Whether totals of one unit are clamped to what `max_rows` rows can make.
    """
    weighing = aggregate.weights.weighing
    counts_units = all(measure.count is Count.UNITS for measure in aggregate.measures)  # whatever their rows weigh
    for scan in _scans(aggregate.source):
        is_cut = scan.row_limit <= LARGEST_CUT
        is_stored = weighing is Weighing.STORED and scan.weight is not None
        if is_cut or limited or ((weighing is Weighing.COUNTED or is_stored) and not counts_units):
            yield scan.table


def clamped_columns(aggregate: PrivateAggregate) -> Iterator[tuple[str, str]]:
    """Yields, as (table, column), the stored columns whose values are added up or averaged, and so clamped."""
    values = (measure.value for measure in aggregate.measures if measure.lattice is not None)
    yield from _stored(aggregate.source, frozenset(value for value in values if value is not None))


def whole_table(aggregate: PrivateAggregate) -> str | None:
    """Returns the table of which an aggregate reads all rows, each once; None where it reads others, or filters."""
    relation = aggregate.source
    while isinstance(relation, Project):
        relation = relation.source
    return relation.table if isinstance(relation, Scan) and not relation.public else None


def _scans(relation: Relation) -> Iterator[Scan]:
    if isinstance(relation, Scan) and not relation.public:
        yield relation
    for source in sources(relation):
        yield from _scans(source)


def _stored(relation: Relation, ids: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yields the columns of private tables that columns of a relation are computed from."""
    match relation:
        case Scan():
            if not relation.public:
                yield from ((relation.table, column.name) for column in relation.columns if column.id in ids)
            return
        case Project():
            made = [column.expression for column in relation.columns if column.id in ids]
            ids = frozenset(column.id for expression in made for column in columns_of(expression))
        case Aggregate():
            made = [a.argument for a in relation.aggregates if a.id in ids and a.argument is not None]
            ids |= frozenset(column.id for expression in made for column in columns_of(expression))
        case SetOperation():
            ids |= frozenset(
                side for column in relation.columns if column.id in ids for side in (column.left, column.right)
            )
        case _:
            pass
    for source in sources(relation):
        yield from _stored(source, ids)
