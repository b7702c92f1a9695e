"""Keys and conditions on one ordered value: where they change, against a look at every value."""

from __future__ import annotations

import bisect
import datetime
import random
from collections.abc import Sequence

import pytest

from dpquery.plan.evaluate import evaluate, evaluate_rows
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.types import DATE, INT64, TEXT, TIMESTAMP, Type, Value
from dpquery.reuse.lines import Line, begins_of, behind
from dpquery.reuse.text import text_of

NUMBER, DAY = Column(id="#1", type=INT64), Column(id="#2", type=DATE)
NUMBERS: list[Value] = [None, *range(-40, 61)]
DAYS: list[Value] = [None, *(datetime.date(2023, 11, 20) + datetime.timedelta(days=n) for n in range(480))]


def literal(value: Value, type: Type) -> Literal:
    return Literal(value=value, type=type)


def truncated(unit: str) -> Expression:
    return call("date_trunc", (literal(unit, TEXT), Cast(argument=DAY, type=TIMESTAMP)))


def steps(chance: random.Random, on: Column) -> Expression:
    """Returns what changes with a number, or with a day, at some of its values."""
    if on is NUMBER:
        rough: Expression = call("int_divide", (NUMBER, literal(chance.randint(1, 15), INT64)))
    else:
        rough = truncated(chance.choice(["week", "month", "quarter", "year"]))
    return on if chance.random() < 0.67 else rough


def condition(chance: random.Random, on: Column, depth: int = 2) -> Expression:
    if depth and chance.random() < 0.4:
        if chance.random() < 0.3:
            return call("not", (condition(chance, on, depth - 1),))
        return call(chance.choice(["and", "or"]), (condition(chance, on, depth - 1), condition(chance, on, depth - 1)))
    if chance.random() < 0.15:
        return call(chance.choice(["is_null", "is_not_null"]), (on,))
    read = steps(chance, on)
    with_: Expression = literal(chance.randint(-20, 40), INT64)
    if on is DAY:
        day = datetime.date(2023, 12, 1) + datetime.timedelta(
            days=chance.choice([0, 31, 91, 152, chance.randint(0, 400)])
        )
        moment = datetime.datetime.combine(day, datetime.time(chance.choice([0, 0, 12])))
        with_ = literal(day, DATE) if read is DAY else literal(moment, TIMESTAMP)
    if chance.random() < 0.2:
        return call("in", (read, with_, with_))
    parts = (read, with_) if chance.random() < 0.7 else (with_, read)
    return call(chance.choice(["lt", "le", "gt", "ge", "eq", "ne"]), parts)


def key(chance: random.Random, on: Column) -> Expression:
    if chance.random() < 0.5:
        return steps(chance, on)
    arms = tuple((condition(chance, on, 1), literal(n, INT64)) for n in range(chance.randint(1, 3)))
    return Case(branches=arms, otherwise=literal(chance.choice([9, None]), INT64), type=INT64)


def place_of(line: Line, value: Value) -> int:
    if value is None:
        return len(line.begins) + 1
    return bisect.bisect_right(line.begins, value)


def held(line: Line, expression: Expression, values: Sequence[Value], on: Column) -> list[set[Value]]:
    """Returns the values of an expression in each place."""
    found: list[set[Value]] = [set() for _ in range(len(line.begins) + 2)]
    for value, told in zip(values, evaluate_rows(expression, {on.id: values}, len(values)), strict=True):
        found[place_of(line, value)].add(told)
    return found


@pytest.mark.parametrize("on", [NUMBER, DAY], ids=["number", "day"])
def test_a_place_holds_one_value_of_what_does_not_divide_it(on: Column) -> None:
    chance, values = random.Random(on.id), NUMBERS if on is NUMBER else DAYS
    undivided = divided = 0
    for _ in range(60):
        made = [key(chance, on) for _ in range(chance.randint(1, 2))]
        texts = tuple(map(text_of, made))
        if behind(texts) != on:
            continue
        rows = {tuple(text_of(evaluate(one, {on.id: value})) for one in made) for value in values}
        begins = begins_of(texts, tuple(sorted(rows)), on)
        if begins is None:
            continue
        line = Line(on, tuple(sorted(begins)))
        others = [condition(chance, on) for _ in range(4)]
        for one in (*made, *others, *(key(chance, on) for _ in range(2))):
            each = held(line, one, values, on)
            if line.divides(one, [True] * (len(begins) + 2)):
                divided += 1
                continue
            undivided += 1
            assert all(len(told) < 2 for told in each), (one, line.begins)
            for told, value in zip(each, line.values(text_of(one)), strict=True):
                assert told <= {value}
        for one in made:  # at least where rows are, the places are those of the keys
            assert all(len(told) < 2 for told in held(line, one, values, on))
    assert undivided > 30 and divided > 30


def test_values_of_other_columns_and_types_are_on_no_line() -> None:
    other, word = Column(id="#3", type=INT64), Column(id="#4", type=TEXT)
    for expression in (
        call("lt", (NUMBER, other)),
        call("and", (call("lt", (NUMBER, literal(1, INT64))), call("lt", (other, literal(1, INT64))))),
        call("eq", (word, literal("a", TEXT))),
    ):
        assert behind((text_of(expression),)) is None
    assert behind((text_of(NUMBER), text_of(DAY))) is None


def test_parts_of_a_date_are_places_only_between_known_years() -> None:
    month, year = call("extract_month", (DAY,)), call("extract_year", (DAY,))
    texts = text_of(year), text_of(month)
    rows = {tuple(text_of(evaluate(one, {DAY.id: value})) for one in (year, month)) for value in DAYS[1:]}
    begins = begins_of(texts, tuple(sorted(rows)), DAY)
    assert begins is not None and datetime.date(2024, 2, 1) in begins and len(begins) == 37
    assert begins_of(texts[1:], tuple({row[1:] for row in rows}), DAY) is None
    line = Line(DAY, tuple(sorted(begins)))
    inside = [False, *[True] * 36, False, False]
    assert not line.divides(month, inside) and line.divides(month, [True] * 39)
    assert isinstance(month, Call) and line.divides(call("extract_day", (DAY,)), inside)
