"""Comparisons and three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpquery.plan.expr import Call, Literal
from dpquery.plan.functions.bounds import TRUTH, any_nullable, high, low, span
from dpquery.plan.functions.promotion import Expressions, Types, same_type, signature
from dpquery.plan.functions.table import READS, RangeRule, Signature, SignatureError, Texts, function
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, Value

Truth = bool | None


def _certain(always: bool, never: bool, *, nullable: bool) -> Range:
    return Range(lower=Fraction(always), upper=Fraction(not never), nullable=nullable)


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


def _order_range(*, strict: bool, swapped: bool) -> RangeRule:
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


def _and_range(ranges: tuple[Range, ...], _: Call) -> Range:
    never = any(r.upper == 0 and not r.nullable for r in ranges)
    always = all(r.lower == 1 for r in ranges)
    return _certain(always, never, nullable=any_nullable(ranges) and not never)


def _or_range(ranges: tuple[Range, ...], _: Call) -> Range:
    always = any(r.lower == 1 and not r.nullable for r in ranges)
    never = all(r.upper == 0 for r in ranges)
    return _certain(always, never, nullable=any_nullable(ranges) and not always)


_COMPARED = Texts(makes=lambda _, __: 0, reads=lambda call, given: sum(given) + 8 * len(call.arguments))
"""Each constant of a list is compared, of any type: an eighth of a step."""


def _in_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if not all(isinstance(e, Literal) for e in expressions[1:]):
        raise SignatureError("IN takes a list of constants")
    return same_type(BOOLEAN, least=2)(types, expressions)


def _any_one(types: Types, _: Expressions) -> Signature | None:
    return (types, BOOLEAN) if len(types) == 1 else None


_TWO = same_type(BOOLEAN, least=2, most=2)
_ONE_TRUTH = signature(BOOLEAN, result=BOOLEAN)


def _truths(types: Types, expressions: Expressions) -> Signature | None:
    """Any number of truth values."""
    return signature(*(BOOLEAN,) * len(types), result=BOOLEAN)(types, expressions) if types else None


@function(_TWO, _equal_range, sql="a = b", parsed="EQ", engine="({0} = {1})", texts=READS)
def eq(a: Any, b: Any) -> Truth:
    """Whether both are equal; NULL if either is."""
    return bool(a == b)


@function(_TWO, _different_range, sql="a <> b", parsed="NEQ", engine="({0} <> {1})", texts=READS)
def ne(a: Any, b: Any) -> Truth:
    """Whether they differ; NULL if either is."""
    return bool(a != b)


def _order(
    sign: str, name: str, meaning: Callable[[Any, Any], bool], says: str, *, strict: bool, swapped: bool
) -> None:
    rule = _order_range(strict=strict, swapped=swapped)
    doc, engine = f"Whether the first is {says}; NULL if either is.", f"({{0}} {sign} {{1}})"
    parsed = name.upper() if strict else f"{name[0].upper()}TE"
    function(_TWO, rule, name=name, sql=f"a {sign} b", parsed=parsed, engine=engine, texts=READS, doc=doc)(meaning)


_order("<", "lt", lambda a, b: bool(a < b), "less; text by code points", strict=True, swapped=False)
_order("<=", "le", lambda a, b: bool(a <= b), "at most the second", strict=False, swapped=False)
_order(">", "gt", lambda a, b: bool(a > b), "greater", strict=True, swapped=True)
_order(">=", "ge", lambda a, b: bool(a >= b), "at least the second", strict=False, swapped=True)


@function(
    _TWO,
    _sure_truth,
    sql="a IS DISTINCT FROM b",
    parsed="NullSafeNEQ",
    engine="({0} IS DISTINCT FROM {1})",
    texts=READS,
    strict=False,
)
def is_distinct_from(a: Value, b: Value) -> Truth:
    """Whether they differ, NULL being one value; never NULL."""
    return a != b


@function(
    _TWO,
    _sure_truth,
    sql="a IS NOT DISTINCT FROM b",
    parsed="NullSafeEQ EqualNull",
    engine="({0} IS NOT DISTINCT FROM {1})",
    texts=READS,
    strict=False,
)
def is_not_distinct_from(a: Value, b: Value) -> Truth:
    """Whether they are equal, NULL being one value; never NULL."""
    return a == b


@function(_any_one, _null_test, sql="a IS NULL", parsed="", engine="({0} IS NULL)", texts=READS, strict=False)
def is_null(x: Value) -> Truth:
    """Whether it is NULL; never NULL."""
    return x is None


@function(
    _any_one, _not_null_test, sql="a IS NOT NULL", parsed="", engine="({0} IS NOT NULL)", texts=READS, strict=False
)
def is_not_null(x: Value) -> Truth:
    """Whether it is not NULL; never NULL."""
    return x is not None


def _truth_test(name: str, meaning: Callable[[Truth], bool], engine: str, says: str) -> None:
    sql, doc = f"a {name.upper().replace('_', ' ')}", f"Whether it is {says}; never NULL."
    function(_ONE_TRUTH, _sure_truth, name=name, sql=sql, parsed="", engine=engine, strict=False, doc=doc)(meaning)


_truth_test("is_true", lambda x: x is True, "coalesce({0}, FALSE)", "true")
_truth_test("is_false", lambda x: x is False, "coalesce(NOT {0}, FALSE)", "false")
_truth_test("is_not_true", lambda x: x is not True, "coalesce(NOT {0}, TRUE)", "false or NULL")
_truth_test("is_not_false", lambda x: x is not False, "coalesce({0}, TRUE)", "true or NULL")


@function(_truths, _and_range, sql="a AND b", parsed="", engine="", strict=False)
def and_(*arguments: Truth) -> Truth:
    """Whether all are true; NULL if none is false and one is NULL."""
    if any(a is False for a in arguments):
        return False
    return None if any(a is None for a in arguments) else True


@function(_truths, _or_range, sql="a OR b", parsed="", engine="", strict=False)
def or_(*arguments: Truth) -> Truth:
    """Whether one is true; NULL if none is true and one is NULL."""
    if any(a is True for a in arguments):
        return True
    return None if any(a is None for a in arguments) else False


@function(_ONE_TRUTH, _opposite, sql="NOT a", engine="(NOT {0})")
def not_(x: bool) -> Truth:
    """The opposite; NULL if it is."""
    return not x


@function(_in_resolve, _truth_range, sql="a IN (1, 2)", parsed="", engine="", texts=_COMPARED, strict=False)
def in_(x: Value, *choices: Value) -> Truth:
    """Whether it equals one of the constants; NULL if it is, or if none is equal and one is NULL."""
    if x is None:
        return None
    if any(c is not None and c == x for c in choices):
        return True
    return None if None in choices else False
