"""Parsed scalar expressions to typed, total expressions; what is not known is refused at its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from dpquery.errors import QueryError, Span, UnknownNameError, UnsupportedQueryError
from dpquery.plan import functions
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Case, Cast, Column, Expression, Literal, rebuild, size_of
from dpquery.plan.types import BOOLEAN, DATE, TEXT, TIMESTAMP, Type
from dpquery.sql.functions import division_of, is_known, operation_of
from dpquery.sql.parse import span_of
from dpquery.sql.scope import Context, Scope
from dpquery.sql.types import literal_of, type_of

_FORMS: dict[type[exp.Expression], str] = {
    exp.Add: "this sum",
    exp.Sub: "this difference",
    exp.Like: "LIKE with a pattern that is no constant",
    exp.ILike: "ILIKE with a pattern that is no constant",
    exp.Interval: "an interval in this place",
    exp.AtTimeZone: "a time zone",
    exp.Placeholder: "a parameter",
    exp.Tuple: "a row of values",
    exp.Array: "a list",
    exp.Bracket: "an element of a list",
    exp.Dot: "a field of a value",
    exp.Column: "a star in this place",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
}
"""What people call a form that the parser knows and we do not."""


class Aggregates(Protocol):
    """Where aggregates are allowed: turns an aggregate into the column that will hold it, or None if it is none."""

    def collect(self, node: exp.Expression) -> Column | None: ...


class WindowFunctions(Protocol):
    """Where window functions are allowed: turns one into the column that will hold it."""

    def collect(self, node: exp.Window) -> Column:
        """Returns the column that will hold the window function."""


class Binder:
    """Binds expressions over one scope; aggregates and window functions only where they are given a place."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        aggregates: Aggregates | None = None,
        windows: WindowFunctions | None = None,
    ) -> None:
        self._context, self._scope, self._aggregates, self._windows = context, scope, aggregates, windows

    def bind(self, node: exp.Expression) -> Expression:
        """Returns the typed expression; raises a QueryError at the first part that is not known."""
        self._context.count_parts()
        if self._aggregates is not None and (column := self._aggregates.collect(node)) is not None:
            return column
        if self._windows is not None and isinstance(node, exp.Window):
            return self._windows.collect(node)
        match node:
            case exp.Paren():
                return self.bind(node.this)
            case exp.Column() if not isinstance(node.this, exp.Star):
                return self._scope.find(node, self._context)
            case exp.Literal():
                return literal_of(node, self._context)
            case exp.Boolean():
                return Literal(value=bool(node.this), type=BOOLEAN)
            case exp.Null():
                return Literal(value=None, type=TEXT)
            case exp.Cast():
                self._context.only(node, "this", "to", "safe")
                target = type_of(node.args["to"], self._context)
                return self._cast(self.bind(node.this), target, node, span_of(node, self._context.text))
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
                low = self._call("ge", [node.this, node.args["low"]], node)
                return self._apply("and", [low, self._call("le", [node.this, node.args["high"]], node)], node)
            case exp.Div():
                return self._divide(node)
            case exp.CurrentDate():
                self._context.only(node)
                return Literal(value=self._context.now.date(), type=DATE)
            case exp.CurrentTimestamp():
                self._context.only(node)
                return Literal(value=self._context.now, type=TIMESTAMP)
        operation = operation_of(node)
        if operation is None:
            raise self._unknown(node)
        return self._call(operation[0], operation[1], node)

    def condition(self, node: exp.Expression, clause: str) -> Expression:
        """Returns a bound boolean expression, for WHERE and the like."""
        bound = self.bind(node)
        if isinstance(bound, Literal) and bound.value is None:
            return Literal(value=None, type=BOOLEAN)
        if bound.type != BOOLEAN:
            raise self._context.refuse(
                UnsupportedQueryError, f"{clause} needs a condition, not a value of type {bound.type}", node
            )
        return bound

    def _call(self, name: str, nodes: Sequence[exp.Expression], node: exp.Expression) -> Expression:
        return self._apply(name, [self.bind(part) for part in nodes], node)

    def _apply(self, name: str, arguments: list[Expression], node: exp.Expression) -> Expression:
        try:
            made = functions.call(name, arguments, span_of(node, self._context.text))
        except (LookupError, TypeError) as error:
            raise self._context.refuse(UnsupportedQueryError, str(error).strip("'\""), node) from None
        return rebuild(made, tuple(self._fold(argument, node) for argument in made.arguments))

    def _fold(self, argument: Expression, node: exp.Expression) -> Expression:
        """Returns a cast constant as a constant; one that does not fit its type is refused now."""
        if not (isinstance(argument, Cast) and isinstance(argument.argument, Literal)):
            return argument
        value = evaluate(argument, {})
        if value is None and argument.argument.value is not None:
            shown = repr(argument.argument.value)
            raise self._context.refuse(UnsupportedQueryError, f"{shown} is no {argument.type}", node)
        return Literal(value=value, type=argument.type, span=argument.span)

    def _cast(self, argument: Expression, target: Type, node: exp.Expression, span: Span | None) -> Expression:
        """Returns the argument as another type; constants are read now, and those that do not fit are refused."""
        try:
            return self._fold(functions.cast(argument, target, span), node)
        except TypeError as error:
            raise self._context.refuse(UnsupportedQueryError, str(error), node) from None

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
            raise self._context.refuse(UnsupportedQueryError, str(error), node) from None
        if target is None:
            kinds = ", ".join(sorted({str(result.type) for result in results}))
            raise self._context.refuse(UnsupportedQueryError, f"the results of CASE differ in type: {kinds}", node)
        span = span_of(node, self._context.text)
        results = [self._cast(result, target, node, span) for result in results]
        pairs = tuple(zip(conditions, results[:-1], strict=True))
        return Case(branches=pairs, otherwise=results[-1], type=target, span=span)

    def _divide(self, node: exp.Div) -> Expression:
        left, right = self.bind(node.this), self.bind(node.expression)
        return self._apply(division_of(node, left.type, right.type), [left, right], node)

    def _unknown(self, node: exp.Expression) -> QueryError:
        context = self._context
        if isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup):
            return self._unknown_aggregate(node)
        if isinstance(node, exp.Window):
            return context.refuse(
                UnsupportedQueryError,
                "a window function cannot stand in WHERE, ON, GROUP BY or HAVING, nor in an aggregate or another one",
                node,
                "Filter with QUALIFY, or compute it in a subquery.",
            )
        if isinstance(node, exp.Any | exp.All) and isinstance(node.this, exp.Tuple | exp.Array | exp.Paren):
            return context.refuse(UnsupportedQueryError, "ANY and ALL are not supported", node, "Use IN (...).")
        if isinstance(node, exp.Subquery | exp.Exists | exp.Select | exp.Any | exp.All):
            return context.refuse(
                UnsupportedQueryError,
                "a subquery inside an expression is not supported",
                node,
                "Join the tables in FROM instead.",
            )
        if isinstance(node, exp.Rand | exp.Uuid | exp.CurrentTime):
            return context.refuse(UnsupportedQueryError, "a function whose value changes is not supported", node)
        if isinstance(node, exp.Func):
            span = span_of(node, context.text)
            written = context.text[span.start : span.end].split("(")[0].strip() if span else ""
            name = written if written.isidentifier() else node.sql_name()
            advice = "docs/reference/sql.md lists the functions."
            how = "with these arguments" if is_known(node) else "here"
            return context.refuse(UnknownNameError, f"function {name.lower()} is not known {how}", node, advice)
        what = _FORMS.get(type(node)) or f"{type(node).__name__} in this place"
        return context.refuse(UnsupportedQueryError, f"{what} is not supported", node)

    def _unknown_aggregate(self, node: exp.Expression) -> QueryError:
        if self._aggregates is not None:
            reason, advice = "this aggregate has no private form here", "COUNT, SUM, AVG, VAR and STDDEV have."
        else:
            reason = "an aggregate cannot stand inside another one, nor in WHERE, ON or GROUP BY"
            advice = "Aggregate in a subquery, or filter groups with HAVING."
        return self._context.refuse(UnsupportedQueryError, reason, node, advice)


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """Returns the AND of the conditions, or None if there are none."""
    joined: Expression | None = None
    for condition in conditions:
        joined = condition if joined is None else functions.call("and", (joined, condition))
    return joined
