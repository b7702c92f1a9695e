"""What two databases differ in, as seen where noise is added: the exact integers, their norms, and what these lose.

Norms are compared with what the plan declares, and losses with what the ledger charges; nothing of it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpquery.auditing.deciding import in_a_round
from dpquery.auditing.laws import in_rho, loss_of
from dpquery.kernel import choice_utilities, quantiles
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw, calibrated
from dpquery.kernel.plan import CHOICES, WEIGHT, BudgetedPlan, Count, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.sensitivity import coarseness
from dpquery.plan.logical import Relation
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.result.measurements import Measurement
from dpquery.session.query_plan import Plan
from dpquery.units.declarations import Neighbours

Group = tuple[object, ...]
Weights = tuple[tuple[int, int], ...]
"""The histogram of a choice in one group: (value, weight), sorted."""
Groups = dict[Group, tuple[int | Weights, ...]]
"""The exact numbers of each group, or histograms, by its key values; for a public key its place in the domain."""


class WrongShape(Exception):
    """What the engine returned is not what the kernel is promised."""


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
        linf, l1, l2_squared = (max(pair) for pair in zip(self.parts, other.parts, strict=True))
        return Norms(linf=linf, l1=l1, l2_squared=l2_squared)

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """The three norms."""
        return self.linf, self.l1, self.l2_squared

    def __str__(self) -> str:
        return f"Linf {float(self.linf):g}, L1 {float(self.l1):g}, L2 {float(self.l2_squared) ** 0.5:g}"


def norms_of(changes: Iterable[int | Fraction], step: Fraction = Fraction(1)) -> Norms:
    """Returns the norms of a vector of lattice steps, in the unit of the released number; exact."""
    sizes = [abs(Fraction(change)) for change in changes if change]
    return Norms(
        linf=step * max(sizes, default=Fraction(0)),
        l1=step * sum(sizes),
        l2_squared=step**2 * sum(size**2 for size in sizes),
    )


def claimed(made: Measurement) -> Norms:
    """Returns the norms that a plan declares of a measurement; the l2 norm is declared rounded up."""
    return Norms(linf=made.linf, l1=made.l1, l2_squared=Fraction(made.l2) ** 2)


@dataclass(frozen=True, kw_only=True)
class AuditedPlan:
    """A plan in the kernel's language, what is computed from its releases, the plan as the analyst sees it, and what
    was offered for it."""

    budgeted: BudgetedPlan
    result: Relation
    plan: Plan
    neighbours: Neighbours
    offer: QueryBudget

    @property
    def aggregates(self) -> tuple[PrivateAggregate, ...]:
        """The private aggregates, in order."""
        return tuple(budgeted.aggregate for budgeted in self.budgeted.aggregates)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of all aggregates, in the order of the plan's measurements."""
        return tuple(measure for _, measure in self._pairs)

    @property
    def _pairs(self) -> list[tuple[PrivateAggregate, Measure]]:
        return [(aggregate, measure) for aggregate in self.aggregates for measure in aggregate.measures]

    @cached_property
    def noises(self) -> tuple[NoiseLaw, ...]:
        """The noise that the gate adds to each measure."""
        return tuple(law for one in self.budgeted.aggregates for law in calibrated(one, self.neighbours))

    @cached_property
    def steps(self) -> tuple[Fraction, ...]:
        """What one step of each measure is in the unit of its sensitivities."""
        return tuple(step_of(*quantiles.asked(aggregate, measure)) for aggregate, measure in self._pairs)

    def gathered(self, moved: Sequence[Sequence[int | Fraction]]) -> list[tuple[int | Fraction, ...]]:
        """Returns for each measure its change and those of all terms of its vector, which are declared together."""
        families = [measure.family or i for i, measure in enumerate(self.measures)]
        return [
            tuple(one for family, own in zip(families, moved, strict=True) if family == families[i] for one in own)
            for i in range(len(families))
        ]


def step_of(measure: Measure, weight: int) -> Fraction:
    """Returns what one lattice step is in the unit of the released number; of a choice a step of utility, in ranks."""
    if measure.count in CHOICES:
        return choice_utilities.step_of(measure, weight)
    return measure.unit


# The integers of one database.


def groups_of(aggregate: PrivateAggregate, exact: ExactAggregates) -> Groups:
    """Returns the exact numbers by group, of an aggregate that measures something.

    Raises:
        WrongShape: Not the shape that the kernel is promised.
    """
    remaining = iter(exact.histograms)
    given: list[list[int | Weights]] = [
        weights_of(next(remaining), len(numbers)) if measure.count in CHOICES else numbers.tolist()
        for measure, numbers in zip(aggregate.measures, exact.numbers, strict=True)
    ]
    columns = [column.tolist() for column in exact.keys]
    rows = list(zip(*given, strict=True))
    groups = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
    if len(columns) != len(aggregate.keys) or next(remaining, None) is not None:
        raise WrongShape("other keys or histograms than were asked for")
    if len(set(groups)) < len(groups) or not (aggregate.keys or len(groups) == 1):
        raise WrongShape("a group was returned twice, or a grand total has not one row")
    if not all(type(number) in (int, tuple) for row in rows for number in row):
        raise WrongShape("numbers that are not integers")
    if any(measure.count is Count.DECIDING for measure in aggregate.measures):
        return _decided(aggregate, exact, dict(zip(groups, rows, strict=True)))
    return dict(zip(groups, rows, strict=True))


def _decided(aggregate: PrivateAggregate, exact: ExactAggregates, groups: Groups) -> Groups:
    """Returns the numbers, with what units weigh in the first round in place of what the engine says of it."""
    place = [measure.count for measure in aggregate.measures].index(Count.DECIDING)
    weighs = in_a_round(aggregate, exact)
    return {group: (*row[:place], weighs.get(group, 0), *row[place + 1 :]) for group, row in groups.items()}


def weights_of(histogram: Histogram, groups: int) -> list[int | Weights]:
    """Returns the histogram of each group."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
    columns = (column.tolist() for column in (histogram.group, histogram.value, histogram.weight))
    for group, value, weight in zip(*columns, strict=True):
        found[group].append((value, weight))
    return [tuple(sorted(pairs)) for pairs in found]


# How far two databases lie apart.


def changes(prepared: AuditedPlan, left: Sequence[Groups], right: Sequence[Groups]) -> list[list[int | Fraction]]:
    """Returns for each measure its change, in lattice steps as they are declared, in each group where the sides
    differ; what exists on one side alone is 0 on the other.

    Where groups are selected, one in which no unit counts on one side is shown with a chance that delta pays for: there
    the number that decides is compared alone.
    """
    return [
        [_moved(aggregate, measure, a, b) for a, b in pairs]
        for aggregate, measure, pairs in _beside(prepared, left, right)
    ]


def _beside(
    prepared: AuditedPlan, left: Sequence[Groups], right: Sequence[Groups]
) -> Iterable[tuple[PrivateAggregate, Measure, list[tuple[int | Weights, int | Weights]]]]:
    for aggregate, here, there in zip(prepared.aggregates, left, right, strict=True):
        zeros = tuple(() if measure.count in CHOICES else 0 for measure in aggregate.measures)
        pairs = [(here.get(group, zeros), there.get(group, zeros)) for group in here.keys() | there.keys()]
        ids = [measure.id for measure in aggregate.measures]
        deciding = None if aggregate.selection is None else ids.index(aggregate.selection)
        for i, measure in enumerate(aggregate.measures):
            seen = [
                (a, b) for a, b in pairs if a[i] != b[i] and (deciding in (None, i) or (a[deciding] and b[deciding]))
            ]
            yield aggregate, measure, [(a[i], b[i]) for a, b in seen]


def _moved(aggregate: PrivateAggregate, measure: Measure, here: int | Weights, there: int | Weights) -> int | Fraction:
    if isinstance(here, int) and isinstance(there, int):
        coarse = coarseness(aggregate, measure)
        return Fraction((here // coarse - there // coarse) * coarse, aggregate.steps(measure))
    drawn, weight = quantiles.asked(aggregate, measure)
    return change(drawn, here, there) * (weight // aggregate.weight)


def change(measure: Measure, here: int | Weights, there: int | Weights) -> int:
    """Returns how far the utilities of a choice move apart, for any rank that an extreme asks for.

    Utilities are constant between values, so candidates beside the values of both sides stand for all.
    """
    assert isinstance(here, tuple) and isinstance(there, tuple)
    first, last = choice_utilities.candidates(measure)
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
    return choice_utilities.utilities(measure, extreme, below=below, equal=equal, total=total)


# What this loses.


def realised_loss(
    prepared: AuditedPlan, left: Sequence[Groups], right: Sequence[Groups], *, in_epsilon: bool | None = None
) -> Fraction:
    """Returns what the noise of all measures loses on one pair of databases; exact for noise that is added.

    Added noise is taken as the gate draws it: |change| / b in its own steps for Laplace noise, change^2 / 2 v for
    Gaussian noise. What chooses loses its declared loss in proportion to how far its utilities moved.

    Args:
        in_epsilon: Whether in epsilon, else in rho; by default as the answer's guarantee.
    """
    pure = prepared.plan.guarantee.epsilon > 0 if in_epsilon is None else in_epsilon
    lost = Fraction(0)
    beside = list(_beside(prepared, left, right))
    for (aggregate, measure, pairs), law, made, step in zip(
        beside, prepared.noises, prepared.plan.measurements, prepared.steps, strict=True
    ):
        if law.is_added and measure.count is not Count.DECIDING:
            rounded = int(aggregate.steps(measure) / Fraction(law.steps))
            moved = norms_of(int(a) // rounded - int(b) // rounded for a, b in pairs)  # type: ignore[arg-type]
            lost += _of_added(law, made, moved, pure)
        else:
            moved = norms_of((_moved(aggregate, measure, a, b) for a, b in pairs), step)
            lost += _in_proportion(made, moved, pure)
    return lost


def _of_added(law: NoiseLaw, made: Measurement, moved: Norms, pure: bool) -> Fraction:
    lost = loss_of(law, moved.l1, moved.l2_squared, law.sampled)
    return lost.rho or (lost.epsilon if pure else in_rho(made, lost.epsilon))


def _in_proportion(made: Measurement, moved: Norms, pure: bool) -> Fraction:
    declared = claimed(made)
    if made.loss.rho:
        return made.loss.rho * moved.l2_squared / declared.l2_squared
    epsilon = made.loss.epsilon * moved.l1 / declared.l1
    return epsilon if pure else in_rho(made, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One pair of databases under one plan.

    Attributes:
        problems: What differs by more than it may, in words; empty where nothing does.
        moved: Whether the inputs differ at all.
        reached: For each measurement which part of its declared L1 norm the pair moved.
        lost: Which part of the charge the noise lost on the pair.
    """

    problems: tuple[str, ...]
    moved: bool
    reached: tuple[float, ...]
    lost: float


def compare(prepared: AuditedPlan, left: Sequence[Groups], right: Sequence[Groups]) -> Compared:
    """Returns how a pair of neighbours compares with what the plan declares: each measure in its norms, terms of one
    vector together, and what all of them lose with what is guaranteed and charged."""
    moved, problems, reached = changes(prepared, left, right), [], []
    for step, change, made in zip(prepared.steps, prepared.gathered(moved), prepared.plan.measurements, strict=True):
        realised, declared = norms_of(change, step), claimed(made)
        reached.append(float(realised.l1 / declared.l1) if declared.l1 else 0.0)
        if not realised.within(declared):
            problems.append(f"{made.label} moves by {realised}; declared are {declared}")
    worst, by_currency = 0.0, dict[bool, Fraction]()
    for what, most in (("guarantees", prepared.plan.guarantee), ("is charged", prepared.plan.charge)):
        if not (most.epsilon or most.rho):
            continue
        if (pure := most.epsilon > 0) not in by_currency:
            by_currency[pure] = realised_loss(prepared, left, right, in_epsilon=pure)
        lost = by_currency[pure]
        worst = max(worst, float(lost / (most.epsilon or most.rho)))
        if lost > (most.epsilon or most.rho):
            problems.append(f"all noises together lose {_shown(lost, most)}; the query {what} {most}")
    differs = any(any(change) for change in moved)
    return Compared(problems=tuple(problems), moved=differs, reached=tuple(reached), lost=worst)


def _shown(lost: Fraction, most: PrivacyLoss) -> str:
    return f"{'epsilon' if most.epsilon else 'rho'} {float(lost):.6g}"
