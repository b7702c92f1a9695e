"""What is worked out once follows from the very objects that it was asked of; what differs shares nothing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.catalog import Catalog
from dpquery.plan.definitions import kinds
from dpquery.plan.evaluate import evaluate_rows
from dpquery.plan.expr import Call, Column, columns_of
from dpquery.plan.functions import call
from dpquery.plan.logical import Filter, Join, Project
from dpquery.plan.types import FLOAT64
from dpquery.sql.bind.bind import bind
from dpquery.sql.parse.parse import parse
from tests.unit.reuse.shop import Shop, catalog

QUERY = "SELECT region, COUNT(*) AS n, AVG(price) AS mean FROM sales GROUP BY region"


def _scales(session: dp.Session, epsilon: str) -> list[float]:
    return [made.scale for made in session.explain(QUERY, epsilon=epsilon).measurements]


def test_catalogs_options_and_analysts_are_planned_apart_in_any_order(tmp_path: Path) -> None:
    """Each plan's noise is what its own catalog and options make it, also after the others were planned."""
    shops = {
        "plain": Shop(tmp_path, "a"),
        "wide": Shop(tmp_path, "b", high=200),
        "people": Shop(tmp_path, "c", unit="customer", most=4),
        "many": Shop(tmp_path, "d", unit="customer", most=8),
    }
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(2):
        for name, shop in shops.items():
            with shop.session() as session, shop.session("bob") as other:
                for epsilon in ("0.5", "1"):
                    made = _scales(session, epsilon)
                    assert made == found.setdefault((name, epsilon), made) == _scales(other, epsilon)
    one = found["plain", "1"]
    assert found["plain", "0.5"] == pytest.approx([2 * scale for scale in one])
    assert found["wide", "1"] == pytest.approx([2 * scale for scale in one])  # terms are in the value's unit
    assert found["many", "1"] == pytest.approx([2 * scale for scale in found["people", "1"]])


def test_facts_are_those_of_their_own_catalog() -> None:
    plain = catalog(unit="customer")
    text = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 10}
tables:
  sales:
    unit: id
    max_rows: auto
    columns:
      id: {type: int64}
      price: {type: float64, lower: 0, upper: 100, max_total: 150}
      sick: {type: boolean, randomized: {epsilon: 1, categories: [true, false]}}
"""
    other = Catalog.from_yaml(text)
    for _ in range(2):
        assert (plain.has_totals, plain.has_reports) == (False, False)
        assert (other.has_totals, other.has_reports) == (True, True)
        assert other.with_max_rows({"sales": 3}).has_totals


def test_what_an_expression_reads_follows_it_when_it_is_changed() -> None:
    a, b = (Column(id=id, type=FLOAT64) for id in "ab")
    whole = call("add", (a, a))
    assert columns_of(whole) == (a, a)
    twice = call("multiply", (whole, b))
    assert columns_of(twice) == (a, a, b) and whole == call("add", (a, a))
    assert isinstance(twice, Call) and hash(twice) == hash(call("multiply", (call("add", (a, a)), b)))


def test_a_part_that_is_read_twice_has_the_values_of_these_rows() -> None:
    a = Column(id="a", type=FLOAT64)
    whole = call("add", (a, a))
    both = call("multiply", (whole, whole))
    assert evaluate_rows(both, {"a": [1.0, 2.0]}, 2) == [4.0, 16.0]
    assert evaluate_rows(both, {"a": [3.0]}, 1) == [36.0]


def test_kinds_are_all_nodes_of_a_relation() -> None:
    tree = parse("SELECT COUNT(*) FROM sales WHERE price > 3")
    plain = bind(tree, catalog(), "").boundaries[0].source
    joined = parse("SELECT COUNT(*) FROM sales AS a JOIN sales AS b ON a.id = b.id")
    both = bind(joined, catalog(unit="customer"), "").boundaries[0].source
    assert Filter in kinds(plain) and Join not in kinds(plain)
    assert Join in kinds(both) and Join in kinds(Project(source=both, columns=()))


def test_an_answer_guarantees_what_was_said_before(tmp_path: Path) -> None:
    """What stands behind an answer is told from what was released, before it from what is to be: both are the same."""
    queries = (
        "SELECT COUNT(*) AS n FROM sales",
        "SELECT region, COUNT(*) AS n FROM sales GROUP BY region",
        "SELECT kind, COUNT(*) AS n, AVG(price) AS mean FROM sales GROUP BY kind",
        "SELECT region, AVG(price) AS mean, COUNT(DISTINCT id) AS people FROM sales GROUP BY region",
        "SELECT SUM(price) AS total, MEDIAN(score) AS middle FROM sales WHERE kind = 'a'",
    )
    with Shop(tmp_path, unit="customer").session() as session:
        for number, query in enumerate((*queries, *queries)):
            epsilon = Fraction(1 + number, 10)
            planned = session.explain(query, epsilon=epsilon)
            answer = session.sql(query, epsilon=epsilon)
            assert (answer.guarantee, answer.charge) == (planned.guarantee, planned.charge)
