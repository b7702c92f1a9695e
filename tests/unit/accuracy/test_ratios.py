"""Ratios of sums of measures: the noise that their factors allow never moves them further than they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pytest

from dpquery.accuracy.error_propagation import Factors, rounded_factors_of
from dpquery.accuracy.ratios import RatioOfSums, quotient_of
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.types import FLOAT64, INT64

A, B = (Column(id=id, type=FLOAT64) for id in "ab")
ONE = Fraction(1)
SHARE = RatioOfSums(over={"a": ONE}, under={"a": ONE, "b": ONE}, lower=Fraction(0), upper=ONE)
MIDDLE = RatioOfSums(over={"a": -ONE, "b": ONE}, under={"a": ONE, "b": ONE}, lower=-ONE, upper=ONE)
ROUNDED = RatioOfSums(
    over={"a": ONE, "r": ONE}, under={"a": ONE, "b": ONE}, lower=Fraction(0), upper=ONE, roundings={"r": Fraction(1, 2)}
)


DRAWS, FAILURE = 20_000, 0.05


def laplace(scale: float, mean: RatioOfSums) -> tuple[dict[str, np.ndarray], Callable[[Factors], Fraction]]:
    """Returns noises of one law for two measures, drawn, and how far sums of them are off in 95 % of the draws."""
    random = np.random.default_rng(3)
    drawn = {id: random.laplace(0, scale, DRAWS) for id in ("a", "b")}

    def reach(factors: Factors) -> Fraction:
        total = sum(float(factor) * drawn[id] for id, factor in factors.items())
        return Fraction(float(np.quantile(np.abs(total), 1 - FAILURE)))

    return drawn | {id: random.uniform(-0.5, 0.5, DRAWS) for id in mean.roundings}, reach


def value(side: Factors, numbers: Mapping[str, float | np.ndarray]) -> np.ndarray:
    return np.asarray(sum(float(factor) * numbers[id] for id, factor in side.items()))


@pytest.mark.parametrize("mean", [SHARE, MIDDLE, ROUNDED], ids=["share", "middle", "rounded"])
@pytest.mark.parametrize(("scale", "rows"), [(1, 100), (3, 60), (0.2, 10)])
def test_a_ratio_is_off_by_no_more_than_its_half_width(mean: RatioOfSums, scale: float, rows: int) -> None:
    """Of parts of all sizes: in 95 % of draws or more, and for the worst part hardly more."""
    drawn, reach = laplace(scale, mean)
    width = mean.half_width(reach, Fraction(rows))
    assert width is not None
    missed = []
    for part in range(rows + 1):
        exact = {"a": float(part), "b": float(rows - part)} | dict.fromkeys(mean.roundings, 0.0)
        noisy = {id: exact[id] + noise for id, noise in drawn.items()}
        off = value(mean.over, noisy) / value(mean.under, noisy) - value(mean.over, exact) / rows
        missed.append(float((np.abs(off) > width).mean()))
    assert max(missed) < FAILURE * 1.15
    assert max(missed) > (FAILURE * 0.6 if not mean.roundings else 0.001)


def test_a_number_of_rows_that_may_be_lost_has_no_half_width() -> None:
    reach = laplace(20, SHARE)[1]
    assert SHARE.half_width(reach, Fraction(20)) is None and SHARE.half_width(reach, Fraction(2000)) is not None


def rounded(number: Expression) -> Expression:
    return Cast(argument=number, type=INT64)


def test_a_rounding_is_one_more_part_of_a_sum() -> None:
    two = Literal(value=2.0, type=FLOAT64)
    both = call("add", (A, B))
    found = rounded_factors_of(
        call("multiply", (Cast(argument=rounded(both), type=FLOAT64), two)), {"a", "b"}.__contains__
    )
    assert found is not None
    factors, widths = found
    (name,) = widths
    assert widths == {name: Fraction(1, 2)} and factors == {"a": 2, "b": 2, name: 2}
    ratio = call("divide", (A, Cast(argument=rounded(both), type=FLOAT64)))
    mean = quotient_of(ratio, lambda *_: (Fraction(0), ONE))
    assert mean is not None and set(mean.measures) == {"a", "b"} and mean.roundings == {name: Fraction(1, 2)}
    assert quotient_of(rounded(ratio), lambda *_: (Fraction(0), ONE)) is None  # it is rounded itself
    plain = RatioOfSums(over=mean.over, under={"a": ONE, "b": ONE}, lower=mean.lower, upper=ONE)
    reach = laplace(1, mean)[1]
    exact, near = (made.half_width(reach, Fraction(100)) for made in (plain, mean))
    assert exact is not None and near is not None and exact < near < exact * 2
