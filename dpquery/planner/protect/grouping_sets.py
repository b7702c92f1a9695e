"""Grouping sets: release each of them, or release the finest and add up its noisy groups; whichever errs less.

Adding up costs nothing, and its totals are the sums of the groups shown. It answers the same question only where the
finest groups partition the rows: their public keys cover every row, as far as the declarations say, and the measures
add up. docs/concepts/accuracy.md says how the two are compared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpquery.accuracy.counting import Halved
from dpquery.accuracy.noise_shapes import noises_of, scale_of, variance_of
from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import BudgetedPlan, Count, Measure, PrivateAggregate
from dpquery.plan.axes import cells, most_summed
from dpquery.plan.canonical import Names, canonical, rename_aggregate
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.logical import Aggregate, AggregateColumn, Computed
from dpquery.units.declarations import Neighbours

MAX_GROUPS = 100_000
"""Public groups that all grouping sets of one SELECT may have together."""
MAX_TRIED = 16
"""Limits on the groups that one sum takes which are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGrouping:
    """What the declarations say of the groups of a released table.

    Attributes:
        covering: For each key whether its public values cover every row.
        one_group: Whether each unit has one group.
        whole: Ids of the sums and quantiles over values that are never NULL.
        halved: Totals that are measured in two parts.
        limited: Whether totals of one unit are clamped to what `max_rows` rows can make.
        shows_units: Whether numbers of units are asked for, and not only used to select groups.
    """

    covering: tuple[bool, ...]
    one_group: bool
    whole: frozenset[str] = frozenset()
    halved: tuple[Halved, ...] = ()
    limited: bool = False
    shows_units: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateMeasurement:
    """One boundary as it would be measured by itself.

    Attributes:
        aggregate: What would be released.
        computed: The boundary's aggregates over its measures.
        boundary: What it stands for.
        grouping: What the declarations say of its groups.
        joint: The same with vectors of moments, where there are any.
    """

    aggregate: PrivateAggregate
    computed: tuple[Computed, ...]
    boundary: Aggregate
    grouping: DeclaredGrouping
    joint: SeparateMeasurement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A table that is added up from the groups of a released one.

    Attributes:
        leaf: The number of the released table.
        aggregate: The released table's own, but for fewer keys and other ids of its measures; it is never run.
        groups: How many released groups make one of its groups.
    """

    leaf: int
    aggregate: PrivateAggregate
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedBoundary:
    """A boundary that is added up: from which other one, over how many of its groups, and how it is computed."""

    leaf: int
    groups: int
    aggregate: PrivateAggregate
    computed: tuple[Computed, ...]


Family = dict[int, SeparateMeasurement]
"""The boundaries of one GROUP BY, by number."""


def check_size(family: Sequence[SeparateMeasurement]) -> None:
    """Raises UnsupportedQueryError if the public groups of all sets together are too many."""
    total = sum(measured.aggregate.public_groups or 0 for measured in family)
    if total > MAX_GROUPS:
        raise UnsupportedQueryError(
            f"the grouping sets make {total} groups, and at most {MAX_GROUPS} can be released at once",
            advice="Group by fewer or coarser keys, or by fewer sets.",
            span=next((span for measured in family for span in measured.boundary.spans if span is not None), None),
        )


def sums(family: Family, most: float = math.inf) -> dict[int, AddedBoundary]:
    """Returns the boundaries that can be added up from at most `most` groups each of one that is released."""
    usable = {number: one for number, one in family.items() if _is_additive(one)}
    found: dict[int, AddedBoundary] = {}
    largest_first = sorted(usable, key=lambda number: -len(_columns_of(usable[number])))
    for number in largest_first:
        givers = [
            (groups, leaf)
            for leaf in largest_first
            if leaf not in found and (groups := _groups_added(usable[leaf], usable[number])) is not None
        ]
        groups, leaf = min(givers, default=(0, number))
        if givers and groups <= most:
            found[number] = _sum(leaf, groups, usable[leaf], number, usable[number])
    return found


def obstacle(family: Family) -> str:
    """Returns why nothing of a family can be added up, for people."""
    finest = max(family.values(), key=lambda one: len(_columns_of(one)))
    if finest.aggregate.is_selected:
        return "groups are selected, and those not shown would be missing from sums"
    if not _is_additive(finest):
        return "an aggregate does not add up over groups"
    if not any(_is_finer(finest, one) for one in family.values()):
        return "no set holds the keys of another"
    if not all(_ask_alike(finest.boundary, one.boundary) for one in family.values()):
        return "another part of the query asks more of one set than of another"
    return "a key may be NULL, and sums of its public groups would leave those rows out"


def _is_additive(one: SeparateMeasurement) -> bool:
    if one.aggregate.is_selected:
        return False
    return all(_adds_up(measure, one) for measure in one.aggregate.measures)


def _adds_up(measure: Measure, one: SeparateMeasurement) -> bool:
    """Whether the numbers of finer groups sum to that of a coarser one: of rows always, of units where each has one
    group, of different values never."""
    match measure.count:
        case Count.ROWS | Count.VALUES | Count.SUM:
            return True
        case Count.UNITS:
            return one.grouping.one_group
        case _:
            return False


def _is_finer(leaf: SeparateMeasurement, level: SeparateMeasurement) -> bool:
    return _columns_of(leaf) > _columns_of(level)


def _columns_of(one: SeparateMeasurement) -> frozenset[str]:
    """Returns the grouping columns."""
    return frozenset(id for key in one.aggregate.keys for id in key.columns)


def _groups_added(leaf: SeparateMeasurement, level: SeparateMeasurement) -> int | None:
    """Returns how many groups of the leaf make one of the level, at most; None where they do not make it."""
    if not _is_finer(leaf, level) or not _ask_alike(leaf.boundary, level.boundary):
        return None
    kept = _columns_of(level)
    pairs = zip(leaf.aggregate.keys, leaf.grouping.covering, strict=True)
    if not all(covers for key, covers in pairs if not kept >= {*key.columns}):
        return None
    if not all(_adds_up(measure, leaf) for measure in leaf.aggregate.measures):
        return None
    places = cells(leaf.aggregate.keys, level.aggregate.keys)
    made = set() if places is None else set(places.tolist())
    if places is None or made != set(range(level.aggregate.public_groups or 0)):
        return None  # a group of one has no place in the other
    return most_summed(places)


def _ask_alike(one: Aggregate, other: Aggregate) -> bool:
    """Whether two boundaries measure the same of the same rows: another part of the query may have added to one."""
    if one.source is other.source:
        return _bare(one, {}) == _bare(other, {})
    (rows, names), (others, renamed) = canonical(one.source), canonical(other.source)
    return rows == others and _bare(one, names) == _bare(other, renamed)


def _bare(boundary: Aggregate, names: Names) -> list[AggregateColumn]:
    return [replace(rename_aggregate(column, names), id="", name="") for column in boundary.aggregates]


def _sum(leaf: int, groups: int, finer: SeparateMeasurement, number: int, level: SeparateMeasurement) -> AddedBoundary:
    """Returns the level computed from sums of the leaf's measures, under ids of their own."""
    renamed = {measure.id: f"m{number + 1}_{place}" for place, measure in enumerate(finer.aggregate.measures, start=1)}
    aggregate = replace(
        finer.aggregate,
        keys=level.aggregate.keys,
        measures=tuple(replace(measure, id=renamed[measure.id]) for measure in finer.aggregate.measures),
    )
    computed = tuple(
        Computed(id=own.id, name=own.name, expression=_renamed(made.expression, renamed))
        for own, made in zip(level.computed, finer.computed, strict=True)
    )
    return AddedBoundary(leaf=leaf, groups=groups, aggregate=aggregate, computed=computed)


def _renamed(expression: Expression, ids: dict[str, str]) -> Expression:
    # Types of measures follow from the leaf's own, so that only ids change.
    return substitute(expression, _columns(expression, ids))


def _columns(expression: Expression, ids: dict[str, str]) -> dict[str, Expression]:
    return {c.id: Column(id=ids[c.id], type=c.type) for c in columns_of(expression) if c.id in ids}


def combinations(families: Sequence[Family]) -> Iterator[dict[int, AddedBoundary]]:
    """Yields ways to measure the families: add up all that takes at most so many groups, and release the others.

    Nothing added up comes first; everything that can be is among them.
    """
    sizes = {
        groups
        for family in families
        for leaf, level in itertools.permutations(family.values(), 2)
        if _is_additive(leaf) and _is_additive(level) and (groups := _groups_added(leaf, level)) is not None
    }
    tried = sorted(sizes)
    limits = tried if len(tried) <= MAX_TRIED else [*tried[:: -(-len(tried) // MAX_TRIED)], tried[-1]]
    yield {}
    before: dict[int, AddedBoundary] = {}
    for most in limits:
        found = {number: one for family in families for number, one in sums(family, most).items()}
        if found != before:
            yield found
        before = found


def expected_errors(
    plan: BudgetedPlan, added: Sequence[Added], neighbours: Neighbours
) -> tuple[tuple[float, ...], ...]:
    """Returns the standard deviation of the noise of each measure: of each released table, then of each added one.

    A number that adds up k groups has sqrt(k) times the deviation of one of them.
    """
    released = [
        tuple(_deviation(noise, measure) for noise, measure in zip(noises, budgeted.aggregate.measures, strict=True))
        for budgeted in plan.aggregates
        for noises in (noises_of(budgeted, neighbours),)
    ]
    summed = [tuple(math.sqrt(max(1, one.groups)) * error for error in released[one.leaf]) for one in added]
    return (*released, *summed)


def _deviation(noise: NoiseLaw, measure: Measure) -> float:
    """Returns the standard deviation of the noise in the unit of the released number; of a choice its scale in ranks,
    as what it is off in values depends on the data."""
    return math.sqrt(variance_of(noise)) * float(measure.unit) if noise.is_added else float(scale_of(noise))
