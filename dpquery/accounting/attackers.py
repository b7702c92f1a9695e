"""What an attacker can reach who must tell two neighbours apart: trade-off functions, and ROC curves.

A false alarm takes the second of two neighbours for the truth where it is the first, a miss the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from dpquery.accounting import tradeoff
from dpquery.accounting.amounts import Amount, read, read_chance, whole
from dpquery.accounting.batches import Noise, batch_profile
from dpquery.accounting.composition import optimal_delta
from dpquery.accounting.conversions import gaussian_delta
from dpquery.errors import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The least chance of a miss at each chance of a false alarm: larger is more private. Rounded down.

    Attributes:
        name: What it is of, for people.
        misses: From a fraction from 0 to 1 to a fraction.
        delta: From an epsilon of at least 0 to the least delta, rounded up, with which it is (epsilon, delta)-DP; it
            must be that of a symmetric function. None where it is not known.
    """

    name: str
    misses: Callable[[Fraction], Fraction]
    delta: Callable[[Fraction], Fraction] | None = None

    def __call__(self, false_alarms: Amount) -> Fraction:
        """Returns the least chance of a miss of a test with this chance of a false alarm."""
        return self.misses(read_chance(false_alarms, "the chance of a false alarm"))


def approximate(epsilon: Amount, delta: Amount = 0) -> TradeOff:
    """Returns the trade-off that (epsilon, delta)-DP promises. Source: Wasserman, Zhou 2010; Dong, Roth, Su 2022."""
    pure, small = read(epsilon, "epsilon", zero=True), read_chance(delta, "delta")
    name = f"({_short(pure)}, {_short(small)})"
    return TradeOff(name, lambda x: tradeoff.tradeoff_of_approximate(pure, small, x), _delta(pure, small))


def randomised_response(epsilon: Amount) -> TradeOff:
    """Returns that of a yes-no answer that is true with odds e^epsilon: all that (epsilon, 0) allows."""
    pure = read(epsilon, "epsilon", zero=True)
    name = f"randomised response {_short(pure)}"
    return TradeOff(name, lambda x: tradeoff.tradeoff_of_randomised_response(pure, x), _delta(pure, Fraction(0)))


def laplace(scale: Amount, sensitivity: Amount = 1) -> TradeOff:
    """Returns that of one number with continuous Laplace noise. Source: Dong, Roth, Su 2022."""
    pure = read(sensitivity, "sensitivity") / read(scale, "scale")
    name, delta = f"Laplace {_short(pure)}", partial(tradeoff.laplace_delta, pure)
    return TradeOff(name, lambda x: tradeoff.tradeoff_of_laplace(pure, x), delta)


def gaussian(scale: Amount, sensitivity: Amount = 1) -> TradeOff:
    """Returns that of continuous Gaussian noise; `scale` is the standard deviation. Source: Dong, Roth, Su 2022."""
    mu = read(sensitivity, "sensitivity") / read(scale, "scale")
    name = f"Gaussian {_short(mu)}"
    return TradeOff(
        name,
        lambda x: tradeoff.tradeoff_of_gaussian(mu, x),
        lambda e: gaussian_delta(e, scale=scale, sensitivity=sensitivity),
    )


def leak(delta: Amount) -> TradeOff:
    """Returns that of the mechanism that gives everything away with chance delta, and else nothing.

    It is (0, delta)-DP, and attains it: what delta alone may mean.
    """
    small = read_chance(delta, "delta")
    return TradeOff(f"leak {_short(small)}", lambda x: tradeoff.tradeoff_of_leak(small, x), lambda _: small)


def leaky_response(epsilon: Amount, delta: Amount) -> TradeOff:
    """Returns that of the mechanism that gives everything away with chance delta, and else is randomised response.

    It attains (epsilon, delta)-DP: what that promise may mean. Source: Kairouz, Oh, Viswanath 2015.
    """
    pure, small = read(epsilon, "epsilon", zero=True), read_chance(delta, "delta")
    name = f"leaky response ({_short(pure)}, {_short(small)})"
    return TradeOff(name, lambda x: tradeoff.tradeoff_of_leaky_response(pure, small, x), _delta(pure, small))


def batch(noises: Iterable[Noise], *, points: int = 200) -> TradeOff:
    """Returns that of all measurements of a batch together, from below: of each of many epsilons with its delta.

    Source: Dong, Roth, Su 2022, Proposition 2.12. Needs `pip install 'dpquery[accounting]'`; see `batch_delta`.
    """
    given = [*noises]
    pairs = batch_profile(given, [Fraction(i, 20) for i in range(whole(points, "points") + 1)])

    def misses(x: Fraction) -> Fraction:
        return max(tradeoff.tradeoff_of_approximate(epsilon, delta, x) for epsilon, delta in pairs)

    return TradeOff(f"batch of {sum(noise.times for noise in given)}", misses)


def roc(function: TradeOff, points: int = 101) -> list[tuple[Fraction, Fraction]]:
    """Returns the ROC curve of the best attacker: evenly spaced false alarms with the chance of a hit, rounded up."""
    last = whole(points, "points") - 1 or 1
    alarms = [Fraction(i, last) for i in range(points)]
    return [(alarm, 1 - function(alarm)) for alarm in alarms]


def plot_roc(
    functions: Mapping[str, TradeOff] | list[TradeOff], *, points: int = 201, axes: Axes | None = None
) -> Axes:
    """Returns matplotlib axes with the ROC curve of each, and the diagonal of an attacker who guesses.

    Raises:
        DPQueryError: matplotlib is not there; it comes with `pip install 'dpquery[plot]'`.
    """
    if axes is None:
        axes = extra(
            "matplotlib.pyplot", of="plot", purpose="a plot", instead="`roc` gives the same curves as numbers."
        ).subplots()[1]
    named = functions if isinstance(functions, Mapping) else {function.name: function for function in functions}
    for name, function in named.items():
        pairs = [(float(x), float(y)) for x, y in roc(function, points)]
        axes.plot([x for x, _ in pairs], [y for _, y in pairs], label=name)
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="guessing")
    axes.set(xlabel="false alarms", ylabel="hits", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend()
    return axes


def _delta(epsilon: Fraction, delta: Fraction) -> Callable[[Fraction], Fraction]:
    """Returns the least delta of each total epsilon of what attains (epsilon, delta)-DP."""
    return lambda total: optimal_delta(epsilon, 1, total_epsilon=total, delta=delta)


def _short(amount: Fraction) -> str:
    return f"{float(amount):.3g}"
