"""Totals that are measured in two parts, and sums of disjoint counts that are measured as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dpquery as dp
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: shop
privacy_unit: customer
neighbours: {neighbours}
budget: {budget}
tables:
  sales:
    unit: id
    max_rows: 4
    columns:
      id: {{type: int64}}
      region: {{type: text, keys: [east, west]}}
      paid: {{type: boolean}}
      open: {{type: boolean, nullable: true}}
      price: {{type: int64, lower: 0, upper: 10}}
      rebate: {{type: int64, lower: 0, upper: 10, nullable: true}}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    """One in which nothing is bought."""
    with opened(tmp_path_factory.mktemp("shop")) as asked:
        yield asked


@pytest.fixture
def buying(tmp_path: Path) -> Iterator[dp.Session]:
    with opened(tmp_path) as asked:
        yield asked


def opened(folder: Path, neighbours: str = "add_remove", budget: str = "{epsilon: 1000}") -> dp.Session:
    text = CATALOG.format(neighbours=neighbours, budget=budget)
    (folder / "shop.yaml").write_text(text)
    catalog = dp.Catalog.load(folder / "shop.yaml")
    rows = [
        {"id": 1, "region": "east", "paid": True, "open": None, "price": 3, "rebate": None},
        {"id": 2, "region": "west", "paid": False, "open": True, "price": 9, "rebate": 2},
    ]
    ledger = dp.create_ledger(catalog, folder / "shop.ledger")
    return dp.connect(catalog, {"sales": pa.Table.from_pylist(rows)}, ledger=ledger)


def measured(session: dp.Session, query: str, *, by_rho: bool = False) -> dict[str, float]:
    """Returns the labels of a query's measurements, with what they lose; those in parallel lose the whole."""
    plan = session.explain(query, rho="1") if by_rho else session.explain(query, epsilon="1")
    return {one.label: float(one.loss.epsilon or one.loss.rho or 0) for one in plan.measurements}


PARTS = [
    ("COUNT(*) FILTER (WHERE paid), COUNT(*)", ["paid", "NOT (paid)"]),
    ("COUNT(*) FILTER (WHERE NOT paid), COUNT(*)", ["NOT (paid)", "paid"]),
    ("AVG(CAST(paid AS int))", ["paid", "NOT (paid)"]),
    ("AVG(CASE WHEN paid THEN 1.0 ELSE 0.0 END)", ["paid", "NOT (paid)"]),
    ("COUNT(*) FILTER (WHERE paid), COUNT(*) FILTER (WHERE NOT paid), COUNT(*)", ["paid", "NOT (paid)"]),
    ("COUNT(*) FILTER (WHERE price > 5), COUNT(*) FILTER (WHERE price <= 5), COUNT(*)", ["price > 5", "price <= 5"]),
    ("COUNT(*) FILTER (WHERE open), COUNT(*)", ["open", "open IS NOT TRUE"]),
    ("AVG(CAST(open AS int))", ["open", "NOT (open)"]),
    (
        "COUNT(*) FILTER (WHERE paid AND price > 5), COUNT(*) FILTER (WHERE paid)",
        ["paid AND price > 5", "paid AND NOT (price > 5)"],
    ),
]


@pytest.mark.parametrize(("columns", "filters"), PARTS)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_total_is_the_sum_of_its_part_and_the_rest(
    session: dp.Session, columns: str, filters: list[str], grouped: bool
) -> None:
    by = " GROUP BY region" if grouped else ""
    found = measured(session, f"SELECT {columns} FROM sales{by}")
    assert found == {f"COUNT(*) FILTER (WHERE {condition})": 1 for condition in filters}


def test_sums_are_measured_in_parts_too(session: dp.Session) -> None:
    found = measured(session, "SELECT SUM(price) FILTER (WHERE paid) AS a, SUM(price) AS b FROM sales")
    assert found == {"SUM(price) FILTER (WHERE paid)": 1, "SUM(price) FILTER (WHERE NOT (paid))": 1}


CELLS = [
    (
        "COUNT(*) FILTER (WHERE paid), COUNT(*) FILTER (WHERE price > 5), COUNT(*)",
        [
            "paid AND price > 5",
            "paid AND NOT (price > 5)",
            "NOT (paid) AND price > 5",
            "NOT (paid) AND NOT (price > 5)",
        ],
    ),
    (
        "AVG(CAST(paid AS int)), SUM(CASE WHEN price > 5 THEN 1 ELSE 0 END)",
        [
            "paid AND price > 5",
            "paid AND NOT (price > 5)",
            "NOT (paid) AND price > 5",
            "NOT (paid) AND NOT (price > 5)",
        ],
    ),
    (
        "COUNT(*) FILTER (WHERE open), COUNT(*) FILTER (WHERE NOT open), COUNT(*)",
        ["open", "NOT (open)", "open IS NOT TRUE AND (NOT (open)) IS NOT TRUE"],
    ),
    (
        "COUNT(*) FILTER (WHERE price < 3), COUNT(*) FILTER (WHERE price > 5), COUNT(*)",
        ["price < 3", "price > 5", "NOT (price < 3) AND NOT (price > 5)"],
    ),
]


@pytest.mark.parametrize(("columns", "filters"), CELLS)
@pytest.mark.parametrize("grouped", [False, True])
def test_a_total_and_two_parts_are_sums_of_cells(
    session: dp.Session, columns: str, filters: list[str], grouped: bool
) -> None:
    by = " GROUP BY region" if grouped else ""
    found = measured(session, f"SELECT {columns} FROM sales{by}")
    assert found == {f"COUNT(*) FILTER (WHERE {condition})": 1 for condition in filters}


def test_cells_add_up_to_parts_and_total(buying: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    columns = "COUNT(*) FILTER (WHERE paid) AS a, COUNT(*) FILTER (WHERE price > 5) AS b, COUNT(*) AS n"
    sums = "SUM(price) AS s, SUM(price) FILTER (WHERE paid) AS t, SUM(price) FILTER (WHERE open) AS u"
    for query, row in ((columns, (1, 1, 2)), (sums, (12, 3, 9))):
        made = buying.sql(f"SELECT {query} FROM sales", epsilon="1").to_arrow()
        assert tuple(column[0].as_py() for column in made.columns) == row


WHOLE = [
    "COUNT(*) FILTER (WHERE paid), COUNT(*) FILTER (WHERE price > 5), COUNT(*) FILTER (WHERE open), COUNT(*)",
    "COUNT(*) FILTER (WHERE rebate > 5), COUNT(rebate)",
]


@pytest.mark.parametrize("columns", WHOLE)
def test_a_total_of_more_parts_or_of_none_stays_one_number(session: dp.Session, columns: str) -> None:
    found = measured(session, f"SELECT {columns} FROM sales")
    assert {"COUNT(*)", "COUNT(rebate)"} & found.keys()


def test_where_one_unit_replaces_another_both_parts_move(tmp_path: Path) -> None:
    session = opened(tmp_path, neighbours="replace_one")
    found = measured(session, "SELECT COUNT(*) FILTER (WHERE paid) AS a, COUNT(*) AS b FROM sales")
    assert set(found) == {"COUNT(*) FILTER (WHERE paid)", "COUNT(*)"} and sum(found.values()) == 1


def test_under_a_budget_of_rho_no_number_gets_more_noise(tmp_path: Path) -> None:
    session = opened(tmp_path, budget="{rho: 100, delta: 1e-6}")
    found = measured(session, "SELECT COUNT(*) FILTER (WHERE paid) AS a, COUNT(*) AS b FROM sales", by_rho=True)
    assert found == {"COUNT(*) FILTER (WHERE paid)": 1, "COUNT(*) FILTER (WHERE NOT (paid))": 1}


def test_under_a_budget_of_rho_a_total_of_two_parts_stays_one_number(tmp_path: Path) -> None:
    """The sum of four cells would have more Gaussian noise."""
    session = opened(tmp_path, budget="{rho: 100, delta: 1e-6}")
    columns = "COUNT(*) FILTER (WHERE paid) AS a, COUNT(*) FILTER (WHERE price > 5) AS b, COUNT(*) AS n"
    assert "COUNT(*)" in measured(session, f"SELECT {columns} FROM sales", by_rho=True)


SUMS = [
    ("COUNT(*) FILTER (WHERE paid) + COUNT(*) FILTER (WHERE NOT paid)", "COUNT(*)"),
    ("COUNT(*) FILTER (WHERE NOT paid) + COUNT(*) FILTER (WHERE paid)", "COUNT(*)"),
    ("COUNT(*) FILTER (WHERE price < 5) + COUNT(*) FILTER (WHERE price >= 5)", "COUNT(*)"),
    (
        "COUNT(*) FILTER (WHERE paid AND price < 5) + COUNT(*) FILTER (WHERE NOT paid AND price < 5)",
        "COUNT(*) FILTER (WHERE price < 5)",
    ),
    ("COUNT(*) FILTER (WHERE open) + COUNT(*) FILTER (WHERE NOT open)", "COUNT(*) FILTER (WHERE open IS NOT NULL)"),
    (
        "COUNT(*) FILTER (WHERE region = 'east') + COUNT(*) FILTER (WHERE region = 'west')",
        "COUNT(*) FILTER (WHERE region = 'east' OR region = 'west')",
    ),
]


@pytest.mark.parametrize(("sum", "label"), SUMS)
def test_of_counts_that_are_only_added_up_one_is_measured(session: dp.Session, sum: str, label: str) -> None:
    assert measured(session, f"SELECT 2 * ({sum}) AS n FROM sales") == {label: 1}


APART = [
    "COUNT(*) FILTER (WHERE paid) + COUNT(*) FILTER (WHERE price > 5)",
    "COUNT(*) FILTER (WHERE paid) - COUNT(*) FILTER (WHERE NOT paid)",
    "COUNT(*) FILTER (WHERE paid) + COUNT(*) FILTER (WHERE NOT paid) AS n, COUNT(*) FILTER (WHERE paid)",
    "COUNT(rebate) FILTER (WHERE paid) + COUNT(*) FILTER (WHERE NOT paid)",
]


@pytest.mark.parametrize("columns", APART)
def test_other_counts_stay_two(session: dp.Session, columns: str) -> None:
    assert len(measured(session, f"SELECT {columns} AS m FROM sales")) == 2
