"""What the server sends, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from dpquery.frontends.postgres.wire.answers import Field, Refusal
from dpquery.frontends.postgres.wire.oids import length_of

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"
AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"


def message(kind: bytes, body: bytes) -> bytes:
    """Returns a message with its length."""
    return kind + struct.pack(">i", len(body) + 4) + body


def text(value: str) -> bytes:
    """Returns a string as the protocol writes it; what it cannot write becomes a question mark."""
    return value.replace("\0", "?").encode("utf-8", errors="replace") + b"\0"


MECHANISMS, CONTINUE, FINAL = 10, 11, 12


def sasl(step: int, data: bytes) -> bytes:
    """A step of SASL: the ways to authenticate, each with a zero behind, and a zero; or a message of the server."""
    return message(b"R", struct.pack(">i", step) + data)


def parameter_status(name: str, value: str) -> bytes:
    """Tells the value of a setting."""
    return message(b"S", text(name) + text(value))


def backend_key(process: int, key: bytes) -> bytes:
    """Tells what a request to cancel has to present."""
    return message(b"K", struct.pack(">i", process) + key)


def negotiate(minor: int, unknown: Sequence[str]) -> bytes:
    """Tells the newest minor version of the protocol that is spoken here, and the options that are not known."""
    return message(b"v", struct.pack(">ii", 3 << 16 | minor, len(unknown)) + b"".join(map(text, unknown)))


def ready(status: str) -> bytes:
    """Tells that the next query may come: I outside of a transaction, T inside, E in a failed one."""
    return message(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    """Ends the answer to one statement."""
    return message(b"C", text(tag))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """Tells the columns of rows that follow."""
    parts = [struct.pack(">H", len(fields))]
    for field, code in zip(fields, formats, strict=True):
        described = struct.pack(">IhIhih", 0, 0, field.oid, length_of(field.oid), field.typmod, code)
        parts.append(text(field.name) + described)
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Tells the types of a statement's parameters."""
    return message(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def copy_out(formats: Sequence[int], is_binary: bool) -> bytes:
    """Begins a COPY to the client."""
    return message(b"H", struct.pack(f">bH{len(formats)}h", is_binary, len(formats), *formats))


def error(refusal: Refusal, severity: str = "ERROR") -> bytes:
    """Tells why a statement was not answered."""
    fields = {"S": severity, "V": severity, "C": refusal.sqlstate, "M": refusal.message}
    if refusal.detail:
        fields["D"] = refusal.detail
    if refusal.hint:
        fields["H"] = refusal.hint
    if refusal.position:
        fields["P"] = str(refusal.position)
    return message(b"E", _fields(fields))


def notice(words: str, sqlstate: str = "00000", severity: str = "NOTICE") -> bytes:
    """Says something beside an answer."""
    return message(b"N", _fields({"S": severity, "V": severity, "C": sqlstate, "M": words}))


def _fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(code.encode() + text(value) for code, value in fields.items()) + b"\0"
