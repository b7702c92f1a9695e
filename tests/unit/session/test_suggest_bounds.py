"""Bounds found with noise: what is suggested, what it costs, and that the catalog that is printed loads."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.catalog.write import write_catalog
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: shop
privacy_unit: person
budget: {epsilon: 20}
analysts: {ann: {epsilon: "20"}}
defaults: {epsilon: "1/3", max_rows: 3}
tables:
  people:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      age: {type: int64, nullable: true}
      income: {type: float64}
      born: {type: date}
      seen: {type: timestamp}
      debt: {type: 'decimal(8,2)'}
      town: {type: text, keys: ["NO", east]}
      fixed: {type: int64, lower: 0, upper: 10, description: "a: b # c"}
      answer: {type: text, randomized: {epsilon: 1, categories: ["yes", "no"]}}
  visits:
    unit: id
    max_groups: 2
    columns: {id: {type: int64}, spent: {type: int64}}
  items:
    unit: {via: people, on: {owner: id}}
    columns: {owner: {type: int64}, worth: {type: int64}}
  towns:
    public: true
    unique: [[town]]
    columns: {town: {type: text}, size: {type: int64}}
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    zero_noise(monkeypatch)  # steps are still held against the noise that there would be
    people = range(1000)
    frame = pd.DataFrame(
        {
            "id": people,
            "age": [None if i % 10 == 0 else 20 + i % 60 for i in people],
            "income": [-300.0 if i % 2 else 4321.5 for i in people],
            "born": [datetime.date(1950 + i % 50, 5, 5) for i in people],
            "seen": [datetime.datetime(2020, 5, 5, 5)] * 1000,
            "debt": [12.25] * 1000,
            "town": "east",
            "fixed": 5,
            "answer": "yes",
        }
    )
    visits = pd.DataFrame({"id": [i for i in people for _ in range(1 + i % 4)]})
    visits["spent"] = [7 if i else 10**12 for i in visits["id"]]
    items = pd.DataFrame({"owner": people, "worth": 40})
    towns = pd.DataFrame({"town": ["east"], "size": [3]})
    catalog = dp.Catalog.from_yaml(CATALOG)
    sources = {"people": frame, "visits": visits, "items": items, "towns": towns}
    with dp.connect(catalog, sources, ledger=dp.create_ledger(catalog, tmp_path / "l"), analyst="ann") as opened:
        yield opened


def test_bounds_hold_what_they_should(session: dp.Session) -> None:
    found = session.suggest_bounds(epsilon=10)
    assert found.bounds == {
        ("people", "age"): (20, 100),
        ("people", "income"): (-500.0, 5000.0),
        ("people", "born"): (datetime.date(1950, 1, 1), datetime.date(2000, 1, 1)),
        ("people", "seen"): (datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)),
        ("people", "debt"): (pytest.approx(10), pytest.approx(20)),
        ("visits", "spent"): (5, 10),
        ("items", "worth"): (20, 50),
    }
    assert found.max_rows == {"visits": 4}
    assert (found.missing, found.charge.epsilon) == ((), 10)  # type: ignore[comparison-overlap]
    assert session.remaining.epsilon == 10


def test_the_catalog_that_is_printed_loads_as_it_was_but_for_bounds(session: dp.Session) -> None:
    found = session.suggest_bounds(["visits.spent", "age"], epsilon=5)
    again = dp.Catalog.from_yaml(str(found))
    was = session.catalog
    assert (again.budget, dict(again.analysts), again.defaults) == (was.budget, dict(was.analysts), was.defaults)
    assert again.declarations.fingerprint() == was.declarations.fingerprint()
    assert again.tables["towns"] == was.tables["towns"] and again.tables["items"] == was.tables["items"]
    assert again.tables["people"].columns["fixed"] == was.tables["people"].columns["fixed"]
    assert again.tables["people"].columns["answer"] == was.tables["people"].columns["answer"]
    assert again.tables["people"].columns["town"].keys == ("NO", "east")
    assert again.tables["people"].columns["age"].upper == 100 and again.tables["people"].columns["age"].nullable
    assert again.tables["visits"].columns["spent"].upper in (7, 10)
    assert "lower: 20, upper: 100, nullable: true}  # suggested" in str(found)
    assert "<pre>" in found._repr_html_()


def test_blocks_are_printed() -> None:
    day = {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
    table = {"blocks": {"column": "day", "by": "month"}, "columns": {"day": day}}
    catalog = dp.Catalog(dataset="d", privacy_unit="row", budget={"epsilon": "1/3"}, tables={"t": table})
    again = dp.Catalog.from_yaml(write_catalog(catalog))
    assert again.tables == catalog.tables and again.budget == catalog.budget


def test_one_person_does_not_move_bounds(session: dp.Session) -> None:
    """The one with a trillion is a step of its own, below the noise."""
    assert session.suggest_bounds(["spent"], epsilon=3).bounds["visits", "spent"] == (5, 10)


def test_where_noise_is_larger_than_everything_nothing_is_suggested(session: dp.Session) -> None:
    found = session.suggest_bounds(["age"], epsilon="0.0001")
    assert found.missing == (("people", "age"),) and found.bounds == {}
    assert "people.age: too few units for this epsilon" in str(found)


@pytest.mark.parametrize(
    ("columns", "options", "error", "says"),
    [
        (["nothing"], {}, dp.UnknownNameError, "not a declared column"),
        (["towns.size"], {}, dp.UnknownNameError, "private table"),
        (["town"], {}, dp.ParameterError, "no bounds"),
        (["answer"], {}, dp.ParameterError, "no bounds"),
        ("age", {}, dp.ParameterError, "not a single string"),
        ([], {}, dp.ParameterError, "no column"),
        (["age"], {"coverage": 1}, dp.ParameterError, "between 0 and 1"),
        (["age"], {"coverage": "x"}, dp.InvalidLossError, "coverage"),
        (["age"], {"epsilon": 0}, dp.InvalidLossError, "epsilon"),
        (["age"], {"epsilon": 100}, dp.InsufficientBudgetError, "costs"),
    ],
)
def test_bad_input_costs_nothing(
    session: dp.Session, columns: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        session.suggest_bounds(columns, **options)
    assert session.remaining.epsilon == 20


def test_rows_by_themselves_and_tables_in_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    columns = {'a "b"': {"type": "int64"}}
    catalog = dp.Catalog(
        dataset="d", privacy_unit="row", budget={"epsilon": 9}, tables={"my table": {"columns": columns}}
    )
    ledger = dp.create_ledger(catalog, tmp_path / "l")
    with dp.connect(catalog, {"my table": pd.DataFrame({'a "b"': [30] * 5000})}, ledger=ledger) as session:
        found = session.suggest_bounds(epsilon=5)
    assert found.bounds == {("my table", 'a "b"'): (20, 50)} and found.max_rows == {}
    assert dp.Catalog.from_yaml(str(found)).tables["my table"].columns['a "b"'].upper == 50
