"""All choices of one aggregate: each on its own, or quantiles of one value as the tree of `quantiles`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel import exponential, samplers
from dpquery.kernel.choice_utilities import LARGEST_UTILITY, candidates
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, WEIGHT, Measure, PrivateAggregate
from dpquery.kernel.quantiles import asked, families

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWeights:
    """The weights between two choices, in order, and the first and the last candidate there, of each group.

    A value that equals a choice is on both sides of it, with a part of its weight on each; secret.
    """

    weights: Histogram = field(repr=False)
    first: Integers
    last: Integers


def choose_all(
    aggregate: PrivateAggregate,
    histograms: Sequence[Histogram],
    noises: Sequence[NoiseLaw],
    places: Integers,
    groups: int,
) -> dict[str, Integers]:
    """Returns for each choice of the aggregate, by its id, a candidate for each group.

    Args:
        histograms: Of each choice, in the order of the measures; their groups are indices into `places`.
        places: For each group of the engine its index among those that are released.
        groups: How many are released.
    """
    chosen: dict[str, Integers] = {}
    together = families(aggregate.measures)
    members = {i for family in together for i in family}
    given = dict(zip((i for i, m in enumerate(aggregate.measures) if m.count in CHOICES), histograms, strict=True))
    for i, histogram in given.items():
        if i not in members:
            kept = _moved(histogram, places)
            chosen[aggregate.measures[i].id] = noises[i].choose(aggregate.measures[i], kept, groups)
    for family in together:
        kept = _moved(given[family[0]], places)
        chosen |= choose_together(aggregate, family, kept, noises, groups)
    return chosen


def choose_together(
    aggregate: PrivateAggregate,
    family: tuple[int, ...],
    histogram: Histogram,
    noises: Sequence[NoiseLaw],
    groups: int,
) -> dict[str, Integers]:
    """Returns for each of several quantiles of one value, by its id, a candidate for each group.

    Privacy:
        Which weights are on a side follows from what was drawn before and from the weight of each value alone. One
        weight more is one more on one side: `divide`. So the sides of one level compose in parallel.
        Neighbours: as for `divide`.
    Source:
        Kaplan, Schnapp, Stemmer 2022 (the recursion, for values that differ); docs/proofs/exponential.md, Lemma 5.
    """
    first, last = candidates(aggregate.measures[family[0]])
    weight = WEIGHT // aggregate.weight  # so that a row can be divided too
    if len(histogram.weight) and int(histogram.weight.max()) >= LARGEST_UTILITY // weight:
        raise InternalError("a histogram holds an impossible value")
    whole = Histogram(group=histogram.group, value=histogram.value, weight=histogram.weight * weight)
    start = SideWeights(
        weights=exponential.in_order(whole, aggregate.measures[family[0]], groups),
        first=np.full(groups, first),
        last=np.full(groups, last),
    )
    chosen: dict[str, Integers] = {}
    sides = [(start, 0, len(family))]
    while sides:
        side, low, high = sides.pop()
        if low == high:
            continue
        middle = (low + high) // 2
        i = family[middle]
        measure, _ = asked(aggregate, aggregate.measures[i])
        found = noises[i].choose(measure, side.weights, groups, within=(side.first, side.last))
        chosen[measure.id] = found
        if high - low > 1:
            left, right = _sides(side, measure, found, noises[i], groups)
            sides += [(left, low, middle), (right, middle + 1, high)]
    return chosen


def _sides(
    side: SideWeights, measure: Measure, chosen: Integers, noise: NoiseLaw, groups: int
) -> tuple[SideWeights, SideWeights]:
    if noise.divider is None:
        raise InternalError("a quantile with others on its sides divides the values that equal it")
    drawn = samplers.discrete_laplace(noise.divider, groups)
    below, above = divide(side.weights, measure, chosen, drawn)
    return (
        SideWeights(weights=below, first=side.first, last=chosen),
        SideWeights(weights=above, first=chosen, last=side.last),
    )


def divide(weights: Histogram, measure: Measure, chosen: Integers, drawn: Integers) -> tuple[Histogram, Histogram]:
    """Returns the weights below and above the choice of each group, in order.

    Of a value that equals the choice, so much is below as is missing there to the target rank, plus noise: at least 0,
    at most all of it.

    Args:
        drawn: The noise on the rank, in steps of utility.
    Privacy:
        Given the noisy rank, the division is monotone: with a weight more, one side has one more and the other none.
        docs/proofs/exponential.md, Lemma 5.
        Neighbours: tables that differ by one weight; more are counted by `spread`.
    """
    target = measure.target
    if target is None:
        raise InternalError("only quantiles divide values")
    r, q = target.numerator, target.denominator
    group, value, weight = weights.group, weights.value, weights.weight
    total, before = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.int64)
    is_below, is_equal = value < chosen[group], value == chosen[group]
    np.add.at(total, group, weight)
    np.add.at(before, group[is_below], weight[is_below])
    if len(total) and int(total.max()) >= LARGEST_UTILITY // (2 * q):
        total, before, drawn = (numbers.astype(object) for numbers in (total, before, drawn))
    missing = (r * total - q * before + drawn) // q
    share = np.minimum(np.maximum(missing[group], 0), weight).astype(np.int64)
    left = np.where(is_below, weight, np.where(is_equal, share, 0))
    right = weight - left
    return tuple(  # type: ignore[return-value]
        Histogram(group=group[kept], value=value[kept], weight=part[kept])
        for part, kept in ((left, left > 0), (right, right > 0))
    )


def _moved(histogram: Histogram, places: Integers) -> Histogram:
    if len(histogram.group) and not (histogram.group.min() >= 0 and histogram.group.max() < len(places)):
        raise InternalError("a histogram names an unknown group")
    return Histogram(group=places[histogram.group], value=histogram.value, weight=histogram.weight)
