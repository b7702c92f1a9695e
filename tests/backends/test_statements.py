"""Statements are parsed once, and planned for what they run over."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery as dp
from dpquery.backends.duckdb import backend
from dpquery.backends.duckdb.sql.sql_expressions import lower
from dpquery.backends.duckdb.statements import parsed
from dpquery.data.engine_readable import PIECE, PIECES, coded
from dpquery.plan.expr import Literal
from dpquery.plan.types import TEXT
from tests.scripted import zero_noise

CATALOG = """
version: 2
dataset: study
privacy_unit: person
budget: {epsilon: 100}
defaults: {epsilon: 1}
tables:
  visits:
    unit: person
    max_rows: 4
    columns:
      person: {type: int64}
      place: {type: text, keys: [a, b, c, d]}
      cost: {type: int64, lower: 0, upper: 100}
"""
QUERY = "SELECT place, SUM(cost) AS total FROM visits GROUP BY place ORDER BY place"
ENGINE = duckdb.connect()


def visits(people: int, cost: int) -> pd.DataFrame:
    rows = [(person, place, cost) for person in range(people) for place in "abcd"]
    return pd.DataFrame(rows, columns=["person", "place", "cost"])


def session(source: object, folder: Path) -> dp.Session:
    read = dp.Catalog.from_yaml(CATALOG)
    return dp.connect(read, {"visits": source}, ledger=dp.create_ledger(read, folder / "ledger"))


def totals(of: dp.Session, query: str = QUERY) -> list[int]:
    return [int(total) for total in of.sql(query, fresh=True).to_pandas()["total"]]


def test_a_query_is_parsed_once_and_keeps_other_values_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person stands for four of eight values; the release's key, by which turns go, is all that a plan is given."""
    zero_noise(monkeypatch)
    keys = iter(range(1, 1_000))
    monkeypatch.setattr("dpquery.kernel.samplers.random_key", lambda: next(keys) << 64 | 7)
    given, fetch = [], backend.fetch  # type: ignore[attr-defined]
    monkeypatch.setattr(
        backend,
        "fetch",
        lambda cursor, text, numbers: given.append((text, *numbers)) or fetch(cursor, text, numbers),  # type: ignore[func-returns-value]
    )
    rows = pd.DataFrame([(p, "a", 10 * p + i) for p in range(2) for i in range(8)], columns=["person", "place", "cost"])
    rows = pd.concat([rows, rows[rows.person == 0].assign(person=2)])
    with session(rows, tmp_path) as opened:
        found = [totals(opened, "SELECT COUNT(DISTINCT cost) AS total FROM visits") for _ in range(4)]
    assert parsed.cache_info().hits >= 3 and len({text for text, *_ in given}) == 1
    assert len(set(given)) == 4
    assert all(total == 12 for (total,) in found)  # two persons share eight values, and a third has four of her own


@pytest.mark.parametrize("people", [3, 5_000])
def test_a_file_that_was_written_anew_is_planned_anew(
    people: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a plan knows of a file, as the ranges of its values, must not outlive it."""
    zero_noise(monkeypatch)
    path = tmp_path / "visits.parquet"
    visits(3, 1).to_parquet(path, index=False)
    with session(path, tmp_path) as opened:
        assert sum(totals(opened)) == 3 * 4
        visits(people, 99).to_parquet(path, index=False)
        os.utime(path, ns=(1, 1))
        assert sum(totals(opened)) == people * 4 * 99


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_a_text_is_written_as_a_constant_of_the_same_characters(value: str) -> None:
    written = lower(Literal(value=value, type=TEXT), names=str)
    assert ENGINE.execute(f"SELECT {written}, typeof({written})").fetchall() == [(value, "VARCHAR")]


@pytest.mark.parametrize("value", ["'", "''; DROP TABLE t; --", "\\", "$1", "?", "ü", "\n", "%s", "{x}"])
def test_no_character_of_a_text_means_anything_in_sql(value: str) -> None:
    written = lower(Literal(value=value, type=TEXT), names=str)
    assert value not in written.replace("'", "", 2)
    assert ENGINE.execute(f"SELECT {written}").fetchall() == [(value,)]


def test_rows_are_cut_into_pieces_without_being_changed() -> None:
    frame = visits(PIECE, 5)
    table = coded(pa.Table.from_pandas(frame, preserve_index=False))
    assert {batch.num_rows for batch in table.to_batches()} == {PIECE}
    assert table.to_pandas()["cost"].equals(frame["cost"])
    large = coded(pa.table({"cost": range(PIECE * PIECES + 1)}))
    assert large.column("cost").num_chunks == 1
