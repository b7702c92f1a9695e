"""Framing: bytes to messages, in any pieces, and nothing but messages."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.frontends.postgres.wire import wire
from dpquery.frontends.postgres.wire.wire import Inbox, ProtocolError
from tests.server.raw import bind, describe, execute, message, packet, parse, query, startup

MESSAGES = [
    (query("SELECT 1"), wire.Query("SELECT 1")),
    (parse("SELECT $1", "s", (23,)), wire.Parse("s", "SELECT $1", (23,))),
    (bind("p", "s", (b"1", None), (1,), (0, 1)), wire.Bind("p", "s", (1,), (b"1", None), (0, 1))),
    (describe("S", "s"), wire.Describe(False, "s")),
    (describe("P", "p"), wire.Describe(True, "p")),
    (execute("p", 7), wire.Execute("p", 7)),
    (execute("p", -1), wire.Execute("p", 0)),
    (message(b"C", b"Pp\0"), wire.Close(True, "p")),
    (message(b"p", b"proof"), wire.Password(b"proof")),
    (message(b"S"), wire.SYNC),
    (message(b"H"), wire.FLUSH),
    (message(b"X"), wire.TERMINATE),
    (message(b"d", b"anything"), wire.Bare(b"d")),
]


@pytest.mark.parametrize(("sent", "expected"), MESSAGES, ids=lambda v: type(v).__name__)
def test_messages_are_read_in_pieces_of_any_size(sent: bytes, expected: wire.Message) -> None:
    for size in (1, 3, len(sent)):
        inbox = Inbox()
        found = []
        for start in range(0, 2 * len(sent), size):
            inbox.feed((sent * 2)[start : start + size])
            while (one := inbox.message()) is not None:
                found.append(one)
        assert found == [expected, expected]
        assert len(inbox) == 0


def test_packets_that_begin_a_connection() -> None:
    for sent, expected in [
        (startup(2, user="a", database="b"), wire.Startup(2, {"user": "a", "database": "b"})),
        (packet(wire.SSL), wire.Encryption(True)),
        (packet(wire.GSS), wire.Encryption(False)),
        (packet(wire.CANCEL, struct.pack(">i", 5) + b"key!"), wire.Cancel(5, b"key!")),
    ]:
        inbox = Inbox()
        inbox.feed(sent[:-1])
        assert inbox.first() is None
        inbox.feed(sent[-1:])
        assert inbox.first() == expected


BROKEN_FIRST = {
    "too long": struct.pack(">I", 10_001) + b"\0\3\0\0",
    "huge": b"\xff\xff\xff\xff",
    "zero": bytes(4),
    "three": struct.pack(">I", 3),
    "seven": struct.pack(">I", 7) + b"abc",
    "protocol 2": packet(2 << 16, b"\0"),
    "no end": packet(3 << 16, b"user\0a"),
    "behind the end": packet(3 << 16, b"user\0a\0\0more"),
    "twice": packet(3 << 16, b"user\0a\0user\0b\0\0"),
    "too many": packet(3 << 16, b"".join(b"p%d\0x\0" % i for i in range(65)) + b"\0"),
    "no utf-8": packet(3 << 16, b"user\0\xff\0\0"),
    "ssl with more": packet(wire.SSL, b"x"),
    "cancel without key": packet(wire.CANCEL, b"\0\0\0\1"),
    "cancel with a long key": packet(wire.CANCEL, bytes(300)),
}


@pytest.mark.parametrize("sent", BROKEN_FIRST.values(), ids=BROKEN_FIRST)
def test_other_beginnings_are_refused(sent: bytes) -> None:
    inbox = Inbox()
    inbox.feed(sent)
    with pytest.raises(ProtocolError):
        inbox.first()


BROKEN = {
    "kind": b"?\0\0\0\4",
    "server's kind": b"T\0\0\0\4",
    "length 3": b"Q\0\0\0\3",
    "length 0": b"Q\0\0\0\0",
    "negative length": b"Q\xff\xff\xff\xff",
    "a byte too long": b"Q" + struct.pack(">I", (1 << 20) + 1),
    "query without end": message(b"Q", b"SELECT 1"),
    "query with more": message(b"Q", b"SELECT 1\0x"),
    "query with NUL": message(b"Q", b"SELECT '\0'\0"),
    "no utf-8": message(b"Q", b"\xc3\x28\0"),
    "parse with half an oid": message(b"P", b"\0\0\0\1\0\0"),
    "parse with fewer oids": message(b"P", b"\0\0\xff\xff"),
    "bind length -2": message(b"B", b"\0\0\0\0\0\1\xff\xff\xff\xfe\0\0"),
    "bind length past the end": message(b"B", b"\0\0\0\0\0\1\x7f\xff\xff\xff\0\0"),
    "bind formats": message(b"B", b"\0\0\0\2\0\0\0\0\0\1\xff\xff\xff\xff\0\0"),
    "bind format 2": bind("", "", (b"1",), (2,)),
    "bind result format": bind("", "", (), (), (7,)),
    "bind with more": message(b"B", b"\0\0\0\0\0\0\0\0x"),
    "describe neither": message(b"D", b"X\0"),
    "describe nothing": message(b"D"),
    "execute without rows": message(b"E", b"\0"),
    "sync with more": message(b"S", b"x"),
    "a name too long": message(b"D", b"S" + b"n" * 256 + b"\0"),
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
def test_what_is_no_message_is_refused(sent: bytes) -> None:
    inbox = Inbox()
    inbox.feed(sent)
    with pytest.raises(ProtocolError):
        inbox.message()


def test_a_lower_limit_holds_before_the_login() -> None:
    inbox = Inbox()
    inbox.feed(b"p" + struct.pack(">I", wire.MOST_BEFORE_LOGIN + 1))
    with pytest.raises(ProtocolError):
        inbox.message(wire.MOST_BEFORE_LOGIN)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused_or_incomplete(data: bytes) -> None:
    for read in ("first", "message"):
        inbox = Inbox()
        inbox.feed(data)
        try:
            while len(inbox) and getattr(inbox, read)() is not None:
                pass
        except ProtocolError as error:
            assert str(error).isascii()


@settings(deadline=None)
@given(st.sampled_from([b"Q", b"P", b"B", b"D", b"E", b"C", b"p", b"S", b"F", b"d"]), st.binary(max_size=60))
def test_any_body_is_a_message_or_refused(kind: bytes, body: bytes) -> None:
    try:
        wire.read_message(kind, body)
    except ProtocolError as error:
        assert str(error).isascii()
