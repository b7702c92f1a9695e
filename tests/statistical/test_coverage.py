"""The benchmark of intervals: what it repeats is what everybody gets, and its bounds are those of the binomial law."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.coverage import QUESTIONS, _of_values, _part, holds, misses, opened, rows_of
from tests.scripted import same_noise, zero_noise

GROUPS, SIZE = 6, 40


@pytest.mark.parametrize("money", ["epsilon", "rho"])
def test_a_group_that_is_repeated_is_answered_as_many_are(
    money: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same noise over one group's integers for each group, and over the rows of all groups."""
    copies = [rows_of(SIZE).assign(g=g) for g in range(GROUPS)]
    for g, copy in enumerate(copies):
        copy[["id", "person", "kind"]] += 1000 * g
    rows = pd.concat(copies, ignore_index=True)
    sessions = [opened(tmp_path / name, SIZE, money, GROUPS, given) for name, given in (("all", rows), ("one", None))]
    for question in QUESTIONS.values():
        found = []
        for session in sessions:
            same_noise(monkeypatch, 7)
            query = f"SELECT g, {question.sql} AS answer FROM {question.table} GROUP BY g"
            found.append(session.sql(query, epsilon="1") if money == "epsilon" else session.sql(query, rho="0.5"))
        pd.testing.assert_frame_equal(found[0].to_pandas(), found[1].to_pandas())
        pd.testing.assert_frame_equal(found[0].accuracy, found[1].accuracy)
    for session in sessions:
        session.close()


def test_bounds_on_a_chance_are_those_of_the_binomial_law() -> None:
    assert _part(0, 10) == pytest.approx((0, 1 - 0.001**0.1), abs=1e-6)
    assert _part(10, 10) == pytest.approx((0.001**0.1, 1), abs=1e-6)
    least, most = _part(1900, 2000)
    assert 0.9325 < least < 0.9345 and 0.9635 < most < 0.965


def test_an_interval_is_compared_with_the_least_that_holds_for_all_data() -> None:
    values = np.round(np.random.default_rng(1).laplace(0, 0.3, 10_000))
    wide, least = (_of_values(values, values - half, values + half, 0.0, None, 1.24) for half in (1.5, 1.25))
    assert misses(wide) and holds(least) and least["spread"] == 1.25


@pytest.mark.parametrize(
    ("half", "misses_it", "holds_it"), [(1.96, False, True), (1.7, True, False), (2.5, True, False)]
)
def test_intervals_that_are_too_short_or_too_wide_miss(half: float, misses_it: bool, holds_it: bool) -> None:
    values = np.random.default_rng(1).normal(0, 1, 10_000)
    found = _of_values(values, values - half, values + half, 0.0, None, 0.0)
    assert (misses(found), holds(found)) == (misses_it, holds_it)


def test_intervals_that_are_not_there_miss() -> None:
    values = np.random.default_rng(1).normal(0, 1, 10_000)
    there = np.where(np.arange(10_000) % 20 == 0, np.nan, 1.96)
    assert misses(_of_values(values, values - there, values + there, 0.0, None, 0.0))


@pytest.mark.parametrize("size", [16, 40])
def test_the_count_that_decided_has_an_interval_of_what_is_shown(
    size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session = opened(tmp_path / "selected", size, "both", GROUPS)
    zero_noise(monkeypatch)
    answer = session.sql("SELECT h, COUNT(*) AS n FROM t GROUP BY h", epsilon="1", delta="1e-6")
    (made,) = answer.measurements
    assert made.tau is not None and made.tau <= 16 and answer.to_pandas()["n"].tolist() == [size] * GROUPS
    (lower,), (upper,) = (set(answer.accuracy["n", end]) for end in ("lower", "upper"))
    assert upper == size + made.error95
    assert lower == 1 if size == 16 else size - made.error95 <= lower <= size - made.error95 + 1
    session.close()
