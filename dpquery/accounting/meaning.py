"""What a loss means for one person: the best attacker's errors, beliefs before and after, relatives, and deployments.

Everything here is a bound that holds for every attacker, with any other knowledge. Proofs: docs/proofs/trade-offs.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpquery.accounting.amounts import Amount, read_chance
from dpquery.accounting.attackers import TradeOff, approximate
from dpquery.accounting.composition import group
from dpquery.accounting.directed_bounds import above, below, exp_down, exp_up
from dpquery.errors import InvalidLossError
from dpquery.kernel.loss import ZERO, PrivacyLoss, zcdp_to_approximate

DELTAS = tuple(Fraction(1, 10**k) for k in (1, 2, 3, 4, 6, 8, 10, 12))
"""At which rho is read as (epsilon, delta), to bound what an attacker can reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A published use of differential privacy.

    Attributes:
        name: What was published.
        loss: Its published parameters.
        unit: What one loss protects.
        neighbours: `added or removed`, `replaced`, or `each report` where people randomise by themselves.
        source: Where the parameters are published.
    """

    name: str
    loss: PrivacyLoss
    unit: str
    neighbours: str
    source: str


def _loss(**parts: str) -> PrivacyLoss:
    return PrivacyLoss(**{name: Fraction(amount) for name, amount in parts.items()})


DEPLOYMENTS = (
    Deployment(
        name="US Census 2020, redistricting data, persons",
        loss=_loss(rho="2.56", delta="1e-10"),
        unit="a person's record, in one publication",
        neighbours="replaced",
        source="US Census Bureau 2021 (rho 2.56, epsilon 17.14 at delta 1e-10); Abowd et al. 2022, "
        "The 2020 Census Disclosure Avoidance System TopDown Algorithm, doi:10.1162/99608f92.529e3cb9",
    ),
    Deployment(
        name="Wikimedia page views by country, since 2023",
        loss=_loss(rho="0.015", delta="1e-7"),
        unit="the first 10 different page views of a device on one day",
        neighbours="added or removed",
        source="Adeleye et al. 2023, Publishing Wikipedia usage data with strong privacy guarantees, "
        "arXiv:2308.16298; analytics.wikimedia.org/published/datasets/country_project_page",
    ),
    Deployment(
        name="Wikimedia page views by country, 2017 to 2023",
        loss=_loss(epsilon="1"),
        unit="30 page views on one day",
        neighbours="added or removed",
        source="Adeleye et al. 2023, Publishing Wikipedia usage data with strong privacy guarantees, "
        "arXiv:2308.16298; analytics.wikimedia.org/published/datasets/country_project_page_historical",
    ),
    Deployment(
        name="Apple, emoji suggestions",
        loss=_loss(epsilon="4"),
        unit="one user's reports of one day",
        neighbours="each report",
        source="Apple, Differential Privacy Overview; desfontain.es/blog/real-world-differential-privacy.html",
    ),
    Deployment(
        name="Apple, types of health data",
        loss=_loss(epsilon="2"),
        unit="one user's reports of one day",
        neighbours="each report",
        source="Apple, Differential Privacy Overview; desfontain.es/blog/real-world-differential-privacy.html",
    ),
)
"""Known deployments, with what was published of them. Parameters compare only where unit and neighbours do."""


def trade_off(loss: PrivacyLoss) -> TradeOff:
    """Returns the least chance of a miss at each chance of a false alarm that a loss allows.

    Rho is read as (epsilon, delta) at several deltas, of which each is a bound, and the best is taken; a delta of the
    loss itself is given away on top.
    Source: Wasserman, Zhou 2010; Bun, Steinke 2016. Proof: docs/proofs/trade-offs.md.
    Example:
        >>> float(trade_off(PrivacyLoss(epsilon=Fraction(1)))("0.05"))  # doctest: +ELLIPSIS
        0.86408...
    """
    if loss == ZERO:
        return TradeOff("nothing", lambda alarms: 1 - alarms)
    if not loss.rho:
        return approximate(loss.epsilon, loss.delta)
    if loss.epsilon:
        raise InvalidLossError("give epsilon or rho, not both")
    made = [approximate(zcdp_to_approximate(loss.rho, small), min(Fraction(1), small + loss.delta)) for small in DELTAS]
    return TradeOff(str(loss), lambda alarms: max(one.misses(alarms) for one in made))


def best_guess(loss: PrivacyLoss) -> Fraction:
    """Returns how often the best attacker is right at most who guesses between two equally likely neighbours.

    Of (epsilon, delta) it is (e^epsilon + delta) / (1 + e^epsilon): one half is what a coin reaches.
    Source: Kairouz, Oh, Viswanath 2015, as `leaky_response` attains it.
    Example:
        >>> float(best_guess(PrivacyLoss(epsilon=Fraction(1))))  # doctest: +ELLIPSIS
        0.7310...
    """
    if not loss.rho:
        return _guess(loss.epsilon, loss.delta)
    pairs = ((zcdp_to_approximate(loss.rho, small), min(Fraction(1), small + loss.delta)) for small in DELTAS)
    return min(_guess(epsilon, delta) for epsilon, delta in pairs)


def _guess(epsilon: Fraction, delta: Fraction) -> Fraction:
    return above(delta + (1 - delta) / (1 + exp_down(-epsilon)))


def posterior(prior: Amount, loss: PrivacyLoss) -> tuple[Fraction, Fraction]:
    """Returns between which bounds a belief about one person lies after all answers, if it was `prior` before.

    Odds change by a factor of at most e^epsilon. Where there is a delta, answers of a chance of the order of delta may
    tell more; rho is read at the delta of the loss, or at 1e-6.
    Source: Kasiviswanathan, Smith 2014, "On the semantics of differential privacy".
    Example:
        >>> low, high = posterior("0.01", PrivacyLoss(epsilon=Fraction(1)))
        >>> f"{float(low):.4f} {float(high):.4f}"
        '0.0037 0.0267'
    """
    chance, epsilon = read_chance(prior, "prior"), in_epsilon(loss)
    high = chance * exp_up(epsilon) / (1 - chance + chance * exp_up(epsilon))
    least = chance * exp_down(-epsilon)
    low = least / (1 - chance + least) if chance < 1 else chance
    return below(low), min(Fraction(1), above(high))


def in_epsilon(loss: PrivacyLoss) -> Fraction:
    """Returns the epsilon of a loss: of rho, with what its delta allows, or else at delta 1e-6."""
    return zcdp_to_approximate(loss.rho, loss.delta or Fraction(1, 10**6)) if loss.rho else loss.epsilon


def relatives(loss: PrivacyLoss, count: int) -> PrivacyLoss:
    """Returns what a loss means for so many people together of whom one knows that they are alike: group privacy.

    The loss of `group`. Proof: docs/proofs/composition-theorems.md.
    """
    return group(loss, count)
