"""What is estimated of a query's aggregates as released tables, with the noise that their numbers have together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.accuracy.simulated import Shared
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.selection import all_codes
from dpquery.result.added import AddedTable, AnyNoise, NoiseOfSum
from dpquery.result.combined import CombinedNoise, Component
from dpquery.reuse.chosen import place_of
from dpquery.reuse.coordinates import is_linear
from dpquery.reuse.estimates import Found, Wanted, ranks_of
from dpquery.reuse.frames import Asked, asked_of
from dpquery.reuse.reconciled import Estimate
from dpquery.reuse.releases import column_of


def tables_of(wanted: Sequence[Wanted], found: Sequence[Found]) -> list[AddedTable]:
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


def _table(wanted: Wanted, found: Found, *, repeats: bool) -> AddedTable:
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
        noises_of=lambda coarser: _noises_of(wanted, found, coarser),
        shared=lambda of, places: _shared(wanted, found, of, places),
        ranks=lambda failure: ranks_of(aggregate, estimates, failure),
    )


def _apart(estimates: Sequence[Estimate]) -> Iterator[AnyNoise]:
    """Yields the noises of a table's measures; one that is in two of them is not followed as if it were two."""
    uses = Counter(place_of(*part) for estimate in estimates for part in estimate.parts)
    for estimate in estimates:
        law = estimate.law
        if any(uses[place_of(*part)] > 1 for part in estimate.parts) and not isinstance(law, CombinedNoise):
            one, count = (law.noise, law.count) if isinstance(law, NoiseOfSum) else (law, 1)
            if one.is_added:
                law = CombinedNoise(components=(Component(noise=one, count=count, weight=Fraction(1)),), rounded=0)
        yield law


def _noises_of(wanted: Wanted, found: Found, coarser: PrivateAggregate) -> list[AnyNoise] | None:
    """Returns the noises of sums over a table's groups, which were estimated together."""
    asked = _over_groups_of(wanted, coarser)
    if asked is None or found.vectors is None or not all(map(is_linear, asked.measures)):
        return None
    made = [found.vectors.estimate(asked, wanted.facts, text) for text in asked.measures]
    return [one.law for one in made if one is not None] if all(made) else None


def _shared(wanted: Wanted, found: Found, of: PrivateAggregate, places: Sequence[int]) -> Shared | None:
    """Returns the noise that some measures of a table have together, or of one added up from its groups."""
    asked = _over_groups_of(wanted, of)
    if asked is None or found.vectors is None:
        return None
    units = [float(of.measures[place].unit) for place in places]
    return found.vectors.shared(asked, wanted.facts, [asked.measures[place] for place in places], units)


def _over_groups_of(wanted: Wanted, aggregate: PrivateAggregate) -> Asked | None:
    if wanted.asked is None or aggregate is wanted.budgeted.aggregate:
        return wanted.asked
    return replace(wanted.asked, frame=asked_of(aggregate, frozenset()).frame)
