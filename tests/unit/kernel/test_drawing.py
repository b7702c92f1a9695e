"""Noise is drawn once for each number, whether beside the backend or after it."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest

from dpquery.kernel.drawing import BESIDE, drawing
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism

SMALL = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(5))
LARGE = NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=Fraction(10**12))
CHOICE = NoiseLaw(mechanism=Mechanism.EXPONENTIAL, parameter=Fraction(1, 2))
GROUPS = [None, 3, BESIDE // 2, BESIDE]


@pytest.mark.parametrize("groups", GROUPS)
def test_each_measure_gets_noise_of_its_own_law(groups: int | None) -> None:
    size = groups or 10_000
    with drawing((SMALL, CHOICE, LARGE, LARGE), groups) as draw:
        pass
    first, second, third = draw(0, size), draw(2, size), draw(3, size)
    assert first.shape == second.shape == third.shape == (size,)
    assert np.abs(first).max() < 1_000  # 200 scales
    assert np.abs(second).max() > 1_000
    assert not np.array_equal(second, third)


def test_what_was_drawn_is_given_out_once() -> None:
    with drawing((SMALL,), BESIDE) as draw:
        draw(0, BESIDE)
        with pytest.raises(KeyError):
            draw(0, BESIDE)


def test_the_thread_ends_with_the_block_also_where_the_backend_fails() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), drawing((SMALL, LARGE), BESIDE):
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_few_numbers_need_no_thread() -> None:
    with drawing((SMALL,), 10):
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("dpquery noise")]
