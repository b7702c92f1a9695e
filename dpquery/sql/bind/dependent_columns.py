"""Values that follow from the keys of groups: columns of a public row that the keys lead to, looked up for each group.

    SELECT p.id, ANY_VALUE(p.name), COUNT(*) FROM items i JOIN products p ON p.id = i.product GROUP BY p.id

All rows of a group meet the same row of `products`. So its name is not measured: the noisy groups are joined with the
public table, and what is released of the private rows is what it would be without the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpquery.plan.aggregates.choices import MAX, MIN
from dpquery.plan.aggregates.exact import ANY_VALUE
from dpquery.plan.definitions import definition, ending_of, gives, origin_of
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Join,
    Project,
    Relation,
    Scan,
    Sort,
    SortKey,
    output,
    sources,
)
from dpquery.sql.bind.scope import Context

ONE_OF_THEM = (ANY_VALUE, MIN, MAX)
"""Aggregates that give the value itself where all rows of a group have the same."""


@dataclass(frozen=True, slots=True)
class Led:
    """One row of a table that keys lead to: for each column of a declared unique set, the key that it equals."""

    scan: Scan
    pairs: tuple[tuple[str, str], ...]
    """(the key's id, the id of the scan's column)"""


def led_by(id: str, keys: Sequence[str], source: Relation, context: Context) -> tuple[Column, Led] | None:
    """Returns the stored column that a column of the source gives, and the row that the keys lead to it in; else None.

    Where an outer join leaves the column NULL, no row has the keys, or one of them is NULL.
    """
    if not gives(source, id):
        return None
    stored, tables = origin_of(id, source)
    scan = tables.get(stored.id) if isinstance(stored, Column) else None
    if not isinstance(stored, Column) or not isinstance(scan, Scan):
        return None
    equal = _equal_keys(scan, keys, source, is_filled=stored.id not in definition(id, source)[1])
    declared = context.catalog.tables[scan.table]
    ids = {column.name: column.id for column in scan.columns if not declared.columns[column.name].nullable}
    for unique in declared.unique:
        if {ids.get(name) for name in unique} <= equal.keys():
            return stored, Led(scan, tuple((equal[ids[name]], ids[name]) for name in sorted(unique)))
    return None


def _equal_keys(scan: Scan, keys: Sequence[str], source: Relation, *, is_filled: bool) -> dict[str, str]:
    """Returns columns of the scan that equal a key in each row of the source, by id.

    Args:
        is_filled: Whether an outer join may leave columns of the scan NULL. Then a key of the other side decides a
            row of the scan only if that join adds it to each row, and compares nothing else.
    """
    ids = {column.id for column in scan.columns}
    found: dict[str, str] = {}
    meanings: dict[Expression, str] = {}
    for key in keys:
        stored = origin_of(key, source)[0]
        if isinstance(stored, Column) and stored.id in ids:
            found.setdefault(stored.id, key)
        meanings.setdefault(definition(key, source)[0], key)
    for join in _joins(source):
        pairs = _compared(join, ids)
        if not (_only_looks_up(join, scan, pairs, source) if is_filled else join.kind == "inner"):
            continue
        for other, column in pairs:
            if other in meanings:
                found.setdefault(column, meanings[other])
    return found


def _joins(relation: Relation) -> Iterator[Join]:
    if isinstance(relation, Join):
        yield relation
    for source in sources(relation):
        yield from _joins(source)


def _compared(join: Join, ids: set[str]) -> list[tuple[Expression, str]]:
    """Returns (what it is compared with, the column) of the join's equalities with one of these stored columns."""
    pairs = []
    for left, right in join.equalities:
        sides = ((left, join.left), (right, join.right))
        for (own, side), (other, beside) in (sides, sides[::-1]):
            column = _meaning(own, side)
            if isinstance(column, Column) and column.id in ids:
                pairs.append((_meaning(other, beside), column.id))
    return pairs


def _only_looks_up(join: Join, scan: Scan, pairs: Sequence[object], source: Relation) -> bool:
    """Whether an outer join adds to each row of one side the row of the scan with equal columns, or NULL."""
    side = {"left": join.right, "right": join.left}.get(join.kind)
    columns = () if side is None else output(side)
    while isinstance(side, Project):
        side = side.source
    is_plain = side == scan and join.condition is None and len(pairs) == len(join.equalities)
    return is_plain and any(ending_of(column.id, source) == join for column in columns)


def _meaning(expression: Expression, relation: Relation) -> Expression:
    return substitute(expression, {c.id: definition(c.id, relation)[0] for c in columns_of(expression)})


def without_looked_up(
    aggregate: Aggregate, context: Context
) -> tuple[Aggregate, dict[AggregateColumn, dict[str, tuple[Column, Led] | None]]]:
    """Returns the aggregation without the columns that follow from its keys, and these with the rows that give them.

    Each column that such a value reads is a key (None), or stored in a public row that the keys lead to.
    """
    following = {}
    for asked in aggregate.aggregates:
        if asked.function not in ONE_OF_THEM or asked.filter is not None or asked.argument is None:
            continue
        read = {column.id for column in columns_of(asked.argument)}
        led = {id: led_by(id, aggregate.group_by, aggregate.source, context) for id in read - {*aggregate.group_by}}
        if all(found is not None and found[1].scan.public for found in led.values()):
            following[asked] = {**dict.fromkeys(read & {*aggregate.group_by}), **led}
    kept = tuple(column for column in aggregate.aggregates if column not in following)
    return replace(aggregate, aggregates=kept), following


def with_looked_up(
    groups: Relation,
    aggregate: Aggregate,
    following: dict[AggregateColumn, dict[str, tuple[Column, Led] | None]],
    context: Context,
) -> Relation:
    """Returns the released groups of an aggregation with what follows from its keys, in order of the keys."""
    types = {column.id: column.type for column in output(groups)}
    copies: dict[Led, dict[str, str]] = {}
    for read in following.values():
        for _, led in filter(None, read.values()):
            if led not in copies:
                given = copies[led] = {column.id: context.fresh() for column in led.scan.columns}
                columns = tuple(replace(column, id=given[column.id]) for column in led.scan.columns)
                pairs = tuple(
                    (Column(id=key, type=types[key]), Column(id=given[own], type=types[key])) for key, own in led.pairs
                )
                table = replace(led.scan, columns=columns)
                groups = Join(left=groups, right=table, kind="left", equalities=pairs, condition=None)
    made = []
    for column, read in following.items():
        assert column.argument is not None
        over: dict[str, Expression] = {
            id: Column(id=copies[found[1]][found[0].id], type=found[0].type) for id, found in read.items() if found
        }
        made.append(Computed(id=column.id, name=column.name, expression=substitute(column.argument, over)))
    asked = {column.id: column for column in made}
    names = {column.id: column.name for column in output(aggregate)}
    order = tuple(SortKey(column=id, descending=False, nulls_first=False) for id in aggregate.group_by)
    every = tuple(
        asked.get(c.id) or Computed(id=c.id, name=names[c.id], expression=Column(id=c.id, type=c.type))
        for c in output(aggregate)
    )
    shown = Project(source=groups, columns=every)
    return Sort(source=shown, keys=order) if order else shown
