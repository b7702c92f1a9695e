"""Interval arithmetic: endpoints, and how floating-point rounding moves them.

Sums, differences, products, quotients and square roots of floats are correctly rounded, and rounding is monotone: the
rounded exact endpoints bound the rounded values, so they need no margin. Other functions get one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.ranges import Range
from dpquery.plan.types import Kind, Type

End = Fraction | float
"""An endpoint; the only floats are -inf and inf."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
FIRST_DAY = -719_162
LAST_DAY = 2_932_896
DAY = 86_400_000_000
FIRST_MICROSECOND = FIRST_DAY * DAY
LAST_MICROSECOND = (LAST_DAY + 1) * DAY - 1
FLOAT_MAX = Fraction(sys.float_info.max)
MARGIN = Fraction(1, 2**40)
TINY = Fraction(1, 2**1060)

TRUTH = Range(lower=Fraction(0), upper=Fraction(1), nullable=False)


def between(lower: int | Fraction, upper: int | Fraction, *, nullable: bool) -> Range:
    """Returns the range from `lower` to `upper`."""
    return Range(lower=Fraction(lower), upper=Fraction(upper), nullable=nullable)


def any_nullable(ranges: tuple[Range, ...]) -> bool:
    """Whether NULL is possible somewhere."""
    return any(r.nullable for r in ranges)


def low(r: Range) -> End:
    """Returns the lower endpoint, -inf if there is none."""
    return -math.inf if r.lower is None else r.lower


def high(r: Range) -> End:
    """Returns the upper endpoint, inf if there is none."""
    return math.inf if r.upper is None else r.upper


def span(lower: End, upper: End, *, nullable: bool) -> Range:
    """Returns the range between two endpoints."""
    return Range(lower=finite(lower), upper=finite(upper), nullable=nullable)


def finite(end: End) -> Fraction | None:
    """Returns the endpoint, or None for an infinite one."""
    return None if isinstance(end, float) else end


def times(x: End, y: End) -> End:
    """Returns the product of endpoints, where zero times infinity is zero."""
    if x == 0 or y == 0:
        return Fraction(0)
    if isinstance(x, float) or isinstance(y, float):
        return math.inf if (x > 0) == (y > 0) else -math.inf
    return x * y


def over(x: End, y: End) -> End:
    """Returns the quotient of endpoints, the divisor not zero; infinity over infinity is 1 with their sign.

    Quotients of values on both sides of that corner are covered by the other corners."""
    if isinstance(y, float):
        return Fraction(0)
    return times(x, 1 / y)


def corners(operation: Callable[[End, End], End], a: Range, b: Range) -> tuple[End, End]:
    """Returns least and greatest value of an operation that is monotone in each argument."""
    values = [operation(x, y) for x in (low(a), high(a)) for y in (low(b), high(b))]
    return min(values), max(values)


def rounded(lower: End, upper: End, *, nullable: bool) -> Range:
    """Returns the range of floats that are the rounded values of reals in [lower, upper]."""
    return span(_nearest(lower), _nearest(upper), nullable=nullable)


def _nearest(end: End) -> End:
    """Returns the float nearest to an endpoint; beyond the largest float any float or infinity may stand."""
    if isinstance(end, float):
        return end
    try:
        return Fraction(float(end))
    except OverflowError:
        return math.inf if end > 0 else -math.inf


def float_below(end: End) -> float:
    """Returns a float that is at most the endpoint."""
    near = _nearest(end)
    if isinstance(near, float):
        return -math.inf if near < 0 else (near if isinstance(end, float) else sys.float_info.max)
    return float(near) if near <= end else math.nextafter(float(near), -math.inf)


def float_above(end: End) -> float:
    """Returns a float that is at least the endpoint."""
    return -float_below(-end)


def widened(lower: float, upper: float, *, nullable: bool) -> Range:
    """Returns the range [lower, upper] with a margin for functions that are not correctly rounded."""
    below = lower if math.isinf(lower) else _apart(Fraction(lower), -1)
    above = upper if math.isinf(upper) else _apart(Fraction(upper), 1)
    below = FLOAT_MAX if below == math.inf else below
    above = -FLOAT_MAX if above == -math.inf else above
    return span(below, above, nullable=nullable)


def _apart(x: Fraction, sign: int) -> End:
    moved = x + sign * (abs(x) * MARGIN + TINY)
    return moved if abs(moved) <= FLOAT_MAX else sign * math.inf


def domain(of: Type) -> tuple[End, End]:
    """Returns the least and the greatest value of a type."""
    match of.kind:
        case Kind.BOOLEAN:
            return Fraction(0), Fraction(1)
        case Kind.INT64 | Kind.INTERVAL:
            return Fraction(INT64_MIN), Fraction(INT64_MAX)
        case Kind.DATE:
            return Fraction(FIRST_DAY), Fraction(LAST_DAY)
        case Kind.TIMESTAMP:
            return Fraction(FIRST_MICROSECOND), Fraction(LAST_MICROSECOND)
        case Kind.DECIMAL:
            most = Fraction(10**of.precision - 1, 10**of.scale)
            return -most, most
        case Kind.FLOAT64 | Kind.TEXT:
            return -math.inf, math.inf


def effective(r: Range, of: Type) -> Range:
    """Returns the range with unknown ends replaced by those of the type: for proofs, not for results."""
    least, most = domain(of)
    return span(min(max(low(r), least), most), max(min(high(r), most), least), nullable=r.nullable)


Ends = tuple[End, End]


def fitted(known: Ends, total: Ends, result: Type, *, nullable: bool) -> Range:
    """Returns the range of results that become NULL where they leave their type.

    Args:
        known: Ends of the exact result, from what is known of the arguments; may be infinite.
        total: The same from what is known and the argument types: decides whether NULL is possible.
    """
    least, most = domain(result)
    if total[0] > most or total[1] < least:  # always NULL
        return Range(nullable=True)
    fits = least <= total[0] and total[1] <= most
    lower = -math.inf if known[0] == -math.inf else max(known[0], least)
    upper = math.inf if known[1] == math.inf else min(known[1], most)
    return span(lower, upper, nullable=nullable or not fits)
