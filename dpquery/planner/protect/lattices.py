"""Which lattice a value is put on before it is summed or chosen from, and the type of its sum: from the plan alone.

The grid is exact for integers and decimals, and a power of two far below the noise for floats. It is made coarser
where one unit could otherwise move a sum by more lattice steps than the samplers' widest noise allows for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpquery.errors import MissingBoundsError
from dpquery.kernel.plan import LARGEST_STEP, Lattice
from dpquery.plan.expr import Expression
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import FLOAT64, Kind, Type, sum_type

FLOAT_STEPS = 2**32
"""Lattice steps between 0 and the largest magnitude of a float."""
MOST_MOVED = 2**42
"""Lattice steps by which one unit may move a sum, over all its groups."""
FINEST = Fraction(1, 2**400)
"""No grid of floats is finer: its square and its inverse are floats too."""
MOST_STEPS = LARGEST_STEP // 2
"""Lattice steps between 0 and the end of a narrow range far from 0, where the range alone would ask for more."""
NARROW_STEPS = 2**24
"""Lattice steps between the middle of a range and its ends, where deviations are summed: at least so many."""
SQUARE_STEPS = 2**20
"""Lattice steps between the middle of a range and its ends, where deviations are squared."""
MOST_PAIRED = 2**60
"""Lattice steps by which one unit may move a product of terms: it is released in coarser steps."""
QUANTILE_STEPS = 2**48
"""Lattice steps of a range that a quantile is chosen from, at most; of floats there are `FLOAT_STEPS`."""
MOST_KNOWN = 1024
"""Lattices that are remembered of each kind: they follow from a type, bounds and a weight, whoever asks."""
MANY = 10**12
"""Values of the largest size whose sum, noise included, has to fit its type."""


@lru_cache(maxsize=MOST_KNOWN)
def for_sum(type: Type, lower: Fraction, upper: Fraction, weight: int) -> Lattice:
    """Returns the lattice for SUM of values in [lower, upper], of which one unit weighs at most `weight`."""
    grid = _grid(type, max(abs(lower), abs(upper)), max(1, MOST_MOVED // weight))
    return Lattice(grid=grid, lower=math.floor(lower / grid), upper=math.ceil(upper / grid))


def for_total(type: Type, lower: Fraction, upper: Fraction, most: Fraction) -> tuple[Lattice, int]:
    """Returns the lattice for SUM of values in [lower, upper] that one unit's are scaled to `most` of, and that in
    steps, rounded down. It follows from the declarations alone: weights are made for it once."""
    largest, base = max(abs(lower), abs(upper)), 10 if type.kind is Kind.DECIMAL else 2
    grid = _grid(type, min(largest, most), MOST_MOVED)
    grid = max(grid, _power(base, most / MOST_MOVED), _finest(type, max(largest, grid)))
    return Lattice(grid=grid, lower=math.floor(lower / grid), upper=math.ceil(upper / grid)), math.floor(most / grid)


@lru_cache(maxsize=MOST_KNOWN)
def for_deviations(type: Type, lower: Fraction, upper: Fraction, weight: int) -> Lattice:
    """Returns the lattice for sums of deviations from the middle of the range.

    The range is at least `NARROW_STEPS` wide on either side of its middle, as far as doubles can tell values apart.
    """
    grid = for_sum(type, lower, upper, weight).grid
    if (upper - lower) / 2 < grid * NARROW_STEPS:
        fine = _grid(type, (upper - lower) / 2, min(NARROW_STEPS, max(1, MOST_MOVED // weight)))
        grid = min(grid, max(fine, _finest(type, max(abs(lower), abs(upper), fine))))
    low, high = math.floor(lower / grid), math.ceil(upper / grid)
    return Lattice(grid=grid, lower=low, upper=high, offset=(low + high) // 2)


@lru_cache(maxsize=MOST_KNOWN)
def for_squares(type: Type, lower: Fraction, upper: Fraction, weight: int) -> Lattice:
    """Returns the lattice for sums of squared deviations, themselves taken from the middle of their range."""
    steps = min(SQUARE_STEPS, math.isqrt(max(1, MOST_MOVED // weight)))
    grid = _grid(type, (upper - lower) / 2, steps)
    grid = max(grid, _finest(type, max(abs(lower), abs(upper), grid)))
    low, high = math.floor(lower / grid), math.ceil(upper / grid)
    offset = (low + high) // 2
    largest = max(offset - low, high - offset)
    return Lattice(
        grid=grid, lower=low, upper=high, offset=offset, squared=True, offset_of_square=largest * largest // 2
    )


@lru_cache(maxsize=MOST_KNOWN)
def for_terms(type: Type, lower: Fraction, upper: Fraction, weight: int, degree: int, values: int) -> Lattice:
    """Returns the lattice for the Bernstein terms of a degree, of one value or of each of two: that of deviations, or
    of squares, or such that products of the terms of both have room in 64 bits."""
    if values * degree == 1:
        return replace(for_deviations(type, lower, upper, weight), offset=0)
    if values == 1:
        made = for_squares(type, lower, upper, weight)
        return replace(made, offset=0, squared=False, offset_of_square=0)
    steps = math.floor((MOST_PAIRED // weight) ** (1 / (values * degree))) // 2
    grid = _grid(type, upper - lower, max(1, min(2 * SQUARE_STEPS, steps)))
    grid = max(grid, _finest(type, max(abs(lower), abs(upper), grid)))
    return Lattice(grid=grid, lower=math.floor(lower / grid), upper=math.ceil(upper / grid))


def for_quantile(type: Type, lower: Fraction, upper: Fraction) -> Lattice:
    """Returns the lattice to choose a quantile of values in [lower, upper] from: points within these bounds.

    Dates are days and timestamps microseconds since 1970-01-01.
    """
    grid = _grid(type, (upper - lower) or abs(upper), QUANTILE_STEPS)
    base = 10 if type.kind is Kind.DECIMAL else 2
    grid = max(grid, _power(base, max(abs(lower), abs(upper), grid) / MOST_STEPS))
    first, last = math.ceil(lower / grid), math.floor(upper / grid)
    return Lattice(grid=grid, lower=first, upper=max(first, last))


def measured_type(type: Type, lattice: Lattice) -> Type:
    """Returns the type of a measured sum of lattice values: exact where the digits of sums suffice, else float64."""
    return (
        FLOAT64
        if lattice.squared or lattice.bernstein or not _has_room(type, lattice.largest_deviation * lattice.grid)
        else sum_type(type)
    )


def check_room(
    column: AggregateColumn, value: Expression, largest: Fraction, describe: Callable[[Expression], str]
) -> None:
    """Raises MissingBoundsError if a SUM of values of this size does not fit its type."""
    if not _has_room(value.type, largest):
        name = describe(value)
        raise MissingBoundsError(
            f"SUM({name}) of values up to {float(largest):.0e} does not fit {sum_type(value.type)}",
            advice=f"CLAMP the value to narrower bounds, or write SUM(CAST({name} AS double precision)).",
            span=column.span,
        )


def _has_room(type: Type, largest: Fraction) -> bool:
    """Whether `MANY` values of this size add up within the type of their sum."""
    total = sum_type(type)
    return type.kind is Kind.FLOAT64 or largest * MANY < 10 ** (total.precision - total.scale)


def _finest(type: Type, magnitude: Fraction) -> Fraction:
    """Returns the finest grid on which doubles of a magnitude can be told apart."""
    return _power(10 if type.kind is Kind.DECIMAL else 2, magnitude / MOST_STEPS)


def _grid(type: Type, magnitude: Fraction, steps: int) -> Fraction:
    """Returns the finest grid of the type on which `magnitude` spans at most `steps`."""
    if type.kind is Kind.FLOAT64:
        return max(FINEST, _power(2, magnitude / min(steps, FLOAT_STEPS))) if magnitude else Fraction(1)
    base = 10 if type.kind is Kind.DECIMAL else 2
    finest = Fraction(1, 10**type.scale)
    return finest * max(Fraction(1), _power(base, magnitude / steps / finest)) if magnitude else finest


def _power(base: int, least: Fraction) -> Fraction:
    """Returns the smallest integer power of the base that is at least `least` > 0."""
    exponent = math.floor(math.log(least.numerator, base) - math.log(least.denominator, base)) - 1
    power = Fraction(base) ** exponent
    while power < least:
        power *= base
    return power
