"""Rényi differential privacy: what mechanisms satisfy at an order, and what that implies. Rounded up.

Pure functions, not used by the ledger, which counts epsilon or rho. A mechanism is (order, epsilon)-RDP if the Rényi
divergence of that order between its outputs on neighbours, in nats, is at most epsilon (Mironov 2017). A curve gives
an epsilon for each of some orders. Proofs: docs/proofs/renyi.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from dpquery.accounting.directed_bounds import above, exp_down, exp_up
from dpquery.errors import InvalidLossError
from dpquery.kernel.directed_rounding import ln_up

Curve = Mapping[Fraction, Fraction]
"""for each order above 1 the epsilon of that order"""

SMALLEST_ABOVE_ONE, LARGEST_ORDER = Fraction(1, 10**6), Fraction(10**9)
_STEPS = [Fraction(step, 20) for step in (*range(20, 40), *range(40, 100, 2), *range(100, 200, 5))]
ORDERS: tuple[Fraction, ...] = tuple(1 + step * Fraction(10) ** power for power in range(-3, 6) for step in _STEPS)
"""Orders from 1.001 to almost a million, each 5 % or less further from 1 than the one before."""


def rdp_of_zcdp(rho: Fraction, order: Fraction) -> Fraction:
    """Returns the epsilon of that order of rho-zCDP: rho times the order; exact.

    Source:
        Bun, Steinke 2016, Definition 1.1.
    """
    _check(order, rho)
    return rho * order


def rdp_of_gaussian(sensitivity: Fraction, variance: Fraction, order: Fraction) -> Fraction:
    """Returns order * sensitivity^2 / (2 variance) for Gaussian noise, discrete or not; exact.

    Source:
        Mironov 2017, Corollary 3; for the discrete law and integer vectors Canonne, Kamath, Steinke 2020, Theorem 4.
    """
    if variance <= 0:
        raise InvalidLossError("a variance must be positive")
    _check(order, sensitivity)
    return order * sensitivity * sensitivity / (2 * variance)


def rdp_of_gaussians(distance: Fraction, variance: Fraction, other: Fraction, order: Fraction) -> Fraction | None:
    """Returns the Rényi divergence of N(distance, variance) from N(0, other); rounded up, None where it is infinite.

    Source:
        Gil, Alajaji, Linder 2013, Table 2; docs/proofs/values.md.
    """
    _check(order, distance)
    if min(variance, other) <= 0:
        raise InvalidLossError("a variance is a positive number")
    mixed = order * other + (1 - order) * variance
    if mixed <= 0:
        return None
    logs = order * ln_up(other) + (order - 1) * ln_up(1 / variance) + ln_up(1 / mixed)
    return max(Fraction(0), above(order * distance**2 / (2 * mixed) + logs / (2 * (order - 1))))


def rdp_of_laplace(epsilon: Fraction, order: Fraction) -> Fraction:
    """Returns the epsilon of that order of one number with continuous Laplace noise, epsilon = sensitivity / scale.

    Not valid for the discrete law, which loses more: `rdp_of_discrete_laplace`.

    Source:
        Mironov 2017, Table II.
    """
    _check(order, epsilon)
    twice = 2 * order - 1
    inside = order / twice + (order - 1) / twice * exp_up(-twice * epsilon)
    return _raised(epsilon, inside, order)


def rdp_of_discrete_laplace(scale: Fraction, steps: int, order: Fraction) -> Fraction:
    """Returns the epsilon of that order of one integer with discrete Laplace noise.

    Args:
        scale: b of the law exp(-|k| / b), in steps of the lattice.
        steps: The sensitivity, an integer number of steps.
        order: Above 1.
    Source:
        The divergence summed term by term, docs/proofs/renyi.md. For one step it is that of randomised response.
    """
    if scale <= 0 or steps < 0:
        raise InvalidLossError("a scale must be positive and a sensitivity at least 0")
    epsilon = steps / scale
    _check(order, epsilon)
    if not steps:
        return Fraction(0)
    twice = 2 * order - 1
    step, ratio = exp_down(-1 / scale), exp_up(-twice / scale)
    if ratio >= 1:  # the scale is so large that no digit shows it
        return rdp_of_pure(epsilon, order)
    between = (1 - step) * max(Fraction(0), ratio - exp_down(-twice * epsilon)) / (1 - ratio)
    inside = (1 + exp_up(-twice * epsilon) + between) / (1 + step)
    return min(_raised(epsilon, inside, order), rdp_of_pure(epsilon, order))


def rdp_of_pure(epsilon: Fraction, order: Fraction) -> Fraction:
    """Returns the epsilon of that order of any epsilon-DP mechanism; randomised response attains it.

    Source:
        Bun, Steinke 2016, proof of Proposition 3.3 (the curve), Kairouz, Oh, Viswanath 2015 (that none is worse).
    """
    _check(order, epsilon)
    inside = (1 + exp_up((1 - 2 * order) * epsilon)) / (1 + exp_down(-epsilon))
    return min(_raised(epsilon, inside, order), above(order * epsilon * epsilon / 2))


def compose_rdp(curves: Iterable[Curve]) -> dict[Fraction, Fraction]:
    """Returns the curve of all mechanisms together, over the orders that every curve has: the sums.

    Claim:
        Mironov 2017, Proposition 1: also where mechanisms are chosen after earlier answers, if the curves are fixed
        beforehand.
    """
    every = [*curves]
    orders = set.intersection(*(set(curve) for curve in every)) if every else set(ORDERS)
    return {order: sum((curve[order] for curve in every), start=Fraction(0)) for order in sorted(orders)}


def rdp_to_approximate(curve: Curve, delta: Fraction) -> Fraction:
    """Returns an epsilon such that a mechanism with that curve is (epsilon, delta)-DP, rounded up.

    Claim:
        For each order epsilon(order) + ln(1 / (order delta)) / (order - 1) + ln(1 - 1 / order) does, and 0 does where
        1 - exp(-epsilon(order)) <= delta^2. The order is chosen in floating point; any is valid.
    Source:
        Canonne, Kamath, Steinke 2020, Proposition 12, and Balle et al. 2020, Theorem 21; for 0: Bretagnolle, Huber
        1978. docs/proofs/renyi.md.
    """
    _check_curve(curve)
    if not 0 < delta < 1:
        raise InvalidLossError("delta must lie between 0 and 1")
    if any(exp_down(-epsilon) >= 1 - delta * delta for epsilon in curve.values()):
        return Fraction(0)

    def about(order: Fraction) -> float:
        above_one = float(order - 1)
        return float(curve[order]) - (_log(order) + _log(delta)) / above_one + _log((order - 1) / order)

    order = min(curve, key=about)
    return above(max(Fraction(0), curve[order] + _overhead(order, delta)))


def delta_of_rdp(curve: Curve, epsilon: Fraction) -> Fraction:
    """Returns a delta such that a mechanism with that curve is (epsilon, delta)-DP, rounded up; at most 1.

    Claim:
        As for `rdp_to_approximate`: exp((order - 1)(epsilon(order) - epsilon)) (1 - 1 / order)^order / (order - 1).
    """
    _check_curve(curve)
    if epsilon < 0:
        raise InvalidLossError("a privacy loss is at least 0")

    def about(order: Fraction) -> float:
        return float(order - 1) * (float(curve[order] - epsilon) + _log((order - 1) / order)) - _log(order)

    order = min(curve, key=about)
    exponent = (order - 1) * (curve[order] - epsilon + ln_up((order - 1) / order)) + ln_up(1 / order)
    return min(Fraction(1), above(exp_up(min(exponent, Fraction(1)))))


def _overhead(order: Fraction, delta: Fraction) -> Fraction:
    return ln_up(1 / (order * delta)) / (order - 1) + ln_up((order - 1) / order)


def _raised(epsilon: Fraction, inside: Fraction, order: Fraction) -> Fraction:
    """Returns an upper bound on ln(e^((order - 1) epsilon) * inside) / (order - 1)."""
    return above(max(Fraction(0), epsilon + ln_up(inside) / (order - 1)))


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _check(order: Fraction, amount: Fraction) -> None:
    if not SMALLEST_ABOVE_ONE <= order - 1 <= LARGEST_ORDER:
        raise InvalidLossError("a Rényi order lies between 1 + 1e-6 and 1e9")
    if amount < 0:
        raise InvalidLossError("a privacy loss is at least 0")


def _check_curve(curve: Curve) -> None:
    if not curve:
        raise InvalidLossError("a Rényi curve needs one order at least")
    for order, epsilon in curve.items():
        _check(order, epsilon)
