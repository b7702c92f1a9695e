"""The mark by itself: what it remembers, whose it is, and that it never goes back. And entries that nobody allowed."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest

from dpquery.errors import LedgerError
from dpquery.ledger import schema
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.mark import Level, MarkFile
from dpquery.ledger.schema import Mark
from tests.unit.ledger.ledgers import file_site

IDENTITY = "a" * 64


def level(seq: int) -> Level:
    return Level(Mark(seq, f"{seq:064x}"), (seq, 2 * seq, 3 * seq))


@pytest.fixture
def mark(tmp_path: Path) -> MarkFile:
    made = MarkFile(tmp_path / "mark")
    made.make(IDENTITY)
    return made


def test_a_new_mark_remembers_the_founding(mark: MarkFile) -> None:
    assert mark.read(IDENTITY) == [Level(Mark(0, IDENTITY), (0, 0, 0))]
    with pytest.raises(LedgerError, match="cannot be created"):
        mark.make(IDENTITY)


@pytest.mark.parametrize("most", [1, 2, 5, 100, 1000])
def test_old_levels_are_kept_ever_further_apart(mark: MarkFile, most: int) -> None:
    for seq in range(1, most + 1):
        mark.advance(IDENTITY, level(seq))
    kept = [one.mark.seq for one in mark.read(IDENTITY)]
    assert kept[0] == most
    assert kept[-1] == 0
    assert mark.read(IDENTITY)[0] == level(most)
    for back in range(most):
        base = next(seq for seq in kept if seq <= back)
        assert most - base <= 2 * (most - back) + 1


def test_a_mark_never_goes_back(mark: MarkFile) -> None:
    mark.advance(IDENTITY, level(7))
    before = mark.path.read_bytes()
    for seq in (5, 3, 7, 1):
        mark.advance(IDENTITY, level(seq))
    assert mark.path.read_bytes() == before


def test_writers_do_not_overwrite_each_other(mark: MarkFile) -> None:
    threads = [
        threading.Thread(target=lambda i=i: [mark.advance(IDENTITY, level(s)) for s in range(i + 1, 400, 8)])  # type: ignore[misc]
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mark.read(IDENTITY)[0] == level(399)


def test_a_mark_knows_whose_it_is(mark: MarkFile) -> None:
    for use in (mark.read, lambda identity: mark.advance(identity, level(1))):
        with pytest.raises(LedgerError, match="another ledger"):
            use("b" * 64)


def forge(path: Path, kind: str, account: str, units: tuple[int, int, int], text: str) -> None:
    """Adds an entry with a right hash, as somebody who may write the file can."""
    other = sqlite3.connect(path, isolation_level=None)
    schema.append(other, schema.Kind(kind), account, units, text, "2026-01-01")
    for name in {"", account} if kind == "charge" else set():
        other.execute(
            "UPDATE account SET limit_epsilon = limit_epsilon + ?, spent_epsilon = spent_epsilon + ?", (units[0],) * 2
        )
        assert name in ("", account)
    other.close()


WORDS = {"by": "x", "why": "y"}


@pytest.mark.parametrize(
    ("kind", "account", "units", "text"),
    [
        ("charge", "", (1, 0, 0), ""),
        ("charge", "alice", (10**13, 0, 0), ""),
        ("charge", "mallory", (1, 0, 0), ""),
        ("limit", "alice", (1, 0, 0), json.dumps({**WORDS, "budget": ["pure", "2", "0", "0"]})),
        ("limit", "alice", (10**12, 0, 0), json.dumps({**WORDS, "budget": ["zcdp", "0", "0", "1"]})),
        ("limit", "alice", (10**12, 0, 0), json.dumps(WORDS)),
        ("data", "", (1, 0, 0), json.dumps(WORDS)),
        ("data", "alice", (0, 0, 0), json.dumps(WORDS)),
        ("restore", "alice", (0, 0, 0), json.dumps(WORDS)),
        ("restore", "", (-1, 0, 0), json.dumps(WORDS)),
    ],
)
def test_entries_that_nobody_allowed_are_found(
    tmp_path: Path, kind: str, account: str, units: tuple[int, int, int], text: str
) -> None:
    site = file_site(tmp_path)
    site.create("1", alice="0.5").close()
    forge(Path(site.place), kind, account, units, text)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(site.place)


def test_an_unknown_kind_of_entry_is_refused(tmp_path: Path) -> None:
    site = file_site(tmp_path)
    site.create().close()
    other = sqlite3.connect(site.place, isolation_level=None)
    fields = (1, "2026-01-01", "refund", "", 0, 0, 0, "{}")
    before = schema.last(other).hash
    other.execute(schema.APPEND, (*fields, schema.hash_of(before, *fields)))
    other.close()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(site.place)
