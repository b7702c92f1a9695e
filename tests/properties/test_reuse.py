"""Re-use never changes what is measured: without noise, a session that stores answers gives the same as one that
stores none, whatever was asked before. Where rows weigh less than 1 it is the same but for rounding."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dpquery as dp
from tests.scripted import zero_noise
from tests.unit.reuse.shop import Shop

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
ENOUGH = 600  # rows of a customer, so that each weighs 1 and no group is rounded
TARGETS = ("0.1", "0.25", "0.5", "0.75", "0.9")
BESIDE = ("COUNT(*)", "SUM(score)", "MIN(price)", "QUANTILE_CONT(score, 0.5)")


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
    shop, plain = Shop(tmp_path, unit=unit, most=ENOUGH), Shop(tmp_path, "plain.ledger", unit=unit, most=ENOUGH)
    free = partly = 0
    with shop.session() as storing, plain.session(reuse=False) as measuring:
        for _ in range(25 if seed else 8):
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


@pytest.mark.parametrize(("sums", "groups"), [("region", 156), ("kind, region", 78), ("site", 156)])
def test_sums_of_released_groups_differ_by_their_rounding_alone(
    sums: str, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some customers have more rows than four, so that their rows weigh less: each released group is off by a half.

    Intervals say so: they hold what is measured. `groups` are those that make one that is asked.
    """
    zero_noise(monkeypatch)
    shop, plain = Shop(tmp_path, unit="customer"), Shop(tmp_path, "plain.ledger", unit="customer")
    text = "SELECT {0}, COUNT(*) AS n, SUM(score) AS s FROM sales GROUP BY {0} ORDER BY {0}"
    with shop.session() as storing, plain.session(reuse=False) as measuring:
        storing.sql(text.format("kind, region, score, site"), epsilon=8)
        derived, expected = (opened.sql(text.format(sums), epsilon="0.001") for opened in (storing, measuring))
    assert derived.charge == dp.PrivacyLoss()
    for name in ("n", "s"):
        exact = expected.to_pandas()[name].to_numpy(dtype=float)
        assert (derived.accuracy[name, "lower"].to_numpy() <= exact).all()
        assert (exact <= derived.accuracy[name, "upper"].to_numpy()).all()
    numbers, exact = (result.to_pandas()["n"].to_numpy(dtype=float) for result in (derived, expected))
    assert np.abs(numbers - exact).max() <= (groups + 1) / 2


def _quantiles(chance: random.Random) -> tuple[str, bool]:
    """Returns a query for quantiles, and whether it asks for those of one value alone."""
    key, targets = chance.choice(("", "", "region")), chance.sample(TARGETS, chance.choice((1, 2, 3, 3, 4)))
    numbers = [f"QUANTILE_CONT(price, {target}) AS q{target[2:]}" for target in targets]
    beside = [f"{word} AS n" for word in chance.sample(BESIDE, chance.choice((0, 0, 1)))]
    where = chance.choice(("", "", " WHERE region = 'east'", " WHERE kind = 'a'"))
    columns = ([f"{key} AS k"] if key else []) + chance.sample(numbers + beside, len(numbers + beside))
    end = (f" GROUP BY {key}" if key else "") + chance.choice(("", f" HAVING QUANTILE_CONT(price, {targets[0]}) > 0"))
    return f"SELECT {', '.join(columns)} FROM sales{where}{end}{' ORDER BY 1' if key else ''}", not beside


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))])
def test_quantiles_are_read_as_they_were_bought(
    unit: str, noisy: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked after whatever: what is free is there, no less exact than asked, and counted whole."""
    chance = random.Random(f"quantiles {unit} {noisy} {seed}")
    if not noisy:
        zero_noise(monkeypatch)
    shop, plain = Shop(tmp_path, unit=unit), Shop(tmp_path, "plain.ledger", unit=unit)
    bought: dict[int, tuple[Fraction, bool]] = {}  # by entry: the charge, and whether it was for one family alone
    free = read = 0
    with shop.session() as storing, plain.session(reuse=False) as measuring:
        for _ in range(30):
            (query, alone), epsilon = _quantiles(chance), chance.choice(("8", "1", "0.4", "0.1"))
            planned, anew = storing.explain(query, epsilon=epsilon), measuring.explain(query, epsilon=epsilon)
            answer = storing.sql(query, epsilon=epsilon)
            assert (answer.charge, answer.guarantee) == (planned.charge, planned.guarantee)
            for made, alike in zip(planned.measurements, anew.measurements, strict=True):
                assert made.error95 <= alike.error95 * (1 + 1e-9)
                assert made.stored or (made.error95, made.together) == (alike.error95, alike.together)
            stored = [bool(m.stored) for m in planned.measurements if "price" in m.label and m.aggregate == "quantile"]
            if len(stored) >= 3:
                assert len(set(stored)) == 1
            assert all(m.stored for m in planned.measurements) is (answer.charge == dp.PrivacyLoss())
            new = [entry for entry in answer.releases if entry not in bought]
            assert len(new) == (answer.charge != dp.PrivacyLoss())
            bought |= dict.fromkeys(new, (answer.charge.epsilon, alone and len(stored) >= 3))
            whole = sum(charge for entry, (charge, is_whole) in bought.items() if is_whole and entry in answer.releases)
            behind = answer.releases if alone else bought  # sums are combined with all that is known of them
            assert whole <= answer.guarantee.epsilon <= sum(bought[entry][0] for entry in behind)
            again = storing.sql(query, epsilon=epsilon)
            assert again.charge == dp.PrivacyLoss() and again.to_arrow() == answer.to_arrow()
            assert again.guarantee == answer.guarantee
            ordered = sorted(name for name in answer.to_arrow().column_names if name.startswith("q"))
            columns = [answer.to_arrow()[name].to_numpy() for name in ordered]
            assert all((low <= high).all() for low, high in pairwise(columns))
            free, read = free + (answer.charge == dp.PrivacyLoss()), read + any(stored)
        spent = 100_000 - storing.remaining.epsilon
    assert free + read
    assert spent == sum(charge for charge, _ in bought.values())
