"""Trade-off functions of several releases together, by their privacy-loss distributions.

As for batches, the library `dp-accounting` adds up distributions in floating point, pessimistically on a grid. What is
composed is fixed beforehand: no release may be chosen by an earlier answer. No ledger uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.accounting import tradeoff
from dpquery.accounting.amounts import whole
from dpquery.accounting.attackers import TradeOff
from dpquery.accounting.batches import profile_of
from dpquery.errors import InvalidLossError, extra

STEP = Fraction(1, 50)
"""The grid of losses."""
MOST, LEAST_DELTA = 20, Fraction(1, 10**12)
"""Losses are told apart up to this one, or where a function's delta is that small; beyond, all is taken as lost."""


def compose(functions: Iterable[TradeOff], *, points: int = 200) -> TradeOff:
    """Returns that of all releases together, from below: f ⊗ g.

    Args:
        functions: Of releases that were fixed before any answer was seen. They are symmetric, and know the delta of
            each epsilon, as all of this module do but `batch`.
        points: For how many epsilons, up to 10, the delta of all is computed.
    Raises:
        DPQueryError: `dp-accounting` is not there; it comes with `pip install 'dpquery[accounting]'`.
    Source:
        Dong, Roth, Su 2022, Definition 3.1 and Proposition 2.12; Doroshenko et al. 2022 (the grid).
    """
    given = [*functions]
    if not given:
        raise InvalidLossError("there is nothing to compose", advice="Give at least one trade-off function.")
    if unknown := [one.name for one in given if one.delta is None]:
        raise InvalidLossError(f"{unknown[0]} knows no delta of an epsilon", advice="Give it as `delta`.")
    library = extra(
        "dp_accounting.pld.privacy_loss_distribution", of="accounting", purpose="a privacy-loss distribution"
    )
    numerics = extra("dp_accounting.pld.pld_pmf", of="accounting", purpose="a privacy-loss distribution")
    composed = library.identity(value_discretization_interval=float(STEP))
    for one in given:
        places, deltas = _profile(one)
        law = numerics.create_pmf_pessimistic_connect_dots(float(STEP), places, deltas)
        composed = composed.compose(library.PrivacyLossDistribution(law))
    pairs = profile_of(composed, [Fraction(10 * i, points) for i in range(whole(points, "points") + 1)])

    def misses(x: Fraction) -> Fraction:
        return max(tradeoff.tradeoff_of_approximate(epsilon, delta, x) for epsilon, delta in pairs)

    return TradeOff(" and ".join(one.name for one in given), misses)


def _profile(one: TradeOff) -> tuple[list[int], NDArray[np.float64]]:
    """Returns losses in steps, from low to high, and the delta of each: 1 - e^-epsilon (1 - delta) of -epsilon."""
    assert one.delta is not None
    deltas = list[float]()
    for place in range(int(MOST / STEP) + 1):
        found = float(one.delta(place * STEP))
        if deltas and found == deltas[-1]:
            break  # what is lost beyond is lost at any epsilon
        deltas.append(found)
        if found <= LEAST_DELTA:
            break
    high = np.array(deltas)
    low = 1 - np.exp(-float(STEP) * np.arange(1, len(high))) * (1 - high[1:])
    whole_profile = np.concatenate([low[::-1], high])
    rising = np.maximum.accumulate(whole_profile[::-1])[::-1]  # against rounding: no delta is below the next
    return list(range(1 - len(high), len(high))), rising
