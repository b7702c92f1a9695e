"""Re-use never changes what is measured: without noise, a session that stores answers gives the same as one that
stores none, whatever was asked before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import dpquery as dp
from tests.scripted import zero_noise
from tests.unit.stored.shop import Shop

KEYS = ("region", "kind", "site", "score", "EXTRACT(MONTH FROM day)")
NUMBERS = (
    "COUNT(*)",
    "COUNT(site)",
    "COUNT(DISTINCT id)",
    "COUNT(DISTINCT kind)",
    "SUM(price)",
    "SUM(score)",
    "AVG(price)",
    "STDDEV_POP(price)",
    "SUM(score) FILTER (WHERE kind = 'a')",
)
CONDITIONS = (
    "region = 'east'",
    "region IN ('east', 'west')",
    "kind = 'a'",
    "site IS NULL",
    "site = 'x'",
    "site <> 'y'",
    "score > 3",
    "score BETWEEN 2 AND 9",
    "EXTRACT(MONTH FROM day) IN (1, 2, 7)",
    "EXTRACT(MONTH FROM day) >= 6",
    "region = 'east' OR kind = 'b'",
    "price < 12",
)
UNITS = ("row", "customer")


def _query(chance: random.Random, words: tuple[list[str], list[str], list[str]]) -> str:
    keys = sorted(chance.sample(words[0], chance.choice((0, 1, 1, 2, 2, 3))))  # the hash of a group reads them in order
    numbers = chance.sample(words[1], chance.choice((1, 2)))
    conditions = chance.sample(words[2], chance.choice((0, 0, 1, 1, 2)))
    columns = [f"{key} AS k{place}" for place, key in enumerate(keys)] + [f"{n} AS n{i}" for i, n in enumerate(numbers)]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    by = chance.choice(("{}", "{}", "ROLLUP ({})", "CUBE ({})")) if keys else ""
    grouping = f" GROUP BY {by.format(', '.join(keys))}" if keys else ""
    order = f" ORDER BY {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join(columns)} FROM sales{where}{grouping}{order}"


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_what_is_stored_is_what_would_be_measured(
    unit: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(f"{unit} {seed}")
    known = [number for number in NUMBERS if unit != "row" or "DISTINCT" not in number]
    words = chance.sample(KEYS, 3), chance.sample(known, 4), chance.sample(CONDITIONS, 4)
    zero_noise(monkeypatch)
    shop, plain = Shop(tmp_path, unit=unit), Shop(tmp_path, "plain.ledger", unit=unit)
    free = partly = 0
    with shop.session() as storing, plain.session(reuse=False) as measuring:
        for _ in range(40):
            query, epsilon = _query(chance, words), chance.choice(("8", "1", "0.1", "0.05"))
            planned = storing.explain(query, epsilon=epsilon)
            answer, expected = storing.sql(query, epsilon=epsilon), measuring.sql(query, epsilon=epsilon)
            assert answer.charge == planned.charge
            assert answer.to_arrow() == expected.to_arrow(), query
            assert answer.charge.epsilon <= expected.charge.epsilon
            stored = [bool(m.stored) for m in planned.measurements]
            free, partly = free + all(stored), partly + (any(stored) and not all(stored))
            assert all(stored) is (answer.charge == dp.PrivacyLoss())
        spent = 100_000 - storing.remaining.epsilon
    assert free + partly > 0
    assert spent == sum(entry.loss.epsilon for entry in dp.Ledger.open(shop.path).entries())
