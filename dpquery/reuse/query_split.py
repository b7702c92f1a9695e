"""What of a query is stored, and what has to be measured for it: known before anything is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.kernel.accountant import BudgetKind, charge_of, guarantee_of
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.result.measurements import Measurement, measurements
from dpquery.reuse.coordinates import is_of_vector
from dpquery.reuse.estimates import StoredEstimate, Wanted, find
from dpquery.reuse.frames import AskedAggregate, asked_of
from dpquery.reuse.implied import rests
from dpquery.reuse.provenance import behind, planned_vectors, undetermined
from dpquery.reuse.releases import Facts, StoredRelease
from dpquery.reuse.shelf import NOTHING, State
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.stored_choices import Place
from dpquery.reuse.stored_measurements import described
from dpquery.reuse.text import Fingerprints, NotCanonical
from dpquery.reuse.top_ups import exact_enough, refined
from dpquery.reuse.vector_estimates import Vectors, stored
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

    store: ReleaseStore
    version: str
    catalog: Fingerprints
    analyst: str
    only_own: bool = False
    fresh: bool = False

    def releases(self, asked: AskedAggregate) -> Sequence[StoredRelease]:
        """Returns the stored releases over the same rows that this query may use, oldest first."""
        if self.fresh:
            return ()
        return self._allowed(self.store.find(self.version, asked.frame.base, asked.frame.conditions))

    def over(self, base: str) -> Sequence[StoredRelease]:
        """Returns all stored releases over rows of this base that this analyst may use, oldest first."""
        return () if self.fresh else self._allowed(self.store.over(self.version, base))

    def vectors(self, base: str) -> Vectors:
        """Returns what is stored of sums over this base, made once until the next release."""
        if self.fresh:
            return Vectors(())
        whose = self.analyst if self.only_own else None
        return self.store.derived(self.version, base, whose, lambda: Vectors(stored(self.over(base))))

    def everything(self) -> Sequence[StoredRelease]:
        """Returns all stored releases of this version of the data that this analyst may use, oldest first."""
        return self._allowed(self.store.all(self.version))

    def _allowed(self, found: Sequence[StoredRelease]) -> Sequence[StoredRelease]:
        return [release for release in found if release.analyst == self.analyst] if self.only_own else found


Plain = tuple[BudgetedPlan, tuple[Wanted, ...]]
"""A plan and its aggregates in the form of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySplit:
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
        planned: The plan as it was before what is stored was taken from the noise of its measures.
        failure: Where errors were asked for, with which probability the interval of a number may not hold.
        read: How many of the aggregates the queries read.
        state: The store's, when it was looked at.
    """

    plan: BudgetedPlan
    wanted: tuple[Wanted, ...]
    found: tuple[StoredEstimate, ...]
    rest: BudgetedPlan
    missing: tuple[BudgetedAggregate | None, ...]
    known: tuple[Sequence[StoredRelease], ...]
    over: Mapping[str, Sequence[StoredRelease]]
    expected: Callable[[], Mapping[str, Vectors]]
    follows: frozenset[str]
    plain: Plain | None
    planned: Plain
    failure: Fraction | None
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


def wanted_of(
    plan: BudgetedPlan,
    groupings: Sequence[DeclaredGrouping],
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


def _asked(budgeted: BudgetedAggregate, whole: frozenset[str]) -> AskedAggregate | None:
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
    failure: Fraction | None = None,
) -> QuerySplit:
    """Returns what of a plan is stored and what is to be measured; reads no private row.

    Args:
        read: How many of the aggregates the queries read; the others are measured so that these follow. None: all.
        follows: The ids of what is not measured, because it follows from others of the plan.
        plain: The plan in which all is measured by itself.
        failure: Where errors are asked for, with which probability the interval of a number may not hold: then what is
            measured is just exact enough beside what is stored, in the way that costs least.
    """
    if failure is not None and plain is not None and reuse is not None:
        alone = split(*plain, reuse, declared, failure=failure)
        if not alone.rest.aggregates:
            return alone
    state = NOTHING if reuse is None else reuse.store.state()
    known = [() if reuse is None or one.asked is None else reuse.releases(one.asked) for one in wanted]
    bases = {one.asked.frame.base for one in wanted if one.asked is not None}
    vectors = {base: Vectors(()) if reuse is None else reuse.vectors(base) for base in bases}
    over = {base: () if reuse is None else reuse.over(base) for base in bases}  # after them: it lacks nothing of theirs
    found = list[StoredEstimate]()
    for number, (one, releases) in enumerate(zip(wanted, known, strict=True)):
        if number == read and failure is None and all(there.is_complete for there in found):
            return split(BudgetedPlan(aggregates=plan.aggregates[:read]), wanted[:read], reuse, declared, plain=plain)
        found.append(find(one, releases, _vectors(one, vectors), unit_is_row=declared.unit_is_row))
    if failure is not None:
        found = exact_enough(wanted, found, vectors, failure)
    elif not any(rests(wanted, found, follows)):
        follows = frozenset()  # what others were to follow from is stored, and together perhaps not as exact as planned

    def made(wanted: tuple[Wanted, ...], found: Sequence[StoredEstimate]) -> QuerySplit:
        missing = rests(wanted, found, follows)
        return QuerySplit(
            plan=plan if wanted is planned else BudgetedPlan(aggregates=tuple(one.budgeted for one in wanted)),
            wanted=wanted,
            found=tuple(found),
            rest=BudgetedPlan(aggregates=tuple(one for one in missing if one is not None)),
            missing=tuple(missing),
            known=tuple(known),
            over=over,
            expected=lambda: planned_vectors(wanted, found, vectors, over, follows),
            follows=follows,
            plain=plain,
            planned=(plan, planned),
            failure=failure,
            read=len(wanted) if read is None else read,
            state=state,
        )

    planned, ways = wanted, list[QuerySplit]()
    if failure is None or reuse is None:
        ways.append(made(wanted, found))
    else:
        demanded = wanted if plain is None else plain[1]
        for there in [found] if plain is None or not any(over.values()) else [found, [*_anew(wanted, found)]]:
            finer = refined(wanted, there, demanded, known, vectors, over, follows, failure, declared)
            ways += [] if finer is None else [made(finer, there)]
        ways += [] if plain is None else [alone]
    best = ways[0] if len(ways) == 1 else min(ways, key=lambda one: _price(one.rest, declared))
    if plain is not None and undetermined(best.wanted, best.expected(), best.follows):
        return split(*plain, reuse, declared, failure=failure)  # it takes too much work to know, and is measured
    return best


def _anew(wanted: Sequence[Wanted], found: Sequence[StoredEstimate]) -> Iterator[StoredEstimate]:
    """Yields what is stored but for sums, which are all measured again with more noise: with what is stored of them
    they are as exact as planned."""
    for one, there in zip(wanted, found, strict=True):
        if one.asked is None:
            yield there
            continue
        frame, pairs = one.asked.frame, zip(one.asked.measures, there.estimates, strict=True)
        yield replace(there, estimates=tuple(None if is_of_vector(frame, text) else old for text, old in pairs))


def _price(plan: BudgetedPlan, declared: Declarations) -> Fraction:
    """Returns what orders the ways to measure the same by their charges."""
    loss = guarantee_of(plan, declared.neighbours)
    return loss.epsilon**2 / 2 + loss.rho


def _vectors(wanted: Wanted, known: Mapping[str, Vectors]) -> Vectors:
    return Vectors(()) if wanted.asked is None else known[wanted.asked.frame.base]
