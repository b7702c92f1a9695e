"""What neighbouring databases may differ in: inputs of mechanisms within the declared norms, and nothing else."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp
from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel import quantiles, utilities
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.plan import CHOICES, WEIGHT, BudgetedPlan, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.sensitivity import coarseness
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.session import pipeline
from dpquery.session.options import Request
from tests.properties.queries import Query
from tests.reference.backend import ReferenceBackend

EPSILON = "1"
Group = tuple[object, ...]
Weights = tuple[tuple[int, int], ...]
"""The histogram of a choice in one group: (value, weight), sorted."""
Groups = dict[Group, tuple[int | Weights, ...]]
"""The exact numbers of each group, or histograms, by its key values; for a public key its place in the domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """Norms of the change of one measure over its groups."""

    linf: Fraction = Fraction(0)
    l1: Fraction = Fraction(0)
    l2_squared: Fraction = Fraction(0)

    def within(self, other: Norms) -> bool:
        """Whether no norm exceeds that of the other."""
        return self.largest(other) == other

    def largest(self, other: Norms) -> Norms:
        """Returns the larger of each norm."""
        pairs = zip(self.parts, other.parts, strict=True)
        linf, l1, l2_squared = (max(pair) for pair in pairs)
        return Norms(linf=linf, l1=l1, l2_squared=l2_squared)

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """The three norms."""
        return self.linf, self.l1, self.l2_squared


def norms_of(changes: Iterable[int | Fraction], step: Fraction = Fraction(1)) -> Norms:
    """Returns the norms of a vector of lattice steps, in the unit of the released number; exact."""
    sizes = [abs(Fraction(change)) for change in changes if change]
    return Norms(
        linf=step * max(sizes, default=Fraction(0)),
        l1=step * sum(sizes),
        l2_squared=step**2 * sum(size**2 for size in sizes),
    )


def claimed(made: dp.Measurement) -> Norms:
    """Returns the norms that a plan declares of a measurement; the l2 norm is declared rounded up."""
    return Norms(linf=made.linf, l1=made.l1, l2_squared=Fraction(made.l2) ** 2)


def step_of(measure: Measure, weight: int) -> Fraction:
    """Returns what one lattice step is in the unit of the released number; of a choice a step of utility, in ranks."""
    if measure.count in CHOICES:
        return utilities.step_of(measure, weight)
    return measure.unit


def reference(catalog: dp.Catalog, sources: Mapping[str, pa.Table]) -> ReferenceBackend:
    """Returns the reference interpreter over Arrow tables."""
    frames = {
        name: pd.DataFrame({c: pd.Series(table[c].to_pylist(), dtype=object) for c in table.column_names})
        for name, table in sources.items()
    }
    return ReferenceBackend(catalog, frames)


ENGINES: dict[str, Callable[[dp.Catalog, Any], Backend]] = {"duckdb": DuckDBBackend, "reference": reference}


class Hall:
    """Databases of the same catalog under one ledger, in one engine."""

    def __init__(self, catalog: dp.Catalog, folder: str, engine: str = "duckdb") -> None:
        self.catalog, self.engine = catalog, engine
        path = f"{folder}/{next(_numbers)}.ledger"
        self.ledger = dp.Ledger.create(path, catalog.declarations, catalog.budget, catalog.analysts)

    def open(self, sources: Mapping[str, object]) -> Database:
        """Returns a database of these tables."""
        backend = ENGINES[self.engine](self.catalog, sources)
        session = dp.Session(self.catalog, backend=backend, ledger=self.ledger, analyst="alice", reuse=False)
        return Database(self, backend, session)


_numbers = itertools.count()


@contextmanager
def folder() -> Iterator[str]:
    """A directory for ledgers, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dpquery-") as name:
        yield name


@dataclass(frozen=True, slots=True)
class Database:
    """One database, and what can be seen of it."""

    hall: Hall
    backend: Backend
    session: dp.Session

    def prepare(self, query: Query) -> Prepared:
        """Returns what would be measured; raises QueryError for what is refused."""
        request = Request(
            text=query.text,
            offer=QueryBudget.of(epsilon=EPSILON),
            bounds=ContributionBounds(max_groups=query.max_groups, max_rows=query.max_rows),
        )
        catalog, ledger = self.hall.catalog, self.hall.ledger
        (made,) = pipeline.plan((request,), catalog=catalog, ledger=ledger, public=self.backend)
        return Prepared(made.budgeted, self.explain(query))

    def explain(self, query: Query) -> dp.Plan:
        """Returns the plan as an analyst sees it."""
        bounds = {"max_groups": query.max_groups, "max_rows": query.max_rows}
        return self.session.explain(query.text, epsilon=EPSILON, **bounds)  # type: ignore[arg-type]

    def preview(self, query: Query) -> tuple[object, ...]:
        """Returns all that an analyst sees before any charge: the plan, its price and its columns, or the error."""
        try:
            plan = self.explain(query)
        except dp.DPQueryError as error:
            return type(error), str(error)
        return str(plan), plan.charge, plan.guarantee, plan.columns, plan.measurements

    def answer(self, query: Query) -> dp.Result:
        """Returns the answer."""
        bounds = {"max_groups": query.max_groups, "max_rows": query.max_rows}
        return self.session.sql(query.text, epsilon=EPSILON, **bounds)  # type: ignore[arg-type]

    def inputs(self, prepared: Prepared, key: int) -> tuple[Groups, ...]:
        """Returns the exact numbers of every aggregate of a plan: what noise will be added to."""
        return tuple(groups_of(a, self.backend.run(self.backend.prepare(a), key)) for a in prepared.aggregates)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan in the kernel's language, and its measurements as the analyst sees them."""

    budgeted: BudgetedPlan
    plan: dp.Plan

    @property
    def aggregates(self) -> tuple[PrivateAggregate, ...]:
        """The private aggregates, in order."""
        return tuple(budgeted.aggregate for budgeted in self.budgeted.aggregates)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of all aggregates, in the order of the plan's measurements."""
        return tuple(measure for aggregate in self.aggregates for measure in aggregate.measures)

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """What one step of each measure is in the unit of its sensitivities."""
        return tuple(step_of(*quantiles.asked(a, measure)) for a in self.aggregates for measure in a.measures)


def groups_of(aggregate: PrivateAggregate, exact: ExactAggregates) -> Groups:
    """Returns the exact numbers by group, after checking that they have the shape that the kernel is promised."""
    assert len(exact.keys) == len(aggregate.keys)
    assert len(exact.numbers) == len(aggregate.measures)
    remaining = iter(exact.histograms)
    given: list[list[int | Weights]] = [
        weights_of(next(remaining), len(numbers)) if measure.count in CHOICES else numbers.tolist()
        for measure, numbers in zip(aggregate.measures, exact.numbers, strict=True)
    ]
    assert next(remaining, None) is None
    rows = list(zip(*given, strict=True))
    columns = [column.tolist() for column in exact.keys]
    groups = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
    assert len(set(groups)) == len(groups), "a group was returned twice"
    assert aggregate.keys or len(groups) == 1, "a grand total has one row"
    assert all(type(number) in (int, tuple) for row in rows for number in row)
    return dict(zip(groups, rows, strict=True))


def weights_of(histogram: Histogram, groups: int) -> list[int | Weights]:
    """Returns the histogram of each group."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
    columns = (column.tolist() for column in (histogram.group, histogram.value, histogram.weight))
    for group, value, weight in zip(*columns, strict=True):
        found[group].append((value, weight))
    return [tuple(sorted(pairs)) for pairs in found]


def change(measure: Measure, here: int | Weights, there: int | Weights) -> int:
    """Returns how far the utilities of a choice move apart, whatever rank an extreme asks for.

    Utilities are constant between values, so candidates beside the values of both sides stand for all.
    """
    assert isinstance(here, tuple) and isinstance(there, tuple)
    first, last = utilities.candidates(measure)
    near = {value + step for value, _ in (*here, *there) for step in (-1, 0, 1)}
    tried = np.array(sorted({first, last, *(value for value in near if first <= value <= last)}))
    apart = 0
    for extreme in (1, WEIGHT, 2 * WEIGHT, 10 * WEIGHT):
        moved = _utilities(measure, here, tried, extreme) - _utilities(measure, there, tried, extreme)
        apart = max(apart, int(moved.max() - moved.min()))
    return apart


def _utilities(measure: Measure, weights: Weights, tried: NDArray[np.int64], extreme: int) -> NDArray[np.int64]:
    values, given = np.array(weights, dtype=np.int64).reshape(-1, 2).T
    below = np.array([given[values < candidate].sum() for candidate in tried])
    equal = np.array([given[values == candidate].sum() for candidate in tried])
    total = np.full(len(tried), given.sum())
    return utilities.utilities(measure, extreme, below=below, equal=equal, total=total)


def changes(prepared: Prepared, left: Sequence[Groups], right: Sequence[Groups]) -> list[list[int | Fraction]]:
    """Returns for each measure its change, in lattice steps as noise is added to them, in each group that exists on one
    side at least; elsewhere both are 0.

    Where groups are selected, one in which nobody counts on one side is shown with a chance that delta pays for: there
    the number that decides is compared alone.
    """
    found: list[list[int | Fraction]] = []
    for aggregate, here, there in zip(prepared.aggregates, left, right, strict=True):
        zeros = tuple(() if measure.count in CHOICES else 0 for measure in aggregate.measures)
        groups = here.keys() | there.keys()
        pairs = [(here.get(group, zeros), there.get(group, zeros)) for group in groups]
        ids = [measure.id for measure in aggregate.measures]
        deciding = None if aggregate.selection is None else ids.index(aggregate.selection)
        for i, measure in enumerate(aggregate.measures):
            seen = [(a, b) for a, b in pairs if deciding in (None, i) or (a[deciding] and b[deciding])]
            found.append([_moved(aggregate, measure, a[i], b[i]) for a, b in seen])
    return found


def _moved(aggregate: PrivateAggregate, measure: Measure, here: int | Weights, there: int | Weights) -> int | Fraction:
    if isinstance(here, int) and isinstance(there, int):
        coarse = coarseness(aggregate, measure)
        return Fraction((here // coarse - there // coarse) * coarse, aggregate.steps(measure))
    drawn, weight = quantiles.asked(aggregate, measure)
    return change(drawn, here, there) * (weight // aggregate.weight)


def check_inputs(prepared: Prepared, left: Sequence[Groups], right: Sequence[Groups], label: str) -> bool:
    """Asserts that the inputs differ by no more than the plan declares; returns whether they differ at all.

    Each measure keeps its own norms, and the loss that the pair realises, summed over measures, is within what the
    answer guarantees.
    """
    moved = changes(prepared, left, right)
    lost, most = realised_loss(prepared, moved), prepared.plan.guarantee
    assert lost <= (most.epsilon or most.rho), f"{label}: all together lose {float(lost)}, of {most}"
    for step, change, made in zip(prepared.steps, moved, prepared.plan.measurements, strict=True):
        realised = norms_of(change, step)
        assert realised.within(claimed(made)), f"{label}: {made.label} moves by {realised}, declared {claimed(made)}"
    return any(any(change) for change in moved)


def realised_loss(prepared: Prepared, moved: Sequence[Sequence[int | Fraction]]) -> Fraction:
    """Returns what all measures lose on one pair of neighbours, in the currency of the guarantee."""
    lost, in_epsilon = Fraction(0), prepared.plan.guarantee.epsilon > 0
    for step, change, made in zip(prepared.steps, moved, prepared.plan.measurements, strict=True):
        realised, declared = norms_of(change, step), claimed(made)
        if in_epsilon:
            lost += made.loss.epsilon * realised.l1 / declared.l1
        elif made.loss.epsilon:
            square = (made.loss.epsilon * realised.l1 / declared.l1) ** 2
            lost += square / 8 if made.mechanism == "exponential" else square / 2
        else:
            lost += made.loss.rho * realised.l2_squared / declared.l2_squared
    return lost


def visible(answer: dp.Result, keys: int) -> tuple[object, ...]:
    """Returns what public keys fix of an answer: names, types, the number of rows, and the key columns in order."""
    table = answer.to_arrow()
    rows = [table.column(i).to_pylist() for i in range(keys)]
    return table.schema, table.num_rows, rows, answer.charge, answer.measurements, tuple(answer.accuracy)
