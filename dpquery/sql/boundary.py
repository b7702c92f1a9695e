"""Where exact aggregation would mix privacy units: the boundary, above which only released tables exist."""

from __future__ import annotations

from sqlglot import exp

from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.locality import NotUnitLocal, locality
from dpquery.plan.expr import Column
from dpquery.plan.logical import Aggregate, Computed, Relation, Released, is_private, output
from dpquery.sql.aggregate_names import advice_on, spelled
from dpquery.sql.aggregates import PRIVATE
from dpquery.sql.scope import Context


def at_boundary(aggregate: Aggregate, node: exp.Expression, context: Context) -> Relation:
    """Returns the aggregation itself where it is unit-local or public, else the released table that stands for it."""
    if not is_private(aggregate.source):
        return aggregate
    try:
        locality(aggregate, context.catalog.declarations)
        return aggregate
    except NotUnitLocal:
        pass
    for column in aggregate.aggregates:
        if column.function not in PRIVATE:
            error = context.refuse(
                UnsupportedQueryError,
                f"{spelled(column.name)} over different privacy units has no private mechanism here",
                node,
                advice_on(column.function),
            )
            error.span = column.span or error.span
            raise error
    context.boundaries.append(aggregate)
    return Released(index=len(context.boundaries) - 1, columns=output(aggregate))


def carried_units(relation: Relation, context: Context) -> list[Computed]:
    """Returns the unit's columns, which a projection of private rows keeps although the query does not name them."""
    if not is_private(relation):
        return []
    units = locality(relation, context.catalog.declarations).units
    given = {column.id: column for column in output(relation)}
    return [
        Computed(id=id, name="", expression=Column(id=id, type=given[id].type)) for id in sorted(units) if id in given
    ]
