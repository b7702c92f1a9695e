"""FROM: tables, subqueries and joins, to one relation and the names that are visible in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpquery.catalog import Table
from dpquery.errors import UnknownNameError, UnsupportedQueryError
from dpquery.kernel.locality import NotUnitLocal, locality
from dpquery.plan import functions
from dpquery.plan.expr import Call, Column, Expression, columns_of, conjuncts
from dpquery.plan.logical import (
    Filter,
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    ScanColumn,
    Values,
    column,
    is_private,
    output,
    sources,
)
from dpquery.sql.expressions import Binder, Subqueries, conjunct_trees, conjunction
from dpquery.sql.scope import CommonTable, Context, Reach, Scope, Visible

BindQuery = Callable[[exp.Expression, Context, Reach], Scope]
"""Binds a whole query; handed in, because queries stand in FROM and FROM stands in queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """One more relation of FROM: how it joins what stands before it."""

    scope: Scope
    kind: JoinKind
    conditions: tuple[exp.Expression, ...]
    using: tuple[exp.Identifier, ...]
    node: exp.Expression


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
    joins = [_bind_join(node, context, reach, bind_query) for node in select.args.get("joins") or ()]
    where = select.args.get("where")
    everything = _visible(scope, joins, context)
    subqueries = subqueries_over(everything)
    pending = [] if where is None else _where(where.this, everything, subqueries, outer, context)
    for join in joins:
        scope, pending = _join(scope, join, pending, context)
    around = set() if outer is None else {column.id for column in outer.columns}
    read = [{column.id for column in columns_of(condition)} for condition in pending]
    correlated = [condition for condition, ids in zip(pending, read, strict=True) if ids & around]
    own = [(condition, any(map(subqueries.gives, ids))) for condition, ids in zip(pending, read, strict=True)]
    first = [condition for condition, late in own if not late and condition not in correlated]
    last = [condition for condition, late in own if late and condition not in correlated]
    relation = _filtered(subqueries.apply(_filtered(scope.relation, first)), last)
    if outer is not None:
        correlated += _owner_conditions(outer.relation, relation, correlated, context)
    return replace(scope, relation=relation, correlated=tuple(correlated))


def _owner_conditions(
    outer: Relation, inner: Relation, correlated: list[Expression], context: Context
) -> list[Expression]:
    """Returns the equality of units that correlation along an ownership path implies."""
    pairs = [pair for condition in correlated if (pair := _equality(condition, outer, inner)) is not None]
    return [functions.call("eq", pair) for pair in owner_equality(outer, inner, pairs, context)]


def _where(
    tree: exp.Expression, scope: Scope, subqueries: Subqueries, outer: Scope | None, context: Context
) -> list[Expression]:
    """Returns the conjuncts of WHERE but for those that subqueries are: these are kept there."""
    binder = Binder(context, scope, subqueries=subqueries)
    rest = [part for part in conjunct_trees(tree) if not subqueries.takes(part, binder)]
    whole = [tree] if len(rest) == len(conjunct_trees(tree)) else rest
    binder = Binder(context, scope, subqueries=subqueries, outer=outer)
    return [condition for part in whole for condition in conjuncts(binder.condition(part, "WHERE"))]


def _filtered(relation: Relation, conditions: Sequence[Expression]) -> Relation:
    for condition in conditions:
        relation = Filter(source=relation, condition=condition)
    return relation


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
        case exp.Subquery():
            context.only(node, "this", "alias")
            return _named(bind_query(node.this, context, reach), node.args.get("alias"), None, context)
        case _:
            raise context.refuse(
                UnsupportedQueryError, "only tables and subqueries can stand in FROM", node, "Name a declared table."
            )


def _bind_common(common: CommonTable, context: Context, bind_query: BindQuery) -> Scope:
    scope = bind_query(common.tree, context, common.reach)
    if not common.names:
        return scope
    if len(common.names) != len(scope.columns):
        raise context.refuse(UnsupportedQueryError, "WITH names another number of columns than it has", common.tree)
    return replace(scope, columns=tuple(replace(c, name=n) for c, n in zip(scope.columns, common.names, strict=True)))


def _bind_table(node: exp.Table, context: Context) -> Scope:
    quoted = bool(node.this.args.get("quoted"))
    table = context.catalog.find_table(node.name, quoted)
    if table is None or not _is_here(node, context):
        names = ", ".join(sorted(context.catalog.tables))
        written = ".".join(part.name for part in node.parts)
        raise context.refuse(UnknownNameError, f"table {written} does not exist", node, f"Tables: {names}.")
    return scan_of(table, context)


def _is_here(node: exp.Table, context: Context) -> bool:
    """Whether the schema and catalog before a table's name, if any, are those that every table has."""
    schema, catalog = node.args.get("db"), node.args.get("catalog")
    in_schema = schema is None or schema.name.casefold() in ("public", "main")
    return in_schema and (catalog is None or catalog.name.casefold() == context.catalog.dataset.casefold())


def scan_of(table: Table, context: Context) -> Scope:
    """Returns a fresh scan of a declared table with all its declared columns."""
    columns = tuple(ScanColumn(id=context.fresh(), name=c.name, type=c.type) for c in table.columns.values())
    unit = None
    if table.ownership is not None:
        own = [c.id for c in columns if not table.ownership.path and c.name == table.ownership.column]
        unit = own[0] if own else context.fresh()
    scan = Scan(table=table.name, columns=columns, public=table.public, ownership=table.ownership, unit=unit)
    visible = tuple(Visible(name=c.name, table=table.name, id=c.id, type=c.type) for c in columns)
    return Scope(relation=scan, columns=visible)


def _named(scope: Scope, alias: exp.TableAlias | None, name: str | None, context: Context) -> Scope:
    """Returns the scope under a table alias, with the alias's column names if it gives any."""
    if alias is not None:
        context.only(alias, "this", "columns")
        name = alias.name or name
    names = [] if alias is None else [part.name for part in alias.args.get("columns") or ()]
    if len(names) > len(scope.columns):
        raise context.refuse(UnsupportedQueryError, f"{name} has only {len(scope.columns)} columns", alias)
    columns = [replace(c, table=name, name=names[i] if i < len(names) else c.name) for i, c in enumerate(scope.columns)]
    return replace(scope, columns=tuple(columns))


def _bind_join(node: exp.Join, context: Context, reach: Reach, bind_query: BindQuery) -> _Joined:
    context.only(node, "this", "on", "using", "side", "kind")
    side, kind = (node.args.get("side") or "").upper(), (node.args.get("kind") or "").upper()
    if kind not in ("", "INNER", "CROSS", "OUTER") or side not in ("", "LEFT"):
        what = " ".join(part for part in (side, kind) if part)
        raise context.refuse(UnsupportedQueryError, f"{what} JOIN is not supported", node.this, "Use an inner join.")
    on, using = node.args.get("on"), node.args.get("using") or ()
    plain: JoinKind = "left" if side else "inner" if on is not None or using else "cross"
    return _Joined(
        scope=_bind_item(node.this, context, reach, bind_query),
        kind=plain,
        conditions=() if on is None else (on,),
        using=tuple(using),
        node=node,
    )


def _visible(first: Scope, joins: list[_Joined], context: Context) -> Scope:
    """Returns all names together; refuses two relations under one alias."""
    columns, used = first.columns, {(c.table or "").casefold() for c in first.columns}
    for join in joins:
        names = {(c.table or "").casefold() for c in join.scope.columns} - {""}
        if names & used:
            reason = "two tables in FROM have the same name"
            raise context.refuse(UnsupportedQueryError, reason, join.node.this, "Give each an alias.")
        columns, used = columns + join.scope.columns, used | names
    return Scope(relation=first.relation, columns=columns)


def _join(left: Scope, join: _Joined, pending: list[Expression], context: Context) -> tuple[Scope, list[Expression]]:
    """Returns the joined scope, and the conjuncts of WHERE that this join did not take.

    An inner join takes from WHERE the equalities between its sides: that is where comma joins have theirs.
    """
    right = join.scope
    both = Scope(relation=left.relation, columns=left.columns + right.columns)
    own = [part for c in join.conditions for part in conjuncts(Binder(context, both).condition(c, "ON"))]
    hidden = set()
    for name in join.using:
        node = exp.Column(this=name)
        own.append(functions.call("eq", (left.find(node, context), found := right.find(node, context))))
        hidden.add(found.id)
    candidates = own if join.kind == "left" else own + pending
    equalities, taken = [], []
    for condition in candidates:
        pair = _equality(condition, left.relation, right.relation)
        if pair is not None:
            equalities.append(pair)
            taken.append(condition)
    residual = [condition for condition in own if condition not in taken]
    equalities += owner_equality(left.relation, right.relation, equalities, context)
    relation = Join(
        left=left.relation,
        right=right.relation,
        kind="inner" if join.kind == "cross" and equalities else join.kind,
        equalities=tuple(equalities),
        condition=conjunction(residual),
    )
    try:
        if is_private(relation):
            locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        raise context.refuse(UnsupportedQueryError, error.reason, join.node.this, error.advice) from None
    columns = left.columns + tuple(c for c in right.columns if c.id not in hidden)
    return Scope(relation=relation, columns=columns), [c for c in pending if c not in taken]


def _equality(condition: Expression, left: Relation, right: Relation) -> tuple[Expression, Expression] | None:
    """Returns (left side, right side) if the condition equates an expression of each, else None."""
    return equality(condition, {c.id for c in output(left)}, {c.id for c in output(right)})


def equality(condition: Expression, left: set[str], right: set[str]) -> tuple[Expression, Expression] | None:
    """Returns (left side, right side) if the condition equates expressions over these columns, else None."""
    if not (isinstance(condition, Call) and condition.function == "eq"):
        return None
    first, second = condition.arguments
    ids = [left, right]
    for a, b in ((first, second), (second, first)):
        reads = [{c.id for c in columns_of(part)} for part in (a, b)]
        if reads[0] and reads[1] and reads[0] <= ids[0] and reads[1] <= ids[1]:
            return a, b
    return None


def owner_equality(
    left: Relation, right: Relation, equalities: list[tuple[Expression, Expression]], context: Context
) -> list[tuple[Expression, Expression]]:
    """Returns the equality of units that a join along an ownership path implies, if it does not stand there already.

    Adding it is always safe; as a child's row has the owner of the one parent row that it refers to, which the backend
    checks, it removes no pair of rows. So it is right for every kind of join.
    """
    if not (is_private(left) and is_private(right)):
        return []
    sides = [locality(relation, context.catalog.declarations).units for relation in (left, right)]
    pairs = [(a.id, b.id) for a, b in equalities if isinstance(a, Column) and isinstance(b, Column)]
    if any(a in sides[0] and b in sides[1] for a, b in pairs):
        return []
    origins = [(_origin(left, a), _origin(right, b)) for a, b in pairs]
    joined = set(origins) | {(b, a) for a, b in origins}
    for mine in _scans(left):
        for other in _scans(right):
            if mine.unit not in sides[0] or other.unit not in sides[1]:
                continue
            if _follows(mine, other, joined) or _follows(other, mine, joined):
                return [(column(left, mine.unit), column(right, other.unit))]
    return []


def _follows(child: Scan, parent: Scan, joined: set[tuple[str, str]]) -> bool:
    """Whether the joined columns are the first step of the child's ownership, and lead to this parent."""
    if child.ownership is None or not child.ownership.path or child.ownership.path[0].parent != parent.table:
        return False
    children = {c.name: c.id for c in child.columns}
    parents = {c.name: c.id for c in parent.columns}
    return all((children.get(a), parents.get(b)) in joined for a, b, _ in child.ownership.path[0].on)


def _origin(relation: Relation, id: str) -> str:
    """Returns the id that a column has below, where projections only gave it another one."""
    if isinstance(relation, Project):
        made = next((c.expression for c in relation.columns if c.id == id), None)
        id = made.id if isinstance(made, Column) else id
    for source in sources(relation):
        id = _origin(source, id)
    return id


def _scans(relation: Relation) -> list[Scan]:
    if isinstance(relation, Scan):
        return [relation] if relation.unit is not None else []
    return [scan for source in sources(relation) for scan in _scans(source)]
