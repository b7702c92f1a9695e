"""TPC-H at a small scale: every query ends as the table says, and what is answered equals DuckDB without noise."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from functools import cache
from pathlib import Path

import duckdb
import pytest

import dpquery as dp
from benchmarks.tpch.outcomes import OUTCOMES, Kind
from benchmarks.tpch.tables import generate, plain_engine, queries, session
from tests.cases.oracle import differences_from
from tests.scripted import zero_noise

FOLDER = tempfile.TemporaryDirectory(prefix="dpquery-tpch-")
ORDERED = {"q01", "q02", "q04", "q08", "q11", "q12", "q16"}
"""Queries whose order no group without rows can disturb."""
TOLERANCE = 1e-6


@cache
def opened() -> tuple[dp.Session, duckdb.DuckDBPyConnection]:
    """Returns a session and plain DuckDB over the tables at scale factor 0.01."""
    paths = generate(Path(FOLDER.name), 0.01)
    return session(paths, Path(FOLDER.name)), plain_engine(paths)


def test_every_query_has_an_outcome() -> None:
    assert list(queries()) == list(OUTCOMES)


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_standard_text_ends_as_the_table_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    outcome, text, private = OUTCOMES[name], queries()[name], opened()[0]
    if outcome.kind is Kind.REFUSED:
        with pytest.raises(dp.QueryError) as caught:
            private.explain(text, epsilon="1")
        assert outcome.message in str(caught.value)
    else:
        _compare(name, text)


def _compare(name: str, text: str) -> None:
    private, plain = opened()
    before = private.remaining
    answer = private.sql(text, epsilon="10", max_groups=100, max_rows=200)
    found = plain.execute(text).fetchall()
    rows = [tuple(float(value) if isinstance(value, Decimal) else value for value in row) for row in found]
    different = differences_from(answer, rows, tolerance=TOLERANCE, ordered=name in ORDERED)
    if any(measured.tau is not None for measured in answer.measurements):  # small groups are not shown
        different = [one for one in different if not one.startswith("the answer has no row")]
    assert not different
    assert (private.remaining == before) is (OUTCOMES[name].kind is Kind.FREE)
