"""The ledger replayed: its chain, the sums of all accounts, and each charge against the noise that was stored."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.auditing.charged_queries import SYNOPSES, NotRead, logged, queries_of
from dpquery.auditing.laws import loss_of
from dpquery.auditing.questions import charged
from dpquery.auditing.report import ReportLine, Section
from dpquery.auditing.synopsis_losses import synopses
from dpquery.backends.base import Backend
from dpquery.catalog import Catalog
from dpquery.errors import DPQueryError, InternalError, LedgerError
from dpquery.kernel.accountant import BudgetKind, charge_of
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.noise_laws import LAWS
from dpquery.kernel.plan import BudgetedAggregate, BudgetedPlan, Measure, Noise, PrivateAggregate
from dpquery.kernel.sensitivity import sensitivity
from dpquery.ledger.entries import Entry, State
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.schema import EntryKind
from dpquery.ledger.terms import version_of
from dpquery.planner.protect.protect import MOST_BOUND
from dpquery.result.table import Result
from dpquery.reuse.estimates import Wanted
from dpquery.reuse.query_split import QuerySplit, Reuse
from dpquery.reuse.releases import ReleasedMeasure, StoredRelease
from dpquery.reuse.store import ReleaseStore
from dpquery.reuse.text import Fingerprints
from dpquery.reuse.vector_estimates import Vectors, stored
from dpquery.session import answering, pipeline, planning
from dpquery.session.options import Options, Request
from dpquery.session.steps import with_given
from dpquery.sql.parse.parse import DIALECTS
from dpquery.units.declarations import Neighbours

METHOD = (
    "Every entry of the ledger is followed from the first: each is chained to the one before by a hash. Charges are "
    "added up anew and compared with every limit. Where the answer of a charge is still stored, for whichever version "
    "of the data, its queries are planned again, their sensitivity is derived anew, and the loss computed from the "
    "noise that was really used: it may not be larger than what was charged. The rest is counted by kind."
)
PARTS = ("epsilon", "rho", "delta")
UNPLANNED = "queries that cannot be planned any more"
OTHERWISE = "queries that are planned otherwise today"
GONE = "synopses that are not stored any more, or of tables that are declared otherwise today"
IN_STEPS = "queries whose first steps are not stored any more"
SMALL = Fraction(1, 100)
"""The part of a loss for which first steps are planned, so that any numbers that are stored are accurate enough."""
SHOWN = 20
"""Of charges that are not computed anew, numbers that are told of each kind."""


def accounts(catalog: Catalog, ledger: Ledger, public: Backend) -> Section:
    """Returns the section.

    Args:
        public: Knows the public tables; no private row is read.
    """
    try:
        count = ledger.verify()
        entries = ledger.entries()
    except LedgerError as error:
        broken = ReportLine(name="the chain", problem=str(error))
        return Section(name="ledger", title=TITLE, method=METHOD, done="The ledger cannot be read.", lines=(broken,))
    charges = [entry for entry in entries if entry.kind is EntryKind.CHARGE]
    known, replay = _stored(ledger), ChargeReplay(catalog=catalog, ledger=ledger, public=public)
    bought = synopses(catalog, ledger, replay.versions.values(), charges, public)
    recomputed = [
        bought[entry.seq] if entry.seq in bought else _recomputed(entry, known[entry.seq], replay)
        for entry in charges
        if entry.seq in known or entry.seq in bought
    ]
    done = (
        f"{count:,} entries, chained without a gap; {len(charges):,} charges added up; "
        f"{sum(not line.note for line in recomputed):,} of them computed anew from stored answers."
    )
    pending = [entry for entry in charges if entry.state is State.PENDING]
    risks = [f"{len(pending):,} charges have no answer (failed, cancelled, or still running); they count all the same."]
    return Section(
        name="ledger",
        title=TITLE,
        method=METHOD,
        done=done,
        lines=(*_sums(ledger, charges), *recomputed),
        risks=tuple(risks if pending else ()),
        not_done=tuple(_not_computed(recomputed, [entry for entry in charges if entry.seq not in {*known, *bought}])),
    )


TITLE = "Does the ledger add up, and was every charge enough for the noise of its answer?"


def _stored(ledger: Ledger) -> dict[int, list[StoredRelease]]:
    """Returns the stored releases, of all versions that the data had, by their entries."""
    found, store = dict[int, list[StoredRelease]](), ReleaseStore(ledger)
    for version in _versions(ledger).values():
        for release in store.all(version):
            found.setdefault(release.entry, []).append(release)
    return found


def _versions(ledger: Ledger) -> dict[int, str]:
    """Returns the versions that the data had, by the entries with which they began, in order."""
    begun = [(one.seq, one.hash) for one in ledger.entries() if one.kind in (EntryKind.DATA, EntryKind.RESTORE)]
    return {seq: version_of(seq, hash) for seq, hash in [(0, ledger.hash_of(0) or ""), *begun]}


def _not_computed(recomputed: Iterable[ReportLine], others: Iterable[Entry]) -> Iterator[str]:
    """Yields how many charges of each kind were not computed anew, and which."""
    kinds = defaultdict[str, list[str]](list)
    for line in recomputed:
        if line.note:
            kinds[line.note].append(line.name.partition(":")[0])
    for entry in others:
        kinds[_kind(entry)].append(str(entry.seq))
    for kind, numbers in kinds.items():
        named = ", ".join(numbers[:SHOWN]) + (" and others" if len(numbers) > SHOWN else "")
        yield f"{kind}: {len(numbers):,} {'charge' if len(numbers) == 1 else 'charges'} ({named})"


def _kind(entry: Entry) -> str:
    """Returns what a charge without a stored release is for."""
    try:
        queries_of(entry)
    except NotRead as error:
        return GONE if str(error) == SYNOPSES else str(error)
    return "queries whose answers are not stored"


def _sums(ledger: Ledger, charges: Sequence[Entry]) -> Iterator[ReportLine]:
    """Yields the accounts of the dataset and of each analyst, added up by entries; in the block that has most."""
    for name in (None, *dict.fromkeys(entry.analyst for entry in charges)):
        own = [entry for entry in charges if name in (None, entry.analyst)]
        limit, told, found = ledger.limit(name), ledger.spent(name), _most(own)
        figures = {part: float(getattr(found, part)) for part in PARTS if getattr(limit, part)}
        problem = ""
        for part in PARTS:
            if getattr(found, part) > getattr(limit, part):
                problem = f"charges add up to {part} {float(getattr(found, part)):g}, above the limit"
            elif getattr(found, part) > getattr(told, part):
                problem = f"charges add up to {part} {float(getattr(found, part)):g}, and the account holds less"
        yield ReportLine(
            name=f"the account of {'all analysts together' if name is None else name}", figures=figures, problem=problem
        )


def _most(entries: Iterable[Entry]) -> PrivacyLoss:
    """Returns the sum of charges; where rows are in blocks, of those to all blocks alone, which is a lower bound."""
    losses = [entry.loss for entry in entries if entry.blocks in ("", "*")]
    return sum(losses, start=PrivacyLoss())


def _recomputed(entry: Entry, releases: Sequence[StoredRelease], replay: ChargeReplay) -> ReportLine:
    """Returns a charge beside the loss that follows from the noise which was used."""
    name, ledger, neighbours = f"{entry.seq}: {entry.query}", replay.ledger, replay.catalog.neighbours
    try:
        found = replay.found(entry, releases)
    except NotRead as error:
        return ReportLine(name=name, note=str(error))
    try:
        loss = charge_of(BudgetedPlan(aggregates=found), ledger.budget.kind, neighbours)
    except InternalError:
        return ReportLine(name=name, problem="its noise cannot be paid for in the ledger's currency")
    problem = "".join(
        f"its noise loses {part} {float(getattr(loss, part)):.9g}, more than {float(getattr(entry.loss, part)):.9g}"
        for part in PARTS
        if getattr(loss, part) > getattr(entry.loss, part)
    )
    part = "epsilon" if entry.loss.epsilon else "rho"
    figures = {"charged": float(getattr(entry.loss, part)), "computed": float(getattr(loss, part))}
    return ReportLine(name=name, figures=figures, problem=problem)


@dataclass(slots=True)
class ChargeReplay:
    """Plans charged queries again, and finds in the plans what was measured.

    A plan is right where its rows, groups and measures are those of what is stored, word for word: what is not
    recorded of a query, its dialect and its own bounds, is found by trying.

    Attributes:
        public: Knows the public tables; no private row is read.
        dialects: The dialects, those first in which charges were found last.
        versions: Those of the data, by the entries with which they began.
    """

    catalog: Catalog
    ledger: Ledger
    public: Backend
    dialects: list[str] = field(default_factory=lambda: list(DIALECTS))
    store: ReleaseStore = field(init=False)
    versions: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        self.store, self.versions = ReleaseStore(self.ledger), _versions(self.ledger)

    def found(self, entry: Entry, releases: Sequence[StoredRelease]) -> tuple[BudgetedAggregate, ...]:
        """Returns what was measured of a charge, with the losses of its noise; raises NotRead where none of the plans
        of its queries measures it."""
        found = list[BudgetedAggregate | None]([None] * len(releases))
        reason = UNPLANNED
        for dialect, wanted in self._plans(entry, releases):
            if wanted is None:
                reason = IN_STEPS
                continue
            reason = OTHERWISE if reason == UNPLANNED else reason
            for place, release in enumerate(releases):
                with contextlib.suppress(DPQueryError, LookupError):
                    found[place] = found[place] or _budgeted(release, wanted, self.catalog.neighbours)
            if None not in found:
                self.dialects.remove(dialect)
                self.dialects.insert(0, dialect)
                return tuple(one for one in found if one is not None)
        raise NotRead(reason)

    def _plans(
        self, entry: Entry, releases: Sequence[StoredRelease]
    ) -> Iterator[tuple[str, tuple[Wanted, ...] | None]]:
        """Yields dialects, and what the queries measure in them, asked together and each by itself; None where that
        hangs on first steps whose answers are not stored any more."""
        queries = logged(entry.query)
        own = [_bounds(one) for one in releases]
        offers = list(_offers(entry, self.catalog))
        for dialect in self.dialects[:]:
            for options, (most_rows, most_groups) in itertools.product(offers, dict.fromkeys([(None, None), *own])):
                asked = options.but(dialect=dialect, max_rows=most_rows, max_groups=most_groups)
                requests = [
                    replace(asked.request(one.text, None, self.catalog.defaults), params=one.params, step=one.step)
                    for one in queries
                ]
                alone = [(one,) for one in requests] if len(requests) > 1 else []
                for some, derives in itertools.product((tuple(requests), *alone), (True, False)):
                    try:
                        wanted = self._divided(entry, some, derives=derives, fresh=True)[1].wanted
                    except NotRead:
                        yield dialect, None
                    except (DPQueryError, LookupError):
                        continue
                    else:
                        yield dialect, wanted

    def _divided(
        self, entry: Entry, requests: Sequence[Request], *, derives: bool = False, fresh: bool = False
    ) -> tuple[tuple[planning.PreparedQuery, ...], QuerySplit, Reuse]:
        """Returns the plans of queries for what was charged, and what of them was stored before the entry.

        Args:
            fresh: Whether all counts as not stored.
        Raises:
            NotRead: They read first steps whose answers are not stored any more.
        """
        ledger, public = self.ledger, self.public
        prepared = pipeline.plan(requests, catalog=self.catalog, ledger=ledger, public=public, derives=derives)
        if steps := prepared[0].steps:
            first = [replace(requests[0].of_part(SMALL), step=step, weights={}) for step in range(steps)]
            last, _ = with_given((*first, requests[0]), lambda step: self._answered(entry, step))
            return self._divided(entry, (last,), derives=derives, fresh=fresh)
        reuse = BeforeEntry(
            store=self.store,
            version=[version for begun, version in self.versions.items() if begun < entry.seq][-1],
            catalog=Fingerprints(self.catalog),
            analyst=entry.analyst,
            fresh=fresh,
            entry=entry.seq,
        )
        return prepared, pipeline.divide(prepared, ledger=ledger, reuse=reuse), reuse

    def _answered(self, entry: Entry, request: Request) -> Result:
        """Returns the answer of a first step from what was stored before the entry; raises NotRead where it was not."""
        prepared, parts, reuse = self._divided(entry, (request,))
        if parts.rest.aggregates:
            raise NotRead(IN_STEPS)
        execution = answering.Execution(
            catalog=self.catalog, backend=self.public, ledger=self.ledger, reuse=reuse, analyst=entry.analyst
        )
        return pipeline.answer((request,), prepared, parts, (answering.Remarks(),), execution)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeEntry(Reuse):
    """The store as it was when an entry of the ledger was charged."""

    entry: int

    def _allowed(self, found: Sequence[StoredRelease]) -> Sequence[StoredRelease]:
        return [release for release in Reuse._allowed(self, found) if release.entry < self.entry]

    def vectors(self, base: str) -> Vectors:
        """Returns what was stored of sums over this base."""
        return Vectors(stored(self.over(base)))


def _offers(entry: Entry, catalog: Catalog) -> Iterator[Options]:
    """Yields what may have been asked for: what was charged, and the epsilon that is charged as a rho."""
    options = charged(entry, catalog)
    yield options
    if entry.loss.rho and catalog.budget.kind is BudgetKind.APPROXIMATE:
        epsilon = Fraction(math.sqrt(2 * entry.loss.rho)).limit_denominator(10**9)
        yield options.but(epsilon=epsilon, rho=None)


def _bounds(release: StoredRelease) -> tuple[int | None, int | None]:
    """Returns the rows and groups in which a unit weighed in full, as a query may say them."""
    limits = release.frame.weights
    groups = limits.max_groups
    return limits.max_rows, None if groups is None or groups > MOST_BOUND else groups


def _budgeted(release: StoredRelease, wanted: Sequence[Wanted], neighbours: Neighbours) -> BudgetedAggregate | None:
    """Returns what was measured with the losses of the noise that was used; None where the plan has no such thing."""
    for one in wanted:
        aggregate = one.budgeted.aggregate
        if one.asked is None or one.asked.frame != release.frame:
            continue
        known = dict(zip(one.asked.measures, aggregate.measures, strict=True))
        if not known.keys() >= {part.measure for part in release.parts}:
            continue
        pairs = [(known[part.measure], part) for part in release.parts]
        noise = tuple(_noise(aggregate, measure, part, neighbours) for measure, part in pairs)
        measured = replace(aggregate, measures=tuple(measure for measure, _ in pairs))
        return BudgetedAggregate(aggregate=measured, noise=noise, selection_delta=release.delta)
    return None


def _noise(aggregate: PrivateAggregate, measure: Measure, part: ReleasedMeasure, neighbours: Neighbours) -> Noise:
    """Returns the noise of a measure with its loss: l1 / b, or l2^2 / 2 v; of a choice what was stored of it."""
    law = part.noise
    if not LAWS[law.mechanism].is_added:
        return Noise(mechanism=law.mechanism, loss=part.loss)
    moved = sensitivity(aggregate, measure, neighbours, int(aggregate.steps(measure) / Fraction(law.steps)))
    return Noise(mechanism=law.mechanism, loss=loss_of(law, moved.l1, moved.l2_squared, law.parameter))
