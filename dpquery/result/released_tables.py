"""Released tables as Arrow tables, under the ids of their columns and with the types of the plan; and answers from one
of them, without an engine: most need no more, and an engine's plan takes longer.

Such answers are projections, and rows that are chosen, ordered and limited. Columns that are passed on are not touched,
others are computed by `arrays`, if it knows all their operations. Rows that are equal in all keys of an order keep the
order that they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.data.arrow import arrow_type
from dpquery.errors import InternalError
from dpquery.kernel.plan import Key, Measure
from dpquery.kernel.release import NoisyTable
from dpquery.plan.evaluate import normal
from dpquery.plan.expr import Column
from dpquery.plan.logical import Filter, Limit, OutputColumn, Project, Relation, Released, Sort, SortKey
from dpquery.plan.types import Kind, Type
from dpquery.result.added_tables import AddedTable
from dpquery.result.arrays import Known, as_column, is_arithmetic, values_of

LARGEST = 2**63 - 1
EXACT = Context(prec=80)


def to_arrow(table: NoisyTable | AddedTable, columns: Sequence[OutputColumn]) -> pa.Table:
    """Returns a released table; types come from the plan alone.

    Args:
        columns: What the plan says of the table's columns: keys, then measures. () for a table that nothing reads.
    """
    types = {column.id: column.type for column in columns}
    arrays: dict[str, pa.Array] = {}
    for key, values in zip(table.aggregate.keys, table.keys, strict=True):
        arrays |= zip(key.columns, _key(key, values), strict=True)
    for measure, numbers in zip(table.aggregate.measures, _in_order(table), strict=True):
        if measure.id in types:
            arrays[measure.id] = _number(measure, numbers, types[measure.id])
    if not arrays:
        return pa.table({"nothing": pa.nulls(1, pa.int64())})
    return pa.table(arrays)


def _in_order(table: NoisyTable | AddedTable) -> list[NDArray[Any]]:
    """Returns the numbers of each measure, with the quantiles of one value in the order of their targets."""
    numbers = list(table.numbers)
    sharing: dict[object, list[int]] = {}
    for i, measure in enumerate(table.aggregate.measures):
        if measure.target is not None:
            sharing.setdefault((measure.value, measure.filter, measure.lattice), []).append(i)
    for places in sharing.values():
        places.sort(key=lambda i: table.aggregate.measures[i].target or Fraction(0))
        ordered = np.sort(np.stack([numbers[i] for i in places]), axis=0)
        for i, column in zip(places, ordered, strict=True):
            numbers[i] = column
    return numbers


def _key(key: Key, values: NDArray[Any]) -> list[pa.Array]:
    """Returns each column of a key."""
    if key.domain is None:
        return [pa.array(values.tolist(), type=arrow_type(key.types[0]))]
    columns = zip(*key.domain, strict=True) if key.domain else ((),) * len(key.columns)
    places = pa.array(values)
    return [pa.array(c, type=arrow_type(type)).take(places) for c, type in zip(columns, key.types, strict=True)]


def _number(measure: Measure, numbers: NDArray[Any], type: Type) -> pa.Array:
    """Returns noisy lattice values in the unit of the measure, or values of its domain; int64 saturates."""
    if measure.domain is not None:
        return pa.array(list(measure.domain), type=arrow_type(type)).take(pa.array(numbers))
    step = measure.unit
    match type.kind:
        case Kind.INT64 if step.denominator == 1:
            if numbers.dtype == np.int64 and step == 1:
                return pa.array(numbers)
            return pa.array([max(-LARGEST, min(LARGEST, int(n) * int(step))) for n in numbers], type=pa.int64())
        case Kind.FLOAT64:
            # Lattice units of floats are powers of two: the product rounds once, in the conversion of the integer.
            return pa.array(numbers.astype(np.float64) * float(step) + 0.0)
        case Kind.DECIMAL:
            return _decimals(numbers, step, type)
        case Kind.DATE if step.denominator == 1:
            return pa.array((numbers * int(step)).astype(np.int32)).cast(pa.date32())
        case Kind.TIMESTAMP if step.denominator == 1:
            return pa.array(numbers * int(step)).cast(arrow_type(type))
        case _:
            raise InternalError(f"a released number cannot be a {type}")


def _decimals(numbers: NDArray[Any], step: Fraction, type: Type) -> pa.Array:
    """Returns integers times a power of ten as decimals of the type's scale; NULL beyond its digits."""
    factor = step * 10**type.scale
    if factor.denominator != 1:
        raise InternalError("a decimal's grid is finer than its scale")
    if numbers.dtype == np.int64 and factor == 1:
        halves = np.stack([numbers, numbers >> 63], axis=1)  # 128 bits, the lower half first
        return pa.Array.from_buffers(arrow_type(type), len(numbers), [None, pa.py_buffer(halves.astype("<i8"))])
    most = 10**type.precision
    units = (int(n) * int(factor) for n in numbers)
    return pa.array(
        [EXACT.scaleb(Decimal(n), -type.scale) if abs(n) < most else None for n in units], type=arrow_type(type)
    )


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
