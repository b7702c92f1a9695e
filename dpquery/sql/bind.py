"""Parsed tree plus catalog to logical plan: names and types resolved, split at the privacy boundary.

Whatever is not known here is refused; after this stage the text is needed for error messages only.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.errors import UnsupportedQueryError
from dpquery.kernel.locality import NotUnitLocal, locality
from dpquery.plan.expr import Column, Expression, Literal, children, rebuild
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Limit,
    LogicalPlan,
    Project,
    Relation,
    Released,
    Sort,
    SortKey,
    is_private,
    output,
)
from dpquery.sql.aggregates import PRIVATE, Collector, has_aggregate
from dpquery.sql.expressions import Binder
from dpquery.sql.parse import Tree, span_of
from dpquery.sql.scope import CommonTable, Context, Reach, Scope, Visible
from dpquery.sql.tables import bind_from

MAX_COLUMNS = 100
MAX_JOINS = 8


def bind(tree: Tree, catalog: Catalog, text: str) -> LogicalPlan:
    """Returns the logical plan of a query.

    Args:
        tree: What `parse` gave for `text`.
        catalog: The declared tables; nothing else can be named.
    Raises:
        QueryError: What is refused, with its place in the text.
    """
    context = Context(text=text, catalog=catalog)
    scope = _bind_query(tree, context, {})
    if is_private(scope.relation):
        raise context.refuse(
            UnsupportedQueryError,
            f"the result would hold rows of single privacy units ({catalog.privacy_unit})",
            tree,
            "Aggregate them, for example with COUNT(*), or AVG over a subquery that groups by the unit.",
        )
    if len(scope.columns) > MAX_COLUMNS:
        raise context.refuse(UnsupportedQueryError, f"a result has at most {MAX_COLUMNS} columns", tree)
    return LogicalPlan(boundaries=tuple(context.boundaries), result=_with_names(scope))


def _with_names(scope: Scope) -> Relation:
    """Returns the relation with its visible columns only, each under a name of its own."""
    given, used = {visible.name for visible in scope.columns}, set[str]()
    columns = []
    for visible in scope.columns:
        name, number = visible.name, 1
        while name in used or (number > 1 and name in given):
            number += 1
            name = f"{visible.name}_{number}"
        used.add(name)
        columns.append(Computed(id=visible.id, name=name, expression=Column(id=visible.id, type=visible.type)))
    return Project(source=scope.relation, columns=tuple(columns))


def _bind_query(node: exp.Expression, context: Context, reach: Reach) -> Scope:
    match node:
        case exp.Subquery():
            context.only(node, "this")
            return _bind_query(node.this, context, reach)
        case exp.Select():
            return _bind_select(node, context, _with(node, context, reach))
        case _:
            kind = type(node).__name__.upper()
            raise context.refuse(UnsupportedQueryError, f"{kind} is not supported", node, "Write one SELECT.")


def _with(select: exp.Select, context: Context, reach: Reach) -> Reach:
    clause = select.args.get("with_")
    if clause is None:
        return reach
    context.only(clause, "expressions")
    extended: Mapping[str, CommonTable] = dict(reach)
    for part in clause.expressions:
        context.only(part, "this", "alias")
        alias = part.args["alias"]
        context.only(alias, "this", "columns")
        names = tuple(column.name for column in alias.args.get("columns") or ())
        common = CommonTable(tree=part.this, names=names, reach=extended)
        extended = {**extended, alias.name.casefold(): common}
    return extended


def _bind_select(select: exp.Select, context: Context, reach: Reach) -> Scope:
    context.only(
        select,
        *("with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset"),
    )
    if len(select.args.get("joins") or ()) > MAX_JOINS:
        raise context.refuse(UnsupportedQueryError, f"a query joins at most {MAX_JOINS} tables", select)
    source = bind_from(select, context, reach, _bind_query)
    items = _expand_stars(select, source, context)
    if len(items) > MAX_COLUMNS * 10:
        raise context.refuse(UnsupportedQueryError, f"a SELECT names at most {MAX_COLUMNS * 10} columns", select)
    order = select.args.get("order")
    sorted_by = [] if order is None else list(order.expressions)
    group = select.args.get("group")
    if group is not None and not group.args.get("expressions"):
        context.only(group)
        raise context.refuse(UnsupportedQueryError, "GROUP BY names nothing", select)
    grouped = _Grouping(select, source, context) if _is_grouped(select, sorted_by) else None
    bound = [(name, grouped.bind(node) if grouped else Binder(context, source).bind(node)) for name, node in items]
    keys = [_sort_key(node, items, bound, grouped, source, context) for node in sorted_by]
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


def _is_grouped(select: exp.Select, sorted_by: list[exp.Expression]) -> bool:
    trees = [*select.expressions, *sorted_by]
    return bool(select.args.get("group") or select.args.get("having") or any(has_aggregate(tree) for tree in trees))


class _Grouping:
    """One SELECT's GROUP BY: its keys, the aggregates found so far, and the relation they make in the end."""

    def __init__(self, select: exp.Select, source: Scope, context: Context) -> None:
        self._select, self._source, self._context = select, source, context
        self._collector = Collector(context=context, scope=source)
        self._keys: dict[Expression, Column] = {}
        group = select.args.get("group")
        if group is not None:
            context.only(group, "expressions")
            for node in group.expressions:
                self._add_key(self._key_tree(node))

    def bind(self, node: exp.Expression) -> Expression:
        """Returns an expression over the keys and the aggregates."""
        return self._over_groups(Binder(self._context, self._source, self._collector).bind(node), node)

    def condition(self, node: exp.Expression) -> Expression:
        """Returns HAVING's condition over the keys and the aggregates."""
        bound = Binder(self._context, self._source, self._collector).condition(node, "HAVING")
        return self._over_groups(bound, node)

    def finish(self) -> Relation:
        """Returns the aggregation, or the released table where it is a privacy boundary."""
        source = self._source.relation
        computed = {key: column for key, column in self._keys.items() if not isinstance(key, Column)}
        if computed:
            kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(source)]
            made = [Computed(id=column.id, name="", expression=key) for key, column in computed.items()]
            source = Project(source=source, columns=(*kept, *made))
        spans = {column.id: key.span for key, column in reversed(self._keys.items())}
        keys = tuple(dict.fromkeys(column.id for column in self._keys.values()))
        aggregate = Aggregate(
            source=source,
            group_by=keys,
            aggregates=tuple(self._collector.columns),
            spans=tuple(spans[key] for key in keys),
        )
        return _at_boundary(aggregate, self._select, self._context)

    def _key_tree(self, node: exp.Expression) -> exp.Expression:
        """Returns the tree of a GROUP BY item: an ordinal, an output name that is no column, or an expression."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            position = int(node.name)
            if not 1 <= position <= len(self._select.expressions):
                raise self._context.refuse(UnsupportedQueryError, f"GROUP BY position {position} does not exist", node)
            item: exp.Expression = self._select.expressions[position - 1]
            return item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Column) and not node.args.get("table"):
            visible = {column.name.casefold() for column in self._source.columns}
            if node.name.casefold() not in visible:
                for item in self._select.expressions:
                    if isinstance(item, exp.Alias) and item.alias.casefold() == node.name.casefold():
                        named: exp.Expression = item.this
                        return named
        return node

    def _add_key(self, node: exp.Expression) -> None:
        key = Binder(self._context, self._source).bind(node)
        if isinstance(key, Literal):
            raise self._context.refuse(UnsupportedQueryError, "GROUP BY a constant has no meaning", node)
        id = key.id if isinstance(key, Column) else self._context.fresh()
        if not isinstance(key, Column):
            self._context.measure(id, key)
        self._keys.setdefault(key, Column(id=id, type=key.type))

    def _over_groups(self, bound: Expression, node: exp.Expression) -> Expression:
        """Returns the expression with keys replaced by their columns; nothing else of the source may remain."""
        if bound in self._keys:
            return self._keys[bound]
        if isinstance(bound, Column) and bound.id not in {a.id for a in self._collector.columns}:
            name = next(c.name for c in self._source.columns if c.id == bound.id)
            error = self._context.refuse(
                UnsupportedQueryError,
                f"column {name} stands neither in GROUP BY nor in an aggregate",
                node,
                "Add it to GROUP BY, or aggregate it.",
            )
            error.span = bound.span or error.span
            raise error
        return rebuild(bound, tuple(self._over_groups(part, node) for part in children(bound)))


def _at_boundary(aggregate: Aggregate, node: exp.Expression, context: Context) -> Relation:
    """Returns the aggregation itself where it is unit-local or public, else the released table that stands for it."""
    if not is_private(aggregate.source):
        return aggregate
    try:
        locality(aggregate, context.catalog.declarations)
        return aggregate
    except NotUnitLocal:
        pass
    for column in aggregate.aggregates:
        if column.function not in PRIVATE:
            error = context.refuse(
                UnsupportedQueryError,
                f"{column.function.upper()} over different privacy units has no private mechanism here",
                node,
                "COUNT, SUM, AVG, VAR, STDDEV, MIN, MAX, MEDIAN, quantiles and MODE have.",
            )
            error.span = column.span or error.span
            raise error
    context.boundaries.append(aggregate)
    return Released(index=len(context.boundaries) - 1, columns=output(aggregate))


def _sort_key(
    node: exp.Expression,
    items: list[tuple[str, exp.Expression]],
    bound: list[tuple[str, Expression]],
    grouped: _Grouping | None,
    source: Scope,
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
            raise context.refuse(UnsupportedQueryError, f"ORDER BY position {position} does not exist", node)
        return bound[position - 1][1], descending, nulls_first
    if isinstance(node, exp.Column) and not node.args.get("table"):
        for name, expression in bound:
            if name.casefold() == node.name.casefold():
                return expression, descending, nulls_first
    expression = grouped.bind(node) if grouped else Binder(context, source).bind(node)
    return expression, descending, nulls_first


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
    relation = Project(source=relation, columns=(*computed, *hidden, *_carried(relation, context)))
    if distinct is not None:
        context.only(distinct)
        spans = {made.id: made.expression.span for made in computed}
        distinct_rows = Aggregate(source=relation, group_by=tuple(spans), aggregates=(), spans=tuple(spans.values()))
        relation = _at_boundary(distinct_rows, select, context)
    if sort_keys:
        relation = Sort(source=relation, keys=tuple(sort_keys))
    relation = _limit(select, relation, context)
    try:
        if is_private(relation):
            locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        place = select.args.get("order") or select.args.get("limit") or select
        raise context.refuse(UnsupportedQueryError, error.reason, place, error.advice) from None
    return Scope(relation=relation, columns=visible)


def _carried(relation: Relation, context: Context) -> list[Computed]:
    """Returns the unit's columns, which a projection of private rows keeps although the query does not name them."""
    if not is_private(relation):
        return []
    units = locality(relation, context.catalog.declarations).units
    given = {column.id: column for column in output(relation)}
    return [
        Computed(id=id, name="", expression=Column(id=id, type=given[id].type)) for id in sorted(units) if id in given
    ]


def _limit(select: exp.Select, relation: Relation, context: Context) -> Relation:
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
        raise context.refuse(UnsupportedQueryError, "LIMIT and OFFSET take a whole number", node)
    return int(node.name)
