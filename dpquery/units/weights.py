"""What the rows of one privacy unit weigh in a relation: how many they are at most, and what stored weights add up to.

By induction over the operators, from what the plan enforces and what was checked when tables were opened. What no rule
covers has no bound: then the aggregate counts weights over the relation itself. docs/proofs/weights.md, Lemmas 1 to 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpquery.plan.expr import Call, Column
from dpquery.plan.logical import Filter, Join, Project, Relation, Scan, SetOperation, Window, is_private
from dpquery.units.declarations import Declarations
from dpquery.units.few import RowsOfUnit
from dpquery.units.locality import Locality, locality
from dpquery.units.meeting import Meeting, times
from dpquery.units.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What is proved of the rows of one unit in a relation.

    With blocks, where each row follows from one stored row alone: of its rows that stem from one block.

    Attributes:
        rows: The most rows, or None.
        stored: For each column that holds stored weights, the most that they add up to, in rows.
    """

    rows: int | None
    stored: Mapping[str, int] = field(default_factory=dict)


def weighed(relation: Relation, declared: Declarations, sizes: Sizes, *, of_all: bool = False) -> Weighed:
    """Returns what the rows of one privacy unit weigh in a relation that `locality` accepts.

    Args:
        of_all: Whether bounds are of all rows of the unit, with blocks too: weights that are counted over them change
            with any of them.
    Privacy:
        For every database, unit and key of the release. Rests on scans (`row_limit`, `weight`), on the plan, and on
        facts of tables in `sizes`. For neighbours in one block, with weights from a scan, rows of other blocks are the
        same: only where each row follows from one stored row does a scan by blocks give any bound.
    Source:
        docs/proofs/weights.md, Lemmas 1 to 6.
    """
    if declared.unit_is_row or not is_private(relation):
        return Weighed(rows=1 if is_private(relation) else None)
    return _Rules(declared, sizes, by_row=declared.blocks is None or (not of_all and _by_row(relation))).of(relation)


def undated(declared: Declarations) -> frozenset[str]:
    """Returns the tables whose rows are in no blocks of their own."""
    return frozenset(name for name, table in declared.tables.items() if table.dated is None)


def distinct_groups(relation: Relation, columns: frozenset[str], declared: Declarations, sizes: Sizes) -> int | None:
    """Returns in how many groups of these columns one unit can have rows, or None."""
    return _Rules(declared, sizes, by_row=False).rows.combinations(relation, columns)


def multiplies(join: Join, declared: Declarations, sizes: Sizes) -> bool:
    """Whether a row of either side of a join may meet any number of rows of the other, by all that is proved."""
    rules = _Rules(declared, sizes, by_row=False)
    meeting = Meeting(sizes, rules.units)
    return meeting.met(join, left=True) is None and meeting.met(join, left=False) is None


def _by_row(relation: Relation) -> bool:
    """Whether each row follows from one stored private row and public tables alone."""
    if not is_private(relation):
        return True
    match relation:
        case Scan():
            return True
        case Filter() | Project():
            return _by_row(relation.source)
        case Join():
            both = is_private(relation.left) and is_private(relation.right)
            return not both and _by_row(relation.left) and _by_row(relation.right)
        case SetOperation(kind="union_all"):
            return _by_row(relation.left) and _by_row(relation.right)
        case _:
            return False


class _Rules:
    def __init__(self, declared: Declarations, sizes: Sizes, *, by_row: bool) -> None:
        self._declared, self._known = declared, dict[int, tuple[Relation, Locality]]()
        self._undated = frozenset(declared.tables) if by_row else undated(declared)
        self.rows = RowsOfUnit(sizes, self.units, limited=self._undated)

    def of(self, relation: Relation) -> Weighed:
        rows = self.rows.most(relation, frozenset())
        return Weighed(rows=None if rows is None else max(1, rows), stored=self._stored(relation))

    def units(self, relation: Relation) -> frozenset[str]:
        """Returns the columns of a relation that hold the unit."""
        return self._locality(relation).units

    def _locality(self, relation: Relation) -> Locality:
        known = self._known.get(id(relation))
        if known is None:
            known = relation, locality(relation, self._declared, lambda below, _: self._locality(below))
            self._known[id(relation)] = known
        return known[1]

    def _stored(self, relation: Relation) -> dict[str, int]:
        """Returns the bound of each column of stored weights; a NULL weighs nothing."""
        match relation:
            case Scan():
                if relation.weight is None or relation.max_rows is None or relation.table not in self._undated:
                    return {}
                return {relation.weight: relation.max_rows}
            case Filter() | Window():
                return self._stored(relation.source)
            case Project():
                return self._projected(relation)
            case Join():
                return self._joined(relation)
            case SetOperation(kind="union_all"):
                left, right = self._stored(relation.left), self._stored(relation.right)
                both = [c for c in relation.columns if c.left in left and c.right in right]
                return {column.id: left[column.left] + right[column.right] for column in both}
            case _:
                return {}

    def _projected(self, project: Project) -> dict[str, int]:
        """A weight is passed on, or is of two the one that is there: no row weighs more than both together."""
        given, found = self._stored(project.source), dict[str, int]()
        for column in project.columns:
            match column.expression:
                case Column(id=id) if id in given:
                    found[column.id] = given[id]
                case Call(function="coalesce", arguments=(Column(id=a), Column(id=b))) if a in given and b in given:
                    found[column.id] = given[a] + given[b]
                case _:
                    pass
        return found

    def _joined(self, join: Join) -> dict[str, int]:
        """Each row of a side is there as often as it meets rows of the other side, and once where it meets none."""
        if join.kind in ("semi", "anti"):
            return self._stored(join.left)
        found = dict[str, int]()
        for side, is_left in ((join.left, True), (join.right, False)):
            met = self.rows.met(join, left=is_left)
            times_there = None if met is None else max(1, met)
            for id, most in self._stored(side).items():
                if (added := times(most, times_there)) is not None:
                    found[id] = added
        return found
