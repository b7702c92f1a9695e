"""Aggregates: from parsed calls to the columns of an aggregation, each different one once."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpquery.errors import QueryError, UnsupportedQueryError
from dpquery.plan import functions
from dpquery.plan.expr import Column, Literal
from dpquery.plan.logical import AggregateColumn
from dpquery.sql.bind.aggregate_calls import aggregate_call
from dpquery.sql.bind.certain import certain_value
from dpquery.sql.bind.expressions import Binder, Subqueries
from dpquery.sql.bind.scope import Context, Scope
from dpquery.sql.names.aggregate_names import is_named_aggregate
from dpquery.sql.parse.parse import span_of

MAX_AGGREGATES = 100


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
        asked = aggregate_call(call, binder, self.context)
        if asked is None:
            return None
        kept = asked.filter
        if condition is not None:
            also = binder.condition(condition, "FILTER")
            kept = also if kept is None else functions.call("and", (kept, also))
        certain = certain_value(asked.function, asked.argument, self.scope, self.context) if kept is None else None
        if certain is not None:
            return certain
        column = AggregateColumn(
            id=self.context.fresh(),
            name=asked.name,
            function=asked.function,
            argument=asked.argument,
            filter=kept,
            type=asked.type,
            second=asked.second,
            fraction=asked.fraction,
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

    def _refuse(self, reason: str, node: exp.Expression, advice: str = "") -> QueryError:
        return self.context.refuse(UnsupportedQueryError, reason, node, advice)


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
    if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup) or is_named_aggregate(node):
        return True
    return any(has_aggregate(part) for part in node.iter_expressions())
