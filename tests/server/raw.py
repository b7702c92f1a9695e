"""A client of bare bytes: sends what no driver would, and reads what comes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
from dataclasses import dataclass, field

PROTOCOL = 3 << 16
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102


def packet(code: int, body: bytes = b"") -> bytes:
    """Returns a packet that begins a connection."""
    return struct.pack(">II", len(body) + 8, code) + body


def startup(minor: int = 0, **parameters: str) -> bytes:
    body = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items()) + b"\0"
    return packet(PROTOCOL | minor, body)


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def query(text: str) -> bytes:
    return message(b"Q", text.encode() + b"\0")


def parse(text: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    body = name.encode() + b"\0" + text.encode() + b"\0" + struct.pack(f">H{len(oids)}I", len(oids), *oids)
    return message(b"P", body)


def bind(
    portal: str = "",
    statement: str = "",
    values: tuple[bytes | None, ...] = (),
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:
    cells = b"".join(struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in values)
    body = portal.encode() + b"\0" + statement.encode() + b"\0"
    body += struct.pack(f">H{len(formats)}H", len(formats), *formats) + struct.pack(">H", len(values)) + cells
    return message(b"B", body + struct.pack(f">H{len(results)}H", len(results), *results))


def describe(kind: str, name: str = "") -> bytes:
    return message(b"D", kind.encode() + name.encode() + b"\0")


def execute(portal: str = "", most_rows: int = 0) -> bytes:
    return message(b"E", portal.encode() + b"\0" + struct.pack(">i", most_rows))


SYNC = message(b"S")


class Gone(Exception):
    """The server has closed the connection."""


@dataclass
class Client:
    """One connection."""

    host: str
    port: int
    seconds: float = 300.0  # on however busy a machine
    process: int = 0
    key: bytes = b""
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.socket: socket.socket = socket.create_connection((self.host, self.port), timeout=self.seconds)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            try:
                part = self.socket.recv(count - len(found))
            except ConnectionError:
                part = b""
            if not part:
                raise Gone
            found += part
        return found

    def read(self) -> tuple[str, bytes]:
        """Returns kind and body of the next message."""
        kind = self.exactly(1)
        (length,) = struct.unpack(">I", self.exactly(4))
        return kind.decode(), self.exactly(length - 4)

    def until(self, *kinds: str) -> list[tuple[str, bytes]]:
        """Returns messages up to the first of a kind."""
        found = [self.read()]
        while found[-1][0] not in kinds:
            found.append(self.read())
        return found

    def ready(self) -> list[tuple[str, bytes]]:
        return self.until("Z")

    def to_the_end(self) -> list[tuple[str, bytes]]:
        """Returns what the server still says before it ends the connection."""
        found = []
        try:
            while True:
                found.append(self.read())
        except Gone:
            return found

    def is_closed(self) -> bool:
        """Whether the server ends the connection, after whatever it still says."""
        try:
            while True:
                self.read()
        except Gone:
            return True
        except TimeoutError:
            return False

    def encrypt(self, context: ssl.SSLContext | None = None) -> None:
        self.send(packet(SSL_REQUEST))
        assert self.exactly(1) == b"S"
        if context is None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def log_in(self, user: str = "alice", password: str = "correct horse", minor: int = 0, **parameters: str) -> None:
        """Logs in by SCRAM-SHA-256; raises AssertionError with the server's words where that fails."""
        self.send(startup(minor, user=user, **parameters))
        kind, body = self.until("R", "E")[-1]
        assert kind == "R", errors(body)
        if body[:4] != b"\0\0\0\0":
            self._scram(password)
        for kind, body in self.until("Z", "E"):
            if kind == "S":
                name, value, _ = body.split(b"\0")
                self.settings[name.decode()] = value.decode()
            elif kind == "K":
                self.process, self.key = struct.unpack(">i", body[:4])[0], body[4:]
            elif kind == "E":
                raise AssertionError(errors(body))

    def _scram(self, password: str) -> None:
        nonce = base64.b64encode(os.urandom(18)).decode()
        bare = f"n=,r={nonce}"
        first = f"n,,{bare}".encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack(">I", len(first)) + first))
        kind, body = self.read()
        assert kind == "R", errors(body)
        answer = body[4:].decode()
        parts = dict(part.split("=", 1) for part in answer.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        unproven = f"c=biws,r={parts['r']}"
        signature = hmac.digest(hashlib.sha256(client_key).digest(), f"{bare},{answer},{unproven}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        self.send(message(b"p", f"{unproven},p={proof}".encode()))
        kind, body = self.read()
        assert kind == "R", errors(body)
        expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), b"", "sha256")
        assert body[:4] == struct.pack(">I", 12) and len(expected) == 32

    def rows(self, text: str) -> list[list[str | None]]:
        """Returns the rows of a simple query."""
        self.send(query(text))
        return rows(self.ready())

    def error(self, data: bytes) -> dict[str, str]:
        """Sends messages and returns the fields of the error that comes before the server is ready again."""
        self.send(data)
        return next(errors(body) for kind, body in self.ready() if kind == "E")


def errors(body: bytes) -> dict[str, str]:
    """Returns the fields of an error or notice by their codes."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def cells(body: bytes) -> list[bytes | None]:
    """Returns the cells of a DataRow."""
    (count,) = struct.unpack(">H", body[:2])
    place, found = 2, list[bytes | None]()
    for _ in range(count):
        (length,) = struct.unpack(">i", body[place : place + 4])
        place += 4
        found.append(None if length < 0 else body[place : place + length])
        place += max(length, 0)
    assert place == len(body)
    return found


def rows(messages: list[tuple[str, bytes]]) -> list[list[str | None]]:
    return [[None if c is None else c.decode() for c in cells(body)] for kind, body in messages if kind == "D"]


def kinds(messages: list[tuple[str, bytes]]) -> str:
    """Returns the kinds of messages as one word."""
    return "".join(kind for kind, _ in messages)
