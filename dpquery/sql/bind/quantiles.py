"""Quantiles and modes in their many spellings."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpquery.errors import UnsupportedQueryError
from dpquery.plan.expr import Literal
from dpquery.sql.bind.expressions import Binder
from dpquery.sql.bind.scope import Context

FINEST = 10**4
"""The largest denominator of a quantile's fraction."""

_CLASSES: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Median: ("median", "quantile_cont"),
    exp.Quantile: ("quantile", "quantile_disc"),
    exp.ApproxQuantile: ("approx_quantile", "quantile_disc"),
    exp.PercentileCont: ("percentile_cont", "quantile_cont"),
    exp.PercentileDisc: ("percentile_disc", "quantile_disc"),
    exp.Mode: ("mode", "mode"),
}
NAMES = {"QUANTILE_CONT": "quantile_cont", "QUANTILE_DISC": "quantile_disc"}
"""Calls that most dialects of the parser have no class for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A call of a quantile or mode: its name, its function in plans, its argument, and the fraction of a quantile."""

    name: str
    function: str
    argument: exp.Expression
    fraction: Fraction | None


def read_quantile(call: exp.Expression, context: Context, binder: Binder) -> Chosen | None:
    """Returns what the call means, or None if it is no quantile and no mode."""
    if isinstance(call, exp.Anonymous) and str(call.this).upper() in NAMES:
        parts = call.expressions
        if len(parts) != 2:
            raise context.refuse(UnsupportedQueryError, f"{call.this} takes a value and a fraction", call)
        function = NAMES[str(call.this).upper()]
        return Chosen(
            name=function, function=function, argument=parts[0], fraction=_fraction(parts[1], context, binder)
        )
    inner = call.this if isinstance(call, exp.WithinGroup) else call
    if type(inner) not in _CLASSES:
        return None
    name, function = _CLASSES[type(inner)]
    if isinstance(call, exp.WithinGroup):
        return _within_group(call, name, function, context, binder)
    given = inner.args.get("quantile") or inner.args.get("expression")
    context.only(inner, "this", "quantile", "expression")
    if inner.this is None or (given is None) is (name not in ("median", "mode")):
        advice = f"Write {name.upper()}(0.5) WITHIN GROUP (ORDER BY x), or QUANTILE_CONT(x, 0.5)."
        raise context.refuse(UnsupportedQueryError, f"{name.upper()} needs a value and a fraction", call, advice)
    fraction = Fraction(1, 2) if name == "median" else None if given is None else _fraction(given, context, binder)
    return Chosen(name=name, function=function, argument=inner.this, fraction=fraction)


def _within_group(call: exp.WithinGroup, name: str, function: str, context: Context, binder: Binder) -> Chosen:
    inner, order = call.this, call.expression
    context.only(call, "this", "expression")
    context.only(inner, "this")
    items = order.expressions if isinstance(order, exp.Order) else []
    if len(items) != 1 or (inner.this is None) is (name != "mode") or name in ("median", "quantile", "approx_quantile"):
        raise context.refuse(UnsupportedQueryError, f"{name.upper()} WITHIN GROUP is not written in this form", call)
    item = items[0]
    if item.args.get("desc"):
        raise context.refuse(
            UnsupportedQueryError,
            "WITHIN GROUP must sort in ascending order",
            item,
            "Leave DESC out and ask for 1 - p.",
        )
    fraction = None if inner.this is None else _fraction(inner.this, context, binder)
    return Chosen(name=name, function=function, argument=item.this, fraction=fraction)


def _fraction(node: exp.Expression, context: Context, binder: Binder) -> Fraction:
    """Returns a constant from 0 to 1."""
    bound = binder.bind(node)
    value = bound.value if isinstance(bound, Literal) else None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and 0 <= value <= 1:
        fraction = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
        if fraction.denominator <= FINEST:
            return fraction
    reason = "the fraction of a quantile is a constant from 0 to 1 of at most four digits"
    raise context.refuse(UnsupportedQueryError, reason, node)
