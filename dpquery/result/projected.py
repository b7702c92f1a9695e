"""Answers from one released table, without an engine: most need no more, and an engine's plan takes longer.

They are projections, and rows that are chosen, ordered and limited. Columns that are passed on are not touched. Others
are computed row by row by `plan/evaluate`, to which engines are held; only operations that have one correct result are,
so that no digit depends on who computes. Rows that are equal in all keys of an order keep the order that they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dpquery.data.arrow import arrow_type
from dpquery.plan.evaluate import Known, evaluate_rows, normal
from dpquery.plan.expr import Call, Column, Expression, columns_of, parts_of
from dpquery.plan.logical import Filter, Limit, Project, Relation, Released, Sort, SortKey
from dpquery.plan.types import Kind, Value

MOST_STEPS = 4000
"""Parts of expressions, times rows, that are computed here; an engine is quicker with more."""
LARGEST = 100
"""Parts of one expression: it is followed by recursion."""
_COMPUTED = frozenset({Kind.BOOLEAN, Kind.INT64, Kind.FLOAT64})
_LOGIC = {"and", "or", "not", "is_null", "is_not_null", "coalesce", "nullif"}
_OPERATIONS = _LOGIC | {"add", "subtract", "multiply", "divide", "negate", "abs", "sqrt", "clamp"}
_KNOWN = _OPERATIONS | {"eq", "ne", "lt", "le", "gt", "ge"}


def projected(relation: Relation, released: Sequence[pa.Table]) -> pa.Table | None:
    """Returns the rows of a relation over one released table; None for any other relation, and where it is long."""
    if isinstance(relation, Released):
        return released[relation.index]
    if not isinstance(relation, Project | Filter | Sort | Limit):
        return None
    source = projected(relation.source, released)
    if source is None:
        return None
    match relation:
        case Project():
            computed: list[Expression] = [
                c.expression for c in relation.columns if not isinstance(c.expression, Column)
            ]
            if not relation.columns or not _is_short(computed, len(source)):
                return None
            known: Known = {}
            return pa.table({c.id: _column(c.expression, source, known) for c in relation.columns})
        case Filter(condition=condition):
            if not _is_short([condition], len(source)):
                return None
            return source.filter(pa.array([value is True for value in _values(condition, source)], pa.bool_()))
        case Sort():
            return _sorted(relation.keys, source)
        case Limit(count=count, offset=offset):
            return source.slice(offset, count)


def _sorted(keys: Sequence[SortKey], source: pa.Table) -> pa.Table | None:
    """Returns the rows in an order, by one key after the other, the last first; None where they are many."""
    if len(keys) * len(source) > MOST_STEPS:
        return None
    places = list(range(len(source)))
    for key in reversed(keys):
        values: list[Any] = [normal(value) for value in source[key.column].to_pylist()]
        known = [place for place in places if values[place] is not None]
        missing = [place for place in places if values[place] is None]
        known.sort(key=values.__getitem__, reverse=key.descending)  # which keeps equal ones as they are
        places = missing + known if key.nulls_first else known + missing
    return source.take(pa.array(places, pa.int64()))


def _is_short(computed: list[Expression], rows: int) -> bool:
    """Whether expressions are arithmetic or logic on numbers alone, and not too many for so many rows."""
    parts = [parts_of(expression) for expression in computed]
    sizes = list(map(len, parts))
    return (
        max(sizes, default=0) <= LARGEST
        and sum(sizes) * rows <= MOST_STEPS
        and {part.type.kind for own in parts for part in own} <= _COMPUTED
        and {part.function for own in parts for part in own if isinstance(part, Call)} <= _KNOWN
    )


def _column(expression: Expression, source: pa.Table, known: Known) -> Any:
    if isinstance(expression, Column):
        return source[expression.id]
    return pa.array(_values(expression, source, known), arrow_type(expression.type))


def _values(expression: Expression, source: pa.Table, known: Known | None = None) -> list[Value]:
    columns = {id: source[id].to_pylist() for id in {column.id for column in columns_of(expression)}}
    return evaluate_rows(expression, columns, len(source), known)
