"""Expressions on several rows at once have the values that they have on each."""

from __future__ import annotations

import random

from dpquery.plan.evaluate import evaluate, evaluate_rows
from dpquery.plan.expr import Case, Expression, Literal
from dpquery.plan.types import BOOLEAN, INT64
from tests.properties.expressions import draw

ROWS = 12
ONE, TWO = (Literal(value=value, type=INT64) for value in (1, 2))


def test_rows_are_evaluated_as_each_by_itself() -> None:
    chance, cases = random.Random(23), 0
    for _ in range(600):
        drawn = draw(chance, ROWS)
        asked: Expression = drawn.expression
        if asked.type == BOOLEAN:
            asked, cases = Case(branches=((asked, ONE), (drawn.expression, TWO)), otherwise=TWO, type=INT64), cases + 1
        columns = {column.id: [row[column.id] for row in drawn.rows] for column in drawn.columns}
        found = evaluate_rows(asked, columns, len(drawn.rows))
        assert repr(found) == repr([evaluate(asked, row) for row in drawn.rows])
    assert cases > 50
