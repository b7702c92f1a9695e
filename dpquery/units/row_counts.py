"""How many rows one privacy unit has in a relation at most, and how many different values in a column.

The rules of `join_multiplicity`, and those of a unit's own rows: docs/proofs/weights.md, Lemmas 4 and 5.
"""

from __future__ import annotations

from math import prod

from dpquery.plan.expr import Call, Case, Column, Expression, Literal, columns_of, conjuncts
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    SetOperation,
    Window,
    is_private,
    output,
)
from dpquery.plan.types import BOOLEAN, FLOAT64
from dpquery.units.join_multiplicity import Ids, Meeting, least
from dpquery.units.sizes import Sizes

_FLIPPED = {"eq": "eq", "le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}
"""Comparisons, and what they are when their sides are exchanged."""
VALUES = {"extract_month": 12, "extract_quarter": 4, "extract_dow": 7, "extract_isodow": 7, "extract_hour": 24}
"""Functions of few values, beside NULL, for any arguments."""


class FewRows(Meeting):
    """Counts rows of one unit that agree in columns, also by how few values the others have."""

    __slots__ = ()

    def _most(self, relation: Relation, ids: Ids) -> int | None:
        known = super()._most(relation, ids)
        match relation:
            case Aggregate():
                return least(known, self.combinations(relation.source, frozenset(relation.group_by) - ids))
            case SetOperation(kind="intersect" | "except"):
                return least(known, self._combinations_of_sides(relation, ids))
            case Filter():
                first = [self._first_rows(part, relation.source, ids) for part in conjuncts(relation.condition)]
                for most in first:
                    known = least(known, most)
                return known
            case _:
                return known

    def _first_rows(self, condition: Expression, relation: Relation, ids: Ids) -> int | None:
        """Returns k where a condition lets the first k rows of each unit pass at most, of those that agree in `ids`."""
        if not (isinstance(condition, Call) and len(condition.arguments) == 2 and condition.function in _FLIPPED):
            return None
        function, (number, limit) = condition.function, condition.arguments
        if isinstance(number, Literal):
            function, number, limit = _FLIPPED[function], limit, number
        if not (isinstance(number, Column) and isinstance(limit, Literal) and type(limit.value) is int):
            return None
        most = {"eq": 1, "le": limit.value, "lt": limit.value - 1}.get(function)
        beside = None if most is None else self._numbers(number.id, relation, ids)
        return None if most is None or beside is None else max(0, most) * beside

    def _numbers(self, id: str, relation: Relation, ids: Ids) -> int | None:
        """Returns how many rows of a unit that agree in `ids` a column may number alike: as many as the other columns
        of its partitions have values. None where it numbers no rows."""
        ids |= self.units(relation)
        match relation:
            case Filter():
                return self._numbers(id, relation.source, ids)
            case Project():
                made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
                if id not in made:
                    return None
                return self._numbers(made[id], relation.source, frozenset(made[one] for one in ids if one in made))
            case Window():
                made_here = next((column for column in relation.columns if column.id == id), None)
                if made_here is None:
                    return self._numbers(id, relation.source, ids)
                if made_here.function != "row_number":
                    return None
                return self.combinations(relation.source, frozenset(made_here.partition_by) - ids)
            case _:
                return None

    def _combinations_of_sides(self, operation: SetOperation, ids: Ids) -> int | None:
        """Returns the most different rows of a set operation that agree in `ids`."""
        columns = [column for column in operation.columns if column.id not in ids]
        left = self.combinations(operation.left, frozenset(column.left for column in columns))
        right = self.combinations(operation.right, frozenset(column.right for column in columns))
        return least(left, right) if operation.kind == "intersect" else left

    def combinations(self, relation: Relation, columns: Ids) -> int | None:
        """Returns the most different values of some columns together that the rows of a unit have."""
        each = [self.values(relation, id) for id in columns]
        return None if None in each else prod(count or 0 for count in each)

    def values(self, relation: Relation, column: str) -> int | None:
        """Returns how many different values a column has in the rows of one unit, NULL among them, or None."""
        key = (id(relation), column)
        if key not in self._values:
            self._values[key] = self._of_column(relation, column)
        return self._values[key]

    def _of_column(self, relation: Relation, id: str) -> int | None:
        if id in self.units(relation):
            return 1
        found: int | None = None
        match relation:
            case Scan():
                kind = next((column.type for column in output(relation) if column.id == id), None)
                found = 3 if kind == BOOLEAN else None
            case Filter():
                found = least(self.values(relation.source, id), self._listed(relation, id))
            case Project():
                made = next((column.expression for column in relation.columns if column.id == id), None)
                found = None if made is None else self._of_expression(made, relation.source)
            case Join():
                found = self._in_join(relation, id)
            case Aggregate() if id in relation.group_by:
                found = self.values(relation.source, id)
            case Window() if id not in {column.id for column in relation.columns}:
                found = self.values(relation.source, id)
            case SetOperation(kind="union_all"):
                matched = next(column for column in relation.columns if column.id == id)
                left, right = self.values(relation.left, matched.left), self.values(relation.right, matched.right)
                found = None if left is None or right is None else left + right
            case _:
                pass
        rows = self.most(relation, frozenset()) if is_private(relation) else None
        return least(found, rows)

    def _in_join(self, join: Join, id: str) -> int | None:
        """A side that is filled up has NULL beside its own values; every unit may have each value of a public side."""
        on_the_left = id in {column.id for column in output(join.left)}
        side = join.left if on_the_left else join.right
        filled = join.kind == "full" or join.kind == ("right" if on_the_left else "left")
        own = self.values(side, id) if is_private(side) else self.most(side, frozenset())
        return None if own is None else own + filled

    def _listed(self, filtered: Filter, id: str) -> int | None:
        """Returns how many constants a condition compares a column with, if it has to equal one of them."""
        counts = []
        for part in conjuncts(filtered.condition):
            match part:
                case Call(function="eq" | "in", arguments=(Column(id=read, type=type), *listed)) if read == id:
                    if all(isinstance(one, Literal) and one.type == type for one in listed):
                        counts.append(len(listed))
                case _:
                    pass
        return min(counts, default=None)

    def _of_expression(self, made: Expression, relation: Relation) -> int | None:
        """A function of columns has at most as many values as these have together."""
        known = 1 if isinstance(made, Literal) else None
        if isinstance(made, Call) and made.function in VALUES:
            known = VALUES[made.function] + 1
        if made.type == BOOLEAN:
            known = 3
        if isinstance(made, Case):
            results = [made.otherwise, *(result for _, result in made.branches)]
            known = len({*map(repr, results)}) if all(isinstance(one, Literal) for one in results) else known
        read = tuple(columns_of(made))
        if not isinstance(made, Column) and any(column.type == FLOAT64 for column in read):
            return known  # 0.0 and -0.0 are one value to a group, and two to a function
        return least(known, self.combinations(relation, frozenset(column.id for column in read)))


def different_values(relation: Relation, id: str, sizes: Sizes) -> int | None:
    """Returns how many different values, NULL left out, a column can have in all rows of all units, or None.

    Source:
        docs/proofs/weights.md, Lemma 5.
    """
    made = relation.columns if isinstance(relation, Project) else ()
    known = [VALUES.get(c.expression.function) for c in made if c.id == id and isinstance(c.expression, Call)]
    known += [2 for column in output(relation) if column.id == id and column.type == BOOLEAN]
    return least(FewRows(sizes, lambda _: frozenset()).values(relation, id), *known)


class RowsOfUnit(FewRows):
    """Counts rows of one unit. Every limit of a scan of the `limited` tables bounds them."""

    __slots__ = ()

    def _is_cut(self, scan: Scan) -> bool:
        return scan.ownership is not None and scan.table in self.limited
