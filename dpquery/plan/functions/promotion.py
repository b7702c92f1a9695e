"""Which type several arguments have in common."""

from __future__ import annotations

from dpquery.plan.expr import Expression, Literal
from dpquery.plan.functions.casts import cast_value
from dpquery.plan.functions.table import Constant, Resolve, Signature, SignatureError, accepts, is_null_literal
from dpquery.plan.types import FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, decimal

Types = tuple[Type, ...]
Expressions = tuple[Expression, ...]


def common_type(types: Types, expressions: Expressions) -> Type | None:
    """Returns the type to which all arguments can be cast for a comparison, or None.

    NULL constants take any type, and text constants the type of what they stand beside, as in PostgreSQL.
    Integers and decimals meet in a decimal that holds both, else in FLOAT64; anything beside a float is a float.
    """
    first = types[0]
    if first != TEXT and types.count(first) == len(types):
        return first
    voters = [(t, e) for t, e in zip(types, expressions, strict=True) if not is_null_literal(e)]
    if not voters:
        return first
    decided = [(t, e) for t, e in voters if not _is_text_literal(e)] or voters
    result = _common([_narrow(t, e) for t, e in decided], [t for t, _ in decided])
    if result is None:
        return None
    for _, expression in voters:
        text = expression.value if isinstance(expression, Literal) else None
        if isinstance(text, str) and cast_value(text, TEXT, result) is None:
            raise SignatureError(f"the text constant is not a valid {result}")
    return result


def _is_text_literal(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.type == TEXT


def _narrow(type: Type, expression: Expression) -> Type:
    """Returns the smallest decimal that holds an integer, or the type itself."""
    if type != INT64:
        return type
    value = expression.value if isinstance(expression, Literal) else None
    return decimal(len(str(abs(value))) if isinstance(value, int) else 19, 0)


def _common(narrowed: list[Type], types: list[Type]) -> Type | None:
    first = types[0]
    if all(t == first for t in types):
        return first
    if all(t.is_numeric for t in types):
        if any(t == FLOAT64 for t in types):
            return FLOAT64
        return joined_decimal(narrowed, room=0) or FLOAT64
    if {t.kind for t in types} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    return None


def joined_decimal(types: list[Type], *, room: int) -> Type | None:
    """Returns the decimal that holds all given ones with `room` digits to spare in front, or None beyond 38 digits."""
    scale = max(t.scale for t in types)
    digits = max(t.precision - t.scale for t in types)
    return decimal(digits + scale + room, scale) if digits + scale + room <= 38 else None


def decimals_of(types: Types, expressions: Expressions) -> list[Type] | None:
    """Returns the arguments' types as decimals, where they are integers and decimals and not all integers."""
    if not {t.kind for t in types} <= {Kind.INT64, Kind.DECIMAL} or {*types} == {INT64}:
        return None
    return [_narrow(t, e) for t, e in zip(types, expressions, strict=True)]


def untyped(types: Types, expressions: Expressions, instead: Type) -> Types:
    """Returns the types with those of NULL constants replaced."""
    return tuple([instead if is_null_literal(e) else t for t, e in zip(types, expressions, strict=True)])


def same_type(result: Type | None = None, *, least: int = 1, most: int = 10_000, text: bool = True) -> Resolve:
    """Returns the rule of an operation on arguments of one type, which is also the result's unless another is given."""

    def resolve(types: Types, expressions: Expressions) -> Signature | None:
        if not least <= len(types) <= most:
            return None
        shared = common_type(types, expressions)
        if shared is None or (shared == TEXT and not text):
            return None
        return (shared,) * len(types), result or shared

    return resolve


def signature(*arguments: Type | Constant, result: Type, optional: int = 0) -> Resolve:
    """Returns the rule of an operation with one signature, of which the last `optional` arguments may be missing.

    NULL constants fit anywhere but where a constant must be.
    """

    def resolve(types: Types, expressions: Expressions) -> Signature | None:
        if not len(arguments) - optional <= len(types) <= len(arguments):
            return None
        given = list(zip(arguments, types, expressions, strict=False))
        if not all(isinstance(a, Constant) or is_null_literal(e) or accepts(t, a) for a, t, e in given):
            return None
        if not all(a.check(e) for a, _, e in given if isinstance(a, Constant)):
            return None
        return tuple(a.type if isinstance(a, Constant) else a for a, _, _ in given), result

    return resolve
