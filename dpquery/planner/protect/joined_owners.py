"""Rows owned by foreign key, where the query joins them with their parent anyway: no scan joins it once more.

A scan finds the owner of such rows by joins of its own. Where the query equates the foreign key with the parent's key,
the owner stands in the parent's row already. Each scan is tried without its owner, and is left so if the rules of units
accept the plan; every unit has the same rows in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum

from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    SetOperation,
    Window,
    WindowColumn,
    output,
    sources,
    with_sources,
)
from dpquery.units.declarations import Declarations
from dpquery.units.locality import NotUnitLocal


class _Held(Enum):
    """By what a missing column's value is held, where no other column holds it."""

    NOTHING_YET = 1
    """An equality may follow that names one."""
    NOTHING = 2
    """It was filled up with NULL on some rows, and no other is like it."""


Missing = Mapping[str, Column | _Held]
"""Columns that a relation gave and gives no more, and what holds the same in it."""


class _ReadError(Exception):
    """A column that is missing is read."""


def without_second_joins(relation: Relation, declared: Declarations) -> Relation:
    """Returns a relation with the same columns and the same rows of every unit, whose scans join fewer parents."""
    for unit in dict.fromkeys(_owners_by_key(relation)):
        try:
            found, _ = _without(relation, unit, declared)
            same = output(found) == output(relation)
            if same and cached_locality(found, declared).units >= cached_locality(relation, declared).units:
                relation = found
        except (NotUnitLocal, _ReadError):
            continue
    return relation


def _owners_by_key(relation: Relation) -> Iterator[str]:
    """Yields the columns of units that scans find by joins of their own."""
    if isinstance(relation, Scan) and relation.unit is not None and relation.ownership is not None:
        yield from [relation.unit] if relation.ownership.path else []
    for source in sources(relation):
        yield from _owners_by_key(source)


def _without(relation: Relation, unit: str, declared: Declarations) -> tuple[Relation, Missing]:
    """Returns the relation without the unit that a scan finds, and what that leaves out of its output."""
    if isinstance(relation, Scan):
        return (replace(relation, unit=None), {unit: _Held.NOTHING_YET}) if relation.unit == unit else (relation, {})
    found = [_without(source, unit, declared) for source in sources(relation)]
    if all(made is source for (made, _), source in zip(found, sources(relation), strict=True)):
        return relation, {}
    relation = with_sources(relation, tuple(made for made, _ in found))
    lacks = [lacking for _, lacking in found]
    match relation:
        case Filter():
            return replace(relation, condition=_read(relation.condition, lacks[0])), lacks[0]
        case Project():
            return _project(relation, lacks[0])
        case Join():
            return _join(relation, lacks[0], lacks[1], declared)
        case Aggregate():
            return _aggregate(relation, lacks[0])
        case Window():
            return replace(relation, columns=tuple(_window_column(c, lacks[0]) for c in relation.columns)), lacks[0]
        case SetOperation():
            both = tuple(replace(c, left=_id(c.left, lacks[0]), right=_id(c.right, lacks[1])) for c in relation.columns)
            return replace(relation, columns=both), {}
        case _:
            raise _ReadError


def _project(project: Project, missing: Missing) -> tuple[Relation, Missing]:
    """Returns the projection of what is there; columns that nothing holds are passed on as missing."""
    read = {c.id: missing.get(c.expression.id) for c in project.columns if isinstance(c.expression, Column)}
    gone = {id: held for id, held in read.items() if isinstance(held, _Held)}
    kept = tuple(replace(c, expression=_read(c.expression, missing)) for c in project.columns if c.id not in gone)
    return replace(project, columns=kept), gone


def _join(join: Join, lacks_left: Missing, lacks_right: Missing, declared: Declarations) -> tuple[Relation, Missing]:
    """Returns a join without the equality of the missing owner with another, which the foreign key implies."""
    missing = {**lacks_left, **lacks_right}
    implied = [pair for pair in join.equalities if any(_awaits(side, missing) for side in pair)]
    if len(implied) > 1:
        raise _ReadError
    for a, b in implied:
        other, side = (b, join.right) if _awaits(a, missing) else (a, join.left)
        if not isinstance(other, Column) or other.id not in cached_locality(side, declared).units:
            raise _ReadError
        missing = {id: other if held is _Held.NOTHING_YET else held for id, held in missing.items()}
    equalities = tuple((_read(a, missing), _read(b, missing)) for a, b in join.equalities if (a, b) not in implied)
    condition = None if join.condition is None else _read(join.condition, missing)
    made = replace(join, equalities=equalities, condition=condition)
    if join.kind in ("inner", "cross"):
        return made, missing
    filled = dict.fromkeys(lacks_right, _Held.NOTHING) if join.kind == "left" else {}
    return made, {**lacks_left, **filled}


def _aggregate(aggregate: Aggregate, missing: Missing) -> tuple[Relation, Missing]:
    keys = tuple(dict.fromkeys(_id(id, missing) for id in aggregate.group_by))
    made = tuple(_aggregate_column(column, missing) for column in aggregate.aggregates)
    spans = aggregate.spans if len(keys) == len(aggregate.group_by) else ()
    grouped = replace(aggregate, group_by=keys, aggregates=made, spans=spans)
    return grouped, {id: held for id, held in missing.items() if id in aggregate.group_by}


def _aggregate_column(column: AggregateColumn, missing: Missing) -> AggregateColumn:
    argument, second, kept = (
        None if part is None else _read(part, missing) for part in (column.argument, column.second, column.filter)
    )
    return replace(column, argument=argument, second=second, filter=kept)


def _window_column(column: WindowColumn, missing: Missing) -> WindowColumn:
    return replace(
        column,
        arguments=tuple(_read(argument, missing) for argument in column.arguments),
        filter=None if column.filter is None else _read(column.filter, missing),
        partition_by=tuple(_id(id, missing) for id in column.partition_by),
        order_by=tuple(replace(key, column=_id(key.column, missing)) for key in column.order_by),
    )


def _awaits(expression: Expression, missing: Missing) -> bool:
    return isinstance(expression, Column) and missing.get(expression.id) is _Held.NOTHING_YET


def _read(expression: Expression, missing: Missing) -> Expression:
    """Returns the expression over what is there; raises where nothing is."""
    read = {column.id for column in columns_of(expression)} & missing.keys()
    instead: dict[str, Expression] = {id: held for id in read if isinstance(held := missing[id], Column)}
    if len(instead) < len(read):
        raise _ReadError
    return substitute(expression, instead) if instead else expression


def _id(id: str, missing: Missing) -> str:
    held = missing.get(id)
    if isinstance(held, _Held):
        raise _ReadError
    return id if held is None else held.id
