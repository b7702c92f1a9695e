"""Intervals that hold all at once: how often each noisy number may lie outside its own, so that few answers have one.

It is counted by noisy numbers, not by cells: where each number lies within its half-width, the interval of every cell
that is computed from them holds. All numbers of a released table count, whichever of its groups the answer shows, so
HAVING and LIMIT choose nothing that would not be covered. Of selected groups only the shown ones are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel.loss import parse_amount
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.release import NoisyTable
from dpquery.result.added_tables import AddedTable
from dpquery.result.propagated_noise import PropagatedNoise

MARGIN = Fraction(1, 10**9)
"""Relative error of floating point that the failure of each number allows for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """How many noisy numbers an answer reads, and whether each has noise of its own, independent of the others'."""

    count: int
    independent: bool


def read_confidence(value: object) -> Fraction:
    """Returns how often intervals shall hold, between 0 and 1; read as an amount of loss is.

    Raises:
        InvalidLossError: It is no such number.
    """
    amount = parse_amount(value, name="confidence")
    if amount >= 1:
        raise InvalidLossError("confidence lies between 0 and 1", advice="0.95 is usual.")
    return amount


def drawn(ids: Iterable[str], tables: Sequence[NoisyTable | AddedTable], again: PropagatedNoise) -> Drawn:
    """Returns the noisy numbers behind measures, copies of them, totals over groups and the randomness of reports."""
    found: dict[str, tuple[int, bool]] = {}
    known = {measure.id: (table, i) for table in tables for i, measure in enumerate(table.aggregate.measures)}
    for id in ids:
        own = again.get(id, id)
        if own in again.spread:
            rows = max((len(table.numbers[0]) for table in tables if table.numbers), default=1)
            found[own] = (rows, False)
            continue
        own = again.moved[own].measure if own in again.moved else own
        base = again.totals[own][0] if own in again.totals else own
        base = next(iter(again.summed[own].factors)) if own in again.summed else base
        if base not in known:
            raise InternalError("an answer reads a noisy number of no released table")
        table, place = known[base]
        noise = table.noises[place]
        fresh = isinstance(table, NoisyTable) and isinstance(noise, NoiseLaw) and noise.is_added
        found[own] = (len(table.numbers[place]), fresh and own == base)
    count = sum(rows for rows, _ in found.values())
    return Drawn(count=max(1, count), independent=all(fresh for _, fresh in found.values()))


def failure_of_each(failure: Fraction, numbers: Drawn) -> Fraction:
    """Returns how often each of the numbers may fail so that one of them does with at most this probability.

    Independent numbers all hold with the product of their probabilities, 1 - (1 - failure)^(1 / count) each (Sidak
    1967); others with the sum of their failures at most, failure / count each (Bonferroni).

    Example:
        >>> round(float(failure_of_each(Fraction(1, 20), Drawn(count=10, independent=True))), 6)
        0.005116
        >>> failure_of_each(Fraction(1, 20), Drawn(count=10, independent=False))
        Fraction(1, 200)
    """
    even = failure / numbers.count
    if not numbers.independent or numbers.count == 1:
        return even
    exact = Fraction(-math.expm1(math.log1p(-float(failure)) / numbers.count)) * (1 - MARGIN)
    return max(even, exact)
