"""Backends by name: the one that ships, one of another package as the contributor's page says, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.features import Feature, Gap
from dpquery.backends.opening import GROUP, open_backend
from tests.docs.pages import ROOT, blocks
from tests.scripted import zero_noise

PAGE = ROOT / "docs" / "how-to-contribute" / "add-a-backend.md"
CATALOG = """
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 100}
tables:
  orders:
    unit: customer
    max_rows: 2
    columns: {customer: {type: int64}, place: {type: text, keys: [a, b]}, cost: {type: int64, lower: 0, upper: 9}}
"""
ORDERS = pd.DataFrame({"customer": [1, 1, 1, 2, 3, None], "place": [*"aaabba"], "cost": [1, 2, 3, 40, 5, 6]})


def installed(folder: Path, name: str, points: dict[str, str], **files: str) -> None:
    """Makes a folder of the path hold a package, as pip would install it."""
    for file, text in files.items():
        (folder / f"{file}.py").write_text(text, encoding="utf-8")
    said = folder / f"{name.replace('-', '_')}-0.1.dist-info"
    said.mkdir()
    (said / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = [f"[{GROUP}]", *(f"{point} = {value}" for point, value in points.items())]
    (said / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the path, whose modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("dpquery_"):
            del sys.modules[name]


@pytest.fixture
def plain(folder: Path) -> str:
    """The backend of the page, under its name."""
    files = {word[5:]: b.text for b in blocks(PAGE) for word in b.words if word.startswith("file=")}
    project = tomllib.loads(files["pyproject.toml"])["project"]
    points = project["entry-points"][GROUP]
    installed(folder, project["name"], points, dpquery_plain=files["dpquery_plain.py"])
    (name,) = points
    return str(name)


def session(folder: Path, catalog: str = CATALOG, **more: Any) -> dp.Session:
    return dp.connect(
        dp.Catalog.from_yaml(catalog), {"orders": ORDERS}, ledger=folder / "l", create=True, reuse=False, **more
    )


QUERY = "SELECT place, COUNT(*) AS n, SUM(cost) AS s FROM orders GROUP BY place"


@pytest.mark.parametrize("where", ["catalog", "connect", "both"])
def test_the_page_makes_a_backend_that_answers(
    plain: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    catalog = CATALOG if where == "connect" else f"{CATALOG}backend: {plain}\n"
    more = {} if where == "catalog" else {"backend": plain}
    with session(tmp_path, catalog, **more) as asked:
        answer = asked.sql(QUERY, epsilon=1).to_pandas()
        before = asked.remaining
        for ask in (asked.sql, asked.explain):
            with pytest.raises(dp.QueryError, match="does not compute counts of different values"):
                ask("SELECT COUNT(DISTINCT cost) AS n FROM orders", epsilon=1)
        inner = "SELECT ROW_NUMBER() OVER (PARTITION BY customer ORDER BY cost) AS r FROM orders"
        with pytest.raises(dp.QueryError, match="does not compute"):
            asked.sql(f"SELECT COUNT(*) FROM ({inner}) AS t WHERE r = 1", epsilon=1)
        assert asked.remaining == before
    (tmp_path / "duckdb").mkdir()
    with session(tmp_path / "duckdb") as other:
        assert other.sql(QUERY, epsilon=1).to_pandas().equals(answer)


def suite(plain: str, folder: Path, kept: str) -> tuple[int, str]:
    """Returns the exit code of the suite over the package's backend, as a contributor runs it, and what it says."""
    command = [sys.executable, "-m", "tests.backends.conformance", "--backend", plain, "-k", kept]
    path = f"{ROOT}{os.pathsep}{folder}"
    made = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=3_000,
    )
    return made.returncode, made.stdout + made.stderr


FEW = "told_apart or integers_on_a_lattice or (counts_and_sums and case1 and none)"


@pytest.mark.parametrize("kept", [FEW, pytest.param("not nothing", marks=pytest.mark.slow)], ids=["few", "all"])
def test_the_page_makes_a_backend_that_passes_the_suite(plain: str, kept: str, folder: Path) -> None:
    code, said = suite(plain, folder, kept)
    assert code == 0, said
    assert "notimpl: weights counted in the query" in said
    assert re.search(r"\d+ passed, .*\d+ xfailed", said)


def test_a_backend_that_answers_wrongly_or_too_much_fails_the_suite(plain: str, folder: Path) -> None:
    file = folder / "dpquery_plain.py"
    right = file.read_text(encoding="utf-8")
    for old, new in (
        ("weight = 1 if", "weight = 2 if"),
        ("        require(aggregate, self._catalog, self.gaps)\n", ""),
    ):
        assert old in right
        file.write_text(right.replace(old, new), encoding="utf-8")
        code, said = suite(plain, folder, "told_apart or (integers_on_a_lattice and clamped)")
        assert code == 1, said


def test_what_a_backend_says_of_its_tables_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object) -> None:
        raise ValueError("a secret")

    with session(tmp_path) as asked:
        before = asked.remaining
        monkeypatch.setattr(DuckDBBackend, "check", failing)
        with pytest.raises(dp.BackendError, match=r"be looked at \(ValueError\); nothing was charged$") as caught:
            asked.sql(QUERY, epsilon=1)
        assert caught.value.__context__ is None and asked.remaining == before


def test_the_shipped_backend_goes_through_the_same_door() -> None:
    catalog = dp.Catalog.from_yaml(CATALOG)
    for name in (None, "duckdb"):
        assert type(open_backend(catalog, {"orders": ORDERS}, name=name)) is DuckDBBackend


def test_nothing_takes_the_name_of_the_shipped_backend(folder: Path) -> None:
    points = {"duckdb": "dpquery_other:Other", "spark": "dpquery_other:Other"}
    installed(folder, "dpquery-other", points, dpquery_other="raise SystemExit")
    catalog = dp.Catalog.from_yaml(CATALOG)
    assert type(open_backend(catalog, {"orders": ORDERS}, name="duckdb")) is DuckDBBackend
    with pytest.raises(dp.DPQueryError):  # without pyspark, or of a frame that is none of Spark
        open_backend(catalog, {"orders": ORDERS}, name="spark")
    assert "dpquery_other" not in sys.modules


@pytest.mark.parametrize(
    ("points", "text", "error", "says"),
    [
        ({}, "", dp.CatalogError, "no backend 'flink' is installed; known: 'duckdb'"),
        ({"flinks": "dpquery_one:open"}, "raise SystemExit", dp.CatalogError, "did you mean 'flinks'"),
        ({"flink": "dpquery_one:open"}, "raise ValueError('a secret')", dp.BackendError, "not be opened: ValueError$"),
        ({"flink": "dpquery_one:open"}, "", dp.BackendError, "could not be opened: AttributeError$"),
        ({"flink": "dpquery_one:open"}, "def open(*_, resources): return 7", dp.BackendError, "has no check"),
        ({"flink": "dpquery_one:open"}, "def open(*_, resources): return 7 / 0", dp.BackendError, "ZeroDivisionError"),
    ],
)
def test_what_is_not_a_backend_is_refused(
    points: dict[str, str], text: str, error: type[Exception], says: str, folder: Path
) -> None:
    installed(folder, "dpquery-one", points, dpquery_one=text)
    with pytest.raises(error, match=says) as caught:
        session(folder, backend="flink")
    assert caught.value.__cause__ is None and caught.value.__context__ is None, "it may quote data"


def test_a_name_of_two_packages_is_refused(folder: Path) -> None:
    for name in ("dpquery-one", "dpquery-two"):
        installed(folder, name, {"flink": "dpquery_one:open"}, dpquery_one="raise SystemExit")
    with pytest.raises(dp.CatalogError, match="dpquery-one, dpquery-two; remove all but one"):
        session(folder, backend="flink")


def test_what_the_catalog_says_is_not_overruled(tmp_path: Path) -> None:
    with pytest.raises(dp.CatalogError, match="the catalog chooses the backend flink, and 'duckdb' was asked for"):
        session(tmp_path, f"{CATALOG}backend: flink\n", backend="duckdb")


def test_a_catalog_that_names_a_backend_says_so() -> None:
    catalog = dp.Catalog.from_yaml(f"{CATALOG}backend: flink\n")
    assert catalog.backend == "flink" and dp.Catalog.from_yaml(CATALOG).backend is None
    assert "backend: flink, which is trusted" in catalog.to_text()
    assert catalog.declarations == dp.Catalog.from_yaml(CATALOG).declarations


def test_what_can_never_come_has_a_reason() -> None:
    with pytest.raises(ValueError, match="has a reason"):
        Gap("never")
    assert all(feature.value for feature in Feature)
