"""What clients send, read from bytes: strict, without sockets, and with a limit on everything that is counted.

PostgreSQL's frontend/backend protocol 3.0 to 3.2. Any violation of it is a `ProtocolError`, after which the connection
ends, because the start of the next message is unknown.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

MOST_STARTUP = 10_000
"""Bytes of a startup packet."""
MOST_MESSAGE = 1 << 20
"""Bytes of any later message."""
MOST_BEFORE_LOGIN = 10_000
"""Bytes of a message of a client before its login."""
MOST_OPTIONS = 64
"""Parameters of a startup packet."""
LONGEST_NAME = 255
"""Characters of the name of a portal or statement."""
CANCEL, SSL, GSS = 80877102, 80877103, 80877104


class ProtocolError(Exception):
    """Bytes that are no message of the protocol. The text is for the client and quotes nothing."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The first packet of a session: the protocol's minor version (of 3) and the parameters in the client's words."""

    minor: int
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class Encryption:
    """A request to encrypt the connection, by TLS or by GSSAPI."""

    is_tls: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel what another connection runs."""

    process: int
    key: bytes = field(repr=False)


First = Startup | Encryption | Cancel


@dataclass(frozen=True, slots=True)
class Query:
    """Statements to be run at once."""

    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """A statement to be prepared; OID 0 leaves a parameter's type open."""

    name: str
    text: str
    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Values for a prepared statement, as bytes or None; a format is 0 (text) or 1 (binary)."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...] = field(repr=False)
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Asks for the types of a prepared statement or of a portal."""

    is_portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Asks for rows of a portal, all of them for 0."""

    portal: str
    most_rows: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forgets a prepared statement or a portal."""

    is_portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Password:
    """A step of authentication."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bare:
    """A message whose kind says all that matters: Sync, Flush, Terminate, or of a COPY that was not requested."""

    kind: bytes


Message = Query | Parse | Bind | Describe | Execute | Close | Password | Bare
SYNC, FLUSH, TERMINATE = Bare(b"S"), Bare(b"H"), Bare(b"X")
KINDS = frozenset(b"QPBDECpSHXdcfF")


class Inbox:
    """Bytes that came and were not read yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Adds bytes at the end."""
        self._buffer += data

    def first(self) -> First | None:
        """Returns the packet that begins a connection, or None where it is not whole yet."""
        if len(self._buffer) < 4:
            return None
        length = int.from_bytes(self._buffer[:4], "big")
        if not 8 <= length <= MOST_STARTUP:
            raise ProtocolError("invalid length of startup packet")
        if len(self._buffer) < length:
            return None
        return read_first(self._take(length)[4:])

    def message(self, most: int = MOST_MESSAGE) -> Message | None:
        """Returns the next message of at most so many bytes, or None where it is not whole yet."""
        if not self._buffer:
            return None
        if self._buffer[0] not in KINDS:
            raise ProtocolError("invalid frontend message type")
        if len(self._buffer) < 5:
            return None
        length = int.from_bytes(self._buffer[1:5], "big")
        if not 4 <= length <= most:
            raise ProtocolError("invalid message length")
        if len(self._buffer) < length + 1:
            return None
        frame = self._take(length + 1)
        return read_message(frame[:1], frame[5:])

    def _take(self, length: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken


class _Body:
    """The body of a message, read from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self._data) - self._place:
            raise ProtocolError("insufficient data left in message")
        self._place += count
        return self._data[self._place - count : self._place]

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def count(self) -> int:
        return int(struct.unpack(">H", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def oid(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def text(self) -> str:
        end = self._data.find(b"\0", self._place)
        if end < 0:
            raise ProtocolError("invalid string in message")
        raw = self.take(end - self._place)
        self._place += 1
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("invalid byte sequence for encoding UTF8") from None

    def name(self) -> str:
        text = self.text()
        if len(text) > LONGEST_NAME:
            raise ProtocolError("a name in the message is too long")
        return text

    def formats(self) -> tuple[int, ...]:
        formats = tuple(self.int16() for _ in range(self.count()))
        if any(code not in (0, 1) for code in formats):
            raise ProtocolError("unsupported format code")
        return formats

    def value(self) -> bytes | None:
        length = self.int32()
        if length < -1:
            raise ProtocolError("invalid length of a value")
        return None if length == -1 else self.take(length)

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._place)

    def end(self) -> None:
        if self._place != len(self._data):
            raise ProtocolError("invalid message format")


def read_first(data: bytes) -> First:
    """Returns the packet that begins a connection, from its bytes after the length."""
    body = _Body(data)
    code = body.oid()
    if code in (SSL, GSS):
        body.end()
        return Encryption(is_tls=code == SSL)
    if code == CANCEL:
        process, key = body.int32(), body.rest()
        if not 4 <= len(key) <= 256:
            raise ProtocolError("invalid length of cancel request")
        return Cancel(process, key)
    if code >> 16 != 3:
        raise ProtocolError("unsupported frontend protocol")
    parameters: dict[str, str] = {}
    while name := body.text():
        if name in parameters or len(parameters) >= MOST_OPTIONS:
            raise ProtocolError("invalid startup packet: parameters")
        parameters[name] = body.text()
    body.end()
    return Startup(code & 0xFFFF, parameters)


def read_message(kind: bytes, data: bytes) -> Message:
    """Returns a message from its kind and the bytes after its length."""
    body = _Body(data)
    message: Message
    match kind:
        case b"Q":
            message = Query(body.text())
        case b"P":
            message = Parse(body.name(), body.text(), tuple(body.oid() for _ in range(body.count())))
        case b"B":
            message = _bind(body)
        case b"D":
            message = Describe(_is_portal(body), body.name())
        case b"C":
            message = Close(_is_portal(body), body.name())
        case b"E":
            message = Execute(body.name(), max(0, body.int32()))
        case b"p":
            message = Password(body.rest())
        case b"S" | b"H" | b"X" | b"c":
            message = Bare(kind)
        case b"d" | b"f" | b"F":
            body.rest()
            message = Bare(kind)
        case _:
            raise ProtocolError("invalid frontend message type")
    body.end()
    return message


def _bind(body: _Body) -> Bind:
    portal, statement, formats = body.name(), body.name(), body.formats()
    values = tuple(body.value() for _ in range(body.count()))
    if len(formats) not in (0, 1, len(values)):
        raise ProtocolError("bind message has another number of formats than of parameters")
    return Bind(portal, statement, formats, values, body.formats())


def _is_portal(body: _Body) -> bool:
    kind = body.take(1)
    if kind not in (b"S", b"P"):
        raise ProtocolError("invalid message subtype")
    return kind == b"P"
