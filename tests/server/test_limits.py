"""What is limited: how many come, how long they are silent, how slowly they read; and how the server ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from dpquery.frontends.server.listener import Limits
from tests.server.raw import Client, bind, errors, execute, kinds, message, parse, query, rows, startup
from tests.server.running import Running, running

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


def test_a_login_has_to_be_quick(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(handshake=0.5)) as server:
        for sent in (b"", b"\0\0", startup(user="alice"), startup(user="alice") + b"p\0\0\0\x20half"):
            with Client(server.host, server.port, seconds=5) as client:
                client.send(sent)
                assert client.is_closed()


def test_silence_after_the_login_ends(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(idle=0.5)) as server, Client(server.host, server.port, seconds=5) as client:
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
        for _ in range(50):
            with Client(server.host, server.port) as client:
                try:
                    client.log_in("bob")
                    break
                except AssertionError:
                    time.sleep(0.1)
        else:
            pytest.fail("the room of a client that left is not free")
        for client in clients:
            client.socket.close()


def test_a_client_that_does_not_read_is_left(tmp_path: Path) -> None:
    limits = Limits(patience=0.5)
    with running(tmp_path, limits=limits) as server, Client(server.host, server.port) as client:
        client.log_in()
        client.send(query("SELECT i, repeat('x', 500) AS t FROM range(200000) r(i)"))
        end = time.monotonic() + 30
        while server.server.open and time.monotonic() < end:
            time.sleep(0.1)
        assert server.server.open == 0
        with Client(server.host, server.port) as other:
            other.log_in()
            assert other.rows("SELECT 1") == [["1"]]


def test_a_client_that_leaves_has_its_statement_cancelled(tmp_path: Path) -> None:
    with running(tmp_path, threads=1) as server:
        with Client(server.host, server.port) as client:
            client.log_in()
            client.send(query(SLOW))
            time.sleep(0.3)
        with Client(server.host, server.port, seconds=10) as client:
            client.log_in()
            assert client.rows("SELECT 1") == [["1"]]  # the only thread is free again


def test_results_have_at_most_so_many_rows(tmp_path: Path) -> None:
    with running(tmp_path, most_rows=100) as server, Client(server.host, server.port) as client:
        client.log_in()
        assert client.error(query("SELECT * FROM range(101)"))["C"] == "54000"
        assert len(client.rows("SELECT * FROM range(100)")) == 100


def test_the_engines_end_is_the_end_of_what_it_ran_alone(tmp_path: Path) -> None:
    with running(tmp_path) as server, Client(server.host, server.port) as bystander:
        bystander.log_in()
        with Client(server.host, server.port) as client:
            client.log_in()
            refused = client.error(query("crash"))
            assert refused["C"] == "58000"
            assert client.rows("SELECT 1") == [["1"]]  # the same connection, another engine
        assert bystander.rows("SELECT 1") == [["1"]]
        process = server.server.engine.process
        assert process is not None
        bystander.send(query(SLOW))
        time.sleep(0.3)
        os.kill(process, signal.SIGKILL)
        found = bystander.ready()
        assert errors(found[0][1])["C"] == "58000"
        assert bystander.rows("SELECT 2") == [["2"]]
        assert server.server.engine.restarts == 2


def test_a_statement_that_cannot_be_interrupted_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpquery.frontends.server.supervisor.GRACE", 0.5)
    with running(tmp_path, threads=2) as server, Client(server.host, server.port) as client:
        client.log_in()
        begun = time.monotonic()
        refused = client.error(query("SET statement_timeout = 300; hang"))
        assert refused["C"] == "57014"
        assert time.monotonic() - begun < 5
        assert client.rows("SELECT 1") == [["1"]]


def test_the_server_ends_after_what_it_runs(tmp_path: Path) -> None:
    with (
        running(tmp_path) as server,
        Client(server.host, server.port) as idle,
        Client(server.host, server.port) as busy,
    ):
        idle.log_in()
        busy.log_in()
        busy.send(query("SELECT sum(i)::BIGINT FROM range(20000000) a(i)"))
        time.sleep(0.1)
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
