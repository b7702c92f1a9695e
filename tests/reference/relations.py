"""Relations as lists of rows: plain loops over Python values, one function for each node.

A row is a dict from column ids to values. Nothing here is clever; that is the point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

from dpquery.errors import InternalError
from dpquery.plan.evaluate import evaluate
from dpquery.plan.logical import (
    Aggregate,
    Filter,
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
from dpquery.plan.types import Value
from tests.reference.aggregates import Row as Row
from tests.reference.aggregates import value_of
from tests.reference.windows import windowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Turns relations into rows.

    Attributes:
        scan: Reads a stored table as declared.
        released: Reads a released table.
    """

    scan: Callable[[Scan], list[Row]]
    released: Callable[[Released], list[Row]]

    def rows(self, relation: Relation) -> list[Row]:
        """Returns the rows of a relation; their order is an order only under Sort."""
        match relation:
            case Scan():
                return self.scan(relation)
            case Released():
                return self.released(relation)
            case Values():
                return [{c.id: value for c, value in zip(relation.columns, row, strict=True)} for row in relation.rows]
            case SetOperation():
                return _combined(relation, self.rows(relation.left), self.rows(relation.right))
            case Window():
                return windowed(relation, self.rows(relation.source))
            case Filter():
                return [row for row in self.rows(relation.source) if evaluate(relation.condition, row) is True]
            case Project():
                return [
                    {column.id: evaluate(column.expression, row) for column in relation.columns}
                    for row in self.rows(relation.source)
                ]
            case Join():
                return self._join(relation)
            case Aggregate():
                return _aggregate(relation, self.rows(relation.source))
            case Sort():
                return _sort(relation, self.rows(relation.source))
            case Limit():
                end = None if relation.count is None else relation.offset + relation.count
                return self.rows(relation.source)[relation.offset : end]
            case _:
                assert_never(relation)

    def _join(self, join: Join) -> list[Row]:
        if join.kind not in ("inner", "cross", "left", "full", "semi", "anti"):
            raise InternalError(f"a {join.kind} join has no meaning here")
        rights = [(row, [evaluate(b, row) for _, b in join.equalities]) for row in self.rows(join.right)]
        nothing: Row = {column.id: None for column in output(join.right)}
        joined: list[Row] = []
        met: set[int] = set()
        for left in self.rows(join.left):
            wanted = [evaluate(a, left) for a, _ in join.equalities]
            pairs = [(i, left | right) for i, (right, given) in enumerate(rights) if _all_equal(wanted, given)]
            if join.condition is not None:
                pairs = [(i, pair) for i, pair in pairs if evaluate(join.condition, pair) is True]
            if join.kind in ("semi", "anti"):
                joined += [left] if bool(pairs) is (join.kind == "semi") else []
                continue
            met |= {i for i, _ in pairs}
            if not pairs and join.kind in ("left", "full"):
                joined.append(left | nothing)
            joined += [pair for _, pair in pairs]
        if join.kind == "full":
            missing: Row = {column.id: None for column in output(join.left)}
            joined += [missing | right for i, (right, _) in enumerate(rights) if i not in met]
        return joined


def _combined(operation: SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    """Returns the rows of a set operation; INTERSECT and EXCEPT without ALL give each row once."""
    firsts = [tuple(row[c.left] for c in operation.columns) for row in left]
    seconds = [tuple(row[c.right] for c in operation.columns) for row in right]
    if operation.kind == "union_all":
        kept = firsts + seconds
    else:
        first, second = Counter(firsts), Counter(seconds)
        if not operation.kind.endswith("_all"):
            first, second = Counter(set(firsts)), Counter(set(seconds))
        made = first & second if operation.kind.startswith("intersect") else first - second
        kept = list(made.elements())
    ids = [column.id for column in operation.columns]
    return [dict(zip(ids, row, strict=True)) for row in kept]


def _all_equal(left: list[Value], right: list[Value]) -> bool:
    return all(a is not None and b is not None and a == b for a, b in zip(left, right, strict=True))


def _sort(sort: Sort, rows: list[Row]) -> list[Row]:
    """Returns the rows in order, by stable sorts from the last key to the first."""
    for key in reversed(sort.keys):
        id = key.column
        known = [row for row in rows if row[id] is not None]
        unknown = [row for row in rows if row[id] is None]

        def value_of(row: Row, id: str = id) -> Any:
            return row[id]

        known.sort(key=value_of, reverse=key.descending)
        rows = unknown + known if key.nulls_first else known + unknown
    return rows


def _aggregate(aggregate: Aggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Value, ...], list[Row]] = {} if aggregate.group_by else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[id] for id in aggregate.group_by), []).append(row)
    return [
        dict(zip(aggregate.group_by, key, strict=True)) | {a.id: value_of(a, group) for a in aggregate.aggregates}
        for key, group in groups.items()
    ]
