"""Batches of measurements that are fixed beforehand, by privacy-loss distributions.

The library `dp-accounting` adds up distributions in floating point, pessimistically on a grid. What it gives is close
to the best bound there is, but is not exact like the rest, and holds only if no measurement of the batch depends on
an earlier answer. No ledger uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpquery.accounting.amounts import Amount, read, read_delta, whole
from dpquery.accounting.directed_bounds import above
from dpquery.errors import InvalidLossError, extra

_GRID = 1e-4
_DELTA_ERROR = Fraction(1, 10**12)
_SMALLEST_DELTA = Fraction(1, 10**10)
_EPSILON_ERROR = Fraction(1, 10**9)
_PARAMETERS = {
    "laplace": lambda scale: math.nextafter(float(1 / scale), math.inf),
    "gaussian": lambda scale: math.nextafter(float(scale), 0),
}
"""The library's parameter of a scale, on the side of the greater loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Independent integers with discrete noise, `times` of which one person moves, each by at most `sensitivity`.

    Attributes:
        mechanism: `laplace` or `gaussian`.
        scale: b of exp(-|k| / b), or sigma of exp(-k^2 / (2 sigma^2)), in steps of the lattice.
        sensitivity: An integer number of steps.
        times: How many such numbers, such as the groups that a person has rows in.
    """

    mechanism: str
    scale: Fraction
    sensitivity: int
    times: int


def discrete_laplace(scale: Amount, *, sensitivity: int = 1, times: int = 1) -> Noise:
    """Returns discrete Laplace noise for a batch; see `Noise`."""
    return _noise("laplace", scale, sensitivity, times)


def discrete_gaussian(scale: Amount, *, sensitivity: int = 1, times: int = 1) -> Noise:
    """Returns discrete Gaussian noise for a batch; see `Noise`."""
    return _noise("gaussian", scale, sensitivity, times)


def batch_epsilon(noises: Iterable[Noise], delta: Amount) -> Fraction:
    """Returns an epsilon such that all measurements together are (epsilon, delta)-DP.

    Args:
        noises: Fixed before any answer is seen.
        delta: From 1e-10; the library's arithmetic shows no smaller one.
    Raises:
        DPQueryError: `dp-accounting` is not there; it comes with `pip install 'dpquery[accounting]'`.

    Source: Koskela, Jälkö, Honkela 2020; Doroshenko et al. 2022 (the grid). docs/proofs/composition-theorems.md.
    """
    allowed = read_delta(delta)
    if allowed < _SMALLEST_DELTA:
        raise InvalidLossError("privacy-loss distributions are computed for a delta of at least 1e-10")
    found = _distribution(noises).get_epsilon_for_delta(float(allowed - _DELTA_ERROR))
    return above(Fraction(found) * (1 + _EPSILON_ERROR) + _EPSILON_ERROR / 1000)


def batch_delta(noises: Iterable[Noise], epsilon: Amount) -> Fraction:
    """Returns a delta such that all measurements together are (epsilon, delta)-DP; at least 1e-12. As above."""
    return batch_profile(noises, [read(epsilon, "epsilon", zero=True)])[0][1]


def batch_profile(noises: Iterable[Noise], epsilons: Iterable[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """Returns each epsilon with a delta such that all measurements together are (epsilon, delta)-DP. As above."""
    return profile_of(_distribution(noises), epsilons)


def profile_of(law: Any, epsilons: Iterable[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """Returns each epsilon with the delta that the library finds of a distribution, and its rounding added."""
    given = [*epsilons]
    found = [Fraction(law.get_delta_for_epsilon(math.nextafter(float(epsilon), 0))) for epsilon in given]
    deltas = [min(Fraction(1), above(delta * (1 + _EPSILON_ERROR) + _DELTA_ERROR)) for delta in found]
    return list(zip(given, deltas, strict=True))


def _noise(mechanism: str, scale: Amount, sensitivity: int, times: int) -> Noise:
    return Noise(
        mechanism=mechanism,
        scale=read(scale, "scale"),
        sensitivity=whole(sensitivity, "sensitivity"),
        times=whole(times, "times"),
    )


def _distribution(noises: Iterable[Noise]) -> Any:
    """Returns the composed distribution; parameters round to the side of the greater loss."""
    library = extra(
        "dp_accounting.pld.privacy_loss_distribution", of="accounting", purpose="a privacy-loss distribution"
    )
    composed = library.identity(value_discretization_interval=_GRID)
    for noise in noises:
        options = {"sensitivity": noise.sensitivity, "value_discretization_interval": _GRID, "use_connect_dots": True}
        parameter = _PARAMETERS[noise.mechanism](noise.scale)
        one = getattr(library, f"from_discrete_{noise.mechanism}_mechanism")(parameter, **options)
        composed = composed.compose(one.self_compose(noise.times))
    return composed
