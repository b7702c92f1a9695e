"""Conditions with a subquery: which they are in the parsed tree, and which semi- and anti-joins they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.plan import functions
from dpquery.plan.expr import Case, Expression, Literal
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
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
from dpquery.plan.ranges import UNKNOWN, Range
from dpquery.plan.types import INT64
from dpquery.sql.bind.expressions import conjunction
from dpquery.sql.names.functions import PLAIN

_COMPARISONS: dict[type[exp.Expression], str] = {
    of: PLAIN[of][0] for of in (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
}

_PRESENT = Range(nullable=False)

Pair = tuple[Expression, Expression]
Made = tuple[JoinKind, tuple[Pair, ...], Expression | None]
"""A join: its kind, its equalities, its condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A condition with a subquery.

    Attributes:
        function: How each operand is compared with the subquery's column; "" for EXISTS.
        every: Whether the comparison must hold for all rows of the subquery (ALL), not for one of them (ANY, IN).
        negated: Whether the whole stands under NOT.
        place: The condition without NOT.
    """

    function: str
    every: bool
    negated: bool
    operands: tuple[exp.Expression, ...]
    query: exp.Expression
    place: exp.Expression

    @property
    def is_exists(self) -> bool:
        """Whether it only asks for rows, regardless of their content."""
        return not self.function


def predicate_of(node: exp.Expression) -> Predicate | None:
    """Returns the condition that the tree is, or None if it has another form."""
    negated = False
    while isinstance(node, exp.Paren | exp.Not):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    if isinstance(node, exp.Exists):
        return Predicate(function="", every=False, negated=negated, operands=(), query=node.this, place=node)
    if isinstance(node, exp.In) and node.args.get("query") is not None and not node.expressions:
        operands = _operands(node.this)
        query = node.args["query"]
        return Predicate(function="eq", every=False, negated=negated, operands=operands, query=query, place=node)
    function = _COMPARISONS.get(type(node))
    if function is None or not isinstance(node.expression, exp.Any | exp.All):
        return None
    query, every = node.expression.this, isinstance(node.expression, exp.All)
    if not isinstance(query, exp.Subquery | exp.Select | exp.SetOperation):
        return None
    if function == "ne" and every:  # <> ALL is NOT IN
        function, every, negated = "eq", False, not negated
    operands = _operands(node.this) if function == "eq" and not every else (node.this,)
    return Predicate(function=function, every=every, negated=negated, operands=operands, query=query, place=node)


def _operands(node: exp.Expression) -> tuple[exp.Expression, ...]:
    is_row = isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "ROW")
    return tuple(node.expressions) if is_row else (node,)


def without_order(query: exp.Expression, *, exists: bool) -> exp.Expression:
    """Returns the subquery without what cannot change whether a row is in it: DISTINCT, and for EXISTS a LIMIT of at
    least one row."""
    select = query
    while isinstance(select, exp.Subquery):
        select = select.this
    if not isinstance(select, exp.Select):
        return query
    limit, distinct = select.args.get("limit"), select.args.get("distinct")
    if exists and isinstance(limit, exp.Limit) and select.args.get("offset") is None:
        count = limit.expression
        if isinstance(count, exp.Literal) and not count.is_string and count.name.isdigit() and int(count.name) > 0:
            select.set("limit", None)
            select.set("order", None)
    if distinct is not None and not distinct.args.get("on") and select.args.get("limit") is None:
        select.set("distinct", None)
    return query


def joins_of(
    predicate: Predicate,
    compared: Sequence[Pair],
    left: Relation,
    right: Relation,
    units: frozenset[str],
    catalog: Catalog,
) -> list[Made]:
    """Returns the joins, one after the other, that keep the rows for which the condition is true.

    Args:
        compared: (operand, column of the subquery), each pair of one type.
        units: Columns that hold a privacy unit; rows without one count nowhere, so these are not NULL.
    """
    if predicate.is_exists:
        return [("anti" if predicate.negated else "semi", (), None)]
    if predicate.function == "eq" and not predicate.every:
        if not predicate.negated:
            return [("semi", tuple(compared), None)]
        return _not_in(compared, left, right, units, catalog)
    holds = functions.call(predicate.function, compared[0])
    if predicate.every:  # a row for which it does not hold, or is unknown, decides; negated: one for which it is false
        wanted = functions.call("is_false" if predicate.negated else "is_not_true", (holds,))
        return [("semi" if predicate.negated else "anti", (), wanted)]
    wanted = functions.call("is_not_false", (holds,)) if predicate.negated else holds
    return [("anti" if predicate.negated else "semi", (), wanted)]


def _not_in(
    compared: Sequence[Pair], left: Relation, right: Relation, units: frozenset[str], catalog: Catalog
) -> list[Made]:
    """Returns the joins of NOT IN: rows stay for which every row of the subquery is known to differ."""
    missing = [(may_be_null(a, left, units, catalog), may_be_null(b, right, units, catalog)) for a, b in compared]
    sure = tuple(pair for pair, nulls in zip(compared, missing, strict=True) if not any(nulls))
    if len(sure) == len(compared):
        return [("anti", sure, None)]
    if len(compared) == 1:
        (a, b), one = compared[0], Literal(value=1, type=INT64)
        joins: list[Made] = [("anti", ((a, b),), None)]
        joins += [("anti", ((_where_null(a), one),), None)] if missing[0][0] else []
        joins += [("anti", ((one, _where_null(b)),), None)] if missing[0][1] else []
        return joins
    unsure = [functions.call("is_not_false", (functions.call("eq", p),)) for p in compared if p not in sure]
    return [("anti", sure, conjunction(unsure))]


def _where_null(expression: Expression) -> Expression:
    """Returns 1 where the expression is NULL, else NULL."""
    is_null = functions.call("is_null", (expression,))
    nothing = Literal(value=None, type=INT64)
    return Case(branches=((is_null, Literal(value=1, type=INT64)),), otherwise=nothing, type=INT64)


def may_be_null(expression: Expression, relation: Relation, present: frozenset[str], catalog: Catalog) -> bool:
    """Returns whether no declaration rules out NULL.

    Args:
        present: Columns that are not NULL on any row that counts, such as those of the privacy unit.
    """
    return range_of(expression, known_ranges(relation, catalog) | dict.fromkeys(present, _PRESENT)).nullable


def known_ranges(relation: Relation, catalog: Catalog) -> dict[str, Range]:
    """Returns what declarations say of the values of a relation's columns, as far as they say it."""
    unknown = {column.id: UNKNOWN for column in output(relation)}
    match relation:
        case Scan():
            declared = catalog.tables[relation.table].columns
            return unknown | {column.id: declared[column.name].range for column in relation.columns}
        case Filter() | Sort() | Limit():
            return known_ranges(relation.source, catalog)
        case Window():
            return unknown | known_ranges(relation.source, catalog)
        case Project():
            source = known_ranges(relation.source, catalog)
            return {column.id: range_of(column.expression, source) for column in relation.columns}
        case Join(kind="semi" | "anti" | "left"):
            return unknown | known_ranges(relation.left, catalog)
        case Join(kind="inner" | "cross"):
            return known_ranges(relation.left, catalog) | known_ranges(relation.right, catalog)
        case Aggregate():
            source = known_ranges(relation.source, catalog)
            counts = {a.id: _PRESENT for a in relation.aggregates if a.function.counts}
            return unknown | {id: source[id] for id in relation.group_by} | counts
        case Join() | SetOperation() | Values() | Released():
            return unknown
        case _:
            assert_never(relation)
