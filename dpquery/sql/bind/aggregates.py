"""Aggregates: from parsed calls to the columns of an aggregation, each different one once."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpquery.errors import QueryError, UnsupportedQueryError
from dpquery.plan import functions
from dpquery.plan.aggregates import PAIRS, Function
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import DATE, FLOAT64, INT64, TIMESTAMP, Type, sum_type
from dpquery.sql.bind.certain import certain_value
from dpquery.sql.bind.exact_aggregates import as_number, meaning_of
from dpquery.sql.bind.expressions import Binder, Subqueries
from dpquery.sql.bind.quantiles import NAMES, Chosen, read_quantile
from dpquery.sql.bind.scope import Context, Scope
from dpquery.sql.names.aggregate_names import is_named_aggregate
from dpquery.sql.parse.parse import span_of

_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Min: "min",
    exp.Max: "max",
}

MAX_AGGREGATES = 100

MOMENTS = ("avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")

CHOICES = ("min", "max", "quantile_cont", "quantile_disc", "mode")

PRIVATE = ("count", "count_distinct", "sum", *MOMENTS, *PAIRS, *CHOICES)
"""Aggregates that have a private mechanism."""


@dataclass(slots=True, kw_only=True)
class Collector:
    """Collects the aggregates of one SELECT; equal ones share a column."""

    context: Context
    scope: Scope
    known: dict[object, AggregateColumn] = field(default_factory=dict)
    """The aggregates, by what they mean."""
    subqueries: Subqueries | None = None

    @property
    def columns(self) -> tuple[AggregateColumn, ...]:
        """The aggregates, in the order in which they were collected."""
        return tuple(self.known.values())

    def collect(self, node: exp.Expression) -> Column | Literal | None:
        """Returns the column that will hold the aggregate, its value if that is certain, or None if it is none."""
        call, condition = node, None
        if isinstance(node, exp.Filter):
            self.context.only(node, "this", "expression")
            call, condition = node.this, node.expression.this
        binder = Binder(self.context, self.scope, subqueries=self.subqueries)
        chosen = read_quantile(call, self.context, binder)
        meaning = None if chosen is not None else meaning_of(call, binder, self.context)
        if chosen is None and meaning is None and type(call) not in _FUNCTIONS:
            return None
        kept = None if condition is None else binder.condition(condition, "FILTER")
        if meaning is not None:
            column = AggregateColumn(
                id=self.context.fresh(),
                name=call.name.lower() if isinstance(call, exp.Anonymous) else meaning.function,
                function=Function(meaning.function),
                argument=meaning.argument,
                filter=kept,
                type=meaning.type,
                second=meaning.second,
                span=span_of(node, self.context.text),
            )
            return self._shared(column, node)
        argument: Expression | None
        if chosen is not None:
            name, (function, argument) = chosen.name, self._choice(chosen, binder)
        else:
            name = _FUNCTIONS[type(call)]
            function, argument, kept = self._meaning(name, call, binder, kept)
            certain = certain_value(function, argument, self.scope, self.context) if kept is None else None
            if certain is not None:
                return certain
        column = AggregateColumn(
            id=self.context.fresh(),
            name=name,
            function=Function(function),
            argument=argument,
            filter=kept,
            type=self._type(function, argument, call),
            fraction=None if chosen is None else chosen.fraction,
            span=span_of(node, self.context.text),
        )
        return self._shared(column, node)

    def _shared(self, column: AggregateColumn, node: exp.Expression) -> Column:
        """Returns the column of an equal aggregate, or adds this one."""
        read = (column.function, column.argument, column.second, column.filter, column.fraction)
        known = self.known.get(read)
        if known is not None:
            return Column(id=known.id, type=known.type, span=column.span)
        if len(self.known) >= MAX_AGGREGATES:
            raise self._refuse(f"a SELECT holds at most {MAX_AGGREGATES} aggregates", node)
        self.context.measure(
            column.id, *(part for part in (column.argument, column.second, column.filter) if part is not None)
        )
        self.known[read] = column
        return Column(id=column.id, type=column.type, span=column.span)

    def _meaning(
        self, name: str, call: exp.Expression, binder: Binder, kept: Expression | None
    ) -> tuple[str, Expression | None, Expression | None]:
        """Returns the function, its argument and its filter, after removing the variants of COUNT."""
        self.context.only(call, "this", "expressions", "big_int")
        if call.expressions:
            raise self._refuse(f"{name.upper()} takes one argument", call)
        inner = call.this
        if name == "count_if":
            condition = binder.condition(inner, "COUNT_IF")
            return "count", None, condition if kept is None else _both(condition, kept)
        if isinstance(inner, exp.Star):
            if name != "count":
                raise self._refuse(f"{name.upper()}(*) has no meaning", call)
            self.context.only(inner)
            return "count", None, kept
        if isinstance(inner, exp.Distinct):
            self.context.only(inner, "expressions")
            if name in ("min", "max"):
                return name, binder.bind(inner.expressions[0]), kept
            raise self._refuse(f"{name.upper()}(DISTINCT ...) is not supported", call, "Use COUNT(DISTINCT x).")
        argument = binder.bind(inner)
        if name == "count" and isinstance(argument, Literal) and argument.value is not None:
            return "count", None, kept
        return name, as_number(argument) if name in ("sum", *MOMENTS) else argument, kept

    def _choice(self, chosen: Chosen, binder: Binder) -> tuple[str, Expression]:
        """Returns the function and argument of a quantile or mode; dates have nothing between two days."""
        argument = binder.bind(chosen.argument)
        if chosen.function == "mode":
            return chosen.function, argument
        if argument.type in (DATE, TIMESTAMP):
            return "quantile_disc", argument
        if not argument.type.is_numeric:
            reason = f"{chosen.name.upper()} needs a number, a date or a timestamp, not a {argument.type}"
            raise self._refuse(reason, chosen.argument)
        return chosen.function, argument

    def _type(self, function: str, argument: Expression | None, call: exp.Expression) -> Type:
        if argument is None or function in ("count", "count_distinct"):
            return INT64
        given = argument.type
        if function in CHOICES:
            return FLOAT64 if function == "quantile_cont" else given
        if not given.is_numeric:
            advice = "Take a difference of dates first, in days." if given in (DATE, TIMESTAMP) else ""
            raise self._refuse(f"{function.upper()} needs a number, not a {given}", call, advice)
        if function != "sum":
            return FLOAT64
        return sum_type(given)

    def _refuse(self, reason: str, node: exp.Expression, advice: str = "") -> QueryError:
        return self.context.refuse(UnsupportedQueryError, reason, node, advice)


def _both(first: Expression, second: Expression) -> Expression:
    return functions.call("and", (first, second))


def _is_quantile(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in NAMES


def has_aggregate(node: exp.Expression) -> bool:
    """Whether the expression contains an aggregate of its own, not one of a subquery."""
    if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
        return False
    if isinstance(node, exp.Window):  # the function before OVER is none itself, but its arguments may hold one
        function = node.this.this if isinstance(node.this, exp.Filter) else node.this
        inside = [*function.iter_expressions(), *(part for part in node.iter_expressions() if part is not node.this)]
        return any(has_aggregate(part) for part in inside) or (
            isinstance(node.this, exp.Filter) and has_aggregate(node.this.expression)
        )
    if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup) or _is_quantile(node) or is_named_aggregate(node):
        return True
    return any(has_aggregate(part) for part in node.iter_expressions())
