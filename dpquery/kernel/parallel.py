"""Which measures of a plan are paid for in parallel: what one unit adds to them is bounded together.

No row is in two of them (docs/proofs/disjoint.md), or they are the Bernstein terms of one vector (weights.md, Theorem
10).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.kernel.plan import Measure, PrivateAggregate
from dpquery.kernel.sensitivity import weighs_together
from dpquery.plan.cached import cached
from dpquery.plan.logical import Relation
from dpquery.units.declarations import Neighbours
from dpquery.units.reads import Rows, are_apart, is_one, rows_read

Chain = tuple[tuple[int, ...], ...]
"""Classes of measures, by number: those of a class read the same rows, and no row is read by two classes that are not
terms of one vector."""

Class = tuple[Rows | None, tuple[object, ...] | None]
"""Which rows its measures read, where they are compared, and of a Bernstein term of which vector it is."""


def chains(aggregates: Sequence[PrivateAggregate], neighbours: Neighbours) -> tuple[Chain, ...]:
    """Returns the measures of a plan, numbered through its aggregates: each in one class of one chain.

    Those to which no theorem applies are one class, in a chain of its own.

    Privacy:
        The measures of a chain lose at most what those of its dearest class do; of filters, where one unit comes or
        goes.
        Neighbours: of either kind; where one is replaced, no filters are compared.
    Source:
        docs/proofs/disjoint.md, Theorems 1, 2 and 4; McSherry 2009, theorem 4.
    """
    return _chains(neighbours, *aggregates)


@cached
def _chains(neighbours: Neighbours, *aggregates: PrivateAggregate) -> tuple[Chain, ...]:
    classes: dict[object, tuple[Class, list[int]]] = {}
    owners: list[Relation | str] = []
    numbered = [(place, measure) for place, aggregate in enumerate(aggregates) for measure in aggregate.measures]
    may_differ = len(aggregates) > 1 or any(measure.filter is not None for _, measure in numbered)
    are_compared = may_differ and neighbours is Neighbours.ADD_REMOVE
    for number, (place, measure) in enumerate(numbered):
        rows = _rows(aggregates[place], place, measure) if are_compared else None
        vector = None if measure.family is None else (place, *measure.family)
        key = _key(rows, owners), vector, measure.powers if vector else None
        classes.setdefault(key, ((rows, vector), []))[1].append(number)
    found: list[list[tuple[Class, list[int]]]] = []
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


def _fit(a: Class, b: Class) -> bool:
    """Whether two classes are terms of one vector, or no row is read by both."""
    (rows, vector), (others, other) = a, b
    return (vector is not None and vector == other) or (
        rows is not None and others is not None and are_apart(rows, others)
    )


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
