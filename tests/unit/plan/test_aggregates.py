"""Each aggregate says all that is asked of it: a forgotten part is a failed test, not a wrong answer."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
import sqlglot

import dpquery as dp
from dpquery.backends.duckdb.sql import aggregates_sql
from dpquery.plan.aggregates import AGGREGATES, aggregate_named, by_name
from dpquery.plan.aggregates.aggregate import Form
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import BOOLEAN, INT64, TEXT
from dpquery.sql.names.aggregate_names import function_of
from tests.scripted import zero_noise

REFERENCE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
TYPES = {Form.CONDITION: BOOLEAN, Form.JOINED: TEXT}
EACH = pytest.mark.parametrize("name", AGGREGATES)


@EACH
def test_a_sentence_says_what_it_gives_and_when_it_is_null(name: str) -> None:
    found = AGGREGATES[name]
    assert found.doc[0].isupper()
    assert found.doc.endswith(".")
    assert "NULL" in found.doc or name == "regr_count"
    assert found.doc in REFERENCE


@EACH
def test_it_is_measured_or_says_what_to_write_instead(name: str) -> None:
    assert AGGREGATES[name].is_private is (AGGREGATES[name].advice == "")


@EACH
def test_sql_knows_its_names(name: str) -> None:
    found = AGGREGATES[name]
    if found.shown.endswith("(DISTINCT ...)"):
        assert any(other.distinct == name for other in AGGREGATES.values())
        return
    arguments = "x, y" if found.form is Form.PAIR else "x"
    call = sqlglot.parse_one(f"SELECT {found.shown}({arguments})", read="postgres").expressions[0]
    assert function_of(call) is found


@EACH
def test_its_exact_value_is_written_by_the_engine_or_made_of_another(name: str) -> None:
    found = AGGREGATES[name]
    first = Column(id="x", type=TYPES.get(found.form, INT64))
    seconds: dict[Form, Expression] = {
        Form.PAIR: Column(id="y", type=INT64),
        Form.ORDERED: Column(id="y", type=INT64),
        Form.JOINED: Literal(value=",", type=TEXT),
    }
    second = seconds.get(found.form)
    types = (first.type,) if second is None else (first.type, second.type)
    column = AggregateColumn(
        id="a",
        name=name,
        function=found,
        argument=first,
        second=second,
        filter=None,
        type=found.result(name, *types),
        fraction=Fraction(1, 4) if found.form is Form.RANKED else None,
    )
    other = found.exact(column, "b")
    assert aggregates_sql.exact(column if other is None else other[0], repr)
    assert other is None or (other[0].id == "b" and other[1].type == column.type)


def test_two_aggregates_of_one_name_are_refused() -> None:
    known = list(AGGREGATES.values())
    assert by_name([*known, *known]) == AGGREGATES  # the same one, imported by several files
    with pytest.raises(ValueError, match=f"two aggregates have the name {known[0].name}"):
        by_name([*known, replace(known[0])])


def test_a_name_that_none_has_is_refused() -> None:
    with pytest.raises(ValueError, match="median_of_medians"):
        aggregate_named("median_of_medians")


def session_over(frame: pd.DataFrame, folder: Path) -> dp.Session:
    columns = {"x": {"type": "float64", "lower": 0.5, "upper": 200.0}}
    catalog = dp.Catalog(
        dataset="prices", privacy_unit="row", budget={"epsilon": 10_000}, tables={"t": {"columns": columns}}
    )
    ledger = dp.Ledger.create(folder / "prices.ledger", catalog.declarations, catalog.budget, catalog.analysts)
    return dp.connect(catalog, {"t": frame}, ledger=ledger, reuse=False)


def test_a_geometric_mean_is_that_of_clamped_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    given = [0.5, 3.0, 50.0, 200.0, -7.0, 0.0, 1e6, None]
    session = session_over(pd.DataFrame({"x": given}), tmp_path)
    answer = session.sql("SELECT GEOMEAN(x) AS g FROM t WHERE x IS NOT NULL", epsilon=1).to_pandas()["g"][0]
    clamped = [min(max(value, 0.5), 200.0) for value in given if value is not None]
    assert answer == pytest.approx(math.exp(sum(map(math.log, clamped)) / len(clamped)), rel=1e-6)


def test_its_interval_holds_it(tmp_path: Path) -> None:
    values = [0.5 * 1.05**place for place in range(100)] * 20
    session = session_over(pd.DataFrame({"x": values}), tmp_path)
    plain = math.exp(sum(map(math.log, values)) / len(values))
    held = 0
    for _ in range(40):  # each holds with 95 %: 30 of 40 or fewer with less than 1e-6
        found = session.sql("SELECT GEOMEAN(x) AS g FROM t", epsilon=1).accuracy
        held += float(found["g", "lower"].iloc[0]) <= plain <= float(found["g", "upper"].iloc[0])
    assert held > 30


@pytest.mark.parametrize("name", ["count", "mode", "max", "sum"])
def test_a_value_that_does_not_follow_from_that_of_another_is_a_defect_and_no_python_error(name: str) -> None:
    """A rule without a caller is refused as all defects are: InternalError, of which the front ends know."""
    function = aggregate_named(name)
    value = Column(id="x", type=INT64)
    with pytest.raises(dp.InternalError, match=f"{name} does not follow"):
        function.moved(value, Fraction(2), Fraction(1))
