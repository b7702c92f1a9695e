"""What the rows of one privacy unit weigh in a relation: how many they are at most, and what stored weights add up to.

By induction over the operators, from what the plan enforces and what was checked when tables were opened. What no rule
covers has no bound: then the aggregate counts weights over the relation itself. docs/proofs/weights.md, Lemmas 1 to 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from dpquery.plan.expr import Column
from dpquery.plan.keys import Key
from dpquery.plan.logical import Aggregate, Filter, Join, Project, Relation, Scan, SetOperation, Window, is_private
from dpquery.plan.types import FLOAT64
from dpquery.units.declarations import Declarations
from dpquery.units.join_multiplicity import least, times
from dpquery.units.locality import Locality, locality
from dpquery.units.row_counts import FewRows, RowsOfUnit, different_values
from dpquery.units.scaled_weights import Pairs, ScaledRules
from dpquery.units.sizes import Sizes
from dpquery.units.stored_weights import StoredRules
from dpquery.units.strata import Agreed


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What is proved of the rows of one unit in a relation.

    With blocks, where each row follows from one stored row alone: of its rows that stem from one block.

    Attributes:
        rows: The most rows, or None.
        rows_in_all: The same of its rows in all blocks together.
        stored: For each column that holds stored weights, the most that they add up to, in rows.
        scaled: For each column of weights scaled to a total of some column, what is proved of it.
    """

    rows: int | None
    rows_in_all: int | None
    stored: Mapping[str, int] = field(default_factory=dict)
    scaled: Pairs = field(default_factory=dict)


def weighed(relation: Relation, declared: Declarations, sizes: Sizes) -> Weighed:
    """Returns what the rows of one privacy unit weigh in a relation that `locality` accepts.

    Privacy:
        For every database, unit and key of the release. Rests on scans (`row_limit`, `weight`), on the plan, and on
        facts of tables in `sizes`. For neighbours in one block, with weights from a scan, rows of other blocks are the
        same: only where each row follows from one stored row does a scan by blocks give any bound.
    Source:
        docs/proofs/weights.md, Lemmas 1 to 7.
    """
    if declared.unit_is_row or not is_private(relation):
        rows = 1 if is_private(relation) else None
        return Weighed(rows=rows, rows_in_all=rows)
    rules = _rules(relation, declared, sizes)
    in_all = rules if declared.blocks is None else _Rules(declared, sizes, by_row=False)
    stored, scaled = rules.stored.bounds(relation), rules.scaled.pairs(relation)
    return Weighed(rows=rules.most(relation), rows_in_all=in_all.most(relation), stored=stored, scaled=scaled)


def _rules(relation: Relation, declared: Declarations, sizes: Sizes) -> _Rules:
    """Returns the rules for the rows of one block, where each row of the relation follows from one stored row."""
    return _Rules(declared, sizes, by_row=declared.blocks is None or _by_row(relation))


def distinct_groups(relation: Relation, columns: frozenset[str], declared: Declarations, sizes: Sizes) -> int | None:
    """Returns in how many groups of these columns one unit can have rows, or None."""
    return _Rules(declared, sizes, by_row=False).rows.combinations(relation, columns)


def pairs_of_unit(
    relation: Relation, keys: Iterable[Key], value: str, declared: Declarations, sizes: Sizes
) -> int | None:
    """Returns how many pairs of group and non-NULL value one unit has at most, or None.

    Source:
        docs/proofs/weights.md, Lemma 5.
    """
    rules = _Rules(declared, sizes, by_row=False).rows
    domains = [key.domain for key in keys]
    public = None if None in domains else prod(len(domain or ()) for domain in domains)
    groups = least(public, rules.combinations(relation, frozenset(id for key in keys for id in key.columns)))
    each = least(rules.values(relation, value), different_values(relation, value, sizes))
    return least(times(groups, each), rules.most(relation, frozenset()))


def rows_in_group(
    relation: Relation, keys: Iterable[Key], declared: Declarations, sizes: Sizes, weight: str | None = None
) -> int | None:
    """Returns what the rows of one unit in one group weigh at most, in rows and at least 1, or None.

    Args:
        weight: The column of stored weights; None where each row weighs 1 at most, and nothing else is known.

    Privacy:
        Of all rows of a unit, those of other blocks among them. Rows of a group agree in the columns of its keys; where
        a key may be NULL they are bounded by a GROUP BY alone, which takes NULL for a value. Stored weights are bounded
        as in `weighed`: those of rows that agree in what tells their stratum, NULL being a value.
    Source:
        docs/proofs/weights.md, Lemmas 4 and 8.
    """
    rules = _Rules(declared, sizes, by_row=declared.blocks is None)
    plain = [key for key in keys if FLOAT64 not in key.types]  # 0.0 and -0.0 are one group, and two values elsewhere
    known = [key for key in plain if key.domain is not None and all(None not in row for row in key.domain)]
    agreeing = frozenset(id for key in known for id in key.columns)
    if rules.is_one(relation, frozenset(id for key in plain for id in key.columns)):
        return 1
    agreed: Agreed = frozenset((id, None) for key in plain for id in key.columns)
    weigh = _rules(relation, declared, sizes).stored.bounds(relation, agreed).get(weight or "")
    most = least(rules.rows.most(relation, agreeing), weigh)
    return None if most is None else max(1, most)


def multiplies(join: Join, declared: Declarations, sizes: Sizes) -> bool:
    """Whether a row of either side of a join may meet any number of rows of the other, by all that is proved."""
    meeting = _Rules(declared, sizes, by_row=False).meeting
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
        self._undated = declared.undated | (declared.own_dates if by_row else frozenset())
        self.rows = RowsOfUnit(sizes, self.units, limited=self._undated)
        self.meeting = FewRows(sizes, self.units, limited=self._undated)
        self.scaled = ScaledRules(self.meeting, self._undated)
        self.stored = StoredRules(self.meeting, self.rows, self._undated)

    def most(self, relation: Relation) -> int | None:
        """Returns the most rows of a unit, at least 1, or None."""
        rows = self.rows.most(relation, frozenset())
        return None if rows is None else max(1, rows)

    def is_one(self, relation: Relation, ids: frozenset[str]) -> bool:
        """Whether no two rows of a unit have the same values in these columns, NULL being one: a GROUP BY made them."""
        match relation:
            case Filter() | Window():
                return self.is_one(relation.source, ids)
            case Project():
                made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
                return self.is_one(relation.source, frozenset(made[id] for id in ids if id in made))
            case Aggregate():
                return ids | self.units(relation) >= set(relation.group_by)
            case _:
                return False

    def units(self, relation: Relation) -> frozenset[str]:
        """Returns the columns that hold the unit; a full join has them in the projection over it alone."""
        is_full = isinstance(relation, Join) and relation.kind == "full"
        return frozenset() if is_full else self._locality(relation).units

    def _locality(self, relation: Relation) -> Locality:
        if (known := self._known.get(id(relation))) is None:
            known = relation, locality(relation, self._declared, lambda below, _: self._locality(below))
            self._known[id(relation)] = known
        return known[1]
