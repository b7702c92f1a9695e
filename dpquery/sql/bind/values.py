"""VALUES: literal tables, which are public."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Expression, columns_of
from dpquery.plan.logical import OutputColumn, Values
from dpquery.plan.types import Type, Value
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context, Scope, Visible

MAX_ROWS = 1000


def bind_values(node: exp.Values, context: Context, names: tuple[str, ...] = ()) -> Scope:
    """Returns the scope of a literal table; the types of a column's cells meet as those of CASE do."""
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise context.unsupported("the rows of VALUES have different lengths", node)
    if len(rows) > MAX_ROWS:
        raise context.unsupported(f"VALUES holds at most {MAX_ROWS} rows", node)
    binder = Binder(context, Scope(relation=Values(columns=(), rows=()), columns=()))
    cells = [[binder.bind(cell) for cell in row] for row in rows]
    types = [_type([row[i] for row in cells], node, context) for i in range(width)]
    shown = [*names, *(f"column{i + 1}" for i in range(len(names), width))]
    columns = tuple(OutputColumn(id=context.fresh(), name=n, type=t) for n, t in zip(shown, types, strict=False))
    values = tuple(tuple(_value(cell, type) for cell, type in zip(row, types, strict=True)) for row in cells)
    visible = tuple(Visible(name=c.name, table=None, id=c.id, type=c.type) for c in columns)
    return Scope(relation=Values(columns=columns, rows=values), columns=visible)


def _type(cells: list[Expression], node: exp.Values, context: Context) -> Type:
    for cell in cells:
        if any(True for _ in columns_of(cell)):  # no name is visible here; kept for what the binder may learn
            raise context.unsupported("VALUES can only contain constants", node)
    try:
        found = functions.common_type(tuple(cell.type for cell in cells), tuple(cells))
    except TypeError as error:
        raise context.unsupported(str(error), node) from None
    if found is None:
        kinds = ", ".join(sorted({str(cell.type) for cell in cells}))
        raise context.unsupported(f"a column of VALUES mixes types: {kinds}", node)
    return found


def _value(cell: Expression, type: Type) -> Value:
    return evaluate(functions.cast(replace(cell, span=None), type), {})
