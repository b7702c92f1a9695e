"""What crosses between the listener and the engine's process: JSON for words and values, Arrow for tables, no code."""

from __future__ import annotations

import base64
import datetime
import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import astuple
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpquery.frontends.postgres.wire.answers import DataChanged, Described, Field, Refusal, StatementAnswer, failed

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


def of_answered(answered: StatementAnswer) -> tuple[dict[str, Any], pa.Buffer]:
    """Returns an answer as words and a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, answered.table.schema) as stream:
        stream.write_table(answered.table)
    fields = list(map(astuple, answered.fields))
    return {"fields": fields, "notices": answered.notices, "lasts": answered.is_lasting}, sink.getvalue()


def to_answered(reply: tuple[dict[str, Any], bytes | bytearray]) -> StatementAnswer:
    """Returns the answer that `of_answered` has written."""
    words, table = reply
    try:
        read = pa.ipc.open_stream(table).read_all()
        read.validate(full=True)
        fields, notices = _to_fields(words["fields"]), tuple(map(str, words["notices"]))
        return StatementAnswer(fields=fields, table=read, notices=notices, is_lasting=bool(words["lasts"]))
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError):
        raise failed() from None


def of_described(described: Described) -> dict[str, Any]:
    """Returns types as words."""
    return {"parameters": described.parameters, "fields": list(map(astuple, described.fields))}


def to_described(words: dict[str, Any]) -> Described:
    """Returns the types that `of_described` has written."""
    return Described(parameters=tuple(map(int, words["parameters"])), fields=_to_fields(words["fields"]))


def of_refusal(refusal: Refusal) -> dict[str, Any]:
    """Returns a refusal as words."""
    return {"refusal": refusal.args, "is_stale": isinstance(refusal, DataChanged)}


def to_refusal(words: dict[str, Any]) -> Refusal:
    """Returns the refusal that `of_refusal` has written."""
    sqlstate, message, detail, hint, position = words["refusal"]
    return Refusal(str(sqlstate), str(message), detail, hint, position)


def _to_fields(written: list[list[Any]]) -> tuple[Field, ...]:
    return tuple(Field(name=str(name), oid=int(oid), typmod=int(typmod)) for name, oid, typmod in written)
