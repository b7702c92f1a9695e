"""Several engines behind one server: who waits for whom, what one's end ends, and how all of them are replaced."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

import dpquery as dp
from dpquery.frontends.postgres.metrics import metrics_text
from tests.server.raw import CANCEL_REQUEST, SYNC, Client, bind, errors, execute, kinds, packet, parse, query, rows
from tests.server.running import Running, running
from tests.server.serving import ended, entries, make_shop, serving
from tests.waiting import PATIENCE, wait_until

REGIONS = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"
SLOW = "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(Path(tmp_path_factory.mktemp("pool")), workers=2, threads=8) as found:
        yield found


@pytest.fixture
def clients(pool: Running) -> Iterator[list[Client]]:
    """Three clients of alice, one of whose statements runs for ever once `begin` sent it, and one of bob."""
    with contextlib.ExitStack() as opened:
        made = [opened.enter_context(Client(pool.host, pool.port)) for _ in range(4)]
        for client, user in zip(made, ("alice", "alice", "alice", "bob"), strict=True):
            client.log_in(user)
        yield made


def begin(pool: Running, client: Client, text: str = SLOW) -> None:
    """Sends a statement, and waits until a process runs it."""
    begun = pool.begun()
    client.send(query(text))
    assert begun.wait(PATIENCE)


def process_of(found: list[list[str | None]]) -> int:
    """Returns which process has answered `process` or `wait`."""
    return int(found[0][0] or 0)


def cancel(pool: Running, client: Client) -> None:
    with Client(pool.host, pool.port) as other:
        other.send(packet(CANCEL_REQUEST, client.process.to_bytes(4, "big") + client.key))
        assert other.is_closed()


def test_what_is_short_goes_to_the_process_with_nothing_long(
    pool: Running, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpquery.frontends.postgres.execution.LONG", 1e9)  # on however busy a machine
    first, _, _, bob = clients
    begin(pool, first)
    assert len({process_of(bob.rows("process")) for _ in range(5)}) == 1
    cancel(pool, first)
    assert errors(first.ready()[0][1])["C"] == "57014"


def test_who_asks_long_questions_asks_them_of_one_process(
    pool: Running, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-06: so that a process without any is left, however many there are."""
    for place in ("process.supervisor", "execution"):
        monkeypatch.setattr(f"dpquery.frontends.postgres.{place}.LONG", 0.0)
    first, second, _, bob = clients
    assert first.rows("process") and second.rows("process")  # these took long, and so may what comes next
    for client in (first, second):
        begin(pool, client)
    wait_until(lambda: sorted(one.calls for one in pool.server.engine._engines) == [0, 2])
    idle = min(pool.server.engine._engines, key=lambda one: one.calls)
    assert process_of(bob.rows("process")) == idle.process
    for client in (first, second):
        cancel(pool, client)
        client.ready()


def test_shares_and_cancelling_are_the_servers(pool: Running, clients: list[Client]) -> None:
    """WRK-06: one user has a quarter of the threads of all processes together, and any statement can be cancelled."""
    greedy, bob = clients[:3], clients[3]
    for client in greedy[:2]:
        begin(pool, client)
    greedy[2].send(query(SLOW))
    wait_until(lambda: pool.server.shares.statements.waiting == 1)
    assert bob.rows("process")
    text = metrics_text(pool.server)
    assert "dpquery_statements_running 2" in text and "dpquery_engines_ready 2" in text
    for client in greedy:
        cancel(pool, client)
        assert errors(client.ready()[0][1])["C"] == "57014"


def test_the_end_of_one_process_is_the_end_of_what_it_ran_alone(
    pool: Running, clients: list[Client], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """WRK-01, WRK-06: its clients see the one constant error, others nothing, and another process takes its place."""
    first, _, _, bob = clients
    done, restarts = tmp_path / "done", pool.server.engine.restarts
    begin(pool, first)
    begin(pool, bob, f"wait {done}")
    with Client(pool.host, pool.port) as other:
        other.log_in("superset")
        victim = next(one.process or 0 for one in pool.server.engine._engines if SLOW in str(one._calls))
        os.kill(victim, signal.SIGKILL)
        failed = errors(first.ready()[0][1])
        assert (failed["C"], failed["M"]) == ("58030", "the query could not be computed")
        assert first.rows("process") and other.rows("process")
        wait_until(lambda: len(pool.server.engine.processes) == 2)
        done.touch()
        assert process_of(rows(bob.ready())) != victim
    assert pool.server.engine.restarts == restarts + 1
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [
        f"engine ended process={victim} signal=SIGKILL statements=1"
    ]


def test_processes_are_replaced_while_clients_keep_all_they_hold(
    pool: Running, clients: list[Client], tmp_path: Path
) -> None:
    first, second, _, bob = clients
    done, old = tmp_path / "done", set(pool.server.engine.processes)
    second.send(query("SET application_name = 'kept'") + parse("SELECT $1::int + 1 AS n", "kept") + SYNC)
    for _ in range(2):
        second.ready()
    second.send(query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM range(3); FETCH 1 FROM c"))
    assert rows(second.ready()) == [["0"]]
    begin(pool, first, f"wait {done}")
    pool.loop.call_soon_threadsafe(pool.server.engine.renew)
    wait_until(lambda: len(set(pool.server.engine.processes) - old) == 2, "two new processes")
    assert process_of(bob.rows("process")) not in old
    done.touch()
    assert process_of(rows(first.ready())) in old  # it ends where it began
    wait_until(lambda: all(map(ended, old)), "the end of the old processes")
    second.send(query("FETCH 1 FROM c; COMMIT") + bind("", "kept", (b"41",)) + execute() + SYNC)
    assert rows(second.ready()) == [["1"]] and rows(second.ready()) == [["42"]]
    assert second.rows("SHOW application_name") == [["kept"]]


def test_new_data_are_answered_from_by_new_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OUT-20: what an old process refuses for its data a new one answers; what does not start changes nothing."""
    monkeypatch.setattr("dpquery.frontends.postgres.process.pool.PAUSE", 0.1)
    version = tmp_path / "version"
    version.write_text("monday")
    with (
        running(tmp_path, workers=2, arguments={"version": str(version)}) as server,
        Client(server.host, server.port) as client,
        Client(server.host, server.port) as impatient,
    ):
        client.log_in()
        impatient.log_in("bob")
        old = set(server.server.engine.processes)
        assert client.rows("version")[0][1] == "monday"
        version.write_text("broken")
        refused = client.error(query("version"))
        assert (refused["C"], refused["M"]) == ("58030", "the data have changed; nothing was charged")
        assert "these data cannot be opened" in "".join(r.getMessage() for r in caplog.records)
        assert process_of(client.rows("process")) in old  # what needs no data is answered
        version.write_text("tuesday")
        impatient.send(query("SET statement_timeout = 1; version"))  # what waits for them can be given up
        assert client.rows("version")[0][1] == "tuesday"
        assert "E" in kinds(impatient.ready())
        assert impatient.rows("SET statement_timeout = 0; SELECT 1") == [["1"]]
        wait_until(lambda: not old & set(server.server.engine.processes), "the end of the old processes")
        assert server.server.engine.restarts == 0


def test_two_engines_over_one_ledger(tmp_path: Path) -> None:
    """Of the same question at the same moment one is charged; SIGHUP and new data leave connections as they are."""
    make_shop(tmp_path)
    with serving(tmp_path, "--workers", "2", "--memory-limit", "1GB") as shop, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(psycopg.connect(shop.url(), autocommit=True)) for _ in range(4)]
        engines, together, answers = shop.engines(), threading.Barrier(4), []

        def ask(client: psycopg.Connection, text: str) -> None:
            together.wait(PATIENCE)
            answers.append(client.execute(text).fetchall())

        asking = [threading.Thread(target=ask, args=(client, REGIONS)) for client in clients]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert len(engines) == 2 and entries(tmp_path) == 1
        assert len(answers) == 4 and all(answer == answers[0] for answer in answers)
        ledger = dp.Ledger.open(tmp_path / "shop.ledger")
        ledger.new_data_version(by="owner", why="other rows")
        ledger.close()
        shop.process.send_signal(signal.SIGHUP)
        assert clients[0].execute(REGIONS).fetchall() != answers[0]
        assert clients[1].execute(REGIONS).rowcount == 4
        assert entries(tmp_path) == 3  # both versions, and what the owner said
        wait_until(lambda: not set(engines) & set(shop.engines()), "the end of the engines of before")
        assert clients[2].execute(REGIONS).rowcount == 4
    assert shop.process.returncode == 0
    assert entries(tmp_path) == 3
    assert sum("engine replaced" in line for line in shop.said) == 2


@pytest.mark.slow
def test_engines_are_killed_again_and_again(tmp_path: Path) -> None:
    """WRK-04: what runs in one that is killed fails in the same words; released <= recorded <= released + failed."""
    make_shop(tmp_path)
    counts, words, done = Counter[str](), set[str](), threading.Event()
    with serving(tmp_path, "--workers", "2") as shop:

        def ask(which: int) -> None:
            with psycopg.connect(shop.url(), autocommit=True) as client:
                for number in itertools.count():
                    if done.is_set():
                        return
                    try:
                        client.execute(f"SELECT COUNT(*) FROM orders WHERE amount > {which} + {number} / 1000.0")
                        counts["answered"] += 1
                    except psycopg.Error as error:
                        counts["failed"] += 1
                        words.add(f"{error.sqlstate} {error.diag.message_primary}")

        asking = [threading.Thread(target=ask, args=(which,)) for which in range(4)]

        def has_answered(enough: int) -> bool:
            return counts["answered"] > enough

        for thread in asking:
            thread.start()
        for _ in range(10):
            enough = counts["answered"] + 20
            wait_until(partial(has_answered, enough), "answers")
            os.kill(random.choice(shop.engines()), signal.SIGKILL)
        done.set()
        for thread in asking:
            thread.join()
        assert 5 < sum("signal=SIGKILL" in line or "not started" in line for line in shop.said) <= 10
    assert words == {"58030 the query could not be computed"}
    assert counts["answered"] <= entries(tmp_path) <= counts["answered"] + counts["failed"]
