"""Comparisons and three-valued logic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpquery.plan.expr import Call, Literal
from dpquery.plan.functions.bounds import TRUTH, any_nullable, high, low, span
from dpquery.plan.functions.promotion import Expressions, Types, same_type
from dpquery.plan.functions.table import READS, Function, Signature, SignatureError, Texts, is_null_literal
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, Value

Truth = bool | None


def _certain(always: bool, never: bool, *, nullable: bool) -> Range:
    return Range(lower=Fraction(always), upper=Fraction(not never), nullable=nullable)


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Value, Value], Truth]:
    def meaning(a: Value, b: Value) -> Truth:
        return None if a is None or b is None else bool(test(a, b))

    return meaning


def _equal_range(ranges: tuple[Range, ...], _: Call) -> Range:
    a, b = ranges
    same = a.is_finite and a.lower == a.upper == b.lower == b.upper
    return _certain(same, high(a) < low(b) or high(b) < low(a), nullable=any_nullable(ranges))


def _different_range(ranges: tuple[Range, ...], call: Call) -> Range:
    return _opposite((_equal_range(ranges, call),), call)


def _opposite(ranges: tuple[Range, ...], _: Call) -> Range:
    """NOT: one minus the range."""
    lower, upper = max(low(ranges[0]), Fraction(0)), min(high(ranges[0]), Fraction(1))
    return span(1 - upper, 1 - lower, nullable=ranges[0].nullable)


def _order_range(*, strict: bool, swapped: bool) -> Callable[[tuple[Range, ...], Call], Range]:
    def rule(ranges: tuple[Range, ...], _: Call) -> Range:
        a, b = reversed(ranges) if swapped else ranges
        always = high(a) < low(b) if strict else high(a) <= low(b)
        never = low(a) >= high(b) if strict else low(a) > high(b)
        return _certain(always, never, nullable=any_nullable(ranges))

    return rule


def _truth_range(ranges: tuple[Range, ...], _: Call) -> Range:
    return Range(lower=Fraction(0), upper=Fraction(1), nullable=any_nullable(ranges))


def _sure_truth(_: tuple[Range, ...], __: Call) -> Range:
    return TRUTH


def _null_test(ranges: tuple[Range, ...], _: Call) -> Range:
    return _certain(False, not ranges[0].nullable, nullable=False)


def _not_null_test(ranges: tuple[Range, ...], _: Call) -> Range:
    return _certain(not ranges[0].nullable, False, nullable=False)


def _and(*arguments: Truth) -> Truth:
    if any(a is False for a in arguments):
        return False
    return None if any(a is None for a in arguments) else True


def _or(*arguments: Truth) -> Truth:
    if any(a is True for a in arguments):
        return True
    return None if any(a is None for a in arguments) else False


def _and_range(ranges: tuple[Range, ...], _: Call) -> Range:
    never = any(r.upper == 0 and not r.nullable for r in ranges)
    always = all(r.lower == 1 for r in ranges)
    return _certain(always, never, nullable=any_nullable(ranges) and not never)


def _or_range(ranges: tuple[Range, ...], _: Call) -> Range:
    always = any(r.lower == 1 and not r.nullable for r in ranges)
    never = all(r.upper == 0 for r in ranges)
    return _certain(always, never, nullable=any_nullable(ranges) and not always)


def _in(x: Value, *choices: Value) -> Truth:
    if x is None:
        return None
    if any(c is not None and c == x for c in choices):
        return True
    return None if None in choices else False


_COMPARED = Texts(makes=lambda _, __: 0, reads=lambda call, given: sum(given) + 8 * len(call.arguments))
"""Each constant of a list is compared, whatever its type: an eighth of a step."""


def _in_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if not all(isinstance(e, Literal) for e in expressions[1:]):
        raise SignatureError("IN takes a list of constants")
    return same_type(BOOLEAN, least=2)(types, expressions)


def _booleans(least: int, most: int) -> Callable[[Types, Expressions], Signature | None]:
    def resolve(types: Types, expressions: Expressions) -> Signature | None:
        fit = all(t == BOOLEAN or is_null_literal(e) for t, e in zip(types, expressions, strict=True))
        return ((BOOLEAN,) * len(types), BOOLEAN) if fit and least <= len(types) <= most else None

    return resolve


def _any_one(types: Types, _: Expressions) -> Signature | None:
    return (types, BOOLEAN) if len(types) == 1 else None


_TWO = same_type(BOOLEAN, least=2, most=2)
_ONE_TRUTH = _booleans(1, 1)
_MANY_TRUTHS = _booleans(1, 10_000)

LOGIC = (
    Function(
        name="eq",
        resolve=_TWO,
        range=_equal_range,
        meaning=_compare(operator.eq),
        doc="Whether both are equal; NULL if either is.",
        texts=READS,
    ),
    Function(
        name="ne",
        resolve=_TWO,
        range=_different_range,
        meaning=_compare(operator.ne),
        doc="Whether they differ; NULL if either is.",
        texts=READS,
    ),
    Function(
        name="lt",
        resolve=_TWO,
        range=_order_range(strict=True, swapped=False),
        meaning=_compare(operator.lt),
        doc="Whether the first is less; text by code points; NULL if either is.",
        texts=READS,
    ),
    Function(
        name="le",
        resolve=_TWO,
        range=_order_range(strict=False, swapped=False),
        meaning=_compare(operator.le),
        doc="Whether the first is at most the second; NULL if either is.",
        texts=READS,
    ),
    Function(
        name="gt",
        resolve=_TWO,
        range=_order_range(strict=True, swapped=True),
        meaning=_compare(operator.gt),
        doc="Whether the first is greater; NULL if either is.",
        texts=READS,
    ),
    Function(
        name="ge",
        resolve=_TWO,
        range=_order_range(strict=False, swapped=True),
        meaning=_compare(operator.ge),
        doc="Whether the first is at least the second; NULL if either is.",
        texts=READS,
    ),
    Function(
        name="is_distinct_from",
        resolve=_TWO,
        range=_sure_truth,
        meaning=lambda a, b: a != b,
        doc="Whether they differ, NULL being one value; never NULL.",
        texts=READS,
    ),
    Function(
        name="is_not_distinct_from",
        resolve=_TWO,
        range=_sure_truth,
        meaning=lambda a, b: a == b,
        doc="Whether they are equal, NULL being one value; never NULL.",
        texts=READS,
    ),
    Function(
        name="is_null",
        resolve=_any_one,
        range=_null_test,
        meaning=lambda x: x is None,
        doc="Whether it is NULL; never NULL.",
        texts=READS,
    ),
    Function(
        name="is_not_null",
        resolve=_any_one,
        range=_not_null_test,
        meaning=lambda x: x is not None,
        doc="Whether it is not NULL; never NULL.",
        texts=READS,
    ),
    Function(
        name="is_true",
        resolve=_ONE_TRUTH,
        range=_sure_truth,
        meaning=lambda x: x is True,
        doc="Whether it is true; never NULL.",
    ),
    Function(
        name="is_false",
        resolve=_ONE_TRUTH,
        range=_sure_truth,
        meaning=lambda x: x is False,
        doc="Whether it is false; never NULL.",
    ),
    Function(
        name="is_not_true",
        resolve=_ONE_TRUTH,
        range=_sure_truth,
        meaning=lambda x: x is not True,
        doc="Whether it is false or NULL; never NULL.",
    ),
    Function(
        name="is_not_false",
        resolve=_ONE_TRUTH,
        range=_sure_truth,
        meaning=lambda x: x is not False,
        doc="Whether it is true or NULL; never NULL.",
    ),
    Function(
        name="and",
        resolve=_MANY_TRUTHS,
        range=_and_range,
        meaning=_and,
        doc="Whether all are true; NULL if none is false and one is NULL.",
    ),
    Function(
        name="or",
        resolve=_MANY_TRUTHS,
        range=_or_range,
        meaning=_or,
        doc="Whether one is true; NULL if none is true and one is NULL.",
    ),
    Function(
        name="not",
        resolve=_ONE_TRUTH,
        range=_opposite,
        meaning=lambda x: None if x is None else not x,
        doc="The opposite; NULL if it is.",
    ),
    Function(
        name="in",
        resolve=_in_resolve,
        range=_truth_range,
        meaning=_in,
        doc="Whether it equals one of the constants; NULL if it is, or if none is equal and one is NULL.",
        texts=_COMPARED,
    ),
)
