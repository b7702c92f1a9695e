"""Answers that say nothing are marked, in Python and on the command line; others are not."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery import dbapi
from dpquery.accuracy.rules import Interval
from dpquery.result.warnings import _outside
from tests.scripted import same_noise, zero_noise


@pytest.fixture
def session(tmp_path: Path) -> dp.Session:
    columns = {
        "id": {"type": "int64"},
        "k": {"type": "text"},
        "x": {"type": "int64", "lower": 0, "upper": 9},
        "half": {"type": "int64", "keys": [0, 1, 2]},
    }
    tables = {"t": {"unit": "id", "max_rows": 1, "columns": columns}}
    budget = {"epsilon": 100, "delta": "1e-4"}
    catalog = dp.Catalog(dataset="p", privacy_unit="id", budget=budget, tables=tables, defaults={"max_groups": 1})
    rows = range(1000)
    frame = pd.DataFrame({"id": rows, "k": [f"k{i}" for i in rows], "x": 1, "half": [i % 2 for i in rows]})
    return dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, tmp_path / "p.ledger"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT DISTINCT k FROM t",
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 5 ORDER BY n LIMIT 3",
    ],
)
def test_where_no_group_is_shown_it_is_said_how_large_one_has_to_be(session: dp.Session, query: str) -> None:
    answer = session.sql(query, epsilon="0.1", delta="1e-6")
    tau = next(made.tau for made in answer.measurements if made.tau is not None)
    assert len(answer) == 0 and len(answer.warnings) == 1
    assert answer.warnings[0].startswith(f"no group was shown: a group needs at least {tau:,} units")
    assert answer.notes[-1:] == answer.warnings and answer.warnings[0] in str(answer)
    with pytest.warns(dp.AccuracyWarning, match="no group was shown"):
        cursor = dbapi.connect(session).execute(query, epsilon="0.1", delta="1e-6")
    assert [str(words) for _, words in cursor.messages] == list(answer.warnings)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT AVG(n) AS m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g",
        "SELECT COUNT(*) AS m FROM (SELECT DISTINCT k FROM t) AS g",
    ],
)
def test_numbers_over_groups_of_which_none_is_shown_are_marked_too(session: dp.Session, query: str) -> None:
    (warning,) = session.sql(query, epsilon="0.1", delta="1e-6").warnings
    assert warning.startswith("no group was shown")


@pytest.mark.parametrize(
    ("query", "is_marked"),
    [
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", False),
        ("SELECT k, n - LAG(n) OVER (ORDER BY k) AS d FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g", False),
        ("SELECT k, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS part FROM t GROUP BY k", True),
        ("SELECT COUNT(*) AS k, SUM(n) AS n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g", True),
        ("SELECT COUNT(*) AS k FROM (SELECT half, COUNT(*) AS n FROM t GROUP BY half) AS g", False),
    ],
)
def test_numbers_over_several_groups_say_that_others_are_missing(
    session: dp.Session, tmp_path: Path, query: str, is_marked: bool
) -> None:
    frame = pd.DataFrame({"id": range(900), "k": [f"k{i % 3}" for i in range(900)], "x": 1, "half": 0})
    shown = dp.connect(
        session.catalog, {"t": frame}, ledger=dp.create_ledger(session.catalog, tmp_path / "other.ledger")
    )
    answer = shown.sql(query, epsilon=1, delta="1e-6")
    said = [words for words in answer.warnings if words.startswith("only groups of at least ")]
    assert len(said) == is_marked and all("are in numbers over several groups" in words for words in said)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT half, COUNT(*) AS n FROM t GROUP BY half HAVING COUNT(*) > 10000",
        "SELECT half, COUNT(*) AS n, AVG(x) AS m FROM t WHERE half < 2 GROUP BY half",
        "SELECT COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m FROM t",
        "SELECT 1 AS one",
    ],
)
def test_other_answers_are_not_marked(session: dp.Session, query: str) -> None:
    assert session.sql(query, epsilon=5).warnings == ()


def test_intervals_as_wide_as_the_range_are_marked(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    answer = session.sql("SELECT AVG(x) AS m, COUNT(*) AS n, CORR(x, x * x) AS c FROM t", epsilon="0.004")
    assert answer.warnings == ("intervals as wide as the range of possible values, which say nothing: m, c",)
    assert answer.accuracy["m"].to_numpy().tolist() == [[0, 9]]
    many = ", ".join(f"AVG(x + {i}) AS m{i}" for i in range(5))
    (words,) = session.sql(f"SELECT half, {many} FROM t GROUP BY half", epsilon="0.004").warnings
    assert words.endswith("m0 in 3 of 3 rows, m1 in 3 of 3 rows, m2 in 3 of 3 rows and 2 more columns")
    few = session.sql("SELECT half, AVG(x) AS m FROM t GROUP BY half", epsilon=2)
    assert few.accuracy["m", "upper"].tolist()[2] == 9 and few.warnings == ()  # one row of three


def test_numbers_outside_their_intervals_are_marked(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for seed in range(8):  # nobody has half 2, so the mean there is noise divided by noise
        same_noise(monkeypatch, seed)
        answer = session.sql("SELECT half, SUM(x) / COUNT(x) AS q FROM t GROUP BY half", epsilon="0.5", fresh=True)
        q, ends = answer.to_pandas()["q"], answer.accuracy["q"]
        counts.append(int(((q < ends["lower"]) | (q > ends["upper"])).sum()))
        marked = [words for words in answer.warnings if words.startswith("numbers outside")]
        assert marked == [f"numbers outside their intervals: q in {counts[-1]} of 3 rows"] * (counts[-1] > 0)
    assert any(counts) and not all(counts)


def test_numbers_are_outside_by_more_than_they_are_rounded_for() -> None:
    """A count that is computed of two sums is shown as a whole number, and its interval is of what it was before."""
    low, high = np.array([449.6, 450.3, 450.6, np.nan]), np.array([449.9, 451.0, 451.0, np.nan])
    for values, expected in (
        (pa.array([450, 450, 450, 450]), 1),
        (pa.array([450.0, 450.0, 450.0, None]), 3),
        (pa.array([Decimal("450.0")] * 4, pa.decimal128(9, 1)), 3),
        (pa.array(["450"] * 4), 0),
    ):
        assert _outside(pa.chunked_array([values]), Interval(low, high)) == expected


def test_the_plan_alone_tells_which_columns_carry_noise(session: dp.Session) -> None:
    from dpquery.sql.bind.shape import shape

    queries = {
        "SELECT half, COUNT(*) AS n, 1 AS one, half + 1 AS h FROM t GROUP BY half": {1},
        "SELECT 'a' AS k, COUNT(*) AS n FROM t UNION ALL SELECT 'b', SUM(x) FROM t": {1},
        "SELECT half AS k, COUNT(*) AS n FROM t GROUP BY half UNION SELECT 7, 8": {1},
        "SELECT k, n * 2 AS m, SUM(n) OVER () AS s FROM (SELECT half AS k, COUNT(*) AS n FROM t GROUP BY half) q": {
            1,
            2,
        },
        "SELECT COUNT(*) AS g FROM (SELECT half, COUNT(*) AS n FROM t GROUP BY half) q WHERE n > 5": {0},
        "SELECT half, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM t GROUP BY ROLLUP (half)": {1, 2},
        "SELECT half, n, (SELECT COUNT(*) FROM t) AS t FROM (SELECT half, COUNT(*) AS n FROM t GROUP BY half) q": {
            1,
            2,
        },
        "SELECT COUNT(*), COUNT(*) FROM t": {0, 1},
        "SELECT half, MAX(x) AS m FROM t GROUP BY half ORDER BY m LIMIT 1": {1},
    }
    for query, places in queries.items():
        answer = session.sql(query, epsilon=1)
        carried = {i for i, name in enumerate(answer.columns) if (name, "lower") in answer.accuracy.columns}
        assert carried == set(shape(query, session.catalog).noisy) == places, query
