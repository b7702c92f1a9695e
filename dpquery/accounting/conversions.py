"""From one currency of loss to another. What is lost rounds up, what may be spent rounds down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from dpquery.accounting import gaussian_calibration, rdp, tradeoff
from dpquery.accounting.amounts import Amount, read, read_delta, whole
from dpquery.kernel import loss

RenyiCurve = dict[Fraction, Fraction]
"""for each order above 1 the epsilon of that order"""

ORDERS = rdp.ORDERS


def pure_to_zcdp(epsilon: Amount) -> Fraction:
    """Returns the rho of every epsilon-DP mechanism: epsilon^2 / 2; exact.

    Source: Bun, Steinke 2016, Proposition 1.4. Proof: docs/proofs/conversions.md.
    """
    return loss.pure_to_zcdp(read(epsilon, "epsilon", zero=True))


def zcdp_to_approximate(rho: Amount, delta: Amount) -> Fraction:
    """Returns an epsilon such that rho-zCDP implies (epsilon, delta)-DP; rounded up to a multiple of 1e-18.

    Source: Canonne, Kamath, Steinke 2020, Corollary 13. Proof: docs/proofs/conversions.md.
    """
    return loss.zcdp_to_approximate(read(rho, "rho", zero=True), read_delta(delta))


def zcdp_within(epsilon: Amount, delta: Amount) -> Fraction:
    """Returns the greatest known rho that implies (epsilon, delta)-DP; rounded down to a multiple of 1e-12.

    What an approximate budget is counted in. Source and proof: as for `zcdp_to_approximate`.
    """
    return loss.rho_within(read(epsilon, "epsilon"), read_delta(delta))


def pure_to_rdp(epsilon: Amount, orders: Iterable[Amount] = ORDERS) -> RenyiCurve:
    """Returns the Rényi curve of every epsilon-DP mechanism, which randomised response attains; rounded up.

    Source: Bun, Steinke 2016, proof of Proposition 3.3. Proof: docs/proofs/renyi.md.
    """
    amount = read(epsilon, "epsilon", zero=True)
    return {order: rdp.rdp_of_pure(amount, order) for order in _orders(orders)}


def randomised_response_rdp(epsilon: Amount, orders: Iterable[Amount] = ORDERS) -> RenyiCurve:
    """Returns the Rényi curve of a yes-no answer that is true with odds e^epsilon: that of `pure_to_rdp`."""
    return pure_to_rdp(epsilon, orders)


def zcdp_to_rdp(rho: Amount, orders: Iterable[Amount] = ORDERS) -> RenyiCurve:
    """Returns the Rényi curve of rho-zCDP, rho times the order; exact. Source: Bun, Steinke 2016, Definition 1.1."""
    amount = read(rho, "rho", zero=True)
    return {order: rdp.rdp_of_zcdp(amount, order) for order in _orders(orders)}


def gaussian_rdp(scale: Amount, sensitivity: Amount = 1, orders: Iterable[Amount] = ORDERS) -> RenyiCurve:
    """Returns the Rényi curve of Gaussian noise, discrete or not; exact.

    Args:
        scale: The standard deviation.
        sensitivity: In the L2 norm. For the discrete law the vector is of integers.
        orders: Above 1.

    Source: Mironov 2017, Corollary 3; Canonne, Kamath, Steinke 2020, Theorem 4. Proof: docs/proofs/renyi.md.
    """
    moved, variance = read(sensitivity, "sensitivity"), read(scale, "scale") ** 2
    return {order: rdp.rdp_of_gaussian(moved, variance, order) for order in _orders(orders)}


def gaussians_rdp(
    distance: Amount, *, scale: Amount, other_scale: Amount, orders: Iterable[Amount] = ORDERS
) -> RenyiCurve:
    """Returns the Rényi curve between Gaussians of different deviations; orders at which it is infinite are left out.

    The divergence of N(distance, scale^2) from N(0, other_scale^2); swap them for the other direction. For mechanisms
    whose noise depends on the data. Source: Gil, Alajaji, Linder 2013. Proof: docs/proofs/values.md.
    """
    moved = read(distance, "distance", zero=True)
    variance, other = read(scale, "scale") ** 2, read(other_scale, "other_scale") ** 2
    found = {order: rdp.rdp_of_gaussians(moved, variance, other, order) for order in _orders(orders)}
    return {order: epsilon for order, epsilon in found.items() if epsilon is not None}


def laplace_rdp(scale: Amount, sensitivity: Amount = 1, orders: Iterable[Amount] = ORDERS) -> RenyiCurve:
    """Returns the Rényi curve of one number with continuous Laplace noise; rounded up.

    The discrete noise that dpquery adds loses more at the same scale: `discrete_laplace_rdp`.

    Source: Mironov 2017, Table II. Proof: docs/proofs/renyi.md.
    """
    epsilon = read(sensitivity, "sensitivity") / read(scale, "scale")
    return {order: rdp.rdp_of_laplace(epsilon, order) for order in _orders(orders)}


def discrete_laplace_rdp(scale: Amount, sensitivity: int = 1, orders: Iterable[Amount] = ORDERS) -> RenyiCurve:
    """Returns the Rényi curve of one integer with discrete Laplace noise; rounded up.

    Args:
        scale: b of the law exp(-|k| / b).
        sensitivity: An integer, in the same unit.
        orders: Above 1.

    Proof: docs/proofs/renyi.md.
    """
    width, steps = read(scale, "scale"), whole(sensitivity, "sensitivity")
    return {order: rdp.rdp_of_discrete_laplace(width, steps, order) for order in _orders(orders)}


def compose_rdp(*curves: Mapping[Fraction, Fraction]) -> RenyiCurve:
    """Returns the curve of all mechanisms together, over the orders that all have: the sums; exact.

    Also where mechanisms are chosen after earlier answers, if their curves are fixed beforehand.
    Source: Mironov 2017, Proposition 1.
    """
    return rdp.compose_rdp(_curve(curve) for curve in curves)


def rdp_to_approximate(curve: Mapping[Fraction, Fraction], delta: Amount) -> Fraction:
    """Returns an epsilon such that a mechanism with this curve is (epsilon, delta)-DP; rounded up.

    The best over the orders of the curve, so that a denser curve gives a smaller epsilon.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12, and Balle et al. 2020, Theorem 21.
    Proof: docs/proofs/renyi.md.
    """
    return rdp.rdp_to_approximate(_curve(curve), read_delta(delta))


def rdp_delta(curve: Mapping[Fraction, Fraction], epsilon: Amount) -> Fraction:
    """Returns a delta such that a mechanism with this curve is (epsilon, delta)-DP; rounded up. As above."""
    return rdp.delta_of_rdp(_curve(curve), read(epsilon, "epsilon", zero=True))


def gaussian_delta(epsilon: Amount, *, scale: Amount, sensitivity: Amount = 1) -> Fraction:
    """Returns the smallest delta of continuous Gaussian noise at this epsilon; rounded up.

    Args:
        epsilon: From 0 to 1000.
        scale: The standard deviation.
        sensitivity: In the L2 norm.

    Source: Balle, Wang 2018, Theorem 8. Proof: docs/proofs/gaussian.md.
    """
    return gaussian_calibration.gaussian_delta(_mu(sensitivity, scale), read(epsilon, "epsilon", zero=True))


def gaussian_epsilon(delta: Amount, *, scale: Amount, sensitivity: Amount = 1) -> Fraction:
    """Returns the smallest epsilon of continuous Gaussian noise at this delta, from 1e-30; rounded up. As above."""
    return gaussian_calibration.gaussian_epsilon(_mu(sensitivity, scale), read_delta(delta))


def gaussian_scale(epsilon: Amount, delta: Amount, *, sensitivity: Amount = 1) -> Fraction:
    """Returns the smallest standard deviation of continuous Gaussian noise for one (epsilon, delta)-DP release.

    Rounded up, by less than 1e-12 of it. For several releases count in rho instead: `zcdp_within`.

    Source: Balle, Wang 2018, Algorithm 1. Proof: docs/proofs/gaussian.md.
    """
    moved = read(sensitivity, "sensitivity")
    return gaussian_calibration.gaussian_scale(moved, read(epsilon, "epsilon", zero=True), read_delta(delta))


def discrete_gaussian_delta(epsilon: Amount, *, variance: Amount, sensitivity: int = 1) -> Fraction:
    """Returns the smallest delta of one integer with discrete Gaussian noise at this epsilon; rounded up.

    Args:
        epsilon: From 0 to 100.
        variance: sigma^2 of the law exp(-k^2 / (2 sigma^2)), at most 4096.
        sensitivity: An integer.

    Source: Canonne, Kamath, Steinke 2020, Theorem 7. Proof: docs/proofs/gaussian.md.
    """
    steps, amount = whole(sensitivity, "sensitivity"), read(epsilon, "epsilon", zero=True)
    return gaussian_calibration.discrete_gaussian_delta(read(variance, "variance"), steps, amount)


def discrete_gaussian_variance(epsilon: Amount, delta: Amount, *, sensitivity: int = 1) -> Fraction:
    """Returns about the smallest variance of discrete Gaussian noise for one (epsilon, delta)-DP integer, never less.

    Up to 4096. The variance of the continuous law alone would not always suffice. As above.
    """
    steps, amount = whole(sensitivity, "sensitivity"), read(epsilon, "epsilon", zero=True)
    return gaussian_calibration.discrete_gaussian_variance(steps, amount, read_delta(delta))


def laplace_delta(epsilon: Amount, *, scale: Amount, sensitivity: Amount = 1) -> Fraction:
    """Returns the smallest delta of one number with continuous Laplace noise at this epsilon; rounded up.

    Source: Balle, Barthe, Gaboardi 2018, Theorem 3. Proof: docs/proofs/trade-offs.md.
    """
    pure = read(sensitivity, "sensitivity") / read(scale, "scale")
    return tradeoff.laplace_delta(pure, read(epsilon, "epsilon", zero=True))


def _mu(sensitivity: Amount, scale: Amount) -> Fraction:
    return read(sensitivity, "sensitivity") / read(scale, "scale")


def _orders(orders: Iterable[Amount]) -> list[Fraction]:
    return [read(order, "an order") for order in orders]


def _curve(curve: Mapping[Fraction, Fraction]) -> RenyiCurve:
    return {read(order, "an order"): read(epsilon, "epsilon", zero=True) for order, epsilon in curve.items()}
