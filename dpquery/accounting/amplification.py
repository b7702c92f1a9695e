"""What a mechanism loses that sees a secret random sample of the people. Rounded up; docs/proofs/values.md."""

from __future__ import annotations

from fractions import Fraction

from dpquery.accounting.amounts import Amount, read_chance
from dpquery.accounting.directed_bounds import above, exp_up
from dpquery.errors import InvalidLossError
from dpquery.kernel.directed import ln_up
from dpquery.kernel.loss import PrivacyLoss


def subsampled(loss: PrivacyLoss, share: Amount) -> PrivacyLoss:
    """Returns what a mechanism of this loss loses on a sample: ln(1 + share (e^epsilon - 1)), and share times delta.

    Args:
        loss: In epsilon and delta, of the mechanism on what it gets.
        share: The chance with which each person is in a Poisson sample, for neighbours that add or remove somebody;
            or m / n of a sample of m out of n without replacement, for neighbours that replace somebody.
    Raises:
        InvalidLossError: The loss has a rho; convert it first.
    Privacy:
        Only if who is in the sample stays secret and is not chosen by who sees the answers. No query of a session is
        amplified.
    Source:
        Balle, Barthe, Gaboardi 2018, Theorems 8 and 9.
    Example:
        >>> subsampled(PrivacyLoss(epsilon=Fraction(1), delta=Fraction(1, 10**6)), "0.01")
        epsilon 0.0170369, delta 1e-8
    """
    rate = read_chance(share, "share")
    if loss.rho:
        raise InvalidLossError("amplification is of epsilon and delta", advice="Convert by `zcdp_to_approximate`.")
    reached = ln_up(1 + rate * (exp_up(loss.epsilon) - 1)) if rate and loss.epsilon else Fraction(0)
    return PrivacyLoss(epsilon=above(max(Fraction(0), reached)), delta=rate * loss.delta)
