"""Window functions as DuckDB's SQL: total, exact, and independent of the order of the rows.

Where a row's place decides its value, rows are ordered by all columns after the query's own; ranks, and frames of equal
rows, see the query's order alone.
"""

from __future__ import annotations

from collections.abc import Callable

from dpquery.backends.duckdb.sql.sql_casts import type_name
from dpquery.backends.duckdb.sql.values_sql import name, normal
from dpquery.errors import InternalError
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.logical import Frame, OutputColumn, WindowColumn
from dpquery.plan.types import INT64
from dpquery.plan.windows import PICKS, PLACES, RANKS, TOTALS, WHOLE, frame_of, frame_text, is_positional, summand

Write = Callable[[Expression], str]


def over(column: WindowColumn, source: tuple[OutputColumn, ...], write: Write) -> str:
    """Returns a window function with its window.

    Args:
        source: The columns of the relation that the window is over.
        write: An expression over them to SQL.
    """
    function, frame = column.function, frame_of(column)
    keys, ties = _keys(column, source)
    if function in RANKS:
        return f"{function}(){_window(column, source, keys, None)}"
    if function in PLACES:
        arguments = ", ".join(_argument(argument, write) for argument in column.arguments)
        return f"{function}({arguments}){_window(column, source, keys + ties, None)}"
    if function in PICKS:
        value, *number = column.arguments
        arguments = ", ".join([_argument(value, write), *(_argument(n, write) for n in number)])
        if frame.mode == "rows":
            return f"{function}({arguments}){_window(column, source, keys + ties, frame)}"
        order = ", ".join(keys + ties)
        return f"{function}({arguments} ORDER BY {order}){_window(column, source, keys, frame)}"
    if function in TOTALS:
        keys = keys + ties if is_positional(column) else keys
        window = _window(column, source, [], None) if frame == WHOLE else _window(column, source, keys, frame)
        kept = "" if column.filter is None else f" FILTER (WHERE {write(column.filter)})"
        return _total(column, f"{kept}{window}", write)
    raise InternalError(f"the window function {function} has no form in SQL here")


def _total(column: WindowColumn, after: str, write: Write) -> str:
    """Returns an aggregate; sums are of integers and decimals, hence exact."""
    if not column.arguments:
        return f"COUNT(*){after}"
    argument = column.arguments[0]
    if column.function in ("min", "max"):
        return f"{column.function.upper()}({_argument(argument, write)}){after}"
    if column.function == "count":
        return f"COUNT({write(argument)}){after}"
    added = write(summand(argument))
    total = f"SUM({added}){after}"
    if column.function == "avg":
        return f"(CAST({total} AS DOUBLE) / CAST(COUNT({added}){after} AS DOUBLE))"
    return f"TRY_CAST({total} AS {type_name(column.type)})"


def _argument(argument: Expression, write: Write) -> str:
    if isinstance(argument, Literal) and argument.type == INT64:
        return write(argument)
    return normal(write(argument), argument.type)


def _keys(column: WindowColumn, source: tuple[OutputColumn, ...]) -> tuple[list[str], list[str]]:
    """Returns the query's order, and the order of rows that are equal in it."""
    types = {c.id: c.type for c in source}
    keys = [
        f"{normal(name(k.column), types[k.column])} {'DESC' if k.descending else 'ASC'}"
        f" NULLS {'FIRST' if k.nulls_first else 'LAST'}"
        for k in column.order_by
    ]
    decided = {*column.partition_by, *(k.column for k in column.order_by)}
    ties = [f"{normal(name(c.id), c.type)} ASC NULLS LAST" for c in source if c.id not in decided]
    return keys, ties


def _window(column: WindowColumn, source: tuple[OutputColumn, ...], keys: list[str], frame: Frame | None) -> str:
    types = {c.id: c.type for c in source}
    parts = []
    if column.partition_by:
        parts.append("PARTITION BY " + ", ".join(normal(name(id), types[id]) for id in column.partition_by))
    if keys:
        parts.append("ORDER BY " + ", ".join(keys))
    if frame is not None:
        parts.append(frame_text(frame))
    return f" OVER ({' '.join(parts)})"
