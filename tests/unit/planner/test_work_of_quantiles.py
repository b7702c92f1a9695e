"""The work of planning quantiles, and of answering them from the store, grows with their number and no faster."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.kernel import quantiles
from dpquery.kernel.plan import WHOLE_ROW, Count, Lattice, Measure, PrivateAggregate
from dpquery.plan.logical import Scan
from tests.unit.reuse.shop import Shop

FEW, MANY = 48, 96
FASTER = 3
"""Twice the quantiles may call a function so many times as often: n log n is below this, and n squared is 4."""
RARE = 200
"""Functions that are called less often with the many are not judged."""


def _query(n: int) -> str:
    chosen = ", ".join(f"QUANTILE_CONT(price, {i * 10 / 1000:.2f}) AS q{i}" for i in range(1, n + 1))
    return f"SELECT {chosen} FROM sales"


def _plans(session: dp.Session, n: int) -> Callable[[], object]:
    return lambda: session.explain(_query(n), epsilon="2")


def _measures(session: dp.Session, n: int) -> Callable[[], object]:
    return lambda: session.sql(_query(n), epsilon="2")


def _reads(session: dp.Session, n: int) -> Callable[[], object]:
    session.sql(_query(n), epsilon="2")
    return lambda: session.sql(_query(n), epsilon="1")


def _counted(folder: Path, n: int, ready: Callable[[dp.Session, int], Callable[[], object]]) -> dict[str, int]:
    """Returns how often each function is called for so many quantiles."""
    with Shop(folder, f"{n}.ledger").session() as session:
        run = ready(session, n)
        profile = cProfile.Profile()
        profile.enable()
        run()
        profile.disable()
    calls: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return {f"{file}:{line} {name}": number for (file, line, name), (number, *_) in calls.items()}


@pytest.mark.parametrize("ready", [_plans, _measures, _reads])
def test_no_function_is_called_for_each_pair_of_quantiles(
    tmp_path: Path, ready: Callable[[dp.Session, int], Callable[[], object]]
) -> None:
    _counted(tmp_path, 5, ready)  # what is done once in a process
    few, many = (_counted(tmp_path, n, ready) for n in (FEW, MANY))
    faster = {name: (few.get(name, 0), n) for name, n in many.items() if n > max(RARE, FASTER * few.get(name, 0))}
    assert not faster
    assert sum(many.values()) < 2.3 * sum(few.values())


def test_a_choice_is_judged_once_for_each_level_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a full tree of n choices there are 2n less the number of levels of these."""
    judged: list[tuple[Fraction | None, Fraction]] = []
    plain = quantiles._off

    def off(aggregate: PrivateAggregate, measure: Measure, scale: quantiles.Scale, p: Fraction) -> float:
        judged.append((measure.target, p))
        return plain(aggregate, measure, scale, p)

    monkeypatch.setattr(quantiles, "_off", off)
    for levels in (2, 3, 6, 7):
        n = 2**levels - 1
        aggregate = _aggregate(n)
        scales = [(Fraction(1, 100), Fraction(50 + i) if i % 2 else None, Fraction(1)) for i in range(n)]
        judged.clear()
        quantiles.rank_errors(aggregate, scales, Fraction(1, 20))
        assert len(judged) == len(set(judged)) == 2 * n - levels


def _aggregate(n: int) -> PrivateAggregate:
    lattice = Lattice(grid=Fraction(1), lower=0, upper=100)
    targets = [Fraction(i, n + 1) for i in range(1, n + 1)]
    return PrivateAggregate(
        source=Scan(table="t", columns=(), public=False),
        unit=None,
        keys=(),
        weights=WHOLE_ROW,
        measures=tuple(
            Measure(id=str(t), label="", count=Count.QUANTILE, value="x", lattice=lattice, target=t) for t in targets
        ),
    )
