"""Stored answers under attack: forged, foreign, old and damaged stores, poisoned keys, races (ACC-14, ACC-15)."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.ledger.ledger import Ledger
from dpquery.plan.expr import Call, Column, Literal
from dpquery.plan.types import FLOAT64, INT64, TEXT
from dpquery.reuse.releases import StoredRelease
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.text import NotCanonical, digest, text_of, value_of
from tests.forking import fork
from tests.unit.reuse.shop import Shop

QUERY = "SELECT region, COUNT(*) AS n FROM sales GROUP BY region"
FREE = dp.PrivacyLoss()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    with made.session() as session:
        session.sql(QUERY)
        session.sql("SELECT COUNT(*) FROM sales")
    return made


def _refused(shop: Shop) -> None:
    """The store is refused before anything is charged, and without it all is as it was."""
    before = shop.path.read_bytes()
    with pytest.raises(dp.LedgerError, match="store of answers"), shop.session() as session:
        session.sql(QUERY)
    assert shop.path.read_bytes() == before
    shop.store.unlink()
    with shop.session() as session:
        assert session.sql(QUERY).charge != FREE


def _change(shop: Shop, statement: str, *values: object) -> None:
    connection = sqlite3.connect(shop.store)
    with connection:
        connection.execute(statement, values)
    connection.close()


def _content(shop: Shop) -> dict[str, object]:
    connection = sqlite3.connect(shop.store)
    (content,) = connection.execute("SELECT content FROM release WHERE number = 1").fetchone()
    connection.close()
    read: dict[str, object] = json.loads(content)
    return read


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("content", "{}"),
        ("hash", "0" * 64),
        ("entry", 2),
        ("entry", 9),
        ("entry", 0),
        ("analyst", "eve"),
        ("time", "now"),
    ],
)
def test_a_changed_row_is_refused(shop: Shop, column: str, value: object) -> None:
    _change(shop, f"UPDATE release SET {column} = ? WHERE number = 1", value)
    _refused(shop)


def test_an_old_answer_cannot_be_moved_to_new_data(shop: Shop) -> None:
    """The version is part of the hash: an answer of yesterday does not become one of today."""
    version = Ledger.open(shop.path).new_data_version(by="owner", why="new rows")
    _change(shop, "UPDATE release SET version = ?", version)
    _refused(shop)


def test_an_answer_to_another_question_is_refused(shop: Shop) -> None:
    """A row that is filed under other rows than its own text says."""
    other = digest(str(_content(shop)["base"]) + " ")
    _change(shop, "UPDATE release SET base = ?", other)
    with shop.session() as session:
        assert session.sql(QUERY).charge != FREE  # not found under its own rows


def test_a_forger_without_the_ledger_is_refused(shop: Shop) -> None:
    """A consistent row needs the hash of an entry of this ledger."""
    content, connection = _content(shop), sqlite3.connect(shop.store)
    version, base, entry, analyst, time = connection.execute(
        "SELECT version, base, entry, analyst, time FROM release WHERE number = 1"
    ).fetchone()
    (origin,) = connection.execute("SELECT ledger FROM origin").fetchone()
    connection.close()
    forged = json.dumps(content)
    made = digest(origin, "0" * 64, version, base, str(entry), analyst, time, forged)
    _change(shop, "UPDATE release SET content = ?, hash = ? WHERE number = 1", forged, made)
    _refused(shop)


def _forge(shop: Shop, content: str) -> None:
    """Writes another content into a row, with the right hash."""
    connection = sqlite3.connect(shop.store)
    (origin,) = connection.execute("SELECT ledger FROM origin").fetchone()
    version, base, entry, analyst, time = connection.execute(
        "SELECT version, base, entry, analyst, time FROM release WHERE number = 1"
    ).fetchone()
    connection.close()
    charged = Ledger.open(shop.path).hash_of(entry) or ""
    made = digest(origin, charged, version, base, str(entry), analyst, time, content)
    _change(shop, "UPDATE release SET content = ?, hash = ? WHERE number = 1", content, made)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"base": ' * 50_000, "", "NaN", "1e999"]
)
def test_a_deep_row_or_none_is_refused(shop: Shop, content: str) -> None:
    _forge(shop, content)
    _refused(shop)


def test_all_entries_of_stored_answers_are_read_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many answers are stored, the first question of a session reads the ledger as often."""
    looks, reading = list[int](), Ledger._reading

    def looked(self: Ledger) -> object:
        looks.append(1)
        return reading(self)

    monkeypatch.setattr(Ledger, "_reading", looked)

    def first_question() -> int:
        with shop.session() as session:
            looks.clear()
            assert session.sql(QUERY).charge == FREE
            return len(looks)

    few = first_question()
    with shop.session() as session:
        for least in range(12):
            session.sql(f"SELECT region, COUNT(*) AS n FROM sales WHERE score > {least} GROUP BY region", fresh=True)
            session.sql(QUERY, fresh=True)
    assert first_question() == few


@pytest.mark.parametrize(
    "change",
    [
        {"parts": []},
        {"parts": [["x", "laplace", "1", ["1", "0", "0"], "AAAA"]]},
        {"parts": [["x", "laplace", "-1", ["1", "0", "0"], []]]},
        {"keys": []},
        {"weights": ["many", 1]},
        {"groups": [["east"]]},
        {"selection": [5, "0"]},
        {"selection": [None, "1/0"]},
        {"base": "other"},
        {"facts": ["", [], True, None]},
        {"families": [[[0, "1/4"], [0, "1/2"], [0, "3/4"]]]},
        {"families": [[[0, "1/2"]]]},
    ],
)
def test_a_row_of_the_wrong_form_is_refused(shop: Shop, change: dict[str, object]) -> None:
    """Even if its hash is right."""
    _forge(shop, json.dumps(_content(shop) | change))
    _refused(shop)


def test_the_store_of_another_ledger_is_refused(tmp_path: Path, shop: Shop) -> None:
    """Of another dataset, of the same dataset's other ledger, and of this one with an other format."""
    for name, declared in (("other", {"dataset": "market"}), ("twin", {})):
        foreign = Shop(tmp_path, f"{name}.ledger", **declared)
        with foreign.session() as session:
            session.sql(QUERY)
        shutil.copyfile(foreign.store, shop.store)
        shop.store.chmod(0o600)
        _refused(shop)
    shop.store.unlink()
    with shop.session() as session:
        session.sql(QUERY)
    _change(shop, "PRAGMA user_version = 2")
    _refused(shop)


def test_a_ledger_that_was_put_back_does_not_own_later_answers(tmp_path: Path, shop: Shop) -> None:
    """Even where its mark was put back too; a ledger that its owner accepts has a new version of the data."""
    mark = Ledger.open(shop.path).mark_path
    for file in (shop.path, mark):
        shutil.copyfile(file, tmp_path / f"{file.name}.copy")
    with shop.session() as session:
        session.sql(QUERY, epsilon="3")
    after = mark.read_bytes()
    for file in (shop.path, mark):
        shutil.copyfile(tmp_path / f"{file.name}.copy", file)
    with pytest.raises(dp.LedgerError, match="which the ledger does not have"), shop.session() as session:
        session.sql(QUERY)
    mark.write_bytes(after)
    with pytest.raises(dp.LedgerError, match="it lost entries"):
        shop.session()
    Ledger.reconcile(shop.path, by="owner", why="the disk was lost")
    with shop.session() as session:
        assert session.explain(QUERY, epsilon="0.1").charge != FREE


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garble(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + os.urandom(4000))


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _add_trigger(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TRIGGER t AFTER INSERT ON release BEGIN DELETE FROM release; END")
    connection.close()


@pytest.mark.parametrize("damage", [_truncate, _garble, _link, _open_to_all, _add_trigger])
def test_a_damaged_store_is_refused(shop: Shop, damage: Callable[[Path], None]) -> None:
    damage(shop.store)
    _refused(shop)


def test_one_byte_changes_no_answer(shop: Shop) -> None:
    """Wherever a byte is flipped: the answer is the one that was given, or there is none, or it is paid for."""
    with shop.session() as session:
        given = session.sql(QUERY).to_arrow()
        mean = session.sql(QUERY, fresh=True, epsilon="1000").to_arrow()
    whole = shop.store.read_bytes()
    for place in range(0, len(whole), 211):
        changed = bytearray(whole)
        changed[place] ^= 0x15
        shop.store.write_bytes(bytes(changed))
        try:
            with shop.session() as session:
                planned = session.explain(QUERY, epsilon="1")
                if planned.charge == FREE and planned.measurements[0].stored == (1,):
                    assert session.sql(QUERY, epsilon="1").to_arrow() == given
        except dp.LedgerError:
            pass
    assert mean.num_rows == 3


@pytest.mark.parametrize("other", [{"high": 200}, {"unit": "customer"}, {"dataset": "market"}])
def test_another_catalog_shares_no_answers(tmp_path: Path, other: dict[str, object]) -> None:
    """Changed bounds make other lattices; other units and datasets have other ledgers."""
    query = "SELECT region, SUM(price) AS s FROM sales GROUP BY region"
    shop = Shop(tmp_path)
    with shop.session() as session:
        session.sql(query)
    changed = Shop(tmp_path, "changed.ledger", **other)
    if "high" in other:
        changed.path, changed.store = shop.path, shop.store  # bounds are no part of the promise
    with changed.session() as session:
        assert session.explain(query).charge != FREE


def test_an_answer_is_no_cheaper_than_its_accuracy(shop: Shop) -> None:
    """Mutant 34: a stored answer does not stand in for a more accurate one, and asking often buys nothing."""
    with shop.session() as session:
        coarse = session.sql(QUERY, epsilon="0.01")
        assert session.explain(QUERY, epsilon="1").charge == FREE  # an epsilon of 1 was bought before
        assert session.explain(QUERY, epsilon="1.5").charge == dp.PrivacyLoss(epsilon=Fraction(3, 2))
        answers = {str(session.sql(QUERY, epsilon="0.01").to_arrow()) for _ in range(20)}
        assert answers == {str(coarse.to_arrow())}  # nothing to average


def test_texts_of_plans_do_not_collide() -> None:
    texts = {
        text_of(value)
        for value in (None, True, False, 1, 0, 1.0, -0.0, 0.0, "1", "true", "", ("a", "b"), ("a,b",), (("a",), "b"), ())
    }
    assert len(texts) == 15
    one = Call(function="concat", arguments=(Literal(value='a","b', type=TEXT),), type=TEXT)
    two = Call(function="concat", arguments=(Literal(value="a", type=TEXT), Literal(value="b", type=TEXT)), type=TEXT)
    assert text_of(one) != text_of(two)
    assert text_of(Literal(value=None, type=INT64)) != text_of(Literal(value=None, type=FLOAT64))
    for value in (None, True, 3, -2.5, "x", "é\udc80"):
        assert value_of(text_of(value)) == value
    with pytest.raises(NotCanonical):
        text_of(Column(id="c1", type=INT64))
    for text in ("[]", '["int"]', '["int", "x"]', '["decimal", "x"]', '["os", "1"]', "{}", "", "[1, 2]", "3"):
        with pytest.raises(ValueError):
            value_of(text)


def _ask(folder: str, analyst: str) -> None:
    shop = object.__new__(Shop)
    from tests.unit.reuse.shop import catalog

    shop.catalog, shop.path = catalog(), Path(folder) / "shop.ledger"
    with shop.session(analyst) as session:
        for place in range(12):
            session.sql(f"SELECT region, COUNT(*) FROM sales WHERE score > {place} GROUP BY region", epsilon="0.1")


def test_processes_write_at_once(tmp_path: Path, shop: Shop) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_ask, args=(str(tmp_path), name)) for name in ("ann", "bob")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    entries = shop.entries()
    assert 2 + 12 <= entries <= 2 + 24
    _ask(str(tmp_path), "eve")
    assert shop.entries() == entries


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("place", ["before the charge", "before the run", "before the store", "after the store"])
def test_a_process_that_is_killed_gives_no_draw_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """THREATS 3: charge, run, add noise, store, answer; killed anywhere, what is stored was charged, and only that."""
    shop = Shop(tmp_path)

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = fork()
    if child == 0:
        add = ReleaseStore.add

        def add_and_die(store: ReleaseStore, version: str, releases: Sequence[StoredRelease]) -> None:
            add(store, version, releases)
            die()

        session = shop.session()
        if place == "before the charge":
            monkeypatch.setattr(Ledger, "charge", die)
        elif place == "before the run":
            monkeypatch.setattr(DuckDBBackend, "run", die)
        else:
            monkeypatch.setattr(ReleaseStore, "add", die if place == "before the store" else add_and_die)
        session.sql(QUERY)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert shop.entries() == (0 if place == "before the charge" else 1)
    with shop.session("bob") as session:
        assert len(session.releases) == (1 if place == "after the store" else 0)
        answer = session.sql(QUERY)
        assert (answer.charge == FREE) is (place == "after the store")
        assert session.sql(QUERY).to_arrow() == answer.to_arrow()


def test_the_store_is_its_owners_alone_and_holds_nothing_exact(shop: Shop) -> None:
    assert shop.store.stat().st_mode & 0o777 == 0o600
    content = _content(shop)
    assert set(content) == {
        "base",
        "contract",
        "conditions",
        "keys",
        "weights",
        "facts",
        "names",
        "groups",
        "selection",
        "parts",
    }
    assert b"town 1" not in shop.store.read_bytes()
    assert ReleaseStore(Ledger.open(shop.path)).place == str(shop.store)


def test_explaining_reads_no_rows_and_writes_nothing(shop: Shop) -> None:
    before = shop.store.read_bytes(), shop.path.read_bytes()
    with shop.session() as session:
        session.explain(QUERY, epsilon="0.1")
        session.explain(QUERY, epsilon="5")
    assert (shop.store.read_bytes(), shop.path.read_bytes()) == before
