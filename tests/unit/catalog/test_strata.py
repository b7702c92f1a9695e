"""`max_rows: {all:, per:}`: what is read, said and written again, and every mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.catalog import Catalog
from dpquery.catalog.write import write_catalog
from dpquery.errors import CatalogError
from dpquery.plan.calendar import By
from dpquery.plan.strata import Strata

COLUMNS = (
    "{id: {type: int64}, taken: {type: date, lower: 2024-01-01, upper: 2025-12-31}, at: {type: timestamp}, "
    "ward: {type: text, keys: [a, b]}, room: {type: text}, ok: {type: boolean}, cost: {type: float64, keys: [1.0]}, "
    "kind: {type: text, keys_from: kinds.name}, told: {type: text, randomized: {epsilon: 1, categories: [a, b]}}, "
    "price: {type: int64, lower: 0, upper: 9%s}}"
)
TEXT = """version: 2
dataset: d
privacy_unit: %s
budget: {epsilon: 1}
tables:
  t: {%s, columns: %s}
  kinds: {public: true, unique: [[name]], columns: {name: {type: text}}}
"""


def text(body: str, *, unit: str = "patient", more: str = "", owner: str = "unit: id, ") -> str:
    return TEXT % (unit, owner + body, COLUMNS % more)


def problem(given: str) -> str:
    with pytest.raises(CatalogError) as caught:
        Catalog.from_yaml(given)
    (only,) = caught.value.problems
    return only


ACCEPTED = {
    "month(taken)": Strata(column="taken", by=By.MONTH, max_rows=20),
    "Week( taken )": Strata(column="taken", by=By.WEEK, max_rows=20),
    "day(at)": Strata(column="at", by=By.DAY, max_rows=20),
    "quarter(at)": Strata(column="at", by=By.QUARTER, max_rows=20),
    "year(taken)": Strata(column="taken", by=By.YEAR, max_rows=20),
    "ward": Strata(column="ward", by=None, max_rows=20),
    "kind": Strata(column="kind", by=None, max_rows=20),
    "ok": Strata(column="ok", by=None, max_rows=20),
}


@pytest.mark.parametrize("per", ACCEPTED)
def test_strata_are_read_and_written_again(per: str, tmp_path: Path) -> None:
    made = Catalog.from_yaml(text(f'max_rows: {{all: 200, per: {{"{per}": 20}}}}'))
    table = made.tables["t"]
    assert (table.max_rows, table.strata) == (200, ACCEPTED[per])
    again = Catalog.from_yaml(write_catalog(made))
    assert again == made
    assert "rows of one patient: at most 200 in all, and 20 in each " in made.to_text()


REFUSED = {
    "max_rows: {all: 200}": "the field 'per' is missing",
    "max_rows: {per: {ward: 20}}": "the field 'all' is missing",
    "max_rows: {all: auto, per: {ward: 20}}": "expected an integer",
    "max_rows: {all: 200, per: {}}": "say one thing",
    "max_rows: {all: 200, per: 20}": "expected a mapping",
    "max_rows: {all: 200, per: {ward: 20, ok: 20}}": "say one thing",
    "max_rows: {all: 200, per: {ward: 0}}": "an integer of at least 1",
    "max_rows: {all: 20, per: {ward: 200}}": "per says 200, and all only 20",
    "max_rows: {all: 200, per: {wrad: 20}}": "'wrad' is not a declared column",
    "max_rows: {all: 200, per: {month(tken): 20}}": "'tken' is not a declared column",
    "max_rows: {all: 200, per: {hour(at): 20}}": "'hour' is not a period of the calendar",
    "max_rows: {all: 200, per: {month(price): 20}}": "need a date or timestamp column, not int64",
    "max_rows: {all: 200, per: {room: 20}}": "a column with public keys, but 'room' has none",
    "max_rows: {all: 200, per: {cost: 20}}": "a column with public keys",
    "max_rows: {all: 200, per: {told: 20}}": "is randomized",
    "unique: [[id]], max_rows: {all: 200, per: {ward: 20}}": "one patient has one row here",
}


@pytest.mark.parametrize("body", REFUSED)
def test_mistakes_are_told(body: str) -> None:
    assert REFUSED[body] in problem(text(body))


def test_strata_are_of_a_units_rows_and_without_totals() -> None:
    said = "max_rows: {all: 200, per: {ward: 20}}"
    assert "each row is a unit by itself" in problem(text(said, unit="row", owner=""))
    assert "cannot be combined" in problem(text(said, more=", max_total: 50"))


def test_a_ledger_takes_strata_without_an_entry(tmp_path: Path) -> None:
    """They are of the weights, and no part of the promise: bounds move in any direction."""
    plain, strata = (Catalog.from_yaml(text(f"max_rows: {said}")) for said in ("40", "{all: 200, per: {ward: 20}}"))
    ledger = dp.create_ledger(plain, tmp_path / "d.ledger")
    assert dp.amend_ledger(strata, ledger, by="owner", why="more rows") is None
    assert strata.declarations == plain.declarations


def test_measured_rows_keep_what_is_declared() -> None:
    made = Catalog.from_yaml(text("max_rows: {all: 200, per: {ward: 20}}"))
    assert made.with_max_rows({"t": 100}).tables["t"] == replace(made.tables["t"], max_rows=100)
