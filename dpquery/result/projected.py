"""Answers from one released table, without an engine: most need no more, and an engine's plan takes longer.

They are projections, and rows that are chosen, ordered and limited. Columns that are passed on are not touched, others
are computed by `arrays`, if it knows all their operations. Rows that are equal in all keys of an order keep the order
that they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dpquery.plan.evaluate import normal
from dpquery.plan.expr import Column
from dpquery.plan.logical import Filter, Limit, Project, Relation, Released, Sort, SortKey
from dpquery.result.arrays import Known, as_column, is_arithmetic, values_of

MOST_SORTED = 4000
"""Rows, times keys, that are put in order here; an engine is quicker with more."""


def projected(relation: Relation, released: Sequence[pa.Table]) -> pa.Table | None:
    """Returns the rows of a relation over one released table; None for any other relation."""
    if isinstance(relation, Released):
        return released[relation.index]
    if not isinstance(relation, Project | Filter | Sort | Limit):
        return None
    source = projected(relation.source, released)
    if source is None:
        return None
    match relation:
        case Project():
            return _computed(relation, source)
        case Filter(condition=condition):
            passing = values_of(condition, source, {}) if is_arithmetic([condition]) else None
            return None if passing is None else source.filter(pa.array(passing == 1))
        case Sort():
            return _sorted(relation.keys, source)
        case Limit(count=count, offset=offset):
            return source.slice(offset, count)


def _computed(relation: Project, source: pa.Table) -> pa.Table | None:
    """Returns the columns of a projection; None where one is not arithmetic, or there are none."""
    expressions = {column.id: column.expression for column in relation.columns}
    if not expressions or not is_arithmetic(e for e in expressions.values() if not isinstance(e, Column)):
        return None
    known: Known = {}
    made: dict[str, pa.ChunkedArray | pa.Array] = {}
    for id, expression in expressions.items():
        if isinstance(expression, Column):
            made[id] = source[expression.id]
            continue
        values = values_of(expression, source, known)
        if values is None:
            return None
        made[id] = as_column(values, expression.type)
    return pa.table(made)


def _sorted(keys: Sequence[SortKey], source: pa.Table) -> pa.Table | None:
    """Returns the rows in an order, by one key after the other, the last first; None where they are many."""
    if len(keys) * len(source) > MOST_SORTED:
        return None
    places = list(range(len(source)))
    for key in reversed(keys):
        values: list[Any] = [normal(value) for value in source[key.column].to_pylist()]
        known = [place for place in places if values[place] is not None]
        missing = [place for place in places if values[place] is None]
        known.sort(key=values.__getitem__, reverse=key.descending)  # which keeps equal ones as they are
        places = missing + known if key.nulls_first else known + missing
    return source.take(pa.array(places, pa.int64()))
