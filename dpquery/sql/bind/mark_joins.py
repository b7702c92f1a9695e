"""Conditions with a subquery that are read as values: the rows with one more column, which is true, false or NULL.

The values of the columns that a condition reads, for which it is true, are a relation without repetitions; joined back
to the rows it meets each once at most. So no row is added or removed, and a row of one unit meets rows of it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpquery.plan import functions
from dpquery.plan.canonical import Names, copied, rename
from dpquery.plan.expr import Case, Column, Expression, Literal, columns_of
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, column, output
from dpquery.plan.types import BOOLEAN, INT64
from dpquery.sql.bind.predicates import Pair, Predicate, may_be_null
from dpquery.sql.bind.scope import Context
from dpquery.sql.bind.steps import sample

Joined = Callable[[Relation, Relation, Predicate, "Ties"], Relation]
"""Returns the rows of the first relation for which the condition over the second is true."""
LeftJoined = Callable[[Relation, Relation, Sequence[Pair]], Relation]
Units = Callable[[Relation], frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """What ties a subquery to the rows around: equalities, other conditions, and the values that are compared."""

    pairs: tuple[Pair, ...]
    residual: Expression | None
    compared: tuple[Pair, ...]

    def read(self) -> dict[str, Column]:
        """Returns all columns that these expressions read."""
        parts = [part for pair in (*self.pairs, *self.compared) for part in pair]
        found = [
            c for part in (*parts, *([self.residual] if self.residual is not None else [])) for c in columns_of(part)
        ]
        return {c.id: Column(id=c.id, type=c.type) for c in found}

    def renamed(self, names: Names) -> Ties:
        """Returns the same over renamed columns."""
        residual = None if self.residual is None else rename(self.residual, names)
        pairs, compared = (
            tuple((rename(a, names), rename(b, names)) for a, b in part) for part in (self.pairs, self.compared)
        )
        return Ties(pairs=pairs, residual=residual, compared=compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marking:
    """How the rows of a relation are marked; the functions make joins, and say which columns hold the unit."""

    context: Context
    joined: Joined
    left_joined: LeftJoined
    units: Units

    def marked(self, relation: Relation, right: Relation, predicate: Predicate, ties: Ties, id: str) -> Relation:
        """Returns the relation with one more column, `id`: the truth of the condition on each row."""
        kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(relation)]
        is_known = predicate.is_exists or not self._may_be_unknown(relation, right, ties)
        plain = predicate.is_exists or (predicate.function == "eq" and not predicate.every)
        equal = (*ties.pairs, *ties.compared)
        if is_known and plain and equal and ties.residual is None:
            self.joined(relation, right, predicate, ties)  # which refuses what WHERE would refuse
            relation, met = self._by_keys(relation, right, equal)
            made = functions.call("not", (met,)) if predicate.negated else met
        else:
            relation, made = self._by_rows(relation, right, predicate, ties)
            if not is_known:
                opposite = replace(predicate, negated=not predicate.negated)
                relation, is_false = self._by_rows(relation, right, opposite, ties)
                branches = ((made, _truth(True)), (is_false, _truth(False)))
                made = Case(branches=branches, otherwise=_truth(None), type=BOOLEAN)
        return Project(source=relation, columns=(*kept, Computed(id=id, name="", expression=made)))

    def _may_be_unknown(self, relation: Relation, right: Relation, ties: Ties) -> bool:
        units, catalog = self.units(relation) | self.units(right), self.context.catalog
        return any(
            may_be_null(a, relation, units, catalog) or may_be_null(b, right, units, catalog) for a, b in ties.compared
        )

    def _by_keys(self, relation: Relation, right: Relation, equal: Sequence[Pair]) -> tuple[Relation, Expression]:
        """Returns the relation joined with the different keys of the subquery, and whether a row meets one."""
        given, names = self._copy(right)
        keys = [rename(b, names) for _, b in equal]
        units = [column(given, id) for id in sorted(self.units(given))]
        relation_of_keys, ids = self._distinct(given, [*keys, *units])
        pairs = [(a, column(relation_of_keys, id)) for (a, _), id in zip(equal, ids, strict=False)]
        return self._met(relation, relation_of_keys, pairs)

    def _by_rows(
        self, relation: Relation, right: Relation, predicate: Predicate, ties: Ties
    ) -> tuple[Relation, Expression]:
        """Returns the relation joined with what its rows hold for which the condition is true, and whether one does."""
        given = {c.id for c in output(relation)}
        units = self.units(relation)
        read = {id: c for id, c in ties.read().items() if id in given} | {id: column(relation, id) for id in units}
        if not read:
            raise self.context.unsupported(
                "EXISTS without a condition on the rows around it can be used in WHERE alone",
                predicate.place,
                "Equate one of its columns with a column of the outer query, or count its rows.",
            )
        rows, names = self._copy(relation)
        inner, inner_names = self._copy(right)
        rows = self.joined(rows, inner, predicate, ties.renamed(names | inner_names))
        keys = [part for c in read.values() for part in self._comparable(c, relation, units)]
        found, ids = self._distinct(rows, [rename(key, names) for key in keys])
        return self._met(relation, found, [(key, column(found, id)) for key, id in zip(keys, ids, strict=True)])

    def _comparable(self, read: Column, relation: Relation, units: frozenset[str]) -> list[Expression]:
        """Returns expressions without NULL that are equal where a column is, NULL being equal to NULL."""
        if not may_be_null(read, relation, units, self.context.catalog):
            return [read]
        default = Literal(value=sample(read.type, 0), type=read.type)
        none, one = (Literal(value=number, type=INT64) for number in (0, 1))
        is_null = Case(branches=((functions.call("is_null", (read,)), one),), otherwise=none, type=INT64)
        return [functions.call("coalesce", (read, default)), is_null]

    def _met(self, relation: Relation, found: Relation, pairs: Sequence[Pair]) -> tuple[Relation, Expression]:
        return self.left_joined(relation, found, pairs), functions.call("is_not_null", (pairs[0][1],))

    def _copy(self, relation: Relation) -> tuple[Relation, Names]:
        return copied(relation, self.context.fresh)

    def _distinct(self, relation: Relation, keys: Sequence[Expression]) -> tuple[Aggregate, list[str]]:
        """Returns the different values of some expressions, and the column of each."""
        computed = {key: self.context.fresh() for key in keys if not isinstance(key, Column)}
        if computed:
            kept = [Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(relation)]
            made = [Computed(id=id, name="", expression=key) for key, id in computed.items()]
            relation = Project(source=relation, columns=(*kept, *made))
        ids = [key.id if isinstance(key, Column) else computed[key] for key in keys]
        return Aggregate(source=relation, group_by=tuple(dict.fromkeys(ids)), aggregates=()), ids


def _truth(value: bool | None) -> Literal:
    return Literal(value=value, type=BOOLEAN)
