"""What aggregates other than COUNT and the moments mean: pairs, chosen rows, logic and bits, distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dpquery.errors import QueryError, UnsupportedQueryError
from dpquery.plan import functions
from dpquery.plan.expr import Cast, Expression, Literal
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, TEXT, Type, sum_type
from dpquery.plan.windows import adds_exactly
from dpquery.sql.bind.scope import Context
from dpquery.sql.names.aggregate_names import PAIRS, exact_name, plain, spelled

if TYPE_CHECKING:
    from dpquery.sql.bind.expressions import Binder

MAX_DISTINCT = 8
"""Columns of one COUNT(DISTINCT a, b, ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """An aggregate's function in plans, its arguments and its type."""

    function: str
    argument: Expression
    type: Type
    second: Expression | None = None


def meaning_of(call: exp.Expression, binder: Binder, context: Context) -> Meaning | None:
    """Returns what an aggregate of these kinds means, or None for any other."""
    call = plain(call)
    if isinstance(call, exp.ApproxDistinct):
        context.only(call, "this")
        return Meaning(function="count_distinct", argument=binder.bind(call.this), type=INT64)
    if isinstance(call, exp.Count | exp.Sum | exp.Avg) and isinstance(call.this, exp.Distinct):
        return _distinct(call, binder, context)
    if type(call) in PAIRS:
        return _pair(PAIRS[type(call)], call, binder, context)
    name = exact_name(call)
    return None if name is None else _exact(name, call, binder, context)


def as_number(value: Expression) -> Expression:
    """Returns the value, a boolean as 0 or 1."""
    return functions.cast(value, INT64, value.span) if value.type == BOOLEAN else value


def _pair(name: str, call: exp.Expression, binder: Binder, context: Context) -> Meaning:
    context.only(call, "this", "expression")
    values = [as_number(binder.bind(part)) for part in (call.this, call.expression)]
    for value in values:
        if not value.type.is_numeric:
            raise _refuse(context, f"{name.upper()} needs two numbers, not a {value.type}", call)
    result = INT64 if name == "regr_count" else FLOAT64
    return Meaning(function=name, argument=values[0], type=result, second=values[1])


def _exact(name: str, call: exp.Expression, binder: Binder, context: Context) -> Meaning:
    if name == "string_agg":
        return _string_agg(call, binder, context)
    if name in ("first", "last"):
        return _ordered(name, call, binder, context)
    if name in ("arg_min", "arg_max"):
        context.only(call, "this", "expression")
        value, by = binder.bind(call.this), binder.bind(call.expression)
        return Meaning(function=name, argument=value, type=value.type, second=by)
    inner = _only_argument(name, call, context)
    if name in ("bool_and", "bool_or"):
        return Meaning(function=name, argument=binder.condition(inner, name.upper()), type=BOOLEAN)
    value = binder.bind(inner)
    if name.startswith("bit_") and value.type != INT64:
        raise _refuse(context, f"{name.upper()} needs an integer, not a {value.type}", call)
    return Meaning(function=name, argument=value, type=value.type)


def _only_argument(name: str, call: exp.Expression, context: Context) -> exp.Expression:
    context.only(call, "this", "expressions")
    given: list[exp.Expression] = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
    if len(given) != 1 or (call.expressions and not isinstance(call, exp.Anonymous)):
        raise _refuse(context, f"{name.upper()} takes one argument", call)
    return given[0]


def _ordered(name: str, call: exp.Expression, binder: Binder, context: Context) -> Meaning:
    """FIRST and LAST by one key, of which NULL must stand at the other end: it never decides."""
    order = _order_of(call, name, context)
    if order is None:
        advice = f"Write {name.upper()}(x ORDER BY y), or ANY_VALUE(x), MIN(x) or MAX(x)."
        raise _refuse(context, f"{name.upper()} without ORDER BY depends on how rows are stored", call, advice)
    key, descending, nulls_first = order
    if nulls_first is (name == "first"):
        asked = f"ORDER BY y{' DESC' if descending else ''} NULLS {'LAST' if name == 'first' else 'FIRST'}"
        raise _refuse(
            context, f"{name.upper()} would take rows in which the order's key is NULL", call, f"Write {asked}."
        )
    value, by = binder.bind(call.this.this), binder.bind(key)
    function = "first" if (name == "first") is not descending else "last"
    return Meaning(function=function, argument=value, type=value.type, second=by)


def _string_agg(call: exp.Expression, binder: Binder, context: Context) -> Meaning:
    """STRING_AGG of texts in their own order: any other order leaves equal keys to how rows are stored."""
    order = _order_of(call, "string_agg", context, "separator")
    given = call.this.this if isinstance(call.this, exp.Order) else call.this
    value = binder.bind(given)
    if value.type != TEXT:
        raise _refuse(context, f"STRING_AGG needs a text, not a {value.type}", call)
    if order is None or order[1] or binder.bind(order[0]) != value:
        reason = "STRING_AGG is known in the order of its own values alone"
        raise _refuse(context, reason, call, "Write STRING_AGG(x, ',' ORDER BY x).")
    separator = call.args.get("separator")
    between = Literal(value=",", type=TEXT) if separator is None else binder.bind(separator)
    if not isinstance(between, Literal) or not isinstance(between.value, str):
        raise _refuse(context, "the separator of STRING_AGG is a constant text", call)
    return Meaning(function="string_agg", argument=value, type=TEXT, second=between)


def _order_of(
    call: exp.Expression, name: str, context: Context, *more: str
) -> tuple[exp.Expression, bool, bool] | None:
    """Returns the key, whether it descends and whether NULL comes first, of ORDER BY within an aggregate."""
    context.only(call, "this", *more)
    if not isinstance(call.this, exp.Order):
        return None
    context.only(call.this, "this", "expressions")
    if len(call.this.expressions) != 1:
        raise _refuse(context, f"{name.upper()} is known with one key in ORDER BY", call)
    ordered = call.this.expressions[0]
    context.only(ordered, "this", "desc", "nulls_first")
    return ordered.this, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))


def _distinct(call: exp.Expression, binder: Binder, context: Context) -> Meaning:
    name = "count" if isinstance(call, exp.Count) else "sum" if isinstance(call, exp.Sum) else "avg"
    context.only(call, "this", "big_int")
    context.only(call.this, "expressions")
    parts = call.this.expressions
    row = parts[0].expressions if len(parts) == 1 and isinstance(parts[0], exp.Tuple) else None
    if name == "count":
        if row is None and len(parts) == 1:
            return Meaning(function="count_distinct", argument=binder.bind(parts[0]), type=INT64)
        values = [binder.bind(part) for part in (parts if row is None else row)]
        encoded = _encoded(values, nulls=row is not None, call=call, context=context)
        return Meaning(function="count_distinct", argument=encoded, type=INT64)
    if len(parts) != 1:
        raise _refuse(context, f"{name.upper()} takes one argument", call)
    value = as_number(binder.bind(parts[0]))
    if value.type != FLOAT64 and not adds_exactly(value.type):
        what = "number of at most 28 digits" if value.type.is_numeric else "number"
        raise _refuse(context, f"{spelled(f'{name}_distinct')} needs a {what}, not a {value.type}", call)
    total = FLOAT64 if name == "avg" else sum_type(value.type)
    return Meaning(function=f"{name}_distinct", argument=value, type=total)


def _encoded(values: Sequence[Expression], *, nulls: bool, call: exp.Expression, context: Context) -> Expression:
    """Returns one text for each combination of values: different ones have different texts, as far as texts go.

    COUNT(DISTINCT a, b) skips combinations with a NULL; in COUNT(DISTINCT (a, b)), NULL is a value like others.
    A distinct count moves by as much whatever is counted, so this decides accuracy alone.
    """
    if not 2 <= len(values) <= MAX_DISTINCT:
        raise _refuse(context, f"COUNT(DISTINCT ...) takes at most {MAX_DISTINCT} columns", call)
    if any(value.type == FLOAT64 for value in values):
        advice = "Round it: CAST(x AS DECIMAL(18, 6)) is a value like others."
        raise _refuse(context, "COUNT(DISTINCT ...) of several columns takes no floats", call, advice)
    parts = [_encoded_part(value, nulls, call, context) for value in values if value.type != TEXT]
    texts = [value for value in values if value.type == TEXT]
    for text in texts[:-1]:
        size: Expression = Cast(argument=functions.call("length", (text,)), type=TEXT)
        parts += [_or_null(size), _or_null(text)] if nulls else [size, text]
    for text in texts[-1:]:
        parts.append(_or_null(functions.call("concat", (Literal(value="=", type=TEXT), text))) if nulls else text)
    separated = [piece for part in parts for piece in (Literal(value=":", type=TEXT), part)]
    return functions.call("concat", separated[1:])


def _encoded_part(value: Expression, nulls: bool, call: exp.Expression, context: Context) -> Expression:
    text = _text(value, call, context)
    return _or_null(text) if nulls else text


def _or_null(text: Expression) -> Expression:
    return functions.call("coalesce", (text, Literal(value="NULL", type=TEXT)))


def _text(value: Expression, call: exp.Expression, context: Context) -> Expression:
    if not functions.castable(value.type, TEXT):
        raise _refuse(context, f"COUNT(DISTINCT ...) of several columns takes no {value.type}", call)
    return functions.cast(value, TEXT)


def _refuse(context: Context, reason: str, node: exp.Expression, advice: str = "") -> QueryError:
    return context.refuse(UnsupportedQueryError, reason, node, advice)
