"""Weaknesses that the page admits are still there. When one of these fails, it is gone: change the page."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from tests.docs.pages import ROOT

TABLES = {
    "people": {"unit": "id", "max_rows": 8, "columns": {"id": {"type": "int64"}, "note": {"type": "text"}}},
    "things": {"unit": {"via": "people", "on": {"note": "note"}}, "max_rows": 8, "columns": {"note": {"type": "text"}}},
}
BUDGET = {"epsilon": 1000, "delta": "1e-6"}


def _session(folder: Path, name: str, tables: dict[str, object], sources: dict[str, object]) -> dp.Session:
    catalog = dp.Catalog(dataset=name, privacy_unit="person", budget=BUDGET, tables=tables)
    return dp.connect(catalog, sources, ledger=dp.create_ledger(catalog, folder / f"{name}.ledger"), reuse=False)


def _count(session: dp.Session, query: str) -> int:
    with session:
        return int(session.sql(query, epsilon=20).to_pandas().iloc[0, 0])  # type: ignore[arg-type]


def test_ownership_is_checked_when_a_session_opens_and_its_file_looked_at_again(tmp_path: Path) -> None:
    people = tmp_path / "people.parquet"
    pd.DataFrame({"id": range(50), "note": [str(i) for i in range(50)]}).to_parquet(people)
    things = pd.DataFrame({"note": ["1"]})
    session = _session(tmp_path, "owned", TABLES, {"people": str(people), "things": things})  # type: ignore[arg-type]
    pd.DataFrame({"id": range(500), "note": ["1"] * 500}).to_parquet(people)
    with pytest.raises(dp.BackendError, match="file of table people was changed"):
        _count(session, "SELECT COUNT(*) AS n FROM things")
    with pytest.raises(dp.CatalogError, match="is not unique there"):
        _session(tmp_path, "again", TABLES, {"people": str(people), "things": things})  # type: ignore[arg-type]


def test_the_page_speaks_of_what_the_readme_promises_it_does() -> None:
    page = (ROOT / "docs" / "known-weaknesses.md").read_text(encoding="utf-8")
    for topic in (
        "Time.",
        "Memory and failure.",
        "Code in the same process.",
        "Intervals speak of noise alone",
        "backups",
    ):
        assert topic in page
