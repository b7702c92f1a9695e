"""One SELECT: its source, its columns, and what is done with them; to a scope."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan.expr import Column, Expression, columns_of
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Limit,
    Project,
    Relation,
    Sort,
    SortKey,
    is_private,
    output,
)
from dpquery.sql.bind.boundary import at_boundary, carried_units
from dpquery.sql.bind.grouping import Grouping, is_grouped
from dpquery.sql.bind.late_joins import refusal
from dpquery.sql.bind.ordering import by_all, limited, sort_key
from dpquery.sql.bind.public_side import must_group
from dpquery.sql.bind.scope import Context, Reach, Scope, Visible, with_names
from dpquery.sql.bind.series import series_without_from
from dpquery.sql.bind.split_texts import unnested_in_from
from dpquery.sql.bind.subqueries import JoinedSubqueries
from dpquery.sql.bind.tables import BindQuery, bind_from
from dpquery.sql.bind.windows import Windows, distinct_on, first_rows
from dpquery.sql.names.lists import RANKED, quantiles
from dpquery.sql.parse.parse import span_of
from dpquery.units.locality import NotUnitLocal

MAX_COLUMNS = 100
"""Columns of a result."""
MAX_JOINS = 8
_NAMES = {
    exp.CurrentDate: "current_date",
    exp.Exists: "exists",
    exp.Substring: "substring",
    exp.StrPosition: "position",
}
"""Names of columns that are computed by what has no brackets, or words in them."""


def bind_select(select: exp.Select, context: Context, reach: Reach, bind_query: BindQuery) -> Scope:
    """Returns the scope of one SELECT without its WITH, whose tables are in reach."""
    context.only(
        select,
        *("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset"),
        *("windows", "qualify"),
    )
    if len(select.args.get("joins") or ()) > MAX_JOINS:
        raise context.unsupported(f"a query joins at most {MAX_JOINS} tables", select)
    outer = context.take_outer()
    if select.args.get("from_") is None:
        select = series_without_from(select)
    elif select.find(exp.Explode) is not None:
        select = unnested_in_from(select)

    def subqueries_over(scope: Scope) -> JoinedSubqueries:
        return JoinedSubqueries(context, scope, reach, bind_query)

    source = bind_from(select, context, reach, bind_query, subqueries_over, outer)
    items = _expand_stars(select, source, context)
    if len(items) > MAX_COLUMNS * 10:
        raise context.unsupported(f"a SELECT names at most {MAX_COLUMNS * 10} columns", select)
    order = select.args.get("order")
    sorted_by = [] if order is None else by_all(list(order.expressions), len(items))
    group = select.args.get("group")
    if group is not None and not any(group.args.get(part) for part in ("expressions", "all")):
        context.only(group)
        raise context.unsupported("GROUP BY lists no keys", select)
    below = subqueries_over(source)
    grouped = Grouping(select, source, context, below, items) if is_grouped(select, sorted_by) else None
    if grouped is None:
        must_group(source, context)
        if source.late:
            raise refusal(source.late[0], context)
    windows = Windows(select, source, grouped, below, context)
    bound = [(name, windows.bind(node)) for name, node in items]
    keys = [sort_key(node, items, bound, windows.bind, context) for node in sorted_by]
    first = [sort_key(node, items, bound, windows.bind, context)[0] for node in distinct_on(select)]
    qualify = windows.qualify(items)
    having = select.args.get("having")
    conditions = [] if having is None or grouped is None else grouped.conditions(with_names(having, items, source))
    relation = grouped.finish() if grouped else below.apply(source.relation)
    for condition in conditions:
        relation = Filter(source=relation, condition=condition)
    correlated = grouped.correlated if grouped else source.correlated
    if correlated and (windows.are_used or first):
        reason = "a subquery that reads the query around can hold no window function and no DISTINCT ON"
        raise context.unsupported(reason, select, "Compute it in a subquery of FROM, and join.")
    above = [*(e for _, e in bound), *(e for e, _, _ in keys), *first, *([qualify] if qualify else []), *correlated]
    relation = windows.finish(relation, above)
    if qualify is not None:
        relation = Filter(source=relation, condition=qualify)
    made = _finish(select, relation, bound, keys, first, correlated, context)
    nothing = grouped.over_nothing([expression for _, expression in bound]) if grouped else None
    return replace(made, over_nothing=nothing)


def _expand_stars(select: exp.Select, source: Scope, context: Context) -> list[tuple[str, exp.Expression]]:
    """Returns (name, tree) of each item of the select list, stars replaced by the visible columns."""
    items: list[tuple[str, exp.Expression]] = []
    for node in select.expressions:
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if isinstance(star, exp.Star):
            context.only(star)
            table = node.args.get("table") if isinstance(node, exp.Column) else None
            for column in _starred(source, table):
                name = exp.to_identifier(column.name, quoted=True)
                owner = exp.to_identifier(column.table, quoted=True) if column.table else None
                made = exp.Column(this=name, table=owner)
                made.parent = node  # its place in the text
                items.append((column.name, made))
        else:
            tree: exp.Expression = node.this if isinstance(node, exp.Alias) else node
            named: str = node.alias if isinstance(node, exp.Alias) else _default_name(node, context)
            items += (quantiles(tree, named) if isinstance(tree, RANKED) else []) or [(named, tree)]
    if not items:
        raise context.unsupported("the query selects nothing", select)
    return items


def _starred(source: Scope, table: exp.Expression | None) -> list[Visible]:
    """Returns the columns that a star means; one that USING merged stands under a table's name where it has one."""
    if table is not None:
        return [c for c in source.columns if (c.table or "").casefold() == table.name.casefold()]
    shown = [column for column in source.columns if not column.merged]
    named = {column.id: column for column in source.columns if column.table is not None}
    return [column if column.table is not None else named.get(column.id, column) for column in shown]


def _default_name(node: exp.Expression, context: Context) -> str:
    """Returns the name that PostgreSQL gives to an unnamed output column."""
    match node:
        case exp.Column():
            return node.name
        case exp.Paren() | exp.Filter() | exp.Window() | exp.WithinGroup():
            return _default_name(node.this, context)
        case exp.Subquery() if isinstance(node.this, exp.Select) and len(node.this.expressions) == 1:
            (only,) = node.this.expressions
            return only.alias if isinstance(only, exp.Alias) else _default_name(only, context)
        case exp.Case():
            return "case"
        case exp.CurrentDate() | exp.Exists() | exp.Substring() | exp.StrPosition():
            return _NAMES[type(node)]
        case exp.Func() if not isinstance(node, exp.Connector | exp.Cast):
            span = span_of(node, context.text)
            written = context.text[span.start : span.end].split("(")[0].strip() if span else ""
            if isinstance(node, exp.Extract) and span is not None:
                before = context.text[: span.start].lower().rpartition("(")[0].rstrip()
                written = "date_part" if before.endswith("date_part") else "extract"
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
    first: list[Expression],
    correlated: tuple[Expression, ...],
    context: Context,
) -> Scope:
    """Returns SELECT's projection, then DISTINCT, ORDER BY and LIMIT. `first` are the expressions of DISTINCT ON.

    It keeps columns that the query does not name: those of the unit, and those that correlated conditions read.
    """
    computed = [Computed(id=context.fresh(), name=name, expression=e) for name, e in bound]
    for made in computed:
        context.measure(made.id, made.expression)
    visible = tuple(Visible(name=c.name, table=None, id=c.id, type=c.expression.type) for c in computed)
    hidden: list[Computed] = []

    def column_of(expression: Expression) -> str:
        known = next((c.id for c in (*computed, *hidden) if c.expression == expression), None)
        if known is None:
            hidden.append(Computed(id=(known := context.fresh()), name="", expression=expression))
        return known

    sort_keys = [SortKey(column=column_of(e), descending=down, nulls_first=nulls) for e, down, nulls in keys]
    on = [column_of(expression) for expression in first]
    distinct = select.args.get("distinct")
    if distinct is not None and hidden and not on:
        raise context.unsupported("with DISTINCT, ORDER BY must name selected columns", select.args["order"])
    compared = _compared(relation, correlated)
    units = [unit for unit in carried_units(relation, context) if unit.id not in {c.id for c in compared}]
    relation = Project(source=relation, columns=(*computed, *hidden, *units, *compared))
    if distinct is not None and on:
        context.only(distinct, "on")
        relation = first_rows(relation, on, sort_keys, select, context)
        if is_private(relation):
            sort_keys = []  # they said which row is the first; an order of private rows is not kept
    elif distinct is not None:
        context.only(distinct)
        spans = {made.id: made.expression.span for made in (*computed, *compared)}
        distinct_rows = Aggregate(source=relation, group_by=tuple(spans), aggregates=(), spans=tuple(spans.values()))
        relation = at_boundary(distinct_rows, select, context)
    if sort_keys:
        relation = Sort(source=relation, keys=tuple(sort_keys))
    relation = limited(select, relation, context)
    if correlated and isinstance(relation, Limit):
        reason = "LIMIT in a subquery that reads the query around is not supported"
        raise context.unsupported(reason, select.args.get("limit") or select.args["offset"])
    try:
        if is_private(relation):
            cached_locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        place = select.args.get("order") or select.args.get("limit") or select
        advice = ""
        if select.args.get("group"):
            unit = context.catalog.privacy_unit
            advice = f"Each group is one {unit}: count or average these rows in a query around this one, FROM ( ... )."
        if select.parent is None:  # without ORDER BY and LIMIT it would be refused, too
            raise context.rows_of_units(select, advice) from None
        raise context.unsupported(error.reason, place, advice or error.advice) from None
    return Scope(relation=relation, columns=visible, correlated=correlated)


def _compared(relation: Relation, correlated: tuple[Expression, ...]) -> list[Computed]:
    """Returns the columns of a subquery that conditions which read the query around compare."""
    read = {column.id for condition in correlated for column in columns_of(condition)}
    return [
        Computed(id=c.id, name="", expression=Column(id=c.id, type=c.type)) for c in output(relation) if c.id in read
    ]
