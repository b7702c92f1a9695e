"""One ordered value: whatever keys, prefixes, ranges and periods were asked, all shown numbers of it agree."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpquery as dp
from tests.unit.reuse.shop import Shop, sales

ROWS = 60
LOW, HIGH = -5, 20
Group = Callable[[Any], Any]
KEYS: dict[str, Group] = {
    "score": lambda rows: rows["score"],
    "score / 4": lambda rows: (rows["score"] / 4).astype(int),
    "CASE WHEN score <= 2 THEN 0 WHEN score < 11 THEN 1 ELSE 2 END": lambda rows: (
        (rows["score"] > 2).astype(int) + (rows["score"] >= 11)
    ),
    "date_trunc('month', day)": lambda rows: rows["day"].astype("datetime64[us]").dt.to_period("M").dt.to_timestamp(),
    "date_trunc('quarter', day)": lambda rows: rows["day"].astype("datetime64[us]").dt.to_period("Q").dt.to_timestamp(),
}
FREE = dp.PrivacyLoss()


def some_range(chance: random.Random) -> str:
    if chance.random() < 0.5:
        low, high = sorted(chance.sample(range(LOW, HIGH + 1), 2))
        return chance.choice([f"score <= {high}", f"score BETWEEN {low} AND {high}", f"NOT score < {low}"])
    first, last = sorted(chance.sample(range(1, 13), 2))
    return chance.choice([f"day < '2024-{last:02}-01'", f"day >= '2024-{first:02}-01' AND day < '2024-{last:02}-01'"])


def bought(chance: random.Random) -> list[str]:
    """Returns one query, or a batch."""
    if chance.random() < 0.5:
        return [f"SELECT COUNT(*) AS n FROM sales WHERE {some_range(chance)}" for _ in range(chance.randint(2, 6))]
    key = chance.choice([*KEYS])
    where = f" WHERE {some_range(chance)}" if chance.random() < 0.3 else ""
    return [f"SELECT {key} AS k, COUNT(*) AS n FROM sales{where} GROUP BY {key}"]


class Shown:
    """What a session shows for nothing, and how many of its intervals hold."""

    def __init__(self, session: dp.Session) -> None:
        self.session, self.numbers, self.within = session, 0, 0

    def of(self, where: str, exact: int) -> int | None:
        """Returns the number of rows that fulfil a condition, where it is free."""
        query = f"SELECT COUNT(*) AS n FROM sales{f' WHERE {where}' if where else ''}"
        if self.session.explain(query, epsilon="0.001").charge != FREE:
            return None
        answer = self.session.sql(query, epsilon="0.001")
        assert answer.charge == FREE
        ends = answer.accuracy.iloc[0]
        self.numbers += 1
        self.within += bool(ends["n", "lower"] <= exact <= ends["n", "upper"])
        return int(answer.to_pandas()["n"][0])

    def by(self, key: str) -> dict[Any, int] | None:
        """Returns the numbers of rows of all groups, where they are free."""
        query = f"SELECT {key} AS k, COUNT(*) AS n FROM sales GROUP BY {key}"
        if self.session.explain(query, epsilon="0.001").charge != FREE:
            return None
        frame = self.session.sql(query, epsilon="0.001").to_pandas()
        return dict(zip(frame["k"], frame["n"].tolist(), strict=True))


def run(folder: Path, seed: int) -> tuple[int, int]:
    """Returns how many numbers were shown, and how many intervals held the exact one; all of them agree."""
    chance = random.Random(f"one line {seed}")
    rows = sales(ROWS).to_pandas()
    with Shop(folder, f"{seed}.ledger").session(rows=ROWS) as session:
        for _ in range(chance.randint(1, 4)):
            session.batch(bought(chance), epsilon=chance.choice(("0.3", "1", "4")))
        shown = Shown(session)
        below = {k: shown.of(f"score <= {k}", int((rows["score"] <= k).sum())) for k in range(LOW, HIGH + 1, 2)}
        known = [(k, n) for k, n in below.items() if n is not None]
        for (first, fewer), (last, more) in itertools.pairwise(known):
            exact = int(((rows["score"] > first) & (rows["score"] <= last)).sum())
            between = shown.of(f"score BETWEEN {first + 1} AND {last}", exact)
            assert between is None or between == more - fewer
        by_score, total = shown.by("score"), shown.of("", len(rows))
        for key, group in KEYS.items():
            groups = shown.by(key)
            if groups is None:
                continue
            assert total == sum(groups.values())
            if by_score is not None and key.startswith(("score", "CASE")):
                told = group(rows.assign(score=range(LOW, LOW + len(rows))))[: HIGH - LOW + 1].tolist()
                for value, number in groups.items():
                    assert number == sum(n for (_, n), own in zip(by_score.items(), told, strict=True) if own == value)
            if "day" in key:
                for value, number in groups.items():
                    one = shown.of(f"{key} = '{value:%Y-%m-%d}'", int((group(rows) == value).sum()))
                    assert one in (None, number)
        for k, n in known if by_score is not None else ():
            assert n == sum(number for score, number in (by_score or {}).items() if score <= k)
        return shown.numbers, shown.within


@pytest.mark.parametrize("seed", range(4))
def test_shown_numbers_of_a_line_agree(seed: int, tmp_path: Path) -> None:
    run(tmp_path, seed)


@pytest.mark.slow
def test_several_hundred_sequences(tmp_path: Path) -> None:
    """Intervals of 95 % hold at least 92 % of the time."""
    counts = [run(tmp_path, seed) for seed in range(100, 400)]
    numbers, within = (sum(column) for column in zip(*counts, strict=True))
    print(f"{within / numbers:.4f} of {numbers} counts")
    assert within >= 0.92 * numbers
