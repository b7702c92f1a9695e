"""Reads as few blocks as a query needs: filters are repeated on the scans of tables whose rows are in blocks.

The kernel counts only filters that stand directly on a scan, and looks for itself (docs/proofs/blocks.md). A mistake
here makes a wrong answer or a dear one, never a charge that is too low. Rows beyond a table's bounds are left out.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import lru_cache

from dpquery.catalog import Catalog, Table
from dpquery.plan import ranges
from dpquery.plan.calendar import By, first_day, number_of
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Column, Expression, Literal, columns_of, conjuncts, size_of, substitute
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    LogicalPlan,
    Project,
    Relation,
    Scan,
    SetOperation,
    Window,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import BOOLEAN, DATE, Type
from dpquery.units.blocks import ALL, Touched, may_hold

MOST_PARTS = 500
"""Of a condition that is carried through a projection."""
Conditions = tuple[Expression, ...]


def within_blocks(logical: LogicalPlan, catalog: Catalog) -> LogicalPlan:
    """Returns the plan with a filter on each scan of a table in blocks: what the query asks of its date, in bounds."""
    boundaries = (replace(b, source=_narrowed(b.source, (), catalog)) for b in logical.boundaries)
    return replace(logical, boundaries=tuple(boundaries))


def _narrowed(relation: Relation, wanted: Conditions, catalog: Catalog) -> Relation:
    """Returns a relation that gives the same rows among those for which all conditions are true."""
    match relation:
        case Scan():
            table = catalog.tables[relation.table]
            return relation if table.blocks is None else _of_scan(relation, wanted, table)
        case Filter():
            own = (*wanted, *conjuncts(relation.condition))
            return replace(relation, source=_narrowed(relation.source, own, catalog))
        case Join():
            left, right = _of_join(relation, wanted)
            return replace(
                relation, left=_narrowed(relation.left, left, catalog), right=_narrowed(relation.right, right, catalog)
            )
        case SetOperation():
            sides = []
            for side, place in ((relation.left, "left"), (relation.right, "right")):
                types = {column.id: column.type for column in output(side)}
                ids = {column.id: getattr(column, place) for column in relation.columns}
                read: dict[str, Expression] = {id: Column(id=own, type=types[own]) for id, own in ids.items()}
                sides.append(_narrowed(side, tuple(substitute(one, read) for one in wanted), catalog))
            return with_sources(relation, tuple(sides))
        case _:
            passed = _passed(relation, wanted)
            return with_sources(relation, tuple(_narrowed(source, passed, catalog) for source in sources(relation)))


def _passed(relation: Relation, wanted: Conditions) -> Conditions:
    """Returns the conditions that may as well be asked of the rows below an operator of one source."""
    match relation:
        case Project():
            made = {column.id: column.expression for column in relation.columns}
            carried = (substitute(condition, made) for condition in wanted)
            return tuple(condition for condition in carried if size_of(condition) <= MOST_PARTS)
        case Aggregate():
            return _over(frozenset(relation.group_by), wanted)
        case Window():
            parted = [frozenset(column.partition_by) for column in relation.columns]
            return _over(frozenset.intersection(*parted), wanted) if parted else wanted
        case _:
            return ()


def _of_join(join: Join, wanted: Conditions) -> tuple[Conditions, Conditions]:
    """Returns what may be asked of each side: of one that keeps unmatched rows only what is asked of the result."""
    on = () if join.condition is None else tuple(conjuncts(join.condition))
    keeps_left, keeps_right = join.kind in ("left", "full", "anti"), join.kind in ("right", "full")
    fills_left, fills_right = join.kind in ("right", "full"), join.kind in ("left", "full")
    left = (() if fills_left else wanted) + (() if keeps_left else on)
    right = (() if fills_right else wanted) + (() if keeps_right else on)
    ids = [frozenset(column.id for column in output(side)) for side in (join.left, join.right)]
    return _over(ids[0], left), _over(ids[1], right)


def _over(ids: frozenset[str], wanted: Conditions) -> Conditions:
    return tuple(condition for condition in wanted if {column.id for column in columns_of(condition)} <= ids)


def _of_scan(scan: Scan, wanted: Conditions, table: Table) -> Relation:
    """Returns the scan behind a filter on its date."""
    assert table.blocks is not None
    declared = table.columns[table.blocks.column]
    date = next((c for c in scan.columns if (c.name, c.type) == (declared.name, declared.type)), None)
    if date is None:
        return scan
    read = Column(id=date.id, type=date.type)
    lower, upper = declared.lower, declared.upper
    assert isinstance(lower, datetime.date) and isinstance(upper, datetime.date)
    by = table.blocks.by
    needed = Touched(((number_of(lower, by), number_of(upper, by)),), True)
    for condition in wanted:
        needed &= _needed(condition, read, by, needed)
    return Filter(source=scan, condition=_inside(read, needed, by, lower, upper))


@lru_cache(maxsize=512)
def _needed(condition: Expression, date: Column, by: By, among: Touched) -> Touched:
    """Returns a set that has all those of the blocks whose rows may fulfil a condition."""
    found = may_hold(condition, frozenset({date.id}), date.type, by)
    if found != ALL or {column.id for column in columns_of(condition)} != {date.id}:
        return found
    choices = _choices(condition)
    kept = Touched((), evaluate(condition, {date.id: None}) is True)
    for first, last in among.spans:
        for number in range(first, last + 1):
            ends = [ranges.number_of(value) for value in _ends(number, by, date.type)]
            line = ranges.Range(lower=ends[0], upper=ends[1], nullable=False)
            if any(range_of(choice, {date.id: line}).upper != 0 for choice in choices):
                kept |= Touched(((number, number),), False)
    return kept


def _choices(condition: Expression) -> list[Expression]:
    """Returns conditions of which one is true where the given one is: IN is one of several equalities."""
    if not isinstance(condition, Call) or condition.function != "in":
        return [condition]
    value, *others = condition.arguments
    return [call("eq", (value, other)) for other in others]


def _ends(number: int, by: By, type: Type) -> tuple[datetime.date, datetime.date]:
    """Returns the first and the last value of a block."""
    start = first_day(number, by)
    try:
        end = first_day(number + 1, by) - datetime.timedelta(days=1)
    except (OverflowError, ValueError):
        end = datetime.date.max
    if type == DATE:
        return start, end
    return datetime.datetime.combine(start, datetime.time.min), datetime.datetime.combine(end, datetime.time.max)


def _inside(date: Column, needed: Touched, by: By, lower: datetime.date, upper: datetime.date) -> Expression:
    """Returns the condition that a date is in one of the blocks, and within the bounds."""
    parts: list[Expression] = []
    for first, last in needed.spans:
        start, end = max(lower, _ends(first, by, date.type)[0]), min(upper, _ends(last, by, date.type)[1])
        ends = (("ge", start), ("le", end))
        parts.append(call("and", [call(f, (date, Literal(value=end, type=date.type))) for f, end in ends]))
    if needed.undated:
        parts.append(call("is_null", (date,)))
    if not parts:
        return Literal(value=False, type=BOOLEAN)
    return parts[0] if len(parts) == 1 else call("or", parts)
