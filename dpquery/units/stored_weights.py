"""What columns of stored weights add up to over the rows of one privacy unit, through the operators of a relation.

docs/proofs/weights.md, Lemmas 1 to 3 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpquery.plan.expr import Call, Column
from dpquery.plan.logical import Filter, Join, Project, Relation, Scan, SetOperation, Window, output
from dpquery.units.join_multiplicity import Meeting
from dpquery.units.row_counts import RowsOfUnit
from dpquery.units.strata import Agreed, below, strata_of, strata_read

Bounds = dict[str, int]
"""For each column of stored weights the most that it adds up to, in rows; none is NULL where the row has a unit."""


@dataclass(frozen=True, slots=True)
class StoredRules:
    """The rules of Lemmas 1 to 3 and 8.

    Attributes:
        meeting: Says how many rows of the other side of a join one row meets.
        rows: Says how many rows of a unit there are.
        limited: The tables of whose scans a bound holds: with blocks, those where it may be of one block.
        known: What was found before, by relation and what rows agree in.
    """

    meeting: Meeting
    rows: RowsOfUnit
    limited: frozenset[str]
    known: dict[tuple[int, Agreed], Bounds] = field(default_factory=dict)

    def bounds(self, relation: Relation, agreed: Agreed = frozenset()) -> Bounds:
        """Returns the bound of each column of stored weights, over the rows of one unit that agree in this."""
        key = id(relation), agreed
        if key not in self.known:
            self.known[key] = self._stored(relation, agreed)
        return self.known[key]

    def _stored(self, relation: Relation, agreed: Agreed) -> Bounds:
        match relation:
            case Scan():
                if relation.weight is None or relation.max_rows is None or relation.table not in self.limited:
                    return {}
                strata, most = relation.strata, relation.max_rows
                if strata is not None and (count := strata_of(agreed, relation, strata)) is not None:
                    most = min(most, count * strata.max_rows)
                return {relation.weight: most}
            case Filter():
                return _in_few_strata(relation, self.bounds(relation.source, agreed))
            case Window():
                return self.bounds(relation.source, agreed)
            case Project(source=Join(kind="left" | "full") as join):
                within = below(relation, agreed)
                return _passed(relation, self.bounds(join, within)) | self._filled_up(relation, join, within)
            case Project():
                return _passed(relation, self.bounds(relation.source, below(relation, agreed)))
            case Join():
                return self._joined(relation, agreed)
            case SetOperation(kind="union_all"):
                left, right = (
                    self.bounds(side, frozenset((of[id], told) for id, told in agreed if id in of))
                    for side, of in (
                        (relation.left, {column.id: column.left for column in relation.columns}),
                        (relation.right, {column.id: column.right for column in relation.columns}),
                    )
                )
                both = [c for c in relation.columns if c.left in left and c.right in right]
                return {column.id: left[column.left] + right[column.right] for column in both}
            case _:
                return {}

    def _joined(self, join: Join, agreed: Agreed) -> Bounds:
        """Each row of a side is there as often as it meets rows of the other side, and once where it stays unmatched.
        A value that is NULL where a side is filled up is not a weight."""
        if join.kind in ("semi", "anti"):
            return self.bounds(join.left, agreed)
        found = Bounds()
        if join.kind != "full":
            found |= self._met(join, agreed, left=True)
        if join.kind in ("inner", "cross"):
            found |= self._met(join, agreed, left=False)
        return found

    def _met(self, join: Join, agreed: Agreed, *, left: bool) -> Bounds:
        """Returns what the weights of a side add up to over the rows of a join in which the side is there."""
        met = self.meeting.met(join, left=left)
        return {} if met is None else {id: most * max(1, met) for id, most in self._side(join, agreed, left).items()}

    def _side(self, join: Join, agreed: Agreed, left: bool) -> Bounds:
        side = join.left if left else join.right
        ids = {column.id for column in output(side)}
        return self.bounds(side, frozenset(each for each in agreed if each[0] in ids))

    def _filled_up(self, project: Project, join: Join, agreed: Agreed) -> Bounds:
        """The weight of the right row, or of the left row where it met none: each of these is there once. Where a unit
        has one left row it meets rows or stays alone, so that the weights are of one side. A full join is alike from
        its left."""
        rights, lefts = self._met(join, agreed, left=False), self._side(join, agreed, True)
        is_one = join.kind == "left" and self.rows.most(join.left, frozenset()) == 1
        firsts, others = Bounds(), Bounds()
        if join.kind == "full":
            firsts, others = self._met(join, agreed, left=True), self._side(join, agreed, False)
        found = Bounds()
        for column in project.columns:
            match column.expression:
                case Call(function="coalesce", arguments=(Column(id=a), Column(id=b))) if a in rights and b in lefts:
                    found[column.id] = max(rights[a], lefts[b]) if is_one else rights[a] + lefts[b]
                case Call(function="coalesce", arguments=(Column(id=a), Column(id=b))) if a in firsts and b in others:
                    found[column.id] = firsts[a] + others[b]
                case _:
                    pass
        return found


def _passed(project: Project, given: Bounds) -> Bounds:
    read = {c.id: c.expression.id for c in project.columns if isinstance(c.expression, Column)}
    return {id: given[held] for id, held in read.items() if held in given}


def _in_few_strata(filtered: Filter, given: Bounds) -> Bounds:
    """Rows that pass are in so many strata at most, and weigh at most the bound of one in each."""
    read = strata_read(filtered)
    if read is None or read[0].strata is None or (weight := read[0].weight) not in given:
        return given
    return given | {weight: max(1, min(given[weight], read[1] * read[0].strata.max_rows))}
