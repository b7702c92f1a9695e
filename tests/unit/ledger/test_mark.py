"""The mark by itself: what it remembers, whose it is, and that it never goes back. And entries that nobody allowed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from dpquery.errors import LedgerError
from dpquery.ledger import disk, schema
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.mark import NEWEST, SLOT, Checkpoint, MarkFile, _line
from dpquery.ledger.schema import Mark
from tests.unit.ledger.ledgers import QUERY, UNIT, file_site

IDENTITY = "a" * 64


def level(seq: int) -> Checkpoint:
    return Checkpoint(Mark(seq, f"{seq:064x}"), (seq, 2 * seq, 3 * seq))


def advance(mark: MarkFile, seq: int, identity: str = IDENTITY) -> None:
    with mark.turn() as descriptor:
        mark.advance(descriptor, identity, level(seq))


@pytest.fixture
def mark(tmp_path: Path) -> MarkFile:
    made = MarkFile(tmp_path / "mark")
    made.make(IDENTITY)
    return made


def test_a_new_mark_remembers_the_founding(mark: MarkFile) -> None:
    assert mark.read(IDENTITY).levels == (Checkpoint(Mark(0, IDENTITY), (0, 0, 0)),)
    with pytest.raises(LedgerError, match="File exists"):
        mark.make(IDENTITY)


@pytest.mark.parametrize("most", [1, 2, 5, 100, 1000])
def test_old_levels_are_kept_ever_further_apart(mark: MarkFile, most: int) -> None:
    for seq in range(1, most + 1):
        advance(mark, seq)
    kept = [one.mark.seq for one in mark.read(IDENTITY).levels]
    assert kept[0] == most
    assert kept[-1] == 0
    assert mark.read(IDENTITY).levels[0] == level(most)
    for back in range(most):
        base = next(seq for seq in kept if seq <= back)
        assert most - base <= 2 * (most - back) + 1


def test_a_mark_never_goes_back(mark: MarkFile) -> None:
    advance(mark, 7)
    before = mark.path.read_bytes()
    for seq in (5, 3, 7, 1):
        advance(mark, seq)
    assert mark.path.read_bytes() == before


def test_writers_do_not_overwrite_each_other(mark: MarkFile) -> None:
    threads = [
        threading.Thread(target=lambda i=i: [advance(mark, s) for s in range(i + 1, 400, 8)])  # type: ignore[func-returns-value]
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mark.read(IDENTITY).levels[0] == level(399)


def test_a_mark_knows_whose_it_is(mark: MarkFile) -> None:
    for use in (mark.read, lambda identity: advance(mark, 1, identity)):
        with pytest.raises(LedgerError, match="another ledger"):
            use("b" * 64)


def forge(path: Path, kind: str, account: str, units: tuple[int, int, int], text: str, seq: int = 1) -> None:
    """Adds an entry with a right hash, as somebody who may write the file can."""
    last = path.read_text().splitlines()[-1]
    forged = schema.write(last[: schema.DIGITS], seq, kind, "2026-01-01", account, list(units), text)
    with open(path, "a") as file:
        file.write(f"{forged.line}\n")


WORDS = {"by": "x", "why": "y"}


@pytest.mark.parametrize(
    ("kind", "account", "units", "text"),
    [
        ("charge", "", (1, 0, 0), ""),
        ("charge", "alice", (10**13, 0, 0), ""),
        ("charge", "mallory", (1, 0, 0), ""),
        ("charge", "alice", (0, 0, 0), ""),
        ("charge", "alice", (-1, 0, 0), ""),
        ("charge", "alice", (5 * 10**11 + 1, 0, 0), ""),
        ("charge", "alice", (1, 1, 0), ""),
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


@pytest.mark.parametrize("kind", ["refund", "founding", "checkpoint"])
def test_an_unknown_kind_of_entry_is_refused(tmp_path: Path, kind: str) -> None:
    site = file_site(tmp_path)
    site.create().close()
    forge(Path(site.place), kind, "", (0, 0, 0), "{}")
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(site.place)


@pytest.mark.parametrize("seq", [0, 2, -1])
def test_entries_are_numbered_in_their_order(tmp_path: Path, seq: int) -> None:
    site = file_site(tmp_path)
    site.create().close()
    forge(Path(site.place), "charge", "alice", (1, 0, 0), "", seq)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(site.place)


def test_a_level_that_nobody_said_is_durable_is_made_so_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody wrote it and was killed before the disk had it: who comes next syncs both files."""
    site = file_site(tmp_path)
    first, second, synced = site.create(), site.open(), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync", lambda _: None)
        patch.setattr(MarkFile, "advance", lambda *_: None)
        first.charge(analyst="alice", loss=UNIT, query=QUERY)
        second.charge(analyst="bob", loss=UNIT, query=QUERY)
    content = bytearray(site.mark.read_bytes())
    levels = Checkpoint(Mark(2, first.hash_of(2) or ""), (2 * 10**9, 0, 0))
    content[NEWEST * SLOT : NEWEST * SLOT + SLOT] = _line(levels)
    site.mark.write_bytes(content)
    monkeypatch.setattr(disk, "sync", synced.append)
    assert first._settle(levels) == 2
    assert len(synced) == 2
    assert first._settle(levels) == 2
    assert len(synced) == 2


def test_a_level_whose_sync_failed_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system tells of a failed sync once, and then takes what it holds in memory for what is on the disk: only what
    is written anew reaches the disk with the next sync."""
    site = file_site(tmp_path)
    first, second = site.create(), site.open()
    disks, is_broken = {site.mark: site.mark.read_bytes()}, True
    dirty = set[int]()

    def write(descriptor: int, content: bytes, offset: int) -> int:
        if os.fstat(descriptor).st_ino == site.mark.stat().st_ino:
            dirty.update(range(offset, offset + len(content)))
        return pwrite(descriptor, content, offset)

    def sync(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino != site.mark.stat().st_ino:
            return
        lost, held = sorted(dirty), site.mark.read_bytes()
        dirty.clear()
        if is_broken:
            raise OSError(5, "Input/output error")
        on_disk = bytearray(disks[site.mark])
        for place in lost:
            on_disk[place] = held[place]
        disks[site.mark] = bytes(on_disk)

    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(disk, "sync", sync)
    with pytest.raises(LedgerError, match="Input/output error"):
        first.charge(analyst="alice", loss=UNIT, query=QUERY)
    is_broken = False
    level = Checkpoint(Mark(1, second.hash_of(1) or ""), (10**9, 0, 0))
    assert second._settle(level) == 1  # which had charged, and waited for its turn
    site.mark.write_bytes(disks[site.mark])
    assert MarkFile(site.mark).read(second._terms.identity).newest == level.mark
