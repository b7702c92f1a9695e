"""Weights under which a column adds up to a bounded total for one privacy unit, through the operators of a relation.

docs/proofs/weights.md, Lemma 7.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dpquery.plan.expr import Column
from dpquery.plan.logical import Filter, Join, Project, Relation, Scan, SetOperation, Window
from dpquery.plan.scaled_weights import Steps
from dpquery.units.join_multiplicity import Meeting


@dataclass(frozen=True, slots=True, kw_only=True)
class Totalled:
    """What a column of scaled weights bounds: weight times magnitude of the lattice value, over the rows of a unit.

    Attributes:
        values: The columns whose values these are, alike on all rows.
        lattice: Grid and bounds of the lattice.
        most: What the products add up to at most, in lattice steps. Rows whose value is NULL count 0.
    """

    values: frozenset[str]
    lattice: Steps
    most: int


Pairs = dict[str, Totalled]
"""For each column of scaled weights what it bounds."""


@dataclass(frozen=True, slots=True)
class ScaledRules:
    """The rules of Lemma 7.

    Attributes:
        meeting: Says how many rows of the other side of a join one row meets.
        limited: The tables of whose scans a bound holds: with blocks, those where it may be of one block.
        known: What was found before, by relation.
    """

    meeting: Meeting
    limited: frozenset[str]
    known: dict[int, Pairs] = field(default_factory=dict)

    def pairs(self, relation: Relation) -> Pairs:
        """Returns the columns of scaled weights of a relation that `locality` accepts, each with what it bounds.

        Privacy:
            For every database and unit; of its rows that stem from one block where `limited` says so.
        Source:
            docs/proofs/weights.md, Lemma 7.
        """
        if id(relation) not in self.known:
            self.known[id(relation)] = self._pairs(relation)
        return self.known[id(relation)]

    def _pairs(self, relation: Relation) -> Pairs:
        match relation:
            case Scan():
                return self._of_scan(relation)
            case Filter() | Window():
                return self.pairs(relation.source)
            case Project():
                return _projected(relation, self.pairs(relation.source))
            case Join(kind="semi" | "anti"):
                return self.pairs(relation.left)
            case Join():
                return {**self._met(relation, left=True), **self._met(relation, left=False)}
            case SetOperation(kind="union_all"):
                return _united(relation, self.pairs(relation.left), self.pairs(relation.right))
            case _:
                return {}

    def _of_scan(self, scan: Scan) -> Pairs:
        if scan.ownership is None or scan.table not in self.limited:
            return {}
        ids = {s.id: frozenset(c.id for c in scan.columns if c.name == s.column) for s in scan.scaled}
        return {
            s.id: Totalled(
                values=ids[s.id], lattice=s.lattice, most=min(s.most, s.max_rows * max(-s.lower, s.upper, 1))
            )
            for s in scan.scaled
        }

    def _met(self, join: Join, *, left: bool) -> Pairs:
        """A row is there as often as it meets rows of the other side, or once; filled up, it has no value."""
        given = self.pairs(join.left if left else join.right)
        met = self.meeting.met(join, left=left) if given else None
        return {} if met is None else {id: replace(p, most=p.most * max(1, met)) for id, p in given.items()}


def _projected(project: Project, given: Pairs) -> Pairs:
    read = {c.id: c.expression.id for c in project.columns if isinstance(c.expression, Column)}
    return {
        id: replace(given[held], values=frozenset(own for own, of in read.items() if of in given[held].values))
        for id, held in read.items()
        if held in given
    }


def _united(operation: SetOperation, left: Pairs, right: Pairs) -> Pairs:
    found = dict[str, Totalled]()
    for column in operation.columns:
        a, b = left.get(column.left), right.get(column.right)
        if a is None or b is None or a.lattice != b.lattice:
            continue
        values = frozenset(c.id for c in operation.columns if c.left in a.values and c.right in b.values)
        found[column.id] = Totalled(values=values, lattice=a.lattice, most=a.most + b.most)
    return found
