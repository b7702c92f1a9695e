"""Which relations are unit-local: the rows of one privacy unit are a function of that unit's rows and of public tables.

One rule per operator; an operator without a rule is refused. The planner uses these rules to refuse queries with a
place, and the gate applies them again to the plan that will run (docs/proofs/unit-local.md proves each).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never, get_args

from dpquery.plan.aggregates import AGGREGATES
from dpquery.plan.expr import Column
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    FrameMode,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    output,
)
from dpquery.plan.windows import WINDOW_FUNCTIONS, is_positional
from dpquery.units.declarations import Declarations
from dpquery.units.joins import of_full_join, of_join, of_set_operation
from dpquery.units.unit_local import PUBLIC, Locality, NotUnitLocal, StoredRow, check_expressions

__all__ = ["PUBLIC", "Locality", "NotUnitLocal", "locality"]

Rule = Callable[[Relation, Declarations], Locality]


def locality(relation: Relation, declared: Declarations, below: Rule | None = None) -> Locality:
    """Returns what is known of the relation's rows and units.

    Args:
        below: What finds it of the relation's sources; None, as at the gate, for this function.
    Raises:
        NotUnitLocal: No rule shows that one unit's rows depend on that unit and public tables alone.
    Privacy:
        If `private`, then for every database and unit u the rows whose unit columns equal u are a function of the rows
        that u owns and of the public tables; `units` hold u on each of them.
        Neighbours: of either kind, for which this is what the sensitivity rests on.
    Source:
        docs/proofs/unit-local.md.
    """
    ids = [column.id for column in output(relation)]
    if len(set(ids)) != len(ids):
        raise NotUnitLocal("a relation gives two columns the same id")
    of = below or locality
    match relation:
        case Scan():
            return _scan(relation, declared)
        case Values():
            return PUBLIC
        case Filter():
            check_expressions([relation.condition], relation.source)
            return of(relation.source, declared)
        case Project():
            check_expressions([c.expression for c in relation.columns], relation.source)
            join = relation.source
            if isinstance(join, Join) and join.kind == "full":
                left, right = of(join.left, declared), of(join.right, declared)
                if left.private and right.private:
                    return of_full_join(relation, join, left, right, declared)
            return _project(relation, of(relation.source, declared))
        case Join():
            left, right = of(relation.left, declared), of(relation.right, declared)
            return of_join(relation, left, right, declared)
        case Aggregate():
            return _aggregate(relation, of(relation.source, declared))
        case SetOperation():
            left, right = of(relation.left, declared), of(relation.right, declared)
            return of_set_operation(relation, left, right, declared)
        case Window():
            return _window(relation, of(relation.source, declared), declared)
        case Sort() | Limit():
            if of(relation.source, declared).private:
                raise NotUnitLocal(
                    "ORDER BY and LIMIT rank the rows of different privacy units against each other",
                    "Aggregate first, then sort or limit the result.",
                )
            return PUBLIC
        case Released():
            raise NotUnitLocal("a released table cannot be joined with private rows", "Aggregate first, then join.")
        case _:
            assert_never(relation)


def _scan(scan: Scan, declared: Declarations) -> Locality:
    table = declared.tables.get(scan.table)
    if table is None or table.public is not scan.public or table.ownership != scan.ownership:
        raise NotUnitLocal(f"table {scan.table} is not what the ledger's declarations say")
    if scan.public:
        return PUBLIC
    if declared.unit_is_row:
        return Locality(private=True)
    own, parent = _own_row(scan, declared), _parent_row(scan, declared)
    rows = frozenset(row for row in (own, parent) if row is not None)
    if scan.unit is None or scan.ownership is None:
        if parent is None:
            raise NotUnitLocal(f"rows of {scan.table} have no privacy unit")
        return Locality(private=True, rows=rows, owner=parent)
    for column in scan.columns:
        read = (column.name, column.type)
        owner = scan.ownership
        if column.id == scan.unit and (owner.path or owner.parts or read != (owner.column, owner.type)):
            raise NotUnitLocal(f"column {column.name} of {scan.table} is not its privacy unit")
    return Locality(private=True, units=frozenset({scan.unit}), rows=rows)


def _own_row(scan: Scan, declared: Declarations) -> StoredRow:
    """Returns of the scan's own rows the columns by which other tables name them."""
    steps = [t.ownership.path[0] for t in declared.tables.values() if t.ownership is not None and t.ownership.path]
    keys = {(name, type) for step in steps if step.parent == scan.table for _, name, type in step.on}
    return StoredRow(scan.table, frozenset((c.name, c.type, c.id) for c in scan.columns if (c.name, c.type) in keys))


def _parent_row(scan: Scan, declared: Declarations) -> StoredRow | None:
    """Returns the stored row that owns the scan's row, as its foreign key names it; None if a part is not read."""
    if scan.ownership is None or not scan.ownership.path:
        return None
    step, *rest = scan.ownership.path
    parent = declared.tables.get(step.parent)
    if parent is None or parent.ownership != replace(scan.ownership, path=tuple(rest)):
        return None
    read = {(c.name, c.type): c.id for c in scan.columns}
    columns = frozenset((name, type, read[own, type]) for own, name, type in step.on if (own, type) in read)
    row = StoredRow(step.parent, columns)
    return row if 0 < len(row.names) == len(step.on) else None


def _project(project: Project, source: Locality) -> Locality:
    kept = {c.id: c.expression.id for c in project.columns if isinstance(c.expression, Column)}
    units = frozenset(id for id, read in kept.items() if read in source.units)
    if source.units and not units:
        raise NotUnitLocal("a projection drops the privacy unit")
    partial = frozenset(id for id, read in kept.items() if read in source.partial)
    rows = frozenset(row.under(project) for row in source.rows)
    owner = None if source.owner is None else source.owner.under(project)
    if owner is not None and source.owner is not None and owner.names != source.owner.names:
        raise NotUnitLocal("a projection drops the foreign key that leads to the privacy unit")
    return Locality(private=source.private, units=units, partial=partial, rows=rows, owner=owner)


def _aggregate(aggregate: Aggregate, source: Locality) -> Locality:
    given = {column.id for column in output(aggregate.source)}
    if not set(aggregate.group_by) <= given:
        raise NotUnitLocal("a grouping column is not given by the source")
    used = [(str(a.function), a.function) for a in aggregate.aggregates]
    if unknown := {name for name, function in used if AGGREGATES.get(name) is not function}:
        raise NotUnitLocal(f"the aggregate {min(unknown)} is not known")
    parts = [part for a in aggregate.aggregates for part in (a.argument, a.second, a.filter) if part is not None]
    check_expressions(parts, aggregate.source)
    if not source.private:
        return PUBLIC
    units = source.units & set(aggregate.group_by)
    if not units:
        raise NotUnitLocal(
            "an exact aggregate over rows of different privacy units",
            "Group by the privacy unit in the inner query, or aggregate once.",
        )
    return Locality(private=True, units=units, partial=source.partial & set(aggregate.group_by))


def _window(window: Window, source: Locality, declared: Declarations) -> Locality:
    """The columns' values follow from the rows of a partition, and every partition holds rows of one unit alone.

    Values that depend on a row's place must stand in one order: among rows equal in all columns nothing else says which
    place in one order goes with which place in another.
    """
    given = {column.id for column in output(window.source)}
    for column in window.columns:
        check_expressions([*column.arguments, *([column.filter] if column.filter else [])], window.source)
        if not given >= {*column.partition_by, *(key.column for key in column.order_by)}:
            raise NotUnitLocal("a window reads a column that its source does not give")
        if column.function not in WINDOW_FUNCTIONS:
            raise NotUnitLocal(f"the window function {column.function} is not known")
        if column.frame is not None and column.frame.mode not in get_args(FrameMode):
            raise NotUnitLocal(f"{column.frame.mode} is no mode of a frame")
    if len({(c.partition_by, c.order_by) for c in window.columns if is_positional(c)}) > 1:
        raise NotUnitLocal("window functions of two orders stand in one step")
    if not source.private:
        return PUBLIC
    if declared.unit_is_row:
        raise NotUnitLocal(
            "a window function reads several rows, but each row is a privacy unit",
            "Aggregate first, and use window functions over the result.",
        )
    if not all(source.units & set(column.partition_by) for column in window.columns):
        raise NotUnitLocal(
            "a window function without the privacy unit in PARTITION BY reads rows of different units",
            f"Add the {declared.privacy_unit}'s column to PARTITION BY, or aggregate first.",
        )
    return source
