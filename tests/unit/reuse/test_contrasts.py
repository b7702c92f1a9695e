"""Counts that are measured as sums of signs: charged as offered, off less, exact without noise, free ever after."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.reuse import normal_equations
from dpquery.reuse.block_sums import AxisSums, identity
from dpquery.reuse.cells import AxisPartition, CellTable
from dpquery.reuse.contrasts import _Option, _order
from dpquery.reuse.least_squares import Observed, System
from dpquery.reuse.strategy import error, matrices, parts_of
from tests.unit.reuse.test_strategy import of_size, workload

COLUMNS = {
    "a": "{type: text, keys: [x, y, z]}",
    "b": "{type: boolean, keys: [true, false]}",
    "c": "{type: int64, keys: [1, 2, 5, 9]}",
    "d": "{type: date, keys: [2024-01-01, 2024-02-01]}",
    "e": "{type: text, keys: [p, q, null], nullable: true}",
    "f": "{type: int64, lower: 0, upper: 3}",
}
VALUES: dict[str, list[Any]] = {
    "a": ["x", "y", "z"],
    "b": [True, False],
    "c": [1, 2, 5, 9],
    "d": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)],
    "e": ["p", "q", None],
    "f": [0, 1, 2, 3],
}
PAIRS = [f"{one}, {other}" for one, other in itertools.combinations(COLUMNS, 2)]
QUERIES = [f"SELECT {keys}, COUNT(*) AS n FROM visits GROUP BY {keys} ORDER BY {keys}" for keys in PAIRS]


def rows(count: int = 4000) -> pa.Table:
    chance = random.Random(4)
    made: dict[str, list[Any]] = {name: [chance.choice(each) for _ in range(count)] for name, each in VALUES.items()}
    return pa.table({"who": [i // 2 for i in range(count)], **made})


def session(folder: Path, unit: str = "row", budget: str = "{rho: 1000000, delta: 1e-6}") -> dp.Session:
    owner = {"row": "", "person": "\n    unit: who\n    max_rows: 2"}[unit]
    columns = "".join(f"\n      {name}: {declared}" for name, declared in {"who": "{type: int64}", **COLUMNS}.items())
    catalog = dp.Catalog.from_yaml(
        f"version: 2\ndataset: visits\nprivacy_unit: {unit}\nbudget: {budget}\n"
        f"defaults: {{least_charge: 1e-12}}\ntables:\n  visits:{owner}\n"
        f"    columns:{columns}\n"
    )
    ledger = dp.create_ledger(catalog, folder / "ledger")
    return dp.connect(catalog, {"visits": rows()}, ledger=ledger, reuse=True)


def signs(size: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    each = [[(-1) ** (row & column).bit_count() for column in range(size)] for row in range(1, _order(size))]
    return [np.array(one) for one in each]


TRIPLES = "SELECT a, c, f, COUNT(*) AS n FROM visits GROUP BY a, c, f"


def work_for_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows the work of all pairs, and not that of triples beside them."""
    monkeypatch.setattr(normal_equations, "MOST_DENSE", 135)
    monkeypatch.setattr(normal_equations, "MOST_SUMS", 10)


def has_signs(batch: dp.Batch) -> bool:
    return any(m.label.startswith("signs of ") for m in batch.measurements)


@pytest.mark.parametrize("seed", range(12))
def test_what_signs_tell_is_what_least_squares_find(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.randint(2, 5) for _ in range(3)]
    marginals = chance.sample(of_size(3, 1, 2, 3), chance.randint(2, 4))
    made = workload(sizes, marginals)
    number = chance.randrange(len(marginals))
    signed = chance.choice(sorted(marginals[number]))
    option = _Option(number, signed)
    into, weights = matrices(made)
    shares = np.array([chance.choice((0.1, 0.3, 1.0)) for _ in marginals])
    told = option.told(made, parts_of(made), 1.0)
    both = np.concatenate([into, told[:, None]], axis=1)
    each = [[(i, AxisPartition(np.arange(sizes[i]), sizes[i])) for i in marginal] for marginal in marginals]
    one = (Fraction(1),)
    seen = [Observed(CellTable.of(keys), one, 1 / x, None) for keys, x in zip(each, shares.tolist(), strict=True)]
    others = [(i, AxisPartition(np.arange(sizes[i]), sizes[i])) for i in marginals[number] if i != signed]
    rows_of = np.zeros(sizes[signed], dtype=np.int64)
    for signs_of in signs(sizes[signed]):  # the share of all of them is 1
        table = CellTable.of(others, [(signed, AxisPartition(rows_of, 1, signs_of))])
        seen.append(Observed(table, one, float(_order(sizes[signed]) - 1), None))
    system = System(sizes, seen)
    for place, keys in enumerate(each):
        known = system.exactness(CellTable.of(keys), one)
        assert known is not None
        expected = error(np.append(shares, 1.0), both, weights[:, place], 1)
        assert known.variance == pytest.approx(expected)


def test_a_block_with_signs_is_a_sum_with_signs() -> None:
    chance = np.random.default_rng(1)
    codes, signs_of = chance.integers(-1, 3, 12), chance.choice([-1, 1], 12)
    rule, values = AxisSums(AxisPartition(codes, 3, signs_of)), chance.integers(-9, 10, (2, 12, 3))
    summed = rule.down(values, 1)
    for block in range(3):
        inside = np.where(codes == block, signs_of, 0)
        assert (summed[:, block] == (values * inside[:, None]).sum(axis=1)).all()
    cells = chance.normal(size=(2, 3, 3))
    assert (rule.up(cells, 1, 1) * values).sum() == pytest.approx((cells * summed).sum())
    steps = np.array([np.where(codes == block, signs_of, 0) for block in range(3)])
    assert rule.edges == max((np.diff(one, append=0) ** 2).sum() for one in steps)
    unsigned = AxisSums(AxisPartition(codes, 3))
    steps = np.array([codes == block for block in range(3)]).astype(np.int64)
    assert unsigned.edges == max((np.diff(one, append=0) ** 2).sum() for one in steps)
    assert identity(1_000_000).edges == 2  # as many groups as may be


@pytest.mark.parametrize("unit", ["row", "person"])
def test_without_noise_the_counts_are_those_of_the_rows(unit: str, tmp_path: Path) -> None:
    visits = rows()
    with session(tmp_path, unit) as ours, duckdb.connect() as engine:
        engine.register("visits", visits)
        batch = ours.batch(QUERIES, rho="100000")
        assert batch.charge == dp.PrivacyLoss(rho=Fraction(100000))
        assert has_signs(batch) and any(m.follows for m in batch.measurements)
        for query, answer in zip(QUERIES, batch, strict=True):
            expected = {tuple(row[:-1]): row[-1] for row in engine.execute(query).fetchall()}
            found = {tuple(row[:-1]): row[-1] for row in answer.to_arrow().to_pylist() for row in [tuple(row.values())]}
            assert {key: n for key, n in found.items() if n} == expected
        assert ours.batch(QUERIES, rho="100000").charge == dp.PrivacyLoss()
        assert ours.sql("SELECT COUNT(*) AS n FROM visits", rho="0.001").charge == dp.PrivacyLoss()


def test_they_agree_and_are_free_in_a_later_session(tmp_path: Path) -> None:
    with session(tmp_path) as ours:
        batch = ours.batch(QUERIES, rho="0.1")
        assert batch.charge == dp.PrivacyLoss(rho=Fraction(1, 10))
        totals = {int(answer.to_pandas()["n"].sum()) for answer in batch}
        assert len(totals) == 1
        by_c = {
            pair: answer.to_pandas().groupby("c")["n"].sum().to_dict()
            for pair, answer in zip(PAIRS, batch, strict=True)
            if "c" in pair
        }
        assert len({tuple(sorted(one.items())) for one in by_c.values()}) == 1
        shown = [answer.to_arrow().to_pylist() for answer in batch]
        path = tmp_path / "ledger"
        catalog = ours.catalog
    with dp.connect(catalog, {"visits": rows()}, ledger=path, reuse=True) as later:
        again = later.batch(QUERIES, rho="0.1")
        assert again.charge == dp.PrivacyLoss() and [a.to_arrow().to_pylist() for a in again] == shown


def test_what_they_tell_stays_free_beside_later_releases_that_are_too_much_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(tmp_path) as ours:
        batch = ours.batch(QUERIES, rho="0.1")
        assert has_signs(batch)
        shown = [answer.to_arrow().to_pylist() for answer in batch]
        work_for_pairs(monkeypatch)
        assert ours.sql(TRIPLES, rho="0.01").charge.rho > 0
        again = ours.batch(QUERIES, rho="0.1")
        assert again.charge == dp.PrivacyLoss() and [a.to_arrow().to_pylist() for a in again] == shown
        assert ours.sql(TRIPLES, rho="0.01").charge == dp.PrivacyLoss()


def test_what_would_follow_with_too_much_work_beside_stored_numbers_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decided before the charge: afterwards there would be no number."""
    with session(tmp_path) as ours:
        ours.sql(TRIPLES, rho="0.001")
        work_for_pairs(monkeypatch)
        batch = ours.batch(QUERIES, rho="0.1")
        assert not any(m.follows for m in batch.measurements) and not has_signs(batch)
        assert batch.charge == dp.PrivacyLoss(rho=Fraction(1, 10))
        assert [len(answer.to_pandas()) for answer in batch][:3] == [6, 12, 6]


def test_errors_that_are_asked_for_cost_less(tmp_path: Path) -> None:
    with session(tmp_path) as ours:
        together = ours.plan_dashboard(QUERIES, error=40).charge
        alone = sum(ours.explain(query, error=40).charge.rho for query in QUERIES)
        assert 0 < together.rho < alone / 2


def test_a_users_sum_of_signs_is_a_count(tmp_path: Path) -> None:
    query = "SELECT {}SUM(CASE WHEN a IN ('x', 'z') THEN 1 ELSE -1 END) AS n FROM visits{}"
    with session(tmp_path) as ours:
        counts = ours.sql("SELECT a, b, COUNT(*) AS n FROM visits GROUP BY a, b", rho="10").to_pandas()
        counts["n"] *= counts["a"].map({"x": 1, "y": -1, "z": 1})
        for keys, after, expected in (
            ("", "", counts["n"].sum()),
            ("", " WHERE b", counts[counts["b"]]["n"].sum()),
            ("b, ", " GROUP BY b ORDER BY b", counts.groupby("b")["n"].sum().tolist()),
        ):
            answer = ours.sql(query.format(keys, after), rho="0.001")
            assert answer.charge == dp.PrivacyLoss()
            assert answer.to_pandas()["n"].tolist() == (expected if keys else [expected])
        assert ours.sql(query.format("c, ", " GROUP BY c"), rho="0.001").charge != dp.PrivacyLoss()
        other = "SELECT SUM(CASE WHEN a = 'x' THEN 1 WHEN a = 'y' THEN 0 ELSE -1 END) AS n FROM visits"
        assert ours.sql(other, rho="0.001").charge != dp.PrivacyLoss()


@pytest.mark.parametrize(
    ("queries", "budget"),
    [
        (QUERIES, "{epsilon: 1000}"),  # where losses add up, many sums cost too much
        (QUERIES[:2], "{rho: 1000, delta: 1e-6}"),  # of which counts are as exact
        ([q.replace("COUNT(*)", "SUM(f)") for q in QUERIES], "{rho: 1000, delta: 1e-6}"),
    ],
)
def test_elsewhere_counts_and_sums_are_measured_as_asked(queries: Sequence[str], budget: str, tmp_path: Path) -> None:
    with session(tmp_path, budget=budget) as ours:
        chosen = dp.Options(rho="0.1") if "rho" in budget else dp.Options(epsilon="0.1")
        assert not has_signs(ours.batch(queries, options=chosen))
