"""What of a query was stored and what was measured now, both together as released tables."""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.accuracy.simulated import Shared
from dpquery.errors import InternalError, LedgerError
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import BudgetedAggregate, PrivateAggregate
from dpquery.kernel.quantiles import families
from dpquery.kernel.release import NoisyAggregates, NoisyTable
from dpquery.kernel.selection import all_codes
from dpquery.result.added_tables import AddedTable, AnyNoise, NoiseOfSum
from dpquery.result.inverse_variance import CombinedNoise, Component
from dpquery.result.measurements import Measurement
from dpquery.reuse.coordinates import is_linear, is_of_vector
from dpquery.reuse.estimates import StoredEstimate, Wanted, find, ranks_of
from dpquery.reuse.frames import AskedAggregate, asked_of
from dpquery.reuse.query_split import QuerySplit, Reuse, split
from dpquery.reuse.releases import ReleasedMeasure, StoredRelease, column_of, labels_of, values_of
from dpquery.reuse.stored_choices import place_of
from dpquery.reuse.stored_measurements import with_combined
from dpquery.reuse.vector_estimates import VectorEstimate, Vectors, stored
from dpquery.units.declarations import Declarations


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


@contextlib.contextmanager
def one_at_a_time(parts: QuerySplit, reuse: Reuse | None, declared: Declarations) -> Iterator[QuerySplit]:
    """Holds a lock while a query measures what is not stored; yields the split computed anew after waiting, as another
    thread may have stored it by then."""
    if reuse is None or not parts.rest.aggregates:
        yield parts
        return
    pairs = zip(parts.wanted, parts.found, strict=True)
    lacking = [(one.asked.frame, one.asked.measures) for one, there in pairs if one.asked and not there.is_complete]
    with reuse.store.turn((reuse.version, *lacking)):
        if not reuse.fresh and reuse.store.state() != parts.state:
            parts = split(*parts.planned, reuse, declared, parts.follows, parts.plain, parts.read, parts.failure)
        yield parts


def combine_with_stored(
    parts: QuerySplit, noisy: NoisyAggregates | None, reuse: Reuse | None, declared: Declarations
) -> Answered:
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
    parts: QuerySplit, noisy: NoisyAggregates, reuse: Reuse, told: tuple[Measurement, ...], declared: Declarations
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
        releases = [*parts.over[base], *(one for one in made if one.frame.base == base)]
        if [one.entry for one in reuse.over(base)] == [one.entry for one in releases]:
            vectors[base] = reuse.vectors(base)  # as the next query will find it
        else:  # something was stored between, or this could not be
            vectors[base] = Vectors(stored(releases))
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
    parts: QuerySplit,
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


def _kept(
    parts: QuerySplit, tables: Sequence[NoisyTable | None], entry: int | None, reuse: Reuse
) -> list[StoredRelease | None]:
    """Returns what was measured as releases of the store, one for each aggregate of the plan."""
    budgeted = iter(parts.rest.aggregates)
    made: list[StoredRelease | None] = []
    for wanted, table in zip(parts.wanted, tables, strict=True):
        paid = None if table is None else next(budgeted)
        if table is None or paid is None or wanted.asked is None or entry is None:
            made.append(None)
        else:
            made.append(_release(wanted, wanted.asked, table, paid, entry, reuse.analyst))
    return made


def _release(
    wanted: Wanted, asked: AskedAggregate, table: NoisyTable, budgeted: BudgetedAggregate, entry: int, analyst: str
) -> StoredRelease:
    texts = {m.id: text for m, text in zip(wanted.budgeted.aggregate.measures, asked.measures, strict=True)}
    released = zip(table.aggregate.measures, table.noises, budgeted.noise, table.numbers, strict=True)
    keys = zip(wanted.budgeted.aggregate.keys, table.keys, strict=True)
    selected = table.aggregate.is_selected
    return StoredRelease(
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
            ReleasedMeasure(measure=texts[measure.id], noise=noise, loss=paid.loss, numbers=numbers)
            for measure, noise, paid, numbers in released
        ),
        families=tuple(
            tuple((i, table.aggregate.measures[i].target or Fraction(0)) for i in family)
            for family in families(table.aggregate.measures)
        ),
        equations=asked.equations,
    )


def _store(made: Sequence[StoredRelease], reuse: Reuse) -> None:
    try:
        reuse.store.add(reuse.version, list(made))
    except (LedgerError, InternalError) as error:
        warnings.warn(f"the answer could not be stored and will be charged for again: {error}", stacklevel=2)


def _known(
    wanted: Wanted,
    there: StoredEstimate,
    new: StoredRelease | None,
    known: Sequence[StoredRelease],
    vectors: Mapping[str, Vectors],
    declared: Declarations,
) -> StoredEstimate:
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
    return StoredEstimate(estimates=estimates, release=found.release or there.release, vectors=own)


def tables_of(wanted: Sequence[Wanted], found: Sequence[StoredEstimate]) -> list[AddedTable]:
    """Returns what was found whole as released tables, knowing which of them show one noise twice."""
    behind = [
        {(release.entry, release.frame, part.measure) for one in there.estimates if one for release, part in one.parts}
        for there in found
    ]
    uses = Counter(key for keys in behind for key in keys)
    return [
        _table(one, there, repeats=any(uses[key] > 1 for key in keys))
        for one, there, keys in zip(wanted, found, behind, strict=True)
        if there.is_complete
    ]


def _table(wanted: Wanted, found: StoredEstimate, *, repeats: bool) -> AddedTable:
    aggregate, release = wanted.budgeted.aggregate, found.release
    estimates = [estimate for estimate in found.estimates if estimate is not None]
    if release is None:
        keys = all_codes(aggregate.keys, aggregate.public_groups or 0)
    else:
        groups = zip(aggregate.keys, release.groups or (), strict=True)
        keys = tuple(column_of(key, values) for key, values in groups)
    return AddedTable(
        aggregate=aggregate,
        keys=keys,
        numbers=tuple(estimate.numbers for estimate in estimates),
        noises=tuple(_apart(estimates)),
        repeats=repeats,
        direct=lambda place: _direct(wanted, estimates[place], place),
        noises_of=lambda coarser: _noises_of(wanted, found, coarser),
        shared=lambda of, places: _shared(wanted, found, of, places),
        ranks=lambda failure: ranks_of(aggregate, estimates, failure),
    )


def _apart(estimates: Sequence[VectorEstimate]) -> Iterator[AnyNoise]:
    """Yields the noises of a table's measures; one that is in two of them is not followed as if it were two."""
    uses = Counter(place_of(*part) for estimate in estimates for part in estimate.parts)
    for estimate in estimates:
        law = estimate.law
        if any(uses[place_of(*part)] > 1 for part in estimate.parts) and not isinstance(law, CombinedNoise):
            one, count = (law.noise, law.count) if isinstance(law, NoiseOfSum) else (law, 1)
            if one.is_added:
                law = CombinedNoise(components=(Component(noise=one, count=count, weight=Fraction(1)),), rounded=0)
        yield law


def _direct(wanted: Wanted, estimate: VectorEstimate, place: int) -> NoiseLaw | None:
    """Returns the least noise behind an estimate of sums that is of a release of the same numbers, group by group."""
    asked = wanted.asked
    if asked is None or not is_of_vector(asked.frame, asked.measures[place]):
        return None
    same = (asked.frame, asked.measures[place])
    own = [part.noise for release, part in estimate.parts if (release.frame, part.measure) == same]
    return min(own, key=variance_of, default=None)


def _noises_of(wanted: Wanted, found: StoredEstimate, coarser: PrivateAggregate) -> list[AnyNoise] | None:
    """Returns the noises of sums over a table's groups, which were estimated together."""
    asked = _over_groups_of(wanted, coarser)
    if asked is None or found.vectors is None or not all(map(is_linear, asked.measures)):
        return None
    made = [found.vectors.estimate(asked, wanted.facts, text) for text in asked.measures]
    return [one.law for one in made if one is not None] if all(made) else None


def _shared(wanted: Wanted, found: StoredEstimate, of: PrivateAggregate, places: Sequence[int]) -> Shared | None:
    """Returns the noise that some measures of a table have together, or of one added up from its groups."""
    asked = _over_groups_of(wanted, of)
    if asked is None or found.vectors is None:
        return None
    units = [float(of.measures[place].unit) for place in places]
    return found.vectors.shared(asked, wanted.facts, [asked.measures[place] for place in places], units)


def _over_groups_of(wanted: Wanted, aggregate: PrivateAggregate) -> AskedAggregate | None:
    if wanted.asked is None or aggregate is wanted.budgeted.aggregate:
        return wanted.asked
    return replace(wanted.asked, frame=asked_of(aggregate, frozenset()).frame)
