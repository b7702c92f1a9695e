"""Permute-and-flip: the law of a choice that is paid with a pure epsilon, drawn without floating point in any decision.

Candidates are tried in random order; one whose utility is `gap` below the best is taken with probability
p = exp(-c * gap), and the first that is taken is released. That is drawn as the first accepted of a few draws of the
exponential mechanism: the chance of a worse candidate falls from one to the next. Each choice is within 2^-256 in total
variation of its law. Proofs: docs/proofs/exponential.md, "Permute-and-flip".
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpquery.kernel import samplers
from dpquery.kernel.exponential import Integers, Segments, exactly, fall, random_integers
from dpquery.kernel.exponential import draw as draw_exponentially

_PLACES = 40  # binary places of the time that is drawn for all groups at once
_ALL_PLACES = 300  # of one that is completed
_WHOLE_DIGITS = 8  # binary digits of a time before the point: it is below 2^8 but for a chance of exp(-256)
_BITS = 320  # of a uniform number that is compared
_MARGIN = 2.0**-29  # more than 32 bits of it, 40 places and every rounding in `flip` can hide
_MOST_DRAWS = 64  # drawn for all groups at once; what is then left is decided with integers
_LARGEST_TIME = 256.0


def flip(found: Segments, coefficient: Fraction, groups: int) -> Integers:
    """Returns for each group the index of a segment, drawn by permute-and-flip over the candidates of all segments.

    In each group draws of the exponential mechanism come at times that are Z per unit on average, Z its mass. One of
    chance p at the time t is accepted with probability 1 / (p + (1 - p) exp(t)), always where p is 1.

    Privacy:
        epsilon-DP where a unit moves utilities apart by at most w in sum, for epsilon = coefficient * w. There are
        fewer than 1.3 draws on average, for any data.
        Neighbours: any two tables whose utilities differ so.
    Source:
        McKenna, Sheldon 2020 (the mechanism); Ding et al. 2021 (as noisy maximum); Lewis, Shedler 1979 (thinning);
        docs/proofs/exponential.md, Lemmas 6 and 7.
    """
    chance = fall(float(coefficient) * found.gap)  # (segments,)
    starts = np.searchsorted(found.group, np.arange(groups))
    total = np.add.reduceat(found.width * chance, starts)  # (groups,), Z
    chosen, passed = np.empty(groups, np.int64), np.zeros(groups, np.int64)
    waiting, left = np.arange(groups), np.arange(len(found.group))  # groups without a choice, and their segments
    for draws in range(1, _MOST_DRAWS + 1):
        numbers = np.searchsorted(waiting, found.group[left])
        part = Segments(numbers, found.start[left], found.width[left], found.gap[left])
        proposed = left[draw_exponentially(part, coefficient, len(waiting))]  # (waiting,)
        passed[waiting] += _times(len(waiting))
        time = np.minimum(passed[waiting] * 2.0**-_PLACES / total[waiting], _LARGEST_TIME)
        leading = random_integers(len(waiting)) >> np.uint64(32)
        fallen, p = fall(time), chance[proposed]
        gap = leading * 2.0**-32 * (1 - p * (1 - fallen)) - fallen
        is_best = found.gap[proposed] == 0
        doubtful = ~is_best & (np.abs(gap) <= _MARGIN + len(found.gap) * 2.0**-52)
        accepted = is_best | (~doubtful & (gap < 0))
        chosen[waiting[accepted]] = proposed[accepted]
        for place in np.flatnonzero(doubtful | (~accepted & (draws == _MOST_DRAWS))).tolist():
            group, start = int(waiting[place]), int(starts[waiting[place]])
            end = int(starts[group + 1]) if group + 1 < groups else len(found.group)
            one = Segments(*(column[start:end] for column in (found.group, found.start, found.width, found.gap)))
            begun = int(proposed[place]) - start, int(passed[group]), draws, int(leading[place])
            chosen[group] = start + _to_the_end(one, coefficient, *begun)
            accepted[place] = True
        waiting = waiting[~accepted]
        if not len(waiting):
            break
        is_left = np.zeros(groups, np.bool_)
        is_left[waiting] = True
        left = left[is_left[found.group[left]]]
    return chosen


def _times(size: int) -> Integers:
    """Returns independent exponential variables of mean 1, in units of 2^-_PLACES, rounded down.

    These are geometric: the discrete Laplace law's samples, of which a negative one is the complement of another.
    """
    drawn = samplers.discrete_laplace(Fraction(1 << _PLACES), size)
    return drawn ^ (drawn >> 63)


def _to_the_end(found: Segments, coefficient: Fraction, proposed: int, passed: int, draws: int, leading: int) -> int:
    """Returns the segment that is accepted in one group, from a proposal on that is in doubt, with integers.

    Args:
        found: The segments of the group.
        proposed: The proposal's segment.
        passed: What times add up to, each rounded down to units of 2^-_PLACES.
        draws: How many times these are.
        leading: The first 32 bits of the uniform number that it is compared with.
    """
    gaps, widths = found.gap.tolist(), found.width.tolist()
    chances = [samplers.exponential(coefficient * gap) for gap in gaps]
    total = sum(width * chance for width, chance in zip(widths, chances, strict=True))
    one = 1 << samplers.PRECISION
    later = sum(_digits(_PLACES + 1, _ALL_PLACES) for _ in range(draws))
    time = (passed << _ALL_PLACES - _PLACES) + later  # in units of 2^-_ALL_PLACES
    uniform = leading << _BITS - 32 | _uniform(_BITS - 32)
    while gaps[proposed]:
        fallen = samplers.exponential(Fraction(time * one, total << _ALL_PLACES))
        most = one - (chances[proposed] * (one - fallen) >> samplers.PRECISION)
        if uniform * most < fallen << _BITS:
            break
        proposed = exactly(_uniform(64) >> 3, found.gap, found.width, coefficient)
        time += _digits(1 - _WHOLE_DIGITS, _ALL_PLACES)
        uniform = _uniform(_BITS)
    return proposed


def _digits(first: int, last: int) -> int:
    """Returns binary digits of an exponential variable of mean 1, those of 2^-first to 2^-last, as one integer.

    They are independent: that of 2^-i is 1 with probability q / (1 + q), q = exp(-2^-i).
    """
    number = 0
    for threshold in _thresholds(first, last):
        number = 2 * number + (_uniform(_BITS) >= threshold)
    return number


@lru_cache(maxsize=2)
def _thresholds(first: int, last: int) -> tuple[int, ...]:
    """Returns P(digit = 0) for the digits of 2^-first to 2^-last, in units of 2^-_BITS, rounded up."""
    one, found = 1 << samplers.PRECISION, []
    power = samplers.exponential(Fraction(1, 1 << last))
    for _ in range(first, last + 1):
        found.append(-((-one << _BITS) // (one + power)))
        power = power * power >> samplers.PRECISION
    return tuple(reversed(found))


def _uniform(bits: int) -> int:
    return int.from_bytes(samplers.random_bytes(bits // 8), "little")
