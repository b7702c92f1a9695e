"""Groupings that are asked together, beside the best strategy of all: expected errors by closed form."""

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
from dpquery.reuse.strategy import Workload, variances, workloads
from dpquery.session import pipeline
from dpquery.session.options import Options

AIM = 1.1
NAMES = "abcde"
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


def planned(sizes: Sequence[int], queries: Sequence[str]) -> tuple[Workload, float]:
    """Returns the workload that queries are planned as, and the seconds of planning."""
    columns = "".join(
        f"\n      {name}: {{type: int64, keys: {[*range(n)]}}}" for name, n in zip(NAMES, sizes, strict=False)
    )
    catalog = dp.Catalog.from_yaml(
        "version: 2\ndataset: marginals\nprivacy_unit: row\nbudget: {rho: 10, delta: 1e-6}\ntables:\n"
        f"  visits:\n    columns:{columns}\n"
    )
    data = {"visits": pa.table({name: [0] for name in NAMES[: len(sizes)]})}
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.create_ledger(catalog, Path(folder) / "ledger")
        with dp.connect(catalog, data, ledger=ledger) as session:
            reuse = session._reuse(False)
            requests = tuple(session._request(query, None, Options(rho="0.1")) for query in queries)
            start = time.perf_counter()
            prepared = session._prepared(requests, reuse)
            parts = pipeline.divide(prepared, ledger=ledger, reuse=reuse)
            seconds = time.perf_counter() - start
            assert not parts.follows
            (found,) = workloads(parts.plan, parts.wanted, ledger.budget.kind, ledger.declarations.neighbours)
    return found, seconds


def marginals(*sizes: int) -> list[str]:
    """Returns one query for each set of so many of five columns."""
    keys = [", ".join(some) for size in sizes for some in itertools.combinations(NAMES, size)]
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
        "CUBE of 3, of 3, 10 and 50 values": ([3, 10, 50], [cube]),
        "CUBE of 3 of 2 values": ([2, 2, 2], [cube]),
        "ROLLUP of 3, of 3, 10 and 50 values": ([3, 10, 50], [rollup]),
        "ROLLUP of 3 of 2 values": ([2, 2, 2], [rollup]),
    }
    found = {}
    for name, (sizes, queries) in cases.items():
        workload, seconds = planned(sizes, queries)
        given = np.array(workload.given)
        equal = np.full(len(given), 1 / len(given))
        best = optimum(workload)
        found[f"{name} at rho 0.1: error over the optimum"] = {
            "ratio": math.sqrt(float(variances(workload, given).mean()) / best),
            "aim": AIM,
        }
        found[f"{name} at rho 0.1: the same in equal parts"] = {
            "ratio": math.sqrt(float(variances(workload, equal).mean()) / best)
        }
        found[f"{name}: planning (ms)"] = {"private_ms": seconds * 1000, "aim": 2000}
    return found


if __name__ == "__main__":
    for name, row in workload_errors().items():
        print(name, row)
