"""The normal law: each bound is on its side, and close."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.accounting import normal_law
from dpquery.errors import InvalidLossError

PLACES = st.one_of(
    st.fractions(min_value=0, max_value=50),
    st.sampled_from(
        [Fraction(0), Fraction(1, 10**40), Fraction(4), Fraction(4) + Fraction(1, 10**30), Fraction(10**6)]
    ),
)


def exact(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


@given(PLACES)
@settings(deadline=None)
def test_mills_ratio_encloses_the_truth(x: Fraction) -> None:
    low, high = normal_law.mills_ratio(x)
    with mp.workdps(400):
        place = exact(x)
        if x <= 1000:
            truth = mp.erfc(place / mp.sqrt(2)) / 2 / mp.npdf(place)
            assert exact(low) <= truth <= exact(high)
        else:  # Gordon 1941
            assert exact(low) <= 1 / place
            assert exact(high) >= place / (1 + place**2)
    assert high - low < high / 10**45


@given(st.fractions(min_value=-40, max_value=40))
@settings(deadline=None)
def test_normal_tails_enclose_the_truth(x: Fraction) -> None:
    low, high = normal_law.normal_tail(x)
    with mp.workdps(500):
        truth = mp.erfc(exact(x) / mp.sqrt(2)) / 2
        assert exact(low) <= truth <= exact(high)
    assert high - low < high / 10**45


@given(PLACES, PLACES)
@settings(deadline=None)
def test_mills_ratio_falls(one: Fraction, other: Fraction) -> None:
    near, far = sorted([one, other])
    assert normal_law.mills_ratio(far)[0] <= normal_law.mills_ratio(near)[1]


def test_mills_ratio_is_not_asked_below_zero() -> None:
    with pytest.raises(InvalidLossError):
        normal_law.mills_ratio(Fraction(-1))
