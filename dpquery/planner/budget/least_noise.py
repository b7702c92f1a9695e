"""The least noise with which sums of measures are off by no more than targets allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.accuracy.combinations import half_width, together
from dpquery.accuracy.error_propagation import Factors
from dpquery.errors import InvalidLossError
from dpquery.kernel.mechanisms import calibrate
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import Measure, Noise, PrivateAggregate
from dpquery.kernel.sensitivity import Sensitivity, finer_steps, sensitivity
from dpquery.planner.budget.allocate import noise_of
from dpquery.units.declarations import Neighbours

DIGITS = 5
"""Losses are solved for to so many digits, rounded up."""

Pair = tuple[PrivateAggregate, Measure]
Moved = Mapping[str, tuple[PrivateAggregate, Measure, Sensitivity]]
Paid = object
"""What is paid for by one noise: a measure by its id, or a vector of terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What keeps a number within its error: sums of measures, each with how far it may be off.

    Attributes:
        sums: Factors of measures, and the half-width of their sum.
        failure: With which probability a sum may be further off.
        at_once: Whether each measure of a sum may be further off than its half-width with that probability.
    """

    sums: tuple[tuple[Factors, Fraction], ...]
    failure: Fraction
    at_once: bool


def paid_as(measure: Measure) -> Paid:
    """Returns what a measure is paid for as."""
    return measure.family or measure.id


def sharing(targets: Sequence[Target], pairs: Mapping[str, Pair]) -> list[list[Target]]:
    """Returns the targets, those together that share what is paid for."""
    found: list[tuple[set[Paid], list[Target]]] = []
    for target in targets:
        read = {paid_as(pairs[id][1]) for factors, _ in target.sums for id in factors}
        others = [one for one in found if one[0] & read]
        found = [one for one in found if not one[0] & read]
        found.append((read.union(*(paid for paid, _ in others)), [*(t for _, own in others for t in own), target]))
    return [own for _, own in found]


def least_noise(
    targets: Sequence[Target], pairs: Mapping[str, Pair], neighbours: Neighbours, *, pure: bool
) -> dict[Paid, Noise]:
    """Returns the noise of the least charge that keeps all these targets."""
    currencies = [True] if pure else [False, True]
    made = [_solved(targets, pairs, neighbours, in_epsilon, pure) for in_epsilon in currencies]
    return min(made, key=lambda noises: sum(price(noise, pure) for noise in noises.values()))


def _solved(
    targets: Sequence[Target], pairs: Mapping[str, Pair], neighbours: Neighbours, in_epsilon: bool, pure: bool
) -> dict[Paid, Noise]:
    """Returns noise that one currency pays for, each as small as the target that needs most asks."""
    found, read = dict[Paid, Fraction](), dict[Paid, Measure]()
    for target in targets:
        moved = {}
        for id in dict.fromkeys(id for factors, _ in target.sums for id in factors):
            aggregate, measure = pairs[id]
            moved[id] = aggregate, measure, sensitivity(aggregate, measure, neighbours)
            read[paid_as(measure)] = measure
        shares = _shares(target, moved, in_epsilon, pure)
        amount = _amount(target, moved, shares, in_epsilon)
        for paid, share in shares.items():
            found[paid] = max(amount * share, found.get(paid, Fraction(0)))
    return {paid: noise_of(read[paid], amount, in_epsilon=in_epsilon) for paid, amount in found.items()}


def _sizes(moved: Moved, in_epsilon: bool) -> dict[str, float]:
    """Returns the deviation of each noise at one unit of loss, but for a constant of the law."""
    return {
        id: float(m.unit) * (float(s.l1) if in_epsilon else math.sqrt(s.l2_squared)) for id, (_, m, s) in moved.items()
    }


def _shares(target: Target, moved: Moved, in_epsilon: bool, pure: bool) -> dict[Paid, Fraction]:
    """Returns with which parts of a loss the sums err least: exact fractions that sum to at most 1.

    Of deviations d_i they are in proportion to d_i^(2/3) for Laplace noise and to d_i for Gaussian, and to d_i^(1/2)
    for Laplace noise that is paid for in rho, of which each noise costs the square of its part.
    """
    power = 1.0 if not in_epsilon else 2 / 3 if pure else 1 / 2
    sizes, parts = _sizes(moved, in_epsilon), dict[Paid, float]()
    for factors, _ in target.sums:
        for id, factor in factors.items():
            paid = paid_as(moved[id][1])
            parts[paid] = max(parts.get(paid, 0.0), (abs(float(factor)) * sizes[id]) ** power)
    total = sum(parts.values())
    if len(parts) == 1 or not 0 < total < math.inf:
        return dict.fromkeys(parts, Fraction(1, len(parts)))
    return {id: Fraction(max(1, math.floor(part / total * 10**6)), 10**6 + len(parts)) for id, part in parts.items()}


def _amount(target: Target, moved: Moved, shares: Mapping[Paid, Fraction], in_epsilon: bool) -> Fraction:
    """Returns the smallest loss of about `DIGITS` digits whose parts keep a target."""
    about = max(_about(factors, room, target.failure, moved, shares, in_epsilon) for factors, room in target.sums)
    unit = Fraction(10) ** (math.floor(math.log10(about)) - DIGITS)
    low, high = (int(10 ** (DIGITS + more)) for more in (-2, 2))
    if not _keeps(target, moved, shares, in_epsilon, high * unit):
        raise InvalidLossError(
            f"no noise on {next(iter(moved.values()))[1].label} can be this small and still be sampled exactly",
            advice="Ask for a larger error.",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _keeps(target, moved, shares, in_epsilon, middle * unit) else (middle, high)
    return high * unit


def _about(
    factors: Factors,
    room: Fraction,
    failure: Fraction,
    moved: Moved,
    shares: Mapping[Paid, Fraction],
    in_epsilon: bool,
) -> float:
    """Returns a loss that is about as large as is needed, by continuous laws and the sum of half-widths."""
    sizes = _sizes(moved, in_epsilon)
    doubt = math.log(2 * len(factors) / float(failure))
    wide = float(room) + sum(abs(float(f)) * float(moved[id][1].unit) / 2 for id, f in factors.items())
    each = (
        abs(float(f)) * sizes[id] * (float(shares[paid_as(moved[id][1])]) ** (-1 if in_epsilon else -0.5))
        for id, f in factors.items()
    )
    needed = sum(each) / wide
    return needed * doubt if in_epsilon else needed**2 * doubt


def _keeps(target: Target, moved: Moved, shares: Mapping[Paid, Fraction], in_epsilon: bool, amount: Fraction) -> bool:
    noises = {}
    for id, (aggregate, measure, own) in moved.items():
        try:
            noise = noise_of(measure, amount * shares[paid_as(measure)], in_epsilon=in_epsilon)
            noises[id] = calibrate(own, noise, finer_steps(aggregate, measure))
        except InvalidLossError:
            return False
    for factors, room in target.sums:
        parts = [(factor * moved[id][1].unit, noises[id]) for id, factor in sorted(factors.items())]
        if (together if target.at_once else half_width)(parts, target.failure) > room:
            return False
    return True


def price(noise: Noise, pure: bool) -> Fraction:
    """Returns what the ledger counts for a noise, in epsilon where `pure` and else in rho."""
    return noise.loss.epsilon if pure else LAWS[noise.mechanism].rho(noise.loss)
