"""What groupings of the same rows get: closed forms against least squares, and against the best of all strategies."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpquery as dp
from dpquery.reuse.cells import AxisPartition, CellTable
from dpquery.reuse.least_squares import Observed, System
from dpquery.reuse.strategy import Workload, best_shares, variances
from tests.unit.reuse.shop import Shop, catalog


def workload(sizes: Sequence[int], marginals: Sequence[Sequence[int]], *, power: int = 1) -> Workload:
    count = len(marginals)
    return Workload(
        label="COUNT(*)",
        names=tuple(map(str, marginals)),
        ids=tuple(map(str, range(count))),
        sizes=tuple(sizes),
        marginals=tuple(map(frozenset, marginals)),
        precisions=(1.0,) * count,
        whole=1.0,
        given=(1 / count,) * count,
        power=power,
        unit=1.0,
    )


def of_size(attributes: int, *sizes: int) -> list[tuple[int, ...]]:
    return [marginal for size in sizes for marginal in itertools.combinations(range(attributes), size)]


def optimum(sizes: Sequence[int], marginals: Sequence[Sequence[int]]) -> float:
    """Returns the least mean variance that any Gaussian strategy of sensitivity 1 has: ResidualPlanner's closed form,
    the square of the sum over parts of the root of what they are worth times what they cost."""
    parts = {p for m in marginals for size in range(len(m) + 1) for p in itertools.combinations(m, size)}
    total = 0.0
    for part in parts:
        cost = math.prod(1 - 1 / n if i in part else 1 / n for i, n in enumerate(sizes))
        worth = 0.0
        for marginal in marginals:
            if {*part} <= {*marginal}:
                inner = math.prod(1 - 1 / sizes[i] if i in part else 1 / sizes[i] for i in marginal)
                worth += inner * math.prod(n for i, n in enumerate(sizes) if i not in marginal) / len(marginals)
        total += math.sqrt(cost * worth)
    return total**2


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("power", [1, 2])
def test_variances_are_those_of_least_squares(seed: int, power: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.randint(1, 4) for _ in range(3)]
    marginals = chance.sample(of_size(3, 0, 1, 2, 3), chance.randint(2, 6))
    made = workload(sizes, marginals, power=power)
    shares = np.array([chance.choice((0.0, 0.1, 0.3, 1.0)) for _ in marginals])
    shares[chance.randrange(len(shares))] = 1.0
    each = [[(i, AxisPartition(np.arange(sizes[i]), sizes[i])) for i in marginal] for marginal in marginals]
    tables = [CellTable.of(keys) for keys in each]
    one = (Fraction(1),)
    system = System(
        sizes, [Observed(t, one, 1 / x**power, None) for t, x in zip(tables, shares.tolist(), strict=True) if x]
    )
    for table, found in zip(tables, variances(made, shares).tolist(), strict=True):
        known = system.exactness(table, one)
        assert (known is None) is math.isinf(found)
        assert known is None or known.variance == pytest.approx(found)


@pytest.mark.parametrize(
    ("sizes", "marginals"),
    [
        ([10] * 5, of_size(5, 2)),
        ([10] * 5, of_size(5, 0, 1, 2, 3)),
        ([3, 5, 10, 20, 4], of_size(5, 2)),
        ([3, 5, 10, 20, 4], of_size(5, 0, 1, 2, 3)),
        ([2] * 5, of_size(5, 2)),
        ([2] * 5, of_size(5, 0, 1, 2, 3)),
        ([3, 10, 50], of_size(3, 0, 1, 2, 3)),
        ([2, 2, 2], of_size(3, 0, 1, 2, 3)),
        ([3, 10, 50], [(), (0,), (0, 1), (0, 1, 2)]),
    ],
)
def test_errors_are_within_a_tenth_of_the_optimum(sizes: list[int], marginals: list[tuple[int, ...]]) -> None:
    made = workload(sizes, marginals)
    equal = np.array(made.given)
    mean = float(variances(made, best_shares(made, equal)).mean())
    best = optimum(sizes, marginals)
    assert best * 0.9999 < mean < best * 1.1**2
    assert mean <= float(variances(made, equal).mean()) * 1.0001


@pytest.mark.parametrize("power", [1, 2])
def test_shares_are_no_worse_than_those_that_were_known(power: int) -> None:
    chance = random.Random(power)
    for _ in range(10):
        sizes = [chance.randint(2, 9) for _ in range(3)]
        made = workload(sizes, chance.sample(of_size(3, 0, 1, 2, 3), chance.randint(2, 8)), power=power)
        now = np.array([chance.random() for _ in made.marginals])
        now /= now.sum()
        found = best_shares(made, now)
        assert found.sum() == pytest.approx(1)
        for known in (now, np.array(made.given)):
            assert variances(made, found).sum() <= variances(made, known).sum() * 1.0001


@pytest.mark.parametrize(("budget", "offer"), [("{rho: 1000, delta: 1e-6}", "rho"), ("{epsilon: 1000}", "epsilon")])
def test_a_cube_is_bought_for_the_offer_and_adds_up(budget: str, offer: str, tmp_path: Path) -> None:
    query = "SELECT region, kind, COUNT(*) AS n FROM sales GROUP BY CUBE (region, kind)"
    chosen = {offer: "0.1"}
    with Shop(tmp_path, budget=budget).session() as session:
        plan = session.explain(query, params=None, **chosen)  # type: ignore[arg-type]
        assert "Workload: strategy for COUNT(*)" in str(plan)
        answer = session.sql(query, **chosen)  # type: ignore[arg-type]
        whole = dp.PrivacyLoss(**{offer: Fraction(1, 10)})
        assert plan.charge == answer.charge == whole
        frame = answer.to_pandas()
        cells = frame[frame["region"].notna() & frame["kind"].notna()]
        total = frame[frame["region"].isna() & frame["kind"].isna()]
        assert cells["n"].sum() == total["n"].sum()
        for key in ("region", "kind"):
            other = {"region": "kind", "kind": "region"}[key]
            coarse = frame[frame[key].notna() & frame[other].isna()].set_index(key)["n"]
            assert coarse.to_dict() == cells.groupby(key)["n"].sum().to_dict()
        assert session.sql(query, **chosen).charge == dp.PrivacyLoss()  # type: ignore[arg-type]


def test_a_batch_of_groupings_is_a_cube(tmp_path: Path) -> None:
    """It is paid once, as one workload; the finest is as exact as in equal parts, or more."""
    keys = ["region, kind", "region", "kind, region, score"]
    queries = [f"SELECT {key}, COUNT(*) AS n FROM sales GROUP BY {key}" for key in keys]
    with Shop(tmp_path, budget="{rho: 1000, delta: 1e-6}").session() as session:
        batch = session.batch([*queries, "SELECT COUNT(*) AS n FROM sales"], rho="0.1")
        assert batch.charge == dp.PrivacyLoss(rho=Fraction(1, 10))
        losses = [m.loss.rho for m in batch.measurements]
        assert sum(losses) == Fraction(1, 10) and len({*losses}) > 1
        assert batch[0].to_pandas()["n"].sum() == batch[3].to_pandas()["n"].sum()


def test_what_is_answered_without_a_store_is_not_refused_for_the_work_of_a_better_plan(tmp_path: Path) -> None:
    """To release all groupings of a cube takes more steps for a stored row than to add up the coarser ones."""
    query = "SELECT region, kind, score, COUNT(*) AS n FROM sales GROUP BY CUBE (region, kind, score)"
    shop = Shop(tmp_path, budget="{rho: 1000, delta: 1e-6}")
    with shop.session() as session, shop.session(reuse=False) as plain:
        better, before = session.explain(query, rho="0.1"), plain.explain(query, rho="0.1")
        assert len(better.measurements) == 8 and len(before.measurements) < 8
    shop.catalog = catalog(budget="{rho: 1000, delta: 1e-6}", work=250)
    with shop.session(apart=True) as session, shop.session(apart=True, reuse=False) as plain:
        assert session.explain(query, rho="0.1").measurements == plain.explain(query, rho="0.1").measurements
        assert session.sql(query, rho="0.1").charge == dp.PrivacyLoss(rho=Fraction(1, 10))
