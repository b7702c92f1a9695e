"""The loss of several mechanisms together, and of groups of people. Rounded up."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpquery.accounting import composition
from dpquery.accounting.amounts import Amount, read, read_chance, read_delta
from dpquery.accounting.conversions import whole
from dpquery.kernel.loss import PrivacyLoss


def loss(*, epsilon: Amount = 0, delta: Amount = 0, rho: Amount = 0) -> PrivacyLoss:
    """Returns these amounts as a PrivacyLoss, exact."""
    small = read_chance(delta, "delta")
    return PrivacyLoss(epsilon=read(epsilon, "epsilon", zero=True), delta=small, rho=read(rho, "rho", zero=True))


def sequential(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of all on the same people, each chosen after the answers before, as the ledger does: the sums.

    Proof: docs/proofs/composition.md.
    """
    return composition.sequential([*losses])


def parallel(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    """Returns the loss of mechanisms each of which reads other people: the greatest of each part; exact.

    Which mechanism reads a person must follow from that person alone. For neighbours that add or remove somebody;
    if neighbours replace somebody, take `group` of the result with size 2.
    Source: McSherry 2009, Theorem 4. Proof: docs/proofs/composition-theorems.md.
    """
    return composition.parallel([*losses])


def advanced(losses: Iterable[PrivacyLoss], slack: Amount) -> PrivacyLoss:
    """Returns (epsilon, delta) of all together for a delta of `slack` on top; rounded up.

    Mechanisms may be chosen after earlier answers, their losses may not: no rule for when to stop.
    Source: Dwork, Rothblum, Vadhan 2010; Kairouz, Oh, Viswanath 2015, Theorem 3.5.
    Proof: docs/proofs/composition-theorems.md.
    """
    return composition.advanced([*losses], read_delta(slack, "slack"))


def optimal(epsilon: Amount, count: int, *, total_delta: Amount, delta: Amount = 0) -> Fraction:
    """Returns the least epsilon that `count` mechanisms of one (epsilon, delta) have together; rounded up.

    No smaller one is right for all such mechanisms. The same for chosen ones as for `advanced`.
    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3; Murtagh, Vadhan 2016. Proof: docs/proofs/composition-theorems.md.
    """
    each, total = read_chance(delta, "delta"), read_chance(total_delta, "total_delta")
    return composition.optimal(read(epsilon, "epsilon", zero=True), each, whole(count, "count"), total)


def optimal_delta(epsilon: Amount, count: int, *, total_epsilon: Amount, delta: Amount = 0) -> Fraction:
    """Returns the least delta that `count` mechanisms of one (epsilon, delta) have together; rounded up. As above."""
    each, total = read_chance(delta, "delta"), read(total_epsilon, "total_epsilon", zero=True)
    return composition.optimal_delta(read(epsilon, "epsilon", zero=True), each, whole(count, "count"), total)


def group(loss: PrivacyLoss, size: int) -> PrivacyLoss:
    """Returns what the same answers lose about `size` people together, in epsilon with delta, or in rho; rounded up.

    Source: Vadhan 2017, Lemma 2.2; Bun, Steinke 2016, Proposition 1.9. Proof: docs/proofs/composition-theorems.md.
    """
    return composition.group(loss, whole(size, "size"))
