"""Logical plan to private plan: whatever limits one privacy unit becomes a part of the plan; sensitivity is finite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpquery.catalog import Catalog
from dpquery.errors import InvalidLossError, MissingDeltaError, QueryError, UnsupportedQueryError
from dpquery.kernel.accountant import BudgetKind
from dpquery.kernel.locality import locality
from dpquery.kernel.plan import CHOICES, BoundContributions, Count, Key, Measure, PrivateAggregate
from dpquery.plan.expr import Column, Expression
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    OutputColumn,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    output,
)
from dpquery.plan.ranges import Range
from dpquery.plan.types import FLOAT64, INT64, Type, Value
from dpquery.planner.contributions import contribution_of
from dpquery.planner.keys import PublicValues, domain_of, leaf_ranges
from dpquery.planner.ranges import ranges_of
from dpquery.planner.rewrite import Measures, sum_type

MAX_GROUPS = 100_000
"""Public groups that one aggregation may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Contribution bounds that a query asks for itself; None leaves them to the catalog."""

    max_groups: int | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_groups", self.max_groups), ("max_rows", self.max_rows)):
            if value is not None and (type(value) is not int or not 1 <= value <= 1_000_000):
                raise InvalidLossError(f"{name} must be a whole number between 1 and 1,000,000")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivatePlan:
    """What to measure, and what to compute from it.

    Attributes:
        aggregates: One for each boundary of the query; number i is read in `result` as `Released(index=i)`.
        result: Post-processing; its columns are the answer's.
    """

    aggregates: tuple[PrivateAggregate, ...]
    result: Relation


def protect(
    logical: LogicalPlan,
    catalog: Catalog,
    *,
    public: PublicValues,
    describe: Callable[[Expression, Relation], str],
    bounds: Bounds,
) -> PrivatePlan:
    """Returns the private plan of a logical plan.

    Args:
        public: Reads the values of public tables, for keys.
        describe: Writes an expression over a relation for people.
        bounds: Contribution bounds that replace the catalog's.
    Raises:
        MissingBoundsError: An aggregate without a finite sensitivity.
        UnsupportedQueryError: More public groups than can be enumerated.
    """
    aggregates, replaced = [], []
    for index, boundary in enumerate(logical.boundaries):
        aggregate, computed = _protect(index, boundary, catalog, public, describe, bounds)
        aggregates.append(aggregate)
        replaced.append(_released(index, aggregate, computed))
    return PrivatePlan(aggregates=tuple(aggregates), result=_replace(logical.result, replaced))


def _protect(
    index: int,
    boundary: Aggregate,
    catalog: Catalog,
    public: PublicValues,
    describe: Callable[[Expression, Relation], str],
    bounds: Bounds,
) -> tuple[PrivateAggregate, tuple[Computed, ...]]:
    source = boundary.source
    units = locality(source, catalog.declarations).units
    bound = _bound(boundary, catalog, bounds)
    ranges = leaf_ranges(source, lambda relation: ranges_of(relation, catalog))
    keys = tuple(_key(id, source, domain_of(id, source, ranges, catalog, public)) for id in boundary.group_by)
    if catalog.budget.kind is BudgetKind.PURE and any(key.domain is None for key in keys):
        raise _without_delta(boundary, keys, lambda expression: describe(expression, source))
    prefix = f"m{index + 1}_"
    measures = Measures(
        prefix=prefix,
        ranges=ranges_of(source, catalog),
        ranges_by_rows=ranges_of(source, catalog, by_rows=True),
        units=units,
        rows=1 if catalog.declarations.unit_is_row else bound.max_rows,
        groups=bound.max_groups,
        selects=any(key.domain is None for key in keys),
        describe=lambda expression: describe(expression, source),
        domain=lambda expression: _domain(expression, source, ranges, catalog, public),
    )
    computed = measures.express(boundary.aggregates)
    selection = measures.selection() if measures.selects else None
    unit = min(units) if units else None
    kept = dict.fromkeys([*([unit] if unit else []), *boundary.group_by])
    types = {column.id: column.type for column in output(source)}
    columns = tuple(Computed(id=id, name="", expression=Column(id=id, type=types[id])) for id in kept)
    read = (*columns, *measures.computed)
    aggregate = PrivateAggregate(
        source=Project(source=source, columns=read) if read else source,
        unit=unit,
        keys=keys,
        bound=bound,
        measures=tuple(measures.found),
        selection=selection,
    )
    groups = aggregate.public_groups
    if groups is not None and groups > MAX_GROUPS:
        raise UnsupportedQueryError(
            f"the public keys make {groups} groups, and at most {MAX_GROUPS} can be released at once",
            advice="Group by fewer or coarser keys.",
            span=next(iter(boundary.spans), None),
        )
    return aggregate, computed


def _domain(
    expression: Expression, source: Relation, ranges: dict[str, Range], catalog: Catalog, public: PublicValues
) -> tuple[Value, ...] | None:
    """Returns the public values of an expression over the source, as of a key."""
    given = Project(source=source, columns=(Computed(id="value", name="", expression=expression),))
    return domain_of("value", given, ranges, catalog, public)


def _without_delta(boundary: Aggregate, keys: tuple[Key, ...], describe: Callable[[Expression], str]) -> QueryError:
    place, key = next((place, key) for place, key in enumerate(keys) if key.domain is None)
    name = describe(Column(id=key.column, type=key.type))
    return MissingDeltaError(
        f"{name} has no public keys; selecting its groups costs a delta, which this budget does not have",
        advice="Declare keys in the catalog, name them in WHERE, or give the dataset a budget with delta.",
        span=boundary.spans[place] if place < len(boundary.spans) else None,
    )


def _key(id: str, source: Relation, domain: tuple[Value, ...] | None) -> Key:
    type = next(column.type for column in output(source) if column.id == id)
    return Key(column=id, type=type, domain=domain)


def _bound(boundary: Aggregate, catalog: Catalog, bounds: Bounds) -> BoundContributions:
    """Returns the contribution bounds: the query's, else the declared ones, else the catalog's defaults."""
    declared = contribution_of(boundary.source, catalog)
    rows = bounds.max_rows or declared.rows or catalog.defaults.max_rows
    groups = bounds.max_groups or declared.max_groups or catalog.defaults.max_groups
    if declared.rows == 1 or set(boundary.group_by) <= declared.attributes:
        groups = 1
    if catalog.declarations.unit_is_row:
        rows = groups = 1
    return BoundContributions(max_groups=groups, max_rows=rows)


def _released(index: int, aggregate: PrivateAggregate, computed: tuple[Computed, ...]) -> Relation:
    """Returns the released table with its aggregates computed from the measures."""
    keys = tuple(OutputColumn(id=key.column, name="", type=key.type) for key in aggregate.keys)
    numbers = tuple(OutputColumn(id=m.id, name=m.label, type=released_type(m, aggregate)) for m in aggregate.measures)
    kept = tuple(Computed(id=key.id, name="", expression=Column(id=key.id, type=key.type)) for key in keys)
    return Project(source=Released(index=index, columns=(*keys, *numbers)), columns=(*kept, *computed))


def released_type(measure: Measure, aggregate: PrivateAggregate) -> Type:
    """Returns the type of a released number: of counts int64, of sums and choices that of the values, of squares
    float64."""
    if measure.count in CHOICES:
        return next(c.type for c in output(aggregate.source) if c.id == measure.value)
    if measure.count is not Count.SUM or measure.lattice is None:
        return INT64
    if measure.lattice.squared:
        return FLOAT64
    return sum_type(next(c.type for c in output(aggregate.source) if c.id == measure.value))


def _replace(relation: Relation, replaced: list[Relation]) -> Relation:
    """Returns the relation with each released table replaced by its computation from measures."""
    match relation:
        case Released():
            return replaced[relation.index]
        case Scan():
            return relation
        case Filter():
            return Filter(source=_replace(relation.source, replaced), condition=relation.condition)
        case Project():
            return Project(source=_replace(relation.source, replaced), columns=relation.columns)
        case Aggregate():
            return Aggregate(
                source=_replace(relation.source, replaced),
                group_by=relation.group_by,
                aggregates=relation.aggregates,
            )
        case Sort():
            return Sort(source=_replace(relation.source, replaced), keys=relation.keys)
        case Limit():
            return Limit(source=_replace(relation.source, replaced), count=relation.count, offset=relation.offset)
        case Join():
            return Join(
                left=_replace(relation.left, replaced),
                right=_replace(relation.right, replaced),
                kind=relation.kind,
                equalities=relation.equalities,
                condition=relation.condition,
            )
