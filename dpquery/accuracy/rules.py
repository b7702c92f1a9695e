"""How each operation carries numbers that are not known exactly: one table, and what follows an expression by it.

Before a query, derivatives are taken (error_propagation.py): at guesses, to split a loss, and where they are constants,
to aim at an error. After it, ends (intervals.py) and values at points of the noise (simulated.py) are computed.
What an operation means on exact values is in `plan/functions`; here are those that noise is followed through.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpquery.plan.expr import Call, Case, Cast, Column, Expression

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper bounds, shape (rows,); NaN where nothing is known."""

    lower: Floats
    upper: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is known of one operation.

    Attributes:
        arguments: With how many `value` and `interval` are known.
        fewer: With how many they are known too, where the last may be left out.
        value: From values, NaN being NULL; None if it is not simulated.
        interval: From intervals; None if nothing is known then.
        slopes: The derivative by each argument, from values; those left out are taken for 0.
        guess: From guessed values; `value` if None.
        is_linear: Whether the slope by an argument is the same for all its values, and is exact.
    """

    arguments: int
    fewer: int | None = None
    value: Callable[..., Floats] | None = None
    interval: Callable[..., Interval] | None = None
    slopes: tuple[Callable[..., Any], ...] = ()
    guess: Callable[..., Any] | None = None
    is_linear: bool = False


class Follower(ABC, Generic[T]):
    """Follows an expression by the rules, from what is known of its columns; None where no rule covers it."""

    @abstractmethod
    def is_exact(self, expression: Expression) -> bool:
        """Whether it carries no noise."""

    @abstractmethod
    def exact(self, expression: Expression) -> T | None:
        """Returns what is known of an expression that carries no noise."""

    @abstractmethod
    def column(self, column: Column) -> T | None:
        """Returns what is known of a number that carries noise."""

    @abstractmethod
    def apply(self, rule: Rule, parts: list[T], call: Call) -> T | None:
        """Returns what follows from what is known of the arguments."""

    def case(self, expression: Case) -> T | None:
        """Returns what is known of a CASE."""
        return None

    def keeps(self, cast: Cast) -> bool:
        """Whether a cast leaves numbers as they are, or nearly so."""
        return cast.type.is_numeric and cast.argument.type.is_numeric

    def follow(self, expression: Expression) -> T | None:
        """Returns what is known of an expression."""
        if self.is_exact(expression):
            return self.exact(expression)
        match expression:
            case Column() if expression.type.is_numeric:
                return self.column(expression)
            case Cast() if self.keeps(expression):
                return self.follow(expression.argument)
            case Case():
                return self.case(expression)
            case Call() if expression.function in RULES:
                known: list[T] = []
                for part in expression.arguments:
                    found = self.follow(part)
                    if found is None:
                        return None
                    known.append(found)
                return self.apply(RULES[expression.function], known, expression)
            case _:
                return None


def _monotone(value: Callable[..., Floats], *signs: int) -> Callable[..., Interval]:
    """The interval of an operation that rises (1) or falls (-1) with each argument."""

    def interval(*parts: Interval) -> Interval:
        pairs = list(zip(parts, signs, strict=True))
        lower = value(*(part.lower if sign > 0 else part.upper for part, sign in pairs))
        return Interval(lower, value(*(part.upper if sign > 0 else part.lower for part, sign in pairs)))

    return interval


def _corners(operation: Callable[[Floats, Floats], Floats], a: Interval, b: Interval) -> Interval:
    ends = np.stack([operation(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)])
    return Interval(ends.min(axis=0), ends.max(axis=0))


def _quotient(a: Floats, b: Floats) -> Floats:
    return np.where(b == 0, np.nan, a / np.where(b == 0, 1.0, b))


def _quotients(a: Interval, b: Interval) -> Interval:
    """The corners, where the divisor's interval does not hold 0; else nothing is known."""
    apart = (b.lower > 0) | (b.upper < 0)
    found = _corners(np.divide, a, b)
    return Interval(np.where(apart, found.lower, np.nan), np.where(apart, found.upper, np.nan))


def _clamp(value: Floats, low: Floats, high: Floats) -> Floats:
    return np.minimum(np.maximum(value, low), high)


def _clamped(value: Interval, low: Interval, high: Interval) -> Interval:
    """Where nothing is known of the value, the clamp's own bounds hold."""
    lower, upper = _clamp(value.lower, low.lower, high.lower), _clamp(value.upper, low.upper, high.upper)
    return Interval(np.where(np.isnan(lower), low.lower, lower), np.where(np.isnan(upper), high.upper, upper))


def _root(a: Floats) -> Floats:
    """A square root that can be divided by."""
    return np.sqrt(np.maximum(a, 1e-300))


def _sizes(a: Interval) -> Interval:
    inside = (a.lower <= 0) & (a.upper >= 0)
    ends = np.stack([np.abs(a.lower), np.abs(a.upper)])
    return Interval(np.where(inside, 0.0, ends.min(axis=0)), ends.max(axis=0))


def _first(arguments: int, value: Callable[..., Floats] | None, interval: Callable[..., Interval] | None) -> Rule:
    """An operation that is taken to give its first argument, or nearly so: where the answer is not yet known."""
    slope: tuple[Callable[..., Any], ...] = (lambda *_: 1.0,)
    return Rule(arguments=arguments, value=value, interval=interval, slopes=slope, guess=lambda a, *_: a)


def _linear(value: Callable[..., Floats], interval: Callable[..., Interval], *slopes: Callable[..., Any]) -> Rule:
    return Rule(arguments=len(slopes), value=value, interval=interval, slopes=slopes, is_linear=True)


def _products(a: Interval, b: Interval) -> Interval:
    return _corners(np.multiply, a, b)


def _roots(a: Interval) -> Interval:
    return Interval(np.sqrt(np.maximum(a.lower, 0.0)), np.sqrt(a.upper))


def _rounded(a: Interval, digits: Interval | None = None) -> Interval:
    """Each end to the nearest, and outward where two are as near: floats and decimals take different ones then."""
    by = 10.0 ** (0.0 if digits is None else digits.lower)
    lower, upper = a.lower * by, a.upper * by
    slack = 1e-12 * (1 + np.maximum(np.abs(lower), np.abs(upper)))  # of the product, which is not exact
    return Interval(np.ceil(lower - 0.5 - slack) / by, np.floor(upper + 0.5 + slack) / by)


def _whole_quotients(a: Interval, b: Interval) -> Interval:
    return _monotone(np.trunc, 1)(_quotients(a, b))


def _positive(a: Floats) -> Floats:
    """A number that has a logarithm."""
    return np.maximum(a, 1e-300)


def _logarithm(function: Callable[[Floats], Floats], base: float) -> Rule:
    """Nothing is known where the number may be 0."""

    def interval(a: Interval) -> Interval:
        there = a.lower > 0
        low, high = (np.where(there, function(_positive(end)), np.nan) for end in (a.lower, a.upper))
        return Interval(low, high)

    return Rule(
        arguments=1,
        value=lambda a: np.where(a > 0, function(_positive(a)), np.nan),
        interval=interval,
        slopes=(lambda a: 1 / (_positive(a) * math.log(base)),),
        guess=lambda a: function(_positive(a)),
    )


def _powers(a: Interval, b: Interval) -> Interval:
    """The corners, where the base is positive: a power is monotone in each of both then."""
    found = _corners(np.power, Interval(_positive(a.lower), _positive(a.upper)), b)
    there = a.lower > 0
    return Interval(np.where(there, found.lower, np.nan), np.where(there, found.upper, np.nan))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "add": _linear(np.add, _monotone(np.add, 1, 1), lambda a, b: 1, lambda a, b: 1),
        "subtract": _linear(np.subtract, _monotone(np.subtract, 1, -1), lambda a, b: 1, lambda a, b: -1),
        "negate": _linear(np.negative, _monotone(np.negative, -1), lambda a: -1),
        "multiply": _linear(np.multiply, _products, lambda a, b: b, lambda a, b: a),
        "divide": _linear(_quotient, _quotients, lambda a, b: 1 / b, lambda a, b: -1 / b**2 * a),
        "sqrt": Rule(
            arguments=1,
            value=lambda a: np.sqrt(np.where(a < 0, np.nan, a)),
            interval=_roots,
            slopes=(lambda a: 0.5 / _root(a),),
            guess=_root,
        ),
        "abs": Rule(arguments=1, value=np.abs, interval=_sizes, slopes=(np.sign,)),
        "exp": Rule(arguments=1, value=np.exp, interval=_monotone(np.exp, 1), slopes=(np.exp,)),
        "clamp": _first(3, _clamp, _clamped),
        "floor": _first(1, None, _monotone(np.floor, 1)),
        "ceil": _first(1, None, _monotone(np.ceil, 1)),
        "trunc": _first(1, None, _monotone(np.trunc, 1)),
        "round": replace(_first(2, None, _rounded), fewer=1),
        "int_divide": Rule(
            arguments=2,
            interval=_whole_quotients,
            slopes=(lambda a, b: 1 / b, lambda a, b: -1 / b**2 * a),
            guess=_quotient,
        ),
        "ln": _logarithm(np.log, math.e),
        "log10": _logarithm(np.log10, 10),
        "log2": _logarithm(np.log2, 2),
        "power": Rule(arguments=2, interval=_powers),
        "least": _first(2, np.minimum, _monotone(np.minimum, 1, 1)),
        "greatest": _first(2, np.maximum, _monotone(np.maximum, 1, 1)),
        "nullif": _first(2, lambda a, b: np.where(a == b, np.nan, a), None),
        "coalesce": _first(2, None, None),
    }
)
"""By operation."""
