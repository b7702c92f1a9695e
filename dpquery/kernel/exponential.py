"""The exponential mechanism over public candidates, sampled without floating point in any decision.

P(t) is proportional to exp(c * utility(t)) over all candidates t, also those that no value equals. Candidates with one
utility that stand side by side are one segment. Floating point sorts the clear draws; doubtful ones are decided with
integers. Each choice is within 2^-256 in total variation of its law. Proofs: docs/proofs/exponential.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel import samplers
from dpquery.kernel.choice_utilities import LARGEST_UTILITY, candidates, rank_of_extreme, utilities
from dpquery.kernel.plan import Measure

MIN_COEFFICIENT, MAX_COEFFICIENT = Fraction(1, 2**52), Fraction(2**60)

_FARTHEST = 256  # segments worse than the best by more, in units of 1/c, have a mass below 2^-315 together
_BITS = 61  # of a draw; masses are scaled to a sum of about 2^61
_ALL_BITS = 61 + 264  # of a draw that is decided with integers
_HALVINGS = 12
_MARGIN = 2**28  # more than all rounding of cumulated masses, without one unit for each segment

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """The values of a choice: in `group` the value `value` has the weight `weight` >= 1; secret.

    Attributes:
        group: The index of the group, int64, in any order.
        value: The lattice value, or the place in the domain; each once in a group.
        weight: The sum over units.
    """

    group: Integers = field(repr=False)
    value: Integers = field(repr=False)
    weight: Integers = field(repr=False)


@dataclass(frozen=True, slots=True)
class Segments:
    """Neighbouring candidates of one utility, sorted by group, the best first: those from `start`, `width` of them.

    `gap` is how far the utility is below the best of the group.
    """

    group: Integers
    start: Integers
    width: Integers
    gap: Integers


Draw = Callable[[Segments, Fraction, int], Integers]
"""Draws for each group the index of a segment: `draw` here, or `flips.flip`."""


def choose(
    measure: Measure,
    coefficient: Fraction,
    histogram: Histogram,
    groups: int,
    *,
    by: Draw | None = None,
    within: tuple[Integers, Integers] | None = None,
) -> Integers:
    """Returns for each group a candidate, drawn by a law in which only its utility counts.

    Args:
        measure: A choice.
        coefficient: c, from MIN_COEFFICIENT to MAX_COEFFICIENT.
        histogram: The weighed values of all groups.
        groups: The number of groups; one without values is chosen for like any other.
        by: The law; None: that of `draw`, P(t) proportional to exp(coefficient * utility(t)).
        within: The first and the last candidate of each group; None for all of the measure's.
    Returns:
        Lattice values or places in the domain, shape (groups,).
    Privacy:
        As `mechanisms.calibrate` says. All candidates are public; which of them are told apart follows from the data,
        the law of the choice does not depend on how.
        Neighbours: those for which the coefficient was made.
    Source:
        McSherry, Talwar 2007 (the mechanism); Smith 2011 (quantiles); docs/proofs/exponential.md.
    """
    if not MIN_COEFFICIENT <= coefficient <= MAX_COEFFICIENT:
        raise InternalError("the coefficient of a choice is outside what is sampled exactly")
    if groups == 0:
        return np.zeros(0, np.int64)
    first, last = within or (np.full(groups, end) for end in candidates(measure))  # both (groups,)
    found = _segments(measure, coefficient, in_order(histogram, measure, groups), first, last)
    chosen = (by or draw)(found, coefficient, groups)  # (groups,), each the index of a segment
    return found.start[chosen] + uniform_below(found.width[chosen])


def uniform_below(sizes: Integers) -> Integers:
    """Returns independent uniform integers from 0 to size - 1, one for each size >= 1, by rejection of random bits."""
    mask = sizes.astype(np.uint64) - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    drawn = np.zeros(len(sizes), np.uint64)
    missing = np.flatnonzero(mask)
    while missing.size:
        proposals = random_integers(missing.size) & mask[missing]
        accepted = proposals < sizes[missing].astype(np.uint64)
        drawn[missing[accepted]] = proposals[accepted]
        missing = missing[~accepted]
    return drawn.astype(np.int64)


def random_integers(size: int) -> NDArray[np.uint64]:
    """Returns fresh uniform integers of 64 bits, shape (size,)."""
    return np.frombuffer(samplers.random_bytes(8 * size), np.uint64)


def in_order(given: Histogram, measure: Measure, groups: int) -> Histogram:
    """Returns the histogram in the order of groups, then of values; refuses what is none."""
    group, value, weight = given.group, given.value, given.weight
    first, last = candidates(measure)
    if not len(group) == len(value) == len(weight) or any(x.dtype != np.int64 for x in (group, value, weight)):
        raise InternalError("a histogram does not have the expected shape")
    if not len(group):
        return given
    inside = group.min() >= 0 and group.max() < groups and value.min() >= first and value.max() <= last
    if not inside or weight.min() < 1 or _sum(weight) >= LARGEST_UTILITY:  # 2^37 rows: no engine holds so many
        raise InternalError("a histogram holds an impossible value")
    if not _ascends(group, value):
        size = last - first + 1
        fits = groups * size < LARGEST_UTILITY  # one number stands for both, which is quicker
        order = np.argsort(group * size + (value - first)) if fits else np.lexsort((value, group))
        group, value, weight = group[order], value[order], weight[order]
        if not _ascends(group, value):
            raise InternalError("a histogram holds a value twice")
    return Histogram(group=group, value=value, weight=weight)


def _sum(weight: Integers) -> int:
    """Returns the exact sum for any weights: an error here would tell how many values there are."""
    return (int((weight >> 31).sum()) << 31) + int((weight & (2**31 - 1)).sum())


def _ascends(group: Integers, value: Integers) -> bool:
    same = group[1:] == group[:-1]
    return bool(np.where(same, value[1:] > value[:-1], group[1:] > group[:-1]).all())


def _segments(
    measure: Measure, coefficient: Fraction, histogram: Histogram, first: Integers, last: Integers
) -> Segments:
    """Returns the segments of all groups, from their first candidates to their last, without those of next to no mass.

    They are: what lies before the first value of each group, each value, and what lies after it up to the next.
    """
    group, value, weight, groups = histogram.group, histogram.value, histogram.weight, len(first)
    if len(group) and not ((first[group] <= value) & (value <= last[group])).all():
        raise InternalError("a histogram holds a value that is not a candidate")
    edges = np.searchsorted(group, np.arange(groups + 1))  # (groups + 1,), where each group's values begin
    added = np.concatenate((np.zeros(1, np.int64), np.cumsum(weight)))
    total = added[edges[1:]] - added[edges[:-1]]  # (groups,)
    below = added[:-1] - added[edges[:-1]][group]  # (values,), the weight of smaller ones in the group
    filled = np.flatnonzero(edges[1:] > edges[:-1])  # (groups with values,)
    places = edges[filled]
    ends = last[group] + 1
    ends[:-1] = np.where(group[1:] == group[:-1], value[1:], ends[:-1])
    firsts = last + 1
    firsts[filled] = value[places]
    owners = (np.arange(groups), group, group)  # (groups,), (values,), (values,); so are starts and widths
    starts = (first, value, value + 1)
    widths = (firsts - first, np.broadcast_to(np.int64(1), value.shape), ends - value - 1)
    nothing = np.zeros(1, np.int64)
    known = ((nothing, nothing), (below, weight), (below + weight, nothing))
    extreme = rank_of_extreme(measure, coefficient)
    scores = []
    for owner, width, (less, equal) in zip(owners, widths, known, strict=True):
        less, equal = np.broadcast_to(less, owner.shape), np.broadcast_to(equal, owner.shape)
        scored = utilities(measure, extreme, below=less, equal=equal, total=total[owner])
        scores.append(np.where(width > 0, scored, -LARGEST_UTILITY))
    best = scores[0].copy()  # (groups,)
    for scored in scores[1:] if len(value) else ():
        best[filled] = np.maximum(best[filled], np.maximum.reduceat(scored, places))
    reach = math.floor(_FARTHEST / coefficient)  # at most LARGEST_UTILITY / 2
    parts = []
    for owner, start, width, scored in zip(owners, starts, widths, scores, strict=True):
        gap = best[owner] - scored
        kept = np.flatnonzero((gap <= reach) & (width > 0))
        parts.append((owner[kept], start[kept], width[kept], gap[kept]))
    group, start, width, gap = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((start, gap, group))
    return Segments(group[order], start[order], width[order], gap[order])


def draw(found: Segments, coefficient: Fraction, groups: int) -> Integers:
    """Returns for each group the index of a segment, drawn with the share of its mass: width * exp(-c * gap).

    Masses are floats, off by less than 2^-36 of their size, then integers that add up to about 2^61 in each group. A
    draw of 61 bits that falls clear of every sum of masses, by _MARGIN and more, is decided by them.
    """
    starts = np.searchsorted(found.group, np.arange(groups))
    ends = np.append(starts[1:], len(found.group))
    mass = found.width * fall(float(coefficient) * found.gap)  # (segments,)
    mass *= (2.0**_BITS / np.add.reduceat(mass, starts))[found.group]
    running = np.cumsum(mass.astype(np.uint64), dtype=np.uint64)  # modulo 2^64; sums within a group are below that
    offset = np.zeros(groups, np.uint64)
    offset[1:] = running[ends[:-1] - 1]
    reached = (running - offset[found.group]).astype(np.int64)
    drawn = (random_integers(groups) >> np.uint64(64 - _BITS)).astype(np.int64)  # (groups,)
    excess = (reached[ends - 1] - 2**_BITS) / 2.0**_BITS
    point = (drawn + (drawn * excess).astype(np.int64))[found.group]  # (segments,)
    passed, doubtful = reached <= point, np.abs(reached - point) <= _MARGIN + 4 * len(point)
    passed[ends - 1] = doubtful[ends - 1] = False
    index: Integers = starts + np.add.reduceat(passed, starts, dtype=np.int64)
    for group in np.flatnonzero(np.logical_or.reduceat(doubtful, starts)).tolist():
        part = slice(int(starts[group]), int(ends[group]))
        index[group] = part.start + exactly(int(drawn[group]), found.gap[part], found.width[part], coefficient)
    return index


def fall(x: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Returns exp(-x) for x from 0 to 257, by a Taylor polynomial and squarings: additions and products alone."""
    y = x * -(0.5**_HALVINGS)
    power = np.full_like(y, 1 / 40320)
    for factorial in (5040, 720, 120, 24, 6, 2, 1, 1):
        power *= y
        power += 1 / factorial
    for _ in range(_HALVINGS):
        power *= power
    return power


def exactly(drawn: int, gaps: Integers, widths: Integers, coefficient: Fraction) -> int:
    """Returns the segment that a uniform number of _ALL_BITS falls into, the first _BITS of it given."""
    missing = _ALL_BITS - _BITS
    uniform = drawn << missing | int.from_bytes(samplers.random_bytes(missing // 8), "little")
    sums: list[int] = []
    power, last = samplers.exponential(Fraction(0)), 0
    steps: dict[int, int] = {}
    for gap, width in zip(gaps.tolist(), widths.tolist(), strict=True):
        if gap > last:  # gaps ascend
            step = steps.setdefault(gap - last, 0) or samplers.exponential(coefficient * (gap - last))
            steps[gap - last], last = step, gap
            power = power * step >> samplers.PRECISION
        sums.append((sums[-1] if sums else 0) + width * power)
    wanted = uniform * sums[-1]
    return next(i for i, reached in enumerate(sums) if wanted < reached << _ALL_BITS)
