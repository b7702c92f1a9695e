"""Operations that choose among their arguments."""

from __future__ import annotations

from typing import Any

from dpquery.plan.expr import Call, Expression, Literal
from dpquery.plan.functions.bounds import any_nullable, high, low, span
from dpquery.plan.functions.casts import cast_value
from dpquery.plan.functions.promotion import Expressions, Types, common_type, same_type
from dpquery.plan.functions.table import CHOOSES, Function, Signature, SignatureError, is_null_literal
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


def _coalesce(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def _greatest(*values: Any) -> Any:
    return max((v for v in values if v is not None), default=None)


def _least(*values: Any) -> Any:
    return min((v for v in values if v is not None), default=None)


def _clamp(x: Any, lower: Any, upper: Any) -> Any:
    return None if x is None else min(max(x, lower), upper)


NULLS = (
    Function(
        name="coalesce",
        resolve=same_type(),
        range=_coalesce_range,
        meaning=_coalesce,
        doc="The first argument that is not NULL; NULL if all are.",
        texts=CHOOSES,
    ),
    Function(
        name="nullif",
        resolve=same_type(least=2, most=2),
        range=_nullif_range,
        meaning=lambda a, b: None if a is not None and b is not None and a == b else a,
        doc="The first argument, but NULL where both are equal.",
        texts=CHOOSES,
    ),
    Function(
        name="greatest",
        resolve=same_type(),
        range=_extreme_range,
        meaning=_greatest,
        doc="The greatest of the arguments that are not NULL; NULL if all are.",
        texts=CHOOSES,
    ),
    Function(
        name="least",
        resolve=same_type(),
        range=_extreme_range,
        meaning=_least,
        doc="The least of the arguments that are not NULL; NULL if all are.",
        texts=CHOOSES,
    ),
    Function(
        name="clamp",
        resolve=_clamp_resolve,
        range=_clamp_range,
        meaning=_clamp,
        doc="The number, date or timestamp moved into [lower, upper], both constants; NULL if it is.",
    ),
)
