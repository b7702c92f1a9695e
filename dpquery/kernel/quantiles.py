"""Several quantiles of one value are chosen together, as a tree: the middle one first, then those on either side of it
among the values on that side. All of one level are paid for once, for their sides share no weight.

A value that equals the chosen one is divided: as much of its weight goes to the left as makes the left side end at the
target rank, which is measured with Laplace noise. Proofs: docs/proofs/exponential.md, "Several quantiles".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from dpquery.errors import InternalError
from dpquery.kernel.choice_utilities import FINEST_TARGET, rank_error, spread, step_of
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import CHOICES, WEIGHT, BudgetedAggregate, Count, Measure, Noise, PrivateAggregate
from dpquery.kernel.tails import laplace_quantile
from dpquery.plan.cached import cached

FEWEST = 3
"""From so many quantiles of one value on they are chosen together: two would need two levels all the same."""
Scale = tuple[Fraction, Fraction | None, Fraction]
"""The coefficient of a choice, the scale of what divides the values there, and `worst` of its law."""
DIVIDING = Fraction(1, 8)
"""The part of a level's loss that measures the target rank where a value is divided; at most 2/5, as accounted for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileNode:
    """Where a quantile stands in the tree of those that are chosen together.

    Attributes:
        level: 0 for the one that is chosen first, among all values.
        before, after: Which of the targets, in ascending order, bound the side that it is chosen in; None for the end.
        target: The fraction of that side's weight that it asks for.
        divides: Whether others are chosen on the sides of this one.
    """

    level: int
    before: int | None
    after: int | None
    target: Fraction
    divides: bool


@lru_cache(maxsize=256)
def tree(targets: tuple[Fraction, ...]) -> tuple[QuantileNode, ...]:
    """Returns the places of ascending targets between 0 and 1, each once.

    Example:
        >>> [(place.level, str(place.target)) for place in tree((Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)))]
        [(1, '1/2'), (0, '1/2'), (1, '1/2')]
    """
    ends = (Fraction(0), *targets, Fraction(1))
    if any(high <= low for low, high in pairwise(ends)):
        raise InternalError("targets of quantiles that are chosen together ascend between 0 and 1")
    found: dict[int, QuantileNode] = {}
    sides = [(0, 0, len(targets))]
    while sides:
        level, first, end = sides.pop()
        if first == end:
            continue
        middle = (first + end) // 2
        low = targets[first - 1] if first else Fraction(0)
        high = targets[end] if end < len(targets) else Fraction(1)
        found[middle] = QuantileNode(
            level=level,
            before=first - 1 if first else None,
            after=end if end < len(targets) else None,
            target=(targets[middle] - low) / (high - low),
            divides=end - first > 1,
        )
        sides += [(level + 1, first, middle), (level + 1, middle + 1, end)]
    return tuple(found[i] for i in range(len(targets)))


def families(measures: Sequence[Measure]) -> list[tuple[int, ...]]:
    """Returns the measures that are chosen together, by their indices, in the order of their targets.

    Their targets have a common denominator that is small, so that those among the values of a side have one too.
    """
    if [measure.count for measure in measures].count(Count.QUANTILE) < FEWEST:
        return []
    sharing: dict[object, list[int]] = {}
    targets = [measure.target or Fraction(0) for measure in measures]
    for i, measure in enumerate(measures):
        if measure.count is Count.QUANTILE and 0 < targets[i] < 1:
            sharing.setdefault((measure.value, measure.filter, measure.lattice), []).append(i)
    return [
        tuple(sorted(family, key=lambda i: targets[i]))
        for family in sharing.values()
        if len(family) >= FEWEST and math.lcm(*(targets[i].denominator for i in family)) <= FINEST_TARGET
    ]


@cached
def _together(measures: tuple[Measure, ...]) -> Mapping[Measure, tuple[tuple[Measure, ...], Measure]]:
    """Returns for each measure that is chosen together with others all of these, and itself as it is drawn."""
    found: dict[Measure, tuple[tuple[Measure, ...], Measure]] = {}
    for indices in families(measures):
        family = tuple(measures[i] for i in indices)
        for measure, place in zip(family, places_of(family), strict=True):
            found.setdefault(measure, (family, replace(measure, target=place.target)))
    return found


def family_of(aggregate: PrivateAggregate, measure: Measure) -> tuple[Measure, ...]:
    """Returns the measures that are chosen together with this one, in the order of their targets; () if none are."""
    known = _together(aggregate.measures).get(measure) if measure.count is Count.QUANTILE else None
    return () if known is None else known[0]


def places_of(family: Sequence[Measure]) -> tuple[QuantileNode, ...]:
    """Returns the places of measures that are chosen together."""
    return tree(tuple(measure.target or Fraction(0) for measure in family))


def asked(aggregate: PrivateAggregate, measure: Measure) -> tuple[Measure, int]:
    """Returns a choice as it is drawn, with its target among the values of its side, and what a value weighs there."""
    known = _together(aggregate.measures).get(measure) if measure.count is Count.QUANTILE else None
    return (measure, aggregate.weight) if known is None else (known[1], WEIGHT)


def apart(aggregate: PrivateAggregate, measure: Measure) -> tuple[int, int]:
    """Returns how far a unit moves the utilities of a group apart where it comes or goes, and where one is replaced.

    Privacy:
        Of quantiles that are chosen together: over all sides of a level, added up, at most this. One that is replaced
        may leave one side and arrive at another, so it counts twice.
        Neighbours: the first number where a unit is added or removed, the second where it is replaced.
    Source:
        docs/proofs/exponential.md, Lemmas 2 to 5.
    """
    drawn, weight = asked(aggregate, measure)
    largest, moved = spread(drawn, weight * aggregate.weights.max_rows)
    return largest, (moved if drawn is measure else max(moved, 2 * largest))


def levels_paid(budgeted: BudgetedAggregate) -> tuple[Noise, ...]:
    """Returns what the ledger counts: the noise of each measure, and of quantiles chosen together that of each level.

    What they pay is put together, and each level loses an equal part of it.
    """
    together = families(budgeted.aggregate.measures)
    if not together:
        return budgeted.noise
    members = {i for family in together for i in family}
    alone = [noise for i, noise in enumerate(budgeted.noise) if i not in members]
    for family in together:
        level, levels = _level(budgeted, family)
        alone += [level] * levels
    return tuple(alone)


def drawn_with(budgeted: BudgetedAggregate) -> tuple[tuple[Noise, PrivacyLoss | None], ...]:
    """Returns for each measure the noise that it is drawn with, and what dividing the values at it may lose."""
    found: list[tuple[Noise, PrivacyLoss | None]] = [(noise, None) for noise in budgeted.noise]
    for family in families(budgeted.aggregate.measures):
        level, _ = _level(budgeted, family)
        for i, place in zip(family, places_of([budgeted.aggregate.measures[i] for i in family]), strict=True):
            if place.divides:
                kept = replace(level, loss=_part(level.loss, 1 - DIVIDING))
                found[i] = kept, _part(level.loss, DIVIDING)
            else:
                found[i] = level, None
    return tuple(found)


def _level(budgeted: BudgetedAggregate, family: tuple[int, ...]) -> tuple[Noise, int]:
    """Returns what one level loses, and how many levels there are."""
    noises = [budgeted.noise[i] for i in family]
    if len({(noise.mechanism, noise.loss.epsilon > 0, noise.loss.rho > 0) for noise in noises}) > 1:
        raise InternalError("quantiles that are chosen together are paid for in one currency")
    levels = 1 + max(place.level for place in places_of([budgeted.aggregate.measures[i] for i in family]))
    total = sum((noise.loss for noise in noises), start=PrivacyLoss())
    return replace(noises[0], loss=_part(total, Fraction(1, levels))), levels


def _part(loss: PrivacyLoss, part: Fraction) -> PrivacyLoss:
    return PrivacyLoss(epsilon=loss.epsilon * part, delta=loss.delta * part, rho=loss.rho * part)


def divider(l1: int | Fraction, l2_squared: int | Fraction, loss: PrivacyLoss) -> Fraction:
    """Returns the scale of the Laplace noise that measures the target rank of a side, in steps of utility.

    Args:
        l1, l2_squared: Norms over groups of how far the utilities of the choice move apart.
        loss: Epsilon or rho.
    Privacy:
        The rank moves by half of what the utilities move apart, over all sides of a level added up. Laplace noise of
        scale b on it is (l1 / 2b)-DP, and (l2 / 2b)^2 / 2-zCDP.
        Neighbours: those for which the norms were asked.
    Source:
        Bun, Steinke 2016, proposition 1.4; docs/proofs/exponential.md, Lemma 5.
    """
    if loss.epsilon:
        return Fraction(l1, 2) / loss.epsilon
    square = Fraction(l2_squared, 8) / loss.rho
    return Fraction(math.isqrt((square.numerator << 512) // square.denominator) + 1, 1 << 256)


def rank_errors(aggregate: PrivateAggregate, scales: Sequence[Scale], failure: Fraction) -> list[float]:
    """Returns for each choice how many ranks it is off at most but with the probability `failure`; 0 for the rest.

    Of quantiles that are chosen together, a side ends as far from its rank as the choice there or the noise that
    divides its values, and as the ends of the side that this one is in; errors of all of them add up.

    Args:
        scales: For each measure what its noise's `choosing` says.
    """
    found = [0.0] * len(scales)
    for i, measure in enumerate(aggregate.measures):
        if measure.count in CHOICES:
            found[i] = rank_error(*asked(aggregate, measure), scales[i][0], failure, scales[i][2])
    for family in families(aggregate.measures):
        measures = [aggregate.measures[i] for i in family]
        places = places_of(measures)
        above = [_above(places, own) for own in range(len(places))]
        known: dict[tuple[int, int], float] = {}  # those below a choice on one level need the same of it
        for own, i in enumerate(family):
            level, needed = len(above[own]), (own, *above[own])
            for j in needed:
                if (j, level) not in known:
                    known[j, level] = _off(aggregate, measures[j], scales[family[j]], failure / (2 * level + 1))
            found[i] = sum(known[j, level] for j in needed)
    return found


def _above(places: Sequence[QuantileNode], own: int) -> list[int]:
    """Returns those among whose sides the place is: on each level above it one of its two ends is chosen there."""
    found: list[int] = []
    while places[own].level:
        ends = [end for end in (places[own].before, places[own].after) if end is not None]
        own = max(ends, key=lambda end: places[end].level)
        found.append(own)
    return found


def _off(aggregate: PrivateAggregate, measure: Measure, scale: Scale, failure: Fraction) -> float:
    drawn, weight = asked(aggregate, measure)
    chosen = rank_error(drawn, weight, scale[0], failure, scale[2])
    if scale[1] is None:
        return chosen
    return max(chosen, laplace_quantile(scale[1], failure) * float(step_of(drawn, weight)))
