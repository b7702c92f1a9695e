"""Where exact aggregation would mix privacy units: the boundary, above which only released tables exist."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.catalog.owner_columns import owning_columns, parts_of_unit, unit_of_parts
from dpquery.plan.canonical import Names, canonical, rename_aggregate
from dpquery.plan.expr import Column
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, Released, is_private, output
from dpquery.plan.logical import column as column_of
from dpquery.plan.one_to_one import unit_behind
from dpquery.plan.types import BOOLEAN
from dpquery.sql.bind.aggregates import MAX_AGGREGATES
from dpquery.sql.bind.dependent_columns import ONE_OF_THEM, with_looked_up, without_looked_up
from dpquery.sql.bind.predicates import may_be_null
from dpquery.sql.bind.scope import Context
from dpquery.sql.names.aggregate_names import DEFAULT_ADVICE
from dpquery.units.locality import NotUnitLocal


def at_boundary(aggregate: Aggregate, node: exp.Expression, context: Context) -> Relation:
    """Returns the aggregation itself where it is unit-local or public, else the released table that stands for it."""
    if not is_private(aggregate.source):
        return _exact(aggregate)
    try:
        cached_locality(aggregate, context.catalog.declarations)
        return _exact(aggregate)
    except NotUnitLocal:
        pass
    by_unit = _by_unit(aggregate, context)
    if by_unit is not None:
        return by_unit
    keys = with_unit(aggregate.group_by, aggregate.source, context)
    if keys != aggregate.group_by:
        return _exact(replace(aggregate, group_by=keys, spans=()))
    may_follow = [column for column in aggregate.aggregates if column.function in ONE_OF_THEM]
    measured, following = without_looked_up(aggregate, context) if may_follow else (aggregate, {})
    for column in measured.aggregates:
        if not column.function.is_private:
            shown = column.function.shown if column.name == column.function.name else column.name.upper()
            error = context.unsupported(
                f"{shown} over different privacy units has no private mechanism here",
                node,
                column.function.advice or DEFAULT_ADVICE,
            )
            error.span = column.span or error.span
            raise error
    groups = released(measured, context)
    return with_looked_up(groups, aggregate, following, context) if following else groups


def _exact(aggregate: Aggregate) -> Relation:
    """Returns the aggregation; what engines do not compute is an expression over other aggregates."""
    made = {c.id: found for c in aggregate.aggregates if (found := c.function.exact(c, f"{c.id}e")) is not None}
    if not made:
        return aggregate
    others = tuple(made[c.id][0] if c.id in made else c for c in aggregate.aggregates)
    columns = tuple(
        Computed(id=c.id, name=c.name, expression=made[c.id][1] if c.id in made else Column(id=c.id, type=c.type))
        for c in output(aggregate)
    )
    return Project(source=replace(aggregate, aggregates=others), columns=columns)


def _by_unit(aggregate: Aggregate, context: Context) -> Relation | None:
    """Returns an aggregation by a one-to-one function of the unit, as CAST(id AS text), as one by the unit; else None.

    The groups are the same, but for rows without a unit, which are in no answer.
    """
    units = cached_locality(aggregate.source, context.catalog.declarations).units
    behind = {id: found for id in aggregate.group_by if (found := unit_behind(id, aggregate.source, units))}
    if not behind:
        return None
    keys = tuple(dict.fromkeys(behind[id][0] if id in behind else id for id in aggregate.group_by))
    grouped = replace(aggregate, group_by=keys, spans=())
    given = {column.id: column for column in output(grouped)}
    named = {column.id: column.name for column in output(aggregate)}
    made = [Computed(id=id, name=named[id], expression=expression) for id, (_, expression) in behind.items()]
    kept = [
        Computed(id=c.id, name=named.get(c.id, ""), expression=Column(id=c.id, type=c.type)) for c in given.values()
    ]
    return Project(source=_exact(grouped), columns=(*kept, *made))


def with_unit(keys: tuple[str, ...], source: Relation, context: Context) -> tuple[str, ...]:
    """Returns the columns that rows are grouped by, and the unit's where by declaration they lead to one unit each: the
    groups are the same. Groups of public keys are left alone, and those of a key that may be NULL, which is one group.
    """
    named = set()
    for given in output(source):
        if given.id in keys:
            named.add(given.name)
    may_lead = False
    for table in context.catalog.tables.values():  # their names are compared in no time, and mostly decide
        for unique in table.unique:
            may_lead = may_lead or unique <= named
        if table.ownership is not None and table.ownership.path:
            may_lead = may_lead or named >= {own for own, _, _ in table.ownership.path[0].on}
        elif table.ownership is not None and table.ownership.parts:
            may_lead = may_lead or named >= {*table.ownership.columns}
    if not may_lead:
        return keys
    units = cached_locality(source, context.catalog.declarations).units
    if not units or units & set(keys):
        return keys
    found = owning_columns(keys, source, context.catalog)
    if found is None:
        return keys
    stored = [context.catalog.tables[found[0]].columns[name] for name in found[1]]
    public = [c.type == BOOLEAN or c.keys is not None or c.keys_from is not None or c.lower is not None for c in stored]
    parts = parts_of_unit(keys, source, units)  # none of which is NULL where a row has an owner
    is_unit = unit_of_parts(parts, source, context.catalog) is not None
    if (all if is_unit else any)(public):
        return keys
    if any(may_be_null(column_of(source, key), source, units | parts, context.catalog) for key in keys):
        return keys
    return (*keys, min(units))


def released(aggregate: Aggregate, context: Context) -> Relation:
    """Returns the released table of an aggregation; one of the same groups of the same rows is measured once.

    What is asked twice is released once and read twice, under the ids of each place.
    """
    rows, names = canonical(aggregate.source)
    groups = tuple(map(names.__getitem__, aggregate.group_by))
    bare = replace(aggregate, source=rows, group_by=groups, aggregates=(), spans=())
    index = context.measured.get(bare)
    if index is None:
        context.measured[bare] = index = len(context.boundaries)
        context.boundaries.append(aggregate)
        return Released(index=index, columns=output(aggregate))
    return _read_again(index, aggregate, names, context)


def _read_again(index: int, aggregate: Aggregate, names: Names, context: Context) -> Relation:
    """Returns a projection of a table that is released already; what it lacks is measured with it."""
    known = context.boundaries[index]
    theirs = {canonical_id: id for id, canonical_id in canonical(known.source)[1].items()}
    translated = {id: theirs[canonical_id] for id, canonical_id in names.items()}
    same: Names = {id: translated[id] for id in aggregate.group_by}
    aggregates = list(known.aggregates)
    for wanted in aggregate.aggregates:
        over = rename_aggregate(wanted, translated)
        found = next((a for a in aggregates if replace(over, id=a.id, name=a.name) == a), None)
        if found is None:
            aggregates.append(found := replace(over, id=context.fresh()))
        same[wanted.id] = found.id
    if len(aggregates) > MAX_AGGREGATES:
        context.boundaries.append(aggregate)
        return Released(index=len(context.boundaries) - 1, columns=output(aggregate))
    context.boundaries[index] = known = replace(known, aggregates=tuple(aggregates))
    columns = tuple(
        Computed(id=c.id, name=c.name, expression=Column(id=same[c.id], type=c.type)) for c in output(aggregate)
    )
    return Project(source=Released(index=index, columns=output(known)), columns=columns)


def carried_units(relation: Relation, context: Context) -> list[Computed]:
    """Returns the unit's columns, which a projection of private rows keeps although the query does not name them."""
    if not is_private(relation):
        return []
    units = cached_locality(relation, context.catalog.declarations).units
    return [
        Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(relation) if c.id in units
    ]
