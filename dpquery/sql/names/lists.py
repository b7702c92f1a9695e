"""Lists that SQL makes and takes apart again at once: the element that is asked, or one column for each."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

_FINEST = 10_000
"""Of so many parts of the rows quantiles are known."""
RANKED = (exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc, exp.Quantile)
"""Calls that may hold a list of fractions."""


def element(node: exp.Bracket) -> exp.Expression | None:
    """Returns what an element of a list that an aggregate makes is without the list, or None.

    `APPROX_QUANTILES(x, 4)[OFFSET(2)]` is a median, `(ARRAY_AGG(x ORDER BY y))[1]` the first x.
    """
    made = node.this.unnest()
    if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Literal):
        return None
    place = _number(node.expressions[0])
    if isinstance(made, exp.ApproxQuantiles) and place is not None and node.args.get("offset") in (0, 1):
        return _approximate(made, place - node.args["offset"])
    if isinstance(made, exp.ArrayAgg) and isinstance(made.this, exp.Order) and place == 0 and _is_plain(made):
        return exp.First(this=made.this.copy())  # the parser counts from 0
    return None


def _approximate(call: exp.ApproxQuantiles, place: int) -> exp.Expression | None:
    """Returns one of the values that cut the rows into equal parts; its place is approximate by its name."""
    parts = _number(call.args.get("expression"))
    if parts is None or not 0 <= place <= parts or not 0 < parts <= _FINEST:
        return None
    if place in (0, parts):
        return (exp.Min if place == 0 else exp.Max)(this=call.this.copy())
    fraction = exp.Literal.number(f"{Decimal(place) / parts:.4f}")
    return exp.PercentileDisc(this=call.this.copy(), expression=fraction)


def _number(node: object) -> int | None:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        return None
    return int(node.name)


def _is_plain(node: exp.Expression) -> bool:
    return all(key == "this" or not value for key, value in node.args.items())


def quantiles(node: exp.Expression, name: str) -> list[tuple[str, exp.Expression]]:
    """Returns a call of a quantile with a list of fractions as a call for each, named by its percentile; else none."""
    call = node.this if isinstance(node, exp.WithinGroup) else node
    if not isinstance(call, RANKED):
        return []
    place = next((key for key, value in call.args.items() if isinstance(value, exp.Array)), None)
    if place is None:
        return []
    made = []
    for fraction in call.args[place].expressions:
        one = node.copy()
        (one.this if isinstance(one, exp.WithinGroup) else one).set(place, fraction.copy())
        one.parent = node.parent
        made.append((f"{name}_{_percent(fraction)}", one))
    return made


def _percent(fraction: exp.Expression) -> str:
    """Returns a fraction in percent, as it may stand in a name: 0.5 as 50, 0.995 as 99_5."""
    try:
        return f"{(Decimal(fraction.name) * 100).normalize():f}".replace(".", "_")
    except ArithmeticError:
        return fraction.name


def ratio_to_report(window: exp.Window) -> exp.Expression | None:
    """Returns `RATIO_TO_REPORT(x) OVER (...)` as x divided by its sum, or None."""
    call = window.this
    if not (isinstance(call, exp.Anonymous) and call.name.upper() == "RATIO_TO_REPORT" and len(call.expressions) == 1):
        return None
    total = window.copy()
    total.set("this", exp.Sum(this=call.expressions[0].copy()))
    return exp.Div(this=exp.Paren(this=call.expressions[0].copy()), expression=total, typed=False, safe=True)
