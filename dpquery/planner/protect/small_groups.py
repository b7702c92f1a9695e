"""Groups and totals of few people, where the owner wants them withheld: by a noisy count, above the boundary.

The count is an ordinary measurement of the query. What is compared, and shown or not, follows from it and from public
numbers: post-processing. It is no part of the guarantee: docs/proofs/composition.md.
"""

from __future__ import annotations

from dataclasses import replace

from dpquery.catalog import Catalog
from dpquery.catalog.cached_locality import cached_locality
from dpquery.catalog.min_units import least_units
from dpquery.plan.aggregates.counts import COUNT_DISTINCT
from dpquery.plan.expr import Column, Literal
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
    Values,
    Withheld,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import INT64
from dpquery.planner.protect.weighing import private_scans


def without_small_groups(logical: LogicalPlan, catalog: Catalog) -> LogicalPlan:
    """Returns the plan that also counts the people of each group, and leaves out those of fewer than `min_units`.

    A total of fewer is a row of NULLs. Of several tables that are read together the largest `min_units` holds.
    """
    least = {index: most for index, b in enumerate(logical.boundaries) if (most := _least(b.source, catalog))}
    if not least:
        return logical
    boundaries = tuple(
        _counting(index, boundary, catalog) if index in least else boundary
        for index, boundary in enumerate(logical.boundaries)
    )
    found: dict[int, Withheld] = {}

    def read(relation: Relation) -> Relation:
        if not isinstance(relation, Released):
            return with_sources(relation, tuple(map(read, sources(relation))))
        if relation.index not in least:
            return relation
        boundary = boundaries[relation.index]
        shown, found[relation.index] = _divided(relation, boundary, least[relation.index])
        return shown

    result = read(logical.result)
    return replace(logical, boundaries=boundaries, result=result, withheld=tuple(found.values()))


def _least(source: Relation, catalog: Catalog) -> int | None:
    """Returns the largest number of people that a table of the relation asks for; None where none does."""
    asked = [n for scan in private_scans(source) if (n := least_units(catalog.tables[scan.table], catalog)) is not None]
    return max(asked, default=None)


def _people(index: int) -> Column:
    return Column(id=f"people{index + 1}", type=INT64)


def _counting(index: int, boundary: Aggregate, catalog: Catalog) -> Aggregate:
    unit = min(cached_locality(boundary.source, catalog.declarations).units)
    type = next(column.type for column in output(boundary.source) if column.id == unit)
    count = AggregateColumn(
        id=_people(index).id,
        name="people",
        function=COUNT_DISTINCT,
        argument=Column(id=unit, type=type),
        filter=None,
        type=INT64,
    )
    return replace(boundary, aggregates=(*boundary.aggregates, count))


def _divided(released: Released, boundary: Aggregate, least: int) -> tuple[Relation, Withheld]:
    """Returns what is read in place of a released table, and what is left out of it."""
    people, bound = _people(released.index), Literal(value=least, type=INT64)
    counted = OutputColumn(id=people.id, name="people", type=INT64)
    whole = replace(released, columns=(*released.columns, counted))
    shown: Relation = Filter(source=whole, condition=call("ge", (people, bound)))
    if not boundary.group_by:
        one = OutputColumn(id=f"total{released.index + 1}", name="", type=INT64)
        shown = Join(left=Values(columns=(one,), rows=((0,),)), right=shown, kind="left", equalities=())
    kept = tuple(Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in released.columns)
    few = Filter(source=whole, condition=call("lt", (people, bound)))
    return Project(source=shown, columns=kept), Withheld(groups=few, least=least, is_total=not boundary.group_by)
