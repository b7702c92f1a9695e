"""Subqueries in expressions, as joins: IN, EXISTS, ANY and ALL as semi- and anti-joins, values as one more column.

A subquery that reads columns of the query around it is decorrelated: the conditions of its WHERE that do so become
conditions of the join, and an aggregation is grouped by what they equate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan import functions
from dpquery.plan.aggregates.choices import MAX, MIN
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, columns_of, conjuncts, substitute
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    is_private,
    output,
)
from dpquery.plan.types import BOOLEAN
from dpquery.sql.bind.asked_groups import of_asked_groups
from dpquery.sql.bind.at_most_one import Rows, rows_of
from dpquery.sql.bind.expressions import Binds, conjunction
from dpquery.sql.bind.joins import equality
from dpquery.sql.bind.mark_joins import Marking, Ties
from dpquery.sql.bind.owner_equality import owner_equality
from dpquery.sql.bind.predicates import Predicate, joins_of, predicate_of, without_order
from dpquery.sql.bind.scope import Context, Reach, Scope
from dpquery.sql.bind.steps import as_step, reads_released, unique_in_released
from dpquery.sql.bind.tables import BindQuery
from dpquery.sql.parse.parse import span_of
from dpquery.units.joins import unique_sets
from dpquery.units.locality import NotUnitLocal

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}

Over = Callable[[Expression, exp.Expression], Expression]
"""Turns an expression over the columns of FROM, at a place, into one over the relation that the subqueries join."""

Pair = tuple[Expression, Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A subquery that waits to be joined.

    Attributes:
        right: Its relation.
        kind: How a value is joined; None for a condition.
        pairs: (expression of the query around, expression of the subquery) that must be equal.
        residual: What else must hold of both.
        predicate: The condition, with its operands and the columns that they are compared with; None for a value.
        mark: The column that is to hold the condition's truth; None where it is to hold on all rows.
    """

    node: exp.Expression
    right: Relation
    kind: JoinKind | None
    pairs: tuple[Pair, ...]
    residual: Expression | None
    predicate: Predicate | None = None
    compared: tuple[Pair, ...] = ()
    mark: str | None = None


class JoinedSubqueries:
    """The subqueries of one SELECT that are read over one relation: the rows of FROM, or the groups."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        reach: Reach,
        bind_query: BindQuery,
        over: Over = lambda expression, _: expression,
        known: dict[exp.Expression, Expression] | None = None,
    ) -> None:
        self._context, self._scope, self._reach, self._bind_query = context, scope, reach, bind_query
        self._over = over
        self._found: list[_Found] = []
        self._ids: set[str] = set()
        self._known = dict(known or {})

    def over_groups(self, over: Over) -> JoinedSubqueries:
        """Returns where subqueries beside aggregates go; those of the grouping keys mean the same there."""
        return JoinedSubqueries(self._context, self._scope, self._reach, self._bind_query, over, self._known)

    def gives(self, id: str) -> bool:
        """Whether a column comes from a subquery."""
        return id in self._ids

    @property
    def are_found(self) -> bool:
        """Whether a subquery waits to be joined."""
        return bool(self._found)

    def value(self, node: exp.Subquery) -> Expression:
        """Returns what stands for a subquery that is used as a value."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._value(node)
        return known

    def takes(self, node: exp.Expression, binder: Binds) -> bool:
        """Whether a condition is IN, EXISTS, ANY or ALL with a subquery; if so, it will be applied to the relation."""
        predicate = predicate_of(node)
        if predicate is not None:
            self._take(node, predicate, [binder.bind(operand) for operand in predicate.operands])
        return predicate is not None

    def mark(self, node: exp.Expression, binder: Binds) -> Expression | None:
        """Returns the truth of a condition that is IN, EXISTS, ANY or ALL with a subquery; None for any other."""
        predicate = predicate_of(node)
        if predicate is None:
            return None
        without_order(predicate.query, exists=predicate.is_exists)  # before the tree is looked up, which it changes
        known = self._known.get(node)
        if known is None:
            operands = [self._over(binder.bind(operand), operand) for operand in predicate.operands]
            known = self._known[node] = Column(id=self._context.fresh(), type=BOOLEAN)
            self._ids.add(known.id)
            self._take(node, predicate, operands, known.id)
        return replace(known, span=span_of(node, self._context.text))

    def _take(
        self, node: exp.Expression, predicate: Predicate, operands: Sequence[Expression], mark: str | None = None
    ) -> None:
        place = predicate.place if predicate.is_exists else node
        inner = self._bind(without_order(predicate.query, exists=predicate.is_exists), place)
        if operands and len(operands) != len(inner.columns):
            raise self._context.unsupported(
                f"{len(operands)} values are compared with {len(inner.columns)} columns", place
            )
        if inner.over_nothing is not None:
            raise self._context.unsupported(
                "a subquery that aggregates all its rows and reads the outer query always has one row",
                predicate.query,
                "Use = instead of IN, or GROUP BY in the subquery.",
            )
        pairs, residual = self._correlation(inner, place)
        found = [Column(id=column.id, type=column.type) for column in inner.columns]
        compared = [self._comparable(a, b, place) for a, b in zip(operands, found, strict=False)]
        self._add(place, inner.relation, None, pairs, residual, predicate, tuple(compared), mark)

    def apply(self, relation: Relation) -> Relation:
        """Returns the relation joined with all that was found so far."""
        found, self._found = self._found, []
        for each in found:
            relation = self._joined(relation, each)
        return relation

    def _value(self, node: exp.Subquery) -> Expression:
        inner = self._bind(node, node)
        if len(inner.columns) != 1:
            raise self._context.unsupported("a subquery that is used as a value has one column", node)
        pairs, residual = self._correlation(inner, node)
        kind: JoinKind = "left"
        if not inner.correlated:
            rows = rows_of(inner.relation, self._context.boundaries)
            kind = "cross" if rows is Rows.ONE else "left"
            unique = rows is not Rows.MANY or self._is_unique(inner.relation, [])
        elif residual is not None:
            raise self._context.unsupported(
                "a subquery that is used as a value can be tied to the outer query only by equality",
                node,
                "Join in FROM, and aggregate there.",
            )
        else:
            unique = inner.over_nothing is not None or self._is_unique(inner.relation, [b for _, b in pairs])
        if not unique:
            raise self._context.unsupported(
                "a subquery that is used as a value may return several rows",
                node,
                "Aggregate in it, for example with MAX, or use IN.",
            )
        self._add(node, inner.relation, kind, pairs)
        column, span = inner.columns[0], span_of(node, self._context.text)
        value = Column(id=column.id, type=column.type, span=span)
        if inner.over_nothing is None or inner.over_nothing[0] is None:
            return value
        nothing = Literal(value=inner.over_nothing[0], type=column.type)
        matched = functions.call("is_not_null", (pairs[0][1],))
        return Case(branches=((matched, value),), otherwise=nothing, type=column.type, span=span)

    def _is_unique(self, relation: Relation, keys: list[Expression]) -> bool:
        """Whether a relation has at most one row for each value of the keys, as far as is declared."""
        given = {key.id for key in keys if isinstance(key, Column)}
        if reads_released(relation):
            return any(unique <= given for unique in unique_in_released(relation, self._context.boundaries))
        if is_private(relation):
            return self._has_key(relation, given)
        return any(unique <= given for unique in unique_sets(relation, self._context.catalog.declarations))

    def _has_key(self, relation: Relation, given: set[str]) -> bool:
        """Whether columns of one private table are among its unique ones: rows that are filtered stay unique."""
        while isinstance(relation, Filter | Project):
            if isinstance(relation, Project):
                made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
                given = {made[id] for id in given if id in made}
            relation = relation.source
        if not isinstance(relation, Scan):
            return False
        names = {column.name for column in relation.columns if column.id in given}
        return any(unique <= names for unique in self._context.catalog.tables[relation.table].unique)

    def _bind(self, node: exp.Expression, place: exp.Expression) -> Scope:
        """Returns the scope of a subquery, which alone may read this query's columns."""
        self._context.count_subquery(place)
        while isinstance(node, exp.Subquery | exp.Paren):
            self._context.only(node, "this")
            node = node.this
        self._context.enclosing.append(self._scope)
        self._context.outer = self._scope if isinstance(node, exp.Select) else None
        inner = self._bind_query(node, self._context, self._reach)
        self._context.enclosing.pop()
        return inner

    def _correlation(self, inner: Scope, node: exp.Expression) -> tuple[tuple[Pair, ...], Expression | None]:
        """Returns (outer expression, inner expression) of the equalities that tie a subquery to this query, and the AND
        of the conditions that are no equalities."""
        given = {column.id for column in output(inner.relation)}
        mine = {c.id for c in self._scope.columns} | {c.id for c in output(self._scope.relation)}
        pairs, others = [], []
        for condition in inner.correlated:
            pair = equality(condition, mine, given)
            if pair is not None:
                pairs.append((self._over(pair[0], node), pair[1]))
            else:
                others.append(self._over_outer(condition, mine, node))
        return tuple(pairs), conjunction(others)

    def _over_outer(self, condition: Expression, mine: set[str], node: exp.Expression) -> Expression:
        """Returns the condition with this query's columns replaced by what they are over the joined relation."""
        read = {column.id: column for column in columns_of(condition) if column.id in mine}
        return substitute(condition, {id: self._over(column, node) for id, column in read.items()})

    def _comparable(self, a: Expression, b: Expression, node: exp.Expression) -> Pair:
        """Returns both sides of a comparison in one type."""
        try:
            made = functions.call("eq", (a, b))
        except (LookupError, TypeError) as error:
            raise self._context.unsupported(str(error).strip("'\""), node) from None
        assert isinstance(made, Call)
        first, second = made.arguments
        return first, second

    def _add(
        self,
        node: exp.Expression,
        right: Relation,
        kind: JoinKind | None,
        pairs: Sequence[Pair],
        residual: Expression | None = None,
        predicate: Predicate | None = None,
        compared: tuple[Pair, ...] = (),
        mark: str | None = None,
    ) -> None:
        self._ids |= {column.id for column in output(right)}
        self._found.append(
            _Found(
                node=node,
                right=right,
                kind=kind,
                pairs=tuple(pairs),
                residual=residual,
                predicate=predicate,
                compared=compared,
                mark=mark,
            )
        )

    def _joined(self, relation: Relation, found: _Found) -> Relation:
        if found.pairs and found.predicate is None:
            found = replace(found, right=of_asked_groups(relation, found.right, found.pairs, self._context))
        if is_private(relation) and not is_private(found.right) and reads_released(found.right):
            found = replace(found, right=as_step(found.right, found.node, self._context))
        if found.predicate is None:
            assert found.kind is not None
            return self._join(relation, found.right, found.node, found.kind, found.pairs, found.residual)
        ties = Ties(pairs=found.pairs, residual=found.residual, compared=found.compared)
        if found.mark is None:
            return self._kept(relation, found.right, found.predicate, ties)
        marking = Marking(
            context=self._context,
            joined=self._kept,
            left_joined=lambda left, right, pairs: self._join(left, right, found.node, "left", pairs, None),
            units=self._units,
        )
        return marking.marked(relation, found.right, found.predicate, ties, found.mark)

    def _kept(self, relation: Relation, right: Relation, predicate: Predicate, ties: Ties) -> Relation:
        """Returns the rows for which a condition is true."""
        units = self._units(relation) | self._units(right)
        made = joins_of(predicate, ties.compared, relation, right, units, self._context.catalog)
        for kind, pairs, condition in made:
            both = [part for part in (ties.residual, condition) if part is not None]
            relation = self._join(relation, right, predicate.place, kind, (*ties.pairs, *pairs), conjunction(both))
        return relation

    def _join(
        self,
        left: Relation,
        right: Relation,
        node: exp.Expression,
        kind: JoinKind,
        pairs: Sequence[Pair],
        condition: Expression | None,
    ) -> Relation:
        if kind in ("semi", "anti"):
            units = self._units(right)
            right, condition = _with_extremes(right, tuple(b for _, b in pairs), units, condition, self._context)
        equalities = [*pairs, *owner_equality(left, right, list(pairs), self._context)]
        join = Join(left=left, right=right, kind=kind, equalities=tuple(equalities), condition=condition)
        join = replace(join, span=self._context.span_around(node))
        try:
            if is_private(join):
                cached_locality(join, self._context.catalog.declarations)
        except NotUnitLocal as error:
            raise self._context.unsupported(error.reason, node, error.advice) from None
        return join

    def _units(self, relation: Relation) -> frozenset[str]:
        return (
            cached_locality(relation, self._context.catalog.declarations).units if is_private(relation) else frozenset()
        )


def _with_extremes(
    right: Relation, keys: tuple[Expression, ...], units: frozenset[str], condition: Expression | None, context: Context
) -> tuple[Relation, Expression | None]:
    """Returns the inner side of a semi- or anti-join and its condition, so that one row of it decides if that can be.

    `EXISTS (... WHERE i.key = o.key AND i.x > o.x)` holds where the greatest `i.x` of the key is greater. So a row
    meets one row, however many the inner side has of its key, and a person's rows cause work that grows with their
    number.

    Args:
        right: The inner side.
        keys: What the join equates on that side.
        units: The columns of that side that tell the privacy unit.
        condition: The rest of the join's condition.
    """
    ids = {column.id for column in output(right)}
    named = [key.id for key in keys if isinstance(key, Column)]
    if condition is None or not units or len(named) < len(keys):
        return right, condition
    group_by = tuple(dict.fromkeys([*named, *sorted(units)]))
    parts = conjuncts(condition)
    deciding = [part for part in parts if not _reads(part) & ids <= set(group_by)]
    if len(deciding) != 1 or (found := _comparison(deciding[0], ids)) is None:
        return right, condition
    function, outer, inner = found
    least, most = (MIN,), (MAX,)
    wanted = {"lt": most, "le": most, "gt": least, "ge": least}.get(function, least + most)
    made = tuple(
        AggregateColumn(id=context.fresh(), name="", function=which, argument=inner, filter=None, type=inner.type)
        for which in wanted
    )
    tests = [functions.call(function, (outer, Column(id=column.id, type=column.type))) for column in made]
    test = tests[0] if len(tests) == 1 else functions.call("or", tests)
    whole = [test if part is deciding[0] else part for part in parts]
    grouped = Aggregate(source=right, group_by=group_by, aggregates=made)
    return grouped, whole[0] if len(whole) == 1 else functions.call("and", whole)


def _comparison(condition: Expression, ids: set[str]) -> tuple[str, Expression, Expression] | None:
    """Returns a comparison of the outer query's expression with one over the inner side, in this order, or None."""
    if not isinstance(condition, Call) or condition.function not in _SWAPPED:
        return None
    function, (outer, inner) = condition.function, condition.arguments
    if _reads(outer) & ids:
        function, outer, inner = _SWAPPED[function], inner, outer
    apart = _reads(inner) and _reads(inner) <= ids and not _reads(outer) & ids
    return (function, outer, inner) if apart and inner.type != BOOLEAN else None


def _reads(expression: Expression) -> set[str]:
    return {column.id for column in columns_of(expression)}
