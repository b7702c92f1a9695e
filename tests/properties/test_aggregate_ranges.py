"""Ranges of exact aggregates: no group of rows within the columns' ranges gives a value outside."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest

from dpquery.plan.aggregates import AGGREGATES
from dpquery.plan.aggregates.aggregate import AggregateFunction, Form
from dpquery.plan.expr import Column
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, INT64
from dpquery.planner.ranges.ranges import aggregate_range
from tests.reference.aggregates import Row, value_of

COMPUTED = [
    name
    for name, found in AGGREGATES.items()
    if found.form is not Form.JOINED and type(found).exact is AggregateFunction.exact
]
"""What engines compute of numbers and booleans."""
A_FEW = Fraction(1, 10**9)


def columns(random: Random) -> tuple[dict[str, Range], list[Row]]:
    """Returns the ranges of `a`, `b` and `c`, and some rows within them."""
    ranges = {}
    for id in "ab":
        lower = random.choice([0, 1, 5, 12, -1, -9, -64])
        upper = lower + random.choice([0, 1, 3, 60, 200])
        ranges[id] = Range(lower=Fraction(lower), upper=Fraction(upper), nullable=random.random() < 0.3)
    ranges["c"] = Range(lower=Fraction(0), upper=Fraction(1), nullable=False)

    def drawn(known: Range) -> int | None:
        if known.nullable and random.random() < 0.3:
            return None
        assert known.lower is not None
        assert known.upper is not None
        ends = (int(known.lower), int(known.upper))
        return random.choice([*ends, random.randint(*ends)])

    rows: list[Row] = [
        {"a": drawn(ranges["a"]), "b": drawn(ranges["b"]), "c": random.random() < 0.5}
        for _ in range(random.choice([1, 1, 2, 3, 8]))
    ]
    return ranges, rows


@pytest.mark.parametrize("function", COMPUTED)
def test_no_aggregate_leaves_its_range(function: str) -> None:
    random = Random(function)
    found = AGGREGATES[function]
    is_logical, has_two = found.form is Form.CONDITION, found.form in (Form.PAIR, Form.ORDERED)
    argument = Column(id="c", type=BOOLEAN) if is_logical else Column(id="a", type=INT64)
    second = Column(id="b", type=INT64) if has_two else None
    fraction = Fraction(1, 3) if found.form is Form.RANKED else None
    type = found.result(function, argument.type, *([INT64] if has_two else []))
    for _ in range(400):
        ranges, rows = columns(random)
        kept = call("is_true", (Column(id="c", type=BOOLEAN),)) if random.random() < 0.3 else None
        column = AggregateColumn(
            id="x",
            name="",
            function=function,  # type: ignore[arg-type]
            argument=argument,
            second=second,
            filter=kept,
            type=type,
            fraction=fraction,
        )
        known = aggregate_range(column, ranges, len(rows))
        value = value_of(column, rows)
        if value is None:
            assert known.nullable
            continue
        assert isinstance(value, bool | int | float | Decimal)
        slack = A_FEW * (1 + abs(Fraction(value))) if math.isfinite(value) else Fraction(0)
        assert known.lower is None or known.lower <= Fraction(value) + slack
        assert known.upper is None or Fraction(value) - slack <= known.upper
