"""What SQL reads of a synopsis: free, whatever is asked, and with intervals where measured cells add up to it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import duckdb
import pytest

import dpquery as dp
from tests.unit.session.test_synopses import connect, visits

KEYS = ("ward", "urgent", "age", "age / 10", "CASE WHEN age < 18 THEN 'child' ELSE 'adult' END")
CONDITIONS = (
    "ward = 'A'",
    "ward IN ('A', 'B')",
    "ward <> 'it''s'",
    "urgent",
    "NOT urgent",
    "age >= 65",
    "age BETWEEN 18 AND 64",
    "age = 7 OR age > 90",
    "dose IS NULL",
    "dose > 11.7",
)
LINEAR = (
    "COUNT(*)",
    "COUNT(dose)",
    "SUM(age)",
    "COUNT(*) FILTER (WHERE urgent)",
    "SUM(CASE WHEN urgent THEN 1 ELSE 0 END)",
)
OTHERS = ("AVG(age)", "MEDIAN(age)", "MAX(age)", "COUNT(DISTINCT ward)", "STDDEV(age)", "SUM(age) / COUNT(*)")
SHAPES = (
    "{query}",
    "{query} HAVING COUNT(*) > 3",
    "SELECT * FROM ({query}) AS q",
    "WITH q AS ({query}) SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS place FROM q",
    "{query} ORDER BY n DESC LIMIT 3",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    """Noise deviates by less than 0.1 in each cell, so but for a chance below 10^-20 numbers are measured exactly."""
    with connect(tmp_path_factory.mktemp("synopsis") / "ledger") as opened:
        opened.synopsis("visits", ["ward", "age", "urgent", "dose"], rho="50000")
        yield opened


def drawn(chance: random.Random) -> tuple[str, str, int]:
    """Returns a query, the part of it that aggregates, and the number of its group keys."""
    keys = tuple(chance.sample(KEYS, chance.choice((0, 1, 1, 2))))
    columns = [*(f"{key} AS k{i}" for i, key in enumerate(keys)), f"{chance.choice(LINEAR)} AS n"]
    columns.append(f"{chance.choice((*LINEAR, *OTHERS))} AS m")
    where = chance.sample(CONDITIONS, chance.choice((0, 1, 1, 2)))
    query = f"SELECT {', '.join(columns)} FROM synopsis.visits"
    query += f" WHERE {' AND '.join(f'({one})' for one in where)}" if where else ""
    query += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    return chance.choice(SHAPES if keys else SHAPES[:1]).format(query=query), query, len(keys)


def test_unseen_queries_are_free_and_their_intervals_hold(session: dp.Session) -> None:
    chance, held, unknown = random.Random("unseen"), 0, 0
    before, engine = session.remaining, duckdb.connect()
    engine.register("rows", visits())
    for _ in range(50):
        query, inner, keys = drawn(chance)
        answer = session.sql(query)
        assert answer.charge == dp.PrivacyLoss() and "synthetic" in str(answer)
        plain = engine.sql(inner.replace("synopsis.visits", "rows").replace("age / 10", "age // 10")).fetchall()
        exact = {row[:keys]: dict(zip(("n", "m"), row[keys:], strict=True)) for row in plain}
        groups = zip(*(answer.to_arrow().column(i).to_pylist() for i in range(keys)), strict=True) if keys else [()]
        for place, group in enumerate(groups):
            for name in answer.accuracy.columns.get_level_values(0).unique():
                low, high = answer.accuracy[name].iloc[place]
                unknown += math.isnan(low)
                if not math.isnan(low):
                    held += 1
                    assert low <= (exact.get(group, {}).get(name) or 0) <= high, (query, name, group)
    assert session.remaining == before and held > 25 and unknown > 25


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("SELECT COUNT(*) AS n, AVG(age) AS m FROM synopsis.visits", {"n"}),
        ("SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM synopsis.visits GROUP BY ward", {"n", "s"}),
        ("SELECT COUNT(*) AS n FROM synopsis.visits GROUP BY ward", set()),
        ("SELECT COUNT(*) AS n FROM synopsis.visits WHERE age > dose", set()),
        ("SELECT COUNT(*) AS n FROM synopsis.visits WHERE dose > 11.713", set()),
        ("SELECT SUM(dose) AS n FROM synopsis.visits", set()),
        ("SELECT COUNT(*) AS n FROM synopsis.visits WHERE day >= DATE '2024-03-01'", set()),
        ("SELECT COUNT(DISTINCT ward) AS n FROM synopsis.visits", set()),
        ("SELECT COUNT(*) AS n FROM synopsis.visits AS a JOIN synopsis.visits AS b USING (ward)", set()),
        ("SELECT COUNT(*) + 1 AS n FROM synopsis.visits", set()),
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT ward FROM synopsis.visits) AS q", set()),
        ("SELECT COUNT(*) AS n FROM (SELECT ward FROM synopsis.visits LIMIT 9) AS q", set()),
    ],
)
def test_which_columns_have_intervals(session: dp.Session, query: str, known: set[str]) -> None:
    assert {*session.sql(query).accuracy.columns.get_level_values(0)} == known


def test_more_confidence_and_all_at_once_are_wider(session: dp.Session) -> None:
    answer = session.sql("SELECT age, COUNT(*) AS n FROM synopsis.visits GROUP BY age")
    width = {
        name: (frame["n", "upper"] - frame["n", "lower"]).max()
        for name, frame in (
            ("plain", answer.accuracy),
            ("sure", answer.intervals("0.999999999")),
            ("all", answer.intervals(simultaneous=True)),
        )
    }
    assert width["plain"] <= width["all"] and width["plain"] <= width["sure"]


def test_rows_that_stand_for_several_are_counted_by_their_weights(tmp_path_factory: pytest.TempPathFactory) -> None:
    with connect(tmp_path_factory.mktemp("few") / "ledger") as session:
        session.synopsis("visits", ["ward", "urgent"], rho="50000", rows=40)
        answer = session.sql("SELECT COUNT(*) AS n, SUM(row_weight) AS w FROM synopsis.visits")
        ((low, high),) = answer.accuracy["w"].itertuples(index=False, name=None)
        assert [*answer.accuracy.columns.get_level_values(0).unique()] == ["w"] and low <= 400 <= high
