"""Sums and moments of a x + k are derived from those of x: the same numbers, no more noise, intervals that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpquery as dp
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64, INT64, decimal
from dpquery.planner.protect.linear import linear_form
from tests.equivalent.clinic import plain, plain_rows, session, tables
from tests.scripted import same_noise, zero_noise

LIGHT = tables(heavy=False)
X = Column(id="x", type=INT64)
LARGEST = 2**63 - 1


@pytest.fixture(scope="module", params=["epsilon", "rho", "replace_one"])
def clinic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    with session(LIGHT, tmp_path_factory.mktemp("linear"), request.param) as opened:
        yield opened


def _number(value: int) -> Literal:
    return Literal(value=value, type=INT64)


def test_forms() -> None:
    known = {"x": Range(lower=Fraction(0), upper=Fraction(500), nullable=True)}
    shifted = call("subtract", (_number(7), call("multiply", (_number(3), X))))
    made = linear_form(shifted, known)
    assert made.base == X and made.factor == -3 and made.shift == 7
    assert linear_form(call("add", (X, X)), known).factor == 2
    for wide in (decimal(12, 2), FLOAT64):
        made = linear_form(call("divide", (Cast(argument=X, type=FLOAT64), _number(4))), known)
        assert (made.base, made.factor) == (X, Fraction(1, 4))
        assert linear_form(Cast(argument=X, type=wide), known).base == X


@pytest.mark.parametrize(
    ("value", "upper"),
    [
        (call("add", (X, _number(1))), LARGEST),  # overflows, and is NULL then
        (call("multiply", (X, _number(2))), LARGEST // 2 + 1),
        (call("multiply", (X, _number(0))), 500),
        (call("multiply", (X, X)), 500),
        (call("subtract", (X, X)), 500),
        (call("abs", (X,)), 500),
        (Cast(argument=X, type=FLOAT64), 2**53 + 1),
        (call("add", (X, Literal(value=None, type=INT64))), 500),
    ],
)
def test_what_may_overflow_round_or_bend_is_no_form(value: Expression, upper: int) -> None:
    known = {"x": Range(lower=Fraction(0), upper=Fraction(upper), nullable=False)}
    assert linear_form(value, known).is_plain
    assert linear_form(value, known).base == value


QUERIES = {
    "SELECT SUM(cost), SUM(cost + 1), SUM(cost - 2), SUM(3 - cost), COUNT(*) FROM visits": 2,
    "SELECT SUM(score), SUM(score + 1), SUM(2 * score + 3), COUNT(score) FROM visits": 2,
    "SELECT SUM(score), SUM(score + 1), SUM(2 * score + 3), COUNT(*) FROM visits": 3,
    "SELECT SUM(amount), SUM(amount * 100), SUM(-amount) FROM items": 1,
    "SELECT SUM(CAST(cost AS double precision) / 4), SUM(cost) FROM visits": 1,
    "SELECT SUM(7), SUM(-2), COUNT(*) FROM visits": 1,
    "SELECT SUM(7), SUM(-2) FILTER (WHERE urgent) FROM visits": 2,
    "SELECT kind, SUM(cost + 1) FILTER (WHERE urgent), SUM(cost) FILTER (WHERE urgent) FROM visits GROUP BY kind": 2,
    "SELECT kind, SUM(CASE WHEN urgent THEN 5 ELSE 0 END), COUNT(*) FILTER (WHERE urgent) FROM visits GROUP BY kind": 1,
    "SELECT AVG(cost), AVG(cost + 1), AVG(2 * cost), VAR_POP(3 * cost + 4), STDDEV_SAMP(7 - 2 * cost) FROM visits": 3,
    "SELECT AVG(score), SUM(score + 1), SUM(10 - score), COUNT(score), STDDEV_POP(10 - score) FROM visits": 3,
    "SELECT SUM(cost - 250), COUNT(*) FROM visits": 2,
    "SELECT SUM(cost + 1) FROM visits": 1,
}
"""Each with how many measurements it takes."""


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("query", "count"), QUERIES.items())
def test_the_numbers_are_those_of_plain_sql(
    clinic: dp.Session, query: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    answer = clinic.sql(query)
    assert len(answer.measurements) == count
    found = sorted(zip(*(column.to_pylist() for column in answer.to_arrow().columns), strict=True))
    for row, other in zip(found, sorted(plain_rows(plain(LIGHT), query)), strict=True):
        assert [value for value in row if isinstance(value, str)] == [
            value for value in other if isinstance(value, str)
        ]
        assert _numbers(row) == pytest.approx(_numbers(other), rel=1e-8)


def _numbers(row: tuple[Any, ...]) -> list[float]:
    return [float(value) for value in row if not isinstance(value, str)]


@pytest.mark.parametrize(
    "single", ["SUM(cost + 1)", "SUM(cost - 250)", "SUM(3 - cost)", "SUM(2 * cost)", "AVG(cost + 9)", "SUM(5)"]
)
def test_no_number_gets_more_noise(clinic: dp.Session, single: str) -> None:
    """A number by itself has the noise that its own value asks for."""
    bounds = {"SUM(cost + 1)": 501, "SUM(cost - 250)": 250, "SUM(3 - cost)": 497, "SUM(5)": 1}
    (alone, *_) = clinic.explain(f"SELECT {single} FROM visits").measurements
    if single in bounds and clinic.catalog.neighbours.value == "add_remove":
        assert alone.linf == 8 * bounds[single]


def test_a_centred_sum_beside_the_count_is_not_derived_from_a_sum(clinic: dp.Session) -> None:
    """SUM(cost) - 250 COUNT(*) would have three times its noise; one vector has both where that errs less."""
    labels = {one.label for one in clinic.explain("SELECT SUM(cost - 250), COUNT(*) FROM visits").measurements}
    assert labels in ({"SUM(500 - cost)", "SUM(cost)"}, {"SUM(cost - 250)", "COUNT(*)"})


def test_intervals_hold_the_numbers(clinic: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 99.99 % each of 40 draws holds all four exact sums; the union bound makes this all but certain."""
    query = "SELECT SUM(cost), SUM(cost + 1), SUM(9 - 2 * cost), COUNT(*) FROM visits"
    (exact,) = plain_rows(plain(LIGHT), query)
    price: dict[str, Any] = {"rho": "0.1"} if clinic.catalog.budget.kind.value == "zcdp" else {"epsilon": "0.5"}
    for seed in range(40):
        same_noise(monkeypatch, seed)
        answer = clinic.sql(query, confidence=0.9999, **price)
        ends = answer.accuracy.iloc[0]
        for name, value in zip(answer.to_arrow().column_names, exact, strict=True):
            assert ends[name, "lower"] <= float(value) <= ends[name, "upper"]


@pytest.mark.parametrize(
    "asked", ["2 * cost", "-cost", "cost + 1", "6 - 3 * cost", "CAST(cost AS double precision) / 4"]
)
def test_a_stored_sum_and_count_answer_a_shifted_sum(
    tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    catalog = dp.Catalog.from_yaml((Path(__file__).parents[2] / "equivalent" / "catalog.yaml").read_text())
    ledger = dp.create_ledger(catalog, tmp_path / "clinic.ledger")
    with dp.connect(catalog, LIGHT, ledger=ledger) as opened:
        opened.sql("SELECT SUM(cost) AS s, COUNT(*) AS n FROM visits", epsilon=1)
        answer = opened.sql(f"SELECT SUM({asked}) AS s FROM visits", epsilon="0.4")
        ((value,),) = plain_rows(plain(LIGHT), f"SELECT SUM({asked}) FROM visits")
        assert answer.charge.epsilon == 0
        assert float(answer.to_arrow()["s"][0].as_py()) == pytest.approx(float(value))
