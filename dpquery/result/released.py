"""Released tables as Arrow tables, under the ids of their columns and with the types of the plan."""

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
from dpquery.plan.logical import OutputColumn
from dpquery.plan.types import Kind, Type
from dpquery.result.added import AddedTable

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
