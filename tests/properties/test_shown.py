"""What is shown of an expression parses back to an expression of the same kind and the same values."""

from __future__ import annotations

import random

import pytest
import sqlglot

from dpquery import Catalog
from dpquery.errors import QueryError
from dpquery.plan.evaluate import evaluate, normal
from dpquery.plan.expr import Call, Column, Expression, children
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import Scan, ScanColumn
from dpquery.plan.show import show
from dpquery.plan.types import INT64
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context, Scope, Visible
from tests.properties.expressions import Drawn, draw

CATALOG = Catalog(
    dataset="none",
    privacy_unit="row",
    budget={"epsilon": 1},
    tables={"t": {"public": True, "columns": {"a": {"type": "int64"}}}},
)
NOTHING = Scan(table="t", columns=(ScanColumn(id="a", name="a", type=INT64),), public=True)
ROWS = 5


def parsed(text: str, columns: tuple[Column, ...]) -> Expression:
    """Returns what SQL means by a text over these columns."""
    tree = sqlglot.parse_one(f"SELECT {text} FROM t", read="postgres").expressions[0]
    visible = tuple(Visible(name=column.id, table=None, id=column.id, type=column.type) for column in columns)
    return Binder(Context(text=text, catalog=CATALOG), Scope(relation=NOTHING, columns=visible)).bind(tree)


def difference(drawn: Drawn) -> str | None:
    """Returns what is wrong about the text of an expression, or None."""
    text = show(drawn.expression, {})
    try:
        again = parsed(text, drawn.columns)
    except QueryError as error:
        return (
            None if " is not a valid " in str(error) else f"{text}: {error}"
        )  # casts of constants that do not fit are refused
    if again.type.kind is not drawn.expression.type.kind:
        return f"{text}: a {again.type}, not a {drawn.expression.type}"
    for row in drawn.rows:
        expected, found = normal(evaluate(drawn.expression, row)), normal(evaluate(again, row))
        if expected != found:
            return f"{text} on {row}: {found!r}, not {expected!r}"
    return None


def operations(expression: Expression) -> set[str]:
    """Returns the operations that an expression holds."""
    own = {expression.function} if isinstance(expression, Call) else set()
    return own.union(*(operations(part) for part in children(expression)))


def check(seed: int, count: int) -> set[str]:
    chance, met = random.Random(seed), set[str]()
    for _ in range(count):
        drawn = draw(chance, ROWS)
        met |= operations(drawn.expression)
        assert difference(drawn) is None
    return met


def test_what_is_shown_parses_back_to_what_is_measured() -> None:
    assert check(11, 1200) >= set(FUNCTIONS) - {"pi"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 310))
def test_what_is_shown_parses_back_at_length(seed: int) -> None:
    check(seed, 4000)
