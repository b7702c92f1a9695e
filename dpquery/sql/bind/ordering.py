"""ORDER BY, LIMIT and OFFSET."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpquery.plan.expr import Expression
from dpquery.plan.logical import Limit, Relation
from dpquery.sql.bind.scope import Context


def by_all(sorted_by: list[exp.Expression], count: int) -> list[exp.Expression]:
    """Returns the items of ORDER BY; ALL is each column of the select list by its place."""
    only = sorted_by[0] if len(sorted_by) == 1 else None
    word = only.this if isinstance(only, exp.Ordered) else None
    if not isinstance(word, exp.Var | exp.Column) or word.sql().upper() != "ALL":
        return sorted_by
    assert only is not None
    made = []
    for place in range(1, count + 1):
        made.append(one := only.copy())
        one.set("this", exp.Literal.number(place))
        one.parent = only.parent
    return made


def sort_key(
    node: exp.Expression,
    items: list[tuple[str, exp.Expression]],
    bound: list[tuple[str, Expression]],
    bind: Callable[[exp.Expression], Expression],
    context: Context,
) -> tuple[Expression, bool, bool]:
    """Returns (expression, descending, NULLs first) of an ORDER BY item: ordinal, output name or expression."""
    descending, nulls_first = False, False
    if isinstance(node, exp.Ordered):
        context.only(node, "this", "desc", "nulls_first")
        descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        position = int(node.name)
        if not 1 <= position <= len(items):
            raise context.unsupported(f"ORDER BY position {position} does not exist", node)
        return bound[position - 1][1], descending, nulls_first
    if isinstance(node, exp.Column) and not node.args.get("table"):
        for name, expression in bound:
            if name.casefold() == node.name.casefold():
                return expression, descending, nulls_first
    return bind(node), descending, nulls_first


def limited(select: exp.Query, relation: Relation, context: Context) -> Relation:
    """Returns the relation within the LIMIT and OFFSET of a query, if it has any."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if limit is None and offset is None:
        return relation
    count = None
    if isinstance(limit, exp.Fetch):
        context.only(limit, "direction", "count", "limit_options")
        options = limit.args.get("limit_options")
        if options is not None:
            context.only(options, "rows")
        count = _whole(limit.args.get("count"), context) if limit.args.get("count") is not None else 1
    elif limit is not None:
        context.only(limit, "expression")
        count = _whole(limit.expression, context)
    skipped = 0
    if offset is not None:
        context.only(offset, "expression")
        skipped = _whole(offset.expression, context)
    return Limit(source=relation, count=count, offset=skipped)


def _whole(node: exp.Expression | None, context: Context) -> int:
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and len(node.name) < 19):
        raise context.unsupported("LIMIT and OFFSET take a whole number", node)
    return int(node.name)
