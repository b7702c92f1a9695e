"""Which measures of a plan are paid for in parallel, for one unit is in one of them alone. docs/proofs/disjoint.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpquery.kernel.declarations import Neighbours
from dpquery.kernel.disjoint import disjoint
from dpquery.kernel.plan import Count, Measure, PrivateAggregate
from dpquery.plan.expr import Call, Column, Expression, Literal, size_of, substitute
from dpquery.plan.logical import Filter, Project, Relation, Scan, sources
from dpquery.plan.types import BOOLEAN

MOST_PARTS = 400
"""Conditions of more parts are left out: less is then known of the rows that a measure reads."""

Chain = tuple[tuple[int, ...], ...]
"""Classes of measures, by number: those of a class read the same rows, and no row is read by two classes."""
Rows = tuple[str, tuple[str, ...], Expression]
"""The rows that a measure reads: what its columns belong to, private tables, and what is true of each row. Conditions
on columns of one owner alone are compared."""
STORED, GIVEN = "stored", "given"


def chains(aggregates: Sequence[PrivateAggregate], neighbours: Neighbours) -> tuple[Chain, ...]:
    """Returns the measures of a plan, numbered through its aggregates: each in one class of one chain.

    Those to which no theorem applies are one class, in a chain of its own.

    Privacy:
        Where one unit comes or goes, the measures of a chain lose at most what those of its dearest class do.
    Source:
        docs/proofs/disjoint.md, Theorems 1 and 2; McSherry 2009, theorem 4.
    """
    classes: dict[str, tuple[Rows | None, list[int]]] = {}
    numbered = [(place, measure) for place, aggregate in enumerate(aggregates) for measure in aggregate.measures]
    for number, (place, measure) in enumerate(numbered):
        rows = _rows(aggregates[place], place, measure) if neighbours is Neighbours.ADD_REMOVE else None
        classes.setdefault(repr(rows), (rows, []))[1].append(number)
    found: list[list[tuple[Rows | None, list[int]]]] = []
    for own in classes.values():
        chain = next((chain for chain in found if all(_are_apart(own[0], other) for other, _ in chain)), None)
        if chain is None:
            found.append([own])
        else:
            chain.append(own)
    return tuple(tuple(tuple(numbers) for _, numbers in chain) for chain in found)


def weighs_together(aggregate: PrivateAggregate, measure: Measure) -> bool:
    """Whether all of a unit's rows in a group, counted or not, bound what it contributes there (step 2 of `plan`)."""
    if aggregate.unit is None or not aggregate.bound.together or measure.filter is None:
        return False
    if measure.count is Count.UNITS:
        return aggregate.bound.max_rows == 1
    return measure.count in (Count.ROWS, Count.VALUES, Count.SUM)


def _are_apart(a: Rows | None, b: Rows | None) -> bool:
    if a is None or b is None:
        return False
    (owner, tables, condition), (other_owner, other_tables, other) = a, b
    of_other_tables = bool(tables and other_tables) and not {*tables} & {*other_tables}
    return of_other_tables or (owner == other_owner and disjoint(condition, other))


def _rows(aggregate: PrivateAggregate, place: int, measure: Measure) -> Rows | None:
    """Returns which rows a measure reads, or None where its unit may have rows in several measures."""
    owner, condition = _condition(aggregate.source, measure)
    if aggregate.unit is None:
        return owner, tuple(sorted(set(_tables(aggregate.source)))), condition
    return (f"aggregate {place}", (), condition) if weighs_together(aggregate, measure) else None


def _tables(relation: Relation) -> Iterator[str]:
    if isinstance(relation, Scan) and not relation.public:
        yield relation.table
    for source in sources(relation):
        yield from _tables(source)


def _condition(relation: Relation, measure: Measure) -> tuple[str, Expression]:
    """Returns what is true of each row that is read: of a private table's own rows by the names of its columns, else of
    the rows where projections and filters end by their ids, which no other relation of the plan has."""
    parts: list[Expression] = [] if measure.filter is None else [Column(id=measure.filter, type=BOOLEAN)]
    while isinstance(relation, Filter | Project):
        if isinstance(relation, Filter):
            parts.append(relation.condition)
        else:
            inner = {column.id: column.expression for column in relation.columns}
            parts = [made for part in parts if size_of(made := substitute(part, inner)) <= MOST_PARTS]
        relation = relation.source
    is_stored = isinstance(relation, Scan) and not relation.public
    if isinstance(relation, Scan) and is_stored:
        names = {c.id: Column(id=f"{relation.table}.{c.name}", type=c.type) for c in relation.columns}
        parts = [substitute(part, dict[str, Expression](names)) for part in parts]
    true = Literal(value=True, type=BOOLEAN)
    condition = Call(function="and", arguments=tuple(parts), type=BOOLEAN) if parts else true
    return STORED if is_stored else GIVEN, condition
