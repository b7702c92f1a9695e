"""Which measures of a plan are paid for in parallel, for one unit is in one of them alone. docs/proofs/disjoint.md."""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.kernel.plan import Measure, PrivateAggregate
from dpquery.kernel.sensitivity import weighs_together
from dpquery.plan.logical import Relation
from dpquery.units.declarations import Neighbours
from dpquery.units.reads import Rows, are_apart, is_one, rows_read

Chain = tuple[tuple[int, ...], ...]
"""Classes of measures, by number: those of a class read the same rows, and no row is read by two classes."""


def chains(aggregates: Sequence[PrivateAggregate], neighbours: Neighbours) -> tuple[Chain, ...]:
    """Returns the measures of a plan, numbered through its aggregates: each in one class of one chain.

    Those to which no theorem applies are one class, in a chain of its own.

    Privacy:
        Where one unit comes or goes, the measures of a chain lose at most what those of its dearest class do.
    Source:
        docs/proofs/disjoint.md, Theorems 1 and 2; McSherry 2009, theorem 4.
    """
    classes: dict[object, tuple[Rows | None, list[int]]] = {}
    owners: list[Relation | str] = []
    numbered = [(place, measure) for place, aggregate in enumerate(aggregates) for measure in aggregate.measures]
    may_differ = len(aggregates) > 1 or any(measure.filter is not None for _, measure in numbered)
    are_compared = may_differ and neighbours is Neighbours.ADD_REMOVE
    for number, (place, measure) in enumerate(numbered):
        rows = _rows(aggregates[place], place, measure) if are_compared else None
        classes.setdefault(_key(rows, owners), (rows, []))[1].append(number)
    found: list[list[tuple[Rows | None, list[int]]]] = []
    for own in classes.values():
        chain = next((chain for chain in found if all(_fit(own[0], other) for other, _ in chain)), None)
        if chain is None:
            found.append([own])
        else:
            chain.append(own)
    return tuple(tuple(tuple(numbers) for _, numbers in chain) for chain in found)


def _key(rows: Rows | None, owners: list[Relation | str]) -> object:
    """Returns what is equal for the same rows; owners are numbered as they come."""
    if rows is None:
        return None
    owner, tables, condition = rows
    place = next((i for i, known in enumerate(owners) if is_one(known, owner)), len(owners))
    owners += [owner] if place == len(owners) else []
    return place, tables, repr(condition)


def _fit(a: Rows | None, b: Rows | None) -> bool:
    return a is not None and b is not None and are_apart(a, b)


def _rows(aggregate: PrivateAggregate, place: int, measure: Measure) -> Rows | None:
    """Returns which rows a measure reads, or None where its unit may have rows in several measures.

    Units of several rows are bounded in one aggregate, so that its measures are compared with no others; a sum with a
    total with those of the same total alone.
    """
    if aggregate.unit is None:
        return rows_read(aggregate.source, measure.filter)
    if not weighs_together(aggregate, measure):
        return None
    _, _, condition = rows_read(aggregate.source, measure.filter)
    shared = f"aggregate {place}" if measure.total is None else f"aggregate {place}, total {measure.total.column}"
    return shared, (), condition
