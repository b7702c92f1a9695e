"""What of a query is stored already, what is measured now, and both together as released tables."""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.errors import InternalError, LedgerError
from dpquery.kernel.accountant import BudgetKind, charge_of, guarantee_of
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan
from dpquery.kernel.quantiles import families
from dpquery.kernel.release import NoisyAggregates, NoisyTable
from dpquery.planner.protect.grouping_sets import Grouping
from dpquery.result.added import AddedTable
from dpquery.result.measurements import Measurement, measurements
from dpquery.reuse.behind import behind, planned_vectors, undetermined
from dpquery.reuse.chosen import Place
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.described import described, with_combined
from dpquery.reuse.estimates import Found, Wanted, find
from dpquery.reuse.follows import rests
from dpquery.reuse.frames import Asked, asked_of
from dpquery.reuse.reconciled import Vectors, stored
from dpquery.reuse.releases import Facts, Part, Release, labels_of, values_of
from dpquery.reuse.shelf import NOTHING, State
from dpquery.reuse.shown import tables_of
from dpquery.reuse.store import Store
from dpquery.reuse.text import Fingerprints, NotCanonical
from dpquery.units.declarations import Declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """How a query uses the store.

    Attributes:
        store: Where releases are kept.
        version: The data's version: releases of another one are not looked at.
        catalog: What tells whether a catalog says the same of tables.
        analyst: Who asks.
        only_own: Whether only releases for that analyst are looked at.
        fresh: Whether nothing stored is looked at; what is measured is stored all the same.
    """

    store: Store
    version: str
    catalog: Fingerprints
    analyst: str
    only_own: bool = False
    fresh: bool = False

    def releases(self, asked: Asked) -> Sequence[Release]:
        """Returns the stored releases over the same rows that this query may use, oldest first."""
        if self.fresh:
            return ()
        return self._allowed(self.store.find(self.version, asked.frame.base, asked.frame.conditions))

    def over(self, base: str) -> Sequence[Release]:
        """Returns all stored releases over rows of this base that this analyst may use, oldest first."""
        return () if self.fresh else self._allowed(self.store.over(self.version, base))

    def vectors(self, base: str) -> Vectors:
        """Returns what is stored of sums over this base, made once until the next release."""
        if self.fresh:
            return Vectors(())
        whose = self.analyst if self.only_own else None
        return self.store.derived(self.version, base, whose, lambda: Vectors(stored(self.over(base))))

    def everything(self) -> Sequence[Release]:
        """Returns all stored releases of this version of the data that this analyst may use, oldest first."""
        return self._allowed(self.store.all(self.version))

    def _allowed(self, found: Sequence[Release]) -> Sequence[Release]:
        return [release for release in found if release.analyst == self.analyst] if self.only_own else found


Plain = tuple[BudgetedPlan, tuple[Wanted, ...]]
"""A plan and its aggregates in the form of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A plan, and what the store gives for each of its aggregates.

    Attributes:
        plan: All of it, as it would be measured.
        wanted: Its aggregates in the form of the store.
        found: What is stored for each and accurate enough.
        rest: What is measured, in order: the aggregates that lack something, with the measures that they lack.
        missing: Of each aggregate what is measured; None where nothing is lacking.
        known: For each the stored releases over the same rows, oldest first.
        over: By base all that was stored when it was looked at: with it, it is known what follows from new numbers.
        expected: Makes what will be known of sums, by base, once the rest is measured.
        follows: The ids of measures that are neither, because they follow from others of the plan.
        plain: The plan in which these are measured too, for the same charge; None where there are none.
        read: How many of the aggregates the queries read.
        state: The store's, when it was looked at.
    """

    plan: BudgetedPlan
    wanted: tuple[Wanted, ...]
    found: tuple[Found, ...]
    rest: BudgetedPlan
    missing: tuple[BudgetedAggregate | None, ...]
    known: tuple[Sequence[Release], ...]
    over: Mapping[str, Sequence[Release]]
    expected: Callable[[], Mapping[str, Vectors]]
    follows: frozenset[str]
    plain: Plain | None
    read: int
    state: State

    def measurements(self, declared: Declarations) -> tuple[Measurement, ...]:
        """Returns all noisy columns; stored ones say which entries of the ledger they are read from."""
        return described(measurements(self.plan, declared.neighbours), self.wanted, self.found, self.follows)

    def charge(self, kind: BudgetKind, declared: Declarations) -> PrivacyLoss:
        """Returns the loss of what is measured now, in the ledger's currency."""
        return charge_of(self.rest, kind, declared.neighbours)

    def guarantee(
        self, declared: Declarations, vectors: Mapping[str, Vectors] | None = None, entry: int | None = None
    ) -> PrivacyLoss:
        """Returns what the answer satisfies: the losses of all releases that it is computed from, old and new;
        `vectors` is what is known of sums after the release of this entry, by default what is expected of it."""
        made, counted = self.expected() if vectors is None else vectors, set[Place]()
        of_each = list(zip(self.wanted, self.known, self.found, self.missing, strict=True))[: self.read]
        old = [lost for one in of_each for lost in behind(*one, made, declared, entry, counted)]
        return guarantee_of(BudgetedPlan(aggregates=(*old, *self.rest.aggregates)), declared.neighbours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The released tables of a query, stored and new, what was charged for them, and how they were measured."""

    tables: tuple[NoisyTable | AddedTable, ...]
    charge: PrivacyLoss
    guarantee: PrivacyLoss
    measurements: tuple[Measurement, ...]
    protects: str
    blocks: str = ""
    entry: int | None = None


def wanted_of(
    plan: BudgetedPlan,
    groupings: Sequence[Grouping],
    said: Sequence[str],
    declared: Declarations,
    *,
    is_stored: bool = True,
) -> tuple[Wanted, ...]:
    """Returns the aggregates of a plan in the form of the store, where there is one.

    Args:
        said: Of each the fingerprint of what the catalog says of its tables.
    """
    each = zip(plan.aggregates, groupings, said, strict=True)
    return tuple(
        Wanted.of(
            budgeted, _asked(budgeted, own.whole) if is_stored else None, Facts.of(own, told), declared.neighbours
        )
        for budgeted, own, told in each
    )


def _asked(budgeted: BudgetedAggregate, whole: frozenset[str]) -> Asked | None:
    try:
        asked = asked_of(budgeted.aggregate, whole)
    except NotCanonical:
        return None
    return asked if len(set(asked.measures)) == len(asked.measures) else None  # twice one noise is not two noises


def split(
    plan: BudgetedPlan,
    wanted: tuple[Wanted, ...],
    reuse: Reuse | None,
    declared: Declarations,
    follows: frozenset[str] = frozenset(),
    plain: Plain | None = None,
    read: int | None = None,
) -> Split:
    """Returns what of a plan is stored and what is to be measured; reads no private row.

    Args:
        read: How many of the aggregates the queries read; the others are measured so that these follow. None: all.
        follows: The ids of what is not measured, because it follows from others of the plan.
        plain: The plan in which all is measured, for the same charge.
    """
    state = NOTHING if reuse is None else reuse.store.state()
    known = [() if reuse is None or one.asked is None else reuse.releases(one.asked) for one in wanted]
    bases = {one.asked.frame.base for one in wanted if one.asked is not None}
    vectors = {base: Vectors(()) if reuse is None else reuse.vectors(base) for base in bases}
    over = {base: () if reuse is None else reuse.over(base) for base in bases}  # after them: it lacks nothing of theirs
    found = list[Found]()
    for number, (one, releases) in enumerate(zip(wanted, known, strict=True)):
        if number == read and all(there.is_complete for there in found):
            return split(BudgetedPlan(aggregates=plan.aggregates[:read]), wanted[:read], reuse, declared, plain=plain)
        found.append(find(one, releases, _vectors(one, vectors), unit_is_row=declared.unit_is_row))
    missing = rests(wanted, found, follows)
    if not any(missing):  # what others were to follow from is stored, and together perhaps not as exact as planned
        follows = frozenset()
        missing = rests(wanted, found, follows)

    def expected() -> Mapping[str, Vectors]:
        return planned_vectors(wanted, found, vectors, over, follows)

    if plain is not None and undetermined(wanted, expected(), follows):
        return split(*plain, reuse, declared)  # beside what is stored it takes too much work to know, and is measured
    return Split(
        plan=plan,
        wanted=wanted,
        found=tuple(found),
        rest=BudgetedPlan(aggregates=tuple(one for one in missing if one is not None)),
        missing=tuple(missing),
        known=tuple(known),
        over=over,
        expected=expected,
        follows=follows,
        plain=plain,
        read=len(wanted) if read is None else read,
        state=state,
    )


def _vectors(wanted: Wanted, known: Mapping[str, Vectors]) -> Vectors:
    return Vectors(()) if wanted.asked is None else known[wanted.asked.frame.base]


@contextlib.contextmanager
def turn(parts: Split, reuse: Reuse | None, declared: Declarations) -> Iterator[Split]:
    """Lets one thread at a time measure what a query lacks; gives the split as it stands when its turn has come, for
    another may have measured it meanwhile."""
    if reuse is None or not parts.rest.aggregates:
        yield parts
        return
    pairs = zip(parts.wanted, parts.found, strict=True)
    lacking = [(one.asked.frame, one.asked.measures) for one, there in pairs if one.asked and not there.is_complete]
    with reuse.store.turn((reuse.version, *lacking)):
        if not reuse.fresh and reuse.store.state() != parts.state:
            parts = split(parts.plan, parts.wanted, reuse, declared, parts.follows, parts.plain, parts.read)
        yield parts


def combined(parts: Split, noisy: NoisyAggregates | None, reuse: Reuse | None, declared: Declarations) -> Answered:
    """Returns the released tables of a query: what was measured now is stored, and combined with what was stored of
    the same groups, however inexact.

    Args:
        noisy: What was released of `parts.rest`; None where nothing was lacking.
    """
    columns = parts.measurements(declared)
    if noisy is None:
        return _answered(parts, tables_of(parts.wanted, parts.found), None, columns, declared)
    if reuse is None:
        return _answered(parts, noisy.tables, noisy, columns, declared)
    return _with_stored(parts, noisy, reuse, columns, declared)


def _with_stored(
    parts: Split, noisy: NoisyAggregates, reuse: Reuse, told: tuple[Measurement, ...], declared: Declarations
) -> Answered:
    """Stores what was measured and returns what is known then, of the new numbers and of those that were stored; reads
    noisy numbers alone."""
    tables = iter(noisy.tables)
    new = [None if rest is None else next(tables) for rest in parts.missing]
    kept = _kept(parts, new, noisy.entry, reuse)
    made = [one for one in kept if one is not None]
    _store(made, reuse)
    vectors: dict[str, Vectors] = {}
    for base in {one.asked.frame.base for one in parts.wanted if one.asked is not None}:
        added = [one for one in made if one.frame.base == base]
        vectors[base] = Vectors(stored([*parts.over[base], *added])) if added else reuse.vectors(base)
    found = [
        _known(one, there, own, [*known, *made], vectors, declared) if number < parts.read else there
        for number, (one, there, own, known) in enumerate(
            zip(parts.wanted, parts.found, kept, parts.known, strict=True)
        )
    ]
    shown = iter(tables_of(parts.wanted, found))
    given = [next(shown) if there.is_complete else table for there, table in zip(found, new, strict=True)]
    said = with_combined(told, parts.wanted, parts.found, found)
    return _answered(parts, [table for table in given if table], noisy, said, declared, vectors)


def _answered(
    parts: Split,
    tables: Sequence[NoisyTable | AddedTable],
    noisy: NoisyAggregates | None,
    measured: tuple[Measurement, ...],
    declared: Declarations,
    vectors: Mapping[str, Vectors] | None = None,
) -> Answered:
    return Answered(
        tables=tuple(tables),
        charge=ZERO if noisy is None else noisy.charge,
        guarantee=parts.guarantee(declared, vectors, None if noisy is None else noisy.entry),
        measurements=measured,
        protects=declared.protected,
        blocks="" if noisy is None else noisy.blocks,
        entry=None if noisy is None else noisy.entry,
    )


def _kept(parts: Split, tables: Sequence[NoisyTable | None], entry: int | None, reuse: Reuse) -> list[Release | None]:
    """Returns what was measured as releases of the store, one for each aggregate of the plan."""
    budgeted = iter(parts.rest.aggregates)
    made: list[Release | None] = []
    for wanted, table in zip(parts.wanted, tables, strict=True):
        paid = None if table is None else next(budgeted)
        if table is None or paid is None or wanted.asked is None or entry is None:
            made.append(None)
        else:
            made.append(_release(wanted, wanted.asked, table, paid, entry, reuse.analyst))
    return made


def _release(
    wanted: Wanted, asked: Asked, table: NoisyTable, budgeted: BudgetedAggregate, entry: int, analyst: str
) -> Release:
    texts = {m.id: text for m, text in zip(wanted.budgeted.aggregate.measures, asked.measures, strict=True)}
    released = zip(table.aggregate.measures, table.noises, budgeted.noise, table.numbers, strict=True)
    keys = zip(wanted.budgeted.aggregate.keys, table.keys, strict=True)
    selected = table.aggregate.is_selected
    return Release(
        entry=entry,
        analyst=analyst,
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        frame=asked.frame,
        facts=wanted.facts,
        names=labels_of(table.aggregate),
        groups=tuple(values_of(key, column) for key, column in keys) if selected else None,
        tau=wanted.tau,
        delta=budgeted.selection_delta,
        parts=tuple(
            Part(measure=texts[measure.id], noise=noise, loss=paid.loss, numbers=numbers)
            for measure, noise, paid, numbers in released
        ),
        families=tuple(
            tuple((i, table.aggregate.measures[i].target or Fraction(0)) for i in family)
            for family in families(table.aggregate.measures)
        ),
        equations=asked.equations,
    )


def _store(made: Sequence[Release], reuse: Reuse) -> None:
    try:
        reuse.store.add(reuse.version, list(made))
    except (LedgerError, InternalError) as error:
        warnings.warn(f"the answer could not be stored and will be charged for again: {error}", stacklevel=2)


def _known(
    wanted: Wanted,
    there: Found,
    new: Release | None,
    known: Sequence[Release],
    vectors: Mapping[str, Vectors],
    declared: Declarations,
) -> Found:
    """Returns what is known after a release: sums are estimated from all that is stored by then; units and different
    values that were measured are combined with those of the same groups."""
    if wanted.asked is None:
        return there
    selected = wanted.asked.frame.is_selected
    if new is None and selected:
        return there
    usable = [new] if selected and new is not None else known
    own = vectors[wanted.asked.frame.base]
    found = find(wanted, usable, own, unit_is_row=declared.unit_is_row, enough=False)
    texts = zip(wanted.asked.measures, there.estimates, found.estimates, strict=True)
    estimates = tuple(
        now if old is None or (now is not None and is_of_vector(wanted.asked.frame, text)) else old
        for text, old, now in texts
    )
    return Found(estimates=estimates, release=found.release or there.release, vectors=own)
