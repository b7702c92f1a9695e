"""Prepared data at rest: nothing of people is on the disk, and without the key, or changed, they are not read."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.row_parts import Cutting
from dpquery.backends.duckdb.shard_files import kept
from dpquery.data.encrypted_files import EncryptionKey, is_sealed
from dpquery.data.prepared import MANIFEST, File, manifest_of
from dpquery.errors import CatalogError
from dpquery.session.preparing import erase
from tests.scripted import zero_noise

KEY, OTHER = bytes(range(32)), bytes(32)
NAME = "Wilhelmina Murray"
CATALOG = """
version: 2
dataset: clinic
privacy_unit: patient
budget: {epsilon: 1000}
defaults: {max_rows: 3}
tables:
  visits:
    unit: who
    columns:
      who: {type: text}
      ward: {type: text, keys: [north, south]}
      day: {type: date, lower: 2020-01-01, upper: 2020-12-31}
      cost: {type: float64, lower: 0, upper: 10}
"""
QUESTION = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE day >= DATE '2020-03-01' GROUP BY ward"


class Clinic:
    """Visits of a clinic in files, prepared with a key in three shards, each cut by months or quarters."""

    def __init__(self, folder: Path) -> None:
        self.catalog, self.folder, self.place = dp.Catalog.from_yaml(CATALOG), folder, folder / "data"
        self.ledger = dp.create_ledger(self.catalog, folder / "ledger")
        (folder / "visits").mkdir()
        self.add("1", [NAME, *(f"patient-{i % 50}" for i in range(299))])
        self.prepare()

    def add(self, name: str, who: list[str]) -> None:
        days = pd.to_datetime([f"2020-{1 + i % 12:02}-05" for i in range(len(who))])
        wards = [("north", "south")[i % 2] for i in range(len(who))]
        frame = pd.DataFrame({"who": who, "ward": wards, "day": days, "cost": 2.5})
        frame.to_parquet(self.folder / "visits" / f"{name}.parquet")

    def prepare(self, key: object = KEY, into: Path | None = None) -> Path:
        sources = {"visits": str(self.folder / "visits")}
        return dp.prepare(self.catalog, sources, into or self.place, ledger=self.ledger, shards=3, key=key)

    def answer(self, key: object = KEY, place: Path | None = None) -> list[list[object]]:
        with dp.connect(self.catalog, place or self.place, ledger=self.ledger, key=key, reuse=False) as session:
            return session.sql(QUESTION, epsilon="1").to_pandas().values.tolist()

    @property
    def made(self) -> Path:
        return self.place / manifest_of(self.place, EncryptionKey(KEY)).made


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.delenv("DPQUERY_KEY", raising=False)
    monkeypatch.setattr("dpquery.data.cells.ROWS_OF_CELL", 20)
    zero_noise(monkeypatch)
    return Clinic(tmp_path)


def everything(folder: Path) -> bytes:
    return b"".join(str(f).encode() + f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file())


def test_answers_are_those_of_data_that_are_not_encrypted(clinic: Clinic) -> None:
    plain = clinic.prepare(None, clinic.folder / "plain")
    assert clinic.answer() == clinic.answer(None, plain)
    assert len(list(clinic.made.iterdir())) > 3
    assert NAME.encode() in everything(plain)


def test_nothing_that_tells_is_on_the_disk(clinic: Clinic) -> None:
    """Values, names of tables, public keys, footers, and the key itself."""
    written = everything(clinic.place)
    for word in (NAME.encode(), b"patient", b"visits", b"north", b"digest", KEY, KEY.hex().encode()):
        assert word not in written, word
    assert KEY.hex().encode() not in (clinic.folder / "ledger").read_bytes()


def test_nothing_that_tells_is_on_the_disk_while_it_is_written(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    found, into = list[bytes](), clinic.folder / "anew"

    def look(file: Path, cell: int) -> File:
        found.append(everything(into))
        return kept(file, cell)

    monkeypatch.setattr("dpquery.backends.duckdb.preparing.kept", look)
    monkeypatch.setattr(Cutting, "_sizes", lambda _: (1, 2, 1))  # rows that do not fit into memory
    clinic.prepare(into=into)
    assert any(b"/cut0/" in written for written in found)
    assert not any(word in written for written in found for word in (NAME.encode(), b"patient"))


def _flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _swapped(clinic: Clinic) -> None:
    one, two = sorted(clinic.made.iterdir())[:2]
    held = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(held)


def _plain(clinic: Clinic) -> None:
    """Somebody without the key puts data of theirs in the place."""
    shutil.rmtree(clinic.place)
    clinic.prepare(None)


BROKEN: dict[str, tuple[Callable[[Clinic], object], str]] = {
    "a flipped bit": (lambda clinic: _flipped(min(clinic.made.iterdir())), "not as it was written"),
    "a flipped bit of the manifest": (lambda clinic: _flipped(clinic.place / MANIFEST), "not as it was written"),
    "two files swapped": (_swapped, "not as it was written"),
    "a file cut off": (lambda clinic: os.truncate(min(clinic.made.iterdir()), 90), "not as it was written"),
    "the manifest cut off": (lambda clinic: os.truncate(clinic.place / MANIFEST, 70), "cut off|not as it was written"),
    "data that are not encrypted": (_plain, "is not encrypted"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_was_changed_is_refused_before_a_charge(clinic: Clinic, case: str) -> None:
    change, words = BROKEN[case]
    change(clinic)
    with pytest.raises(CatalogError, match=words):
        clinic.answer()
    assert len(clinic.ledger.entries()) == 0


def test_a_wrong_key_and_no_key_are_refused_before_a_charge(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, words in ((OTHER, "another key"), (None, "give its key")):
        with pytest.raises(CatalogError, match=words):
            clinic.answer(key)
    assert len(clinic.ledger.entries()) == 0
    monkeypatch.setenv("DPQUERY_KEY", KEY.hex())
    assert clinic.answer(None)


def test_files_are_linked_only_under_the_same_key(clinic: Clinic) -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(file.open("rb")) for file in clinic.made.iterdir()]  # no other file gets its number
        before = {os.fstat(file.fileno()).st_ino for file in held}
        clinic.add("2", ["patient-3"])
        for key, are_kept in ((KEY, True), (OTHER, False)):
            clinic.ledger.new_data_version(by="owner", why="more")
            clinic.prepare(key)
            made = clinic.place / manifest_of(clinic.place, EncryptionKey(key)).made
            assert bool(before & {file.stat().st_ino for file in made.iterdir()}) is are_kept
    assert clinic.answer(OTHER)


def test_a_person_is_erased_with_the_key_alone(clinic: Clinic) -> None:
    before = clinic.answer()
    with pytest.raises(CatalogError, match="give its key"):
        erase(clinic.catalog, clinic.place, "patient-7", ledger=clinic.ledger, by="owner")
    erase(clinic.catalog, clinic.place, "patient-7", ledger=clinic.ledger, by="owner", key=KEY)
    assert clinic.answer() != before
    assert all(is_sealed(file.read_bytes()) for file in clinic.place.rglob("*") if file.is_file())
