"""What is limited: how many come, how long they are silent, how slowly they read; and how the server ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections import deque
from pathlib import Path

import pytest

from dpquery.frontends.postgres.listener import Limits
from tests.server.raw import (
    CANCEL_REQUEST,
    Client,
    Gone,
    bind,
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

SLOW = "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)"


def test_silent_sockets_keep_nobody_out(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(waiting=50, handshake=30)) as server:
        silent = [Client(server.host, server.port) for _ in range(300)]
        try:
            with Client(server.host, server.port) as client:
                client.log_in()
                assert client.rows("SELECT 1") == [["1"]]
        finally:
            for one in silent:
                one.socket.close()


def _comes_in(server: Running) -> bool:
    """Whether bob logs in; a client that the system stops before its first byte may be too slow, and be told so."""
    with Client(server.host, server.port) as client, contextlib.suppress(Gone, OSError, AssertionError):
        client.log_in("bob")
        return client.rows("SELECT 1") == [["1"]]
    return False


@pytest.mark.parametrize("said", [b"", startup(user="alice")])
def test_a_flood_of_sockets_keeps_nobody_out(tmp_path: Path, said: bytes) -> None:
    """WRK-06: while somebody opens sockets as fast as they can, silent ones beyond all room, others log in."""
    with running(tmp_path, limits=Limits(waiting=512 if said else 256)) as server:
        opened, done = [0], threading.Event()

        def flood() -> None:
            kept: deque[socket.socket] = deque()
            while not done.is_set():
                with contextlib.suppress(OSError):
                    kept.append(socket.create_connection((server.host, server.port)))
                    kept[-1].sendall(said)
                    opened[0] += 1
                while len(kept) > 400:
                    kept.popleft().close()
            for one in kept:
                one.close()

        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            wait_until(lambda: opened[0] > 500)
            assert any(_comes_in(server) for _ in range(6))
        finally:
            done.set()
            flooding.join()


def test_a_login_has_to_be_quick(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(handshake=0.5)) as server:
        for sent in (b"", b"\0\0", startup(user="alice"), startup(user="alice") + b"p\0\0\0\x20half"):
            with Client(server.host, server.port, seconds=PATIENCE) as client:
                client.send(sent)
                assert client.is_closed()


def test_silence_after_the_login_ends(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(idle=0.5)) as server, Client(server.host, server.port) as client:
        client.log_in()
        kind, body = client.read()
        assert (kind, errors(body)["C"]) == ("E", "57P05")
        assert client.is_closed()


def test_there_is_room_for_so_many_and_no_more(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(connections=3, connections_per_user=2)) as server:
        clients = [Client(server.host, server.port) for _ in range(5)]
        outcomes = []
        for client, user in zip(clients, ("alice", "alice", "alice", "bob", "bob"), strict=True):
            try:
                client.log_in(user)
                outcomes.append("in")
            except AssertionError as error:
                outcomes.append(error.args[0]["C"])
        assert outcomes == ["in", "in", "53300", "in", "53300"]
        clients[0].socket.close()

        def has_room() -> bool:
            with Client(server.host, server.port) as client, contextlib.suppress(AssertionError):
                client.log_in("bob")
                return True
            return False

        wait_until(has_room, "the room of a client that left")
        for client in clients:
            client.socket.close()


def test_a_client_that_does_not_read_is_left(tmp_path: Path) -> None:
    limits = Limits(patience=0.5)
    with running(tmp_path, limits=limits) as server, Client(server.host, server.port) as client:
        client.log_in()
        client.send(query("SELECT i, repeat('x', 500) AS t FROM range(200000) r(i)"))
        wait_until(lambda: server.server.open == 0, "the end of its connection")
        with Client(server.host, server.port) as other:
            other.log_in()
            assert other.rows("SELECT 1") == [["1"]]


def test_a_client_that_leaves_has_its_statement_cancelled(tmp_path: Path) -> None:
    with running(tmp_path, threads=1) as server:
        with Client(server.host, server.port) as client:
            client.log_in()
            begun = server.begun()
            client.send(query(SLOW))
            assert begun.wait(PATIENCE)
        with Client(server.host, server.port) as client:
            client.log_in()
            assert client.rows("SELECT 1") == [["1"]]  # the only thread is free again


def test_one_users_statements_make_no_other_user_wait(tmp_path: Path) -> None:
    """WRK-06: what others ask is answered while all connections of one user still run or wait."""
    with running(tmp_path, threads=4) as server, contextlib.ExitStack() as opened:
        greedy = [opened.enter_context(Client(server.host, server.port)) for _ in range(12)]
        for client in greedy:
            client.log_in()
            client.send(query(SLOW))
        for user in ("bob", "superset", "bob"):
            with Client(server.host, server.port) as client:
                client.log_in(user)
                assert client.rows("SELECT 1") == [["1"]]
        assert server.server.shares.statements.waiting == 11  # one runs; none was answered meanwhile


def test_a_statement_that_waits_for_its_turn_is_cancelled_or_has_no_more_time(tmp_path: Path) -> None:
    with (
        running(tmp_path, threads=1) as server,
        Client(server.host, server.port) as busy,
        Client(server.host, server.port) as waiting,
        Client(server.host, server.port) as impatient,
    ):
        for client in (busy, waiting, impatient):
            client.log_in()
        impatient.send(query("SET statement_timeout = 1"))
        impatient.ready()
        busy.send(query(SLOW))
        wait_until(lambda: server.server.shares.statements.busy == 1)
        assert impatient.error(query("SELECT COUNT(*) FROM orders"))["C"] == "57014"
        waiting.send(query("SELECT COUNT(*) FROM orders"))
        wait_until(lambda: server.server.shares.statements.waiting == 1)
        with Client(server.host, server.port) as client:
            client.send(packet(CANCEL_REQUEST, waiting.process.to_bytes(4, "big") + waiting.key))
            assert client.is_closed()
        assert errors(waiting.ready()[0][1])["C"] == "57014"
        busy.socket.close()
        assert waiting.rows("SELECT charges") == [["0"]]


def test_results_that_are_kept_have_a_limit_for_each_user_and_for_all(tmp_path: Path) -> None:
    million = "SELECT i, i * 2 AS j FROM range(100000) r(i)"  # 1.6 MB
    with (
        running(tmp_path, limits=Limits(room=12 << 20)) as server,
        Client(server.host, server.port) as first,
        Client(server.host, server.port) as second,
        Client(server.host, server.port) as other,
    ):
        for client, user in ((first, "alice"), (second, "alice"), (other, "bob")):
            client.log_in(user)
            client.send(query("BEGIN"))
            client.ready()
        first.send(query(f"DECLARE a CURSOR FOR {million}"))
        first.ready()
        refused = second.error(query(f"DECLARE a CURSOR FOR {million}"))
        assert refused["C"] == "53200" and "3 MB" in refused["M"] and "Close cursors" in refused["H"]
        other.send(query(f"DECLARE a CURSOR FOR {million}"))
        assert kinds(other.ready()) == "CZ"
        held = server.server.shares.room.held
        first.send(query("COMMIT"))
        first.ready()
        wait_until(lambda: server.server.shares.room.held < held)
        assert first.rows("SELECT 1") == [["1"]]
        second.send(query(f"ROLLBACK; BEGIN; DECLARE a CURSOR FOR {million}"))
        assert "E" not in kinds(second.ready())


def test_a_long_list_is_written_beside_what_others_ask(tmp_path: Path) -> None:
    """WRK-05: one value of a million items; others are answered between its beginning and its end."""
    with (
        running(tmp_path) as server,
        Client(server.host, server.port, seconds=60) as long,
        Client(server.host, server.port) as other,
    ):
        long.log_in()
        other.log_in("bob")
        long.send(query("SELECT list(i) AS l FROM range(1000000) r(i)"))
        wait_until(lambda: server.server.shares.room.held > 1 << 20)
        found: list[list[tuple[str, bytes]]] = []
        reader = threading.Thread(target=lambda: found.append(long.ready()))
        reader.start()
        answered = 0
        while reader.is_alive():
            assert other.rows("SELECT 1") == [["1"]]
            answered += 1
        assert kinds(found[0]) == "TDCZ"
        assert answered > 3


def test_results_have_at_most_so_many_rows(tmp_path: Path) -> None:
    with running(tmp_path, most_rows=100) as server, Client(server.host, server.port) as client:
        client.log_in()
        assert client.error(query("SELECT * FROM range(101)"))["C"] == "54000"
        assert len(client.rows("SELECT * FROM range(100)")) == 100


def test_the_engines_end_is_the_end_of_what_it_ran_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path) as server, Client(server.host, server.port) as bystander:
        bystander.log_in()
        with Client(server.host, server.port) as client:
            client.log_in()
            refused = client.error(query("crash"))
            assert refused["C"] == "58030"
            assert client.rows("SELECT 1") == [["1"]]  # the same connection, another engine
        assert bystander.rows("SELECT 1") == [["1"]]
        (process,) = server.server.engine.processes
        begun = server.begun()
        bystander.send(query(SLOW))
        assert begun.wait(PATIENCE)
        os.kill(process, signal.SIGKILL)
        found = bystander.ready()
        assert errors(found[0][1])["C"] == "58030"
        assert bystander.rows("SELECT 2") == [["2"]]
        assert server.server.engine.restarts == 2
    ended = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(ended) == 2 and "exit=3 statements=1" in ended[0] and f"process={process} signal=SIGKILL" in ended[1]


def test_a_statement_that_cannot_be_interrupted_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpquery.frontends.postgres.process.supervisor.GRACE", 0.5)
    with running(tmp_path, threads=2) as server, Client(server.host, server.port) as client:
        client.log_in()
        refused = client.error(query("SET statement_timeout = 300; hang"))
        assert refused["C"] == "57014"  # and not the refusal of what hangs, which comes in its own time
        assert client.rows("SELECT 1") == [["1"]]


def test_a_client_does_not_wait_for_an_engine_that_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-01: when the engine stops, if ever, may depend on data; the client hears at the next tick."""
    monkeypatch.setattr("dpquery.frontends.postgres.process.supervisor.GRACE", 1000.0)
    with running(tmp_path, threads=2) as server, Client(server.host, server.port, seconds=30) as client:
        client.log_in()
        assert client.error(query("SET statement_timeout = 300; hang"))["C"] == "57014"
        assert server.server.engine.restarts == 0
        assert client.rows("SELECT 1") == [["1"]]  # by the other thread
        (process,) = server.server.engine.processes
        os.kill(process, signal.SIGKILL)  # the server would end after what it runs


def test_the_server_ends_after_what_it_runs(tmp_path: Path) -> None:
    with (
        running(tmp_path) as server,
        Client(server.host, server.port) as idle,
        Client(server.host, server.port) as busy,
    ):
        idle.log_in()
        busy.log_in()
        begun = server.begun()
        busy.send(query("SELECT sum(i)::BIGINT FROM range(20000000) a(i)"))
        assert begun.wait(PATIENCE)
        server.call(server.server.stop())
        kind, body = idle.read()
        assert (kind, errors(body)["C"]) == ("E", "57P01")
        assert idle.is_closed()
        found = busy.until("E")
        assert rows(found) == [["199999990000000"]]
        assert errors(found[-1][1])["C"] == "57P01"
        with pytest.raises(ConnectionError):
            Client(server.host, server.port)


def test_a_connection_names_a_limited_number_of_things(server: Running) -> None:
    with Client(server.host, server.port) as client:
        client.log_in()
        client.send(b"".join(parse("SELECT 1", f"s{i}") for i in range(1001)) + message(b"S"))
        assert errors(client.ready()[-2][1])["C"] == "54000"
        client.send(query("BEGIN"))
        client.ready()
        client.send(b"".join(bind(f"p{i}", "s1") for i in range(201)) + message(b"S"))
        assert errors(client.ready()[-2][1])["C"] == "54000"
        client.send(execute("p1") + message(b"S"))
        assert kinds(client.ready()) == "EZ"
        client.send(message(b"X"))
        assert client.is_closed()
