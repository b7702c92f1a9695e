"""One SELECT: its source, its columns, and what is done with them; to a scope."""

from __future__ import annotations

from sqlglot import exp

from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.locality import NotUnitLocal, locality
from dpquery.plan.expr import Expression
from dpquery.plan.logical import Aggregate, Computed, Filter, Project, Relation, Sort, SortKey, is_private
from dpquery.sql.boundary import at_boundary, carried_units
from dpquery.sql.expressions import Binder
from dpquery.sql.grouping import Grouping, is_grouped
from dpquery.sql.ordering import limited, sort_key
from dpquery.sql.parse import span_of
from dpquery.sql.scope import Context, Reach, Scope, Visible
from dpquery.sql.tables import BindQuery, bind_from

MAX_COLUMNS = 100
"""Columns of a result."""
MAX_JOINS = 8


def bind_select(select: exp.Select, context: Context, reach: Reach, bind_query: BindQuery) -> Scope:
    """Returns the scope of one SELECT without its WITH, whose tables are in reach."""
    context.only(
        select,
        *("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset"),
    )
    if len(select.args.get("joins") or ()) > MAX_JOINS:
        raise context.refuse(UnsupportedQueryError, f"a query joins at most {MAX_JOINS} tables", select)
    source = bind_from(select, context, reach, bind_query)
    items = _expand_stars(select, source, context)
    if len(items) > MAX_COLUMNS * 10:
        raise context.refuse(UnsupportedQueryError, f"a SELECT names at most {MAX_COLUMNS * 10} columns", select)
    order = select.args.get("order")
    sorted_by = [] if order is None else list(order.expressions)
    group = select.args.get("group")
    if group is not None and not any(group.args.get(part) for part in ("expressions", "all")):
        context.only(group)
        raise context.refuse(UnsupportedQueryError, "GROUP BY names nothing", select)
    grouped = Grouping(select, source, context, items) if is_grouped(select, sorted_by) else None
    bound = [(name, grouped.bind(node) if grouped else Binder(context, source).bind(node)) for name, node in items]
    keys = [sort_key(node, items, bound, grouped, source, context) for node in sorted_by]
    having = select.args.get("having")
    condition = None if having is None or grouped is None else grouped.condition(having.this)
    relation = grouped.finish() if grouped else source.relation
    if condition is not None:
        relation = Filter(source=relation, condition=condition)
    return _finish(select, relation, bound, keys, context)


def _expand_stars(select: exp.Select, source: Scope, context: Context) -> list[tuple[str, exp.Expression]]:
    """Returns (name, tree) of each item of the select list, stars replaced by the visible columns."""
    items: list[tuple[str, exp.Expression]] = []
    for node in select.expressions:
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if isinstance(star, exp.Star):
            context.only(star)
            table = node.args.get("table") if isinstance(node, exp.Column) else None
            for column in source.columns:
                if table is None or (column.table or "").casefold() == table.name.casefold():
                    name = exp.to_identifier(column.name, quoted=True)
                    owner = exp.to_identifier(column.table, quoted=True) if column.table else None
                    made = exp.Column(this=name, table=owner)
                    made.parent = node  # its place in the text
                    items.append((column.name, made))
        elif isinstance(node, exp.Alias):
            items.append((node.alias, node.this))
        else:
            items.append((_default_name(node, context), node))
    if not items:
        raise context.refuse(UnsupportedQueryError, "the query selects nothing", select)
    return items


def _default_name(node: exp.Expression, context: Context) -> str:
    """Returns the name that PostgreSQL gives to an unnamed output column."""
    match node:
        case exp.Column():
            return node.name
        case exp.Paren() | exp.Filter():
            return _default_name(node.this, context)
        case exp.Case():
            return "case"
        case exp.Func() if not isinstance(node, exp.Connector | exp.Cast):
            span = span_of(node, context.text)
            written = context.text[span.start : span.end].split("(")[0].strip() if span else ""
            return written.lower() if written.isidentifier() else "?column?"
        case exp.Cast():
            return _default_name(node.this, context)
        case _:
            return "?column?"


def _finish(
    select: exp.Select,
    relation: Relation,
    bound: list[tuple[str, Expression]],
    keys: list[tuple[Expression, bool, bool]],
    context: Context,
) -> Scope:
    """Returns SELECT's projection, then DISTINCT, ORDER BY and LIMIT."""
    computed = [Computed(id=context.fresh(), name=name, expression=e) for name, e in bound]
    for made in computed:
        context.measure(made.id, made.expression)
    visible = tuple(Visible(name=c.name, table=None, id=c.id, type=c.expression.type) for c in computed)
    sort_keys: list[SortKey] = []
    hidden: list[Computed] = []
    for expression, descending, nulls_first in keys:
        known = next((c.id for c in (*computed, *hidden) if c.expression == expression), None)
        if known is None:
            hidden.append(Computed(id=(known := context.fresh()), name="", expression=expression))
        sort_keys.append(SortKey(column=known, descending=descending, nulls_first=nulls_first))
    distinct = select.args.get("distinct")
    if distinct is not None and hidden:
        raise context.refuse(
            UnsupportedQueryError, "with DISTINCT, ORDER BY must name selected columns", select.args["order"]
        )
    relation = Project(source=relation, columns=(*computed, *hidden, *carried_units(relation, context)))
    if distinct is not None:
        context.only(distinct)
        spans = {made.id: made.expression.span for made in computed}
        distinct_rows = Aggregate(source=relation, group_by=tuple(spans), aggregates=(), spans=tuple(spans.values()))
        relation = at_boundary(distinct_rows, select, context)
    if sort_keys:
        relation = Sort(source=relation, keys=tuple(sort_keys))
    relation = limited(select, relation, context)
    try:
        if is_private(relation):
            locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        place = select.args.get("order") or select.args.get("limit") or select
        raise context.refuse(UnsupportedQueryError, error.reason, place, error.advice) from None
    return Scope(relation=relation, columns=visible)
