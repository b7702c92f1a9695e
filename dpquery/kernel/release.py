"""The gate: the only place where exact aggregates are opened.

Check, recompute, charge, run, select and add noise, in this order. Whatever `release` returns has been paid for, and
all that follows is post-processing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import BackendError, InternalError
from dpquery.kernel import samplers, selection
from dpquery.kernel.accountant import charge_of
from dpquery.kernel.choices import choose_all
from dpquery.kernel.drawing import Draw, drawing
from dpquery.kernel.durable import DurableLedger
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.kernel.mechanisms import Calibrated, Recomputed, recomputed
from dpquery.kernel.plan import CHOICES, BudgetedAggregate, BudgetedPlan, Count, Measure, PrivateAggregate
from dpquery.kernel.utilities import candidates
from dpquery.plan.logical import output
from dpquery.plan.types import BOOLEAN, DATE, TIMESTAMP, Type, are_values
from dpquery.units.blocks import NONE, Touched, touched
from dpquery.units.declarations import Declarations
from dpquery.units.locality import locality

Integers = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactAggregates:
    """What a backend gives: secret. Groups may come in any order, each once.

    Attributes:
        keys: For each key with a domain the position of the group's value in it (int64), for each other key the value
            itself (object); shape (groups,).
        numbers: For each measure the exact integers, int64 or Python integers; of a choice, the weight of its values;
            shape (groups,).
        histograms: For each choice, in the order of the measures, its values; groups are indices into the above.
    """

    keys: tuple[Integers, ...] = field(repr=False)
    numbers: tuple[Integers, ...] = field(repr=False)
    histograms: tuple[Histogram, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTable:
    """A released table: safe to show.

    Attributes:
        aggregate: What was measured.
        keys: As in `ExactAggregates`, for the shown groups, in the order of the keys.
        numbers: For each measure the noisy integers in lattice steps; for a MODE places in its domain.
        noises: The law of each measure's noise.
    """

    aggregate: PrivateAggregate
    keys: tuple[Integers, ...]
    numbers: tuple[Integers, ...]
    noises: tuple[Calibrated, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyAggregates:
    """All released tables of one query, what they cost and of whose protection."""

    tables: tuple[NoisyTable, ...]
    charge: PrivacyLoss
    entry: int | None
    blocks: str = ""
    protects: str = ""


Run = Callable[[PrivateAggregate, int], ExactAggregates]
"""A backend: runs one private aggregate under a 128-bit key for its hashes."""


def release(plan: BudgetedPlan, *, run: Run, ledger: DurableLedger, analyst: str, query: str) -> NoisyAggregates:
    """Returns noisy tables, after charging the ledger for them.

    Args:
        plan: What to measure, with noise and losses; nothing in it is believed.
        run: The backend.
        ledger: Charged before a row is read, and never refunded.
        analyst: Who asks.
        query: A text for the audit log.
    Raises:
        InternalError: The plan breaks a rule of the kernel; nothing was charged.
        InsufficientBudgetError: Nothing was charged.
        BackendError: The engine failed; the charge stands, for failure may depend on data.
    Privacy:
        The tables together cause at most the charge, for neighbours as the ledger's declarations say; and none for
        neighbours in a block that is not charged.
    Source:
        docs/proofs/gate.md.
    """
    declared = ledger.declarations
    for budgeted in plan.aggregates:
        check(budgeted, declared)
    made = [recomputed(budgeted, declared.neighbours) for budgeted in plan.aggregates]
    charge = charge_of(plan, ledger.budget.kind, declared.neighbours)
    blocks = blocks_of(plan, declared)
    entry = None if charge == ZERO else ledger.charge(analyst=analyst, loss=charge, query=query, blocks=blocks)
    tables = tuple(_measure(budgeted, run, noise) for budgeted, noise in zip(plan.aggregates, made, strict=True))
    if entry is not None:
        ledger.complete(entry)
    words = {"blocks": "" if entry is None else ledger.shown_blocks(blocks), "protects": declared.protected}
    return NoisyAggregates(tables=tables, charge=charge, entry=entry, **words)


def blocks_of(plan: BudgetedPlan, declared: Declarations) -> Touched:
    """Returns the blocks whose rows some measurement of a plan may depend on; `check` has accepted the plan.

    Source:
        docs/proofs/blocks.md.
    """
    found = NONE
    for budgeted in plan.aggregates:
        found |= touched(budgeted.aggregate.source, declared)
    return found


def check(budgeted: BudgetedAggregate, declared: Declarations) -> None:
    """Raises InternalError unless the aggregate is a sentence of the kernel's language over the declared tables."""
    aggregate = budgeted.aggregate
    known = locality(aggregate.source, declared)
    if known.private and (aggregate.unit is None) is not declared.unit_is_row:
        raise InternalError("the privacy unit of a plan is not the declared one")
    if aggregate.unit is not None and aggregate.unit not in known.units:
        raise InternalError("contributions are bounded for something that is not the privacy unit")
    given = {column.id: column.type for column in output(aggregate.source)}
    read = [key.column for key in aggregate.keys] + [m.value for m in aggregate.measures if m.value is not None]
    if not given.keys() >= set(read):
        raise InternalError("a key or a measure reads a column that its source does not give")
    for key in aggregate.keys:
        if key.type != given[key.column] or not are_values(key.domain or (), key.type):
            raise InternalError("a key is not of the type of its column")
    if any(measure.filter is not None and given.get(measure.filter) != BOOLEAN for measure in aggregate.measures):
        raise InternalError("a measure's filter is not a boolean column of its source")
    for measure in aggregate.measures:
        if measure.count in CHOICES:
            _check_choice(measure, given[measure.value or ""])
    if len({measure.id for measure in aggregate.measures}) != len(aggregate.measures):
        raise InternalError("two measures share an id")
    _check_selection(budgeted)


def _check_choice(measure: Measure, type: Type) -> None:
    candidates(measure)
    if measure.count is Count.QUANTILE and not (type.is_numeric or type in (DATE, TIMESTAMP)):
        raise InternalError("a quantile is chosen from numbers, dates or timestamps")
    if not are_values(measure.domain or (), type):
        raise InternalError("the domain of a mode is not of the type of its column")


def _check_selection(budgeted: BudgetedAggregate) -> None:
    aggregate = budgeted.aggregate
    if not aggregate.is_selected:
        if aggregate.selection is not None or budgeted.selection_delta:
            raise InternalError("public groups need no selection")
        return
    deciding = [m for m in aggregate.measures if m.id == aggregate.selection]
    if [(m.count, m.filter) for m in deciding] != [(Count.UNITS, None)]:
        raise InternalError("groups are selected by their number of units alone")
    if not Fraction(0) < budgeted.selection_delta < 1:
        raise InternalError("selecting groups needs a delta between 0 and 1")


def _measure(budgeted: BudgetedAggregate, run: Run, made: Recomputed) -> NoisyTable:
    aggregate, (noises, tau) = budgeted.aggregate, made
    groups = aggregate.public_groups
    with drawing(noises, groups) as draw:
        exact = _run(aggregate, run) if aggregate.measures else _nothing(aggregate)
    if groups is None:
        return _select(aggregate, exact, noises, tau, draw)
    places = selection.group_numbers(aggregate.keys, exact.keys, len(exact.numbers[0]) if exact.numbers else 0)
    filled = tuple(selection.on_all_groups(places, numbers, groups) for numbers in exact.numbers)
    noisy = _noisy(aggregate, filled, exact.histograms, noises, places, draw)
    keys = selection.all_codes(aggregate.keys, groups)
    return NoisyTable(aggregate=aggregate, keys=keys, numbers=noisy, noises=noises)


def _select(
    aggregate: PrivateAggregate, exact: ExactAggregates, noises: tuple[Calibrated, ...], tau: int | None, draw: Draw
) -> NoisyTable:
    if tau is None:
        raise InternalError("groups are selected without a threshold")
    same = np.arange(len(exact.numbers[0]))
    noisy = _noisy(aggregate, exact.numbers, exact.histograms, noises, same, draw)
    deciding = [measure.id for measure in aggregate.measures].index(aggregate.selection or "")
    shown = selection.selected_order(noisy[deciding], tau, exact.keys)
    keys = tuple(column[shown] for column in exact.keys)
    return NoisyTable(aggregate=aggregate, keys=keys, numbers=tuple(n[shown] for n in noisy), noises=noises)


def _noisy(
    aggregate: PrivateAggregate,
    numbers: tuple[Integers, ...],
    histograms: tuple[Histogram, ...],
    noises: tuple[Calibrated, ...],
    places: NDArray[np.int64],
    draw: Draw,
) -> tuple[Integers, ...]:
    """Returns what is released of each measure: numbers plus noise, or a choice for each group.

    Args:
        places: For each group of the engine its index among those of `numbers`.
    """
    chosen = choose_all(aggregate, histograms, noises, places, len(numbers[0]) if numbers else 0)
    return tuple(
        chosen[measure.id] if measure.count in CHOICES else _add(exact, draw(place, len(exact)))
        for place, (measure, exact) in enumerate(zip(aggregate.measures, numbers, strict=True))
    )


def _run(aggregate: PrivateAggregate, run: Run) -> ExactAggregates:
    """Runs the backend. What it raises may quote data, and its class may depend on data: nothing of it survives."""
    exact: ExactAggregates | None = None
    with contextlib.suppress(Exception):
        exact = run(aggregate, samplers.random_key())
    if exact is None:
        raise BackendError("the engine could not run the query; the charge stands, for failure may depend on data")
    lengths = {len(column) for column in (*exact.keys, *exact.numbers)}
    choices = sum(measure.count in CHOICES for measure in aggregate.measures)
    columns = len(exact.keys), len(exact.numbers), len(exact.histograms)
    if columns != (len(aggregate.keys), len(aggregate.measures), choices) or len(lengths) > 1:
        raise InternalError("the engine gave another shape than was asked for")
    return exact


def _nothing(aggregate: PrivateAggregate) -> ExactAggregates:
    """Nothing is measured, so nothing is read."""
    return ExactAggregates(keys=tuple(np.zeros(0, dtype=np.int64) for _ in aggregate.keys), numbers=())


def _add(numbers: Integers, drawn: NDArray[np.int64]) -> Integers:
    """Returns numbers plus their noise, in 64 bits where they suffice."""
    if drawn.shape != numbers.shape:
        raise InternalError("there is not one noise for each number")
    fits = numbers.dtype == np.int64 and (len(numbers) == 0 or max(-int(numbers.min()), int(numbers.max())) < 2**62)
    return numbers + drawn if fits else numbers.astype(object) + drawn.astype(object)
