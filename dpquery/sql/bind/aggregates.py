"""Aggregates: from parsed calls to the columns of an aggregation, each different one once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.aggregates.aggregate import AggregateFunction
from dpquery.plan.aggregates.choices import MAX, MIN
from dpquery.plan.aggregates.exact import ANY_VALUE
from dpquery.plan.expr import Call, Case, Column, Expression, Literal
from dpquery.plan.logical import AggregateColumn, Filter, Join, Project, Relation, Scan
from dpquery.plan.types import INT64, INTERVAL
from dpquery.sql.bind.aggregate_calls import aggregate_call
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

    def collect(
        self, node: exp.Expression, keys: Mapping[Expression, Column] = MappingProxyType({})
    ) -> Expression | None:
        """Returns the column that will hold the aggregate, its value if that is certain, or None if it is none.

        Args:
            keys: The keys of the groups, each with its column: MIN, MAX and ANY_VALUE of a key are the key.
        """
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
        certain = _certain_value(asked.function, asked.argument, self.scope, self.context) if kept is None else None
        if certain is not None:
            return certain
        if (
            kept is None
            and asked.argument is not None
            and asked.argument in keys
            and asked.function in (MIN, MAX, ANY_VALUE)
        ):
            return keys[asked.argument]
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
        made = self._shared(column, node)
        return functions.cast(functions.cast(made, INT64), INTERVAL) if asked.is_interval else made

    def same_in_group(self, column: Column, node: exp.Expression) -> Column:
        """Returns the column that will hold the value of a column that is the same in all rows of a group."""
        made = AggregateColumn(
            id=self.context.fresh(),
            name=node.name,
            function=ANY_VALUE,
            argument=column,
            filter=None,
            type=column.type,
            span=span_of(node, self.context.text),
        )
        return self._shared(made, node)

    def _shared(self, column: AggregateColumn, node: exp.Expression) -> Column:
        """Returns the column of an equal aggregate, or adds this one."""
        read = (column.function, column.argument, column.second, column.filter, column.fraction)
        known = self.known.get(read)
        if known is not None:
            return Column(id=known.id, type=known.type, span=column.span)
        if len(self.known) >= MAX_AGGREGATES:
            raise self.context.unsupported(f"a SELECT holds at most {MAX_AGGREGATES} aggregates", node)
        self.context.measure(
            column.id, *(part for part in (column.argument, column.second, column.filter) if part is not None)
        )
        self.known[read] = column
        return Column(id=column.id, type=column.type, span=column.span)


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


def _certain_value(
    function: AggregateFunction, argument: Expression | None, scope: Scope, context: Context
) -> Literal | None:
    """Returns 0 for `MAX(CASE WHEN x IS NULL THEN 1 ELSE 0 END)` where x is declared to hold no NULL, else None.

    The declarations tell it, so nothing is measured. Tools add it to COUNT(DISTINCT x), to count NULL as a value.
    """
    if function is not MAX or not isinstance(argument, Case) or len(argument.branches) != 1:
        return None
    ((condition, found),) = argument.branches
    is_flag = _is(found, 1) and _is(argument.otherwise, 0)
    if not is_flag or not isinstance(condition, Call) or condition.function != "is_null":
        return None
    (tested,) = condition.arguments
    if isinstance(tested, Column) and _is_never_null(tested.id, scope.relation, context):
        return Literal(value=0, type=INT64, span=argument.span)
    return None


def _is(node: Expression, number: int) -> bool:
    return isinstance(node, Literal) and type(node.value) is int and node.value == number


def _is_never_null(id: str, relation: Relation, context: Context) -> bool:
    """Whether a column is a stored one that is declared to hold no NULL, or the unit's; outer joins make NULLs."""
    match relation:
        case Scan():
            names = [column.name for column in relation.columns if column.id == id]
            declared = context.catalog.tables[relation.table].columns
            return bool(names) and (relation.unit == id or not declared[names[0]].nullable)
        case Filter():
            return _is_never_null(id, relation.source, context)
        case Project():
            made = next((column.expression for column in relation.columns if column.id == id), None)
            return isinstance(made, Column) and _is_never_null(made.id, relation.source, context)
        case Join(kind="inner" | "cross" | "semi" | "anti"):
            return any(_is_never_null(id, side, context) for side in (relation.left, relation.right))
        case _:
            return False
