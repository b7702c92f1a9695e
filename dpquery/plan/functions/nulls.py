"""Operations that choose among their arguments."""

from __future__ import annotations

from typing import Any

from dpquery.plan.expr import Call, Expression, Literal
from dpquery.plan.functions.bounds import any_nullable, high, low, span
from dpquery.plan.functions.casts import cast_value
from dpquery.plan.functions.promotion import Expressions, Types, common_type, same_type
from dpquery.plan.functions.table import CHOOSES, Signature, SignatureError, function, is_null_literal
from dpquery.plan.ranges import Range, hull
from dpquery.plan.types import TEXT, Type


def _present(ranges: tuple[Range, ...], call: Call) -> list[Range]:
    """Returns the ranges of the arguments that are not the constant NULL."""
    return [r for r, argument in zip(ranges, call.arguments, strict=True) if not is_null_literal(argument)]


def _coalesce_range(ranges: tuple[Range, ...], call: Call) -> Range:
    used: list[Range] = []
    for r in _present(ranges, call):
        used.append(r)
        if not r.nullable:
            break
    if not used:
        return Range()
    joined = hull(*used)
    return span(low(joined), high(joined), nullable=used[-1].nullable)


def _nullif_range(ranges: tuple[Range, ...], _: Call) -> Range:
    apart = high(ranges[0]) < low(ranges[1]) or high(ranges[1]) < low(ranges[0])
    return span(low(ranges[0]), high(ranges[0]), nullable=ranges[0].nullable or not apart)


def _extreme_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """Bounds of LEAST and GREATEST. A NULL argument does not count, so only the others' bounds hold then."""
    used = _present(ranges, call)
    if not used:
        return Range()
    pick = max if call.function == "greatest" else min
    sure = [r for r in used if not r.nullable]
    joined = hull(*used)
    lower, upper = low(joined), high(joined)
    if pick is max and sure:
        lower = max(low(r) for r in sure)
    if pick is min and sure:
        upper = min(high(r) for r in sure)
    return span(lower, upper, nullable=not sure)


def _clamp_range(ranges: tuple[Range, ...], call: Call) -> Range:
    x, least, most = ranges
    lower = min(max(low(x), low(least)), high(most))
    upper = max(min(high(x), high(most)), low(least))
    return span(lower, upper, nullable=any_nullable(ranges))


def _clamp_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if len(types) != 3:
        return None
    shared = common_type(types, expressions)
    if shared is None or shared == TEXT:
        return None
    least, most = (_constant(e, shared) for e in expressions[1:])
    if least > most:
        raise SignatureError("the lower bound of CLAMP exceeds the upper one")
    return (shared,) * 3, shared


def _constant(expression: Expression, of: Type) -> Any:
    """Returns a bound of CLAMP in its type."""
    value = cast_value(expression.value, expression.type, of) if isinstance(expression, Literal) else None
    if value is None:
        raise SignatureError("the bounds of CLAMP must be constants")
    return value


@function(same_type(), _coalesce_range, sql="COALESCE(a, b)", parsed="", texts=CHOOSES, strict=False)
def coalesce(*values: Any) -> Any:
    """The first argument that is not NULL; NULL if all are."""
    return next((v for v in values if v is not None), None)


@function(same_type(least=2, most=2), _nullif_range, sql="NULLIF(a, b)", engine="", texts=CHOOSES, strict=False)
def nullif(a: Any, b: Any) -> Any:
    """The first argument, but NULL where both are equal."""
    return None if a is not None and b is not None and a == b else a


@function(same_type(), _extreme_range, sql="GREATEST(a, b)", parsed="", texts=CHOOSES, strict=False)
def greatest(*values: Any) -> Any:
    """The greatest of the arguments that are not NULL; NULL if all are."""
    return max((v for v in values if v is not None), default=None)


@function(same_type(), _extreme_range, sql="LEAST(a, b)", parsed="", texts=CHOOSES, strict=False)
def least(*values: Any) -> Any:
    """The least of the arguments that are not NULL; NULL if all are."""
    return min((v for v in values if v is not None), default=None)


@function(_clamp_resolve, _clamp_range, sql="CLAMP(a, 0, 10)", parsed="clamp/3", engine="")
def clamp(x: Any, lower: Any, upper: Any) -> Any:
    """The number, date or timestamp moved into [lower, upper], both constants; NULL if it is."""
    return min(max(x, lower), upper)
