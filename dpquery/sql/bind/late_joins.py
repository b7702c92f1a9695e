"""Joins of private rows with a released table on keys of GROUP BY: made after the aggregation, on the noisy groups.

    SELECT region, month, SUM(x) FROM orders JOIN (SELECT region AS r, ... ORDER BY ... LIMIT 10) AS top ON region = r
    GROUP BY region, month

Tools ask for the top groups so. Where the released table has at most one row for each key and is joined on keys of the
GROUP BY, a group has all its rows in the join or none: aggregating first and joining the groups gives the same. The
join is then post-processing, while the rows below the boundary know nothing of what was released.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpquery.errors import QueryError, UnsupportedQueryError
from dpquery.plan.expr import Call, Column, Expression, columns_of
from dpquery.plan.logical import (
    Computed,
    Join,
    Project,
    Relation,
    Sort,
    SortKey,
    is_private,
    output,
)
from dpquery.sql.bind.scope import Context, LateJoin, Scope
from dpquery.sql.bind.steps import reads_released, unique_in_released

REASON = "a released table cannot be joined with private rows"


def late_join(
    left: Relation, right: Relation, kind: str, conditions: Sequence[Expression], node: exp.Expression, context: Context
) -> tuple[Relation, LateJoin] | None:
    """Returns the private side and the join that waits for its groups; None where none can: neither side is a released
    table, or it is of another form."""
    if is_private(left) is is_private(right):
        return None
    private, released = (left, right) if is_private(left) else (right, left)
    if not reads_released(released) or is_private(released):
        return None
    pairs = [_pair(condition, private, released) for condition in conditions]
    keys = {pair[1].id for pair in pairs if pair is not None}
    is_unique = any(keys >= unique for unique in unique_in_released(released, context.boundaries))
    if not context.can_wait or kind != "inner" or not pairs or None in pairs or not is_unique:
        return None
    found = tuple(pair for pair in pairs if pair is not None)
    return private, LateJoin(relation=released, pairs=found, node=node)


def _pair(condition: Expression, private: Relation, released: Relation) -> tuple[Expression, Column] | None:
    """Returns (what it is over private rows, the column of the released table) of an equality of both, else None."""
    if not (isinstance(condition, Call) and condition.function == "eq"):
        return None
    theirs, own = {c.id for c in output(released)}, {c.id for c in output(private)}
    for a, b in (condition.arguments, condition.arguments[::-1]):
        reads = {column.id for column in columns_of(a)}
        if isinstance(b, Column) and b.id in theirs and reads and reads <= own and a.type == b.type:
            return a, b
    return None


def check_unread(late: Sequence[LateJoin], expressions: Sequence[Expression], context: Context) -> None:
    """Raises where an expression over private rows reads a column of a released table."""
    ids = {column.id for join in late for column in output(join.relation)}
    for expression in expressions:
        found = next((column for column in columns_of(expression) if column.id in ids), None)
        if found is not None:
            error = refusal(late[0], context)
            error.span = found.span or error.span
            raise error


class CannotWaitError(UnsupportedQueryError):
    """A join does not wait for the groups after all; bound again without waiting it is a step."""


def refusal(late: LateJoin, context: Context) -> QueryError:
    """Returns the error for a join that cannot wait."""
    return context.refuse(CannotWaitError, REASON, late.node)


def with_late(groups: Relation, source: Scope, keys: dict[Expression, Column], context: Context) -> Relation:
    """Returns the groups, joined with the released tables that waited for them.

    Args:
        groups: What the aggregation gives.
        keys: The column of each key of GROUP BY.
    """
    for late in source.late:
        if is_private(groups) or any(own not in keys for own, _ in late.pairs):
            raise refusal(late, context)
        hidden = [Computed(id=context.fresh(), name="", expression=theirs) for _, theirs in late.pairs]
        right = Project(source=late.relation, columns=tuple(hidden))
        pairs = tuple(
            (keys[own], Column(id=made.id, type=theirs.type))
            for (own, theirs), made in zip(late.pairs, hidden, strict=True)
        )
        groups = Join(left=groups, right=right, kind="inner", equalities=pairs, condition=None)
    if not source.late:
        return groups
    order = dict.fromkeys(column.id for column in keys.values())
    return Sort(source=groups, keys=tuple(SortKey(column=id, descending=False, nulls_first=False) for id in order))
