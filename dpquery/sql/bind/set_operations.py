"""UNION, INTERSECT and EXCEPT: two queries put together; to a scope."""

from __future__ import annotations

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan import functions
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Matched,
    Project,
    Relation,
    Released,
    SetKind,
    SetOperation,
    Sort,
    SortKey,
    is_private,
    output,
    sources,
)
from dpquery.plan.types import Type
from dpquery.sql.bind.boundary import at_boundary, carried_units
from dpquery.sql.bind.ordering import limited
from dpquery.sql.bind.scope import Context, Reach, Scope, Visible
from dpquery.sql.bind.tables import BindQuery
from dpquery.sql.names.functions import carries_only
from dpquery.sql.parse.parse import span_of
from dpquery.units.locality import NotUnitLocal

_WORDS: dict[type[exp.Expression], tuple[str, SetKind, SetKind]] = {
    exp.Union: ("UNION", "union_all", "union_all"),
    exp.Intersect: ("INTERSECT", "intersect_all", "intersect"),
    exp.Except: ("EXCEPT", "except_all", "except"),
}
"""For each node what people call it, and its kind with ALL and without. UNION is DISTINCT over UNION ALL."""


def bind_set_operation(node: exp.SetOperation, context: Context, reach: Reach, bind_query: BindQuery) -> Scope:
    """Returns the scope of a set operation without its WITH, whose tables are in reach."""
    scope = _combined(node, context, reach, bind_query, absorbed=False)
    relation = scope.relation
    order = node.args.get("order")
    if order is not None:
        relation = Sort(source=relation, keys=tuple(_sort_key(key, scope, context) for key in order.expressions))
    relation = limited(node, relation, context)
    _check_local(relation, order or node.args.get("limit") or node, context)
    return Scope(relation=relation, columns=scope.columns)


def _combined(
    node: exp.SetOperation, context: Context, reach: Reach, bind_query: BindQuery, *, absorbed: bool
) -> Scope:
    """Returns the rows of both sides together.

    Args:
        absorbed: Whether a UNION around this one removes duplicates, so that this one need not do it too.
    """
    context.only(node, "with_", "this", "expression", "distinct", "order", "limit", "offset")
    word, every, once = _WORDS[type(node)]
    distinct = bool(node.args.get("distinct"))
    union = isinstance(node, exp.Union)
    sides = [
        _side(part, context, reach, bind_query, absorbed=union and (absorbed or distinct))
        for part in (node.this, node.expression)
    ]
    _check_sides(sides, word, node, context)
    visible, left, right = _matched(sides, word, node, context)
    relation: Relation = SetOperation(
        kind=once if distinct else every,
        left=left,
        right=right,
        columns=(*visible, *_owners(visible, left, right, union, context)),
    )
    _check_local(relation, node, context)
    if union and distinct and not absorbed:
        ids, span = tuple(c.id for c in visible), span_of(node, context.text)
        relation = at_boundary(
            Aggregate(source=relation, group_by=ids, aggregates=(), spans=(span,) * len(ids)), node, context
        )
    columns = tuple(Visible(name=c.name, table=None, id=c.id, type=c.type) for c in visible)
    return Scope(relation=relation, columns=columns)


def _side(node: exp.Expression, context: Context, reach: Reach, bind_query: BindQuery, *, absorbed: bool) -> Scope:
    """Returns the scope of one side; a UNION inside it that is not sorted, limited or named leaves its duplicates."""
    inner = node
    while isinstance(inner, exp.Subquery) and carries_only(inner, "this"):
        inner = inner.this
    if absorbed and isinstance(inner, exp.Union) and carries_only(inner, "this", "expression", "distinct"):
        return _combined(inner, context, reach, bind_query, absorbed=True)
    return bind_query(node, context, reach)


def _check_sides(sides: list[Scope], word: str, node: exp.SetOperation, context: Context) -> None:
    counts = [len(side.columns) for side in sides]
    if counts[0] != counts[1]:
        reason = f"the sides of {word} have {counts[0]} and {counts[1]} columns"
        raise context.unsupported(reason, node, "Select equally many columns on both sides.")
    private = [is_private(side.relation) for side in sides]
    if private[0] is not private[1]:
        place = node.expression if private[1] else node.this
        other = "released" if any(_has_release(side.relation) for side in sides) else "public"
        reason = f"{word} cannot put private rows beside {other} ones"
        raise context.unsupported(reason, place, "Aggregate the private side first.")


def _has_release(relation: Relation) -> bool:
    return isinstance(relation, Released) or any(_has_release(source) for source in sources(relation))


def _matched(
    sides: list[Scope], word: str, node: exp.SetOperation, context: Context
) -> tuple[list[Matched], Relation, Relation]:
    """Returns the columns that names can mean, and both sides with these columns in the types that they share."""
    casts: list[dict[int, Type]] = [{}, {}]
    types = []
    for place, pair in enumerate(zip(sides[0].columns, sides[1].columns, strict=True)):
        shared = _common_type(pair, sides, word, place, node, context)
        types.append(shared)
        for made, column in zip(casts, pair, strict=True):
            if column.type != shared:
                made[place] = shared
    left, right = (_cast(side, made, node, context) for side, made in zip(sides, casts, strict=True))
    visible = []
    for a, b, named, type in zip(left[1], right[1], sides[0].columns, types, strict=True):
        made_column = Matched(id=context.fresh(), name=named.name, type=type, left=a, right=b)
        context.measure(made_column.id, Column(id=a, type=type), Column(id=b, type=type))
        visible.append(made_column)
    return visible, left[0], right[0]


def _common_type(
    pair: tuple[Visible, Visible], sides: list[Scope], word: str, place: int, node: exp.SetOperation, context: Context
) -> Type:
    given = tuple(_constant(side.relation, column) for side, column in zip(sides, pair, strict=True))
    shared, reason = None, ""
    try:
        shared = functions.common_type((pair[0].type, pair[1].type), given)
    except TypeError as error:
        reason = f": {error}"
    if shared is None:
        reason = f"column {place + 1} of {word} is {pair[0].type} on one side and {pair[1].type} on the other{reason}"
        raise context.unsupported(reason, node, "Cast one of them.")
    return shared


def _constant(relation: Relation, column: Visible) -> Expression:
    """Returns the column, or the constant that it holds: constants take the type of what they stand beside."""
    for made in relation.columns if isinstance(relation, Project) else ():
        if made.id == column.id and isinstance(made.expression, Literal):
            return made.expression
    return Column(id=column.id, type=column.type)


def _cast(side: Scope, casts: dict[int, Type], node: exp.SetOperation, context: Context) -> tuple[Relation, list[str]]:
    """Returns a side with some of its columns cast, and the ids of its columns in order."""
    ids = [column.id for column in side.columns]
    if not casts:
        return side.relation, ids
    made = []
    for place, column in enumerate(side.columns):
        expression: Expression = Column(id=column.id, type=column.type)
        if place in casts:
            expression, ids[place] = functions.cast(expression, casts[place]), context.fresh()
            context.measure(ids[place], expression)
        made.append(Computed(id=ids[place], name=column.name, expression=expression))
    kept = [unit for unit in carried_units(side.relation, context) if unit.id not in ids]
    by_id = {column.id: column for column in (*made, *kept)}
    return Project(source=side.relation, columns=tuple(by_id.values())), ids


def _owners(visible: list[Matched], left: Relation, right: Relation, union: bool, context: Context) -> list[Matched]:
    """Returns the unit's column, which UNION keeps although no name means it, where the visible ones do not hold it.

    INTERSECT and EXCEPT compare rows by the columns that are named, and by no others.
    """
    if not union or not is_private(left):
        return []
    units = [cached_locality(side, context.catalog.declarations).units for side in (left, right)]
    if any(c.left in units[0] and c.right in units[1] for c in visible):
        return []
    types = [{c.id: c.type for c in output(side)} for side in (left, right)]
    for a in sorted(units[0]):
        for b in sorted(units[1]):
            if types[0][a] == types[1][b]:
                return [Matched(id=context.fresh(), name="", type=types[0][a], left=a, right=b)]
    return []


def _sort_key(node: exp.Expression, scope: Scope, context: Context) -> SortKey:
    """Returns an ORDER BY item of the whole: an ordinal or the name of a column of the first side."""
    context.only(node, "this", "desc", "nulls_first")
    named = node.this
    if isinstance(named, exp.Literal) and not named.is_string and named.name.isdigit():
        if not 1 <= int(named.name) <= len(scope.columns):
            raise context.unsupported(f"ORDER BY position {named.name} does not exist", named)
        id = scope.columns[int(named.name) - 1].id
    elif isinstance(named, exp.Column) and not isinstance(named.this, exp.Star):
        id = scope.find(named, context).id
    else:
        reason = "ORDER BY after a set operation names columns of its result"
        raise context.unsupported(reason, named, "Put the set operation into a subquery.")
    descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    return SortKey(column=id, descending=descending, nulls_first=nulls_first)


def _check_local(relation: Relation, node: exp.Expression, context: Context) -> None:
    try:
        if is_private(relation):
            cached_locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        raise context.unsupported(error.reason, node, error.advice) from None
