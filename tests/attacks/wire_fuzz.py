"""Mutated messages and sessions of PostgreSQL's protocol."""

from __future__ import annotations

import random

from dpquery.frontends.postgres.wire.wire import Inbox, ProtocolError
from tests.server import raw

SEEDS = [
    raw.query("SELECT region, count(*) FROM orders GROUP BY 1; BEGIN; SELECT 'a;b'; ROLLBACK"),
    raw.query("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1"),
    raw.query("FETCH BACKWARD 3 FROM c"),
    raw.query("COPY (SELECT 1) TO STDOUT (FORMAT binary)"),
    raw.query("SET dpquery.epsilon = '0.1'; SHOW ALL; DISCARD ALL"),
    raw.query("PREPARE x(int) AS SELECT $1::int; EXECUTE x(1)"),
    raw.parse("SELECT $1::int, $2::numeric, $3::date", "s", (23, 1700, 0)),
    raw.bind("p", "s", (b"\0\0\0\1", b"\0\1\0\0\0\0\0\2\0\1", b"2020-01-01"), (1, 1, 0), (1,)),
    raw.bind("", "", (), (), ()),
    raw.describe("S", "s"),
    raw.describe("P", "p"),
    raw.execute("p", 2),
    raw.execute("", 0),
    raw.message(b"C", b"Ss\0"),
    raw.message(b"F", bytes(20)),
    raw.message(b"d", b"data"),
    raw.message(b"c"),
    raw.message(b"f", b"why\0"),
    raw.message(b"H"),
    raw.SYNC,
    raw.message(b"p", b"proof"),
]
FIRST = [
    raw.startup(user="alice", database="shop", options="-c search_path=dp"),
    raw.startup(2, user="alice"),
    raw.packet(raw.SSL_REQUEST),
    raw.packet(raw.GSS_REQUEST),
    raw.packet(raw.CANCEL_REQUEST, bytes(8)),
]
ODD = [b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\4", b"'", b'"', b"$$", b";"]


def mutated(data: bytes, choice: random.Random) -> bytes:
    """Returns a message with some of its bytes changed, cut, doubled or replaced by odd ones."""
    found = bytearray(data)
    for _ in range(choice.randint(1, 4)):
        place = choice.randrange(len(found)) if found else 0
        match choice.randrange(6):
            case 0 if found:
                found[place] = choice.randrange(256)
            case 1:
                found[place:place] = choice.choice(ODD)
            case 2:
                del found[place : place + choice.randint(1, 8)]
            case 3:
                found[place : place + 4] = choice.choice(ODD)
            case 4:
                end = min(len(found), place + choice.randint(1, 16))
                found[place:place] = found[place:end]
            case _:
                found += choice.choice(SEEDS)[: choice.randint(1, 30)]
    return bytes(found)


def read_mutants(count: int, choice: random.Random) -> tuple[int, int]:
    """Reads so many mutants; returns how many were refused and how many gave messages. Anything else raises."""
    refused = understood = 0
    for i in range(count):
        inbox = Inbox()
        begins = i % 5 == 0
        data = mutated(choice.choice(FIRST if begins else SEEDS), choice)
        cut = choice.randrange(len(data) + 1)
        for part in (data[:cut], data[cut:]):
            inbox.feed(part)
            try:
                while (inbox.first() if begins else inbox.message()) is not None:
                    understood += 1
                    begins = False
            except ProtocolError:
                refused += 1
                break
        assert len(inbox) <= len(data)
    return refused, understood


def session(choice: random.Random) -> bytes:
    """Returns what a mutated client sends after its login: mostly whole messages, some of them mutated."""
    sent = []
    for _ in range(choice.randint(1, 12)):
        seed = choice.choice(SEEDS)
        sent.append(mutated(seed, choice) if choice.random() < 0.3 else seed)
    return b"".join(sent)
