"""Calls of aggregates in each form that SQL has for them: the aggregate of the plan, and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from sqlglot import exp

from dpquery.catalog.owner_columns import unit_of_parts
from dpquery.plan import functions
from dpquery.plan.aggregates import aggregate_named
from dpquery.plan.aggregates.aggregate import AggregateFunction, Form
from dpquery.plan.aggregates.choices import MAX, MIN, QUANTILE_CONT, QUANTILE_DISC
from dpquery.plan.aggregates.counts import COUNT, COUNT_DISTINCT
from dpquery.plan.aggregates.exact import FIRST, LAST
from dpquery.plan.aggregates.moments import AVG
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions.table import SignatureError
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, INTERVAL, TEXT, TIMESTAMP, Type
from dpquery.sql.bind.differences import microseconds
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context
from dpquery.sql.names.aggregate_names import function_of

MAX_DISTINCT = 8
"""Columns of one COUNT(DISTINCT a, b, ...)."""
_OF_INTERVALS = (SUM, AVG, MIN, MAX, QUANTILE_CONT, QUANTILE_DISC)
FINEST = 10**4
"""The largest denominator of a quantile's fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """An aggregate as a query calls it: its name there, and its arguments; `filter` is the condition of COUNT_IF.

    One that is an interval is asked of microseconds.
    """

    function: AggregateFunction
    name: str
    type: Type
    argument: Expression | None = None
    second: Expression | None = None
    fraction: Fraction | None = None
    filter: Expression | None = None
    is_interval: bool = False


def aggregate_call(call: exp.Expression, binder: Binder, context: Context) -> AggregateCall | None:
    """Returns an aggregate with its arguments, or None for another expression."""
    if isinstance(call, exp.IgnoreNulls) and isinstance(call.this, exp.AnyValue):
        call = call.this  # as the parser puts it around ANY_VALUE in some dialects
    if isinstance(call, exp.CountIf):
        context.only(call, "this", "zero_on_all_null")  # as COUNT does
        return AggregateCall(
            function=COUNT, name="count_if", type=INT64, filter=binder.condition(call.this, "COUNT_IF")
        )
    function = function_of(call.this if isinstance(call, exp.WithinGroup) else call)
    return None if function is None else _Call(call, function, binder, context).read()


class _Call:
    def __init__(self, call: exp.Expression, function: AggregateFunction, binder: Binder, context: Context) -> None:
        self._call, self._function, self._binder, self._context = call, function, binder, context
        self._name = call.name.lower() if isinstance(call, exp.Anonymous) else function.name

    def read(self) -> AggregateCall:
        call, function = self._call, self._function
        match function.form:
            case Form.RANKED | Form.CHOSEN:
                return self._ranked()
            case _ if isinstance(call, exp.WithinGroup):
                raise self._context.unsupported(f"{self._name.upper()} WITHIN GROUP is not written in this form", call)
            case Form.VALUE:
                return self._of_value()
            case Form.PAIR:
                self._context.only(call, "this", "expression")
                return self._made(*(self._binder.bind(part) for part in (call.this, call.expression)))
            case Form.CONDITION:
                return self._made(self._binder.condition(self._only_argument(), function.shown))
            case Form.ORDERED:
                return self._ordered()
            case Form.JOINED:
                return self._joined()
            case _:
                assert_never(function.form)

    def _made(
        self,
        *given: Expression,
        function: AggregateFunction | None = None,
        fraction: Fraction | None = None,
        at: exp.Expression | None = None,
    ) -> AggregateCall:
        """Returns the call with its arguments, booleans as numbers where the aggregate takes them so."""
        made = function or self._function
        values = [_as_number(value) for value in given] if made.takes_booleans else list(given)
        is_interval = made in _OF_INTERVALS and values[0].type == INTERVAL
        values = [microseconds(value) for value in values] if is_interval else values
        name = self._name if function is None else made.name
        try:
            type = made.result(name, *(value.type for value in values))
        except SignatureError as error:
            reason, *advice = error.args
            raise self._context.unsupported(reason, at or self._call, *advice) from None
        return AggregateCall(
            function=made,
            name=name,
            type=type,
            argument=values[0],
            second=values[1] if len(values) > 1 else None,
            fraction=fraction,
            is_interval=is_interval,
        )

    def _only_argument(self) -> exp.Expression:
        call = self._call
        self._context.only(call, "this", "expressions", "big_int")
        given = call.expressions if isinstance(call, exp.Anonymous) else [call.this, *call.expressions]
        if len(given) != 1:
            raise self._context.unsupported(f"{self._name.upper()} takes one argument", call)
        argument: exp.Expression = given[0]
        return argument

    def _of_value(self) -> AggregateCall:
        inner = self._only_argument()
        if isinstance(inner, exp.Star):
            if self._function is not COUNT:
                raise self._context.unsupported(f"{self._name.upper()}(*) has no meaning", self._call)
            self._context.only(inner)
            return AggregateCall(function=COUNT, name=self._name, type=INT64)
        if isinstance(inner, exp.Distinct):
            return self._distinct(inner)
        argument = self._binder.bind(inner)
        if self._function is COUNT and isinstance(argument, Literal) and argument.value is not None:
            return AggregateCall(function=COUNT, name=self._name, type=INT64)
        return self._made(argument)

    def _distinct(self, inner: exp.Distinct) -> AggregateCall:
        self._context.only(inner, "expressions")
        parts = inner.expressions
        if not self._function.distinct:
            reason = f"{self._name.upper()}(DISTINCT ...) is not supported"
            raise self._context.unsupported(reason, self._call, "Use COUNT(DISTINCT x).")
        function = aggregate_named(self._function.distinct)
        row = parts[0].expressions if len(parts) == 1 and isinstance(parts[0], exp.Tuple) else None
        if function is COUNT_DISTINCT and (row is not None or len(parts) > 1):
            values = [self._binder.bind(part) for part in (parts if row is None else row)]
            ids = [value.id for value in values if isinstance(value, Column)]
            if len(ids) == len(values):
                unit = unit_of_parts(ids, self._binder.scope.relation, self._context.catalog)
                if unit is not None:
                    return self._made(unit, function=function)
            return self._made(self._encoded(values, nulls=row is not None), function=function)
        if len(parts) != 1:
            raise self._context.unsupported(f"{self._name.upper()} takes one argument", self._call)
        return self._made(self._binder.bind(parts[0]), function=function)

    def _ordered(self) -> AggregateCall:
        """FIRST and LAST by one key, of which NULL must stand at the other end: it never decides."""
        is_first, name = self._function is FIRST, self._function.shown
        order = self._order()
        if order is None:
            advice = f"Write {name}(x ORDER BY y), or ANY_VALUE(x), MIN(x) or MAX(x)."
            raise self._context.unsupported(
                f"{name} without ORDER BY depends on how rows are stored", self._call, advice
            )
        key, descending, nulls_first = order
        if nulls_first is is_first:
            asked = f"ORDER BY y{' DESC' if descending else ''} NULLS {'LAST' if is_first else 'FIRST'}"
            reason = f"{name} would take rows in which the order's key is NULL"
            raise self._context.unsupported(reason, self._call, f"Write {asked}.")
        value, by = self._binder.bind(self._call.this.this), self._binder.bind(key)
        return self._made(value, by, function=FIRST if is_first is not descending else LAST)

    def _joined(self) -> AggregateCall:
        """STRING_AGG of texts in their own order: any other order leaves equal keys to how rows are stored."""
        call, name = self._call, self._function.shown
        order = self._order("separator")
        value = self._binder.bind(call.this.this if isinstance(call.this, exp.Order) else call.this)
        separator = call.args.get("separator")
        between = Literal(value=",", type=TEXT) if separator is None else self._binder.bind(separator)
        made = self._made(value, between)
        if order is None or order[1] or self._binder.bind(order[0]) != value:
            reason = f"{name} is only known in the order of its own values"
            raise self._context.unsupported(reason, call, f"Write {name}(x, ',' ORDER BY x).")
        if not isinstance(between, Literal) or not isinstance(between.value, str):
            raise self._context.unsupported(f"the separator of {name} is a constant text", call)
        return made

    def _order(self, *more: str) -> tuple[exp.Expression, bool, bool] | None:
        """Returns the key, whether it descends and whether NULL comes first, of ORDER BY within an aggregate."""
        call = self._call
        self._context.only(call, "this", *more)
        if not isinstance(call.this, exp.Order):
            return None
        self._context.only(call.this, "this", "expressions")
        if len(call.this.expressions) != 1:
            raise self._context.unsupported(f"{self._function.shown} is known with one key in ORDER BY", call)
        ordered = call.this.expressions[0]
        self._context.only(ordered, "this", "desc", "nulls_first")
        return ordered.this, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))

    def _ranked(self) -> AggregateCall:
        """Quantiles and MODE in their many spellings."""
        call = self._call
        if isinstance(call, exp.Anonymous):
            if len(call.expressions) != 2:
                raise self._context.unsupported(f"{call.this} takes a value and a fraction", call)
            return self._of_rank(call.expressions[0], self._fraction(call.expressions[1]))
        inner: exp.Expression = call.this if isinstance(call, exp.WithinGroup) else call
        self._name = inner.sql_name().lower() if isinstance(inner, exp.Func) else ""
        has_fraction = self._function.form is Form.RANKED and self._name != "median"
        if isinstance(call, exp.WithinGroup):
            return self._within_group(call, has_fraction)
        given = inner.args.get("quantile") or inner.args.get("expression")
        self._context.only(inner, "this", "quantile", "expression")
        name = self._name.upper()
        if inner.this is None or (given is not None) is not has_fraction:
            advice = f"Write {name}(0.5) WITHIN GROUP (ORDER BY x), or QUANTILE_CONT(x, 0.5)."
            raise self._context.unsupported(f"{name} needs a value and a fraction", call, advice)
        fraction = self._fraction(given) if given is not None else None
        return self._of_rank(inner.this, Fraction(1, 2) if self._name == "median" else fraction)

    def _within_group(self, call: exp.WithinGroup, has_fraction: bool) -> AggregateCall:
        inner, order = call.this, call.expression
        self._context.only(call, "this", "expression")
        self._context.only(inner, "this")
        items = order.expressions if isinstance(order, exp.Order) else []
        is_plain = self._name in ("median", "quantile", "approx_quantile")
        if len(items) != 1 or (inner.this is not None) is not has_fraction or is_plain:
            raise self._context.unsupported(f"{self._name.upper()} WITHIN GROUP is not written in this form", call)
        if items[0].args.get("desc"):
            advice = "Leave DESC out and ask for 1 - p."
            raise self._context.unsupported("WITHIN GROUP must sort in ascending order", items[0], advice)
        return self._of_rank(items[0].this, None if inner.this is None else self._fraction(inner.this))

    def _of_rank(self, value: exp.Expression, fraction: Fraction | None) -> AggregateCall:
        """Returns a quantile or MODE; dates have nothing between two days."""
        argument = self._binder.bind(value)
        if self._function is QUANTILE_CONT and argument.type in (DATE, TIMESTAMP):
            self._function = QUANTILE_DISC
        return self._made(argument, fraction=fraction, at=value)

    def _fraction(self, node: exp.Expression) -> Fraction:
        """Returns a constant from 0 to 1."""
        bound = self._binder.bind(node)
        value = bound.value if isinstance(bound, Literal) else None
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and 0 <= value <= 1:
            fraction = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
            if fraction.denominator <= FINEST:
                return fraction
        raise self._context.unsupported(
            "the fraction of a quantile is a constant from 0 to 1 of at most four digits", node
        )

    def _encoded(self, values: Sequence[Expression], *, nulls: bool) -> Expression:
        """Returns one text for each combination of values: different ones have different texts, as far as texts go.

        COUNT(DISTINCT a, b) skips combinations with a NULL; in COUNT(DISTINCT (a, b)), NULL is a value like others.
        A distinct count of any values moves by as much, so this only decides accuracy.
        """
        if not 2 <= len(values) <= MAX_DISTINCT:
            raise self._context.unsupported(f"COUNT(DISTINCT ...) takes at most {MAX_DISTINCT} columns", self._call)
        if any(value.type == FLOAT64 for value in values):
            advice = "Round it: CAST(x AS DECIMAL(18, 6)) is a value like others."
            raise self._context.unsupported(
                "COUNT(DISTINCT ...) of several columns takes no floats", self._call, advice
            )
        parts = [self._encoded_part(value, nulls) for value in values if value.type != TEXT]
        texts = [value for value in values if value.type == TEXT]
        for text in texts[:-1]:
            size: Expression = Cast(argument=functions.call("length", (text,)), type=TEXT)
            parts += [_or_null(size), _or_null(text)] if nulls else [size, text]
        for text in texts[-1:]:
            marked = functions.call("concat", (Literal(value="=", type=TEXT), text))
            parts.append(_or_null(marked) if nulls else text)
        separated = [piece for part in parts for piece in (Literal(value=":", type=TEXT), part)]
        return functions.call("concat", separated[1:])

    def _encoded_part(self, value: Expression, nulls: bool) -> Expression:
        if not functions.castable(value.type, TEXT):
            raise self._context.unsupported(f"COUNT(DISTINCT ...) of several columns takes no {value.type}", self._call)
        text = functions.cast(value, TEXT)
        return _or_null(text) if nulls else text


def _as_number(value: Expression) -> Expression:
    """Returns the value, a boolean as 0 or 1."""
    return functions.cast(value, INT64, value.span) if value.type == BOOLEAN else value


def _or_null(text: Expression) -> Expression:
    return functions.call("coalesce", (text, Literal(value="NULL", type=TEXT)))
