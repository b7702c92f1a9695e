"""Intervals around computed values: what the noise of the measures does to the columns of an answer.

Interval arithmetic on expressions. Each measure lies within its half-width of the released number with a known
probability; a column that reads k measures uses half-widths that fail with probability (1 - confidence) / k each,
so the interval of each cell holds with at least the confidence (union bound), whatever the dependence.
The interval speaks of noise alone: not of clamping and not of bounded contributions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, columns_of
from dpquery.plan.functions import call
from dpquery.plan.types import FLOAT64


@dataclass(frozen=True, slots=True)
class Interval:
    """A lower and an upper bound, as FLOAT64 expressions; both NULL where nothing is known."""

    lower: Expression
    upper: Expression


HalfWidth = Callable[[str, int], float]
"""(measure, number of measures that share the failure probability) to the half-width of its interval."""


def interval_of(expression: Expression, measures: frozenset[str], half_width: HalfWidth) -> Interval | None:
    """Returns the interval of an expression over measures and exact columns; None if no rule covers it."""
    read = {column.id for column in columns_of(expression)} & measures
    widths = {id: half_width(id, len(read)) for id in read}
    return _interval(expression, widths)


def _interval(expression: Expression, widths: Mapping[str, float]) -> Interval | None:
    if not any(column.id in widths for column in columns_of(expression)):
        exact = _float(expression) if expression.type.is_numeric else None
        return None if exact is None else Interval(exact, exact)
    match expression:
        case Column():
            value, width = _float(expression), Literal(value=widths[expression.id], type=FLOAT64)
            return Interval(call("subtract", (value, width)), call("add", (value, width)))
        case Cast() if expression.type.is_numeric and expression.argument.type.is_numeric:
            return _interval(expression.argument, widths)
        case Call():
            parts = [_interval(argument, widths) for argument in expression.arguments]
            rule = _RULES.get(expression.function)
            known = [part for part in parts if part is not None]
            return rule(known) if rule is not None and len(known) == len(parts) else None
        case Case():
            return _case(expression, widths)
        case _:
            return None


def _case(expression: Case, widths: Mapping[str, float]) -> Interval | None:
    """A value that is there or NULL: its own interval. Branches on exact conditions: branch by branch."""
    missing = isinstance(expression.otherwise, Literal) and expression.otherwise.value is None
    if len(expression.branches) == 1 and missing:
        return _interval(expression.branches[0][1], widths)
    if any(column.id in widths for condition, _ in expression.branches for column in columns_of(condition)):
        return None
    arms = [_interval(arm, widths) for _, arm in expression.branches]
    last = Interval(_null(), _null()) if missing else _interval(expression.otherwise, widths)
    if last is None or any(arm is None for arm in arms):
        return None
    conditions = [condition for condition, _ in expression.branches]
    lowers = tuple((c, arm.lower) for c, arm in zip(conditions, arms, strict=True) if arm is not None)
    uppers = tuple((c, arm.upper) for c, arm in zip(conditions, arms, strict=True) if arm is not None)
    return Interval(
        Case(branches=lowers, otherwise=last.lower, type=FLOAT64),
        Case(branches=uppers, otherwise=last.upper, type=FLOAT64),
    )


def _add(parts: list[Interval]) -> Interval:
    a, b = parts
    return Interval(call("add", (a.lower, b.lower)), call("add", (a.upper, b.upper)))


def _subtract(parts: list[Interval]) -> Interval:
    a, b = parts
    return Interval(call("subtract", (a.lower, b.upper)), call("subtract", (a.upper, b.lower)))


def _negate(parts: list[Interval]) -> Interval:
    return Interval(call("negate", (parts[0].upper,)), call("negate", (parts[0].lower,)))


def _multiply(parts: list[Interval]) -> Interval:
    return _corners("multiply", *parts)


def _divide(parts: list[Interval]) -> Interval:
    """The corners, where the divisor's interval does not hold 0; else nothing is known."""
    over, under = parts
    zero = Literal(value=0.0, type=FLOAT64)
    apart = call("or", (call("gt", (under.lower, zero)), call("lt", (under.upper, zero))))
    corners = _corners("divide", over, under)

    def known(bound: Expression) -> Expression:
        return Case(branches=((apart, bound),), otherwise=_null(), type=FLOAT64)

    return Interval(known(corners.lower), known(corners.upper))


def _corners(function: str, a: Interval, b: Interval) -> Interval:
    products = tuple(call(function, (x, y)) for x in (a.lower, a.upper) for y in (b.lower, b.upper))
    return Interval(call("least", products), call("greatest", products))


def _clamp(parts: list[Interval]) -> Interval:
    """Where nothing is known of the value, the clamp's own bounds hold."""
    value, low, high = parts
    lower = call("clamp", (value.lower, low.lower, high.lower))
    upper = call("clamp", (value.upper, low.upper, high.upper))
    return Interval(call("coalesce", (lower, low.lower)), call("coalesce", (upper, high.upper)))


def _monotone(function: str) -> Callable[[list[Interval]], Interval]:
    def rule(parts: list[Interval]) -> Interval:
        lowers, uppers = tuple(p.lower for p in parts), tuple(p.upper for p in parts)
        return Interval(_float(call(function, lowers)), _float(call(function, uppers)))

    return rule


def _sqrt(parts: list[Interval]) -> Interval:
    zero = Literal(value=0.0, type=FLOAT64)
    lower = Case(
        branches=((call("lt", (parts[0].lower, zero)), zero),), otherwise=call("sqrt", (parts[0].lower,)), type=FLOAT64
    )
    return Interval(lower, call("sqrt", (parts[0].upper,)))


_RULES: dict[str, Callable[[list[Interval]], Interval]] = {
    "add": _add,
    "subtract": _subtract,
    "negate": _negate,
    "multiply": _multiply,
    "divide": _divide,
    "clamp": _clamp,
    "sqrt": _sqrt,
    "floor": _monotone("floor"),
    "ceil": _monotone("ceil"),
    "round": _monotone("round"),
    "exp": _monotone("exp"),
}


def _float(expression: Expression) -> Expression:
    if expression.type == FLOAT64:
        return expression
    if isinstance(expression, Literal) and expression.value is not None:
        return Literal(value=float(expression.value), type=FLOAT64)  # type: ignore[arg-type]
    return Cast(argument=expression, type=FLOAT64)


def _null() -> Literal:
    return Literal(value=None, type=FLOAT64)
