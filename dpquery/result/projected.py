"""Projections of one released table, without an engine: most answers need no more, and an engine's plan takes longer.

Columns that are passed on are not touched. Others are computed row by row by `plan/evaluate`, to which engines are
held; only operations that have one correct result are, so that no digit depends on who computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dpquery.arrow import arrow_type
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Column, Expression, children, columns_of, size_of
from dpquery.plan.logical import Project, Relation, Released
from dpquery.plan.types import Kind

MOST_STEPS = 4000
"""Parts of expressions, times rows, that are computed here; an engine is quicker with more."""
LARGEST = 100
"""Parts of one expression: it is followed by recursion."""
_COMPUTED = frozenset({Kind.BOOLEAN, Kind.INT64, Kind.FLOAT64})
_LOGIC = {"and", "or", "not", "is_null", "is_not_null", "coalesce", "nullif"}
_OPERATIONS = _LOGIC | {"add", "subtract", "multiply", "divide", "negate", "abs", "sqrt", "clamp"}
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def projected(relation: Relation, released: Sequence[pa.Table]) -> pa.Table | None:
    """Returns the rows of projections over one released table; None for any other relation, and where it is long."""
    if isinstance(relation, Released):
        return released[relation.index]
    source = projected(relation.source, released) if isinstance(relation, Project) else None
    if source is None or not isinstance(relation, Project):
        return None
    computed: list[Expression] = [c.expression for c in relation.columns if not isinstance(c.expression, Column)]
    if not relation.columns or not _is_short(computed, len(source)):
        return None
    return pa.table({c.id: _column(c.expression, source) for c in relation.columns})


def _is_short(computed: list[Expression], rows: int) -> bool:
    sizes = [size_of(expression) for expression in computed]
    return (
        max(sizes, default=0) <= LARGEST
        and sum(sizes) * rows <= MOST_STEPS
        and all(_is_plain(part) for part in computed)
    )


def _is_plain(expression: Expression) -> bool:
    """Whether an expression is arithmetic or logic on numbers alone."""
    known = not isinstance(expression, Call) or expression.function in _OPERATIONS | _COMPARISONS
    return known and expression.type.kind in _COMPUTED and all(map(_is_plain, children(expression)))


def _column(expression: Expression, source: pa.Table) -> Any:
    if isinstance(expression, Column):
        return source[expression.id]
    ids = sorted({column.id for column in columns_of(expression)})
    rows = zip(*(source[id].to_pylist() for id in ids), strict=True) if ids else [()] * len(source)
    values = [evaluate(expression, dict(zip(ids, row, strict=True))) for row in rows]
    return pa.array(values, arrow_type(expression.type))
