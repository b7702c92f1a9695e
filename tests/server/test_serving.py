"""The whole server with the real engine: one command, exact charges, kills at bad moments."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest

from dpquery.frontends.cli.main import run
from tests.postgres import programs
from tests.server.raw import Client, query
from tests.server.serving import PASSWORD, Serving, ended, entries, make_shop, serving
from tests.waiting import PATIENCE, wait_until

REGIONS = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = Path(tmp_path_factory.mktemp("shop"))
    make_shop(folder)
    with serving(folder, "--most-epsilon", "1") as found:
        yield found


def test_answers_are_near_the_truth_and_charged_once_each(shop: Serving) -> None:
    before = entries(shop.folder)
    with psycopg.connect(shop.url(), autocommit=True) as connection:
        notices: list[str | None] = []
        connection.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))
        connection.execute("SET dpquery.epsilon = '1'")
        found = connection.execute(REGIONS).fetchall()
        assert [row[0] for row in found] == ["east", "north", "south", "west"]
        assert all(abs(row[1] - 1000) < 400 for row in found)  # Laplace of scale 16: beyond once in 1e10
        assert "charged" in (notices[0] or "")
        for parameter in (3, 4):
            connection.execute(f"{REGIONS.replace('GROUP', 'WHERE amount > %s GROUP')}", [parameter], prepare=True)
        with connection.transaction(), connection.cursor("c") as cursor:
            cursor.execute("SELECT SUM(amount) AS s FROM orders")
            assert len(cursor.fetchall()) == 1
    assert entries(shop.folder) == before + 4


LISTED = "SELECT COUNT(*) AS n FROM orders WHERE region IN ({},{}) AND amount>{}"


@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_need_no_blanks_in_psycopg(shop: Serving, prepare: bool) -> None:
    with psycopg.connect(shop.url(), autocommit=True) as connection:
        row = connection.execute(LISTED.format("%s", "%s", "%s"), ["east", "west", 7], prepare=prepare).fetchone()
        assert row is not None and isinstance(row[0], int)


def test_parameters_need_no_blanks_in_asyncpg(shop: Serving) -> None:
    async def ask() -> object:
        given = {"host": "127.0.0.1", "port": shop.port, "user": "alice", "password": PASSWORD, "database": "shop"}
        connection = await asyncpg.connect(**given)
        try:
            return await connection.fetchval(LISTED.format("$1", "$2", "$3"), "east", "west", 7)
        finally:
            await connection.close()

    assert isinstance(asyncio.run(ask()), int)


def test_what_is_free_is_free(shop: Serving) -> None:
    before = entries(shop.folder)
    with psycopg.connect(shop.url(), autocommit=True) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert "Charge" in str(connection.execute(f"EXPLAIN {REGIONS}").fetchall())
        assert connection.execute("SELECT current_database(), current_user").fetchone() == ("shop", "alice")
        assert connection.execute("SELECT relname FROM pg_class WHERE relname = 'orders'").fetchone() == ("orders",)
        assert "epsilon" in str(connection.execute("SHOW dpquery.remaining").fetchone())
        assert connection.execute("SELECT region FROM orders GROUP BY region").rowcount == 4
    assert entries(shop.folder) == before


def test_refusals_have_states_and_places_and_cost_nothing(shop: Serving) -> None:
    before = entries(shop.folder)
    with psycopg.connect(shop.url(), autocommit=True) as connection:
        for text, sqlstate, position in (
            ("SELECT nope FROM orders", "42703", "8"),
            ("SELECT COUNT(*) FROM nope", "42P01", "22"),
            ("SELECT * FROM orders LIMIT 5", "42501", None),
            ("DELETE FROM orders", "42501", None),
            ("SELEC 1", "42601", None),
            ("SET dpquery.epsilon = 2", "42501", None),
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(text)
            assert caught.value.sqlstate == sqlstate, text
            assert position is None or caught.value.diag.statement_position == position
    assert entries(shop.folder) == before


def test_a_budget_ends_with_its_own_state(shop: Serving) -> None:
    with psycopg.connect(shop.url("bob"), autocommit=True) as connection:
        connection.execute("SET dpquery.epsilon = '1'")
        connection.execute("SELECT COUNT(*) FROM orders WHERE amount > 40")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute("SELECT SUM(amount) FROM orders WHERE amount > 41")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_psql_lists_describes_and_asks(shop: Serving) -> None:
    script = (
        f"\\l\n\\dn\n\\d\n\\d orders\n\\dt+\n\\df\n\\du\n{REGIONS} \\gdesc\n\\copy ({REGIONS}) to stdout csv header\n"
    )
    psql = shutil.which("psql") or programs() / "psql"
    made = subprocess.run(
        [psql, "-X", "-v", "ON_ERROR_STOP=1", shop.url()], input=script, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert "orders" in made.stdout
    assert "region,n\neast," in made.stdout
    assert "double precision" in made.stdout


def test_the_engine_is_killed_while_it_answers(tmp_path: Path) -> None:
    make_shop(tmp_path)
    with serving(tmp_path) as shop, psycopg.connect(shop.url(), autocommit=True) as connection:
        answered = refused = 0

        def is_answered(text: str) -> bool:
            with contextlib.suppress(psycopg.errors.IoError, psycopg.errors.CannotConnectNow):
                connection.execute(text)
                return True
            return False

        for i in range(4):
            if i % 2:
                for engine in shop.engines():
                    os.kill(engine, signal.SIGKILL)
            else:
                wait_until(lambda: is_answered("SELECT 1"), "another engine")
            if is_answered(f"SELECT COUNT(*) FROM orders WHERE amount > {i}"):
                answered += 1
            else:
                refused += 1
        assert answered >= 2  # those that no engine was killed for
        assert answered <= entries(tmp_path) <= answered + refused


def test_the_server_is_killed_and_starts_again_by_the_same_command(tmp_path: Path) -> None:
    make_shop(tmp_path)
    with serving(tmp_path) as shop:
        engines = shop.engines()
        with Client("127.0.0.1", shop.port) as client:
            client.log_in()
            assert len(client.rows(REGIONS)) == 4
            client.send(query("SELECT COUNT(*) FROM orders WHERE amount > 7"))
            shop.process.kill()
            shop.process.wait(PATIENCE)
    wait_until(lambda: all(ended(engine) for engine in engines), "the end of its engines")
    before = entries(tmp_path)
    assert 1 <= before <= 2
    with serving(tmp_path) as shop, psycopg.connect(shop.url(), autocommit=True) as connection:
        connection.execute("SELECT COUNT(*) FROM orders WHERE amount > 8")
        connection.execute("SELECT COUNT(*) FROM orders WHERE amount > 8")  # stored: free
    assert shop.process.returncode == 0
    assert entries(tmp_path) == before + 1


def test_metrics_are_counts_for_who_shows_the_token_and_names_this_machine(tmp_path: Path) -> None:
    make_shop(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--metrics", f"127.0.0.1:{port}", "--metrics-token", str(tmp_path / "token"))

    def asked(path: str, **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    with serving(tmp_path, *options) as shop, psycopg.connect(shop.url(), autocommit=True) as connection:
        connection.execute("SELECT 1")
        token = (tmp_path / "token").read_text().strip()
        known = {"Authorization": f"Bearer {token}"}
        status, text = asked("/metrics", **known)
        assert asked("/metrics", **known, Host=f"localhost:{port}")[0] == 200
        assert asked("/metrics", **known, Host=f"[::1]:{port}")[0] == 200
        assert asked("/metrics") == asked("/metrics", Authorization=f"Bearer {token}x") == (401, "")
        assert asked("/metrics", **known, Host="rebound.example.org") == (421, "")
        assert asked("/", **known)[0] == 404
    assert status == 200
    assert "dpquery_connections_open 1" in text and "dpquery_statements_waiting 0" in text
    assert 'dpquery_events_total{kind="statements",what="answered"} 1' in text


@pytest.mark.parametrize(
    "options",
    [
        ["--listen", "0.0.0.0:0"],
        ["--listen", "nonsense"],
        ["--listen", "127.0.0.1:99999"],
        ["--tls-cert", "a.crt"],
        ["--require-tls"],
        ["--metrics", "127.0.0.1:0", "--metrics-token", "nowhere/token"],
        ["--row-level", "all"],
        ["--users", "nobody.db"],
        ["--ledger", "nowhere.ledger"],
    ],
)
def test_a_server_that_would_not_be_safe_does_not_start(tmp_path: Path, options: list[str]) -> None:
    make_shop(tmp_path)
    given = ["serve", str(tmp_path / "shop.yaml"), "--users", str(tmp_path / "users.db"), "--listen", "127.0.0.1:0"]
    assert run([*given, *options]) == 2


def test_users_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "users.db")

    def user(*arguments: str, password: str = "") -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
        return run(["user", *arguments, "--users", file])

    assert user("add", "ann", "--password-stdin", "--analyst", "lab", password="long enough") == 0
    assert oct(os.stat(file).st_mode & 0o777) == "0o600"
    assert user("add", "ann", "--password-stdin", password="long enough") == 2
    assert user("add", "ben", "--password-stdin", password="short") == 2
    assert user("add", "bi", "--password-stdin", "--delegate-for", "*", password=PASSWORD) == 0
    assert user("passwd", "ann", "--password-stdin", password="another one") == 0
    assert user("passwd", "nobody", "--password-stdin", password="another one") == 2
    capsys.readouterr()
    assert user("list") == 0
    assert capsys.readouterr().out == "ann: analyst lab\nbi: analyst bi; delegate for *\n"
    assert user("remove", "ann") == 0
    assert user("remove", "ann") == 2
    assert b"long enough" not in Path(file).read_bytes()
    os.chmod(file, 0o644)
    assert user("list") == 2


def test_the_owner_sees_budgets_refusals_and_metrics(tmp_path: Path) -> None:
    make_shop(tmp_path)
    token = tmp_path / "token"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(tmp_path, "--admin", f"127.0.0.1:{port}", "--admin-token", str(token)) as shop:
        with psycopg.connect(shop.url(), autocommit=True) as connection:
            connection.execute(REGIONS)
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT * FROM orders LIMIT 5")
            secret = {"Authorization": f"Bearer {token.read_text().strip()}"}
            page, figures = (
                urllib.request.urlopen(
                    urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=secret), timeout=PATIENCE
                )
                for path in ("/", "/metrics")
            )
            with page, figures:
                shown, counted = page.read().decode(), figures.read().decode()
        assert REGIONS in shown and "42501" in shown and "1 open connection." in shown
        assert "The ledger is unbroken" in shown
        assert 'dpquery_budget_spent{analyst="alice"' in counted
        assert 'dpquery_events_total{kind="refusals",what="42501"} 1\n' in counted
