"""Groupings, prefixes and ranges that are asked together, beside the best strategy that is known: expected errors."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import dpquery as dp
from benchmarks.optimum import gaussian_optimum, laplace_optimum
from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.plan import BudgetedPlan
from dpquery.ledger.ledger import Ledger
from dpquery.reuse.query_split import QuerySplit
from dpquery.reuse.strategy import Workload, variances, workloads
from dpquery.reuse.vector_estimates import Vectors, VectorSource
from dpquery.session import pipeline
from dpquery.session.options import Options

AIM = 1.1
NAMES = "abcdefghij"
LOSSES = {"rho": "0.1", "epsilon": "1"}
Marginals = Sequence[tuple[int, ...]]


def optimum(workload: Workload) -> float:
    """Returns the least mean variance of a number of each grouping that any Gaussian strategy has for the same rho.

    Source:
        Xiao, He, Zhang, Kifer 2023 (ResidualPlanner): each part costs what one row moves it by, and is worth its
        weight in the groupings that hold it; the best precision is the root of worth over cost.
    """
    sizes, total = workload.sizes, 0.0
    for part in {
        frozenset(p) for m in workload.marginals for n in range(len(m) + 1) for p in itertools.combinations(m, n)
    }:
        cost = math.prod(1 - 1 / n if i in part else 1 / n for i, n in enumerate(sizes))
        worth = 0.0
        for marginal in workload.marginals:
            if part <= marginal:
                inner = math.prod(1 - 1 / sizes[i] if i in part else 1 / sizes[i] for i in marginal)
                worth += inner * math.prod(n for i, n in enumerate(sizes) if i not in marginal)
        total += math.sqrt(cost * worth / len(workload.marginals))
    return total**2 / workload.precisions[0]


def divided(columns: str, queries: Sequence[str], offer: str) -> tuple[QuerySplit, Ledger, float]:
    """Returns what queries are measured as over a table with these columns, and the processor seconds of planning."""
    budget = "{epsilon: 100}" if offer == "epsilon" else "{rho: 10, delta: 1e-6}"
    catalog = dp.Catalog.from_yaml(
        f"version: 2\ndataset: visits\nprivacy_unit: row\nbudget: {budget}\ntables:\n  visits:\n    columns:{columns}\n"
    )
    data = {"visits": pa.table({name: [0] for name in catalog.tables["visits"].columns})}
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.create_ledger(catalog, Path(folder) / "ledger")
        with dp.connect(catalog, data, ledger=ledger) as session:
            reuse = session._reuse(False)
            chosen = Options(epsilon=LOSSES[offer]) if offer == "epsilon" else Options(rho=LOSSES[offer])
            requests = tuple(session._request(query, None, chosen) for query in queries)
            start = time.process_time()
            prepared = session._prepared(requests, reuse)
            parts = pipeline.divide(prepared, ledger=ledger, reuse=reuse)
            return parts, ledger, time.process_time() - start


def planned(sizes: Sequence[int], queries: Sequence[str]) -> tuple[Workload, float, float, float]:
    """Returns the workload that queries are, the mean variance of their numbers as they are planned, in squared steps,
    what is charged, of what all of them lose, and the processor seconds of planning."""
    columns = "".join(
        f"\n      {name}: {{type: int64, keys: {[*range(n)]}}}" for name, n in zip(NAMES, sizes, strict=False)
    )
    parts, ledger, seconds = divided(columns, queries, "rho")
    kind, declared = ledger.budget.kind, ledger.declarations
    asked = BudgetedPlan(aggregates=parts.plan.aggregates[: parts.read])
    (found,) = workloads(asked, parts.wanted[: parts.read], kind, declared.neighbours)
    if len(asked.aggregates) == len(parts.plan.aggregates):
        given = [0.0 if id in parts.follows else share for id, share in zip(found.ids, found.given, strict=True)]
        each = variances(found, np.array(given)).tolist()
    else:
        each = [variance or math.inf for variance in estimated(parts)]
    return found, sum(each) / len(each), float(parts.charge(kind, declared).rho) / found.whole, seconds


def estimated(parts: QuerySplit) -> list[float | None]:
    """Returns the variance of the first number of each aggregate that is asked, in squared steps, once all that is
    measured is reconciled."""
    (vectors,) = parts.expected().values() if any(parts.expected().values()) else (Vectors(sources(parts)),)
    asked = parts.wanted[: parts.read]
    return [vectors.variance(one.asked, one.facts, one.asked.measures[0]) for one in asked if one.asked]


def ranges_of(kind: str, bins: int) -> list[tuple[int, int]]:
    """Returns 50 prefixes or random ranges of so many bins, both ends included."""
    if kind == "prefixes":
        return [(0, round(bins * (n + 1) / 50) - 1) for n in range(50)]
    chance = np.random.default_rng(bins)
    pairs = [sorted(chance.choice(bins + 1, 2, replace=False).tolist()) for _ in range(50)]
    return [(low, high - 1) for low, high in pairs]


def range_errors(kind: str, bins: int, offer: str) -> tuple[float, float, float]:
    """Returns the root mean square error of ranges over the optimum, that of each for its own part, and the seconds of
    planning."""
    ranges = ranges_of(kind, bins)
    queries = [f"SELECT COUNT(*) AS n FROM visits WHERE v BETWEEN {low} AND {high}" for low, high in ranges]
    columns = f"\n      v: {{type: int64, lower: 0, upper: {bins - 1}}}"
    parts, _, seconds = divided(columns, queries, offer)
    found = estimated(parts)
    assert len(found) == len(ranges) and parts.follows
    alone = [variance_of(one.noises[0]) for one in parts.wanted[: parts.read]]
    cells = np.array([[float(low <= cell <= high) for cell in range(bins)] for low, high in ranges])
    told = np.unique(cells, axis=1)
    told = told[:, told.any(axis=0)]
    if offer == "rho":
        best = gaussian_optimum(told) / (2 * float(LOSSES[offer]))
    else:
        best = laplace_optimum(told) * 2 / float(LOSSES[offer]) ** 2
    return math.sqrt(sum(v or math.inf for v in found) / best), math.sqrt(sum(alone) / best), seconds


def sources(parts: QuerySplit) -> list[VectorSource]:
    """Returns what is measured, as measurements of a vector."""
    return [
        VectorSource(one.asked.frame, one.facts, text, noise, one.asked.equations)
        for one in parts.wanted
        if one.asked is not None
        for measure, text, noise in zip(one.budgeted.aggregate.measures, one.asked.measures, one.noises, strict=True)
        if measure.id not in parts.follows
    ]


def marginals(*sizes: int, attributes: int = 5) -> list[str]:
    """Returns one query for each set of so many columns."""
    keys = [", ".join(some) for size in sizes for some in itertools.combinations(NAMES[:attributes], size)]
    return [
        f"SELECT {key}{', ' if key else ''}COUNT(*) AS n FROM visits{f' GROUP BY {key}' if key else ''}" for key in keys
    ]


def workload_errors() -> dict[str, dict[str, float]]:
    """Returns root mean square errors over the optimum, as planned and in equal parts, both reconciled."""
    cube, rollup = (
        f"SELECT a, b, c, COUNT(*) AS n FROM visits GROUP BY {kind} (a, b, c)" for kind in ("CUBE", "ROLLUP")
    )
    cases = {
        "2-way marginals of 5 attributes of 10 values": ([10] * 5, marginals(2)),
        "marginals of at most 3 of 5 attributes of 10 values": ([10] * 5, marginals(0, 1, 2, 3)),
        "marginals of at most 3 of 5 attributes of 2 values": ([2] * 5, marginals(0, 1, 2, 3)),
        "marginals of at most 3 of 5 attributes of 3 to 20 values": ([3, 5, 10, 20, 4], marginals(0, 1, 2, 3)),
        "2-way marginals of 10 attributes of 2 values": ([2] * 10, marginals(2, attributes=10)),
        "2-way marginals of 10 attributes of 3 values": ([3] * 10, marginals(2, attributes=10)),
        "2-way marginals of 10 attributes of 4 values": ([4] * 10, marginals(2, attributes=10)),
        "marginals of at most 3 of 10 attributes of 4 values": ([4] * 10, marginals(0, 1, 2, 3, attributes=10)),
        "dashboard of 20 tiles by at most 3 of 5 attributes": ([3, 5, 10, 20, 4], marginals(0, 1, 2, 3)[:20]),
        "CUBE of 3, of 3, 10 and 50 values": ([3, 10, 50], [cube]),
        "CUBE of 3 of 2 values": ([2, 2, 2], [cube]),
        "ROLLUP of 3, of 3, 10 and 50 values": ([3, 10, 50], [rollup]),
        "ROLLUP of 3 of 2 values": ([2, 2, 2], [rollup]),
    }
    found = {}
    for name, (sizes, queries) in cases.items():
        workload, mean, paid, seconds = planned(sizes, queries)
        equal = np.full(len(workload.given), 1 / len(workload.given))
        best = optimum(workload)
        found[f"{name} at rho 0.1: error over the optimum"] = {
            "ratio": math.sqrt(mean * paid / best),
            "aim": AIM,
        }
        found[f"{name} at rho 0.1: the same in equal parts"] = {
            "ratio": math.sqrt(float(variances(workload, equal).mean()) / best)
        }
        found[f"{name}: planning (ms of processor)"] = {"private_ms": seconds * 1000, "aim": 2000}
    for kind, bins, offer in itertools.product(("prefixes", "random ranges"), (100, 1000), ("rho", "epsilon")):
        ratio, alone, seconds = range_errors(kind, bins, offer)
        name = f"50 {kind} of {bins} bins at {offer} {LOSSES[offer]}"
        found[f"{name}: error over the optimum"] = {"ratio": ratio, "aim": AIM}
        found[f"{name}: each for its own part"] = {"ratio": alone}
        found[f"{name}: planning (ms of processor)"] = {"private_ms": seconds * 1000, "aim": 2000}
    return found


if __name__ == "__main__":
    for name, row in workload_errors().items():
        print(name, row)
