"""The operations that expressions may hold: one table, and how to apply an entry of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dpquery.errors import Span
from dpquery.plan.expr import Call, Expression, Literal
from dpquery.plan.functions import arithmetic, calendar, dates, logic, mathematics, nulls, patterns, rounding, text
from dpquery.plan.functions.casts import cast, cast_value, castable
from dpquery.plan.functions.promotion import common_type
from dpquery.plan.functions.table import ROWS, TEXT_LIMIT, Function, SignatureError, UnknownOperationError
from dpquery.plan.types import BOOLEAN, TEXT

__all__ = [
    "FUNCTIONS",
    "TEXT_LIMIT",
    "Function",
    "SignatureError",
    "UnknownOperationError",
    "call",
    "cast",
    "cast_value",
    "castable",
    "common_type",
    "signed",
]

_FILES = (logic, nulls, arithmetic, rounding, mathematics, text, patterns, dates, calendar)
CHAPTERS = tuple(file.__name__.rpartition(".")[2] for file in _FILES)
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {row.name: row for row in sorted(ROWS.values(), key=lambda row: CHAPTERS.index(row.chapter))}
)
"""Every operation by its name in plans, in the order of the reference."""
_EQUALITY = ("eq", "ne")


def call(name: str, arguments: Iterable[Expression], span: Span | None = None) -> Call:
    """Returns an operation applied to arguments, cast to the types it takes.

    Nothing is folded, but that a number constant behind a minus sign is a constant.

    Raises:
        UnknownOperationError: There is no such operation.
        SignatureError: It does not accept these arguments.
    """
    given = tuple([signed(part) if isinstance(part, Call) else part for part in arguments])
    if name in _EQUALITY and any(argument.type == BOOLEAN for argument in given):
        given = tuple(map(_truth, given))
    function = FUNCTIONS.get(name)
    if function is None:
        raise UnknownOperationError(f"there is no operation {name}")
    found = function.resolve(tuple([argument.type for argument in given]), given)
    if found is None:
        shown = ", ".join(str(argument.type) for argument in given)
        raise SignatureError(f"{name} does not accept ({shown})")
    types, result = found
    pairs = zip(given, types, strict=True)
    made = tuple([part if part.type == type else cast(part, type) for part, type in pairs])
    return Call(function=name, arguments=made, type=result, span=span)


def _truth(argument: Expression) -> Expression:
    """Returns a constant '1' or '0' as the boolean that PostgreSQL and its drivers mean by it."""
    if isinstance(argument, Literal) and argument.type == TEXT and argument.value in ("0", "1"):
        return Literal(value=argument.value == "1", type=BOOLEAN, span=argument.span)
    return argument


def signed(argument: Expression) -> Expression:
    """Returns a number constant behind a minus sign as a constant, and anything else as it is."""
    if not isinstance(argument, Call) or argument.function != "negate":
        return argument
    number = argument.arguments[0]
    if not isinstance(number, Literal) or number.value is None:
        return argument
    return Literal(value=FUNCTIONS["negate"].meaning(number.value), type=number.type, span=argument.span)
