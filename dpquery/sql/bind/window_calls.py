"""The function before OVER: its name in plans, its arguments, its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.aggregates.aggregate import needs_number
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.functions.table import SignatureError
from dpquery.plan.types import FLOAT64, INT64, Type, sum_type
from dpquery.sql.bind.scope import Context

Bind = Callable[[exp.Expression], Expression]

_RANKS: dict[type[exp.Expression], tuple[str, Type]] = {
    exp.RowNumber: ("row_number", INT64),
    exp.Rank: ("rank", INT64),
    exp.DenseRank: ("dense_rank", INT64),
    exp.PercentRank: ("percent_rank", FLOAT64),
    exp.CumeDist: ("cume_dist", FLOAT64),
}
_SHIFTS: dict[type[exp.Expression], str] = {exp.Lag: "lag", exp.Lead: "lead"}
_PICKS: dict[type[exp.Expression], str] = {
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
_TOTALS: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
MOST = 10**9
"""The largest number that NTILE, NTH_VALUE, LAG and LEAD take."""
_KNOWN = "ROW_NUMBER, the ranks, NTILE, LAG, LEAD, FIRST_, LAST_ and NTH_VALUE, COUNT, SUM, AVG, MIN and MAX have one."


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCall:
    """A window function without its window. `framed` says whether it looks at a frame or at the whole partition."""

    function: str
    type: Type
    arguments: tuple[Expression, ...] = ()
    filter: Expression | None = None
    framed: bool = False


def bind_call(node: exp.Window, bind: Bind, condition: Bind, context: Context) -> WindowCall:
    """Returns the function that stands before OVER.

    Args:
        bind: Binds an argument.
        condition: Binds the condition of FILTER.
    """
    return _Call(node, bind, condition, context).made()


class _Call:
    def __init__(self, node: exp.Window, bind: Bind, condition: Bind, context: Context) -> None:
        self._node, self._bind, self._condition, self._context = node, bind, condition, context

    def made(self) -> WindowCall:
        call, kept = self._node.this, None
        if isinstance(call, exp.RespectNulls):
            self._context.only(call, "this")
            call = call.this
        if isinstance(call, exp.IgnoreNulls):
            raise self._context.unsupported(
                "IGNORE NULLS is not supported", call, "Leave rows with NULL out in a subquery."
            )
        if isinstance(call, exp.Filter):
            self._context.only(call, "this", "expression")
            self._context.only(call.expression, "this")
            call, kept = call.this, call.expression.this
        if type(call) in _TOTALS:
            return self._total(call, None if kept is None else self._condition(kept))
        if kept is not None:
            raise self._context.unsupported("FILTER can only follow an aggregate", call)
        if type(call) in _RANKS:
            return self._rank(call)
        if isinstance(call, exp.Ntile):
            self._context.only(call, "this")
            return WindowCall(function="ntile", type=INT64, arguments=(self._number(call.this, 1, call),))
        if type(call) in _SHIFTS:
            return self._shift(call)
        if type(call) in _PICKS:
            return self._pick(call)
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name() if isinstance(call, exp.Func) else ""
        raise self._context.unsupported(f"{name.upper() or 'this'} is not supported as a window function", call, _KNOWN)

    def _rank(self, call: exp.Expression) -> WindowCall:
        function, type = _RANKS[call.__class__]
        if any(value not in (None, False, []) for value in call.args.values()):
            raise self._context.unsupported(f"{function.upper()} takes no arguments", call)
        return WindowCall(function=function, type=type)

    def _shift(self, call: exp.Expression) -> WindowCall:
        self._context.only(call, "this", "offset", "default")
        value, given = self._bind(call.this), call.args.get("default")
        offset = self._number(call.args.get("offset") or exp.Literal.number(1), 0, call)
        if given is None:
            return WindowCall(function=_SHIFTS[type(call)], type=value.type, arguments=(value, offset))
        default = self._bind(given)
        try:
            target = functions.common_type((value.type, default.type), (value, default))
            if target is None:
                raise TypeError(f"{value.type} and {default.type} have no common type")
            parts = functions.cast(value, target), functions.cast(default, target)
        except TypeError as error:
            raise self._context.unsupported(str(error), given) from None
        return WindowCall(function=_SHIFTS[type(call)], type=target, arguments=(parts[0], offset, parts[1]))

    def _pick(self, call: exp.Expression) -> WindowCall:
        function = _PICKS[type(call)]
        self._context.only(call, "this", *(["offset"] if function == "nth_value" else []))
        value = self._bind(call.this)
        number = (self._number(call.args.get("offset"), 1, call),) if function == "nth_value" else ()
        return WindowCall(function=function, type=value.type, arguments=(value, *number), framed=True)

    def _total(self, call: exp.Expression, kept: Expression | None) -> WindowCall:
        function, inner = _TOTALS[type(call)], call.this
        self._context.only(call, "this", "expressions", "big_int")
        if call.expressions:
            raise self._context.unsupported(f"{function.upper()} takes one argument", call)
        if isinstance(inner, exp.Distinct):
            raise self._context.unsupported(
                "DISTINCT in a window function is not supported", call, "Use it in a subquery."
            )
        if function == "count_if":
            condition = self._condition(inner)
            both = condition if kept is None else functions.call("and", (condition, kept))
            return WindowCall(function="count", type=INT64, filter=both, framed=True)
        if isinstance(inner, exp.Star):
            if function != "count":
                raise self._context.unsupported(f"{function.upper()}(*) has no meaning", call)
            self._context.only(inner)
            return WindowCall(function="count", type=INT64, filter=kept, framed=True)
        argument = self._bind(inner)
        if function == "count" and isinstance(argument, Literal) and argument.value is not None:
            return WindowCall(function="count", type=INT64, filter=kept, framed=True)
        made = self._type(function, argument, call)
        return WindowCall(function=function, type=made, arguments=(argument,), filter=kept, framed=True)

    def _type(self, function: str, argument: Expression, call: exp.Expression) -> Type:
        given = argument.type
        if function == "count":
            return INT64
        if function in ("min", "max"):
            return given
        try:
            needs_number(function, given)
        except SignatureError as error:
            reason, advice = error.args
            raise self._context.unsupported(reason, call, advice) from None
        if function == "avg":
            return FLOAT64
        return sum_type(given)

    def _number(self, node: exp.Expression | None, least: int, call: exp.Expression) -> Literal:
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            number = int(node.name)
            if least <= number <= MOST:
                return Literal(value=number, type=INT64)
        reason = (
            f"{call.sql_name() if isinstance(call, exp.Func) else 'this'} takes a whole number from {least} to {MOST}"
        )
        raise self._context.unsupported(reason, node or call)
