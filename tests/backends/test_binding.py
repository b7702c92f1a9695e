"""Where statements are tried before they are charged for: shared by sessions, never by processes."""

from __future__ import annotations

import contextlib
import os

import pytest

from dpquery.backends.duckdb.binding import MOST_HELD, EmptyTables, empty_tables
from dpquery.errors import UnsupportedQueryError
from tests.forking import FORK, fork


def _of(number: int) -> EmptyTables:
    return empty_tables({"table0": {f"column{number}": "BIGINT"}})


def test_sessions_over_tables_of_the_same_columns_share_it() -> None:
    assert _of(0) is _of(0) is not _of(1)
    _of(0).bind("SELECT column0 FROM table0", 0, ())
    with pytest.raises(UnsupportedQueryError):
        _of(1).bind("SELECT column0 FROM table0", 0, ())


def test_what_is_compared_with_another_number_is_not_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no number of a comparison is: whether a pattern can be read, or how many rows are left out."""
    tables = empty_tables({"compared": {"x": "DOUBLE", "day": "DATE", "text": "VARCHAR"}})
    run, texts = EmptyTables._runs, list[str]()

    def noting(of: EmptyTables, text: str, numbers: int) -> bool:
        texts.append(text)
        return run(of, text, numbers)

    monkeypatch.setattr(EmptyTables, "_runs", noting)
    asked = "SELECT COUNT(*) FROM compared WHERE (x >= CAST('{}' AS DOUBLE)) AND (day < CAST('{}' AS DATE))"
    for number, day in (("-0.5", "2024-01-01"), ("1e-07", "2024-01-02"), ("7.25", "1970-12-31")):
        tables.bind(asked.format(number, day), 0, ())
    assert len(texts) == 1
    for other in ("x <= CAST('7.25' AS DOUBLE)", "x >= CAST('7.25' AS BIGINT)", "text = 'x >= CAST(''7'' AS DOUBLE)'"):
        tables.bind(f"SELECT COUNT(*) FROM compared WHERE ({other})", 0, ())
    assert len(texts) == 4
    for pattern in ("a", "b", "("):
        with pytest.raises(UnsupportedQueryError) if pattern == "(" else contextlib.nullcontext():
            tables.bind(f"SELECT regexp_matches(text, CAST('{pattern}' AS VARCHAR)) FROM compared", 0, ())
    assert len(texts) == 8  # what does not run is tried twice


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@FORK
def test_a_child_ends_no_engine_of_its_parent() -> None:
    """It would wait for threads that it does not have."""
    for number in range(MOST_HELD):
        _of(number)
    child = fork()
    if child == 0:
        for number in range(2 * MOST_HELD):
            _of(number).bind(f"SELECT column{number} FROM table0", 0, ())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
