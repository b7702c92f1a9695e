"""Outer joins that keep every row of a public relation: its columns are public keys, with or without private rows.

What is released is grouped over the inner join, where each row has a private row. Afterwards, among noisy and public
tables alone, exactly the combinations of keys that the public relation holds are kept. That is the outer join's answer
for aggregates to which unmatched rows add nothing; others are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dpquery.errors import QueryError, Span
from dpquery.plan import functions
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, children, columns_of, rebuild
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    Join,
    Project,
    Relation,
    Sort,
    SortKey,
    output,
)
from dpquery.plan.types import BOOLEAN, INT64
from dpquery.sql.bind.expressions import conjunction
from dpquery.sql.bind.scope import Context, PublicSide, Scope
from dpquery.units.joins import unique_sets

_STRICT = frozenset(
    ("eq", "ne", "lt", "le", "gt", "ge", "add", "subtract", "multiply", "divide", "int_divide", "modulo")
)
"""Operations that give NULL where one argument is NULL."""

_ADVICE = "Group by columns of the public table, and count a column of the private one."


def start(join: Join, node: exp.Join) -> tuple[Join, PublicSide]:
    """Returns the inner join in place of one that keeps its public left side, and what it would keep."""
    return replace(join, kind="inner"), PublicSide(relation=join.left, node=node.this)


def joined_further(left: Scope, right: Scope, join: Join, node: exp.Join, context: Context) -> PublicSide:
    """Returns the public side after one more join: a left join that rows without private columns cannot meet."""
    side = left.public_side
    if side is not None and right.public_side is None and join.kind == "left" and join.left == left.relation:
        absent = _absent(left, side)
        for own, _ in join.equalities:
            known = _without(own, absent)
            if isinstance(known, Literal) and known.value is None:
                return side
    raise context.unsupported(
        "after a join that keeps every row of a public table, further joins must be left joins of the private table",
        node.this,
        "Join the public tables first, then the private ones by LEFT JOIN.",
    )


def filtered(scope: Scope, conditions: list[Expression], where: exp.Expression | None, context: Context) -> Scope:
    """Returns the scope under WHERE, which may speak of the public side alone."""
    side = scope.public_side
    assert side is not None
    public = {column.id for column in output(side.relation)}
    relation = scope.relation
    for condition in conditions:
        if not {column.id for column in columns_of(condition)} <= public:
            raise _refusal(
                "WHERE on the private side would remove the rows that this join keeps",
                condition.span,
                where,
                context,
                "Put the condition into ON.",
            )
        relation = Filter(source=relation, condition=condition)
        side = replace(side, relation=Filter(source=side.relation, condition=condition))
    return replace(scope, relation=relation, public_side=side)


def must_group(scope: Scope, context: Context) -> None:
    """Raises if rows that an outer join keeps of a public table would be read without grouping."""
    if scope.public_side is not None:
        reason = "a join that keeps every row of a public table is only answered by groups"
        raise context.unsupported(reason, scope.public_side.node, _ADVICE)


def check_groups(keys: Mapping[Expression, Column], aggregate: Aggregate, scope: Scope, context: Context) -> None:
    """Raises unless keys are public and unmatched rows add nothing to any aggregate."""
    side = scope.public_side
    assert side is not None
    public = {column.id for column in output(side.relation)}
    for key in keys:
        if not {column.id for column in columns_of(key)} <= public:
            reason = "this join keeps every row of a public table, so that only columns of that table can be keys"
            raise _refusal(reason, key.span, side.node, context, "Use an inner join to group by private columns.")
    absent = _absent(scope, side)
    counted = rows_counted(keys, aggregate.aggregates, scope, context)
    for made in aggregate.aggregates:
        if made.id not in counted and not _ignores_unmatched(made, absent):
            name = made.function.name.upper()
            raise _refusal(
                f"this {name} would also count rows without a matching private row, which the join keeps",
                made.span,
                side.node,
                context,
                "Count or add up a column of the private table, for example COUNT of its key; or count by a unique key "
                "of the public table, and add up in a query around: SUM(n) FROM (SELECT ..., COUNT(*) AS n ...) AS t.",
            )


def rows_counted(
    keys: Mapping[Expression, Column], aggregates: Sequence[AggregateColumn], scope: Scope, context: Context
) -> frozenset[str]:
    """Returns which aggregates are COUNT(*) of groups of one public row each: without private rows they are 1."""
    side = scope.public_side
    assert side is not None
    named = {key.id for key in keys if isinstance(key, Column)}
    if not any(unique <= named for unique in unique_sets(side.relation, context.catalog.declarations)):
        return frozenset()
    return frozenset(a.id for a in aggregates if a.function is COUNT and a.argument is None and a.filter is None)


def with_unmatched(groups: Relation, counted: Mapping[str, str]) -> Relation:
    """Returns released groups in which one that no private row meets counts the public row that the join keeps.

    Args:
        counted: The columns that count rows, and the ids of what they give.
    """
    one, made = Literal(value=1, type=INT64), []
    for given in output(groups):
        read: Expression = Column(id=given.id, type=given.type)
        read = functions.call("greatest", (read, one)) if given.id in counted else read
        made.append(Computed(id=counted.get(given.id, given.id), name=given.name, expression=read))
    return Project(source=groups, columns=tuple(made))


def with_all_keys(
    released: Relation, keys: Mapping[Expression, Column], side: PublicSide, context: Context
) -> Relation:
    """Returns the released groups whose keys the public side holds, in the order of the keys."""
    if not keys:
        return released
    copies = {column.id: (context.fresh(), key) for key, column in keys.items()}
    given = tuple(Computed(id=copy, name="", expression=key) for copy, key in copies.values())
    distinct = Aggregate(
        source=Project(source=side.relation, columns=given), group_by=tuple(c.id for c in given), aggregates=()
    )
    same = [
        functions.call("is_not_distinct_from", (Column(id=id, type=key.type), Column(id=copy, type=key.type)))
        for id, (copy, key) in copies.items()
    ]
    join = Join(left=released, right=distinct, kind="inner", equalities=(), condition=conjunction(same))
    kept = tuple(Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(released))
    return Sort(source=Project(source=join, columns=kept), keys=tuple(SortKey(column=id) for id in copies))


def _absent(scope: Scope, side: PublicSide) -> frozenset[str]:
    """The columns that are NULL on a row that no private row meets."""
    return frozenset(c.id for c in output(scope.relation)) - {c.id for c in output(side.relation)}


def _ignores_unmatched(made: AggregateColumn, absent: frozenset[str]) -> bool:
    """Whether rows on which the absent columns are NULL do not count: an argument is NULL, or the filter not true."""
    for argument in (made.argument, made.second):
        known = None if argument is None else _without(argument, absent)
        if isinstance(known, Literal) and known.value is None:
            return True
    known = None if made.filter is None else _without(made.filter, absent)
    return isinstance(known, Literal) and known.value is not True


def _without(expression: Expression, absent: frozenset[str]) -> Expression:
    """Returns the expression where the absent columns are NULL, as a constant as far as that decides it."""
    if isinstance(expression, Column):
        return Literal(value=None, type=expression.type) if expression.id in absent else expression
    made = rebuild(expression, tuple(_without(part, absent) for part in children(expression)))
    parts = children(made)
    if parts and all(isinstance(part, Literal) for part in parts):
        return Literal(value=evaluate(made, {}), type=made.type)
    null = Literal(value=None, type=made.type)
    if isinstance(made, Call):
        constants = [part.value for part in parts if isinstance(part, Literal)]
        if made.function in _STRICT and None in constants:
            return null
        if made.function == "and" and False in constants:
            return Literal(value=False, type=BOOLEAN)
    if isinstance(made, Case):
        reached = [(c, r) for c, r in made.branches if not (isinstance(c, Literal) and c.value is not True)]
        results = [*(result for _, result in reached), made.otherwise]
        if all(isinstance(result, Literal) and result.value is None for result in results):
            return null
    return made


def _refusal(reason: str, span: Span | None, node: exp.Expression | None, context: Context, advice: str) -> QueryError:
    error = context.unsupported(reason, node, advice)
    error.span = span or error.span
    return error
