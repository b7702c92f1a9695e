"""Attacks on filters in parallel: conditions that are to look as if no row passed two of them.

The rows are what engines compare in their own ways: texts under a collation, padded and in other normal forms, NaN,
infinities and both zeros, moments with a zone.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import pytest

import dpquery as dp
from tests.scripted import zero_noise

ROWS = """
CREATE TABLE rows (s VARCHAR COLLATE NOCASE, p CHAR(4) COLLATE NOACCENT, f DOUBLE, g FLOAT, n DECIMAL(9, 2), i INTEGER,
                   t TIMESTAMPTZ, d DATE, b BOOLEAN);
INSERT INTO rows SELECT s, p, f, CAST(f AS FLOAT), n, i, t, d, b
FROM (VALUES ('a'), ('A'), ('a '), ('b'), (NULL)) AS s(s), (VALUES ('é'), ('e'), ('e   '), ('é')) AS p(p),
     (VALUES ('NaN'::DOUBLE), ('-0.0'::DOUBLE), (0.0), ('inf'::DOUBLE), ('-inf'::DOUBLE), (0.1), (NULL)) AS f(f),
     (VALUES (1.50, 7, true), (1.51, -7, false), (NULL, NULL, NULL)) AS n(n, i, b),
     (VALUES ('2024-03-31 00:30:00+00'::TIMESTAMPTZ, DATE '2024-03-31'), (NULL, NULL)) AS t(t, d);
"""
CATALOG = """
version: 2
dataset: attacked
privacy_unit: row
budget: {epsilon: 1000000}
defaults: {least_charge: 1e-12}
tables:
  rows:
    columns:
      s: {type: text, nullable: true}
      p: {type: text}
      f: {type: float64, nullable: true}
      g: {type: float64, nullable: true}
      n: {type: "decimal(9,2)", nullable: true}
      i: {type: int64, nullable: true}
      t: {type: timestamp, zone: UTC, nullable: true}
      d: {type: date, nullable: true}
      b: {type: boolean, nullable: true}
"""

TESTS = (
    "s = 'a'",
    "s = 'A'",
    "s = 'a '",
    "s IN ('b', 'B')",
    "s <> 'a'",
    "s IS NULL",
    "s > 'a'",
    "s <= 'a'",
    "s LIKE 'a%'",
    "LOWER(s) = 'a'",
    "LOWER(s) = 'b'",
    "p = 'é'",
    "p = 'e'",
    "p = 'e   '",
    "f = 0.0",
    "f = -0.0",
    "f < 0",
    "f >= 0",
    "NOT f < 0",
    "f > 1e308",
    "f <= 1e308",
    "f / 0 = 1",
    "f / -0.0 = 1",
    "SQRT(f) >= 0",
    "SQRT(f) < 0",
    "g = 0.1",
    "g > 0.1",
    "g <= 0.1",
    "n < 1.505",
    "n >= 1.505",
    "n = 1.5",
    "n < 1.51",
    "n >= 1.51",
    "CAST(n AS INTEGER) = 1",
    "CAST(n AS INTEGER) = 2",
    "i > 0",
    "i <= 0",
    "i / 2 > 3",
    "i / 2 <= 3",
    "i BETWEEN -7 AND 0",
    "NOT i BETWEEN -7 AND 0",
    "i IS NULL",
    "i IS NOT NULL",
    "COALESCE(i, 0) = 0",
    "t < TIMESTAMP '2024-03-31 00:30:00'",
    "t >= TIMESTAMP '2024-03-31 00:30:00'",
    "CAST(t AS DATE) = DATE '2024-03-31'",
    "CAST(t AS DATE) < DATE '2024-03-31'",
    "d <> DATE '2024-03-31'",
    "d IS NULL",
    "b",
    "NOT b",
    "b IS NULL",
    "b IS NOT TRUE",
    "b IS NOT FALSE",
    "b = FALSE",
    "CASE WHEN i > 0 THEN 'x' WHEN i <= 0 THEN 'y' END = 'x'",
    "CASE WHEN i > 0 THEN 'x' WHEN i <= 0 THEN 'y' END = 'y'",
    "b OR i IS NULL",
    "NOT b OR i IS NULL",
)
OVERLAPPING = (
    ("s <> 'a'", "s <> 'A'"),
    ("s IS NULL", "b IS NOT TRUE"),
    ("f / 0 = 1", "f / -0.0 = 1"),
    ("f = 0.0", "f = -0.0"),
    ("i <= 0", "COALESCE(i, 0) = 0"),
    ("b OR i IS NULL", "NOT b OR i IS NULL"),
    ("b IS NOT TRUE", "b IS NOT FALSE"),
    ("g <= 0.1", "g = 0.1"),
    ("i > 0", "d IS NULL"),
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dp.Session:
    folder = tmp_path_factory.mktemp("attacked")
    stored: Path = folder / "rows.duckdb"
    with duckdb.connect(str(stored)) as made:
        made.execute(ROWS)
    catalog = dp.Catalog.from_yaml(CATALOG)
    dp.Ledger.create(folder / "ledger", catalog.declarations, catalog.budget, catalog.analysts).close()
    return dp.connect(catalog, {"rows": str(stored)}, ledger=folder / "ledger", reuse=False)


def are_parallel(session: dp.Session, a: str, b: str) -> bool:
    """Whether two counts under these filters are paid for at once; the charge is told apart from what they say."""
    plan = session.explain(
        f"SELECT COUNT(*) FILTER (WHERE {a}) AS a, COUNT(*) FILTER (WHERE {b}) AS b FROM rows", epsilon=1
    )
    assert plan.charge.epsilon == 1
    lost = sum(made.loss.epsilon for made in plan.measurements)
    assert lost in (1, 2)
    labels = {made.label for made in plan.measurements}
    return lost == 2 and all(_label(session, one) in labels for one in (a, b))  # else one is a part of the other


def _label(session: dp.Session, condition: str) -> str:
    (made,) = session.explain(f"SELECT COUNT(*) FILTER (WHERE {condition}) AS a FROM rows", epsilon=1).measurements
    return made.label


def test_no_stored_row_passes_two_filters_that_are_in_parallel(
    session: dp.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    every = itertools.combinations(TESTS, 2)  # those that speak of one column, and some of the others
    asked = [pair for number, pair in enumerate(every) if pair[0][0] == pair[1][0] or number % 5 == 0]
    pairs = [pair for pair in asked if are_parallel(session, *pair)]
    assert len(pairs) >= 40
    items = ", ".join(f"COUNT(*) FILTER (WHERE ({a}) AND ({b})) AS n{i}" for i, (a, b) in enumerate(pairs))
    (counts,) = session.sql(f"SELECT {items} FROM rows", epsilon=1000).to_arrow().to_pylist()
    assert {pairs[int(name[1:])]: count for name, count in counts.items() if count} == {}


@pytest.mark.parametrize(("a", "b"), OVERLAPPING)
def test_filters_that_share_rows_pay_both(session: dp.Session, a: str, b: str) -> None:
    assert not are_parallel(session, a, b)


def test_a_filter_of_a_subquery_is_what_the_subquery_computes(session: dp.Session) -> None:
    """Equal names are no equal columns."""
    inner = "SELECT i > 0 AS x, i < 5 AS y, i AS z, -i AS i FROM rows"
    text = f"SELECT COUNT(*) FILTER (WHERE {{}}) AS a, COUNT(*) FILTER (WHERE {{}}) AS b FROM ({inner}) AS u"
    losses = {
        pair: sum(made.loss.epsilon for made in session.explain(text.format(*pair), epsilon=1).measurements)
        for pair in (("x", "y"), ("x", "NOT x"), ("z > 0", "i > 0"), ("i > 0", "i <= 0"))
    }
    assert list(losses.values()) == [1, 2, 1, 2]
