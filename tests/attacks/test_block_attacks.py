"""Attacks on blocks: filters that look restricting and are not, and budget that is spent twice (ACC, SEN)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.errors import CatalogError, InsufficientBudgetError, LedgerError

CATALOG = """
version: 2
dataset: clinic
privacy_unit: patient
neighbours: replace_one
budget: {epsilon: 1}
tables:
  patients:
    unit: id
    unique: [[id]]
    columns: {id: {type: int64}, day: {type: date, lower: 2024-01-01, upper: 2024-12-31}}
  visits:
    unit: id
    blocks: {column: day, by: month}
    max_rows: 8
    columns:
      id: {type: int64}
      day: {type: date, lower: 2024-01-01, upper: 2024-12-31}
      told: {type: date, lower: 2024-01-01, upper: 2024-12-31}
      cost: {type: int64, lower: 0, upper: 10}
  wards:
    public: true
    unique: [[code]]
    columns: {code: {type: int64}, day: {type: date, lower: 2024-01-01, upper: 2024-12-31}}
"""
ALL, EVERY = "all blocks", "2024-01 to 2024-12, undated"
MARCH = "BETWEEN DATE '2024-03-01' AND DATE '2024-03-31'"
LAST = "(SELECT id, MAX(day) AS day FROM visits GROUP BY id)"


def frames(last: int = 12) -> dict[str, pd.DataFrame]:
    days = [datetime.date(2024 + (m > 12), (m - 1) % 12 + 1, 15) for m in range(1, last + 1)]
    visits = pd.DataFrame({"id": range(len(days)), "day": days, "told": days, "cost": 1})
    wards = pd.DataFrame({"code": [1, 2], "day": [days[0], days[2]]})
    return {"visits": visits, "patients": pd.DataFrame({"id": range(9), "day": days[0]}), "wards": wards}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[dp.Session]:
    catalog = dp.Catalog.from_yaml(CATALOG)
    ledger = dp.create_ledger(catalog, tmp_path / "clinic.ledger")
    with dp.connect(catalog, frames(), ledger=ledger) as made:
        yield made


SEEMING = [
    (f"SELECT COUNT(*) FROM visits WHERE day {MARCH} OR cost > 3", EVERY),
    (f"SELECT COUNT(*) FROM visits WHERE NOT (day {MARCH})", "2024-01 to 2024-02, 2024-04 to 2024-12"),
    (f"SELECT COUNT(*) FROM visits WHERE (day {MARCH}) IS NOT TRUE", EVERY),
    (f"SELECT COUNT(*) FROM visits WHERE told {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM visits WHERE CASE WHEN cost > 3 THEN TRUE ELSE day {MARCH} END", EVERY),
    (f"SELECT COUNT(*) FROM visits WHERE COALESCE(told, day) {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM (SELECT id, told AS day, day AS told FROM visits) visits WHERE day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM (SELECT id, DATE '2024-03-03' AS day FROM visits) visits WHERE day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM (SELECT GREATEST(day, DATE '2024-03-03') AS day, id FROM visits) v WHERE day {MARCH}",
     "2024-01 to 2024-03, undated"),
    (f"SELECT COUNT(*) FROM (SELECT id, MIN(day) AS day FROM visits GROUP BY id) visits WHERE day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM (SELECT *, LAG(day) OVER (PARTITION BY id ORDER BY day) AS before FROM visits) v "
     f"WHERE day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FILTER (WHERE day {MARCH}) FROM visits", EVERY),
    (f"SELECT SUM(CASE WHEN day {MARCH} THEN cost END) FROM visits", EVERY),
    (f"SELECT COUNT(*) FROM visits v LEFT JOIN wards w ON v.cost = w.code AND v.day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM visits v LEFT JOIN wards w ON v.cost = w.code WHERE w.day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM visits v JOIN wards w ON v.cost = w.code WHERE w.day {MARCH}", EVERY),
    (f"SELECT COUNT(b.id) FROM visits a LEFT JOIN {LAST} b ON a.id = b.id AND a.day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM visits a LEFT JOIN {LAST} b ON a.id = b.id WHERE b.day {MARCH} AND a.day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM visits a FULL JOIN {LAST} b ON a.id = b.id WHERE a.day {MARCH}", EVERY),
    (f"SELECT COUNT(*) FROM visits a WHERE day {MARCH} AND id IN (SELECT id FROM visits)", EVERY),
    (f"SELECT COUNT(*) FROM visits a WHERE day {MARCH} AND NOT EXISTS (SELECT 1 FROM visits b WHERE b.id = a.id AND "
     f"b.day < a.day)", EVERY),
    (f"SELECT COUNT(*) FROM (SELECT id FROM visits WHERE day {MARCH} UNION ALL SELECT id FROM visits) u", EVERY),
    (f"SELECT COUNT(*) FROM (SELECT id, day FROM visits WHERE day {MARCH} EXCEPT SELECT id, day FROM visits) u", EVERY),
    (f"SELECT (SELECT COUNT(*) FROM visits WHERE day {MARCH}) + (SELECT COUNT(*) FROM visits)", EVERY),
    (f"SELECT COUNT(*) FROM visits JOIN patients USING (id) WHERE visits.day {MARCH}", ALL),
    (f"SELECT COUNT(*) FROM visits v WHERE v.day {MARCH} AND id IN (SELECT id FROM patients)", ALL),
    (f"SELECT COUNT(*) FROM patients WHERE day {MARCH}", ALL),
    ("SELECT COUNT(*) FROM visits WHERE day > DATE '2024-12-31'", ALL),
]  # fmt: skip


@pytest.mark.parametrize(("query", "blocks"), SEEMING)
def test_a_filter_that_only_seems_to_restrict_pays_for_what_it_reads(
    session: dp.Session, query: str, blocks: str
) -> None:
    """SEN-05, PAR-10: the charge follows the plan that runs, and not what the text looks like."""
    plan = session.explain(query, epsilon="0.1")
    assert plan.blocks == blocks
    answer = session.sql(query, epsilon="0.1")
    assert answer.blocks == blocks
    left = session.remaining_by_block
    assert left["2024-03"].epsilon * 10 in (9, 10)
    assert (left["2024-07"].epsilon < 1) is not blocks.startswith(("2024-03", "2024-01 to 2024-03"))


TRUE = [
    (f"SELECT COUNT(*) FROM visits WHERE day {MARCH}", "2024-03"),
    (f"WITH v AS (SELECT id, day AS d FROM visits) SELECT COUNT(*) FROM v WHERE d {MARCH} AND id > 3", "2024-03"),
    ("SELECT COUNT(*) FROM visits WHERE DATE_TRUNC('month', day) = DATE '2024-03-01'", "2024-03"),
    ("SELECT COUNT(*) FROM visits WHERE EXTRACT(month FROM day) = 3", "2024-03"),
    ("SELECT COUNT(*) FROM visits WHERE CAST(day AS TIMESTAMP) < TIMESTAMP '2024-02-01 00:00:00'", "2024-01"),
    (
        f"SELECT COUNT(*) FROM visits a JOIN (SELECT DISTINCT id FROM visits WHERE day {MARCH}) b ON a.id = b.id "
        f"AND a.day {MARCH}",
        "2024-03",
    ),
    (
        f"SELECT COUNT(*) FROM (SELECT id, day, COUNT(*) AS k FROM visits GROUP BY id, day) v WHERE day {MARCH}",
        "2024-03",
    ),
]


@pytest.mark.parametrize(("query", "blocks"), TRUE)
def test_a_filter_that_restricts_spares_the_other_blocks(session: dp.Session, query: str, blocks: str) -> None:
    plan = session.explain(query, epsilon="0.5")
    session.sql(f"SELECT COUNT(*) FROM visits WHERE day {MARCH}", epsilon="0.25")
    assert session.remaining_for(plan).epsilon * 4 == (3 if blocks == "2024-03" else 4)
    assert session.sql(query, epsilon=session.remaining_for(plan).epsilon, fresh=True).blocks == blocks
    assert session.remaining_by_block["2024-07"].epsilon == 1
    with pytest.raises(InsufficientBudgetError):
        session.sql(query, epsilon="0.001", fresh=True)


@pytest.mark.parametrize("condition", ["day IS NULL", f"day {MARCH} AND FALSE", "FALSE"])
def test_what_the_catalog_settles_costs_no_block(tmp_path: Path, condition: str) -> None:
    """PAR-10: 0 at no charge, whatever the rows: also where they break what the catalog says of NULL."""
    catalog = dp.Catalog.from_yaml(CATALOG)
    for name, days in (("as declared", {}), ("undated", {"day": None})):
        (tmp_path / name).mkdir()
        tables = {**frames(), "visits": frames()["visits"].assign(**days)}
        ledger = dp.create_ledger(catalog, tmp_path / name / "clinic.ledger")
        with dp.connect(catalog, tables, ledger=ledger) as session:
            answer = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon="0.5")
            assert answer.to_arrow().to_pylist() == [{"n": 0}]
            assert answer.blocks == ""
            assert not (answer.charge.epsilon or answer.charge.rho or answer.charge.delta)
            assert {left.epsilon for left in session.remaining_by_block.values()} == {1}


def test_rows_without_a_date_are_charged_to_their_own_block(tmp_path: Path) -> None:
    nullable = CATALOG.replace(
        "    columns:\n      id: {type: int64}\n      day: {",
        "    columns:\n      id: {type: int64}\n      day: {nullable: true, ",
    )
    catalog = dp.Catalog.from_yaml(nullable)
    ledger = dp.create_ledger(catalog, tmp_path / "clinic.ledger")
    with dp.connect(catalog, frames(), ledger=ledger) as session:
        assert session.sql("SELECT COUNT(*) FROM visits WHERE day IS NULL", epsilon="0.5").blocks == "undated"
        left = {block: left.epsilon for block, left in session.remaining_by_block.items()}
        assert left.pop("undated") * 2 == 1
        assert set(left.values()) == {1}


def test_new_data_bring_new_budget_and_old_rows_none(tmp_path: Path) -> None:
    """ACC: rows beyond the bounds are not read before they have a budget, and are not moved from one that is spent."""
    place, query = tmp_path / "clinic.ledger", "SELECT COUNT(*) AS n FROM visits"
    old, new = dp.Catalog.from_yaml(CATALOG), dp.Catalog.from_yaml(CATALOG.replace("2024-12-31", "2025-02-28"))
    ledger = dp.create_ledger(old, place)
    before = dp.connect(old, frames(14), ledger=place)
    before.sql("SELECT COUNT(*) FROM patients", epsilon="0.25")
    before.sql(query, epsilon="0.75")
    with pytest.raises(InsufficientBudgetError):
        before.sql(query, epsilon="0.01", fresh=True)
    with pytest.raises(LedgerError, match="dpquery ledger extend"):
        dp.connect(new, frames(14), ledger=place)
    ledger.extend_blocks(last="2025-02", by="the owner", why="two months later")
    with pytest.raises(LedgerError, match="dpquery ledger extend"):
        dp.connect(old, frames(14), ledger=place)
    after = dp.connect(new, frames(14), ledger=place)
    assert {b: r.epsilon for b, r in after.remaining_by_block.items() if r.epsilon} == {
        "2025-01": 0.75,
        "2025-02": 0.75,
    }
    for session in (before, after):  # the older one still reads no row of the new blocks
        with pytest.raises(InsufficientBudgetError):
            session.sql(query, epsilon="0.01", fresh=True)
    assert after.sql(f"{query} WHERE day >= DATE '2025-01-01'", epsilon="0.75").blocks == "2025-01 to 2025-02"
    with pytest.raises(InsufficientBudgetError):
        after.sql(f"{query} WHERE day >= DATE '2025-01-01'", epsilon="0.01", fresh=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("neighbours: replace_one", "neighbours: add_remove", "blocks need neighbours: replace_one"),
        ("by: month", "by: month, max_blocks: 3", "not enforced"),
        ("by: month", "by: fortnight", "not a length of blocks"),
        ("column: day", "column: dya", "not a declared column"),
        ("column: day", "column: cost", "date or timestamp"),
        ("public: true", "public: true\n    blocks: {column: day, by: month}", "costs no budget"),
        ("    unit: id\n    blocks", "    unit: {via: patients, on: {id: id}}\n    blocks", "foreign key"),
        ("    unique: [[id]]", "    unique: [[id]]\n    blocks: {column: day, by: year}", "the same length"),
        ("2024-01-01", "1800-01-01", "more than 1,200 blocks"),
    ],
)
def test_owners_are_told_what_blocks_cannot_promise(old: str, new: str, message: str) -> None:
    assert old in CATALOG
    with pytest.raises(CatalogError, match=message):
        dp.Catalog.from_yaml(CATALOG.replace(old, new))


def test_blocks_need_bounds_and_rows_need_no_replacement() -> None:
    without = CATALOG.replace("day: {type: date, lower: 2024-01-01, upper: 2024-12-31}", "day: {type: date}")
    with pytest.raises(CatalogError, match="declare lower and upper"):
        dp.Catalog.from_yaml(without)
    by_row = CATALOG.replace("privacy_unit: patient\nneighbours: replace_one", "privacy_unit: row")
    catalog = dp.Catalog.from_yaml(by_row.replace("    unit: id\n", ""))
    assert catalog.declarations.protected == "each single row"
    assert "each single row" in catalog.to_text()


def test_every_answer_says_what_it_protects(session: dp.Session) -> None:
    answer = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE day {MARCH}", epsilon="0.5")
    assert answer.protects == "the rows of one patient in one month"
    assert "charged epsilon 0.5 to 2024-03" in str(answer)
    plan = str(session.explain("SELECT COUNT(*) AS n FROM visits", epsilon="0.1"))
    assert plan.endswith("Blocks: 2024-01 to 2024-12, undated; protects the rows of one patient in one month")
    assert "k months is protected by k times the budget" in session.catalog.to_text()
