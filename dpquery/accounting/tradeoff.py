"""Trade-off functions: how well anybody can tell two neighbours apart. Rounded down.

f(x) is the least chance of missing that a test can have that raises a false alarm with chance x. A larger f is more
private, so what is claimed here is never above the truth. Pure functions, not used by the ledger. Source of all:
Dong, Roth, Su 2022, "Gaussian Differential Privacy". Proofs: docs/proofs/trade-offs.md.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

from dpquery.accounting.directed_bounds import above, below, exp_down, exp_up
from dpquery.accounting.normal_law import normal_tail
from dpquery.errors import InvalidLossError


def tradeoff_of_approximate(epsilon: Fraction, delta: Fraction, false_alarms: Fraction) -> Fraction:
    """Returns f(x) of any (epsilon, delta)-DP mechanism: max(0, 1 - delta - e^epsilon x, e^-epsilon (1 - delta - x)).

    Claim:
        It is attained, for every x, by `leaky_response`, so no greater function is right (Wasserman, Zhou 2010; Dong,
        Roth, Su 2022, section 2.2).
    """
    _check(false_alarms, epsilon, delta)
    steep = 1 - delta - exp_up(epsilon) * false_alarms
    return below(max(Fraction(0), steep, exp_down(-epsilon) * max(Fraction(0), 1 - delta - false_alarms)))


def tradeoff_of_randomised_response(epsilon: Fraction, false_alarms: Fraction) -> Fraction:
    """Returns f(x) of the answer to a yes-no question that is true with odds e^epsilon: that of (epsilon, 0).

    Claim:
        Kairouz, Oh, Viswanath 2015: no epsilon-DP mechanism is easier to attack.
    """
    return tradeoff_of_approximate(epsilon, Fraction(0), false_alarms)


def tradeoff_of_laplace(epsilon: Fraction, false_alarms: Fraction) -> Fraction:
    """Returns f(x) of one number with continuous Laplace noise, epsilon = sensitivity / scale.

    Claim:
        1 - e^epsilon x up to x = e^-epsilon / 2, then e^-epsilon / (4 x) up to 1/2, then e^-epsilon (1 - x) (Dong,
        Roth, Su 2022, appendix). Not valid for the discrete law; `tradeoff_of_approximate` is.
    """
    _check(false_alarms, epsilon, Fraction(0))
    if false_alarms > Fraction(1, 2):
        return below(exp_down(-epsilon) * (1 - false_alarms))
    steep = max(Fraction(0), 1 - exp_up(epsilon) * false_alarms)
    if 2 * false_alarms <= exp_down(-epsilon):
        return below(steep)
    between = exp_down(-epsilon) / (4 * false_alarms)
    return below(between if 2 * false_alarms >= exp_up(-epsilon) else min(between, steep))


def tradeoff_of_gaussian(mu: Fraction, false_alarms: Fraction) -> Fraction:
    """Returns f(x) of continuous Gaussian noise: P(N >= mu - z) where P(N >= z) = x.

    Claim:
        mu is the L2 sensitivity / the standard deviation. z is found in floating point and lowered until P(N >= z) is
        seen to be at least x; f falls in x, and is evaluated at that z (Dong, Roth, Su 2022, section 2.2).
    """
    _check(false_alarms, mu, Fraction(0))
    if false_alarms in (0, 1):
        return 1 - false_alarms
    tail = max(float(min(false_alarms, 1 - false_alarms)), 1e-300)
    guess = abs(NormalDist().inv_cdf(tail)) * (1 if 2 * false_alarms < 1 else -1)
    place, step = Fraction(guess), Fraction(1, 10**13)
    while normal_tail(place)[0] < false_alarms and place > -100:
        place, step = place - step, 2 * step
    if place <= -100:
        return Fraction(0)
    return below(max(Fraction(0), normal_tail(mu - place)[0]))


def tradeoff_of_leak(delta: Fraction, false_alarms: Fraction) -> Fraction:
    """Returns f(x) of the mechanism that gives everything away with chance delta, and else nothing: 1 - delta - x.

    It attains (0, delta)-DP: nothing of that promise is left over.

    Source:
        Dong, Roth, Su 2022, section 2.2, at epsilon 0.
    """
    return tradeoff_of_approximate(Fraction(0), delta, false_alarms)


def tradeoff_of_leaky_response(epsilon: Fraction, delta: Fraction, false_alarms: Fraction) -> Fraction:
    """Returns f(x) of the mechanism that gives everything away with chance delta, and else is randomised response.

    It attains (epsilon, delta)-DP.

    Source:
        Kairouz, Oh, Viswanath 2015, section 3 (the mechanism that simulates every other).
    """
    return tradeoff_of_approximate(epsilon, delta, false_alarms)


def laplace_delta(epsilon: Fraction, total_epsilon: Fraction) -> Fraction:
    """Returns the smallest delta for which one number with continuous Laplace noise is (total_epsilon, delta)-DP.

    Claim:
        max(0, 1 - exp((total_epsilon - epsilon) / 2)), epsilon = sensitivity / scale, rounded up (Balle, Barthe,
        Gaboardi 2018, Theorem 3).
    """
    _check(Fraction(0), epsilon, Fraction(0))
    if total_epsilon < 0:
        raise InvalidLossError("a total epsilon is at least 0")
    return (
        above(max(Fraction(0), 1 - exp_down((total_epsilon - epsilon) / 2))) if total_epsilon < epsilon else Fraction(0)
    )


def _check(false_alarms: Fraction, amount: Fraction, delta: Fraction) -> None:
    if not 0 <= false_alarms <= 1 or not 0 <= delta <= 1:
        raise InvalidLossError("chances and deltas lie between 0 and 1")
    if amount < 0:
        raise InvalidLossError("a privacy loss is at least 0")
