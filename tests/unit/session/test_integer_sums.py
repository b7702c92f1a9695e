"""Sums of integers are decimals, as in PostgreSQL: they overflow nowhere, and their quotients have fractions."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.errors import MissingBoundsError
from tests.scripted import zero_noise

LARGE = 1_700_000_000_000_000


def session(folder: Path, columns: dict[str, object], frame: pd.DataFrame | pa.Table) -> dp.Session:
    """Returns a session over one table `t` of rows of their own."""
    catalog = dp.Catalog(
        dataset="sums",
        privacy_unit="row",
        budget={"epsilon": 10**6},
        tables={"t": {"columns": columns}},
    )
    return dp.connect(catalog, sources={"t": frame}, ledger=dp.create_ledger(catalog, folder / "sums.ledger"))


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dp.Session:
    zero_noise(monkeypatch)
    frame = pd.DataFrame({"g": ["a"] * 3 + ["b"], "x": [LARGE] * 4})
    columns = {"g": {"type": "text", "keys": ["a", "b"]}, "x": {"type": "int64", "lower": 0, "upper": 2 * 10**15}}
    return session(tmp_path, columns, frame)


def test_shares_of_a_total_have_fractions(groups: dp.Session) -> None:
    answer = groups.sql("SELECT g, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY g", epsilon=1)
    assert answer.to_pandas()["share"].tolist() == [0.75, 0.25]


def test_sums_are_decimals_in_arrow_and_integers_in_pandas(groups: dp.Session) -> None:
    answer = groups.sql("SELECT g, SUM(x) AS total FROM t GROUP BY g", epsilon=1)
    assert answer.to_arrow().schema.field("total").type == pa.decimal128(32, 0)
    assert answer.to_arrow()["total"].to_pylist() == [Decimal(3 * LARGE), Decimal(LARGE)]
    assert answer.to_pandas()["total"].dtype == "int64"
    assert "5,100,000,000,000,000" in str(answer)


def test_sums_of_sums_and_windows_above_are_exact(groups: dp.Session) -> None:
    text = """
        SELECT g, SUM(n) OVER (ORDER BY g) AS running, n * 3 AS thrice, n - 1 AS less
        FROM (SELECT g, SUM(x) AS n FROM t GROUP BY g) AS s
    """
    table = groups.sql(text, epsilon=1).to_arrow()
    assert [str(field.type)[:7] for field in table.schema][1:] == ["decimal"] * 3
    assert table["running"].to_pylist() == [3 * LARGE, 4 * LARGE]
    assert table["thrice"].to_pylist() == [9 * LARGE, 3 * LARGE]
    assert table["less"].to_pylist() == [3 * LARGE - 1, LARGE - 1]


@pytest.mark.parametrize(
    ("type", "upper"), [("int64", 2**63 - 1), ("decimal(18, 0)", 2 * 10**15), ("decimal(20, 2)", 10**17)]
)
def test_sums_beyond_64_bits_are_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type: str, upper: int
) -> None:
    zero_noise(monkeypatch)
    values = pa.array([Decimal(LARGE)] * 20_000, pa.decimal128(18, 0))
    given = session(tmp_path, {"x": {"type": type, "lower": -upper, "upper": upper}}, pa.table({"x": values}))
    table = given.sql("SELECT SUM(x) AS total, AVG(x) AS mean, STDDEV_POP(x) AS spread FROM t", epsilon=1).to_arrow()
    step = upper / 2**42
    assert float(table["total"][0].as_py()) == pytest.approx(20_000 * LARGE, abs=20_000 * step)
    assert table["mean"][0].as_py() == pytest.approx(LARGE, abs=step)
    alone = given.sql("SELECT SUM(x) AS total FROM t", epsilon=1).to_arrow()
    assert float(alone["total"][0].as_py()) == pytest.approx(20_000 * LARGE, abs=20_000 * step)


def test_a_mean_of_the_largest_decimals_is_within_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    large = Decimal(10) ** 37
    values = pa.array([large] * 1000, pa.decimal128(38, 0))
    columns = {"x": {"type": "decimal(38, 0)", "lower": 0, "upper": 9 * 10**37}}
    given = session(tmp_path, columns, pa.table({"x": values}))  # type: ignore[arg-type]
    mean = given.sql("SELECT AVG(x) AS mean FROM t", epsilon=1).to_arrow()["mean"][0].as_py()
    assert mean == pytest.approx(1e37, rel=1e-3)
    with pytest.raises(MissingBoundsError, match=r"does not fit decimal\(38,0\)"):
        given.explain("SELECT SUM(x) AS total FROM t", epsilon=1)
    total = given.sql("SELECT SUM(CAST(x AS double precision)) AS total FROM t", epsilon=1).to_arrow()["total"]
    assert total[0].as_py() == pytest.approx(1e40, rel=1e-3)


def test_totals_of_each_unit_are_public_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    catalog = dp.Catalog(
        dataset="visits",
        privacy_unit="person",
        budget={"epsilon": 10**6},
        tables={
            "visits": {
                "unit": "id",
                "max_rows": 3,
                "columns": {"id": {"type": "int64"}, "n": {"type": "int64", "lower": 0, "upper": 2}},
            }
        },
    )
    frame = pd.DataFrame({"id": [1, 1, 2, 3], "n": [1, 2, 2, 2]})
    ledger = dp.create_ledger(catalog, tmp_path / "visits.ledger")
    given = dp.connect(catalog, sources={"visits": frame}, ledger=ledger)
    text = """
        SELECT total, COUNT(*) AS people FROM (SELECT id, SUM(n) AS total FROM visits GROUP BY id) AS each
        WHERE total BETWEEN 1 AND 4 GROUP BY total
    """
    assert given.sql(text, epsilon=1).to_pandas().to_numpy().tolist() == [[1, 0], [2, 2], [3, 1], [4, 0]]
