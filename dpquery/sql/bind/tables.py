"""FROM: tables, subqueries and joins, to one relation and the names that are visible in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpquery.catalog import Table
from dpquery.catalog.names import SYNOPSES, composed
from dpquery.errors import UnknownNameError
from dpquery.plan.logical import Scan, ScanColumn, Values
from dpquery.sql.bind.expressions import Subqueries
from dpquery.sql.bind.joins import JoinItem, check_join, join_all, join_where
from dpquery.sql.bind.scope import CommonTable, Context, Reach, Scope, Visible, is_schema
from dpquery.sql.bind.series import SERIES, bind_series, series_in
from dpquery.sql.bind.split_texts import split_in, with_parts
from dpquery.sql.bind.values import bind_values
from dpquery.sql.bind.wording import ADVISED, meant

_NAMES_IN_WHERE = ("snowflake", "duckdb")
"""Dialects in which WHERE may read columns of the select list by name."""

BindQuery = Callable[[exp.Expression, Context, Reach], Scope]
"""Binds a whole query; handed in, because queries stand in FROM and FROM stands in queries."""


def bind_from(
    select: exp.Select,
    context: Context,
    reach: Reach,
    bind_query: BindQuery,
    subqueries_over: Callable[[Scope], Subqueries],
    outer: Scope | None = None,
) -> Scope:
    """Returns the scope of FROM and WHERE: the joined and filtered relation, with every visible name.

    Args:
        subqueries_over: Where the subqueries of WHERE go, for the scope whose columns they may read.
        outer: What WHERE may read of the query around.
    """
    start = select.args.get("from_")
    if start is None:
        scope = Scope(relation=Values(columns=(), rows=((),)), columns=())
    else:
        context.only(start, "this")
        scope = _bind_item(start.this, context, reach, bind_query)
    scope, joins = _bind_joins(scope, select, context, reach, bind_query)
    where = select.args.get("where")
    named: list[tuple[str, exp.Expression]] = []
    if where is not None and context.dialect in _NAMES_IN_WHERE:
        named = [(item.alias, item.this) for item in select.expressions if isinstance(item, exp.Alias)]
    return join_where(scope, joins, where, subqueries_over, outer, context, named)


def _bind_joins(
    scope: Scope, node: exp.Expression, context: Context, reach: Reach, bind_query: BindQuery
) -> tuple[Scope, list[JoinItem]]:
    """Returns what an item of FROM is up to its last text that is cut into rows, and the joins after that."""
    joins: list[JoinItem] = []
    for join in node.args.get("joins") or ():
        check_join(join, context)
        if isinstance(join.this, exp.Unnest | exp.Lateral) and split_in(join.this) is not None:
            scope, joins = with_parts(join_all(scope, joins, context), join, context), []
        else:
            joins.append(JoinItem(scope=_bind_item(join.this, context, reach, bind_query), node=join))
    return scope, joins


def _bind_item(node: exp.Expression, context: Context, reach: Reach, bind_query: BindQuery) -> Scope:
    match node:
        case exp.Table() if isinstance(node.this, exp.Identifier):
            context.only(node, "this", "alias", "db", "catalog")
            alias = node.args.get("alias")
            context.count_table(node)
            common = reach.get(node.name.casefold()) if node.args.get("db") is None else None
            if common is not None:
                return _named(_bind_common(common, context, bind_query), alias, node.name, context)
            return _named(_bind_table(node, context), alias, node.name, context)
        case exp.Values():
            context.only(node, "expressions", "alias")
            context.count_table(node)
            alias = node.args.get("alias")
            names = () if alias is None else tuple(part.name for part in alias.args.get("columns") or ())
            return _named(bind_values(node, context, names), alias, None, context)
        case exp.Subquery() if isinstance(node.this, exp.Table | exp.Subquery) and node.this.args.get("joins"):
            context.only(node, "this", "alias")
            return _named(_bind_brackets(node.this, context, reach, bind_query), node.args.get("alias"), None, context)
        case exp.Subquery():
            context.only(node, "this", "alias")
            return _named(bind_query(node.this, context, reach), node.args.get("alias"), None, context)
        case _:
            listed = series_in(node)
            if listed is not None:
                context.count_table(node)
                return bind_series(node, listed, context)
            written = node.this if isinstance(node, exp.Table) else node
            is_series = isinstance(written, (*SERIES, exp.Unnest))
            advice = ADVISED["generate_series"] if is_series else "Name a declared table."
            raise context.unsupported("FROM can only name tables and subqueries", node, advice)


def _bind_brackets(node: exp.Expression, context: Context, reach: Reach, bind_query: BindQuery) -> Scope:
    """Returns the scope of joins in brackets; the parser hangs them on their first table."""
    alone = node.copy()
    alone.set("joins", None)
    alone.parent = node
    scope, joins = _bind_joins(_bind_item(alone, context, reach, bind_query), node, context, reach, bind_query)
    return join_all(scope, joins, context)


def _bind_common(common: CommonTable, context: Context, bind_query: BindQuery) -> Scope:
    scope = bind_query(common.tree, context, common.reach)
    if not common.names:
        return scope
    if len(common.names) != len(scope.columns):
        raise context.unsupported("WITH names a different number of columns than its query has", common.tree)
    return replace(scope, columns=tuple(replace(c, name=n) for c, n in zip(scope.columns, common.names, strict=True)))


def _bind_table(node: exp.Table, context: Context) -> Scope:
    quoted = bool(node.this.args.get("quoted"))
    is_synopsis = node.db.casefold() == SYNOPSES and node.args.get("catalog") is None
    table = context.catalog.find_table(f"{SYNOPSES}.{node.name}" if is_synopsis else node.name, quoted)
    if table is None or not (is_synopsis or is_schema(node, context.catalog)):
        names = sorted(context.catalog.tables)
        written = ".".join(part.name for part in node.parts)
        advice = f"{meant(node.name, names)}Tables: {', '.join(names)}."
        raise context.refuse(UnknownNameError, f"table {written} does not exist", node, advice)
    return scan_of(table, context)


def scan_of(table: Table, context: Context) -> Scope:
    """Returns a fresh scan of a declared table with all its declared columns."""
    columns = tuple(
        ScanColumn(id=context.fresh(), name=c.name, type=c.type, max_length=c.max_length)
        for c in table.columns.values()
    )
    unit = None
    if table.ownership is not None:
        own = [c.id for c in columns if not table.ownership.path and c.name == table.ownership.column]
        unit = own[0] if own else context.fresh()
    scan = Scan(
        table=table.name,
        columns=columns,
        public=table.public,
        ownership=table.ownership,
        unit=unit,
        row_limit=table.row_limit or context.catalog.defaults.row_limit,
    )
    visible = tuple(
        Visible(name=composed(c.name), table=composed(table.name), id=c.id, type=c.type, stored=True) for c in columns
    )
    return Scope(relation=scan, columns=visible)


def _named(scope: Scope, alias: exp.TableAlias | None, name: str | None, context: Context) -> Scope:
    """Returns the scope under a table alias, with the alias's column names if it gives any."""
    if alias is not None:
        context.only(alias, "this", "columns")
        name = alias.name or name
    if alias is None and name is None:
        return scope
    given = [] if alias is None else [part.name for part in alias.args.get("columns") or ()]
    shown = [column for column in scope.columns if not column.merged]
    if len(given) > len(shown):
        raise context.unsupported(f"{name} has only {len(shown)} columns", alias)
    is_own = alias is None or not alias.name
    columns = [
        replace(c, table=name, name=given[i] if i < len(given) else c.name, stored=c.stored and is_own)
        for i, c in enumerate(shown)
    ]
    return replace(scope, columns=tuple(columns))
