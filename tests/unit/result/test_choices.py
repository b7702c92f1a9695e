"""Chosen values: their error in ranks is said, and values bound each other where enough of them are released."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery import dbapi

QUARTILES = "QUANTILE_CONT(x, 0.25) AS a, MEDIAN(x) AS b, QUANTILE_CONT(x, 0.75) AS c"


def opened(folder: Path, rows: int = 4000, *, nullable: bool = False, max_rows: int = 1) -> dp.Session:
    columns = {
        "id": {"type": "int64"},
        "x": {"type": "int64", "lower": 0, "upper": 999, "nullable": nullable},
        "at": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        "half": {"type": "int64", "keys": [0, 1, 2]},
    }
    tables = {"t": {"unit": "id", "max_rows": max_rows, "columns": columns}}
    catalog = dp.Catalog(dataset="p", privacy_unit="id", budget={"epsilon": 1000}, tables=tables)
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"id": range(rows), "half": np.arange(rows) % 2, "at": pd.Timestamp("2020-05-05")})
    frame["x"] = random.integers(0, 500, rows)
    return dp.connect(catalog, {"t": frame}, ledger=dp.create_ledger(catalog, folder / "p.ledger"))


def test_the_rank_error_is_said_wherever_the_number_is_shown(tmp_path: Path) -> None:
    session = opened(tmp_path)
    query = "SELECT MEDIAN(x) AS m, MIN(x) AS low, MAX(at) AS last, SUM(x) AS s FROM t"
    answer, plan = session.sql(query, epsilon=4), session.explain(query, epsilon=4, fresh=True)
    ranks = {made.label: made.error95 for made in answer.measurements if made.unit == "ranks"}
    assert answer.rank_errors == {"m": ranks["MEDIAN(x)"], "low": ranks["MIN(x)"], "last": ranks["MAX(at)"]}
    assert answer.accuracy.attrs["ranks"] == answer.rank_errors and answer.accuracy["m"].isna().to_numpy().all()
    number = {name: f"{int(np.ceil(value)):,}" for name, value in answer.rank_errors.items()}
    said = next(note for note in answer.notes if note.startswith("rank errors, 95 %: "))
    assert said.endswith(
        f"m within {number['m']} ranks of the median, low within {number['low']} ranks of the minimum, "
        f"last within {number['last']} ranks of the maximum"
    )
    assert f"within {number['m']} ranks" in str(answer).split("\n")[2]
    assert f"Ranks: MEDIAN(x) is within {number['m']} ranks; it says nothing of groups of " in str(plan)


def test_another_confidence_has_another_rank_error_also_of_stored_choices(tmp_path: Path) -> None:
    session = opened(tmp_path)
    query = f"SELECT {QUARTILES}, MIN(x) AS low, MODE(half) AS most, COUNT(*) AS n FROM t"
    first = session.sql(query, epsilon=4)
    again, sure = session.sql(query, epsilon=4), session.sql(query, epsilon=4, confidence="0.999")
    assert again.charge == sure.charge == dp.PrivacyLoss()
    assert again.rank_errors == pytest.approx(first.rank_errors)
    assert all(sure.rank_errors[name] > error for name, error in first.rank_errors.items())
    assert first.accuracy.equals(again.accuracy) and set(first.rank_errors) == {"a", "b", "c", "low"}
    one = session.sql("SELECT MEDIAN(x) AS b FROM t", epsilon="0.1")
    assert one.charge == dp.PrivacyLoss() and one.rank_errors["b"] == pytest.approx(first.rank_errors["b"])
    assert "most at most" in " ".join(first.notes) and "rows rarer than the most frequent value" in " ".join(
        first.notes
    )


def test_choices_and_their_number_bound_each_other(tmp_path: Path) -> None:
    session = opened(tmp_path)
    answer = session.sql(f"SELECT half, COUNT(*) AS n, {QUARTILES} FROM t GROUP BY half ORDER BY half", epsilon=8)
    frame, found = answer.to_pandas(), answer.accuracy
    for row in (0, 1):
        a, b, c = (float(frame[name][row]) for name in "abc")
        ends = [tuple(float(found[name, end][row]) for end in ("lower", "upper")) for name in "abc"]
        assert ends == [(0, b), (a, c), (b, 999)]
    assert found.loc[2, ["a", "b", "c"]].isna().all()
    all = f"SELECT COUNT(x) AS n, {QUARTILES} FROM t"  # what is not read of it would not be measured
    difference = session.sql(f"SELECT c - a AS spread, b, n FROM ({all}) q", epsilon=8).accuracy["spread"]
    assert difference.iloc[0].tolist() == [0, 999]  # at most 999 less 0, at least the median less itself


def test_the_values_have_to_be_counted_themselves(tmp_path: Path) -> None:
    """Rows, or values under another filter, may be more than the values among which was chosen."""
    (tmp_path / "nullable").mkdir()
    (tmp_path / "all").mkdir()
    nullable, every = opened(tmp_path / "nullable", nullable=True), opened(tmp_path / "all")
    for session, counted, known in (
        (nullable, "COUNT(*)", False),
        (nullable, "AVG(x)", True),
        (nullable, "AVG(CLAMP(half, 0, 2))", False),
        (every, "AVG(CLAMP(half, 0, 2))", True),
        (every, "COUNT(*) FILTER (WHERE half = 1) AS one, COUNT(*)", True),
        (nullable, "COUNT(x)", True),
        (every, "COUNT(*)", True),
        (every, "COUNT(*) FILTER (WHERE half = 1)", False),
        (every, "COUNT(DISTINCT id)", False),
    ):
        answer = session.sql(f"SELECT {QUARTILES}, {counted} AS n FROM t", epsilon=20)
        assert answer.accuracy["b"].notna().to_numpy().all() == known, counted


def test_all_at_once_is_wider_or_none(tmp_path: Path) -> None:
    answer = opened(tmp_path).sql(f"SELECT COUNT(*) AS n, {QUARTILES} FROM t", epsilon=20)
    single, every = answer.accuracy, answer.intervals(simultaneous=True)
    for name in "nabc":
        assert (every[name, "lower"] <= single[name, "lower"]).all()
        assert (every[name, "upper"] >= single[name, "upper"]).all()
    assert answer.intervals("0.9999999999").loc[0, ["a", "b", "c"]].notna().all()


def test_of_a_table_that_is_read_twice_no_value_bounds_another(tmp_path: Path) -> None:
    session = opened(tmp_path)
    query = f"""
        WITH g AS (SELECT half, COUNT(*) AS n, {QUARTILES} FROM t GROUP BY half)
        SELECT l.half, l.b AS here, r.b AS there, l.n AS n, r.a AS a, r.c AS c FROM g l JOIN g r ON l.half = r.half + 1
    """
    assert session.sql(query, epsilon=20).accuracy[["here", "there"]].isna().all(axis=None)


def test_answers_hold_as_often_as_they_say(tmp_path: Path) -> None:
    """Sixty answers of three intervals: fewer than 95 % would be seen at once, for the bounds are far from tight."""
    session = opened(tmp_path, 300)
    exact = np.quantile(np.random.default_rng(3).integers(0, 500, 300), [0.25, 0.5, 0.75])
    held = 0
    for _ in range(60):
        found = session.sql(f"SELECT COUNT(*) AS n, {QUARTILES} FROM t", epsilon=10, fresh=True).accuracy
        held += all(found[n, "lower"][0] <= x <= found[n, "upper"][0] for n, x in zip("abc", exact, strict=True))
    assert held == 60


def test_groups_that_are_too_small_are_marked(tmp_path: Path) -> None:
    session = opened(tmp_path, 90)
    query = "SELECT half, COUNT(*) AS n, MAX(x) AS high, SUM(x) AS s FROM t GROUP BY half"
    answer = session.sql(query, epsilon=3)
    assert answer.warnings == (
        "groups of too few rows for a rank error as large, of which these say nothing: high in 3 of 3 rows",
    )
    with pytest.warns(dp.AccuracyWarning, match="high in 3 of 3 rows"):
        dbapi.connect(session).execute(query, epsilon=3)
    assert session.sql("SELECT COUNT(*) AS n, MAX(x) AS high FROM t", epsilon=40).warnings == ()


def test_a_profile_tells_it_before_the_charge(tmp_path: Path) -> None:
    session = opened(tmp_path, 900, max_rows=3)
    query = "SELECT half, MIN(x) AS low FROM t WHERE x > 3 GROUP BY half"
    assert session.explain(query, epsilon="0.1").warnings == ()
    session.profile(epsilon=20)
    plan = session.explain(query, epsilon="0.1")
    (words,) = plan.warnings
    assert words.startswith("MIN(x) says nothing: it is within ") and f"Warning: {words}" in str(plan)
    assert "its profile t has 900 rows in each" not in words and "300 rows in each of 3 groups on average" in words
    assert plan.charge == session.explain(query, epsilon="0.1").charge
    assert session.sql(query, epsilon="0.1").warnings == (words,)
    assert session.explain(query, epsilon=100).warnings == ()
