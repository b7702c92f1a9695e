"""Prepared tables hold lattice integers, codes and numbers of units: what is read of them gives the same integers."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.stored_forms import formed
from dpquery.catalog import Catalog
from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.logical import Join, Relation, sources, with_sources
from tests.backends.engines import both, catalog_of
from tests.backends.prepared import prepared

KINDS = ["a", "b", "None", "é", ""]
TABLES = {
    "people": {
        "unit": "name",
        "unique": [["name"]],
        "columns": {
            "name": {"type": "text"},
            "sex": {"type": "text", "keys": ["f", "m"], "nullable": True},
            "age": {"type": "int64", "lower": 18, "upper": 100},
        },
    },
    "visits": {
        "unit": "name",
        "max_rows": 3,
        "row_limit": 12,
        "columns": {
            "name": {"type": "text"},
            "number": {"type": "int64"},
            "kind": {"type": "text", "keys": KINDS, "nullable": True},
            "place": {"type": "text", "keys_from": "places.name", "nullable": True},
            "town": {"type": "text", "max_length": 3},
            "cost": {"type": "float64", "lower": -1, "upper": 300, "nullable": True},
            "fee": {"type": "decimal(9,2)", "lower": 0, "upper": 10, "nullable": True},
            "free": {"type": "int64"},
        },
    },
    "items": {
        "unit": {"via": "visits", "on": {"number": "number"}},
        "max_rows": 8,
        "columns": {
            "number": {"type": "int64"},
            "kind": {"type": "text", "keys": KINDS},
            "price": {"type": "float64", "lower": 0, "upper": 1},
        },
    },
    "places": {"public": True, "unique": [["name"]], "columns": {"name": {"type": "text"}, "size": {"type": "int64"}}},
}
CATALOG = catalog_of(TABLES, defaults={"least_charge": "1e-12", "max_groups": 2})
ODD = [math.nan, math.inf, -math.inf, -0.0, -1.0, 300.0, 299.99999999999994, 1e300, -1e-300, None, 0.1, 1 / 3]


def frames(catalog: Catalog, seed: int = 1) -> dict[str, pd.DataFrame]:
    """Returns people of whom some have many visits, with values beyond bounds and keys, and visits of nobody."""
    draw = random.Random(seed)
    names = [f"p{i:02}" for i in range(40)]
    visits = [
        {
            "name": draw.choice([None, *names[:3] * 12, *names]),
            "number": i,
            "kind": draw.choice([*KINDS, None, "other", "A"]),
            "place": draw.choice(["x", "y", "z", None]),
            "town": draw.choice(["rome", "rom", "oslo", None]),
            "cost": draw.choice([*ODD, draw.uniform(-2, 301)]),
            "fee": draw.choice([None, Decimal("0.01"), Decimal("10.00"), Decimal("9999999.99"), Decimal("-3.50")]),
            "free": draw.choice([None, 3, -(2**60)]),
        }
        for i in range(400)
    ]
    items = [
        {"number": draw.randrange(420), "kind": draw.choice([*KINDS, None]), "price": draw.choice([0.5, 2.0, None])}
        for _ in range(600)
    ]
    people = [
        {"name": name, "sex": draw.choice(["f", "m", "x", None]), "age": draw.randrange(10, 110)} for name in names
    ]
    made: dict[str, Any] = {
        "people": people,
        "visits": visits,
        "items": items,
        "places": [{"name": "x", "size": 1}, {"name": "y", "size": 2}],
    }
    return {table: pd.DataFrame(made[table]).astype(FRAME.get(table, {})) for table in catalog.tables}


FRAME = {"visits": {"free": "Int64", "name": "object"}}
STEP, CODE, NUMBER = '" step ', '" code ', '" code"'
QUERIES: dict[str, set[str]] = {
    "SELECT COUNT(*) AS n FROM visits": ({NUMBER}),
    "SELECT SUM(cost) AS s, SUM(fee) AS f FROM visits": ({STEP, NUMBER}),
    "SELECT kind, place, COUNT(*) AS n, AVG(cost) AS m, SUM(cost) AS s FROM visits GROUP BY kind, place": (
        {STEP, CODE, NUMBER}
    ),
    "SELECT kind, SUM(cost) AS s FROM visits WHERE cost > 5 AND kind <> 'a' GROUP BY kind": ({STEP, CODE, NUMBER}),
    "SELECT VARIANCE(cost) AS v FROM visits": ({NUMBER}),
    "SELECT SUM(CLAMP(cost, 0, 10)) AS s FROM visits": ({NUMBER}),
    "SELECT kind, MEDIAN(cost) AS m, MAX(fee) AS f FROM visits GROUP BY kind": ({STEP, CODE, NUMBER}),
    "SELECT kind, COUNT(*) AS n FROM visits WHERE kind IN ('a', 'None') GROUP BY kind": ({CODE, NUMBER}),
    "SELECT kind, COUNT(*) AS n FROM visits WHERE kind IN ('a', 'other') GROUP BY kind": ({CODE, NUMBER}),
    "SELECT kind, COUNT(DISTINCT name) AS n, COUNT(*) AS r FROM visits GROUP BY kind": ({CODE, NUMBER}),
    "SELECT COUNT(DISTINCT town) AS n FROM visits": (set()),
    "SELECT town, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY town": ({STEP}),
    "SELECT kind, SUM(price) AS s FROM items GROUP BY kind": ({STEP, CODE, NUMBER}),
    "SELECT v.kind, i.kind AS k, SUM(price) AS s, SUM(cost) AS c FROM items AS i "
    "JOIN visits AS v ON i.number = v.number GROUP BY 1, 2": ({STEP, CODE, NUMBER}),
    "SELECT sex, SUM(cost) AS s, AVG(age) AS a FROM visits LEFT JOIN people USING (name) GROUP BY sex": (
        {STEP, CODE, NUMBER}
    ),
    "SELECT sex, COUNT(*) AS n FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE visits.name = people.name AND "
    "kind = 'a') GROUP BY sex": ({CODE, NUMBER}),
    "SELECT AVG(n) AS m FROM (SELECT name, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY name) AS own": ({NUMBER}),
    "SELECT COUNT(*) AS n FROM visits WHERE name LIKE 'p1%'": (set()),
    "SELECT size, SUM(cost) AS s FROM visits JOIN places ON visits.place = places.name GROUP BY size": ({STEP, NUMBER}),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[PrivateAggregate]]:
    """The private aggregates of each query."""
    found, run, given = list[PrivateAggregate](), DuckDBBackend.run, frames(CATALOG)

    def noting(self: DuckDBBackend, statement: Any, key: int) -> Any:
        found.append(statement.aggregate)
        return run(self, statement, key)

    made, ledger = (
        dict[str, list[PrivateAggregate]](),
        dp.create_ledger(CATALOG, tmp_path_factory.mktemp("l") / "ledger"),
    )
    with pytest.MonkeyPatch.context() as patched, dp.connect(CATALOG, given, ledger=ledger, reuse=False) as session:
        patched.setattr(DuckDBBackend, "run", noting)
        for sql in QUERIES:
            session.sql(sql, epsilon="1", delta="1e-9")
            made[sql] = list(found)
            found.clear()
    return made


@pytest.fixture(scope="module", params=[1, 3])
def backends(request: pytest.FixtureRequest) -> tuple[DuckDBBackend, DuckDBBackend]:
    """The same rows prepared and as they are."""
    given = frames(CATALOG)
    made: Any = prepared(request.param)(CATALOG, given)
    return made, DuckDBBackend(CATALOG, given)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("sql", QUERIES)
def test_the_integers_are_the_same(
    backends: tuple[DuckDBBackend, DuckDBBackend], plans: dict[str, list[PrivateAggregate]], sql: str
) -> None:
    tested, whole = backends
    assert plans[sql]
    for plan in plans[sql]:
        assert both(tested, plan) == both(whole, plan)
        statement = tested.prepare(plan)
        text = " ".join([statement.text, *statement.parts])
        assert {form for form in (STEP, CODE, NUMBER) if form in text} == QUERIES[sql]


LEFT = "SELECT sex, SUM(cost) AS s, AVG(age) AS a FROM visits LEFT JOIN people USING (name) GROUP BY sex"


def test_rows_that_a_join_adds_are_looked_at_for_their_owner(
    backends: tuple[Any, Any], plans: dict[str, list[PrivateAggregate]]
) -> None:
    """A join that keeps rows of the side without the unit makes rows of nobody, which do not count."""

    def turned(relation: Relation) -> Relation:
        if isinstance(relation, Join):
            return replace(relation, kind="right")
        below = sources(relation)
        return with_sources(relation, tuple(map(turned, below))) if below else relation

    (plan, *_), forms = plans[LEFT], backends[0]._forms
    assert formed(plan, forms).is_owned
    assert not formed(replace(plan, source=turned(plan.source)), forms).is_owned
