"""Rows as messages: DataRow and the lines of a COPY, joined from whole columns without a step for each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.frontends.postgres.wire.answers import Field
from dpquery.frontends.postgres.wire.columns import binary_cells, few_cells, fixed_cells, text_cells

ROWS_AT_ONCE = 4096
BYTES_AT_ONCE = 1 << 18
"""What is written at once of a result."""
FEW_ROWS, FEW_CELLS = 8, 256
"""Results of no more rows, or cells, than these are written cell by cell: steps for whole columns take longer."""
COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyForm:
    """How COPY writes rows; `kind` is text, csv or binary."""

    kind: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: bool = False


def data_rows(table: pa.Table, fields: Sequence[Field], formats: Sequence[int]) -> Iterator[bytes]:
    """Yields the rows of a table as DataRow messages, some thousands at once."""
    if fields and len(table) and (len(table) <= FEW_ROWS or len(table) * len(fields) <= FEW_CELLS):
        yield _few_rows(table, fields, formats)
        return
    for part in _parts(table):
        yield _joined(_framed(b"D", [_count(len(part), len(fields)), *_cells(part, fields, formats)]))


def _few_rows(table: pa.Table, fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """Returns the rows of a small table."""
    (part,) = table.combine_chunks().to_batches()
    columns = [few_cells(*given) for given in zip(part.columns, fields, formats, strict=True)]
    count, made = len(fields).to_bytes(2, "big"), bytearray()
    for row in zip(*columns, strict=True):
        cells = (_NULL if cell is None else len(cell).to_bytes(4, "big") + cell for cell in row)
        message = b"".join([count, *cells])
        made += b"D" + (len(message) + 4).to_bytes(4, "big") + message
    return bytes(made)


def copy_rows(table: pa.Table, fields: Sequence[Field], form: CopyForm) -> Iterator[bytes]:
    """Yields a table as CopyData messages, one for each row; what stands before the first row comes with it."""
    head = _header(fields, form)
    if not len(table) and head:
        yield b"d" + (len(head) + 4).to_bytes(4, "big") + head
    for part in _parts(table):
        lines = _binary_lines(part, fields) if form.kind == "binary" else _lines(part, fields, form)
        if head:
            first = pa.array([head, *([b""] * (len(part) - 1))], pa.binary())
            lines, head = [first, *lines], b""
        yield _joined(_framed(b"d", lines))
    if form.kind == "binary":
        yield b"d" + (4 + len(COPY_TRAILER)).to_bytes(4, "big") + COPY_TRAILER


def _parts(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches():
        rows = min(ROWS_AT_ONCE, max(1, BYTES_AT_ONCE * len(batch) // max(1, batch.nbytes)))
        for start in range(0, len(batch), rows):
            yield batch.slice(start, rows)


def _count(rows: int, columns: int) -> pa.Array:
    return fixed_cells(np.full(rows, columns, dtype=">u2"))


def _cells(part: pa.RecordBatch, fields: Sequence[Field], formats: Sequence[int]) -> list[pa.Array]:
    """Returns for each column the lengths of its cells and then their bytes."""
    pieces = []
    for column, field, code in zip(part.columns, fields, formats, strict=True):
        cells = (binary_cells if code else text_cells)(column, field.oid)
        lengths = pc.fill_null(pc.binary_length(cells), -1)
        pieces.append(fixed_cells(lengths.to_numpy(zero_copy_only=False).astype(">i4")))
        pieces.append(pc.fill_null(cells, b"") if cells.null_count else cells)
    return pieces


def _framed(kind: bytes, pieces: Sequence[pa.Array]) -> list[pa.Array | bytes]:
    """Returns the pieces of messages with their kind and length before them."""
    lengths = np.full(len(pieces[0]), 4, dtype=np.int64)
    for piece in pieces:
        lengths += pc.binary_length(piece).to_numpy(zero_copy_only=False)
    return [pa.scalar(kind, pa.binary()), fixed_cells(lengths.astype(">u4")), *pieces]


def _joined(pieces: Sequence[pa.Array | bytes]) -> bytes:
    """Returns row after row, each the bytes of all its pieces."""
    rows = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return bytes(memoryview(rows.buffers()[2])[offsets[0] : offsets[-1]])


def _header(fields: Sequence[Field], form: CopyForm) -> bytes:
    if form.kind == "binary":
        return COPY_HEADER
    if not form.header:
        return b""
    names = pa.table(
        [pa.array([field.name], pa.string()) for field in fields], names=[str(i) for i in range(len(fields))]
    )
    texts = [Field(name="", oid=25) for _ in fields]
    return b"".join(piece[0].as_py() for piece in _lines(names.to_batches()[0], texts, form))


def _binary_lines(part: pa.RecordBatch, fields: Sequence[Field]) -> list[pa.Array]:
    return [_count(len(part), len(fields)), *_cells(part, fields, [1] * len(fields))]


def _lines(part: pa.RecordBatch, fields: Sequence[Field], form: CopyForm) -> list[pa.Array]:
    """Returns the cells of lines, with delimiters between and a line's end behind."""
    pieces: list[pa.Array] = []
    for i, (column, field) in enumerate(zip(part.columns, fields, strict=True)):
        cells = text_cells(column, field.oid).cast(pa.string())
        cells = _quoted(cells, form) if form.kind == "csv" else _escaped(cells, form)
        cells = pc.fill_null(cells, form.null).cast(pa.binary())
        pieces += [_repeated(form.delimiter, len(part)), cells] if i else [cells]
    return [*pieces, _repeated("\n", len(part))]


def _repeated(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text.encode(), pa.binary()), rows)


def _escaped(cells: pa.Array, form: CopyForm) -> pa.Array:
    for plain, escape in (
        ("\\", "\\\\"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
        ("\b", "\\b"),
        ("\f", "\\f"),
        ("\v", "\\v"),
    ):
        cells = pc.replace_substring(cells, plain, escape)
    return cells if form.delimiter == "\t" else pc.replace_substring(cells, form.delimiter, "\\" + form.delimiter)


def _quoted(cells: pa.Array, form: CopyForm) -> pa.Array:
    quoted = cells
    if form.escape != form.quote:
        quoted = pc.replace_substring(quoted, form.escape, form.escape * 2)
    quoted = pc.replace_substring(quoted, form.quote, form.escape + form.quote)
    quoted = pc.binary_join_element_wise(form.quote, quoted, form.quote, "")
    if form.force_quote:
        return quoted
    is_special = pc.equal(cells, form.null)
    for special in (form.delimiter, form.quote, form.escape, "\n", "\r"):
        is_special = pc.or_(is_special, pc.match_substring(cells, special))
    return pc.if_else(pc.or_(is_special, pc.equal(cells, "\\.")), quoted, cells)
