"""The shape of an operation, and the errors of applying one wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpquery.plan.expr import Call, Expression, Literal
from dpquery.plan.ranges import Range
from dpquery.plan.types import INT64, TEXT, Kind, Type

Signature = tuple[tuple[Type, ...], Type]
Resolve = Callable[[tuple[Type, ...], tuple[Expression, ...]], Signature | None]
RangeRule = Callable[[tuple[Range, ...], Call], Range]

TEXT_LIMIT = 10_000
"""Most characters of a text that an operation makes longer; what is beyond is cut off."""


Lengths = tuple[int, ...]
"""For each argument the most characters that it may have; 0 where it is no text."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What an operation does with texts, in characters.

    Attributes:
        makes: The most that its result may have; 0 if the result is no text.
        reads: The most that it reads and writes on the way, all intermediate texts included.
    """

    makes: Callable[[Call, Lengths], int]
    reads: Callable[[Call, Lengths], int] = lambda _, given: sum(given)


READS = Texts(makes=lambda _, __: 0)
"""Reads each text once, and makes none."""
CHOOSES = Texts(makes=lambda _, given: max(given, default=0))
"""Gives one of its arguments, or a part of it with the same number of characters at most."""


class UnknownOperationError(LookupError):
    """The table holds no operation of that name."""


class SignatureError(TypeError):
    """An operation does not accept these arguments; the message says why, in the analyst's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One operation: which arguments it takes, what it gives, and in which range.

    Attributes:
        name: The operation's name in plans.
        resolve: From argument types (and the arguments, some of which must be literals) to the types that they are
            cast to and the type of the result; None if the operation does not apply.
        range: Bounds on the result from bounds on the cast arguments; sound, also about NULL.
        meaning: The value, in Python, of already cast arguments. It never raises.
        doc: What it gives and when it is NULL.
        texts: What it does with texts; None for an operation that neither takes nor gives one.
    """

    name: str
    resolve: Resolve
    range: RangeRule
    meaning: Callable[..., Any]
    doc: str
    texts: Texts | None = None


def accepts(given: Type, wanted: Type) -> bool:
    """Whether a value of the type `given` is turned into `wanted` without being asked."""
    if wanted.kind is Kind.FLOAT64:
        return given.is_numeric
    return given == wanted or (given.kind, wanted.kind) == (Kind.DATE, Kind.TIMESTAMP)


def is_null_literal(expression: Expression) -> bool:
    """Whether the expression is the constant NULL, which has any type."""
    return isinstance(expression, Literal) and expression.value is None


def text_literal(expression: Expression, what: str, *, limit: int = 200) -> str:
    """Returns the text of an argument that must be a constant of at most `limit` characters."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        raise SignatureError(f"{what} must be a text constant")
    if len(expression.value) > limit or "\0" in expression.value:
        raise SignatureError(f"{what} may hold at most {limit} characters")
    return expression.value


def integer_literal(expression: Expression, what: str, lower: int, upper: int) -> int:
    """Returns the value of an argument that must be an integer constant from `lower` to `upper`."""
    value = expression.value if isinstance(expression, Literal) and expression.type == INT64 else None
    if not isinstance(value, int) or not lower <= value <= upper:
        raise SignatureError(f"{what} must be an integer constant from {lower} to {upper}")
    return value


def unit_literal(expression: Expression, units: tuple[str, ...]) -> str:
    """Returns the unit named by an argument that must be one of the given text constants."""
    if not isinstance(expression, Literal) or expression.type != TEXT or expression.value not in units:
        raise SignatureError(f"the unit must be one of {', '.join(units)}")
    return str(expression.value)


def constant(call: Call, index: int) -> Any:
    """Returns the value of an argument that `resolve` has found to be a constant."""
    argument = call.arguments[index]
    if not isinstance(argument, Literal):
        raise TypeError(f"argument {index} of {call.function} is not a constant")
    return argument.value
