"""The loss of several mechanisms together, of groups of people, and on samples. Rounded up.

Pure functions. The ledger sums (`accountant`); the theorems for parameters that are fixed beforehand, `advanced` and
`optimal`, decide about no charge. Proofs: docs/proofs/composition-theorems.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from dpquery.accounting.amounts import Amount, read, read_chance, read_delta, whole
from dpquery.accounting.directed_bounds import DOWNWARD, above, exp_down, exp_up
from dpquery.errors import InvalidLossError
from dpquery.kernel.accountant import compose
from dpquery.kernel.directed_rounding import UPWARD, ln_up, quotient, sqrt_up
from dpquery.kernel.loss import PrivacyLoss

MOST_MECHANISMS = 10_000


def loss(*, epsilon: Amount = 0, delta: Amount = 0, rho: Amount = 0) -> PrivacyLoss:
    """Returns these amounts as a PrivacyLoss, exact."""
    small = read_chance(delta, "delta")
    return PrivacyLoss(epsilon=read(epsilon, "epsilon", zero=True), delta=small, rho=read(rho, "rho", zero=True))


def sequential(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of all on the same people, each chosen after the answers before, as the ledger does: the sums;
    exact.

    Source:
        Dwork et al. 2006; for rho Bun, Steinke 2016, Lemma 1.7. Proof: docs/proofs/composition.md.
    """
    return compose([*losses])


def parallel(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of mechanisms each of which reads other people: the greatest of each part; exact.

    Claim:
        Which mechanism reads a person must follow from that person alone. Holds where neighbours add or remove one
        person. Replacing a person can touch two parts: take the `group` of 2 of the result.
    Source:
        McSherry 2009, Theorem 4. Proof: docs/proofs/composition-theorems.md.
    """
    parts = [*losses] or [PrivacyLoss()]
    if len(parts) > 1 and any(part.rho for part in parts) and any(part.epsilon for part in parts):
        raise InvalidLossError(
            "parts in epsilon and parts in rho have no common greatest", advice="Convert them first."
        )
    epsilon, delta = max(part.epsilon for part in parts), max(part.delta for part in parts)
    return PrivacyLoss(epsilon=epsilon, delta=delta, rho=max(part.rho for part in parts))


def advanced(losses: Iterable[PrivacyLoss], slack: Amount) -> PrivacyLoss:
    """Returns (epsilon, delta) of all together for a delta of `slack` on top; rounded up.

    Mechanisms may be chosen after earlier answers, their losses may not: no rule for when to stop.

    Claim:
        epsilon = sum of e (exp(e) - 1) / (exp(e) + 1) + sqrt(2 ln(1 / slack) * sum of e^2), and
        delta = 1 - (1 - slack) * product of (1 - d). Where the sum of epsilons is smaller, it is given instead, and
        then with the sum of deltas alone.
    Source:
        Dwork, Rothblum, Vadhan 2010, Theorem III.3, with the mean of Kairouz, Oh, Viswanath 2015, Theorem 3.5.
    """
    parts, more = [*losses], read_delta(slack, "slack")
    if not parts or any(part.rho or part.delta >= 1 for part in parts):
        raise InvalidLossError("advanced composition takes losses in epsilon and delta")
    basic = compose(parts)
    mean = sum((part.epsilon * _tanh_half_up(part.epsilon) for part in parts), start=Fraction(0))
    squares = sum((part.epsilon**2 for part in parts), start=Fraction(0))
    epsilon = above(mean + sqrt_up(2 * ln_up(1 / more) * squares))
    if basic.epsilon <= epsilon:
        return PrivacyLoss(epsilon=basic.epsilon, delta=min(Fraction(1), basic.delta))
    kept = 1 - more
    for part in parts:
        kept *= 1 - part.delta
    return PrivacyLoss(epsilon=epsilon, delta=min(Fraction(1), above(1 - kept)))


def optimal(epsilon: Amount, count: int, *, total_delta: Amount, delta: Amount = 0) -> Fraction:
    """Returns the least epsilon that `count` (epsilon, delta)-DP mechanisms have together at total_delta; rounded up.

    Claim:
        No other bound that knows epsilon, delta and count alone is smaller; each mechanism may be chosen after earlier
        answers. With the masses P(i) of i lies among `count` randomised responses, and
        room = 1 - (1 - total_delta) / (1 - delta)^count, it is the greatest over i of
        ln((P(0) + ... + P(i - 1) - room) / (P(count) + ... + P(count - i + 1))), or 0.
    Source:
        Kairouz, Oh, Viswanath 2015, Theorem 3.3; in this form Murtagh, Vadhan 2016, Theorem 1.5.
    """
    each, one, total = (
        read(epsilon, "epsilon", zero=True),
        read_chance(delta, "delta"),
        read_chance(total_delta, "total_delta"),
    )
    return _optimal(each, one, _many(count), total)


@lru_cache(maxsize=256)
def _optimal(epsilon: Fraction, delta: Fraction, count: int, total_delta: Fraction) -> Fraction:
    if not delta < 1 or not total_delta < 1:
        raise InvalidLossError("deltas lie between 0 and 1")
    room = DOWNWARD.subtract(Decimal(1), UPWARD.divide(quotient(UPWARD, 1 - total_delta), _kept(delta, count)))
    if room < 0:
        raise InvalidLossError("the deltas of the mechanisms exceed the total", advice="Raise the total delta.")
    most, least = _masses(epsilon, count, up=True), _masses(epsilon, count, up=False)
    gained, kept, ratio = Decimal(0), Decimal(0), Decimal(1)
    for i in range(count // 2 + 1 if room else 0):
        gained, kept = UPWARD.add(gained, most[i]), DOWNWARD.add(kept, least[count - i])
        if not kept:
            return epsilon * count
        ratio = max(ratio, UPWARD.divide(UPWARD.subtract(gained, room), kept))
    if not room or epsilon == 0:
        return epsilon * count
    return Fraction(0) if ratio == 1 else min(epsilon * count, above(Fraction(UPWARD.next_plus(UPWARD.ln(ratio)))))


def optimal_delta(epsilon: Amount, count: int, *, total_epsilon: Amount, delta: Amount = 0) -> Fraction:
    """Returns the least delta that `count` (epsilon, delta)-DP mechanisms have together at total_epsilon; rounded up.

    Claim:
        As for `optimal`: 1 - (1 - delta)^count (1 - x), where x is the sum over i of
        max(0, P(i) - exp(total_epsilon) P(count - i)).
    Source:
        As for `optimal`.
    """
    each, one, count = read(epsilon, "epsilon", zero=True), read_chance(delta, "delta"), _many(count)
    total = read(total_epsilon, "total_epsilon", zero=True)
    most, least = _masses(each, count, up=True), _masses(each, count, up=False)
    raised, lost = quotient(DOWNWARD, exp_down(total)), Decimal(0)
    for i in range(count // 2 + 1):
        if (count - 2 * i) * each > total:
            more = UPWARD.subtract(most[i], DOWNWARD.multiply(raised, least[count - i]))
            lost = UPWARD.add(lost, max(Decimal(0), more))
    kept = DOWNWARD.multiply(_kept(one, count), DOWNWARD.subtract(Decimal(1), min(lost, Decimal(1))))
    return above(1 - Fraction(kept))


def group(loss: PrivacyLoss, size: int) -> PrivacyLoss:
    """Returns the loss for neighbours that differ in `size` people instead of one; delta rounds up.

    Claim:
        size * epsilon and size^2 * rho; (epsilon, delta) becomes (size * epsilon, delta * sum of e^(i epsilon) over
        i from 0 to size - 1). With rho and delta at once nothing is known that would be of this form: refused.
    Source:
        Vadhan 2017, "The Complexity of Differential Privacy", Lemma 2.2 (its sum, not its bound); Bun, Steinke 2016,
        Proposition 1.9.
    """
    if whole(size, "size") > MOST_MECHANISMS:
        raise InvalidLossError(f"the size of a group is an integer from 1 to {MOST_MECHANISMS}")
    if size == 1:
        return loss
    if loss.rho and (loss.delta or loss.epsilon):
        raise InvalidLossError("group privacy is known for rho alone or for epsilon and delta", advice="Convert first.")
    delta, total = loss.delta, Fraction(1)
    for _ in range(size - 1):
        if delta == 0 or delta >= 1:
            break
        total = above(1 + total * exp_up(loss.epsilon))
        delta = min(Fraction(1), above(loss.delta * total))
    return PrivacyLoss(epsilon=size * loss.epsilon, delta=delta, rho=size * size * loss.rho)


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


def _kept(delta: Fraction, count: int) -> Decimal:
    """Returns a lower bound on (1 - delta)^count."""
    factor, kept = quotient(DOWNWARD, 1 - delta), Decimal(1)
    for _ in range(count if delta else 0):
        kept = DOWNWARD.multiply(kept, factor)
    return kept


@lru_cache(maxsize=64)
def _masses(epsilon: Fraction, count: int, *, up: bool) -> tuple[Decimal, ...]:
    """Returns bounds on the chances of 0, 1, ..., count lies, each with odds e^-epsilon, all on one side."""
    context = UPWARD if up else DOWNWARD
    odds = exp_up(-epsilon) if up else exp_down(-epsilon)
    chance = 1 / (1 + (exp_down(-epsilon) if up else exp_up(-epsilon)))
    factor, truth, mass = quotient(context, odds), quotient(context, chance), Decimal(1)
    for _ in range(count):
        mass = context.multiply(mass, truth)
    masses = [mass]
    for i in range(count):
        mass = context.divide(context.multiply(context.multiply(mass, factor), Decimal(count - i)), Decimal(i + 1))
        masses.append(mass)
    return tuple(masses)


def _tanh_half_up(epsilon: Fraction) -> Fraction:
    """Returns an upper bound on (e^epsilon - 1) / (e^epsilon + 1)."""
    small = exp_down(-epsilon)
    return min(Fraction(1), (1 - small) / (1 + small))


def _many(count: int) -> int:
    if whole(count, "count") > MOST_MECHANISMS:
        raise InvalidLossError(f"the number of mechanisms is an integer from 1 to {MOST_MECHANISMS}")
    return count
