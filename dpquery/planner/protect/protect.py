"""Boundaries to measurements, and these to a private plan: what limits one privacy unit becomes a part of the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpquery.catalog import Catalog
from dpquery.catalog.cached_locality import cached_locality
from dpquery.catalog.tables import REFUSE
from dpquery.errors import InvalidLossError, UnsupportedQueryError
from dpquery.kernel.accountant import BudgetKind
from dpquery.kernel.contributions import groups_per_unit
from dpquery.kernel.plan import CHOICES, Count, Key, Measure, PrivateAggregate, Weighing, Weights
from dpquery.kernel.sensitivity import weighs_together
from dpquery.plan.aggregates.counts import COUNT, COUNT_DISTINCT
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.definitions import definition, kinds
from dpquery.plan.expr import Column, Expression
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    LogicalPlan,
    OutputColumn,
    Project,
    Relation,
    Released,
    Withheld,
    output,
    sources,
    with_sources,
)
from dpquery.plan.one_to_one import column_behind
from dpquery.plan.show import names_of, show
from dpquery.plan.types import FLOAT64, INT64, Type, Value
from dpquery.planner.keys.atoms import KeySources
from dpquery.planner.keys.conditions import conditions_of
from dpquery.planner.keys.passing import between_keys
from dpquery.planner.keys.possible import covers_all_rows, domain_of, keys_of, leaf_ranges
from dpquery.planner.protect import grouping_sets
from dpquery.planner.protect.grouping_sets import Added, AddedBoundary, DeclaredGrouping, SeparateMeasurement
from dpquery.planner.protect.joined_owners import without_second_joins
from dpquery.planner.protect.key_extremes import without_keys
from dpquery.planner.protect.lattices import measured_type
from dpquery.planner.protect.measurements import MeasurementSet
from dpquery.planner.protect.single_unit_groups import refuse_owned, without_delta
from dpquery.planner.protect.totals import mixes, scalings
from dpquery.planner.protect.weighing import LEAST_BESIDE_NUMBERS, choose
from dpquery.planner.ranges.ranges import ranges_of
from dpquery.units.declarations import Neighbours
from dpquery.units.row_counts import different_values
from dpquery.units.sizes import Sizes
from dpquery.units.unit_local import Locality
from dpquery.units.weights import pairs_of_unit, rows_in_group

MAX_GROUPS = 100_000
"""Public groups that one aggregation may have."""
MOST_BOUND = 1_000_000
"""Of rows or groups of a unit, that a query may say itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionBounds:
    """What a query says itself of the rows of a unit that weigh in full, and of the groups in which a unit counts; None
    leaves it to the catalog."""

    max_groups: int | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_groups", self.max_groups), ("max_rows", self.max_rows)):
            if value is not None and (type(value) is not int or not 1 <= value <= MOST_BOUND):
                raise InvalidLossError(f"{name} must be a whole number between 1 and {MOST_BOUND:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivatePlan:
    """What to measure, and what to compute from it.

    Attributes:
        aggregates: What is released; number i is read in `result` as `Released(index=i)`. One for each boundary of
            the query, but for those that are added up.
        result: Post-processing; its columns are the answer's.
        added: Tables added up from released ones; number j is read as `Released(index=len(aggregates) + j)`.
        boundaries: For each of `aggregates` and then of `added` the boundary that it stands for.
        families: For each GROUP BY with several sets its boundaries, and why none of them can be added up, if so.
        groupings: What the declarations say of the groups of each of `aggregates`.
        alternatives: Other plans that answer the same query, by what is added up.
        forms: Others, by how moments are measured; each has alternatives of its own.
        notes: What was decided between them, for people.
        variances: For columns of `result` that stand for the randomness of reports, how large it is.
        withheld: What `result` leaves out because of few people.
    """

    aggregates: tuple[PrivateAggregate, ...]
    result: Relation
    added: tuple[Added, ...] = ()
    boundaries: tuple[int, ...] = ()
    families: tuple[tuple[tuple[int, ...], str], ...] = ()
    groupings: tuple[DeclaredGrouping, ...] = ()
    alternatives: tuple[PrivatePlan, ...] = ()
    forms: tuple[PrivatePlan, ...] = ()
    notes: tuple[str, ...] = ()
    variances: Mapping[str, Expression] = field(default_factory=dict)
    withheld: tuple[Withheld, ...] = ()


def separate_measurements(
    logical: LogicalPlan, catalog: Catalog, public: Sizes, bounds: ContributionBounds
) -> tuple[SeparateMeasurement, ...]:
    """Returns each boundary as it would be measured by itself.

    Args:
        public: The values of public tables, for keys, and sizes of stored ones, for what the rows of a unit weigh.
        bounds: What the query says of rows and groups, in place of the catalog.
    Raises:
        MissingBoundsError: An aggregate without a finite sensitivity.
        UnsupportedQueryError: More public groups than can be enumerated, without a delta to select some of them.
    """
    scales = catalog.has_totals and not mixes(logical)
    added = {number for family in logical.families for number in family}
    measured = tuple(
        _measurement(index, boundary, catalog, public, bounds, scales=scales, adds_up=index in added)
        for index, boundary in enumerate(logical.boundaries)
    )
    for family in logical.families:
        grouping_sets.check_size([measured[number] for number in family])
    return measured


Measured = Sequence[SeparateMeasurement]
Variances = Mapping[str, Expression]
Tables = dict[tuple[object, ...], list[Relation]]
"""By measurements and families: the tables in place of the boundaries, made once for all queries that read them."""


def private_plan(logical: LogicalPlan, measured: Measured, variances: Variances, known: Tables) -> PrivatePlan:
    """Returns the plan that releases each boundary; its alternatives add some of them up from finer ones."""
    plain = _with_sums(logical, measured, variances, known)
    if variances or all(one.joint is None for one in measured):  # intervals of reports follow counts, not vectors
        return plain
    return replace(plain, forms=(_with_sums(logical, [one.joint or one for one in measured], variances, known),))


def _with_sums(logical: LogicalPlan, measured: Measured, variances: Variances, known: Tables) -> PrivatePlan:
    families = [{number: measured[number] for number in family} for family in logical.families]
    notes = tuple(
        (tuple(family), "" if grouping_sets.sums(family) else grouping_sets.obstacle(family)) for family in families
    )
    first, *others = (_plan(logical, measured, chosen, known) for chosen in grouping_sets.combinations(families))
    others = [replace(other, variances=variances) for other in others]
    return replace(first, families=notes, alternatives=tuple(others), variances=variances)


def has_public_keys(catalog: Catalog, public: Sizes) -> Callable[[str, Relation], bool]:
    """Returns what tells whether the groups of a column of a relation are public."""
    return lambda id, relation: domain_of(id, relation, _known(relation, catalog, public)) is not None


def _plan(logical: LogicalPlan, measured: Measured, sums: dict[int, AddedBoundary], known: Tables) -> PrivatePlan:
    """Returns the plan that adds up the given boundaries and releases all others."""
    released = [number for number in range(len(measured)) if number not in sums]
    place = {number: index for index, number in enumerate([*released, *sums])}
    name = *map(id, measured), *sums, logical.families
    if sums or name not in known:
        families, known[name] = {number for family in logical.families for number in family}, []
        for n, (boundary, own) in enumerate(zip(logical.boundaries, measured, strict=True)):
            one = sums.get(n, own)
            table = _released(place[n], boundary, one.aggregate, one.computed)
            known[name].append(table if n in families else _possible(table, boundary))
    tables = known[name]
    return PrivatePlan(
        aggregates=tuple(measured[number].aggregate for number in released),
        result=_replace(logical.result, tables),
        added=tuple(Added(leaf=place[s.leaf], aggregate=s.aggregate, groups=s.groups) for s in sums.values()),
        boundaries=tuple(place),
        groupings=tuple(measured[number].grouping for number in released),
        withheld=_withheld(logical.withheld, tables) if logical.withheld else (),
    )


def _withheld(withheld: Sequence[Withheld], tables: list[Relation]) -> tuple[Withheld, ...]:
    return tuple(replace(one, groups=_replace(one.groups, tables)) for one in withheld)


def _measurement(
    index: int,
    boundary: Aggregate,
    catalog: Catalog,
    public: Sizes,
    bounds: ContributionBounds,
    *,
    scales: bool,
    adds_up: bool,
) -> SeparateMeasurement:
    source = boundary.source
    owners = cached_locality(source, catalog.declarations)
    units = owners.units
    known = _known(source, catalog, public)
    keys = _limited(keys_of(boundary.group_by, source, known), boundary, catalog)
    if any(key.domain is None for key in keys):
        refuse_owned(boundary, catalog)
    shown = catalog.defaults.texts_without_keys
    fixed = {} if shown == REFUSE else without_keys(boundary.aggregates, lambda e: _domain(e, source, known), shown)
    counted = tuple(_counting_units(c, source, owners) for c in boundary.aggregates if c.id not in fixed)
    of_units = [c.function is COUNT_DISTINCT and _is_one_of(c.argument, units) for c in counted]
    chosen = choose(
        *(boundary, keys, catalog, public, bounds.max_rows, bounds.max_groups),
        only_units=all(of_units),
        shows_units=any(of_units),
    )
    weights = chosen.weights
    scales = scales and weights.weighing is not Weighing.COUNTED
    if catalog.budget.kind is BudgetKind.PURE and any(key.domain is None for key in keys):
        raise without_delta(boundary, keys)
    measures = MeasurementSet(
        prefix=f"m{index + 1}_",
        ranges=ranges_of(source, catalog),
        ranges_by_rows=ranges_of(source, catalog, by_rows=True),
        units=units,
        rows=weights.max_rows,
        single=weights.weighing is Weighing.WHOLE and weights.max_rows == 1,
        selects=any(key.domain is None for key in keys),
        describe=lambda expression: show(expression, names_of(source)),
        domain=lambda expression: _domain(expression, source, known),
        scalings=scalings(chosen.source, catalog, public) if scales else {},
        different=lambda value: _different(value, chosen.source, keys, catalog, public),
        in_cells=catalog.budget.kind is BudgetKind.PURE,
    )
    covers = tuple(covers_all_rows(key, source, known.ranges) for key in keys)
    least = LEAST_BESIDE_NUMBERS if any(of_units) else 2
    in_rounds = bool(units) and not measures.single and (weights.max_groups or least) >= least
    rest = (counted, fixed, boundary, keys, weights, chosen.source, catalog, public, covers)
    made = _measured(measures, *rest, in_rounds=in_rounds)
    if adds_up and any(c.function in (COUNT, SUM) and c.type != FLOAT64 for c in counted):
        return made  # whole numbers that follow from vectors are rounded, and sums of rounded ones are others
    joint = replace(measures, joint=True, known={}, made=0, inputs={}, whole=set(), vectors={}, terms={}, halved=[])
    other = _measured(joint, *rest, in_rounds=in_rounds)
    return replace(made, joint=other if joint.vectors else None)


def _measured(
    measures: MeasurementSet,
    counted: tuple[AggregateColumn, ...],
    fixed: Mapping[str, Computed],
    boundary: Aggregate,
    keys: tuple[Key, ...],
    weights: Weights,
    source: Relation,
    catalog: Catalog,
    public: Sizes,
    covering: tuple[bool, ...],
    *,
    in_rounds: bool,
) -> SeparateMeasurement:
    """Returns a boundary with the measures that its aggregates are expressed by."""
    unit = min(measures.units) if measures.units else None
    nothing = PrivateAggregate(source=source, unit=unit, keys=keys, weights=weights, measures=())
    in_parts = catalog.declarations.neighbours is Neighbours.ADD_REMOVE and not measures.joint
    computed = measures.express(counted, lambda measure: in_parts and weighs_together(nothing, measure))
    shows_units = any(measure.count is Count.UNITS for measure in measures.found)
    selection = measures.selection(in_rounds=in_rounds) if measures.selects else None
    held = [id for id in (unit, weights.column) if id is not None]
    held += [measure.total.column for measure in measures.found if measure.total is not None]
    kept = dict.fromkeys([*held, *boundary.group_by])
    if [measure for measure in measures.found if measure.total is not None]:  # their weights are other ones
        one = rows_in_group(source, keys, catalog.declarations, public)
        weights = replace(weights, rows_in_group=one if one is not None and one < weights.max_rows else None)
    types = {column.id: column.type for column in output(source)}
    columns = tuple(Computed(id=id, name="", expression=Column(id=id, type=types[id])) for id in kept)
    read = (*columns, *measures.computed)
    whole = Project(source=source, columns=read) if read else source
    aggregate = PrivateAggregate(
        source=without_second_joins(whole, catalog.declarations) if Join in kinds(whole) else whole,
        unit=unit,
        keys=keys,
        weights=weights,
        measures=tuple(measures.found),
        selection=selection,
    )
    grouping = DeclaredGrouping(
        covering=covering,
        one_group=unit is None or groups_per_unit(aggregate) == 1,
        whole=frozenset(measures.whole),
        halved=tuple(measures.halved),
        limited=measures.limited,
        shows_units=shows_units,
    )
    every = (*computed, *fixed.values())
    return SeparateMeasurement(aggregate=aggregate, computed=every, boundary=boundary, grouping=grouping)


def _different(
    value: Expression, source: Relation, keys: tuple[Key, ...], catalog: Catalog, sizes: Sizes
) -> tuple[int | None, int | None]:
    """Returns how many different values an expression over a boundary's relation can have at most, and how many pairs
    of group and value one unit; None for what is not known."""
    if catalog.declarations.unit_is_row:
        return None, None
    held = [Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(source)]
    over = Project(source=source, columns=(*held, Computed(id="value", name="", expression=value)))
    return different_values(over, "value", sizes), pairs_of_unit(over, keys, "value", catalog.declarations, sizes)


def _is_one_of(argument: Expression | None, ids: frozenset[str]) -> bool:
    return isinstance(argument, Column) and argument.id in ids


def _counting_units(column: AggregateColumn, source: Relation, owners: Locality) -> AggregateColumn:
    """Returns COUNT(DISTINCT ...) of a one-to-one function of the unit as one of the unit.

    A column of a side that an outer join fills up is the unit or NULL: then rows in which it is not NULL count.
    """
    if column.function is not COUNT_DISTINCT or column.argument is None:
        return column
    if isinstance(column.argument, Column) and column.argument.id in owners.partial and owners.units:
        unit = Column(id=min(owners.units), type=column.argument.type)
        there = call("is_not_null", (column.argument,))
        kept = there if column.filter is None else call("and", (column.filter, there))
        return replace(column, argument=unit, filter=kept)
    given = Project(source=source, columns=(Computed(id="value", name="", expression=column.argument),))
    meaning = definition("value", given)[0]
    behind = column_behind(meaning)
    found = next((unit for unit in sorted(owners.units) if definition(unit, source)[0] == behind), None)
    return column if behind is None or found is None else replace(column, argument=Column(id=found, type=behind.type))


def _limited(keys: tuple[Key, ...], boundary: Aggregate, catalog: Catalog) -> tuple[Key, ...]:
    """Returns the keys, the one of most values without these if all would make too many groups: they are selected.

    Raises:
        UnsupportedQueryError: There are too many, and the budget has no delta to select them with.
    """
    groups = math.prod(len(key.domain) if key.domain is not None else 0 for key in keys)
    if groups <= MAX_GROUPS:
        return keys
    if catalog.budget.kind is BudgetKind.PURE:
        raise UnsupportedQueryError(
            f"the public keys make {groups} groups, and at most {MAX_GROUPS} can be released at once; selecting those "
            "with many rows costs a delta, which this budget does not have",
            advice="Group by fewer or coarser keys, let WHERE rule some out, or give the dataset a budget with delta.",
            span=next(iter(boundary.spans), None),
        )
    largest = max(keys, key=lambda key: len(key.domain or ()))
    selected = tuple(Key.of(id, type, None) for id, type in zip(largest.columns, largest.types, strict=True))
    return tuple(made for key in keys for made in (selected if key is largest else (key,)))


def _known(source: Relation, catalog: Catalog, public: Sizes) -> KeySources:
    ranges = leaf_ranges(source, lambda relation: ranges_of(relation, catalog))
    return KeySources(ranges=ranges, catalog=catalog, public=public.public_rows)


def _domain(expression: Expression, source: Relation, known: KeySources) -> tuple[Value, ...] | None:
    """Returns the public values of an expression over the source, as of a key, but for NULL: modes leave it out."""
    given = Project(source=source, columns=(Computed(id="value", name="", expression=expression),))
    domain = domain_of("value", given, known)
    return None if domain is None else tuple(value for value in domain if value is not None)


def _possible(released: Relation, boundary: Aggregate) -> Relation:
    """Returns the released groups without those that no row can be in: WHERE rules out their combination of keys."""
    if len(boundary.group_by) < 2:
        return released
    keys = {id: definition(id, boundary.source)[0] for id in boundary.group_by}
    for condition in between_keys(keys, conditions_of(boundary.source)):
        released = Filter(source=released, condition=condition)
    return released


def _released(index: int, boundary: Aggregate, aggregate: PrivateAggregate, computed: tuple[Computed, ...]) -> Relation:
    """Returns the released table with its aggregates computed from the measures."""
    names = {column.id: column.name for column in output(boundary)}
    columns = (column for key in aggregate.keys for column in zip(key.columns, key.types, strict=True))
    keys = tuple(OutputColumn(id=id, name=names[id], type=type) for id, type in columns)
    numbers = tuple(OutputColumn(id=m.id, name=m.label, type=released_type(m, aggregate)) for m in aggregate.measures)
    kept = tuple(Computed(id=key.id, name="", expression=Column(id=key.id, type=key.type)) for key in keys)
    return Project(source=Released(index=index, columns=(*keys, *numbers)), columns=(*kept, *computed))


def released_type(measure: Measure, aggregate: PrivateAggregate) -> Type:
    """Returns the type of a released number: of counts int64, of choices that of the values, of sums a wider one."""
    if measure.count in CHOICES:
        return next(c.type for c in output(aggregate.source) if c.id == measure.value)
    if measure.count is not Count.SUM or measure.lattice is None:
        return INT64
    value = next(c.type for c in output(aggregate.source) if c.id == measure.value)
    return measured_type(value, measure.lattice)


def _replace(relation: Relation, replaced: list[Relation]) -> Relation:
    """Returns the relation with each released table replaced by its computation from measures."""
    if isinstance(relation, Released):
        return replaced[relation.index]
    return with_sources(relation, tuple(_replace(source, replaced) for source in sources(relation)))
