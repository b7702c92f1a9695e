"""`max_rows: auto`: the number is that of the stored profile, for each data version; before one there is a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: shop
privacy_unit: person
budget: BUDGET
defaults: DEFAULTS
tables:
  orders:
    unit: person
    max_rows: auto
    BLOCKS
    columns:
      order: {type: int64}
      person: {type: int64}
      day: {type: date, lower: 2024-01-01, upper: 2024-12-31}
      paid: {type: int64, lower: 0, upper: 100}
  lines:
    unit: {via: orders, on: {order: order}}
    max_rows: ROWS
    columns: {order: {type: int64}}
"""
TOTAL = "SELECT COUNT(*) AS n FROM orders"


def catalog(
    rows: str = "auto", defaults: str = '{epsilon: "1/2"}', budget: str = "{epsilon: 90}", blocks: str = ""
) -> dp.Catalog:
    text = CATALOG.replace("ROWS", rows).replace("DEFAULTS", defaults).replace("BUDGET", budget)
    return dp.Catalog.from_yaml(text.replace("BLOCKS", blocks))


def sources(rows: int = 4) -> dict[str, pd.DataFrame]:
    """Of 500 people: half have so many orders, a quarter twice as many, and so on to eight times."""
    owners = [p for p in range(500) for _ in range(rows * times(p))]
    orders = pd.DataFrame({"order": range(len(owners)), "person": owners, "paid": 10})
    orders["day"] = pd.Timestamp("2024-03-05")
    return {"orders": orders, "lines": pd.DataFrame({"order": orders.order})}


def times(person: int) -> int:
    return 1 if person % 2 else 2 if person % 4 else 4 if person % 8 else 8


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


def opened(folder: Path, declared: dp.Catalog, rows: int = 4, **options: Any) -> dp.Session:
    place = folder / "ledger"
    ledger = dp.Ledger.open(place) if place.exists() else dp.create_ledger(declared, place)
    return dp.connect(declared, sources(rows), ledger=ledger, **options)


def test_a_profile_makes_the_table_usable(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog()) as session:
        with pytest.raises(dp.MissingBoundsError, match=r"session\.profile\(epsilon='0.05'\)"):
            session.sql(TOTAL)
        with pytest.raises(dp.MissingBoundsError):
            session.explain(TOTAL)
        found = session.profile(epsilon=6)
        bound = found["orders"].suggest_max_rows()
        assert found["orders"].bound == bound > 4 and found["orders"].max_rows is None
        assert f"orders, max_rows {bound} (auto): " in found["orders"].sentence
        assert f"max_rows={bound}  stored" in str(session.explain(TOTAL))
        (made,) = session.explain(TOTAL).measurements
        assert made.l1 == bound
        answer = session.sql(TOTAL, epsilon=20)
        assert abs(answer.to_pandas().n[0] - sum(min(bound, 4 * times(person)) for person in range(500))) <= 1
        assert answer.notes[0].startswith(f"orders, max_rows {bound} (auto): ")
        assert session.catalog.table("orders").max_rows is not None, "as it is declared"
        joined = session.explain("SELECT COUNT(*) AS n FROM lines l JOIN orders o ON o.order = l.order")
        assert "stored" in str(joined)


def test_it_is_the_same_for_all_who_share_the_ledger(tmp_path: Path) -> None:
    with opened(tmp_path, catalog()) as session:
        session.profile(epsilon=1)
        first = str(session.explain(TOTAL))
        with opened(tmp_path, catalog(), analyst="ann") as other:
            assert str(other.explain(TOTAL)) == first
            session.profile(epsilon=20, fresh=True)
            assert str(session.explain(TOTAL)) == str(other.explain(TOTAL)), "what is bought later is heard"
    with opened(tmp_path, catalog(), analyst="eve", reuse="own") as own, pytest.raises(dp.MissingBoundsError):
        own.explain(TOTAL)


@pytest.mark.parametrize(("before", "after"), [(4, 40), (40, 4)])
def test_new_data_have_a_number_of_their_own(tmp_path: Path, quiet: None, before: int, after: int) -> None:
    """The ledger binds no number: it may rise and fall, and the budget goes on."""
    bounds = []
    for rows in (before, after):
        with opened(tmp_path, catalog(), rows) as session:
            with pytest.raises(dp.MissingBoundsError):
                session.sql(TOTAL)
            bounds.append(session.profile(epsilon=6)["orders"].bound)
            session.sql(TOTAL)
            left = session.remaining.epsilon
        dp.Ledger.open(tmp_path / "ledger").new_data_version(by="me", why="new data")
    first, second = bounds
    assert first is not None and second is not None
    assert (first < second) is (before < after) and left == 90 - 2 * 6.5
    declared = dp.Catalog.from_yaml(
        CATALOG.replace("auto", "3")
        .replace("ROWS", "3")
        .replace("BLOCKS", "")
        .replace("BUDGET", "{epsilon: 90}")
        .replace("DEFAULTS", '{epsilon: "1/2"}')
    )
    assert dp.amend_ledger(declared, tmp_path / "ledger", by="me", why="a number is written") is None


def test_what_was_planned_before_is_planned_anew(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog(rows="5")) as session:
        session.profile("lines", epsilon=6)
        with pytest.raises(dp.MissingBoundsError):
            session.explain(TOTAL)
        assert session.explain("SELECT COUNT(*) AS n FROM lines").measurements[0].l1 == 5, "a number that is said stays"
        session.profile("orders", epsilon=6)
        assert session.explain(TOTAL).measurements[0].l1 > 4


@pytest.mark.parametrize(
    ("defaults", "budget", "price"),
    [
        ("{}", "{epsilon: 90}", "epsilon 9, a tenth of the budget"),
        ("{}", "{rho: 4, delta: 1e-6}", "rho 0.4, a tenth of the budget"),
        ("{}", "{epsilon: 60, delta: 1e-6}", "epsilon 6, a tenth of the budget"),
        ("{rho: 0.01}", "{rho: 4, delta: 1e-6}", "rho 0.01"),
    ],
)
def test_without_a_default_loss_a_tenth_of_the_budget_is_usual(
    tmp_path: Path, quiet: None, defaults: str, budget: str, price: str
) -> None:
    with opened(tmp_path, catalog(defaults=defaults, budget=budget)) as session:
        asked: dict[str, Any] = {"rho": 1} if "rho" in budget else {"epsilon": 6}
        found = session.profile(**asked)
        text = str(found)
        assert f"suits queries of 24 groups at {price}\n" in text and "(auto): " in text
        asked = {"rho": 1} if "rho" in budget else {"epsilon": 1}
        assert session.explain(TOTAL, **asked).measurements


def test_a_profile_of_too_few_units_prints_and_suggests_nothing(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog(defaults="{}")) as session:
        found = session.profile(epsilon="0.002")
        assert "max_rows auto: the profile shows too few units compared with its noise" in str(found)
        assert found["orders"].bound is None and "rule" not in str(found)
        with pytest.raises(dp.ParameterError, match="too few units"):
            found["orders"].loss()
        with pytest.raises(dp.MissingBoundsError, match="with more epsilon where it shows too few units"):
            session.sql(TOTAL, epsilon=1)


def test_a_session_that_stores_nothing_uses_what_it_bought(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog(), reuse=False) as session:
        session.profile(epsilon=6)
        assert "(auto): " in session.sql(TOTAL).notes[0]
    with opened(tmp_path, catalog(), reuse=False) as session, pytest.raises(dp.MissingBoundsError):
        session.sql(TOTAL)


def test_no_more_rows_than_are_read(tmp_path: Path, quiet: None) -> None:
    declared = catalog(defaults="{epsilon: 4, row_limit: 20}")
    with opened(tmp_path, declared) as session:
        assert session.profile(epsilon=6)["orders"].bound == 20
        assert session.explain(TOTAL).measurements[0].l1 == 20
