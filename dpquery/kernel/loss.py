"""Privacy losses: epsilon, delta and rho as exact fractions, and the conversions between them, which round up.

The proofs are in docs/proofs/conversions.md. Logarithms and roots are the only inexact steps; each is
computed to 60 digits and moved to the next number above (`directed_rounding`), so that every result is on the safe
side.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation, Overflow
from fractions import Fraction
from functools import lru_cache

from dpquery.errors import InvalidLossError
from dpquery.kernel.directed_rounding import ln_up, sqrt_up

_SHOWN = Context(prec=6, rounding=ROUND_CEILING, Emin=-999_999, Emax=999_999, traps=[InvalidOperation, Overflow])
_EPSILON_STEP = Fraction(1, 10**18)
_RHO_STEP = Fraction(1, 10**12)
_LARGEST = Fraction(10**30)
_LONGEST_TEXT = 40
_TEXT = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?|\d+/\d+", re.ASCII)
_NUMPY_SCALARS = [f"{kind}{bits}" for kind in ("float", "int", "uint") for bits in (8, 16, 32, 64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyLoss:
    """A cost or a limit on cost: `epsilon` of pure, `rho` of zero-concentrated, and `delta` of approximate privacy.

    The parts are separate currencies, all exact and at least 0. A mechanism with loss (epsilon, delta, rho) is the
    composition of an epsilon-DP part and a rho-zCDP part, except with probability delta.

    Raises:
        InvalidLossError: A part is not a Fraction, or is below 0.
    Example:
        >>> PrivacyLoss(epsilon=Fraction(1, 10)) + PrivacyLoss(epsilon=Fraction(1, 5), delta=Fraction(1, 10**6))
        epsilon 0.3, delta 1e-6
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name, part in (("epsilon", self.epsilon), ("delta", self.delta), ("rho", self.rho)):
            if type(part) is not Fraction or part < 0:
                raise InvalidLossError(f"{name} of a loss must be a fraction of at least 0")

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        if type(other) is not PrivacyLoss:
            return NotImplemented
        epsilon, delta, rho = self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho
        return PrivacyLoss(epsilon=epsilon, delta=delta, rho=rho)

    def __str__(self) -> str:
        parts = (("epsilon", self.epsilon), ("delta", self.delta), ("rho", self.rho))
        return ", ".join(f"{name} {show_amount(part)}" for name, part in parts if part) or "nothing"

    __repr__ = __str__  # what a notebook shows of `remaining`


ZERO = PrivacyLoss()


def show_amount(amount: Fraction) -> str:
    """Returns an amount of at least 0 in decimal form for people: six digits at most, rounded up.

    Example:
        >>> show_amount(Fraction(1, 3)), show_amount(Fraction(1, 10**9))
        ('0.333334', '1e-9')
    """
    shown = _SHOWN.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize(_SHOWN)
    if shown == 0 or -5 < shown.adjusted() < 7:
        return format(shown, "f")
    return format(shown, "e").replace("e+", "e")


def parse_amount(value: object, *, name: str, allow_zero: bool = False) -> Fraction:
    """Returns the exact amount that a person wrote.

    Args:
        value: A text such as "0.5", "1e-6" or "1/2", an int, Decimal, Fraction or finite float (read through its
            shortest decimal form), or a NumPy integer or float of at most 64 bits. Booleans and all else are refused.
        name: What the amount is, for the message.
        allow_zero: Whether 0 is in the domain too.
    Raises:
        InvalidLossError: Not a number, negative, zero, or not between 1e-30 and 1e30.
    """
    amount = _read(value)
    if amount is None or amount < 0 or (amount == 0 and not allow_zero):
        quoted = f", not {value!r}" if type(value) in (str, float) and len(str(value)) <= _LONGEST_TEXT else ""
        raise InvalidLossError(f"{name} must be a positive number{quoted}", advice='Write "0.5", "1e-6" or "1/2".')
    if amount and not 1 / _LARGEST <= amount <= _LARGEST:
        raise InvalidLossError(f"{name} must lie between 1e-30 and 1e30")
    return amount


def _read(value: object) -> Fraction | None:
    """Returns the number, or None. Looks at the exact type first: no foreign method is called."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and any(type(value) is getattr(numpy, scalar, None) for scalar in _NUMPY_SCALARS):
        value = value.item()  # type: ignore[attr-defined]
    if type(value) is float:
        value = repr(value)
    if type(value) is str:
        matched = _TEXT.fullmatch(value) if len(value) <= _LONGEST_TEXT else None
        if matched is None or abs(int(matched[1] or 0)) > 30:
            return None
        _, slash, denominator = value.partition("/")
        return None if slash and int(denominator) == 0 else Fraction(value)
    if type(value) is Decimal:
        if not value.is_finite() or abs(value.adjusted()) > 60 or len(value.as_tuple().digits) > _LONGEST_TEXT:
            return None
        return Fraction(value)
    if type(value) is int or type(value) is Fraction:
        return Fraction(value) if max(value.numerator.bit_length(), value.denominator.bit_length()) <= 256 else None
    return None


def pure_to_zcdp(epsilon: Fraction) -> Fraction:
    """Returns the rho that an epsilon-DP mechanism satisfies: epsilon^2 / 2; exact.

    Source:
        Bun, Steinke 2016, "Concentrated Differential Privacy", Proposition 1.4.
    """
    return epsilon * epsilon / 2


def bounded_range_to_zcdp(epsilon: Fraction) -> Fraction:
    """Returns the rho that a mechanism of bounded range epsilon satisfies: epsilon^2 / 8; exact.

    Source:
        Cesar, Rogers 2021, "Bounding, Concentrating, and Truncating", Lemma 3.4; docs/proofs/exponential.md, Lemma 1.
    """
    return epsilon * epsilon / 8


@lru_cache(maxsize=4096)
def zcdp_to_approximate(rho: Fraction, delta: Fraction) -> Fraction:
    """Returns an epsilon such that rho-zCDP implies (epsilon, delta)-DP, rounded up to a multiple of 1e-18.

    Claim:
        For every alpha > 1, epsilon(alpha) = rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1 / alpha) does.
        alpha is chosen in floating point, where it minimises; the bound is then evaluated at that very rational
        alpha with upward rounding. rho + 2 sqrt(rho ln(1 / delta)) does too; the smaller of both is returned.
        Neighbours: of any kind, the same before and after.
    Source:
        Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Corollary 13; Bun, Steinke
        2016, Proposition 1.3.
    """
    if rho < 0 or not 0 < delta < 1:
        raise InvalidLossError("a conversion needs a rho of at least 0 and a delta between 0 and 1")
    if rho == 0:
        return Fraction(0)
    order = _best_order(rho, delta)
    tight = rho * (1 + order) + _overhead(order, delta)
    simple = rho + 2 * sqrt_up(rho * ln_up(1 / delta))
    return max(Fraction(0), math.ceil(min(tight, simple) / _EPSILON_STEP) * _EPSILON_STEP)


@lru_cache(maxsize=4096)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns the greatest known rho that implies (epsilon, delta)-DP, rounded down to a multiple of 1e-12; may be 0.

    Claim:
        zcdp_to_approximate(rho_within(epsilon, delta), delta) <= epsilon: checked before it is returned.
        Neighbours: of any kind, the same before and after.
    Source:
        As for `zcdp_to_approximate`, solved for rho at the alpha where both curves meet.
    """
    if epsilon <= 0 or epsilon > 10**6 or not 0 < delta < 1:
        raise InvalidLossError("a conversion needs an epsilon between 0 and 1e6 and a delta between 0 and 1")
    log = _log(1 / delta)
    low, high = math.log(1e-9), math.log(math.expm1(log))
    for _ in range(80):  # epsilon falls as the order (alpha - 1) grows
        middle = (low + high) / 2
        x = math.exp(middle)
        slack = log - math.log1p(x)
        reached = slack / x / x * (1 + x) + slack / x - math.log1p(1 / x)
        low, high = (middle, high) if reached > epsilon else (low, middle)
    order = Fraction(math.exp(high))
    units, step = math.floor((epsilon - _overhead(order, delta)) / (1 + order) / _RHO_STEP), 1
    while units > 0 and zcdp_to_approximate(units * _RHO_STEP, delta) > epsilon:
        units, step = units - step, 2 * step
    return max(units, 0) * _RHO_STEP


def _best_order(rho: Fraction, delta: Fraction) -> Fraction:
    """Returns about the x = alpha - 1 where rho x^2 + ln(1 + x) = ln(1 / delta). Any positive answer is safe."""
    log, slope = _log(1 / delta), max(float(rho), 1e-300)
    low, high = 0.0, min(math.sqrt(log / slope), math.expm1(log))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if slope * middle * middle + math.log1p(middle) > log else (middle, high)
    return Fraction(max(high, 1e-12))


def _overhead(order: Fraction, delta: Fraction) -> Fraction:
    """Returns an upper bound on ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1 / alpha), alpha = 1 + order."""
    return ln_up(1 / ((1 + order) * delta)) / order + ln_up(order / (1 + order))


def _log(value: Fraction) -> float:
    """Returns about ln(value), kept where the search for an order is safe from overflow."""
    return min(max(math.log(value.numerator) - math.log(value.denominator), 1e-9), 700.0)
