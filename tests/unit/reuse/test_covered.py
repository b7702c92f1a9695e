"""Public values that cover the rows of one query need not cover those of another."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp

REGIONS = pd.DataFrame({"region": ["east", "north", "south", "west"], "country": ["x", "x", "y", "y"]})
ROWS = 4000
CATALOG = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 1000}
tables:
  visits:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      region: {type: text, keys: [east, north, south, west]}
  regions:
    public: true
    unique: [[region]]
    columns:
      region: {type: text}
      country: {type: text}
"""
JOINED = "FROM visits AS v JOIN regions AS r ON v.region = r.region"


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    visits = pd.DataFrame({"id": range(ROWS)})
    visits["region"] = visits["id"].mod(4).map(dict(enumerate(REGIONS["region"])))
    catalog = dp.Catalog.from_yaml(CATALOG)
    ledger = dp.create_ledger(catalog, str(tmp_path / "shop.ledger"))
    return dp.connect(catalog, {"visits": visits, "regions": REGIONS}, ledger=ledger)


def asked(session: dp.Session, query: str, epsilon: str) -> list[int]:
    numbers: list[int] = session.sql(query, epsilon=epsilon).to_pandas()["n"].tolist()
    return numbers


def test_keys_that_a_condition_beside_them_chose_are_not_taken_for_all(session: dp.Session) -> None:
    """Under `country = 'x'` two regions are all, and elsewhere they are not: the total is not their sum."""
    total = f"SELECT COUNT(*) AS n {JOINED}"
    asked(session, total, "0.1")
    asked(session, f"SELECT r.region, COUNT(*) AS n {JOINED} WHERE r.country = 'x' GROUP BY r.region", "10")
    two = f"SELECT r.region, COUNT(*) AS n {JOINED} WHERE r.region IN ('east', 'north') GROUP BY r.region"
    asked(session, two, "10")
    assert asked(session, total, "0.1") == pytest.approx([ROWS], abs=300)
    assert asked(session, two, "10") == pytest.approx([ROWS / 4] * 2, abs=10)


@pytest.mark.parametrize("condition", ["region <> 'west'", "NOT region = 'west'", "id >= 400 AND region <> 'west'"])
def test_groups_under_a_condition_on_their_key_add_up_to_the_total_under_it(
    session: dp.Session, condition: str
) -> None:
    total = f"SELECT COUNT(*) AS n FROM visits WHERE {condition}"
    parts = f"SELECT region, COUNT(*) AS n FROM visits WHERE {condition} GROUP BY region"
    for query in (total, parts):
        asked(session, query, "0.1")
    assert asked(session, total, "0.1") == [sum(asked(session, parts, "0.1"))]


def test_groups_of_a_joined_key_add_up_to_the_total_under_the_same_condition(session: dp.Session) -> None:
    total = f"SELECT COUNT(*) AS n {JOINED} WHERE r.country = 'x'"
    parts = f"SELECT r.region, COUNT(*) AS n {JOINED} WHERE r.country = 'x' GROUP BY r.region"
    for query in (total, parts, f"SELECT r.region, COUNT(*) AS n {JOINED} GROUP BY r.region"):
        asked(session, query, "0.1")
    assert asked(session, total, "0.1") == [sum(asked(session, parts, "0.1"))]
