"""Questions that the declarations answer: values of columns with public keys, bounds of columns, missing NULLs. Free.

The answers say what is declared, not what is stored, and a notice tells so. Nothing here has access to data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.catalog.names import SYNOPSES
from dpquery.catalog.tables import ColumnDeclaration, Table
from dpquery.data.arrow import arrow_type
from dpquery.kernel.selection import sort_key
from dpquery.plan.types import BOOLEAN, Value
from dpquery.sql.bind.shape import ResultShape

VALUES = "no charge: the values of {} are those that are declared, whether or not they occur"
BOUNDS = "no charge: MIN and MAX are the declared bounds, whether or not they occur"
ROWS = "no charge: one row stands for the table, whether or not it holds any"
NULLS = "no charge: {} is declared to hold no NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredAnswer:
    """An answer from the declarations, and a sentence that says so."""

    table: pa.Table
    notice: str


def known_answer(tree: exp.Expr, catalog: Catalog, made: ResultShape) -> DeclaredAnswer | None:
    """Returns the answer to a query that the declarations answer alone, or None where they do not.

    Args:
        tree: The query, with constants for its parameters.
        made: Its shape.
    """
    if not isinstance(tree, exp.Select) or len(made.columns) != len(tree.expressions):
        return None
    table = _one_table(tree, catalog)
    if table is None or table.public:
        return None
    items = [item.this if isinstance(item, exp.Alias) else item for item in tree.expressions]
    return _bounds(tree, items, table, made) or _values(tree, items, table, made) or _probe(tree, items, made)


def _probe(select: exp.Select, items: Sequence[exp.Expr], made: ResultShape) -> DeclaredAnswer | None:
    """Returns one row for `SELECT 1 FROM t LIMIT 1` without a condition, as tools ask whether a table is there."""
    others = ("where", "group", "having", "distinct", "order", "offset")
    if any(select.args.get(part) for part in others) or _limit(select.args.get("limit")) != 1:
        return None
    values: list[Value] = []
    for item in items:
        match item:
            case exp.Literal() if item.is_string or item.name.isdigit():
                values.append(item.name if item.is_string else int(item.name))
            case exp.Boolean():
                values.append(bool(item.this))
            case exp.Null():
                values.append(None)
            case _:
                return None
    return _known([[value] for value in values], made, ROWS)


def _one_table(select: exp.Select, catalog: Catalog) -> Table | None:
    """Returns the declared table that a query reads, where it reads one and nothing else."""
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or not isinstance(source.this.this, exp.Identifier):
        return None
    if source.this.db.casefold() == SYNOPSES:
        return None
    parts = ("joins", "with_", "windows", "qualify", "laterals")
    if any(select.args.get(part) for part in parts) or source.this.args.get("joins"):
        return None
    return catalog.find_table(source.this.name, bool(source.this.this.args.get("quoted")))


def _column(node: exp.Expr, table: Table) -> ColumnDeclaration | None:
    """Returns the declared column that a node is, through brackets and casts that change nothing."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return table.find_column(node.name, bool(node.this.args.get("quoted")))
    return None


def _bounds(select: exp.Select, items: Sequence[exp.Expr], table: Table, made: ResultShape) -> DeclaredAnswer | None:
    """Returns the declared bounds for MIN and MAX of whole columns, and of nothing else."""
    if any(select.args.get(part) for part in ("where", "group", "distinct", "order", "offset")) or not items:
        return None
    if not _is_always(select.args.get("having")) or not _is_limit_above_zero(select.args.get("limit")):
        return None
    values: list[Value] = []
    for item in items:
        while isinstance(item, exp.Paren | exp.Cast):
            item = item.this
        if type(item) not in (exp.Min, exp.Max) or item.expressions:
            return None
        column = _column(item.this, table)
        if column is None or column.lower is None:
            return None
        values.append(column.lower if isinstance(item, exp.Min) else column.upper)
    return _known([[value] for value in values], made, BOUNDS)


def _is_always(having: exp.Expr | None) -> bool:
    """Whether HAVING is missing, or is the COUNT(1) > 0 of tools, which every group fulfils."""
    if having is None:
        return True
    condition = having.this.unnest() if isinstance(having.this, exp.Paren) else having.this
    return is_not_empty(condition)


def is_not_empty(condition: exp.Expr) -> bool:
    """Whether a condition says COUNT(*) > 0 or COUNT(1) > 0."""
    if not isinstance(condition, exp.GT) or not isinstance(condition.this, exp.Count):
        return False
    counted, zero = condition.this.this, condition.expression
    is_row = isinstance(counted, exp.Star) or (isinstance(counted, exp.Literal) and not counted.is_string)
    return is_row and not condition.this.expressions and isinstance(zero, exp.Literal) and zero.name == "0"


def _is_limit_above_zero(limit: exp.Expr | None) -> bool:
    return limit is None or (_limit(limit) or 0) > 0


def _limit(limit: exp.Expr | None) -> int | None:
    """Returns the number of a LIMIT or FETCH; None if there is none, or it is none."""
    if isinstance(limit, exp.Fetch):
        if limit.args.get("limit_options") is not None and limit.args["limit_options"].args.get("with_ties"):
            return None
        number = limit.args.get("count")
    else:
        number = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit():
        return int(number.name)
    return None


def _values(select: exp.Select, items: Sequence[exp.Expr], table: Table, made: ResultShape) -> DeclaredAnswer | None:
    """Returns the declared values of one column, for a list of its different values; or no row for its NULLs."""
    if len(items) != 1 or select.args.get("having") is not None:
        return None
    inner = items[0]
    is_cast = isinstance(inner, exp.Cast)
    column = _column(inner.this if is_cast else inner, table)
    if column is None or (is_cast and column.type != made.columns[0][1]):
        return None
    where = select.args.get("where")
    if where is not None:
        return _missing(where.this, column, table, made)
    is_distinct = select.args.get("distinct") is not None and select.args.get("group") is None
    if not (is_distinct or _is_grouped_by(select, items[0])):
        return None
    if select.args.get("distinct") is not None and select.args["distinct"].args.get("on") is not None:
        return None
    keys = _keys(column)
    ordered = None if keys is None else _ordered(keys, select, items[0])
    if ordered is None:
        return None
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if limit is not None and _limit(limit) is None:
        return None
    skipped = 0
    if offset is not None:
        if not isinstance(offset.expression, exp.Literal) or not offset.expression.name.isdigit():
            return None
        skipped = int(offset.expression.name)
    ordered = ordered[skipped:] if limit is None else ordered[skipped : skipped + (_limit(limit) or 0)]
    return _known([ordered], made, VALUES.format(column.name))


def _keys(column: ColumnDeclaration) -> list[Value] | None:
    if column.keys is not None:
        return list(column.keys)
    return [False, True] if column.type == BOOLEAN and not column.nullable else None


def _missing(condition: exp.Expr, column: ColumnDeclaration, table: Table, made: ResultShape) -> DeclaredAnswer | None:
    """Returns no row for `x IS NULL` of a column that is declared to hold none."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if not (isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null)):
        return None
    tested = _column(condition.this, table)
    if tested is None or tested.name != column.name or column.nullable:
        return None
    return _known([[]], made, NULLS.format(column.name))


def _is_grouped_by(select: exp.Select, item: exp.Expr) -> bool:
    group = select.args.get("group")
    if group is None or select.args.get("distinct") is not None:
        return False
    if any(value for name, value in group.args.items() if name != "expressions") or len(group.expressions) != 1:
        return False
    return _means(group.expressions[0], select, item)


def _means(by: exp.Expr, select: exp.Select, item: exp.Expr) -> bool:
    """Whether a term of GROUP BY or ORDER BY is the one item of a SELECT: its place, its alias, or itself."""
    alias = select.expressions[0].alias if isinstance(select.expressions[0], exp.Alias) else ""
    is_position = isinstance(by, exp.Literal) and by.name == "1" and not by.is_string
    is_alias = isinstance(by, exp.Column) and not by.table and bool(alias) and by.name == alias
    return is_position or is_alias or by == item


def _ordered(keys: list[Value], select: exp.Select, item: exp.Expr) -> list[Value] | None:
    """Returns the values in the order asked for, by default by value; None where the order is another's."""
    order = select.args.get("order")
    terms = [] if order is None else order.expressions
    if len(terms) > 1:
        return None
    present = sorted((key for key in keys if key is not None), key=sort_key)
    nulls: list[Value] = [None] * (len(keys) - len(present))
    if not terms:
        return [*present, *nulls]
    term = terms[0]
    if not _means(term.this if isinstance(term, exp.Ordered) else term, select, item):
        return None
    if bool(term.args.get("desc")):
        present.reverse()
    return [*nulls, *present] if term.args.get("nulls_first") else [*present, *nulls]


def _known(columns: Sequence[Sequence[Value]], made: ResultShape, notice: str) -> DeclaredAnswer | None:
    """Returns the answer as a table of the query's types; None where a value does not fit its type."""
    try:
        arrays = [
            pa.array(list(values), arrow_type(type)) for values, (_, type) in zip(columns, made.columns, strict=True)
        ]
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return DeclaredAnswer(table=pa.table(arrays, names=[name for name, _ in made.columns]), notice=notice)
