"""Columns of a result as PostgreSQL writes them, whole columns at once: Arrow arrays of the bytes of each cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Field, Refusal
from dpquery.frontends.postgres.wire.codecs import encode_binary, encode_text

DAYS = 10_957
"""From Arrow's first day, in 1970, to PostgreSQL's, in 2000."""
MICROS = DAYS * 86_400_000_000

_STORED: dict[int, pa.DataType] = {
    oids.BOOL: pa.bool_(),
    oids.INT2: pa.int16(),
    oids.INT4: pa.int32(),
    oids.INT8: pa.int64(),
    oids.OID: pa.uint32(),
    oids.FLOAT4: pa.float32(),
    oids.FLOAT8: pa.float64(),
    oids.DATE: pa.date32(),
    oids.TIME: pa.time64("us"),
    oids.TIMESTAMP: pa.timestamp("us"),
    oids.TIMESTAMPTZ: pa.timestamp("us"),
    oids.BYTEA: pa.binary(),
}
_AS_VALUES = {oids.INTERVAL, oids.UUID, oids.BYTEA, *oids.ELEMENTS}
"""Types that are rare in results: written cell by cell."""


def stored(table: pa.Table, fields: tuple[Field, ...]) -> pa.Table:
    """Returns a result with each column of the one Arrow type that belongs to its OID.

    Raises:
        Refusal: A column holds something else; its values are not quoted.
    """
    if table.num_columns != len(fields):
        raise Refusal("XX000", "the engine returned an unexpected number of columns")
    columns = [_stored(table.column(i), field.oid) for i, field in enumerate(fields)]
    return pa.table(columns, names=[str(i) for i in range(len(fields))]) if fields else table


def _stored(column: pa.ChunkedArray, oid: int) -> pa.ChunkedArray:
    if isinstance(column.type, pa.ExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if oid in _AS_VALUES and oid != oids.BYTEA:
        return column
    if oid == oids.NUMERIC:
        return column if pa.types.is_decimal128(column.type) else _to_text(column)
    target = _STORED.get(oid, pa.string())
    try:
        if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target):
            return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(target)
        return _to_text(column) if target == pa.string() else column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Refusal("XX000", "the engine returned a column of an unexpected type") from None


def _to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_boolean(column.type) or pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        texts = [None if v is None else encode_text(v, oids.TEXT).decode("utf-8") for v in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column.cast(pa.string())


def text_cells(column: pa.Array, oid: int) -> pa.Array:
    """Returns each value of a column as text, in an array of bytes; NULL stays NULL."""
    if oid in _AS_VALUES:
        return _by_cell(column, oid, encode_text)
    if oid == oids.BOOL:
        return pc.if_else(column, pa.scalar(b"t", pa.binary()), pa.scalar(b"f", pa.binary()))
    if oid in (oids.FLOAT4, oids.FLOAT8):
        return _float_text(column)
    if oid in (oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIME):
        trimmed = pc.utf8_rtrim(pc.utf8_rtrim(column.cast(pa.string()), characters="0"), characters=".")
        if oid == oids.TIMESTAMPTZ:
            trimmed = pc.binary_join_element_wise(trimmed, "+00", "")
        return trimmed.cast(pa.binary())
    texts = column.cast(pa.string())
    if pa.types.is_decimal(column.type) and pc.any(pc.match_substring(texts, "E")).as_py():
        return _by_cell(column, oid, encode_text)
    return texts.cast(pa.binary())


def few_cells(column: pa.Array, field: Field, code: int) -> list[bytes | None]:
    """Returns what `binary_cells` or `text_cells` gives, as a list; quicker where values are few."""
    values = column.to_pylist() if field.oid in _PLAIN or _is_text(field.oid) else None
    if values is None:
        found: list[bytes | None] = (binary_cells if code else text_cells)(column, field.oid).to_pylist()
        return found
    encode = encode_binary if code else encode_text
    return [None if value is None else encode(value, field.oid) for value in values]


_PLAIN = {oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID}


def _is_text(oid: int) -> bool:
    return oid not in _STORED and oid not in _AS_VALUES and oid != oids.NUMERIC


def _float_text(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return texts.cast(pa.binary())
    for odd, written in (("nan", "NaN"), ("-nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(texts, odd), written, texts)
    return texts.cast(pa.binary())


def binary_cells(column: pa.Array, oid: int) -> pa.Array:
    """Returns each value of a column in PostgreSQL's binary form, in an array of bytes; NULL stays NULL."""
    if oid in _AS_VALUES:
        return _by_cell(column, oid, encode_binary)
    if oid == oids.NUMERIC:
        return _numeric_cells(column)
    writer = _FIXED.get(oid)
    return column.cast(pa.string()).cast(pa.binary()) if writer is None else _fixed(column, writer)


def _by_cell(column: pa.Array, oid: int, encode: Callable[[object, int], bytes]) -> pa.Array:
    return pa.array([None if value is None else encode(value, oid) for value in column.to_pylist()], pa.binary())


_FIXED: dict[int, tuple[pa.DataType, str, int]] = {
    oids.BOOL: (pa.uint8(), ">u1", 0),
    oids.INT2: (pa.int16(), ">i2", 0),
    oids.INT4: (pa.int32(), ">i4", 0),
    oids.INT8: (pa.int64(), ">i8", 0),
    oids.OID: (pa.uint32(), ">u4", 0),
    oids.FLOAT4: (pa.float32(), ">f4", 0),
    oids.FLOAT8: (pa.float64(), ">f8", 0),
    oids.DATE: (pa.int32(), ">i4", DAYS),
    oids.TIME: (pa.int64(), ">i8", 0),
    oids.TIMESTAMP: (pa.int64(), ">i8", MICROS),
    oids.TIMESTAMPTZ: (pa.int64(), ">i8", MICROS),
}
"""For types of a fixed length: the integers or floats they are, those as bytes, and PostgreSQL's zero."""


def _fixed(column: pa.Array, writer: tuple[pa.DataType, str, int]) -> pa.Array:
    type, form, zero = writer
    numbers = column.cast(type)
    filled = numbers.fill_null(0) if numbers.null_count else numbers
    values = filled.to_numpy(zero_copy_only=False)
    cells = fixed_cells((values - values.dtype.type(zero) if zero else values).astype(form))
    return pc.if_else(column.is_valid(), cells, None) if column.null_count else cells


def fixed_cells(values: np.ndarray[Any, Any]) -> pa.Array:
    """Returns an array of bytes with the bytes of each number."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _numeric_cells(column: pa.Array) -> pa.Array:
    """Returns decimals in base 10,000; those of more than 64 bits one by one."""
    if not pa.types.is_decimal128(column.type) or column.type.scale < 0:
        return _by_cell(column, oids.NUMERIC, encode_binary)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    words = np.frombuffer(column.buffers()[1], dtype="<i8").reshape(-1, 2)[column.offset : column.offset + len(column)]
    low, high = np.where(valid, words[:, 0], 0), np.where(valid, words[:, 1], 0)
    scale = column.type.scale
    shift = -scale % 4
    small = (1 << 62) // 10**shift
    if len(column) and (np.any(high != low >> 63) or np.any(low > small) or np.any(low < -small)):
        return _by_cell(column, oids.NUMERIC, encode_binary)
    rest = np.abs(low).astype(np.uint64) * np.uint64(10**shift)
    digits = np.empty((len(column), 5), dtype=np.uint16)
    for place in range(4, -1, -1):
        digits[:, place] = rest % np.uint64(10_000)
        rest //= np.uint64(10_000)
    cells = _base_10000(digits, low < 0, scale)
    return cells if valid.all() else pc.if_else(column.is_valid(), cells, None)


def _base_10000(digits: np.ndarray[Any, Any], negative: np.ndarray[Any, Any], scale: int) -> pa.Array:
    """Returns numbers of which each row of `digits` holds five digits, without the zeros at both ends."""
    rows, width = digits.shape
    filled = digits != 0
    any_digit = filled.any(axis=1)
    first = np.where(any_digit, filled.argmax(axis=1), 0)
    past = np.where(any_digit, width - filled[:, ::-1].argmax(axis=1), 0)
    places = np.arange(width)
    kept = (places >= first[:, None]) & (places < past[:, None])
    cells = np.empty((rows, 4 + width), dtype=">u2")
    cells[:, 0] = past - first
    cells[:, 1] = np.where(any_digit, width - 1 - first - -(-scale // 4), 0).astype(np.int16).view(np.uint16)
    cells[:, 2] = np.where(negative, 0x4000, 0)
    cells[:, 3] = scale
    cells[:, 4:] = digits
    mask = np.concatenate([np.ones((rows, 4), dtype=bool), kept], axis=1)
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(mask.sum(axis=1) * 2, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells[mask]))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
