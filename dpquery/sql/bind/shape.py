"""What a query would give, by its text and the catalog alone: names and types of columns, and whether rows are single.

It is asked of queries that will not be answered too: of those for rows of single units, whose columns tools want to
know, and of those whose text says that no row comes (LIMIT 0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.catalog.names import is_synopsis
from dpquery.errors import QueryError
from dpquery.plan.logical import is_private
from dpquery.plan.noisy_columns import noisy_columns
from dpquery.plan.types import Type
from dpquery.sql.bind.aggregates import has_aggregate
from dpquery.sql.bind.query import bind_query
from dpquery.sql.bind.scope import Context, Scope
from dpquery.sql.parse.parameters import Given
from dpquery.sql.parse.parse import Tree, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultShape:
    """The columns of a result.

    Attributes:
        columns: Name and type of each, in order; names may repeat, as in SQL.
        is_row_level: Whether its rows would be those of single privacy units, so that it is refused.
        is_empty: Whether the text alone says that no row comes out.
        noisy: The places of the columns that would carry noise; over a synopsis those that aggregate its rows.
    """

    columns: tuple[tuple[str, Type], ...]
    is_row_level: bool
    is_empty: bool
    noisy: frozenset[int] = frozenset()


def shape(text: str, catalog: Catalog, params: Given = None, dialect: str = "postgres") -> ResultShape:
    """Returns the shape of one SELECT statement. Reads no data.

    Raises:
        QueryError: A name that does not exist, or SQL that is not known; with its place in the text.
    """
    try:
        tree = parse(text, dialect, params)
        if dialect == "postgres":
            _fold(tree)
        is_empty = says_empty(tree)
        context = Context(text=text, catalog=catalog, dialect=dialect)
        scope = bind_columns(tree, context)
        is_row_level = is_private(scope.relation)
        noisy = frozenset() if is_row_level else _noisy(scope, context)
    except QueryError as error:
        raise error.locate(text) from None
    columns = tuple((column.name, column.type) for column in scope.columns)
    return ResultShape(columns=columns, is_row_level=is_row_level, is_empty=is_empty, noisy=noisy)


def _noisy(scope: Scope, context: Context) -> frozenset[int]:
    """Returns the places of the columns that carry noise."""
    ids = noisy_columns(scope.relation, lambda number: frozenset(context.boundaries[number].group_by), is_synopsis)
    return frozenset(place for place, column in enumerate(scope.columns) if column.id in ids)


def bind_columns(tree: Tree, context: Context) -> Scope:
    """Returns the scope of a query, also of one for rows of single units in an order or with a limit.

    Args:
        context: A new one, that no other query shares; it gets the boundaries that were found.
    """
    own = replace(context, boundaries=[], families=[], measured={}, sizes={})
    try:
        scope = bind_query(tree.copy(), own, {})
        context.boundaries.extend(own.boundaries)
        return scope
    except QueryError:
        plain = _without_order(tree)
        found = None if plain is None else _row_level(plain, context)
        if found is None:
            raise
        return found


def _fold(tree: Tree) -> None:
    """Writes names without quotes in small letters, as PostgreSQL reads them."""
    for name in tree.find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.name.lower())


def _row_level(tree: Tree, context: Context) -> Scope | None:
    """Returns the scope of a query for single rows without its LIMIT, or None if it is refused for another reason."""
    try:
        scope = bind_query(tree, context, {})
    except QueryError:
        return None
    return scope if is_private(scope.relation) else None


def _without_order(tree: Tree) -> Tree | None:
    """Returns the query with neither ORDER BY nor LIMIT, which mean something for rows of single units alone."""
    plain = tree.copy()
    found = False
    for select in plain.find_all(exp.Select):
        for part in ("limit", "offset", "order"):
            if select.args.get(part) is not None:
                select.set(part, None)
                found = True
    return plain if found else None


def says_empty(tree: exp.Expression) -> bool:
    """Whether a query has no rows for any data: LIMIT 0, or WHERE with a constant that is false."""
    limit = tree.args.get("limit")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression if limit is not None else None
    if isinstance(count, exp.Literal) and not count.is_string and count.name == "0":
        return True
    if not isinstance(tree, exp.Select) or tree.args.get("having") is not None:
        return False
    if tree.args.get("group") is None and any(has_aggregate(item) for item in tree.expressions):
        return False  # a total has a row even of nothing
    where = tree.args.get("where")
    if where is not None and any(is_false(part) for part in _conjuncts(where.this)):
        return tree.args.get("group") is None or not _has_sets(tree.args["group"])
    source = tree.args.get("from_")
    inner = source.this if source is not None and not tree.args.get("joins") else None
    return isinstance(inner, exp.Subquery) and tree.args.get("group") is None and says_empty(inner.this)


def _has_sets(group: exp.Group) -> bool:
    """Whether a GROUP BY may have a total, which has a row even of nothing."""
    return any(isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube) for node in group.walk()) or any(
        group.args.get(part) for part in ("grouping_sets", "rollup", "cube", "totals")
    )


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    inner: exp.Expr = node.unnest() if isinstance(node, exp.Paren) else node
    if type(inner) is exp.And:
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return [inner]


def is_false(node: exp.Expr) -> bool:
    """Whether a condition is a constant that is false, as tools write it: FALSE, 1 = 0, 1 <> 1, 0 = 1."""
    if isinstance(node, exp.Boolean):
        return not node.this
    if isinstance(node, exp.EQ | exp.NEQ):
        sides = [side for side in (node.this, node.expression) if isinstance(side, exp.Literal)]
        if len(sides) == 2 and sides[0].is_string == sides[1].is_string:
            if not sides[0].is_string and not all(side.name.isdigit() for side in sides):
                return False
            same = sides[0].name == sides[1].name if sides[0].is_string else int(sides[0].name) == int(sides[1].name)
            return same is isinstance(node, exp.NEQ)
    return False
