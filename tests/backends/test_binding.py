"""Where statements are tried before they are charged for: shared by sessions, never by processes."""

from __future__ import annotations

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
