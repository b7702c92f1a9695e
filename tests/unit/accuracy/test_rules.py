"""Each rule is of one operation: its values are those of `evaluate`, its intervals hold them, its slopes are theirs."""

from __future__ import annotations

import numpy as np
import pytest

from dpquery.accuracy.error_propagation import GUESSES, Guesses, factors_of
from dpquery.accuracy.rules import RULES, Floats, Interval, Rule
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal
from dpquery.plan.functions import FUNCTIONS, call
from dpquery.plan.types import FLOAT64, INT64

STEP = 1e-6
CASES = list(RULES.items())


def drawn(rule: Rule, count: int) -> list[Floats]:
    random = np.random.default_rng(7)
    parts = [random.uniform(-9, 9, count) for _ in range(rule.arguments)]
    return [parts[0], *np.sort(parts[1:], axis=0)] if rule.arguments == 3 else parts


def exact(name: str, *values: float) -> float:
    found = FUNCTIONS[name].meaning(*values)
    return float("nan") if found is None else float(found)


@pytest.mark.parametrize(("name", "rule"), CASES)
def test_values_are_those_of_the_operation(name: str, rule: Rule) -> None:
    parts = drawn(rule, 200)
    if rule.value is None:
        assert name in (
            "floor",
            "ceil",
            "round",
            "trunc",
            "int_divide",
            "coalesce",
            "power",
        ), "steps, what is never NULL here, and powers are not simulated"
        return
    with np.errstate(all="ignore"):
        found = rule.value(*parts)
    np.testing.assert_allclose(found, [exact(name, *row) for row in zip(*parts, strict=True)], rtol=1e-12)


@pytest.mark.parametrize(("name", "rule"), CASES)
def test_intervals_hold_the_values_of_what_lies_within(name: str, rule: Rule) -> None:
    if rule.interval is None:
        assert name in ("nullif", "coalesce")
        return
    parts, random = drawn(rule, 200), np.random.default_rng(8)
    widths = [random.uniform(0, 3, 200) for _ in parts]
    if name == "round":  # its digits are a constant
        parts[1], widths[1] = np.round(parts[1] / 3), np.zeros(200)
    with np.errstate(all="ignore"):
        found = rule.interval(*(Interval(x - w, x + w) for x, w in zip(parts, widths, strict=True)))
    for _ in range(20):
        inside = [x + w * random.uniform(-1, 1, 200) for x, w in zip(parts, widths, strict=True)]
        values = np.array([exact(name, *row) for row in zip(*inside, strict=True)])
        known = ~np.isnan(values)
        assert not (values < found.lower - 1e-9)[known].any()
        assert not (values > found.upper + 1e-9)[known].any()


@pytest.mark.parametrize(("name", "rule"), [(name, rule) for name, rule in CASES if rule.guess is None])
def test_slopes_are_those_of_the_values(name: str, rule: Rule) -> None:
    parts = drawn(rule, 200)
    for place, slope in enumerate(rule.slopes):
        up, down = ([x + sign * STEP * (i == place) for i, x in enumerate(parts)] for sign in (1, -1))
        assert rule.value is not None
        with np.errstate(all="ignore"):
            about = (rule.value(*up) - rule.value(*down)) / (2 * STEP)
        known = np.isfinite(about)
        np.testing.assert_allclose(np.broadcast_to(slope(*parts), 200)[known], about[known], rtol=1e-4, atol=1e-4)


def test_only_constant_slopes_are_factors() -> None:
    """What `error=` aims by: sums of measures with constant factors, whatever they read."""
    n, s = Column(id="n", type=FLOAT64), Column(id="s", type=FLOAT64)

    def factors(made: Expression) -> dict[str, float] | None:
        found = factors_of(made, {"n", "s"}.__contains__)
        return None if found is None else {id: float(factor) for id, factor in found.items()}

    def times(*parts: Expression) -> Call:
        return call("multiply", parts)

    two = Literal(value=2, type=INT64)
    assert factors(call("subtract", (n, times(two, s)))) == {"n": 1, "s": -2}
    assert factors(call("divide", (call("negate", (n,)), Cast(argument=two, type=FLOAT64)))) == {"n": -0.5}
    nothing = Literal(value=0, type=INT64)
    for made in (
        times(n, s),
        call("divide", (two, n)),
        call("sqrt", (n,)),
        times(n, nothing),
        call("subtract", (n, n)),
    ):
        assert factors(made) is None
    assert factors(call("divide", (n, nothing))) is None
    assert factors(call("abs", (two,))) == {}


def test_a_divisor_of_zero_says_nothing_of_the_measures() -> None:
    nothing = call("divide", (Column(id="n", type=FLOAT64), Literal(value=0.0, type=FLOAT64)))
    assert Guesses(known={"n": np.full(GUESSES, 9.0)}).influence(nothing) is None
