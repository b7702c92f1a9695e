"""Arithmetic over columns has the values that each expression has on each row, or none where a number is too large."""

from __future__ import annotations

import math
import random

import pyarrow as pa

from dpquery.plan.evaluate import evaluate, normal
from dpquery.plan.expr import Case, Column, Expression, Literal
from dpquery.plan.functions import FUNCTIONS, SignatureError, call, cast, castable
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, TEXT, Type, Value, decimal
from dpquery.result.arrays import _OPERATIONS, WHOLE, as_column, is_arithmetic, values_of

VALUES: dict[Type, list[Value]] = {
    FLOAT64: [0.0, -0.0, 0.1, -2.5, 3.5, 1e308, 5e-324, math.inf, -math.inf, math.nan, 2.0**53, -1e15, None],
    INT64: [0, 1, -1, 7, 10**9, -(10**9), 3037000500, 2**53 - 1, None],
    BOOLEAN: [True, False, None],
}
TYPES = [*VALUES, decimal(5, 0), decimal(32, 0)]
COLUMNS = [Column(id=f"c{i}", type=type) for i, type in enumerate([*VALUES, *VALUES])]


def drawn(chance: random.Random, depth: int) -> Expression:
    """Returns a random expression of the known operations."""
    if depth == 0 or chance.random() < 0.1:
        if chance.random() < 0.7:
            return chance.choice(COLUMNS)
        type = chance.choice([FLOAT64, INT64, BOOLEAN])
        return Literal(value=normal(chance.choice(VALUES[type])), type=type)
    for attempt in range(50):
        if attempt % 10 == 0:
            operands = [drawn(chance, depth - 1) for _ in range(3)]
        parts, kind = [*operands], chance.random()
        if kind < 0.15 and castable(parts[0].type, to := chance.choice(TYPES)):
            return cast(parts[0], to)
        if kind < 0.3 and parts[0].type == BOOLEAN and parts[1].type == parts[2].type:
            return Case(branches=((parts[0], parts[1]),), otherwise=parts[2], type=parts[1].type)
        name = chance.choice(list(_OPERATIONS))
        if name == "clamp":
            parts[1:] = [Literal(value=value, type=FLOAT64) for value in (-2.5, 7.0)]
        try:
            return call(name, tuple(parts[: chance.randint(1, 3)]))
        except SignatureError:
            continue
    return chance.choice(COLUMNS)


def test_values_are_those_of_each_row() -> None:
    chance, compared, too_large, used = random.Random(31), 0, 0, set[str]()
    for _ in range(800):
        expression = drawn(chance, 3)
        if not is_arithmetic([expression]):
            continue
        rows = [{c.id: chance.choice(VALUES[c.type]) for c in COLUMNS} for _ in range(8)]
        columns = {c.id: pa.chunked_array([pa.array([row[c.id] for row in rows])]) for c in COLUMNS}
        types = {FLOAT64: pa.float64(), INT64: pa.int64(), BOOLEAN: pa.bool_()}
        source = pa.table({c.id: columns[c.id].cast(types[c.type]) for c in COLUMNS})
        found = values_of(expression, source, {})
        if found is None:
            too_large += 1
            continue
        made = as_column(found, expression.type).to_pylist()
        assert repr(made) == repr([evaluate(expression, row) for row in rows]), expression
        compared, used = compared + 1, used | {name for name in _OPERATIONS if repr(name) in repr(expression)}
    assert compared > 150 and too_large > 10 and used == {*_OPERATIONS}


def test_only_whole_numbers_below_the_limit_are_exact() -> None:
    column = Column(id="c", type=INT64)
    for number, is_exact in ((2**53 - 1, True), (2**53, False), (-(2**53), False), (2**63 - 1, False)):
        found = values_of(call("negate", (column,)), pa.table({"c": pa.array([number], pa.int64())}), {})
        assert (found is not None) is is_exact
        assert abs(number) < WHOLE if is_exact else abs(number) >= WHOLE


def test_texts_fractions_and_other_functions_are_not_known() -> None:
    number, text = Column(id="c", type=FLOAT64), Column(id="t", type=TEXT)
    assert not is_arithmetic([text])
    assert not is_arithmetic([call("eq", (text, text))])
    assert not is_arithmetic([call("exp", (number,))])
    assert not is_arithmetic([cast(cast(number, decimal(8, 2)), FLOAT64)])
    assert is_arithmetic([cast(cast(number, decimal(8, 0)), FLOAT64)])
    assert {*_OPERATIONS} <= {*FUNCTIONS}
