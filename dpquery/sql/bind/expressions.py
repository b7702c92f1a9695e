"""Parsed scalar expressions to typed, total expressions; what is not known is refused at its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Protocol

from sqlglot import exp

from dpquery.errors import QueryError, QuerySyntaxError, Span, UnknownNameError
from dpquery.plan import functions
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Case, Cast, Column, Expression, Literal, rebuild, size_of
from dpquery.plan.logical import Relation
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, INTERVAL, TEXT, TIMESTAMP, Type, decimal
from dpquery.plan.zones import UTC
from dpquery.sql.bind.differences import ADVICE, as_dates, moved, of_intervals, read_apart
from dpquery.sql.bind.moments import constant_moment, epoch_refused, formatted, without_zones, zone_refused
from dpquery.sql.bind.scope import Context, Scope
from dpquery.sql.bind.wording import ADVISED, form_of, function_meant
from dpquery.sql.names.aggregate_names import advice_on, is_named_aggregate, unknown_name
from dpquery.sql.names.date_intervals import microseconds_of
from dpquery.sql.names.functions import division_of, is_known, operation_of
from dpquery.sql.names.spellings import rewritten
from dpquery.sql.parse.dialects import Objection, before_cast, objection, objection_to_types
from dpquery.sql.parse.parse import span_of

_PLAIN = {
    exp.DataType.Type.BOOLEAN: BOOLEAN,
    exp.DataType.Type.TINYINT: INT64,
    exp.DataType.Type.SMALLINT: INT64,
    exp.DataType.Type.INT: INT64,
    exp.DataType.Type.BIGINT: INT64,
    exp.DataType.Type.FLOAT: FLOAT64,
    exp.DataType.Type.DOUBLE: FLOAT64,
    exp.DataType.Type.TEXT: TEXT,
    exp.DataType.Type.VARCHAR: TEXT,
    exp.DataType.Type.DATE: DATE,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP,
    exp.DataType.Type.DATETIME: TIMESTAMP,
}

_SAME_EVERYWHERE = frozenset({exp.Column, exp.Paren, exp.Boolean, exp.Null, exp.Count, exp.Sum, exp.Avg})
"""These mean the same in all dialects, and none is a moment or compares one."""
_FLOATS = (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE)
_BITS = [[bits] for bits in range(1, 54)]
"""What may stand behind FLOAT; all floats have 64 bits here."""


class Aggregates(Protocol):
    """Where aggregates are allowed: turns an aggregate into the column that will hold it, or None if it is none."""

    def collect(self, node: exp.Expression) -> Expression | None:
        """Returns the column that will hold an aggregate, its value if that is certain, or None if it is none."""


class WindowFunctions(Protocol):
    """Where window functions are allowed: turns one into the column that will hold it."""

    def collect(self, node: exp.Window) -> Column:
        """Returns the column that will hold the window function."""


class Binds(Protocol):
    """Turns a parsed expression into a typed one."""

    def bind(self, node: exp.Expression) -> Expression:
        """Returns the typed expression."""


class Subqueries(Protocol):
    """Where subqueries are allowed: joins them to the relation, and turns them into what is read of the join."""

    def value(self, node: exp.Subquery) -> Expression:
        """Returns what stands for a subquery that is used as a value."""

    def takes(self, node: exp.Expression, binder: Binds) -> bool:
        """Whether a condition is IN, EXISTS, ANY or ALL with a subquery; if so, it will be applied to the relation."""

    def mark(self, node: exp.Expression, binder: Binds) -> Expression | None:
        """Returns the truth of a condition that is IN, EXISTS, ANY or ALL with a subquery; None for any other."""

    def apply(self, relation: Relation) -> Relation:
        """Returns the relation joined with all that was found so far."""

    def gives(self, id: str) -> bool:
        """Whether a column comes from a subquery."""

    @property
    def are_found(self) -> bool:
        """Whether a subquery waits to be joined."""


class Binder:
    """Binds expressions over one scope.

    Aggregates are known only where `aggregates` is given, window functions only where `windows` is, subqueries only
    where `subqueries` is, and columns of the query around only where `outer` is.
    """

    def __init__(
        self,
        context: Context,
        scope: Scope,
        aggregates: Aggregates | None = None,
        windows: WindowFunctions | None = None,
        subqueries: Subqueries | None = None,
        outer: Scope | None = None,
    ) -> None:
        self._context, self.scope, self._aggregates, self._windows = context, scope, aggregates, windows
        self._subqueries, self._outer = subqueries, outer

    def bind(self, node: exp.Expression) -> Expression:
        """Returns the typed expression; raises a QueryError at the first part that is not known."""
        self._context.count_parts()
        if type(node) not in _SAME_EVERYWHERE:
            node = constant_moment(rewritten(node, self._context.dialect), self._context.catalog.zone)
            self._object(objection(node, self._context.dialect), node)
        if self._aggregates is not None and (column := self._aggregates.collect(node)) is not None:
            return column
        if self._windows is not None and isinstance(node, exp.Window):
            return self._windows.collect(node)
        subqueries = self._subqueries if isinstance(node, exp.Predicate) else None
        if subqueries is not None and (mark := subqueries.mark(node, self)) is not None:
            return mark
        match node:
            case exp.Paren():
                return self.bind(node.this)
            case exp.Column() if not isinstance(node.this, exp.Star):
                return self._column(node)
            case exp.Subquery() if self._subqueries is not None:
                return self._subqueries.value(node)
            case exp.Literal():
                return literal_of(node, self._context)
            case exp.Boolean():
                return Literal(value=bool(node.this), type=BOOLEAN)
            case exp.Null():
                return Literal(value=None, type=TEXT)
            case exp.Func() if (part := self._apart(node)) is not None:
                return part
            case exp.Cast():
                self._context.only(node, "this", "to", "safe")
                target = type_of(node.args["to"], self._context)
                given = before_cast(self.bind(node.this), target, self._context.dialect)
                return self._cast(given, target, node, span_of(node, self._context.text))
            case exp.Case():
                self._context.only(node, "this", "ifs", "default")
                return self._case(node)
            case exp.If():
                self._context.only(node, "this", "true", "false")
                tested = self.condition(node.this, "CASE")
                return self._branches([tested], [node.args["true"]], node.args.get("false"), node)
            case exp.In():
                if node.args.get("query") is not None:
                    raise self._unknown(node.args["query"])
                self._context.only(node, "this", "expressions")
                return self._call("in", [node.this, *node.expressions], node)
            case exp.Between():
                self._context.only(node, "this", "low", "high")
                ends = [("ge", node.args["low"]), ("le", node.args["high"])]
                return self._apply("and", [self._call(name, [node.this, end], node) for name, end in ends], node)
            case exp.Div():
                return self._divide(node)
            case exp.CurrentDate():
                self._context.only(node)
                return Literal(value=self._context.now(node).date(), type=DATE)
            case exp.CurrentTimestamp():
                self._context.only(node)
                return Literal(value=self._context.now(node), type=TIMESTAMP)
            case exp.AtTimeZone():
                raise zone_refused(node, self._context)
            case exp.Interval() | exp.Mul() if (length := microseconds_of(node)) is not None:
                return self._cast(self.bind(length), INTERVAL, node, span_of(node, self._context.text))
        if (text := self._refusing(node, lambda: formatted(node, self._context, self.bind))) is not None:
            return text
        operation = operation_of(node)
        if operation is None:
            raise self._unknown(node)
        return self._call(operation[0], operation[1], node)

    def _column(self, node: exp.Column) -> Column:
        """Returns the column of this query, or else of the query around it, that a name means."""
        try:
            return self.scope.find(node, self._context)
        except UnknownNameError:
            for scope in reversed(self._context.enclosing):
                with contextlib.suppress(UnknownNameError):
                    found = scope.find(node, self._context)
                    if scope is self._outer:
                        return found
                    raise self._context.unsupported(
                        f"column {node.sql()} of the outer query cannot be read here",
                        node,
                        "A subquery can read columns of the query directly around it, and only in its WHERE.",
                    ) from None
            raise

    def condition(self, node: exp.Expression, clause: str) -> Expression:
        """Returns a bound boolean expression, for WHERE and the like."""
        bound = self.bind(node)
        if isinstance(bound, Literal) and bound.value is None:
            return Literal(value=None, type=BOOLEAN)
        if bound.type != BOOLEAN:
            reason = f"{clause} needs a condition, not a value of type {bound.type}"
            raise self._context.unsupported(reason, node, "Compare it, as in x > 0.")
        return bound

    def _call(self, name: str, nodes: Sequence[exp.Expression], node: exp.Expression) -> Expression:
        arguments = without_zones([self.bind(part) for part in nodes], self._context.catalog.zone)
        self._object(objection_to_types(name, arguments, node, self._context.dialect), node)
        apart = self._refusing(node, lambda: of_intervals(name, arguments, self._context.dialect))
        if apart is not None:
            return replace(apart, span=span_of(node, self._context.text))
        if name == "extract_epoch" and self._context.catalog.zone not in ("", UTC):
            raise epoch_refused(node, self._context)
        return moved(self._apply(name, as_dates(name, arguments), node), node, self._context.dialect)

    def _apart(self, node: exp.Expression) -> Expression | None:
        """Returns a time of day or a part of an age; None for something else."""

        def bind(parts: Sequence[exp.Expression]) -> list[Expression]:
            return without_zones([self.bind(part) for part in parts], self._context.catalog.zone)

        found = self._refusing(node, lambda: read_apart(node, self._context.dialect, bind))
        return None if found is None else replace(found, span=span_of(node, self._context.text))

    def _refusing(self, node: exp.Expression, make: Callable[[], Expression | None]) -> Expression | None:
        """Returns what is made; types that do not fit are refused at the node."""
        try:
            return make()
        except TypeError as error:
            raise self._context.unsupported(str(error), node) from None

    def _object(self, found: Objection | None, node: exp.Expression) -> None:
        if found is not None:
            raise self._context.unsupported(found[0], node, found[1])

    def _apply(self, name: str, arguments: list[Expression], node: exp.Expression) -> Expression:
        try:
            made = functions.call(name, arguments, span_of(node, self._context.text))
        except (LookupError, TypeError) as error:
            reason, is_interval = str(error).strip("'\""), INTERVAL in (argument.type for argument in arguments)
            raise self._context.unsupported(reason, node, ADVICE if is_interval else ADVISED.get(reason, "")) from None
        return rebuild(made, tuple(self._fold(argument, node) for argument in made.arguments))

    def _fold(self, argument: Expression, node: exp.Expression) -> Expression:
        """Returns a cast constant as a constant; one that does not fit its type is refused now."""
        if not (isinstance(argument, Cast) and isinstance(argument.argument, Literal)):
            return argument
        value = evaluate(argument, {})
        if value is None and argument.argument.value is not None:
            shown = repr(argument.argument.value)
            advice = ADVISED.get(f"the text constant is not a valid {argument.type}", "")
            raise self._context.unsupported(f"{shown} is not a valid {argument.type}", node, advice)
        return Literal(value=value, type=argument.type, span=argument.span)

    def _cast(self, argument: Expression, target: Type, node: exp.Expression, span: Span | None) -> Expression:
        """Returns the argument as another type; constants are read now, and those that do not fit are refused."""
        try:
            return self._fold(functions.cast(functions.signed(argument), target, span), node)
        except TypeError as error:
            raise self._context.unsupported(str(error), node) from None

    def _case(self, node: exp.Case) -> Expression:
        tested, branches = node.args.get("this"), node.args["ifs"]
        if tested is None:
            conditions = [self.condition(branch.this, "CASE") for branch in branches]
        else:
            compared = self.bind(tested)
            self._context.count_parts(len(branches) * size_of(compared))
            conditions = [self._apply("eq", [compared, self.bind(branch.this)], branch) for branch in branches]
        return self._branches(conditions, [branch.args["true"] for branch in branches], node.args.get("default"), node)

    def _branches(
        self,
        conditions: list[Expression],
        given: list[exp.Expression],
        default: exp.Expression | None,
        node: exp.Expression,
    ) -> Expression:
        results = [self.bind(result) for result in given]
        results.append(Literal(value=None, type=TEXT) if default is None else self.bind(default))
        try:
            target = functions.common_type(tuple(result.type for result in results), tuple(results))
        except TypeError as error:
            raise self._context.unsupported(str(error), node) from None
        if target is None:
            kinds = ", ".join(sorted({str(result.type) for result in results}))
            raise self._context.unsupported(f"the results of CASE have different types: {kinds}", node)
        span = span_of(node, self._context.text)
        results = [self._cast(result, target, node, span) for result in results]
        pairs = tuple(zip(conditions, results[:-1], strict=True))
        return Case(branches=pairs, otherwise=results[-1], type=target, span=span)

    def _divide(self, node: exp.Div) -> Expression:
        left, right = self.bind(node.this), self.bind(node.expression)
        return self._apply(division_of(node, left.type, right.type), [left, right], node)

    def _unknown(self, node: exp.Expression) -> QueryError:
        context = self._context
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup) or is_named_aggregate(node):
            return self._unknown_aggregate(node)
        if isinstance(node, exp.Window):
            return context.unsupported(
                "a window function cannot be used in WHERE, ON, GROUP BY or HAVING, nor inside an aggregate "
                "or another window function",
                node,
                "Filter with QUALIFY, or compute it in a subquery.",
            )
        if isinstance(node, exp.Any | exp.All) and isinstance(node.this, exp.Tuple | exp.Array | exp.Paren):
            return context.unsupported("ANY and ALL are not supported", node, "Use IN (...).")
        if isinstance(node, exp.Subquery | exp.Exists | exp.Select | exp.SetOperation | exp.Any | exp.All):
            reason, advice = "a subquery is not supported here", "Join its tables in FROM, or compare in WHERE."
            return context.unsupported(reason, node, advice)
        if isinstance(node, exp.Rand | exp.Uuid | exp.CurrentTime):
            return context.unsupported("a function that returns a different value at each call is not supported", node)
        if isinstance(node, exp.Func) and not isinstance(node, exp.Array):
            span = span_of(node, context.text)
            name, bracket, _ = context.text[span.start : span.end].partition("(") if span else ("", "", "")
            name = name.strip().lower()
            if name.isidentifier() and bracket:
                how, near = "with these arguments", ""
                if not is_known(node):
                    how, near = "here", function_meant(name, context.text[span.start : span.end]) if span else ""
                advice = ADVISED.get(name) or f"{near}The reference of SQL lists the functions."
                return context.refuse(UnknownNameError, f"function {name} is not known {how}", node, advice)
        return context.unsupported(f"{form_of(node)} is not supported", node, ADVISED.get(form_of(node), ""))

    def _unknown_aggregate(self, node: exp.Expression) -> QueryError:
        if self._aggregates is not None:
            name = unknown_name(node)
            what = "this aggregate" if name is None else f"the aggregate {name.upper()}"
            reason, advice = f"{what} is not supported", advice_on(name or "")
        else:
            reason = "an aggregate cannot be used inside another aggregate, nor in WHERE, ON or GROUP BY"
            advice = "Aggregate in a subquery, or filter groups with HAVING."
        return self._context.unsupported(reason, node, advice)


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """Returns the AND of the conditions, or None if there are none."""
    joined: Expression | None = None
    for condition in conditions:
        joined = condition if joined is None else functions.call("and", (joined, condition))
    return joined


def conjunct_trees(tree: exp.Expression) -> list[exp.Expression]:
    """Returns the parts of an AND in the parsed tree, in order; any other condition is its own only part."""
    inner = tree
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if not isinstance(inner, exp.And):
        return [tree]
    return [part for side in (inner.this, inner.expression) for part in conjunct_trees(side)]


def type_of(node: exp.DataType, context: Context) -> Type:
    """Returns the type that a type name means; unknown names and parameters are refused."""
    parameters = [int(part.name) for part in node.expressions if part.name.isdigit()]
    if len(parameters) == len(node.expressions):
        if node.this is exp.DataType.Type.DECIMAL and len(parameters) in (1, 2):
            precision, scale = parameters[0], parameters[1] if len(parameters) == 2 else 0
            if 1 <= precision <= 38 and scale <= precision:
                return decimal(precision, scale)
        elif node.this is exp.DataType.Type.DECIMAL and not parameters:
            return decimal(38, 9)
        elif node.this in _PLAIN and (not parameters or (node.this in _FLOATS and parameters in _BITS)):
            return _PLAIN[node.this]
    advice = "Types: boolean, bigint, double precision, decimal(p,s), text, date, timestamp."
    raise context.unsupported(f"type {node.sql()} is not supported", node, advice)


def literal_of(node: exp.Literal, context: Context) -> Literal:
    """Returns a constant: text, or a number in the narrowest of int64, decimal and float64 that holds it exactly."""
    span, text = span_of(node, context.text), node.name
    if node.is_string:
        return Literal(value=text, type=TEXT, span=span)
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise context.refuse(QuerySyntaxError, f"{text[:40]} is not a number", node) from None
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")) or (value == 0.0) is not (number == 0):
            raise context.refuse(QuerySyntaxError, "the number is too large or too small", node)
        return Literal(value=value, type=FLOAT64, span=span)
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    if scale <= 0 and abs(int(number)) < 2**63:
        return Literal(value=int(number), type=INT64, span=span)
    precision = max(len(digits), scale)
    if precision > 38 or scale < 0:
        raise context.refuse(QuerySyntaxError, "the number has more than 38 digits", node)
    return Literal(value=number, type=decimal(precision, scale), span=span)
