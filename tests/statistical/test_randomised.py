"""Estimates over randomised reports: unbiased, with the variance that is claimed, and intervals that hold.

Without the noise of the answer, an estimate's law follows from that of the reports, which few rows let us enumerate.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.catalog.tables import Randomized
from dpquery.planner.debias.chances import Chances
from tests.scripted import zero_noise

FALSE_ALARM = 1e-9
WORLDS = 27
"""Sets of reports that one table holds: of three rows with three categories there are so many."""
COPIES = 1000
"""Of each row, so that rounding to whole rows is small."""

TRUTH = pd.DataFrame({"party": ["a", "b", "b"], "grade": [1, 2, 4], "age": [20, 40, 70]})
PARTIES, GRADES = ("a", "b", "c"), (1, 2, 4)
COLUMNS = {
    "party": {"type": "text", "randomized": {"epsilon": "1.5", "categories": list(PARTIES)}},
    "grade": {"type": "int64", "randomized": {"epsilon": 1, "categories": list(GRADES)}},
    "age": {"type": "int64", "lower": 0, "upper": 100},
    "side": {"type": "text", "keys": ["left", "right"]},
    "world": {"type": "int64", "keys": list(range(WORLDS))},
}
CATALOG = {
    "dataset": "survey",
    "privacy_unit": "row",
    "budget": {"epsilon": 1000},
    "defaults": {"least_charge": "1e-12"},
    "tables": {"people": {"columns": COLUMNS}},
}
LINEAR = {
    "SELECT world, COUNT(*) FROM people WHERE party = 'b' GROUP BY world": 2,
    "SELECT world, COUNT(*) FROM people WHERE party IN ('a', 'c') AND age > 30 GROUP BY world": 0,
    "SELECT world, COUNT_IF(party <> 'b') FROM people GROUP BY world": 1,
    "SELECT world, COUNT(*) FILTER (WHERE NOT party = 'a') FROM people WHERE age < 60 GROUP BY world": 1,
    "SELECT world, SUM(age) FROM people WHERE party = 'b' GROUP BY world": 110,
    "SELECT world, SUM(age) FILTER (WHERE party <> 'b') FROM people GROUP BY world": 20,
    "SELECT world, n FROM (SELECT world, party, COUNT(*) AS n FROM people GROUP BY 1, 2) AS t WHERE party = 'b'": 2,
    "SELECT world, s FROM (SELECT world, party, SUM(age) AS s FROM people GROUP BY 1, 2) AS t WHERE party = 'a'": 20,
}
OF_GRADES = {
    "SELECT world, SUM(grade) FROM people GROUP BY world": 7,
    "SELECT world, SUM(grade * grade) FROM people WHERE grade > 1 GROUP BY world": 20,
    "SELECT world, COUNT(CASE WHEN grade < 4 THEN 1 END) FROM people GROUP BY world": 2,
    "SELECT world, COUNT(*) FROM people WHERE grade BETWEEN 2 AND 4 AND age < 100 GROUP BY world": 2,
}


def session_over(frame: pd.DataFrame, folder: Path, **more: object) -> dp.Session:
    catalog = dp.Catalog(**{**CATALOG, **more})  # type: ignore[arg-type]
    return dp.connect(catalog, {"people": frame}, ledger=dp.create_ledger(catalog, folder / "people.ledger"))


def reported(column: str, reports: list[tuple[object, ...]]) -> pd.DataFrame:
    """Returns copies of a world of the true rows for each of the reports."""
    worlds = [TRUTH.assign(side="left", world=world, **{column: list(told)}) for world, told in enumerate(reports)]  # type: ignore[arg-type]
    rows = pd.concat(worlds, ignore_index=True)
    return rows.loc[rows.index.repeat(COPIES)].reset_index(drop=True)


@pytest.mark.parametrize(
    ("column", "categories", "queries"), [("party", PARTIES, LINEAR), ("grade", GRADES, OF_GRADES)]
)
def test_sums_are_unbiased_and_vary_as_claimed(
    column: str,
    categories: tuple[object, ...],
    queries: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zero_noise(monkeypatch)
    chances = Chances.of(Randomized(epsilon=Fraction({"party": "1.5", "grade": "1"}[column]), categories=categories))  # type: ignore[arg-type]
    reports = list(itertools.product(categories, repeat=len(TRUTH)))
    right = [[report == value for report, value in zip(told, TRUTH[column], strict=True)] for told in reports]
    chance = np.array([math.prod(chances.p if true else chances.q for true in each) for each in right])
    means, squares = dict.fromkeys(queries, 0.0), dict.fromkeys(queries, 0.0)
    with session_over(reported(column, reports), tmp_path) as session:
        for query, answer in zip(queries, session.batch(list(queries), epsilon=8), strict=True):
            table = answer.to_pandas()
            assert table.world.tolist() == [*range(len(reports))]
            estimates = table.iloc[:, 1].to_numpy() / COPIES
            means[query], squares[query] = float(chance @ estimates), float(chance @ estimates**2)
    assert means == pytest.approx(queries, abs=0.002)
    first = next(iter(queries))
    weights = tuple(1.0 if c == "b" else 0.0 for c in categories) if column == "party" else tuple(map(float, GRADES))
    claimed = sum(chances.variance(weights[categories.index(value)], weights) for value in TRUTH[column])
    assert squares[first] - means[first] ** 2 == pytest.approx(claimed, abs=0.02)


def test_the_law_of_a_report() -> None:
    chances = Chances.of(Randomized(epsilon=Fraction(2), categories=("a", "b", "c", "d")))
    assert chances.p + 3 * chances.q == pytest.approx(1) and chances.p / chances.q == pytest.approx(math.exp(2))
    binary = Chances.of(Randomized(epsilon=Fraction(1), categories=(False, True)))
    known = binary.p * binary.q / (binary.p - binary.q) ** 2
    assert binary.variance(1.0, (0.0, 1.0)) == pytest.approx(known) == pytest.approx(binary.variance(0.0, (0.0, 1.0)))


PEOPLE = 3000
ASKED = (
    "SELECT world, COUNT(*) AS a, COUNT_IF(NOT party = 'b') AS b, SUM(age) AS c"
    " FROM people WHERE party <> 'a' GROUP BY 1",
    "SELECT world, AVG(age) AS a FROM people WHERE party = 'a' GROUP BY 1",
    "SELECT world, AVG(grade) AS a, COUNT_IF(grade = 4) AS b, SUM(grade) AS c FROM people GROUP BY 1",
    "SELECT world, party, COUNT(*) AS a, SUM(age) AS b FROM people GROUP BY 1, 2",
    "SELECT world, side, party, COUNT(*) AS a FROM people GROUP BY 1, 2, 3",
)
CELLS = 19
"""Of each world."""
PLACES = pd.Series(range(WORLDS * PEOPLE)).mod(PEOPLE)
VALUES = pd.DataFrame(
    {
        "world": pd.Series(range(WORLDS)).repeat(PEOPLE).to_numpy(),
        "party": PLACES.mod(10).map(lambda i: PARTIES[(i > 4) + (i > 7)]),
        "grade": PLACES.mod(7).map(lambda i: GRADES[(i > 2) + (i > 4)]),
        "age": 20 + PLACES.mod(61),
        "side": PLACES.mod(2).map({0: "left", 1: "right"}),
    }
)


def _exact(folder: Path) -> list[pd.DataFrame]:
    """Returns the answers over values without lies and without noise."""
    plain = {name: {k: v for k, v in said.items() if k != "randomized"} for name, said in COLUMNS.items()}  # type: ignore[attr-defined]
    plain |= {"party": {"type": "text", "keys": list(PARTIES)}, "grade": {"type": "int64", "lower": 1, "upper": 4}}
    with (
        session_over(VALUES, folder, tables={"people": {"columns": plain}}) as session,
        pytest.MonkeyPatch.context() as patch,
    ):
        zero_noise(patch)
        return [answer.to_pandas() for answer in session.batch(ASKED, epsilon=1)]


def _misses(folder: Path, exact: list[pd.DataFrame], epsilon: Fraction, sessions: int) -> list[int]:
    """Returns for each cell in how many worlds its interval does not hold the exact number."""
    folder.mkdir()
    missed = np.zeros(CELLS, int)
    for number in range(sessions):
        told = VALUES.assign(
            party=dp.local.randomize(VALUES.party, "1.5", PARTIES),
            grade=dp.local.randomize(VALUES.grade, 1, GRADES),
        )
        (folder / str(number)).mkdir()
        with session_over(told, folder / str(number)) as session:
            pairs = zip(session.batch(ASKED, epsilon=epsilon), exact, strict=True)
            outside = [
                np.reshape(column, (WORLDS, -1)) for pair in pairs for column in _outside(pair[0].accuracy, pair[1])
            ]
            missed += np.hstack(outside).sum(axis=0)
    return missed.tolist()


def _outside(bounds: pd.DataFrame, right: pd.DataFrame) -> list[list[bool]]:
    names = bounds.columns.get_level_values(0).unique()
    return [(~((bounds[n].lower <= right[n]) & (right[n] <= bounds[n].upper))).tolist() for n in names]


def _chance(missed: int, total: int, rate: float) -> float:
    """Returns at most the chance of so many misses or more, each with this rate (Chernoff's bound)."""
    share = missed / total
    if share <= rate:
        return 1.0
    rest = (1 - share) * math.log((1 - share) / (1 - rate)) if share < 1 else 0.0
    return math.exp(-total * (share * math.log(share / rate) + rest))


@pytest.mark.parametrize("sessions", [1, pytest.param(7, marks=pytest.mark.slow)])
def test_intervals_hold_with_their_confidence_and_would_not_without_the_lies(
    sessions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intervals of 95 % may miss 6 in 100 times, as reports are taken for normal; each cell is judged by itself."""
    exact = _exact(tmp_path)
    missed = _misses(tmp_path / "held", exact, Fraction(20, 9), sessions)
    assert min(_chance(count, WORLDS * sessions, 0.06) for count in missed) > FALSE_ALARM / CELLS
    monkeypatch.setattr(Chances, "variance", lambda *_: 0.0)
    missed = _misses(tmp_path / "ignored", exact, Fraction(100), 1)  # so little noise that lies decide
    assert min(_chance(count, WORLDS, 0.06) for count in missed) < FALSE_ALARM / CELLS
