"""Which filters no row passes together. docs/proofs/disjoint.md."""

from __future__ import annotations

from typing import Any

from dpquery.plan.expr import Call, Expression, Literal, conjuncts, size_of
from dpquery.plan.types import Kind, are_values

MOST_PAIRS = 40_000
"""Filters are not compared where the parts of one times those of the other are more."""

_ORDERED = (Kind.INT64, Kind.FLOAT64, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP)
_OPPOSITES = ("not", "is_false", "is_not_true")
_FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

Test = tuple[Expression, str, tuple[Any, ...]]
"""An expression, what it is compared by (`in`, or a function), and the constants that it is compared with."""


def disjoint(a: Expression, b: Expression) -> bool:
    """Whether it is certain that no row makes both conditions true.

    Source:
        docs/proofs/disjoint.md, Lemma 1.
    """
    return size_of(a) * size_of(b) <= MOST_PAIRS and _apart(a, b)


def _apart(a: Expression, b: Expression) -> bool:
    if any(_is_opposite(a, part) for part in conjuncts(b)) or any(_is_opposite(b, part) for part in conjuncts(a)):
        return True
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Call) and one.function == "or":
            return all(_apart(part, other) for part in one.arguments)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Call) and one.function == "and":
            return any(_apart(part, other) for part in one.arguments)
    first, second = _test(a), _test(b)
    return _same(first[0], second[0]) and (_contradict(first, second) or _contradict(second, first))


def _same(a: Expression, b: Expression) -> bool:
    """Whether expressions are one; 0.0 and -0.0 are equal, and functions may tell them apart."""
    return a == b and repr(a) == repr(b)


def _is_opposite(a: Expression, b: Expression) -> bool:
    """Whether b is true only where a is not."""
    return isinstance(b, Call) and b.function in _OPPOSITES and _same(b.arguments[0], a)


def _test(condition: Expression) -> Test:
    """Returns a comparison with constants in one form; any other condition says that it, or what it negates, is so."""
    if not isinstance(condition, Call) or not condition.arguments:
        return condition, "in", (True,)
    function, (first, *others) = condition.function, condition.arguments
    if function in ("is_null", "is_not_null"):
        return first, function, ()
    if function in ("not", "is_false"):
        return first, "in", (False,)
    if function in _FLIPPED and isinstance(first, Literal):
        function, first, others = _FLIPPED[function], others[0], [first]
    values = tuple(other.value for other in others if isinstance(other, Literal) and other.type == first.type)
    if function not in (*_FLIPPED, "in") or len(values) < len(others) or not are_values(values, first.type):
        return condition, "in", (True,)
    if function == "in":
        return first, "in", tuple(value for value in values if value is not None)
    return (condition, "in", (True,)) if None in values else (first, "in" if function == "eq" else function, values)


def _contradict(first: Test, second: Test) -> bool:
    """Whether no value passes both tests, as seen from the first."""
    (subject, by, constants), (_, other, _) = first, second
    if by == "is_null":
        return other != "is_null"
    if by == "in" and other not in ("is_null", "is_not_null"):
        return not any(_may_pass(value, second) for value in constants)
    if by in ("lt", "le") and other in ("gt", "ge") and subject.type.kind in _ORDERED:
        upper, lower = constants[0], second[2][0]
        return bool(upper < lower or (upper == lower and (by, other) != ("le", "ge")))
    return False


def _may_pass(value: Any, test: Test) -> bool:
    subject, by, constants = test
    if by == "in":
        return value in constants
    if by == "ne":
        return bool(value != constants[0])
    if subject.type.kind not in _ORDERED:
        return True
    least = constants[0]
    return bool({"lt": value < least, "le": value <= least, "gt": value > least, "ge": value >= least}[by])
