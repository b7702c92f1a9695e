"""Counts and sums as what each row adds to them: how far off they are at least where rows are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpquery.accuracy.counting import Halved, families, share
from dpquery.accuracy.error_propagation import Factors
from dpquery.kernel.plan import Count, Measure, PrivateAggregate

Ends = Mapping[tuple[str, ...], tuple[Fraction, Fraction]]
"""Of numbers that are measured of each row of a table, by the ids of their measures, the least and the most of one."""


def of_each_row(aggregate: PrivateAggregate, halved: Sequence[Halved], whole: frozenset[str]) -> Ends:
    """Returns the counts and sums to which every row adds: those of no filter, and of values that are never NULL."""
    given: list[tuple[tuple[str, ...], Measure]] = [((one.id,), one) for one in aggregate.measures if not one.family]
    given += [(one.parts, one.total) for one in halved]
    found: dict[tuple[str, ...], tuple[Fraction, Fraction]] = {
        tuple(term.id for term in terms): (1 / by, 1 / by)  # the terms of a vector, times this, add up to a count
        for terms in families(aggregate.measures)
        if terms[0].filter is None and terms[0].id in whole and (by := share(terms[0]))
    }
    for ids, measure in given:
        if measure.filter is not None:
            continue
        if measure.count is Count.ROWS:
            found[ids] = Fraction(1), Fraction(1)
        elif measure.count is Count.SUM and measure.lattice and measure.second is None and whole.issuperset(ids):
            low, high = measure.lattice.values
            found[ids] = low * measure.unit, high * measure.unit
    return found


def least_of_each(factors: Factors, rows: Ends) -> float:
    """Returns the size of what each row adds to a number at least; 0 where that is not known."""
    left, low, high = dict(factors), Fraction(0), Fraction(0)
    for ids, ends in rows.items():
        if not left.keys().isdisjoint(ids):
            added = [left.get(id, Fraction(0)) * end for id in ids for end in ends]  # a row is spread over these
            low, high = low + min(added), high + max(added)
            left = {id: other for id, other in left.items() if id not in ids}
    return 0.0 if left else float(max(low, -high, Fraction(0)))
