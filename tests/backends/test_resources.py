"""Memory of the engines has a limit, and what does not fit goes to encrypted files that nobody else may open."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.engine import (
    FILE_SETTINGS,
    HAND_BACK,
    HANDED_BACK,
    PREPARED_SETTINGS,
    PRIVATE_SETTINGS,
    DuckDBEngine,
)
from dpquery.backends.resources import PREFIX, Resources
from dpquery.errors import BackendError, CatalogError
from tests.attacks.clinic import Clinic, frames
from tests.backends.engines import catalog_of
from tests.forking import FORK

CATALOG = catalog_of({"t": {"unit": "id", "max_rows": 8, "columns": {"id": {"type": "int64"}}}})
DATA = {"t": pd.DataFrame({"id": range(10)})}
SETTINGS = (
    "SELECT name, value FROM duckdb_settings() WHERE name IN ('memory_limit', 'temp_directory', 'temp_file_encryption')"
)


def settings(engine: DuckDBEngine) -> dict[str, str]:
    return dict(engine.cursor().execute(SETTINGS).fetchall())


def test_both_engines_share_the_limit() -> None:
    backend = DuckDBBackend(CATALOG, DATA, resources=Resources("4GiB"))
    assert settings(backend._private)["memory_limit"] == "3.0 GiB"
    assert settings(backend._public)["memory_limit"] == "1.0 GiB"


def test_processes_share_the_limit() -> None:
    """WRK-06: several engines of one server take no more memory together than one would."""
    machine = duckdb.connect(":memory:")
    for given, wanted in ((Resources("4GiB", processes=2), "2GiB"), (Resources(processes=4), "12.5%")):
        machine.execute(f"SET memory_limit = '{wanted}'")
        whole = machine.execute("SELECT current_setting('memory_limit')").fetchone()
        machine.execute(f"SET memory_limit = {given.settings(1)['memory_limit']}")
        assert machine.execute("SELECT current_setting('memory_limit')").fetchone() == whole
    with pytest.raises(CatalogError, match="for each process"):
        Resources("100MiB", processes=2)


def test_each_thread_of_private_tables_gives_memory_back_and_groups_by_codes() -> None:
    read = ", ".join(f"current_setting('{name}')" for name in PRIVATE_SETTINGS)
    backend = DuckDBBackend(CATALOG, DATA)
    assert backend._private.cursor().execute(f"SELECT {read}").fetchall() == [("97.6 KiB", 17)]


def test_over_files_memory_is_given_back_once_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that is asked for beyond the threshold makes the engine do so."""
    DATA["t"].to_parquet(tmp_path / "t.parquet")
    given, back = list[DuckDBEngine](), DuckDBEngine.hand_back

    def noting(engine: DuckDBEngine) -> None:
        given.append(engine)
        back(engine)

    monkeypatch.setattr(DuckDBEngine, "hand_back", noting)
    for sources, times in ((DATA, 0), ({"t": tmp_path / "t.parquet"}, 2)):
        ledger = dp.create_ledger(CATALOG, tmp_path / f"{times}.ledger")
        with dp.connect(CATALOG, sources, ledger=ledger, reuse=False) as session:
            for _ in range(2):
                session.sql("SELECT COUNT(*) AS n FROM t", epsilon="0.1")
        assert len(given) == times
    read = "current_setting('allocator_bulk_deallocation_flush_threshold')"
    for settings, threshold in ((FILE_SETTINGS, "292.9 KiB"), (PREPARED_SETTINGS, "1.1 MiB")):
        engine = DuckDBEngine({}, keep_order=False, made=[HANDED_BACK], memory=PRIVATE_SETTINGS | settings)
        assert engine.cursor().execute(f"SELECT {read}").fetchall() == [(threshold,)]
    ((_, profiled),) = engine.cursor().execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {HAND_BACK}").fetchall()
    assert json.loads(profiled)["system"]["peak_buffer_memory"] >= 2048 * 400 * 4


def test_by_default_a_session_takes_a_part_of_the_machine() -> None:
    machine = duckdb.connect(":memory:")
    machine.execute("SET memory_limit = '37.5%'")
    wanted = machine.execute("SELECT current_setting('memory_limit')").fetchone()
    backend = DuckDBBackend(CATALOG, DATA)
    assert (settings(backend._private)["memory_limit"],) == wanted


@pytest.mark.parametrize("limit", ["", "4", "4 gigabytes", "-4GB", "0%", "101%", "5KB", "1e3GB", "nan%", "٤GB", "4GB;"])
def test_an_amount_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(CatalogError, match="memory limit"):
        Resources(limit)


def test_the_limit_holds(tmp_path: Path) -> None:
    """What needs more than there is fails where nothing may be spilled, and is answered where it may."""
    text = (
        "SELECT COUNT(*) FROM (SELECT hash(i) AS h, repeat('x', 50) || i AS s FROM range(2000000) t(i) ORDER BY h, s)"
    )
    without = DuckDBBackend(CATALOG, DATA, resources=Resources("64MiB", spill=False))
    with pytest.raises(duckdb.OutOfMemoryException):
        without._private.cursor().execute(text).fetchall()
    within = DuckDBBackend(CATALOG, DATA, resources=Resources("200MiB", spill=str(tmp_path)))
    assert within._private.cursor().execute(text).fetchall() == [(2_000_000,)]


def test_the_folder_is_private_encrypted_and_goes_with_the_session(tmp_path: Path) -> None:
    """BAK-10: nobody else may open it, and nothing of it stays."""
    backend = DuckDBBackend(CATALOG, DATA, resources=Resources(spill=tmp_path))
    found = settings(backend._private)
    folder = Path(found["temp_directory"])
    assert folder.parent == tmp_path
    assert folder.name.startswith(PREFIX)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert found["temp_file_encryption"] == "true"
    with pytest.raises(duckdb.Error):
        backend._private.cursor().execute("SET temp_file_encryption = false")
    with pytest.raises(duckdb.Error):
        backend._private.cursor().execute("SET memory_limit = '100GB'")
    backend.close()
    assert not list(tmp_path.iterdir())


def test_the_folder_goes_with_what_is_never_closed(tmp_path: Path) -> None:
    backend = DuckDBBackend(CATALOG, DATA, resources=Resources(spill=tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    backend._public.cursor()  # an engine that starts when it is asked
    assert len(list(tmp_path.iterdir())) == 2
    backend._private._spill._remove()  # type: ignore[union-attr]
    del backend


@FORK
def test_a_child_leaves_its_parents_files_alone(tmp_path: Path) -> None:
    backend = DuckDBBackend(CATALOG, DATA, resources=Resources(spill=tmp_path))
    child = os.fork()
    if child == 0:
        backend._private._spill.remove()  # type: ignore[union-attr]
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    backend.close()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="folder"):
        Resources(spill=tmp_path / "nowhere")


def test_a_session_that_was_closed_answers_nothing_and_charges_nothing(tmp_path: Path) -> None:
    ward = Clinic(tmp_path)
    session = dp.connect(ward.catalog, frames(), ledger=ward.ledger, memory_limit="1GB", spill=False)
    session.close()
    before = ward.path.read_bytes()
    with pytest.raises(BackendError, match="closed"):
        session.sql("SELECT COUNT(*) FROM people", epsilon=1)
    assert ward.path.read_bytes() == before
