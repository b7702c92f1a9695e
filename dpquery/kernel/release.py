"""The gate: the only place where exact aggregates are opened.

Check, recompute, prepare, charge, run, select and add noise, in this order. Everything that `release` returns has been
paid for, and all that follows is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import DPQueryError, InternalError
from dpquery.kernel import samplers, selection
from dpquery.kernel.accountant import LEAST_SHARE, charge_at_least, charge_of
from dpquery.kernel.checks import blocks_of, check
from dpquery.kernel.choices import choose_all
from dpquery.kernel.drawing import Draw, drawing
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.failures import one_error
from dpquery.kernel.ledger_interface import DurableLedger
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw, Recomputed, deciding, deciding_rounds, recomputed
from dpquery.kernel.plan import CHOICES, BudgetedAggregate, BudgetedPlan, Count, Measure, PrivateAggregate
from dpquery.kernel.rounds import Pairs, in_rounds
from dpquery.kernel.work import Allowed, require_bounded

Integers = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactAggregates:
    """What a backend gives: secret. Groups may come in any order, each once.

    Attributes:
        keys: For each key with a domain the position of the group's values in it (int64); for each other key the value
            of its column (object); shape (groups,).
        numbers: For each measure the exact integers, int64 or Python integers; of a choice, the weight of its values;
            shape (groups,).
        histograms: For each choice, in the order of the measures, its values; groups are indices into the above.
        pairs: Where units decide in rounds, which of them have which groups; what `numbers` holds of it is not read.
    """

    keys: tuple[Integers, ...] = field(repr=False)
    numbers: tuple[Integers, ...] = field(repr=False)
    histograms: tuple[Histogram, ...] = field(default=(), repr=False)
    pairs: Pairs | None = field(default=None, repr=False)


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
    noises: tuple[NoiseLaw, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyAggregates:
    """All released tables of one query, what they cost and of whose protection."""

    tables: tuple[NoisyTable, ...]
    charge: PrivacyLoss
    entry: int | None
    blocks: str = ""
    protects: str = ""


class Engine(Protocol):
    """What the gate demands of a backend, beside that it computes what the private plan says."""

    def prepare(self, aggregate: PrivateAggregate) -> Any:
        """Returns the statement of a private aggregate, without a look at any private row.

        Raises:
            UnsupportedQueryError: The backend has no form for it.
        """
        ...

    def run(self, statement: Any, key: int) -> ExactAggregates:
        """Returns the exact integers of a statement under a 128-bit key for its hashes."""
        ...


def release(
    plan: BudgetedPlan,
    *,
    engine: Engine,
    allowed: Allowed,
    ledger: DurableLedger,
    analyst: str,
    query: str,
    least: Fraction = LEAST_SHARE,
) -> NoisyAggregates:
    """Returns noisy tables, after charging the ledger for them.

    Args:
        plan: What to measure, with noise and losses; nothing in it is believed.
        engine: The backend.
        allowed: The work that one stored row may cause.
        ledger: Charged before a row is read, and never refunded.
        analyst: Who asks.
        query: A text for the audit log.
        least: The share of the analyst's limit, or of the dataset's, that is charged at least.
    Raises:
        InternalError: The plan breaks a rule of the kernel; nothing was charged.
        UnsupportedQueryError: The backend cannot run it; nothing was charged.
        InsufficientBudgetError: Nothing was charged.
        BackendError: Something failed after the charge, which stands, for failure may depend on data.
    Privacy:
        The tables together cause at most the charge, for neighbours as the ledger's declarations say; and none for
        neighbours in a block that is not charged.
    Source:
        docs/proofs/gate.md.
    """
    declared = ledger.declarations
    for budgeted in plan.aggregates:
        check(budgeted, declared, allowed.sizes)
    require_bounded(plan, declared, allowed)
    made = [recomputed(budgeted, declared.neighbours) for budgeted in plan.aggregates]
    statements = [_prepared(budgeted.aggregate, engine) for budgeted in plan.aggregates]
    charge = charge_of(plan, ledger.budget.kind, declared.neighbours)
    charge = charge_at_least(charge, ledger.budgets.get(analyst, ledger.budget), least)
    blocks = blocks_of(plan, declared)
    entry = None if charge == ZERO else ledger.charge(analyst=analyst, loss=charge, query=query, blocks=blocks)

    def charged() -> NoisyAggregates:
        each = zip(plan.aggregates, statements, made, strict=True)
        tables = tuple(_measure(budgeted, engine, statement, noise) for budgeted, statement, noise in each)
        if entry is not None:
            ledger.complete(entry)
        words = {"blocks": "" if entry is None else ledger.shown_blocks(blocks), "protects": declared.protected}
        return NoisyAggregates(tables=tables, charge=charge, entry=entry, **words)

    return one_error(charged, entry)


def _prepared(aggregate: PrivateAggregate, engine: Engine) -> Any:
    """Returns the statement of an aggregate, or None where nothing is measured and so nothing will be read."""
    if not aggregate.measures:
        return None
    try:
        return engine.prepare(aggregate)
    except DPQueryError:
        raise
    except Exception as error:
        raise InternalError(f"the query could not be prepared ({type(error).__name__}); nothing was charged") from None


def _measure(budgeted: BudgetedAggregate, engine: Engine, statement: Any, made: Recomputed) -> NoisyTable:
    aggregate, (noises, tau) = budgeted.aggregate, made
    groups = aggregate.public_groups
    with drawing(noises, groups) as draw:
        exact = _run(aggregate, engine, statement) if aggregate.measures else _nothing(aggregate)
    if groups is None:
        return _select(budgeted, exact, noises, tau, draw)
    places = selection.group_numbers(aggregate.keys, exact.keys, len(exact.numbers[0]) if exact.numbers else 0)
    filled = tuple(selection.on_all_groups(places, numbers, groups) for numbers in exact.numbers)  # each (groups,)
    noisy = _noisy(aggregate, filled, exact.histograms, noises, places, draw)
    keys = selection.all_codes(aggregate.keys, groups)
    return NoisyTable(aggregate=aggregate, keys=keys, numbers=noisy, noises=noises)


def _select(
    budgeted: BudgetedAggregate, exact: ExactAggregates, noises: tuple[NoiseLaw, ...], tau: int | None, draw: Draw
) -> NoisyTable:
    if tau is None:
        raise InternalError("groups are selected without a tau")
    aggregate, rounds = budgeted.aggregate, deciding_rounds(budgeted, noises)
    same = np.arange(len(exact.numbers[0]))
    noisy = list(_noisy(aggregate, exact.numbers, exact.histograms, noises, same, draw))  # each (groups,)
    place = deciding(aggregate)
    if rounds is None:
        shown = selection.selected_order(noisy[place], tau, exact.keys)
        shown = shown[exact.numbers[place][shown] > 0]  # where no unit counts, one unit may create any number of groups
    else:
        if exact.pairs is None:
            raise InternalError("units decide in rounds, and the engine returned none of their groups")
        passed, numbers = in_rounds(exact.pairs, len(same), *rounds)  # both (groups,)
        noisy[place] = _whole(numbers, noises[place].steps)
        shown = selection.selected_order(passed, True, exact.keys)
    keys = tuple(column[shown] for column in exact.keys)  # each (shown groups,)
    return NoisyTable(aggregate=aggregate, keys=keys, numbers=tuple(n[shown] for n in noisy), noises=noises)


def _noisy(
    aggregate: PrivateAggregate,
    numbers: tuple[Integers, ...],
    histograms: tuple[Histogram, ...],
    noises: tuple[NoiseLaw, ...],
    places: NDArray[np.int64],
    draw: Draw,
) -> tuple[Integers, ...]:
    """Returns what is released of each measure: numbers plus noise, or a choice for each group.

    Args:
        places: For each group of the engine its index among those of `numbers`.
    """
    chosen = choose_all(aggregate, histograms, noises, places, len(numbers[0]) if numbers else 0)
    return tuple(
        chosen[measure.id]
        if measure.count in CHOICES
        else np.zeros(len(exact), dtype=np.int64)  # `in_rounds` adds noise to what is made of pairs
        if measure.count is Count.DECIDING
        else _whole(_add(exact // _rounding(aggregate, measure, law), draw(place, len(exact))), law.steps)
        for place, (measure, exact, law) in enumerate(zip(aggregate.measures, numbers, noises, strict=True))
    )


def _rounding(aggregate: PrivateAggregate, measure: Measure, noise: NoiseLaw) -> int:
    """Returns R: the sensitivity that the noise was made for is that of exact integers rounded down by it."""
    return int(aggregate.steps(measure) / Fraction(noise.steps))


def _whole(noisy: Integers, steps: int | Fraction) -> Integers:
    """Returns noisy numbers of finer or coarser steps in lattice steps, rounded half up: post-processing."""
    if steps < 1:
        return noisy.astype(object) * int(1 / steps)
    return noisy if steps == 1 else (noisy + steps // 2) // steps


def _run(aggregate: PrivateAggregate, engine: Engine, statement: Any) -> ExactAggregates:
    """Returns what the backend gives, in the shape that was asked for."""
    exact = engine.run(statement, samplers.random_key())
    lengths = {len(column) for column in (*exact.keys, *exact.numbers)}
    choices = sum(measure.count in CHOICES for measure in aggregate.measures)
    columns = len(exact.keys), len(exact.numbers), len(exact.histograms)
    is_whole = all(column.dtype in (np.dtype(np.int64), np.dtype(object)) for column in exact.numbers)
    if columns != (len(aggregate.keys), len(aggregate.measures), choices) or len(lengths) > 1 or not is_whole:
        raise InternalError("the engine returned an unexpected shape")
    return exact


def _nothing(aggregate: PrivateAggregate) -> ExactAggregates:
    """Nothing is measured, so nothing is read."""
    return ExactAggregates(keys=tuple(np.zeros(0, dtype=np.int64) for _ in aggregate.keys), numbers=())


def _add(numbers: Integers, drawn: NDArray[np.int64]) -> Integers:
    """Returns numbers plus their noise, in 64 bits where they suffice."""
    if drawn.shape != numbers.shape:
        raise InternalError("the number of noise values differs from the number of results")
    fits = numbers.dtype == np.int64 and (len(numbers) == 0 or max(-int(numbers.min()), int(numbers.max())) < 2**62)
    return numbers + drawn if fits else numbers.astype(object) + drawn.astype(object)
