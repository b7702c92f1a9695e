"""Opening a ledger or creating it is one call, and a ledger that was deleted is not begun again."""

from __future__ import annotations

import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.session import connecting

CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: shop
privacy_unit: row
budget: {epsilon: 1}
tables: {sales: {columns: {x: {type: int64, lower: 0, upper: 9}}}}
""")
SALES = pd.DataFrame({"x": [1, 2, 3]})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PAUSE", 0.001)


def opened(path: Path, **options: object) -> dp.Session:
    return dp.connect(CATALOG, {"sales": SALES}, ledger=path, create=True, **options)  # type: ignore[arg-type]


def test_the_first_call_creates_and_later_ones_open(tmp_path: Path) -> None:
    with pytest.raises(dp.LedgerError, match="its owner makes it: create=True, or dpquery ledger create"):
        dp.connect(CATALOG, {"sales": SALES}, ledger=tmp_path / "l")
    assert not any(tmp_path.iterdir())
    for spent in range(3):
        with opened(tmp_path / "l") as session:
            assert session.remaining.epsilon * 5 == 5 - spent
            session.sql("SELECT COUNT(*) FROM sales", epsilon="0.2", fresh=True)


@pytest.mark.parametrize("left", ["l.mark", "l.releases", "l.bak", "l-requests"])
def test_a_deleted_ledger_gives_no_fresh_budget(left: str, tmp_path: Path) -> None:
    """API-02: whatever is left of it tells that it was there."""
    with opened(tmp_path / "l") as session:
        session.sql("SELECT COUNT(*) FROM sales", epsilon=1)
    (tmp_path / left).touch()
    for path in tmp_path.iterdir():
        if path.name != left:
            path.unlink()
    with pytest.raises(dp.LedgerError, match=f"there was one.*remove .*{left} first"):
        opened(tmp_path / "l")
    assert [path.name for path in tmp_path.iterdir()] == [left]
    (tmp_path / left).unlink()
    opened(tmp_path / "l").close()


def test_a_mark_in_another_place_is_looked_for(tmp_path: Path) -> None:
    mark = tmp_path / "elsewhere" / "m"
    mark.parent.mkdir()
    opened(tmp_path / "l", mark=mark).close()
    for path in tmp_path.glob("l*"):
        path.unlink()
    with pytest.raises(dp.LedgerError, match="there was one"):
        opened(tmp_path / "l", mark=mark)


def test_what_is_no_ledger_is_neither_opened_nor_replaced(tmp_path: Path) -> None:
    (tmp_path / "l").write_text("something")
    with pytest.raises(dp.LedgerError):
        opened(tmp_path / "l")
    assert (tmp_path / "l").read_text() == "something"


def test_a_file_without_its_table_is_told_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "sales.parquet").write_bytes(b"")
    opened(tmp_path / "l").close()
    with pytest.raises(dp.CatalogError, match=r"is a file: name its table, as \{'sales': '.*sales.parquet'\}"):
        dp.connect(CATALOG, str(tmp_path / "sales.parquet"), ledger=tmp_path / "l")


def test_an_answer_says_where_its_table_is(tmp_path: Path) -> None:
    with opened(tmp_path / "l") as session:
        answer: Any = session.sql("SELECT COUNT(*) AS n FROM sales", epsilon="0.3")
    for reads in (lambda: answer["n"], lambda: answer[0], lambda: list(answer)):
        with pytest.raises(TypeError, match=r"no brackets: its table is to_pandas\(\)"):
            reads()
    with pytest.raises(AttributeError, match=r"no 'df': its table is to_pandas\(\)"):
        answer.df()
    assert not hasattr(answer, "_ipython_display_") and copy.copy(answer).columns == ("n",)


def test_many_at_once_begin_one_ledger(tmp_path: Path) -> None:
    """ACC-01: whoever comes first creates it, and all spend from one budget."""

    def ask(number: int) -> bool:
        with opened(tmp_path / "l") as session:
            try:
                session.sql("SELECT COUNT(*) FROM sales", epsilon="0.3", fresh=True)
            except dp.InsufficientBudgetError:
                return False
            return True

    with ThreadPoolExecutor(6) as threads:
        answered = list(threads.map(ask, range(6)))
    assert sum(answered) == 3 == len(dp.Ledger.open(tmp_path / "l").entries())


def test_the_readme_runs_twice(tmp_path: Path) -> None:
    """C19: the example of SQL in Python, as somebody runs a script again."""
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    block = text.split("### SQL in Python")[1].split("```python\n")[1].split("```")[0]
    told = [subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True) for _ in range(2)]
    assert [run.returncode for run in told] == [0, 0], told[1].stderr.decode()
    assert all("left: epsilon 1.5" in run.stdout.decode() for run in told), "the second time, answers are stored"
