"""What crosses between the listener and the engine's process: JSON for words and values, Arrow for tables, no code."""

from __future__ import annotations

import base64
import datetime
import json
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpquery.frontends.postgres.wire.answers import Answered, Described, Field, Refusal

HEAD = struct.Struct(">III")
"""Of a frame: the number of its request, the bytes of its JSON, the bytes of its table."""
MOST_BYTES = 1 << 31
KINDS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], object]]] = {
    "float": (float, repr, float),
    "decimal": (Decimal, str, Decimal),
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
"""Values that JSON has no form for: the type, how it is written as text, and how it is read."""


def frame(number: int, words: dict[str, Any], table: pa.Buffer | bytes = b"") -> list[bytes | pa.Buffer]:
    """Returns the parts of a frame."""
    written = json.dumps(words, ensure_ascii=True).encode("ascii")
    return [HEAD.pack(number, len(written), len(table)) + written, table]


def from_value(value: object) -> Any:
    """Returns a parameter's value as JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list):
        return [from_value(item) for item in value]
    for name, (kind, write, _) in KINDS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise Refusal("0A000", "a parameter is of a type that is not supported")


def to_value(written: Any) -> object:
    """Returns the value that `from_value` has written."""
    if isinstance(written, list):
        return [to_value(item) for item in written]
    if not isinstance(written, dict):
        return written
    ((name, text),) = written.items()
    return KINDS[name][2](text)


def of_answered(answered: Answered) -> tuple[dict[str, Any], pa.Buffer]:
    """Returns an answer as words and a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, answered.table.schema) as stream:
        stream.write_table(answered.table)
    words = {"fields": _of_fields(answered.fields), "notices": list(answered.notices), "lasts": answered.is_lasting}
    return words, sink.getvalue()


def to_answered(words: dict[str, Any], table: bytes | bytearray) -> Answered:
    """Returns the answer that `of_answered` has written."""
    read = pa.ipc.open_stream(table).read_all()
    read.validate(full=True)
    notices = tuple(map(str, words["notices"]))
    return Answered(fields=_to_fields(words["fields"]), table=read, notices=notices, is_lasting=bool(words["lasts"]))


def of_described(described: Described) -> dict[str, Any]:
    """Returns types as words."""
    return {"parameters": list(described.parameters), "fields": _of_fields(described.fields)}


def to_described(words: dict[str, Any]) -> Described:
    """Returns the types that `of_described` has written."""
    return Described(parameters=tuple(map(int, words["parameters"])), fields=_to_fields(words["fields"]))


def of_refusal(refusal: Refusal) -> dict[str, Any]:
    """Returns a refusal as words."""
    return {"refusal": [refusal.sqlstate, refusal.message, refusal.detail, refusal.hint, refusal.position]}


def to_refusal(words: dict[str, Any]) -> Refusal:
    """Returns the refusal that `of_refusal` has written."""
    sqlstate, message, detail, hint, position = words["refusal"]
    return Refusal(str(sqlstate), str(message), detail, hint, position)


def _of_fields(fields: tuple[Field, ...]) -> list[list[Any]]:
    return [[field.name, field.oid, field.typmod] for field in fields]


def _to_fields(written: list[list[Any]]) -> tuple[Field, ...]:
    return tuple(Field(name=str(name), oid=int(oid), typmod=int(typmod)) for name, oid, typmod in written)
