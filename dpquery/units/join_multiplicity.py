"""How many rows of a relation agree in columns, which bounds how many of them a row meets in a join.

The rules are Lemma 2 of docs/proofs/work.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from dpquery.plan.expr import Call, Column, Expression, Literal, conjuncts
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
    is_private,
    output,
)
from dpquery.units.band_joins import swept
from dpquery.units.sizes import Sizes, Unbounded

Ids = frozenset[str]

LARGEST_CUT = 10_000
"""Limits on the rows of a unit up to this are there for a join: they bound how many rows one row meets."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Counts rows of relations that may agree.

    Attributes:
        sizes: Facts of stored tables.
        units: The columns of a relation that hold the privacy unit of each of its rows.
        limited: Tables of which a scan gives at most `row_limit` rows of a unit, and not so many of each block.
    """

    sizes: Sizes
    units: Callable[[Relation], Ids]
    limited: frozenset[str] = frozenset()
    _known: dict[tuple[int, Ids], int | None] = field(default_factory=dict)
    _values: dict[tuple[int, str], int | None] = field(default_factory=dict)

    def most(self, relation: Relation, ids: Ids) -> int | None:
        """Returns the most rows of one privacy unit, or of a public relation, that agree in these columns, of which
        none is NULL; None where nothing bounds them but how many rows the unit has.

        Source:
            docs/proofs/work.md, Lemma 2.
        """
        ids = (ids & {column.id for column in output(relation)}) | self.units(relation)
        key = (id(relation), ids)
        if key not in self._known:
            self._known[key] = self._most(relation, ids)
        return self._known[key]

    def _most(self, relation: Relation, ids: Ids) -> int | None:
        match relation:
            case Scan():
                return self._of_scan(relation, ids)
            case Values():
                places = [i for i, column in enumerate(relation.columns) if column.id in ids]
                counted = Counter(tuple(row[i] for i in places) for row in relation.rows)
                return max((count for key, count in counted.items() if None not in key), default=0)
            case Filter():
                return self.most(relation.source, ids | fixed(relation.condition))
            case Project():
                made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
                return self.most(relation.source, frozenset(made[id] for id in ids if id in made))
            case Join():
                return self._of_join(relation, ids)
            case Aggregate():
                if ids >= set(relation.group_by):
                    return 1
                return self.most(relation.source, ids & frozenset(relation.group_by))
            case Window():
                numbered = [c for c in relation.columns if c.function == "row_number" and c.id in ids]
                if any(ids >= set(column.partition_by) for column in numbered):
                    return 1
                return self.most(relation.source, ids)
            case SetOperation():
                return self._of_set_operation(relation, ids)
            case Sort():
                return self.most(relation.source, ids)
            case Limit():
                return least(self.most(relation.source, ids), relation.count)
            case Released():
                raise Unbounded("a released table cannot be joined with private rows")
            case _:
                assert_never(relation)

    def _of_scan(self, scan: Scan, ids: Ids) -> int | None:
        names = frozenset(column.name for column in scan.columns if column.id in ids)
        if scan.public:
            return self.sizes.most_equal(scan.table, names) if names else self.sizes.rows(scan.table)
        if any(unique <= names for unique in self.sizes.unique(scan.table)):
            return 1
        return scan.row_limit if self._is_cut(scan) else None

    def _is_cut(self, scan: Scan) -> bool:
        return scan.ownership is not None and scan.table in self.limited and scan.row_limit <= LARGEST_CUT

    def _of_join(self, join: Join, ids: Ids) -> int | None:
        """Rows of one side that agree, times the rows of the other that each of them meets."""
        if join.kind in ("semi", "anti"):
            return self.most(join.left, ids)
        first = times(self.most(join.left, ids), self.met(join, left=True, ids=ids))
        if join.kind == "left":
            return None if first is None else max(first, self.most(join.left, ids) or 0)  # unmatched rows stay
        if join.kind in ("inner", "cross"):
            return least(first, times(self.most(join.right, ids), self.met(join, left=False, ids=ids)))
        unmatched = [self.most(side, ids) for side in (join.left, join.right)]
        return None if first is None or None in unmatched else first + sum(count or 0 for count in unmatched)

    def met(self, join: Join, *, left: bool, ids: Ids = frozenset()) -> int | None:
        """Returns how many rows of the other side one row of the left, or right, meets at most; of those that agree in
        `ids`."""
        pairs = join.equalities
        equated = frozenset(e.id for e in (b if left else a for a, b in pairs) if isinstance(e, Column))
        own, other = (join.left, join.right) if left else (join.right, join.left)
        found = self.most(other, ids | equated)
        return found if is_private(other) else least(found, swept(join, own, other, self.sizes))

    def _of_set_operation(self, operation: SetOperation, ids: Ids) -> int | None:
        kept = [column for column in operation.columns if column.id in ids]
        left = self.most(operation.left, frozenset(column.left for column in kept))
        right = self.most(operation.right, frozenset(column.right for column in kept))
        if operation.kind == "union_all":
            return None if left is None or right is None else left + right
        if not operation.kind.endswith("_all") and len(kept) == len(operation.columns):
            return 1
        return least(left, right) if operation.kind.startswith("intersect") else left


def times(a: int | None, b: int | None) -> int | None:
    """Returns the product; None times anything is None."""
    return None if a is None or b is None else a * b


def least(*bounds: int | None) -> int | None:
    """Returns the smallest bound, None being none."""
    return min([bound for bound in bounds if bound is not None], default=None)


def fixed(condition: Expression) -> Ids:
    """Columns equated with a constant of their type: rows that pass agree in them, and none is NULL."""
    pairs = [tuple(c.arguments) for c in conjuncts(condition) if isinstance(c, Call) and c.function == "eq"]
    both = [pair for a, b in pairs for pair in ((a, b), (b, a))]
    return frozenset(a.id for a, b in both if isinstance(a, Column) and isinstance(b, Literal) and a.type == b.type)
