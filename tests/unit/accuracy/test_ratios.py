"""Ratios of sums of measures: the noise that their factors allow never moves them further than they say."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpquery.accuracy.error_propagation import Factors, rounded_factors_of
from dpquery.accuracy.ratios import Mean, quotient_of
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.types import FLOAT64, INT64

A, B = (Column(id=id, type=FLOAT64) for id in "ab")
ONE = Fraction(1)
SHARE = Mean(over={"a": ONE}, under={"a": ONE, "b": ONE}, lower=Fraction(0), upper=ONE)
MIDDLE = Mean(over={"a": -ONE, "b": ONE}, under={"a": ONE, "b": ONE}, lower=-ONE, upper=ONE)
ROUNDED = Mean(
    over={"a": ONE, "r": ONE}, under={"a": ONE, "b": ONE}, lower=Fraction(0), upper=ONE, roundings={"r": Fraction(1, 2)}
)


def total(side: Factors, values: Factors) -> Fraction:
    return sum((factor * values[id] for id, factor in side.items()), Fraction(0))


@pytest.mark.parametrize("mean", [SHARE, MIDDLE, ROUNDED], ids=["share", "middle", "rounded"])
@pytest.mark.parametrize(("error", "rows"), [("0.05", 100), ("0.5", 40), (2, 10)])
def test_noise_within_the_half_widths_keeps_the_error(mean: Mean, error: object, rows: int) -> None:
    """At all corners of the noises, for parts of all sizes: as far as allowed somewhere, and nowhere further."""
    most = Fraction(str(error))
    factors = mean.factors(most, Fraction(rows))
    assert factors is not None and factors.keys() == {"a", "b"}
    widths = {id: most / 2 / factor for id, factor in factors.items()}
    said, worst = mean.half_width(widths, Fraction(rows)), Fraction(0)
    assert said is not None and said <= most
    known = {**widths, **mean.roundings}
    for part in range(rows + 1):
        exact = {"a": Fraction(part), "b": Fraction(rows - part), "r": Fraction(0)}
        over, under = (total(side, exact) for side in (mean.over, mean.under))
        for signs in itertools.product((-1, 1), repeat=len(known)):
            noise = {id: sign * known[id] for id, sign in zip(known, signs, strict=True)}
            above, below = over + total(mean.over, noise), under + total(mean.under, noise)
            worst = max(worst, abs(above / below - over / under))
    assert said / 2 < worst <= said


def test_more_rounding_than_the_error_has_no_factors() -> None:
    assert ROUNDED.factors(Fraction(1, 100), Fraction(20)) is None
    assert ROUNDED.half_width({"a": Fraction(10), "b": Fraction(10)}, Fraction(20)) is None


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
    exact, near = (
        made.half_width({"a": ONE, "b": ONE}, Fraction(100))
        for made in (Mean(over=mean.over, under={"a": ONE, "b": ONE}, lower=mean.lower, upper=ONE), mean)
    )
    assert exact is not None and near is not None and exact < near < exact * 2
    assert np.isclose(float(exact), 1 / 98)
