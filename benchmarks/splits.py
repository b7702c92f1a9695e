"""Errors of ten queries with several aggregates at one epsilon: the planner's split, an equal one, SmartNoise's rule.

SmartNoise's rule as its rewriter has it: AVG is a sum divided by a count, variances come from sums of squares, each
different number gets the same epsilon, and a sum's sensitivity is the largest magnitude of its bounds. It is written
here as SQL that measures those numbers, split equally, with the same noise and in the same engine.
Each row is a person; all three answers of a query satisfy the same epsilon.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import BudgetedPlan, PrivateAggregate
from dpquery.kernel.release import ExactAggregates, release
from dpquery.kernel.work import Allowed
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.result.finish import finish
from dpquery.session import pipeline
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery

ROWS, RUNS, EPSILON = 20_000, 40, Fraction(1)
WARDS = [f"w{i:02d}" for i in range(20)]
COLUMNS: dict[str, dict[str, object]] = {
    "ward": {"type": "text", "keys": WARDS},
    "sex": {"type": "text", "keys": ["F", "M"]},
    "age": {"type": "int64", "lower": 18, "upper": 100},
    "weight": {"type": "float64", "lower": 30, "upper": 200},
    "temperature": {"type": "float64", "lower": 34, "upper": 42},
    "cost": {"type": "float64", "lower": 0, "upper": 5000},
    "days": {"type": "int64", "lower": 0, "upper": 30},
}


def _mean(x: str) -> str:
    return f"SUM({x}) / COUNT(*)"


def _variance(x: str) -> str:
    return f"SUM({x} * {x}) / COUNT(*) - ({_mean(x)}) * ({_mean(x)})"


def _covariance(x: str, y: str) -> str:
    return f"(SUM({x} * {y}) / COUNT(*) - ({_mean(x)}) * ({_mean(y)}))"


QUERIES = {
    "count and mean cost": ("COUNT(*), AVG(cost)", f"COUNT(*), {_mean('cost')}"),
    "count, total and mean": ("COUNT(*), SUM(cost), AVG(cost)", f"COUNT(*), SUM(cost), {_mean('cost')}"),
    "mean age and weight": ("AVG(age), AVG(weight)", f"{_mean('age')}, {_mean('weight')}"),
    "mean and deviation of age": ("AVG(age), STDDEV_POP(age)", f"{_mean('age')}, SQRT({_variance('age')})"),
    "count, mean, variance of weight": (
        "COUNT(*), AVG(weight), VAR_POP(weight)",
        f"COUNT(*), {_mean('weight')}, {_variance('weight')}",
    ),
    "mean temperature and cost": ("AVG(temperature), AVG(cost)", f"{_mean('temperature')}, {_mean('cost')}"),
    "cost of a day": ("SUM(cost) / SUM(days), COUNT(*)", "SUM(cost) / SUM(days), COUNT(*)"),
    "share of women, mean age": (
        "100.0 * COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*), AVG(age)",
        f"100.0 * COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*), {_mean('age')}",
    ),
    "mean age of women and of men": (
        "AVG(age) FILTER (WHERE sex = 'F'), AVG(age) FILTER (WHERE sex = 'M')",
        "SUM(age) FILTER (WHERE sex = 'F') / COUNT(*) FILTER (WHERE sex = 'F'), "
        "SUM(age) FILTER (WHERE sex = 'M') / COUNT(*) FILTER (WHERE sex = 'M')",
    ),
    "covariance of days and cost": (
        "COVAR_POP(days, cost), AVG(days), COUNT(*)",
        f"{_covariance('days', 'cost')}, {_mean('days')}, COUNT(*)",
    ),
}


def split_errors() -> dict[str, dict[str, float]]:
    """Returns for each query the RMSE of the planner's split in parts of those of the two others.

    Of a query with several columns it is the geometric mean of the columns' ratios; RMSEs are over wards and runs.
    """
    table, found = patients(), {}
    by_rule: dict[str, list[float]] = {"an equal split": [], "SmartNoise's rule": []}
    with tempfile.TemporaryDirectory() as folder:
        session = _session(table, folder)
        for name, (ours, theirs) in QUERIES.items():
            exact = _exact(table, ours)
            own = _rmse(session, ours, exact, equal=False)
            for rule, other in (
                ("an equal split", _rmse(session, ours, exact, equal=True)),
                ("SmartNoise's rule", _rmse(session, theirs, exact, equal=True)),
            ):
                ratio = float(np.exp(np.log(own / other).mean()))
                by_rule[rule].append(ratio)
                found[f"{name}: error against {rule}"] = {"ratio": ratio}
        session.close()
    for rule, ratios in by_rule.items():
        aim = {"aim": 0.5} if rule != "an equal split" else {}
        found[f"ten queries, median: error against {rule}"] = {"ratio": statistics.median(ratios), **aim}
    return found


def patients() -> pa.Table:
    """Returns a thousand people in each ward, all values within their bounds."""
    random = np.random.default_rng(20260101)
    age = np.clip(random.normal(52, 18, ROWS), 18, 100).round().astype(np.int64)
    days = np.minimum(random.geometric(0.2, ROWS), 30)
    return pa.table(
        {
            "ward": [WARDS[i % len(WARDS)] for i in range(ROWS)],
            "sex": np.where(random.random(ROWS) < 0.55, "F", "M"),
            "age": age,
            "weight": np.clip(random.normal(76, 15, ROWS), 30, 200),
            "temperature": np.clip(random.normal(36.9, 0.6, ROWS), 34, 42),
            "cost": np.clip(random.gamma(2, 200, ROWS) + 60 * days, 0, 5000),
            "days": days,
        }
    )


def _session(table: pa.Table, folder: str) -> dp.Session:
    catalog = dp.Catalog(
        dataset="wards",
        privacy_unit="row",
        budget={"epsilon": 10**6},
        defaults={"least_charge": "1e-12"},
        tables={"patients": {"columns": COLUMNS}},
    )
    return dp.connect(
        catalog, {"patients": table}, ledger=dp.create_ledger(catalog, f"{folder}/wards.ledger"), reuse=False
    )


def _text(items: str) -> str:
    return f"SELECT ward, {items} FROM patients GROUP BY ward ORDER BY ward"


def _exact(table: pa.Table, items: str) -> NDArray[np.float64]:
    engine = duckdb.connect()
    engine.register("patients", table)
    return _numbers(engine.sql(_text(items)).to_arrow_table())


def _rmse(session: dp.Session, items: str, exact: NDArray[np.float64], *, equal: bool) -> NDArray[np.float64]:
    """Returns the root mean square error of each column over all wards and runs."""
    request = Request(text=_text(items), offer=QueryBudget(epsilon=EPSILON), bounds=ContributionBounds())
    ledger, backend = session._ledger, session._backend
    (made,) = pipeline.plan((request,), catalog=session.catalog, ledger=ledger, public=backend)
    plan = _equal(made) if equal else made.budgeted
    known: dict[str, ExactAggregates] = {}

    class Remembering:
        """The backend, which runs each aggregate once."""

        def prepare(self, aggregate: PrivateAggregate) -> PrivateAggregate:
            return aggregate

        def run(self, statement: PrivateAggregate, key: int) -> ExactAggregates:
            id = repr(statement)
            if id not in known:
                known[id] = backend.run(backend.prepare(statement), key)
            return known[id]

    errors = []
    allowed = Allowed(steps=session.catalog.work, sizes=backend)
    for _ in range(RUNS):
        noisy = release(plan, engine=Remembering(), allowed=allowed, ledger=ledger, analyst=session.analyst, query="")
        # Other rules add up what filters that no row passes together lose; the ledger counts less then.
        assert equal or noisy.charge == PrivacyLoss(epsilon=EPSILON)
        table = finish(noisy.tables, made.private.result, evaluate=backend.evaluate).table
        errors.append(_numbers(table) - exact)
    # Where the rule gives NULL, as for the root of a negative variance, it is off by as much as the number is large.
    stacked = np.array(errors)
    return np.sqrt(np.nanmean(np.where(np.isnan(stacked), exact, stacked) ** 2, axis=(0, 1)))


def _equal(made: PreparedQuery) -> BudgetedPlan:
    """Returns the plan with the same epsilon for each measure."""
    plan = made.budgeted
    share = PrivacyLoss(epsilon=EPSILON / sum(len(part.noise) for part in plan.aggregates))
    parts = (replace(part, noise=tuple(replace(n, loss=share) for n in part.noise)) for part in plan.aggregates)
    return BudgetedPlan(aggregates=tuple(parts))


def _numbers(table: pa.Table) -> NDArray[np.float64]:
    columns = (np.array([np.nan if v is None else float(v) for v in c.to_pylist()]) for c in table.columns[1:])
    return np.stack(list(columns), axis=1)
