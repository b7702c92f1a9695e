"""UNION ALL of rows of one table that no row is in twice: one scan, filtered by either condition.

So a unit weighs in it what it weighs in the table, and not twice that. The rows stay the same. The gate looks at what
this made, and believes nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpquery.plan.definitions import taken_apart
from dpquery.plan.expr import Case, Column, Expression, substitute
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, Project, Relation, Scan, ScanColumn, SetOperation, output
from dpquery.units.disjoint import disjoint


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows of a scan: those that fulfil a condition, and what each column of the part is over the scan."""

    scan: Scan
    condition: Expression
    values: dict[str, Expression]


def one_table(operation: SetOperation) -> Relation:
    """Returns the rows of UNION ALL as rows of one scan, or the operation itself where it cannot be told."""
    left, right = _part(operation.left), _part(operation.right)
    if operation.kind != "union_all" or left is None or right is None:
        return operation
    over = _over_one(left.scan, right.scan)
    if over is None:
        return operation
    scan, names = over
    condition = substitute(right.condition, names)
    if not disjoint(left.condition, condition):
        return operation
    columns = []
    for column in operation.columns:
        one, other = left.values[column.left], substitute(right.values[column.right], names)
        made = one if one == other else Case(branches=((left.condition, one),), otherwise=other, type=column.type)
        columns.append(Computed(id=column.id, name=column.name, expression=made))
    return Project(
        source=Filter(source=scan, condition=call("or", (left.condition, condition))), columns=tuple(columns)
    )


def _part(relation: Relation) -> _Part | None:
    """Returns filters and projections over a scan of private rows; None without a filter, and over anything else."""
    relation, conditions, values = taken_apart(relation)
    if not isinstance(relation, Scan) or relation.public or relation.weight is not None or not conditions:
        return None
    whole = conditions[0] if len(conditions) == 1 else call("and", tuple(conditions))
    return _Part(scan=relation, condition=whole, values=values)


def _over_one(left: Scan, right: Scan) -> tuple[Scan, dict[str, Expression]] | None:
    """Returns a scan that reads the columns of both, and the right one's columns in it; None for different tables."""
    same = ("table", "ownership", "row_limit")
    if any(getattr(left, name) != getattr(right, name) for name in same) or left.unit is None or right.unit is None:
        return None
    known = {_what(column): column for column in left.columns}
    added = tuple(column for column in right.columns if _what(column) not in known)
    known |= {_what(column): column for column in added}
    names: dict[str, Expression] = {c.id: Column(id=known[_what(c)].id, type=c.type) for c in right.columns}
    types = {column.id: column.type for column in output(right)}
    names[right.unit] = Column(id=left.unit, type=types[right.unit])
    return replace(left, columns=(*left.columns, *added)), names


def _what(column: ScanColumn) -> tuple[object, ...]:
    return column.name, column.type, column.max_length
