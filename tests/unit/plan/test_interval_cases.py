"""What the conditions of CASE tell of the columns in its arms, and how long texts are."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpquery.plan.expr import Case, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.plan.types import INT64, TEXT

X = Column(id="x", type=INT64)


def _number(value: int) -> Literal:
    return Literal(value=value, type=INT64)


def _case(*branches: tuple[Expression, Expression], otherwise: Expression) -> Case:
    return Case(branches=branches, otherwise=otherwise, type=INT64)


def _at_least(value: int) -> Expression:
    return call("ge", (X, _number(value)))


def _known(lower: int | None, upper: int | None, *, nullable: bool = False) -> Range:
    first, last = (None if end is None else Fraction(end) for end in (lower, upper))
    return Range(lower=first, upper=last, nullable=nullable)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (_case((_at_least(10), _number(10)), otherwise=X), _known(0, 10)),
        (_case((call("lt", (_number(10), X)), _number(10)), otherwise=X), _known(0, 10)),
        (_case((_at_least(10), X), otherwise=_number(12)), _known(10, 50)),
        (_case((_at_least(40), _number(1)), (_at_least(20), X), otherwise=_number(2)), _known(1, 40)),
        (_case((call("and", (_at_least(10), call("le", (X, _number(20))))), X), otherwise=_number(15)), _known(10, 20)),
        (_case((_at_least(60), X), otherwise=_number(60)), _known(0, 60)),  # never so: nothing follows
        (_case((call("not", (_at_least(10),)), X), otherwise=_number(60)), _known(0, 60)),
        (_case((call("or", (_at_least(10), _at_least(9))), X), otherwise=_number(60)), _known(0, 60)),
    ],
)
def test_arms_are_within_their_conditions(expression: Expression, found: Range) -> None:
    assert range_of(expression, {"x": _known(0, 50)}) == found


def test_a_test_that_is_not_true_may_be_of_null() -> None:
    known = {"x": _known(0, 50, nullable=True)}
    assert range_of(_case((_at_least(10), _number(10)), otherwise=X), known) == _known(0, 10, nullable=True)
    assert range_of(_case((_at_least(10), X), otherwise=_number(10)), known) == _known(10, 50)
    assert (
        range_of(_case((call("ge", (X, Literal(value=None, type=INT64))), X), otherwise=X), {"x": UNKNOWN}) == UNKNOWN
    )


def test_texts_are_as_long_as_what_they_are_made_of() -> None:
    word, free = Column(id="word", type=TEXT), Column(id="free", type=TEXT)
    known = {"word": Range(longest=12, nullable=False), "free": Range(nullable=False)}
    sizes: dict[Expression, int | None] = {
        call("length", (word,)): 12,
        call("octet_length", (word,)): 48,
        call("length", (call("concat", (word, word)),)): 24,
        call("length", (call("substring", (free, _number(1), _number(3))),)): 3,
        call("length", (call("upper", (free,)),)): None,
        call("length", (call("coalesce", (word, free)),)): None,
    }
    assert {text: range_of(text, known) for text in sizes} == {text: _known(0, most) for text, most in sizes.items()}


def test_cases_within_each_other_are_followed_once() -> None:
    """Each level doubled the work else, which sixty levels would never end."""
    nested: Expression = X
    for level in range(60):
        nested = _case((_at_least(level), _number(level)), otherwise=nested)
    assert range_of(nested, {"x": _known(0, 50)}) == _known(0, 59)
