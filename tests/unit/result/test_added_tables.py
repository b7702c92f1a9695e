"""Tables added up from others: the sums, and the half-widths of their noise against the exact law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import WHOLE_ROW, Count, Key, Measure, Mechanism, PrivateAggregate
from dpquery.kernel.release import NoisyTable
from dpquery.plan.logical import OutputColumn, Values
from dpquery.plan.types import INT64
from dpquery.result.added_tables import NoiseOfSum, add_up

LAPLACE, GAUSSIAN = Mechanism.LAPLACE, Mechanism.GAUSSIAN


def _law(noise: NoiseLaw, reach: int) -> NDArray[np.float64]:
    """Returns the probabilities of -reach ... reach."""
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    scale = float(noise.parameter)
    weights = np.exp(-np.abs(k) / scale) if noise.mechanism is LAPLACE else np.exp(-(k**2) / (2 * scale))
    return np.asarray(weights / weights.sum())


@pytest.mark.thinned(2)
@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("parameter", [Fraction(1, 2), Fraction(3), Fraction(20)])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 50])
@pytest.mark.parametrize("failure", [Fraction(1, 20), Fraction(1, 1000)])
def test_half_widths_of_sums_hold_and_are_not_much_too_wide(
    mechanism: Mechanism, parameter: Fraction, count: int, failure: Fraction
) -> None:
    noise = NoiseLaw(mechanism=mechanism, parameter=parameter)
    reach = 40 * (int(parameter) + 1)
    law = total = _law(noise, reach)
    for _ in range(count - 1):
        total = np.convolve(total, law)
    middle = len(total) // 2
    tails = total[middle + 1 :][::-1].cumsum()[::-1] * 2  # tails[w] is the chance of more than w
    found = NoiseOfSum(noise=noise, count=count).half_width(failure)
    assert tails[found] <= failure * (1 + 1e-9)
    exact = int(np.argmax(tails <= float(failure)))
    tight = mechanism is LAPLACE and parameter > 1
    assert found <= max((1.02 if tight else 1.75) * exact, exact + 2)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("failure", [Fraction(1, 20), Fraction(1, 1000)])
def test_half_widths_of_sums_of_rounded_numbers_hold(mechanism: Mechanism, count: int, failure: Fraction) -> None:
    """Noise in eighths of a step is rounded to whole steps, in whichever place the exact number stands."""
    steps, parameter = 8, Fraction(5, 2)
    noise = NoiseLaw(mechanism=mechanism, parameter=parameter, steps=steps)
    fine = NoiseLaw(mechanism=mechanism, parameter=parameter * (steps if mechanism is LAPLACE else steps**2))
    reach = 60 * steps
    law, k = _law(fine, reach), np.arange(-reach, reach + 1)
    found = NoiseOfSum(noise=noise, count=count).half_width(failure)
    assert (
        found
        <= NoiseOfSum(noise=replace(noise, steps=1), count=count).half_width(failure) + count // 2 + count // steps + 2
    )
    for place in range(steps):  # all the exact numbers end in so many eighths: their errors have the same law
        error = (k + place + steps // 2) // steps * steps - place
        one = np.bincount(error + reach + steps, weights=law, minlength=2 * (reach + steps) + 1)
        total = one
        for _ in range(count - 1):
            total = np.convolve(total, one)
        distance = np.abs(np.arange(len(total)) - count * (reach + steps))
        assert total[distance > found * steps].sum() <= failure * (1 + 1e-9)


def _aggregate(*keys: Key) -> PrivateAggregate:
    measure = Measure(id="m1_1", label="COUNT(*)", count=Count.ROWS)
    columns = (OutputColumn(id="a", name="a", type=INT64), OutputColumn(id="b", name="b", type=INT64))
    return PrivateAggregate(
        source=Values(columns=columns, rows=()), unit=None, keys=keys, weights=WHOLE_ROW, measures=(measure,)
    )


A, B = Key.of("a", INT64, (1, 2)), Key.of("b", INT64, (5, 6, 7))


def _table(numbers: NDArray[np.int64] | NDArray[np.object_]) -> NoisyTable:
    return NoisyTable(
        aggregate=_aggregate(A, B),
        keys=(np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)),
        numbers=(numbers,),
        noises=(NoiseLaw(mechanism=LAPLACE, parameter=Fraction(2)),),
    )


def test_sums_over_each_key_and_over_all() -> None:
    leaf = _table(np.array([1, 2, 3, 10, 20, 30]))
    for keys, sums, count in (((A,), [6, 60], 3), ((B,), [11, 22, 33], 2), ((), [66], 6)):
        made = add_up(leaf, _aggregate(*keys))
        assert made.numbers[0].tolist() == sums
        assert made.noises[0].count == count  # type: ignore[union-attr]
        assert [code.tolist() for code in made.keys] == [list(range(len(sums)))] * len(keys)


@pytest.mark.parametrize("kind", [np.int64, object])
def test_sums_do_not_wrap(kind: type) -> None:
    leaf = _table(np.array([2**62, 2**62, 2**62, -(2**62), 0, 1], dtype=kind))
    assert add_up(leaf, _aggregate(A)).numbers[0].tolist() == [3 * 2**62, 1 - 2**62]
    assert add_up(leaf, _aggregate()).numbers[0].tolist() == [2**63 + 1]


def test_groups_that_are_not_all_there_are_not_added_up() -> None:
    with pytest.raises(InternalError):
        add_up(_table(np.array([1, 2, 3])), _aggregate(A))
    with pytest.raises(InternalError):
        add_up(_table(np.arange(6)), _aggregate(Key.of("a", INT64, None)))
