"""Stored numbers of disjoint filters: what is charged for again, and what an answer read from the store guarantees."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import dpquery as dp

F, M = "COUNT(*) FILTER (WHERE sex = 'F')", "SUM(CASE WHEN sex = 'M' THEN 1 ELSE 0 END)"
BOTH = f"SELECT {F} AS f, {M} AS m FROM people"


def loss(epsilon: int) -> dp.PrivacyLoss:
    return dp.PrivacyLoss(epsilon=Fraction(epsilon))


ONE = loss(1)


def opened(path: Path, *, unit: str, most: int = 1, neighbours: str = "add_remove") -> dp.Session:
    columns: dict[str, object] = {
        "sex": {"type": "text", "keys": ["F", "M"]},
        "age": {"type": "int64", "lower": 0, "upper": 9},
    }
    table: dict[str, object] = {"columns": columns}
    if unit != "row":
        columns["id"] = {"type": "int64"}
        table |= {"unit": "id", "max_rows": most}
    catalog = dp.Catalog(
        dataset="d", privacy_unit=unit, neighbours=neighbours, budget={"epsilon": 100}, tables={"people": table}
    )
    data = pa.table({"id": list(range(100)), "sex": ["F", "M"] * 50, "age": [3, 4] * 50})
    ledger = dp.Ledger.create(path / "ledger", catalog.declarations, catalog.budget, catalog.analysts)
    return dp.connect(catalog, {"people": data}, ledger=ledger, reuse=True)


@pytest.mark.parametrize(("unit", "most"), [("row", 1), ("person", 1), ("person", 3)])
def test_what_was_released_in_parallel_guarantees_as_much_when_it_is_read_again(
    unit: str, most: int, tmp_path: Path
) -> None:
    session = opened(tmp_path, unit=unit, most=most)
    first, again = session.sql(BOTH, epsilon=1), session.sql(BOTH, epsilon=1)
    assert (first.charge, first.guarantee) == (ONE, ONE)
    assert (again.charge, again.guarantee) == (dp.PrivacyLoss(), ONE)
    assert first.to_pandas().equals(again.to_pandas())
    (made, _) = again.measurements
    assert made.loss == ONE
    alone = session.sql(f"SELECT {M} AS m FROM people", epsilon=1)
    assert (alone.charge, alone.guarantee) == (dp.PrivacyLoss(), ONE)
    assert session.remaining == loss(99)


@pytest.mark.parametrize(("unit", "guaranteed"), [("row", 1), ("person", 2)])
def test_one_filter_that_is_stored_and_one_that_is_new(unit: str, guaranteed: int, tmp_path: Path) -> None:
    """The new one pays what the dearest of both would have: nothing is refunded for the one that is there.

    Where each row is a unit, none was read by both releases; rows of one person may have been.
    """
    session = opened(tmp_path, unit=unit)
    assert session.sql(f"SELECT {F} AS f FROM people", epsilon=1).charge == ONE
    both = session.sql(BOTH, epsilon=1)
    assert both.charge == ONE
    assert both.guarantee == loss(guaranteed)


def test_more_accuracy_is_combined_with_what_was_stored(tmp_path: Path) -> None:
    session = opened(tmp_path, unit="person")
    session.sql(BOTH, epsilon=1)
    finer = session.sql(BOTH, epsilon=2)
    assert finer.charge == loss(2)
    assert finer.guarantee == loss(3)
    assert session.sql(BOTH, epsilon=2).guarantee == loss(3)


def test_units_bounded_apart_or_replaced_pay_for_both(tmp_path: Path) -> None:
    session = opened(tmp_path, unit="person", neighbours="replace_one")
    first, again = session.sql(BOTH, epsilon=1), session.sql(BOTH, epsilon=1)
    assert first.guarantee == again.guarantee == ONE
    assert [float(made.loss.epsilon) for made in first.measurements] == [0.5, 0.5]


def test_a_release_that_bounded_apart_is_not_read_as_one_that_bounded_together(tmp_path: Path) -> None:
    """Asked alone, each filter is released by itself: read together they have lost the sum."""
    session = opened(tmp_path, unit="person")
    session.sql(f"SELECT {F} AS f FROM people", epsilon=1)
    session.sql(f"SELECT {M} AS m FROM people", epsilon=1)
    both = session.sql(BOTH, epsilon=1)
    assert (both.charge, both.guarantee) == (dp.PrivacyLoss(), loss(2))


def test_targets_prices_and_batches(tmp_path: Path) -> None:
    session = opened(tmp_path, unit="row")
    plan = session.explain(BOTH, error=10, confidence=0.95)
    alone = session.explain(f"SELECT {F} AS f FROM people", error=10, confidence=0.95)
    assert plan.charge == alone.charge
    assert plan.prices.loc["epsilon=1", "charge"] == 1
    assert plan.prices.loc["error=10", "charge"] == alone.prices.loc["error=10", "charge"]  # type: ignore[operator]
    batch = session.batch([BOTH, f"SELECT {F} AS f, COUNT(*) AS n FROM people"], epsilon=1)
    assert batch.charge == batch.guarantee == ONE


APART = "SELECT (SELECT COUNT(*) FROM people WHERE sex = 'F') AS f, (SELECT SUM(age) FROM people WHERE sex = 'M') AS m"


def test_subqueries_over_disjoint_rows_guarantee_as_much_when_they_are_read_again(tmp_path: Path) -> None:
    session = opened(tmp_path, unit="row")
    first, again = session.sql(APART, epsilon=1), session.sql(APART, epsilon=1)
    assert (first.charge, first.guarantee) == (ONE, ONE)
    assert (again.charge, again.guarantee) == (loss(0), ONE)


def test_what_is_derived_from_releases_of_all_rows_has_lost_both(tmp_path: Path) -> None:
    """The rows that are asked for are disjoint; those that were read are not."""
    session = opened(tmp_path, unit="row")
    session.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", epsilon=1)
    session.sql("SELECT sex, SUM(age) AS s FROM people GROUP BY sex", epsilon=1)
    derived = session.sql(APART, epsilon=1)
    assert (derived.charge, derived.guarantee) == (loss(0), loss(2))


def test_units_of_several_rows_pay_for_each_subquery(tmp_path: Path) -> None:
    session = opened(tmp_path, unit="person")
    answer = session.sql(APART, epsilon=1)
    assert (answer.charge, answer.guarantee) == (ONE, ONE)
    assert [made.loss.epsilon for made in answer.measurements] == [Fraction(1, 2)] * 2
