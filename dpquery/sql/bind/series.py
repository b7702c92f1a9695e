"""`generate_series` and UNNEST of constants in FROM: literal tables, which are public."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Literal
from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.logical import OutputColumn, Values
from dpquery.plan.types import DATE, INT64, TEXT, TIMESTAMP, Type, Value
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context, Scope, Visible
from dpquery.sql.bind.values import bind_values
from dpquery.sql.names.date_intervals import step_of

MOST_VALUES = 4000
"""Values of a series: ten years of days."""
SERIES = (exp.GenerateSeries, exp.ExplodingGenerateSeries, exp.GenerateDateArray, exp.GenerateTimestampArray)


def series_in(node: exp.Expression) -> exp.Expression | None:
    """Returns the series or the list of constants that an item of FROM is, or None."""
    if isinstance(node, exp.Table) and isinstance(node.this, SERIES):
        return node.this
    if isinstance(node, exp.Unnest) and len(node.expressions) == 1:
        (listed,) = node.expressions
        return listed if isinstance(listed, (*SERIES, exp.Array)) else None
    return None


def bind_series(node: exp.Expression, listed: exp.Expression, context: Context) -> Scope:
    """Returns the scope of a series in FROM, named as PostgreSQL names it: the alias of the table is the column's.

    Args:
        node: The item of FROM.
        listed: The series or list in it.
    """
    context.only(node, "this", "expressions", "alias")
    alias = node.args.get("alias")
    named = [] if alias is None else [part.name for part in alias.args.get("columns") or ()]
    table = "" if alias is None else alias.name
    usual = "unnest" if isinstance(node, exp.Unnest) else "generate_series"
    name = named[0] if named else table or usual
    if len(named) > 1:
        raise context.unsupported("a series has one column", node)
    if isinstance(listed, exp.Array):
        made = bind_values(exp.Values(expressions=list(listed.expressions), parent=node), context, (name,))
    else:
        type, values = _values(listed, context)
        column = OutputColumn(id=context.fresh(), name=name, type=type)
        made = Scope(
            relation=Values(columns=(column,), rows=tuple((value,) for value in values)),
            columns=(Visible(name=name, table=None, id=column.id, type=type),),
        )
    return replace(made, columns=tuple(replace(c, table=table or usual) for c in made.columns))


def series_without_from(select: exp.Select) -> exp.Select:
    """Returns `SELECT generate_series(1, 3) AS x` as `SELECT s AS x FROM generate_series(1, 3) AS s`."""
    found = [one for item in select.expressions for one in item.find_all(*SERIES)]
    if len(found) != 1:
        return select
    made = select.copy()
    made.parent = select.parent
    (inside,) = (one for item in made.expressions for one in item.find_all(*SERIES))
    inside.replace(exp.column("generate_series"))
    made.set("from_", exp.From(this=exp.Table(this=found[0].copy())))
    return made


def _values(node: exp.Expression, context: Context) -> tuple[Type, list[Value]]:
    context.only(node, "start", "end", "step", "is_end_exclusive")
    binder = Binder(context, Scope(relation=Values(columns=(), rows=()), columns=()))
    step = node.args.get("step")
    move = None if step is None else step_of(step)
    is_calendar = isinstance(node, exp.GenerateDateArray | exp.GenerateTimestampArray) or move is not None
    wanted = DATE if isinstance(node, exp.GenerateDateArray) else TIMESTAMP if is_calendar else INT64
    ends = [_constant(binder, node.args[end], wanted, context) for end in ("start", "end")]
    if is_calendar:
        if move is None:
            raise context.unsupported("the step of a series of dates is a constant interval", node, _STEP)
        function, count = move
        if wanted == DATE and function == "add_microseconds":
            raise context.unsupported("the step of a series of dates is a number of days, months or years", node, _STEP)
        meaning: Callable[..., Value] = FUNCTIONS[function].meaning
        return wanted, _counted(ends, count, lambda first, number: meaning(first, count * number), node, context)
    by: Value = 1 if step is None else _constant(binder, step, INT64, context)
    return INT64, _counted(ends, by, lambda first, number: first + by * number, node, context)


_STEP = "Write generate_series(DATE '2024-01-01', DATE '2024-12-31', INTERVAL '1 day')."


def _counted(
    ends: list[Value],
    step: Value,
    at: Callable[..., Value],
    node: exp.Expression,
    context: Context,
) -> list[Value]:
    """Returns the values from one end to the other; each counted from the first, as months have different lengths."""
    assert isinstance(step, int)
    if None in ends or not step:
        raise context.unsupported("a series has a first, a last and a step that is not 0", node)
    found: list[Value] = []
    first, last = ends
    while True:
        value = at(first, len(found))
        if value is None or _is_beyond(value, last, step) or (node.args.get("is_end_exclusive") and value == last):
            return found
        found.append(value)
        if len(found) > MOST_VALUES:
            raise context.unsupported(f"a series has at most {MOST_VALUES:,} values", node, "Take a larger step.")


def _is_beyond(value: Value, last: Value, step: int) -> bool:
    if isinstance(value, datetime.date) and isinstance(last, datetime.date):
        return value > last if step > 0 else value < last
    assert isinstance(value, int) and isinstance(last, int)
    return value > last if step > 0 else value < last


def _constant(binder: Binder, node: exp.Expression, type: Type, context: Context) -> Value:
    bound = binder.bind(node)
    try:
        value = evaluate(functions.cast(replace(bound, span=None), type), {}) if _fits(bound, type) else None
    except (TypeError, KeyError):
        value = None
    if value is None:
        raise context.unsupported(f"the ends and the step of this series are constants of type {type}", node, _STEP)
    return value


def _fits(bound: object, type: Type) -> bool:
    """Whether a constant may stand where a type is wanted: of dates also texts and timestamps, of numbers integers."""
    return isinstance(bound, Literal) and (
        bound.type == INT64 if type == INT64 else bound.type in (TEXT, DATE, TIMESTAMP)
    )
