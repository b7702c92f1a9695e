"""Aggregates of pairs without noise agree with exact arithmetic, wherever their ranges lie, and share measures."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from random import Random

import pandas as pd
import pytest

import dpquery as dp
from dpquery.accuracy.intervals import IntervalInputs
from dpquery.plan.aggregates import AGGREGATES
from dpquery.plan.aggregates.pairs import PairAggregate
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64, INT64
from dpquery.planner.protect.measurements import MeasurementSet
from tests.scripted import zero_noise

PAIRS = tuple(name for name, found in AGGREGATES.items() if isinstance(found, PairAggregate))

RANGES = {
    "around 0": ("float64", -5.0, 5.0),
    "far from 0": ("float64", 1e9, 1e9 + 1),
    "very far from 0": ("float64", -1e12, -1e12 + 64),
    "tiny": ("float64", 0.0, 1e-9),
    "huge": ("float64", -1e30, 1e30),
    "integers": ("int64", 0, 100),
    "integers far from 0": ("int64", 10**15, 10**15 + 7),
    "large integers": ("int64", -(10**12), 10**12),
}


def session_over(
    frame: pd.DataFrame, kinds: tuple[str, str], folder: Path, *, unit: str = "row", nullable: bool = False
) -> dp.Session:
    columns = {
        name: {"type": RANGES[kind][0], "lower": RANGES[kind][1], "upper": RANGES[kind][2], "nullable": nullable}
        for name, kind in zip("yx", kinds, strict=True)
    }
    catalog = dp.Catalog(
        dataset="pairs", privacy_unit=unit, budget={"epsilon": 100}, tables={"t": {"columns": columns}}
    )
    ledger = dp.Ledger.create(folder / "pairs.ledger", catalog.declarations, catalog.budget, catalog.analysts)
    return dp.connect(catalog, {"t": frame}, ledger=ledger, reuse=False)


def exact_line(rows: list[tuple[float, float]]) -> dict[str, float]:
    """Returns the aggregates of pairs, in fractions until the end."""
    ys, xs = ([Fraction(row[i]) for row in rows] for i in (0, 1))
    count = len(rows)
    mean_y, mean_x = sum(ys) / count, sum(xs) / count
    syy, sxx = sum((y - mean_y) ** 2 for y in ys), sum((x - mean_x) ** 2 for x in xs)
    sxy = sum((y - mean_y) * (x - mean_x) for y, x in zip(ys, xs, strict=True))
    return {
        "covar_pop": float(sxy / count),
        "covar_samp": float(sxy / (count - 1)),
        "corr": float(sxy) / (math.sqrt(syy) * math.sqrt(sxx)),
        "regr_slope": float(sxy / sxx),
        "regr_intercept": float(mean_y - sxy / sxx * mean_x),
        "regr_r2": float(sxy**2 / (sxx * syy)),
        "regr_count": count,
        "regr_avgx": float(mean_x),
        "regr_avgy": float(mean_y),
        "regr_sxx": float(sxx),
        "regr_syy": float(syy),
        "regr_sxy": float(sxy),
    }


def drawn(random: Random, kind: str) -> float:
    type, lower, upper = RANGES[kind]
    return random.randint(int(lower), int(upper)) if type == "int64" else random.uniform(lower, upper)


def names(*, among: tuple[str, ...] = PAIRS) -> str:
    return ", ".join(f"{name.upper()}(y, x) AS {name}" for name in among)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("first", RANGES)
@pytest.mark.parametrize("second", ["around 0", "far from 0", "integers"])
def test_pairs_agree_with_exact_arithmetic(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    random = Random(f"{first} {second}")
    rows = [(drawn(random, first), drawn(random, second)) for _ in range(300)]
    width = RANGES[first][2] - RANGES[first][1], RANGES[second][2] - RANGES[second][1]
    frame = pd.DataFrame(rows, columns=["y", "x"])
    found = session_over(frame, (first, second), tmp_path).sql(f"SELECT {names()} FROM t", epsilon="1").to_pandas()
    plain = exact_line(rows)
    size = {
        "covar_pop": width[0] * width[1],
        "covar_samp": width[0] * width[1],
        "regr_slope": width[0] / width[1],
        "regr_intercept": width[0] * max(1, *map(abs, RANGES[second][1:])) / width[1],
        "regr_avgx": width[1],
        "regr_avgy": width[0],
        "regr_sxx": 300 * width[1] ** 2,
        "regr_syy": 300 * width[0] ** 2,
        "regr_sxy": 300 * width[0] * width[1],
    }
    for name in PAIRS:
        a, b = float(found[name][0]), float(plain[name])
        assert math.isclose(a, b, rel_tol=1e-6, abs_tol=2e-5 * size.get(name, 1.0)), name


def test_one_pair_is_measured_once(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [1.0], "x": [2]})
    session = session_over(frame, ("around 0", "integers"), tmp_path)
    moments = "COUNT(*), SUM(x), AVG(x), AVG(y), STDDEV_SAMP(x), VAR_POP(y)"
    asked = f"SELECT {names()}, CORR(x, y), {moments} FROM t"
    plan = session.explain(asked, epsilon="1")
    assert len(plan.measurements) == 9  # the terms of one vector
    assert {made.loss.epsilon for made in plan.measurements} == {plan.charge.epsilon} == {1}


def test_intervals_hold_whatever_the_noise() -> None:
    """Each measure moves within its half-width; then the interval of each aggregate, where known, holds its value."""
    random = Random(5)
    y, x = Column(id="y", type=FLOAT64), Column(id="x", type=INT64)
    ranges = {"y": Range(lower=Fraction(-5), upper=Fraction(5)), "x": Range(lower=Fraction(0), upper=Fraction(100))}
    made = MeasurementSet(
        prefix="m",
        ranges=ranges,
        ranges_by_rows=ranges,
        units=frozenset(),
        rows=1,
        single=True,
        selects=False,
        describe=lambda expression: "value",
        domain=lambda expression: None,
    )
    asked = [
        AggregateColumn(id=f, name=f, function=AGGREGATES[f], argument=y, second=x, filter=None, type=FLOAT64)
        for f in PAIRS
    ]
    expressions = {column.id: column.expression for column in made.express(tuple(asked))}
    known = 0
    for _ in range(200):
        exact = {measure.id: random.gauss(0, 1) * random.choice([10, 1e3, 1e6]) for measure in made.found}
        exact[made.found[0].id] = float(random.randint(1, 2000))
        width = random.choice([0.1, 1.0, 20.0, 1e4])

        def half_width(id: str, sharing: int, width: float = width) -> float:
            return width

        noisy = {id: [value + random.uniform(-width, width)] for id, value in exact.items()}
        measured = IntervalInputs(rows=1, columns=noisy, measures=frozenset(exact), half_width=half_width)
        for expression in expressions.values():
            interval, value = measured.interval(expression), evaluate(expression, exact)
            lower, upper = float(interval.lower[0]), float(interval.upper[0])
            if isinstance(value, float | int) and not math.isnan(lower) and not math.isnan(upper):
                known += 1
                slack = 1e-9 * max(1.0, abs(value))
                assert lower - slack <= value <= upper + slack
    assert known > 1000
