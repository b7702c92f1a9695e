"""Many public groups are found by codes that are packed into one number: the same integers as without."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel.plan import PrivateAggregate
from tests.backends.engines import ENGINES, Engine, both, catalog_of
from tests.backends.prepared import prepared

KEYS = [f"k{i:02}" for i in range(90)]
CATALOG = catalog_of(
    {
        "visits": {
            "unit": "name",
            "max_rows": 3,
            "columns": {
                "name": {"type": "text"},
                "kind": {"type": "text", "keys": KEYS, "nullable": True},
                "level": {"type": "int64", "lower": -3, "upper": 96},
                "cost": {"type": "float64", "lower": -1, "upper": 300, "nullable": True},
                "fee": {"type": "int64", "lower": 2, "upper": 9, "nullable": True},
            },
        }
    }
)
SQL = {
    "sums and means": "SELECT level, kind, COUNT(cost) AS n, SUM(fee) AS s, AVG(cost) AS m, VARIANCE(fee) AS v "
    "FROM visits GROUP BY level, kind",
    "a correlation, of nine sums": "SELECT kind, level, CORR(cost, fee) AS c FROM visits GROUP BY kind, level",
    "a choice": "SELECT kind, level, COUNT(*) AS n, MEDIAN(fee) AS m FROM visits GROUP BY kind, level",
}


def frame() -> pd.DataFrame:
    """Returns visits with keys at the ends of their domains, beyond them, and NULL, which is public of one of them."""
    draw = random.Random(3)
    rows = [
        {
            "name": draw.choice([None, "a", "b", *map(str, range(60))]),
            "kind": draw.choice([*KEYS[:2], KEYS[-1], "other", "k9", None, draw.choice(KEYS)]),
            "level": draw.choice([-4, -3, -2, 0, 96, 97, 2**16, None, draw.randrange(-3, 97)]),
            "cost": draw.choice([None, float("nan"), float("inf"), -5.0, 0.1, draw.uniform(-2, 301)]),
            "fee": draw.choice([None, 1, 2, 5, 9, 12]),
        }
        for _ in range(600)
    ]
    return pd.DataFrame(rows).astype({"level": "Int64", "fee": "Int64"})


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PrivateAggregate]:
    """The private aggregate of each query."""
    found, run = list[PrivateAggregate](), DuckDBBackend.run

    def noting(self: DuckDBBackend, statement: Any, key: int) -> Any:
        found.append(statement.aggregate)
        return run(self, statement, key)

    ledger = dp.create_ledger(CATALOG, tmp_path_factory.mktemp("l") / "ledger")
    with pytest.MonkeyPatch.context() as patched, dp.connect(CATALOG, {"visits": frame()}, ledger=ledger) as session:
        patched.setattr(DuckDBBackend, "run", noting)
        for sql in SQL.values():
            session.sql(sql, epsilon="1")
    return dict(zip(SQL, found, strict=True))


@pytest.mark.parametrize("engine", [ENGINES["duckdb"], prepared(1), prepared(3)], ids=["frame", "one", "three"])
def test_groups_have_their_integers(plans: dict[str, PrivateAggregate], engine: Engine) -> None:
    given = {"visits": frame()}
    tested: Any = engine(CATALOG, given)
    reference = ENGINES["reference"](CATALOG, given)
    for words, plan in plans.items():
        assert both(tested, plan) == both(reference, plan)
        statement = tested.prepare(plan)
        text = " ".join([statement.text, *statement.parts])
        assert ("GROUP BY packed" in text) is ("nine" not in words)
