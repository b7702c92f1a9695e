"""Relations in one form, independent of their ids and of the order in which conditions are written: two that are equal
in it give the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import assert_never

from dpquery.plan.expr import Call, Column, Expression, Literal, children, rebuild
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    Limit,
    Matched,
    OutputColumn,
    Project,
    Relation,
    Released,
    Scan,
    ScanColumn,
    SetOperation,
    Sort,
    SortKey,
    Values,
    Window,
    WindowColumn,
    sources,
    with_sources,
)

Names = dict[str, str]
"""Ids of a plan to ids of the canonical form."""


def canonical(relation: Relation) -> tuple[Relation, Names]:
    """Returns the relation with its ids numbered in order and without the names that people gave, and the numbering.

    A part that is not renamed here keeps ids that no other relation has, so relations can seem different that are
    equal, and never the other way round.
    """
    names: Names = {}
    return _renamed(relation, names), names


def copied(relation: Relation, fresh: Callable[[], str]) -> tuple[Relation, Names]:
    """Returns the relation with an id of its own for each of its columns, and which they are.

    What is released is read under the ids of its boundary.
    """
    names: Names = {id: fresh() for id in canonical(relation)[1]}
    return _reading_released(_renamed(relation, dict(names)), {new: old for old, new in names.items()}), names


def _reading_released(relation: Relation, before: Names) -> Relation:
    if isinstance(relation, Released):
        columns = tuple(replace(column, id=before[column.id]) for column in relation.columns)
        read = (Computed(id=c.id, name="", expression=Column(id=before[c.id], type=c.type)) for c in relation.columns)
        return Project(source=replace(relation, columns=columns), columns=tuple(read))
    return with_sources(relation, tuple(_reading_released(source, before) for source in sources(relation)))


def rename(expression: Expression, names: Names) -> Expression:
    """Returns the expression with its columns renamed, in the form that all ways to write it share."""
    if isinstance(expression, Column):
        return replace(expression, id=names.get(expression.id, expression.id))
    made = rebuild(expression, tuple(rename(part, names) for part in children(expression)))
    return _in_one_form(made) if isinstance(made, Call) else made


def _in_one_form(call: Call) -> Expression:
    """Returns lists, ANDs and ORs in order and each part once, and comparisons in one of their two directions."""
    match call:
        case Call(function="in", arguments=(read, *listed)) if all(isinstance(one, Literal) for one in listed):
            return replace(call, arguments=(read, *_in_order(listed)))
        case Call(function="and" | "or"):
            inner = [
                part
                for one in call.arguments
                for part in (one.arguments if isinstance(one, Call) and one.function == call.function else (one,))
            ]
            parts = _in_order(inner)
            return replace(call, arguments=parts) if len(parts) > 1 else parts[0]
        case Call(function="gt" | "ge", arguments=(first, second)):
            return replace(call, function={"gt": "lt", "ge": "le"}[call.function], arguments=(second, first))
        case Call(function="eq" | "ne", arguments=(first, second)) if repr(second) < repr(first):
            return replace(call, arguments=(second, first))
        case _:
            return call


def _in_order(parts: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(sorted(dict.fromkeys(parts), key=repr))


def rename_aggregate(column: AggregateColumn, names: Names) -> AggregateColumn:
    """Returns the aggregate over renamed columns, under its own id."""
    argument, second, kept = (
        None if part is None else rename(part, names) for part in (column.argument, column.second, column.filter)
    )
    return replace(column, argument=argument, second=second, filter=kept)


def _renamed(relation: Relation, names: Names) -> Relation:
    relation = with_sources(relation, tuple(_renamed(source, names) for source in sources(relation)))
    match relation:
        case Scan():
            columns = tuple(_scan_column(column, names) for column in relation.columns)
            unit = None if relation.unit is None else _new(relation.unit, names)
            weight = None if relation.weight is None else _new(relation.weight, names)
            scaled = tuple(replace(each, id=_new(each.id, names)) for each in relation.scaled)
            return replace(relation, columns=columns, unit=unit, weight=weight, scaled=scaled)
        case Values() | Released():
            return replace(relation, columns=tuple(_output_column(column, names) for column in relation.columns))
        case Filter():
            return _filtered(replace(relation, condition=rename(relation.condition, names)))
        case Project():
            written = tuple((c.id, rename(c.expression, names)) for c in relation.columns)
            made = tuple(Computed(id=_new(id, names), name="", expression=expression) for id, expression in written)
            return replace(relation, columns=made)
        case Join():
            equalities = tuple((rename(a, names), rename(b, names)) for a, b in relation.equalities)
            condition = None if relation.condition is None else rename(relation.condition, names)
            return replace(relation, equalities=equalities, condition=condition)
        case SetOperation():
            matched = tuple(_matched(column, names) for column in relation.columns)
            return replace(relation, columns=matched)
        case Aggregate():
            made_columns = tuple(
                replace(rename_aggregate(column, names), id=_new(column.id, names), name="")
                for column in relation.aggregates
            )
            return replace(relation, group_by=_all(relation.group_by, names), aggregates=made_columns, spans=())
        case Window():
            return replace(relation, columns=tuple(_window_column(column, names) for column in relation.columns))
        case Sort():
            return replace(relation, keys=_sort_keys(relation.keys, names))
        case Limit():
            return relation
        case _:
            assert_never(relation)


def _filtered(relation: Filter) -> Filter:
    """Returns the filter, below those that come first."""
    inner = relation.source
    if not isinstance(inner, Filter) or repr(inner.condition) <= repr(relation.condition):
        return relation
    return replace(inner, source=_filtered(replace(relation, source=inner.source)))


def _new(id: str, names: Names) -> str:
    return names.setdefault(id, f"#{len(names) + 1}")


def _all(ids: tuple[str, ...], names: Names) -> tuple[str, ...]:
    return tuple(names.get(id, id) for id in ids)


def _scan_column(column: ScanColumn, names: Names) -> ScanColumn:
    return replace(column, id=_new(column.id, names))


def _output_column(column: OutputColumn, names: Names) -> OutputColumn:
    return replace(column, id=_new(column.id, names), name="")


def _matched(column: Matched, names: Names) -> Matched:
    left, right = names.get(column.left, column.left), names.get(column.right, column.right)
    return replace(column, id=_new(column.id, names), name="", left=left, right=right)


def _sort_keys(keys: tuple[SortKey, ...], names: Names) -> tuple[SortKey, ...]:
    return tuple(replace(key, column=names.get(key.column, key.column)) for key in keys)


def _window_column(column: WindowColumn, names: Names) -> WindowColumn:
    return replace(
        column,
        id=_new(column.id, names),
        name="",
        arguments=tuple(rename(argument, names) for argument in column.arguments),
        filter=None if column.filter is None else rename(column.filter, names),
        partition_by=_all(column.partition_by, names),
        order_by=_sort_keys(column.order_by, names),
    )
