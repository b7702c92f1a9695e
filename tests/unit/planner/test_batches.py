"""Several queries at once: what they share is measured and charged once, and each gets the answer that it asks for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from fractions import Fraction

import pandas as pd
import pytest

import dpquery as dp
from tests.properties.neighbours import folder
from tests.scripted import zero_noise

COLUMNS = {
    "person": {"type": "int64"},
    "sex": {"type": "text", "keys": ["F", "M"]},
    "x": {"type": "float64", "lower": 0, "upper": 100},
}
COUNT = "SELECT COUNT(*) AS n FROM t"
BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY sex"


@pytest.fixture(scope="module")
def session() -> Iterator[dp.Session]:
    frame = pd.DataFrame({"person": range(90), "sex": ["F", "F", "M"] * 30, "x": [float(i % 60) for i in range(90)]})
    catalog = dp.Catalog(
        dataset="b",
        privacy_unit="person",
        budget={"epsilon": 10**4},
        defaults={"least_charge": "1e-12"},
        tables={"t": {"unit": "person", "max_rows": 1, "columns": COLUMNS}},
    )
    with folder() as shelf:
        opened = dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, f"{shelf}/b"), reuse=False)
        yield opened
        opened.close()


def test_what_queries_share_is_measured_once_and_shown_alike(session: dp.Session) -> None:
    batch = session.batch([COUNT, COUNT, "SELECT COUNT(*) AS n, SUM(x) AS s FROM t"], epsilon=1)
    assert [m.label for m in batch.measurements] == ["SUM(100 - x)", "SUM(x)"]
    assert len({int(result.to_pandas()["n"][0]) for result in batch}) == 1


def test_one_charge_for_all(session: dp.Session) -> None:
    before, entries = session.remaining.epsilon, len(session._ledger.entries())
    batch = session.batch([COUNT, BY_SEX, "SELECT SUM(x) AS s FROM t WHERE sex = 'F'"], epsilon="1/2")
    assert before - session.remaining.epsilon == batch.charge.epsilon == Fraction(1, 2)
    added = session._ledger.entries()[entries:]
    assert len(added) == 1
    assert all(query in added[0].query for query in (COUNT, BY_SEX))
    assert sum(m.loss.epsilon / max(1, m.parallel) for m in batch.measurements) == Fraction(1, 2)
    assert "for 3 queries together" in str(batch[0])
    assert batch[0].charge == batch.charge


def test_each_query_gets_its_own_rows(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    queries = [
        COUNT,
        BY_SEX,
        "SELECT sex, COUNT(*) AS n FROM t GROUP BY ROLLUP (sex)",
        "SELECT MAX(n) AS most FROM (SELECT sex, COUNT(*) AS n FROM t GROUP BY sex) AS g",
        "SELECT VAR_POP(x) AS v, COUNT(*) FILTER (WHERE x > 30) AS k FROM t",
        "SELECT 1 AS one",
    ]
    batch = session.batch(queries, epsilon=100)
    assert len(batch) == len(queries)
    for query, result in zip(queries, batch, strict=True):
        alone = session.sql(query, epsilon=100)
        pd.testing.assert_frame_equal(result.to_pandas(), alone.to_pandas(), rtol=1e-12)
        assert list(result.accuracy.columns) == list(alone.accuracy.columns)


def test_weights_and_errors_hold_in_every_query(session: dp.Session) -> None:
    batch = session.batch([COUNT, "SELECT SUM(x) AS s FROM t WHERE x > 3"], epsilon=1, weights={"s": 4})
    assert [m.loss.epsilon for m in batch.measurements] == [Fraction(1, 5), Fraction(4, 5)]
    batch = session.batch([COUNT, "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"], error=12)
    for result in batch:
        assert ((result.accuracy["n", "upper"] - result.accuracy["n", "lower"]) / 2 <= 12).all()


def test_nothing_is_charged_where_one_query_is_refused(session: dp.Session) -> None:
    before = session.remaining
    with pytest.raises(dp.QueryError, match="SELECT nothing FROM t"):
        session.batch([COUNT, "SELECT nothing FROM t"], epsilon=1)
    for wrong in ([], COUNT, [COUNT] * 51, [COUNT, None], None):
        with pytest.raises(dp.QueryError):
            session.batch(wrong, epsilon=1)  # type: ignore[arg-type]
    assert session.remaining == before


def test_the_options_of_a_batch_are_those_of_a_query() -> None:
    of_query = set(inspect.signature(dp.Session.sql).parameters) - {"query", "params"}
    assert set(inspect.signature(dp.Session.batch).parameters) - {"queries"} == of_query
