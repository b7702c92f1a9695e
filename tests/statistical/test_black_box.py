"""Worst pairs seen from outside alone: the empirical lower bound of epsilon comes near the claim, never above it.

Half of the answers choose an event, the other half bound its chances on both databases. Cells are public groups in
which the same pair is repeated with other people, so that one query gives many independent answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import dpquery as dp
from tests.properties.neighbours import Hall, folder
from tests.statistical.laws import Floats
from tests.statistical.tails_of_sums import FALSE_ALARM

CELLS, QUERIES = 4000, 6
EPSILON = math.log(3)


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


def upper_bound(hits: int, trials: int) -> float:
    """Returns a probability that is exceeded with at most FALSE_ALARM (Chernoff's bound with relative entropy)."""
    low, high = hits / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        share = hits / trials
        entropy = (share * math.log(share / middle) if share else 0.0) + (
            (1 - share) * math.log((1 - share) / (1 - middle)) if share < 1 and middle < 1 else 0.0
        )
        low, high = (middle, high) if trials * entropy <= -math.log(FALSE_ALARM) and middle < 1 else (low, middle)
    return high


def lower_bound(hits: int, trials: int) -> float:
    """Returns a probability that is missed with at most FALSE_ALARM."""
    return 1 - upper_bound(trials - hits, trials)


def certain_epsilon(here: NDArray[np.bool_], there: NDArray[np.bool_], delta: float = 0.0) -> float:
    """Returns a lower bound of epsilon from how often an event happened on either side."""
    p, q = lower_bound(int(here.sum()), here.size), upper_bound(int(there.sum()), there.size)
    return math.log(max(p - delta, 1e-12) / q)


def empirical_epsilon(here: Floats, there: Floats) -> float:
    """Returns a lower bound of epsilon from two samples of a number: the best event `number >= t` or `number <= t`."""
    half = len(here) // 2
    ends = np.unique(np.quantile(np.concatenate([here, there]), np.linspace(0.02, 0.98, 49)))
    events = [(sign, sign * float(t)) for sign in (1.0, -1.0) for t in ends]
    sign, t = max(events, key=lambda e: certain_epsilon(e[0] * here[:half] >= e[1], e[0] * there[:half] >= e[1]))
    return certain_epsilon(sign * here[half:] >= t, sign * there[half:] >= t)


def catalog(neighbours: str, budget: dict[str, object]) -> dp.Catalog:
    columns = {
        "person": {"type": "int64"},
        "cell": {"type": "int64", "keys": list(range(CELLS))},
        "value": {"type": "float64", "lower": -1, "upper": 4},
        "note": {"type": "text"},
    }
    tables = {"visits": {"unit": "person", "max_rows": 8, "columns": columns}}
    return dp.Catalog(dataset="d", privacy_unit="person", neighbours=neighbours, budget=budget, tables=tables)


def table(rows: list[tuple[int, int, float | None]]) -> dict[str, pa.Table]:
    """Returns visits of (person, cell, value); notes name the person and the cell."""
    person, cell, value = ([row[i] for row in rows] for i in range(3))
    note = [f"{p} {c}" for p, c, _ in rows]
    types = {"person": pa.int64(), "cell": pa.int64(), "value": pa.float64(), "note": pa.string()}
    columns = {"person": person, "cell": cell, "value": value, "note": note}
    return {"visits": pa.table({name: pa.array(columns[name], type) for name, type in types.items()})}


def sample(shelf: str, neighbours: str, rows: list[tuple[int, int, float | None]], text: str, **bounds: int) -> Floats:
    """Returns the numbers of all cells and queries, shape (queries, cells)."""
    opened = Hall(catalog(neighbours, {"epsilon": 1_000_000}), shelf).open(table(rows))
    loss = Fraction(str(EPSILON))
    found = [opened.session.sql(text, epsilon=loss, **bounds).to_arrow()["x"] for _ in range(QUERIES)]  # type: ignore[arg-type]
    return np.array([[float(value) for value in column.to_pylist()] for column in found])


COUNT = "SELECT cell, COUNT(*) AS x FROM visits GROUP BY cell"
SUM = "SELECT cell, SUM(value) AS x FROM visits GROUP BY cell"
FAR = (math.inf, 1e308, 4.0, 17.5)


def one_each(value: float) -> list[tuple[int, int, float | None]]:
    return [(cell, cell, value) for cell in range(CELLS)]


def crowded() -> list[tuple[int, int, float | None]]:
    """One person in each cell, with 14 rows of the largest value or far above it: together they weigh all they may."""
    return [(cell, cell, FAR[i % len(FAR)]) for cell in range(CELLS) for i in range(14)]


def in_pairs() -> list[tuple[int, int, float | None]]:
    """One person in two cells, with 5 rows in each, which weigh half of what all may weigh."""
    return [(cell // 2, cell, 1.0) for cell in range(CELLS) for _ in range(5)]


def in_every_other(first: int) -> list[tuple[int, int, float | None]]:
    """One person in every other cell, far above the bound."""
    return [(cell, cell, math.inf) for cell in range(first, CELLS, 2)]


def single(numbers: Floats) -> Floats:
    return numbers.ravel()


def both_large(numbers: Floats) -> Floats:
    """The likelihood of a change in two cells grows with each up to the full change: both have to be large."""
    return np.minimum(numbers[:, 0::2], numbers[:, 1::2]).ravel()


def one_large_one_small(numbers: Floats) -> Floats:
    return np.minimum(numbers[:, 0::2] - 4, -numbers[:, 1::2]).ravel()


@pytest.mark.parametrize(
    ("neighbours", "text", "here", "there", "bounds", "feature"),
    [
        ("add_remove", COUNT, one_each(0), [], {"max_groups": 1, "max_rows": 1}, single),
        ("add_remove", SUM, crowded(), [], {"max_groups": 1, "max_rows": 3}, single),
        ("add_remove", COUNT, in_pairs(), [], {"max_groups": 2, "max_rows": 3}, both_large),
        (
            "replace_one",
            SUM,
            in_every_other(0),
            in_every_other(1),
            {"max_groups": 1, "max_rows": 1},
            one_large_one_small,
        ),
    ],
    ids=["alone in a group", "extreme rows", "two groups", "replaced"],
)
def test_worst_pairs_are_told_apart_no_better_than_epsilon(
    neighbours: str,
    text: str,
    here: list[tuple[int, int, float | None]],
    there: list[tuple[int, int, float | None]],
    bounds: dict[str, int],
    feature: Callable[[Floats], Floats],
    shelf: str,
) -> None:
    first, second = (feature(sample(shelf, neighbours, rows, text, **bounds)) for rows in (here, there))
    found = max(empirical_epsilon(first, second), empirical_epsilon(second, first))
    assert found <= EPSILON
    assert found >= EPSILON / 2, "the pair or the test is too weak to show anything"


def test_the_presence_of_a_lone_group_is_within_delta(shelf: str) -> None:
    """The whole answer as the event: a group that only one database can show."""
    delta = Fraction(1, 100)
    opened = Hall(catalog("add_remove", {"rho": 1_000_000, "delta": "9/10"}), shelf).open(table(one_each(1)))
    shown = 0
    for _ in range(QUERIES):
        answer = opened.session.sql(
            "SELECT note, COUNT(*) AS n FROM visits GROUP BY note", rho="1/10", delta=delta, max_groups=1
        )
        shown += answer.to_arrow().num_rows
    assert lower_bound(shown, QUERIES * CELLS) <= delta
    assert shown > 0
