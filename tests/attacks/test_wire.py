"""Attacks on the server through its socket (WIR)."""

from __future__ import annotations

import logging
import random
import re
import resource
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpquery.frontends.postgres.listener import Limits
from tests.attacks.wire_fuzz import FIRST, mutated, read_mutants, session
from tests.server.raw import (
    CANCEL_REQUEST,
    GSS_REQUEST,
    SSL_REQUEST,
    SYNC,
    Client,
    bind,
    describe,
    errors,
    execute,
    kinds,
    message,
    packet,
    parse,
    query,
    rows,
    startup,
)
from tests.server.running import Running, running
from tests.waiting import PATIENCE, wait_until

ORDERS = "SELECT region, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1"
CANARY = "canary-7731"
SLOW = "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = Limits(handshake=60, waiting=64)
    folder = Path(tmp_path_factory.mktemp("wire"))
    with running(folder, limits=limits, caps={"dpquery.epsilon": "2"}) as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.host, server.port) as found:
        found.log_in()
        yield found


def charges(server: Running) -> int:
    with Client(server.host, server.port) as client:
        client.log_in()
        return int(client.rows("SELECT charges")[0][0] or "0")


def still_answers(server: Running) -> bool:
    with Client(server.host, server.port) as client:
        client.log_in()
        return client.rows("SELECT 1") == [["1"]]


@pytest.mark.parametrize("length", [0, 3, 7, 10_001, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_length_field_allocates_nothing(server: Running, length: int) -> None:
    """WIR-01: before the login and after it."""
    with Client(server.host, server.port) as stranger:
        stranger.send(struct.pack(">I", length) + b"\0\3\0\0")
        assert stranger.is_closed()
    with Client(server.host, server.port) as client:
        client.log_in()
        client.send(b"Q" + struct.pack(">I", length if length not in (7, 10_001) else 2 << 20))
        assert client.is_closed()
    assert still_answers(server)


def test_half_a_packet_holds_a_place_for_seconds_only(tmp_path: Path) -> None:
    """WIR-02: silence, half a packet, one byte a second; nobody is kept out meanwhile."""
    with running(tmp_path, limits=Limits(handshake=4, waiting=64)) as server:
        halves = [Client(server.host, server.port) for _ in range(3)]
        halves[1].send(startup(user="alice")[:9])
        halves[2].send(packet(GSS_REQUEST))
        assert still_answers(server)
        for half in halves:
            assert half.is_closed()
            half.socket.close()


def test_encryption_is_asked_for_once(server: Running) -> None:
    """WIR-03: no loop of requests."""
    with Client(server.host, server.port) as client:
        client.send(packet(SSL_REQUEST))
        assert client.exactly(1) == b"N"
        client.send(packet(SSL_REQUEST))
        assert errors(client.read()[1])["C"] == "08P01"
        assert client.is_closed()


def test_nothing_stands_between_the_request_for_tls_and_tls(server: Running) -> None:
    """WIR-04: bytes behind the request, in one packet with it; with a certificate in tests/server/test_doors.py."""
    with Client(server.host, server.port) as client:
        client.send(packet(SSL_REQUEST) + startup(user="alice"))
        assert client.read()[0] == "E"
        assert client.is_closed()


def test_no_private_key_is_in_the_package() -> None:
    """WIR-05: no key is shipped; TLS off loopback is tests/server/test_serving.py."""
    package = Path(__file__).resolve().parents[2] / "dpquery"
    files = [file for file in package.rglob("*") if file.is_file() and file.suffix not in (".pyc",)]
    assert not [file for file in files if b"PRIVATE KEY" in file.read_bytes() or file.suffix in (".pem", ".key")]


@pytest.mark.parametrize(
    "sent",
    [
        startup(user=""),
        startup(database="shop"),
        startup(user="nobody") + message(b"p", b"SCRAM-SHA-256\0\0\0\0\0"),
        startup(user="alice") + message(b"p", b"secret\0"),
        startup(user="alice") + message(b"p", b"PLAIN\0\0\0\0\1x"),
        startup(user="alice") + message(b"p", b"SCRAM-SHA-256-PLUS\0\0\0\0\1n"),
        startup(user="alice") + query("SELECT 1"),
        startup(user="alice") + parse("SELECT 1"),
        startup(user="alice") + SYNC,
        query("SELECT 1"),
    ],
)
def test_nothing_but_a_proof_opens(server: Running, sent: bytes) -> None:
    """WIR-06: each failure ends the connection, and no statement ran."""
    with Client(server.host, server.port) as client:
        client.send(sent)
        found = client.to_the_end()
        assert "Z" not in kinds(found) and "D" not in kinds(found)


def test_a_proof_is_for_one_exchange(server: Running) -> None:
    """WIR-06: a recorded proof opens nothing, as the server's nonce is new."""
    recorded: list[bytes] = []
    with Client(server.host, server.port) as client:
        send = client.send
        client.send = lambda data: (recorded.append(data), send(data))[1]  # type: ignore[func-returns-value, method-assign]
        client.log_in()
    with Client(server.host, server.port) as client:
        for data in recorded:
            client.send(data)
        found = client.until("E")
        assert errors(found[-1][1])["C"] == "28P01"
        assert client.is_closed()


def test_only_the_key_cancels_and_guesses_are_not_heard(server: Running, client: Client) -> None:
    """WIR-07: wrong keys cancel nothing; after some of them no request of that address is heard for a while."""
    outcome: list[str] = []
    begun = server.begun()
    thread = threading.Thread(target=lambda: outcome.append(client.error(query(SLOW))["C"]))
    thread.start()
    assert begun.wait(PATIENCE)
    for guess in range(3):
        with Client(server.host, server.port) as guesser:
            guesser.send(packet(CANCEL_REQUEST, struct.pack(">iI", client.process, guess)))
            assert guesser.is_closed()
    thread.join(1)
    assert not outcome
    with Client(server.host, server.port) as owner:
        owner.send(packet(CANCEL_REQUEST, struct.pack(">i", client.process) + client.key))
        assert owner.is_closed()
    thread.join(PATIENCE)
    assert outcome == ["57014"]


def test_keys_are_of_the_operating_systems_randomness(server: Running) -> None:
    """WIR-07: no two alike, neither numbers nor keys."""
    found = set()
    for _ in range(20):
        with Client(server.host, server.port) as client:
            client.log_in(minor=2)
            found |= {client.process, client.key}
    assert len(found) == 40


def test_describing_and_repeating_give_no_second_draw(server: Running, client: Client) -> None:
    """WIR-08: Describe charges nothing; a portal that is resumed or run again gives stored rows, or none."""
    before = charges(server)
    client.send(b"".join(parse(ORDERS) + describe("S") + SYNC for _ in range(5)))
    for _ in range(5):
        client.ready()
    assert charges(server) == before
    client.send(query("BEGIN"))
    client.ready()
    client.send(parse(ORDERS) + bind("p") + describe("P", "p") + execute("p", 1) * 3 + execute("p") * 3 + SYNC)
    assert len(rows(client.ready())) == 4
    assert client.rows("FETCH ABSOLUTE 1 FROM p") == [["east", "5000"]]
    assert client.rows("FETCH BACKWARD ALL FROM p; FETCH ALL FROM p; FETCH ALL FROM p") != []
    assert charges(server) == before + 1
    client.send(query("ROLLBACK"))
    client.ready()


def test_each_statement_of_a_batch_is_checked_and_charged(server: Running, client: Client) -> None:
    """WIR-09: the second one too, and where one is refused the rest is not run."""
    before = charges(server)
    client.send(query(f"{ORDERS}; {ORDERS}"))
    client.ready()
    assert charges(server) == before + 2
    for hidden in (
        "SELECT ';'; DROP TABLE orders",
        "SELECT $$;$$; DELETE FROM orders",
        "/* ; */ SELECT 1; COPY t FROM STDIN",
    ):
        assert client.error(query(hidden + "; " + ORDERS))["C"] == "42501"
        assert client.error(parse(hidden) + SYNC)["C"] == "42601"
    assert charges(server) == before + 2


STATES = {
    "bind without parse": (bind("", "never") + SYNC, "26000"),
    "execute without bind": (execute("never") + SYNC, "34000"),
    "describe without parse": (describe("S", "never") + SYNC, "26000"),
    "parameters without places": (parse("SELECT 1") + bind("", "", (b"1",)) + SYNC, "08P01"),
    "formats that fit nothing": (parse("SELECT 1") + bind("", "", (), (), (0, 1)) + execute() + SYNC, "08P01"),
    "a function call": (message(b"F", bytes(12)) + SYNC, "0A000"),
    "a password now": (message(b"p", b"x") + SYNC, "08P01"),
    "text that says it is binary": (parse("SELECT $1::int") + bind("", "", (b"12",), (1,)) + SYNC, "22P03"),
}


@pytest.mark.parametrize(("sent", "sqlstate"), STATES.values(), ids=STATES)
def test_messages_out_of_order_are_refused_and_the_session_goes_on(client: Client, sent: bytes, sqlstate: str) -> None:
    """WIR-10."""
    assert client.error(sent)["C"] == sqlstate
    assert client.rows("SELECT 1") == [["1"]]


@pytest.mark.parametrize(
    "sent",
    [
        message(b"B", b"\0\0\0\0\0\1" + struct.pack(">i", -2) + b"\0\0"),
        message(b"B", b"\0\0\0\0\0\1" + struct.pack(">i", 2**31 - 1) + b"\0\0"),
        b"B" + struct.pack(">i", -1),
        message(b"P", b"\0SELECT 1\0" + struct.pack(">H", 65_535)),
        b"\0\0\0\0\0",
        message(b"Q", b"\xff\0"),
    ],
)
def test_lengths_and_counts_that_lie_end_the_session(client: Client, sent: bytes) -> None:
    """WIR-10: what follows is never taken for a message."""
    client.send(sent + query(f"SELECT '{CANARY}'"))
    found = client.to_the_end()
    assert kinds(found) in ("E", "")
    assert CANARY not in str(found)


def test_copy_data_that_nobody_asked_for_is_no_statement(client: Client) -> None:
    """WIR-10: it is dropped, whatever stands in it."""
    client.send(message(b"d", query(ORDERS)) + message(b"c") + message(b"f", b"x\0") + SYNC)
    assert kinds(client.ready()) == "Z"


def test_what_a_session_keeps_is_limited(client: Client) -> None:
    """WIR-10: prepared texts, tokens, results."""
    text = "SELECT '" + "x" * 1_000_000 + "'"
    client.send(b"".join(parse(text, f"s{i}") for i in range(5)) + SYNC)
    found = client.ready()
    assert kinds(found) == "1111EZ"
    assert errors(found[-2][1])["C"] == "54000"
    assert client.error(query("SELECT " + "1," * 100_001))["C"] == "54001"
    big = "SELECT i, repeat('x', 250) AS t FROM range(400000) r(i)"
    client.send(query(f"BEGIN; DECLARE a CURSOR FOR {big}; DECLARE b CURSOR FOR {big}; DECLARE c CURSOR FOR {big}"))
    found = client.ready()
    assert errors(found[-2][1])["C"] == "53200"
    assert client.error(query("SELECT 1"))["C"] == "25P02"


def test_a_query_after_an_error_waits_for_sync_too(server: Running, client: Client) -> None:
    """WIR-10: what is skipped is skipped whole, or a client that counts answers would take one for another."""
    before = charges(server)
    client.send(bind("", "never") + query(ORDERS) + SYNC + query("SELECT 2"))
    assert kinds(client.ready()) == "EZ"
    assert rows(client.ready()) == [["2"]]
    assert charges(server) == before


def test_there_is_no_other_language_in_a_query(client: Client) -> None:
    """WIR-11: JSON, comments with commands, and settings in comments are nothing but text."""
    assert client.error(query('{"method": "eval", "text": "1"}'))["C"] in ("42601", "42501")
    assert client.rows("/* dpquery.epsilon=99 */ SELECT 1 -- user: bob") == [["1"]]


@pytest.mark.parametrize(
    "parameters",
    [
        {"options": "-c dpquery.epsilon=99"},
        {"options": "-c dpquery.epsilon=-1"},
        {"dpquery.epsilon": "99"},
        {"options": "-c dpquery.noise=off"},
        {"options": "-c session_authorization=bob"},
        {"options": "-c role=bob"},
        {"options": "-c dpquery.login=bob"},
        {"client_encoding": "SQL_ASCII"},
        {"replication": "true"},
        {"replication": "database"},
        {"is_superuser": "on"},
    ],
)
def test_startup_parameters_buy_nothing(server: Running, parameters: dict[str, str]) -> None:
    """WIR-12: those that are not on the list are refused, and so are values above the owner's caps."""
    with Client(server.host, server.port) as client:
        client.send(startup(user="alice", **parameters))  # type: ignore[arg-type]
        found = client.until("R", "E")
        if found[-1][0] == "E":
            return
        client.socket.close()
    with Client(server.host, server.port) as client, pytest.raises(AssertionError):
        client.log_in("alice", **parameters)  # type: ignore[arg-type]


def test_settings_stay_below_the_owners_caps(client: Client) -> None:
    """WIR-13: by SET, SET LOCAL, SET SESSION, in a transaction, by DISCARD and RESET."""
    for text in (
        "SET dpquery.epsilon = 1000",
        "SET SESSION dpquery.epsilon TO '2.1'",
        "BEGIN; SET LOCAL dpquery.epsilon = 3",
        "ROLLBACK; SET dpquery.epsilon = 'nan'",
        "SET dpquery.epsilon = 0",
        "SET DPQUERY.EPSILON = 99",
        'SET "dpquery"."epsilon" = 99',
        'SET "dpquery.epsilon" = 99',
    ):
        assert client.error(query(text))["C"] in ("42501", "22023")
    assert client.rows("whoami") == [["alice", ""]]


def test_a_cursor_materialises_once(server: Running, client: Client) -> None:
    """WIR-14: whatever is fetched, in whatever order, after a rollback of a fetch too."""
    before = charges(server)
    client.send(query(f"BEGIN; DECLARE c CURSOR WITH HOLD FOR {ORDERS}; COMMIT"))
    client.ready()
    first = client.rows("FETCH ALL FROM c")
    client.send(query("MOVE ABSOLUTE 0 FROM c"))
    client.ready()
    client.send(query("BEGIN; FETCH 2 FROM c; ROLLBACK; MOVE ABSOLUTE 0 FROM c"))
    client.ready()
    assert client.rows("FETCH ALL FROM c") == first
    assert charges(server) == before + 1


def test_errors_say_nothing_of_data_or_code(
    server: Running, client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """WIR-15: an exception in the engine that quotes a row reaches neither client nor log."""
    with caplog.at_level(logging.DEBUG):
        refused = client.error(query(f"leak '{CANARY}'"))
    assert refused["C"] == "58030"
    for told in (str(refused), caplog.text, *capfd.readouterr()):
        assert CANARY not in told
        assert "Traceback" not in told
        assert not re.search(r"/\w+/\w+.*\.py", told)
    assert client.rows("SELECT 1") == [["1"]]


def test_logs_hold_no_literals(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """WIR-15: neither of queries nor of parameters, answered or refused."""
    with caplog.at_level(logging.DEBUG):
        client.rows(f"SELECT count(*) FROM orders WHERE region = '{CANARY}'")
        client.error(query(f"DELETE FROM orders WHERE region = '{CANARY}'"))
        client.send(parse("SELECT $1::text") + bind("", "", (CANARY.encode(),)) + execute() + SYNC)
        client.ready()
    assert CANARY not in caplog.text


def test_a_name_in_a_log_stays_on_its_line(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """WIR-15: an application's name cannot write lines of its own."""
    with caplog.at_level(logging.INFO), Client(server.host, server.port) as client:
        client.log_in(application_name='x"\nconnected user=admin')
        wait_until(lambda: r'application="x\"\\nconnected user=admin"' in caplog.text, "the line of the login")
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert r'application="x\"\\nconnected user=admin"' in caplog.text


def test_a_slow_reader_holds_little(tmp_path: Path) -> None:
    """WIR-16: the result waits in the engine's own form, and the connection ends after its patience."""
    with running(tmp_path, limits=Limits(patience=1)) as server, Client(server.host, server.port) as client:
        client.log_in()
        for _ in range(20):
            client.send(query("SELECT i FROM range(100000) r(i)"))
        assert still_answers(server)
        wait_until(lambda: not server.server.open, "the end of its connection")


def test_many_sessions_of_one_analyst_are_one_analyst(server: Running) -> None:
    """WIR-17: who asks is who logged in, in each session, whatever the session says."""
    for application in ("a", "b"):
        with Client(server.host, server.port) as client:
            client.log_in("bob", application_name=application, database="robert")
            assert client.rows("SET application_name = 'alice'; whoami") == [["robert", ""]]


def test_a_crash_takes_one_statement_down(server: Running, client: Client) -> None:
    """WIR-18: the listener stays, and there is another engine."""
    assert client.error(query("crash"))["C"] == "58030"
    assert client.rows("SELECT 1") == [["1"]]
    assert still_answers(server)


def test_mutated_messages_are_read_or_refused() -> None:
    """WIR-10, gate G6, the small run."""
    refused, understood = read_mutants(5_000, random.Random(1))
    assert refused > 500
    assert understood > 500


def run_sessions(server: Running, count: int, choice: random.Random) -> None:
    """Sends mutated sessions; the server ends or answers each, with nothing but its own static texts."""
    for _ in range(count):
        with Client(server.host, server.port, seconds=30) as client:
            if choice.random() < 0.2:
                client.send(mutated(choice.choice(FIRST), choice))
            else:
                client.log_in()
                client.send(session(choice) + SYNC)
            client.socket.shutdown(1)
            heard = b""
            try:
                while part := client.socket.recv(1 << 16):
                    heard += part
            except ConnectionError:
                pass
            assert b"Traceback" not in heard and b".py" not in heard


def test_mutated_sessions_end_or_are_answered(server: Running) -> None:
    """WIR-10, gate G6, the small run."""
    run_sessions(server, 60, random.Random(2))
    assert still_answers(server)
    assert not [event for event in server.server.counts.totals if event[0] == "defects"]


@pytest.mark.slow
def test_a_million_mutated_messages() -> None:
    """Gate G6: no crash, and memory stays flat."""
    read_mutants(50_000, random.Random(3))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read_mutants(950_000, random.Random(4))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.slow
def test_ten_thousand_mutated_sessions(server: Running) -> None:
    """Gate G6: no crash, no hang, no defect, and memory stays flat."""
    run_sessions(server, 500, random.Random(5))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run_sessions(server, 9_500, random.Random(6))
    assert still_answers(server)
    assert not [event for event in server.server.counts.totals if event[0] == "defects"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
