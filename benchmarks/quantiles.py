"""Rank errors of medians at epsilon 1, against the textbook exponential mechanism in floating point; and of several
quantiles that are chosen together, against a share of the loss for each.

The textbook's one (Smith 2011, as other libraries have it) chooses an interval between neighbouring data points, by its
width and the rank of its ends, then a uniform point in it. It gets the same sensitivity here as ours.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.choices import choose_together
from dpquery.kernel.exponential import Histogram, choose
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import (
    WHOLE_ROW,
    BudgetedAggregate,
    Count,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.plan.logical import Scan
from dpquery.plan.types import FLOAT64, INT64
from dpquery.planner.protect.lattices import for_quantile
from dpquery.units.declarations import Neighbours

ROWS, RUNS, LOWER, UPPER = 100_000, 400, 0, 1000
SEVERAL = (3, 5, 9, 19, 99)
EPSILON = 1
Floats = NDArray[np.float64]


def rank_errors() -> dict[str, dict[str, float]]:
    """Returns the mean rank errors of both, for several distributions of values in [0, 1000]."""
    random, found = np.random.default_rng(20260101), {}
    drawn: dict[str, Floats] = {
        "uniform": random.random(ROWS) * 1000,
        "log-normal": np.minimum(random.lognormal(3, 1, ROWS), 1000),
        "whole years": np.floor(random.normal(45, 15, ROWS).clip(0, 100)),
        "six in ten are 0": np.where(random.random(ROWS) < 0.6, 0, random.random(ROWS) * 1000),
        "all equal": np.full(ROWS, 500.0),
    }
    for name, values in drawn.items():
        ours = _mean_error(values, _ours(values))
        plain = _mean_error(values, np.array([_textbook(np.sort(values), random) for _ in range(RUNS)]))
        ratio = {"ratio": ours / plain} if plain else {}
        found[f"median of 100,000, {name}: mean error (ranks)"] = {"private_ms": ours, "plain_ms": plain, **ratio}
    return found


def together_errors(runs: int = 20) -> dict[str, dict[str, float]]:
    """Returns the mean rank errors of evenly spaced quantiles at epsilon 1, chosen together and each with its share."""
    random = np.random.default_rng(20260102)
    values = np.floor(np.minimum(random.lognormal(3, 1, ROWS), 1000) * 10) / 10
    on = for_quantile(FLOAT64, Fraction(LOWER), Fraction(UPPER))
    steps, counts = np.unique(np.rint(values / float(on.grid)).astype(np.int64), return_counts=True)
    given = Histogram(group=np.zeros(len(steps), np.int64), value=steps, weight=counts.astype(np.int64))
    found = {}
    for k in SEVERAL:
        targets = [Fraction(i, k + 1) for i in range(1, k + 1)]
        measures = tuple(
            Measure(id=str(t), label="", count=Count.QUANTILE, value="x", lattice=on, target=t) for t in targets
        )
        aggregate = PrivateAggregate(
            source=Scan(table="t", columns=(), public=False),
            unit=None,
            keys=(),
            weights=WHOLE_ROW,
            measures=measures,
        )
        share = Noise(mechanism=Mechanism.EXPONENTIAL, loss=PrivacyLoss(epsilon=Fraction(EPSILON, k)))
        noises = calibrated(BudgetedAggregate(aggregate=aggregate, noise=(share,) * k), Neighbours.ADD_REMOVE)
        errors: dict[str, list[float]] = {"together": [], "alone": []}
        for _ in range(runs):
            chosen = choose_together(aggregate, tuple(range(k)), given, noises, 1)
            for measure, target in zip(measures, targets, strict=True):
                apart = 2 * max(target.numerator, target.denominator - target.numerator)
                alone = choose(measure, Fraction(EPSILON, k) / apart, given, 1)
                for name, value in (("together", chosen[measure.id][0]), ("alone", alone[0])):
                    below, upto = (counts[: np.searchsorted(steps, value, side)].sum() for side in ("left", "right"))
                    rank = float(target) * ROWS
                    errors[name].append(max(0.0, below - rank, rank - upto))
        ours, plain = float(np.mean(errors["together"])), float(np.mean(errors["alone"]))
        name = f"{k} quantiles of 100,000, chosen together and alone: mean error (ranks)"
        found[name] = {"private_ms": ours, "plain_ms": plain, "ratio": ours / plain}
    return found


def _ours(values: Floats) -> Floats:
    whole = bool((values == np.floor(values)).all())
    on = for_quantile(INT64 if whole else FLOAT64, Fraction(LOWER), Fraction(UPPER))
    measure = Measure(id="q", label="", count=Count.QUANTILE, value="x", lattice=on, target=Fraction(1, 2))
    steps, counts = np.unique(np.rint(values / float(on.grid)).astype(np.int64), return_counts=True)
    given = Histogram(group=np.zeros(len(steps), np.int64), value=steps, weight=counts.astype(np.int64))
    chosen = np.array([choose(measure, Fraction(EPSILON, 2), given, 1)[0] for _ in range(RUNS)])
    return chosen * float(on.grid)


def _textbook(ordered: Floats, random: np.random.Generator) -> float:
    ends = np.concatenate(([LOWER], ordered, [UPPER]))
    with np.errstate(divide="ignore"):
        score = np.log(np.diff(ends)) - EPSILON * np.abs(np.arange(len(ordered) + 1) - len(ordered) / 2)
    chosen = int(np.argmax(score + random.gumbel(size=len(score))))
    return float(random.uniform(ends[chosen], ends[chosen + 1]))


def _mean_error(values: Floats, chosen: Floats) -> float:
    """Returns how many ranks the values are from the middle, on average; 0 for one whose ties cover it."""
    ordered = np.sort(np.rint(values * 2**22) / 2**22)
    given = np.rint(chosen * 2**22) / 2**22
    below, upto = np.searchsorted(ordered, given, "left"), np.searchsorted(ordered, given, "right")
    errors = np.maximum(0, np.maximum(below - ROWS / 2, ROWS / 2 - upto))
    return float(errors.mean())
