"""Joins and set operations of private relations, of which no side is ever empty. docs/proofs/work.md, Lemma 5.

An engine that finds one side without rows leaves the other one unread: then the time tells that no row passed a
filter. So each side has a row or two more, its sentinels, which are in no result:

- Inner and semi-joins and INTERSECT: the sentinels of both sides have different marks, so that none meets any row.
- Anti-joins and EXCEPT: they are alike, and no sentinel of the left side is left.
- Outer joins: they are alike and meet, and the row that they make is dropped.

Sides and results are behind fences: no filter takes a sentinel away, and no join is moved between it and its join.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal

from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.backends.duckdb.sql.values_sql import name
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.logical import Join, OutputColumn, Relation, SetOperation, is_private, output
from dpquery.plan.types import Kind, Type, Value

FENCE = f" LIMIT {2**62}"
"""The engine moves no filter and no join across a LIMIT, and this one keeps all rows."""
_ANY: dict[Kind, Value] = {
    Kind.BOOLEAN: False,
    Kind.INT64: 0,
    Kind.FLOAT64: 0.0,
    Kind.DECIMAL: Decimal(0),
    Kind.TEXT: "",
    Kind.DATE: datetime.date(2000, 1, 1),
    Kind.TIMESTAMP: datetime.datetime(2000, 1, 1),
    Kind.INTERVAL: 0,
}
"""What sentinels hold: values, as engines leave NULL out of what they look up."""

Marks = tuple[int, ...]
SENTINEL = 1
ALIKE: tuple[Marks, Marks] = (SENTINEL,), (SENTINEL,)
APART: tuple[Marks, Marks] = (SENTINEL, 3), (2,)
"""Marks of the sentinels of both sides; rows have 0. The engine knows the least and the greatest mark of each side and
leaves out of the other what is beyond: 3 is there so that 2 is not."""

Write = Callable[[Expression], str]


def is_guarded(relation: Relation) -> bool:
    """Whether one side of a relation being empty could decide whether private rows of the other are read."""
    if isinstance(relation, SetOperation):
        return relation.kind != "union_all" and is_private(relation)
    return isinstance(relation, Join) and is_private(relation.left) and is_private(relation.right)


def joined(join: Join, columns: str, word: str, sides: tuple[str, str], write: Write) -> str:
    """Returns the SELECT of a join of two private relations.

    Args:
        columns: What it selects.
        word: The kind of join in SQL.
        sides: Both relations as items of FROM.
    """
    are_alike = join.kind not in ("inner", "cross", "semi")
    marks = ALIKE if are_alike else APART
    left = _side(sides[0], join.left, [a for a, _ in join.equalities], "left", marks[0], write)
    right = _side(sides[1], join.right, [b for _, b in join.equalities], "right", marks[1], write)
    on = [f"{_key(a, 'left', i)} = {_key(b, 'right', i)}" for i, (a, b) in enumerate(join.equalities)]
    on.append("left_mark = right_mark")
    if join.condition is not None:
        condition = write(join.condition)
        on.append(f"(({condition}) OR left_mark = {SENTINEL})" if are_alike else f"({condition})")
    own = {"left": "right_mark", "right": "left_mark", "full": "left_mark"}.get(join.kind)
    kept = "" if own is None else f" WHERE ({own} = {SENTINEL}) IS NOT TRUE"
    return f"SELECT {columns} FROM {left} {word} {right} ON {' AND '.join(on)}{kept}{FENCE}"


def combined(operation: SetOperation, columns: Sequence[OutputColumn], word: str, sides: tuple[str, str]) -> str:
    """Returns the SELECT of INTERSECT or EXCEPT of private relations.

    Args:
        columns: Of the operation.
        word: The operation in SQL.
        sides: The SELECTs of both relations, with these columns.
    """
    names = ", ".join(name(column.id) for column in columns)
    values = ", ".join(_any(column.type) for column in columns)
    marks = APART if operation.kind.startswith("intersect") else ALIKE
    given = [
        f"(SELECT {names}, 0::TINYINT AS mark FROM ({side}){_sentinels(values, own)}{FENCE})"
        for side, own in zip(sides, marks, strict=True)
    ]
    return f"SELECT {names} FROM ({given[0]} {word} {given[1]}){FENCE}"


def _side(side: str, relation: Relation, keys: list[Expression], which: str, marks: Marks, write: Write) -> str:
    """Returns a side of a join with its sentinels, as an item of FROM: what it gives, keys that it computes, a mark."""
    given = [(name(column.id), column.type) for column in output(relation)]
    made = [(i, key) for i, key in enumerate(keys) if not isinstance(key, Column)]
    shown = [*(column for column, _ in given), *(f"{write(key)} AS {which}_key{i}" for i, key in made)]
    values = ", ".join(_any(type) for type in (*(type for _, type in given), *(key.type for _, key in made)))
    rows = f"SELECT {', '.join(shown)}, 0::TINYINT AS {which}_mark FROM {side}"
    return f"({rows}{_sentinels(values, marks)}{FENCE})"


def _sentinels(values: str, marks: Marks) -> str:
    return "".join(f" UNION ALL SELECT {values}, {mark}::TINYINT" for mark in marks)


def _key(key: Expression, which: str, number: int) -> str:
    return name(key.id) if isinstance(key, Column) else f"{which}_key{number}"


def _any(type: Type) -> str:
    return lower(Literal(value=_ANY[type.kind], type=type), names=name)
