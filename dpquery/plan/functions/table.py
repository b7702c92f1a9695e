"""What a row of the table of operations holds, how one is made, and the errors of applying one wrongly."""

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
"""For each argument the most characters that it may have; 0 where it is not a text."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What an operation does with texts, in characters.

    Attributes:
        makes: The most that its result may have; 0 if the result is not a text.
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
    """One operation, and all that is known of it: SQL, messages, docs and backends are computed from these rows.

    Attributes:
        name: The operation's name in plans.
        chapter: The file that holds the row.
        sql: How it is written in PostgreSQL's dialect, for the reference; `a` and `b` are any arguments.
        parsed: What the parser makes of it, in any dialect: classes such as `Mul` or `Round(this,decimals?)` with the
            arguments that they hand on (those that a class must have, if none are listed), and names that it has no
            class for, with their number of arguments, such as `clamp/3`. "" if `sql/names/functions.py` knows it.
        engine: How an engine writes it, as DuckDB does: a form with {0}, {1}, or the name of a function of the
            arguments. "" if each backend has a rule of its own.
        domain: The condition on {0} where a function of one argument is given NULL else, so that none fails.
        resolve: From argument types (and the arguments, some of which must be literals) to the types that they are
            cast to and the type of the result; None if the operation does not apply.
        range: Bounds on the result from bounds on the cast arguments; sound, also about NULL.
        meaning: The value, in Python, of already cast arguments. It never raises.
        doc: What it gives and when it is NULL.
        texts: What it does with texts; None for an operation that neither takes nor gives one.
    """

    name: str
    chapter: str
    sql: str
    parsed: str
    engine: str
    domain: str
    resolve: Resolve
    range: RangeRule
    meaning: Callable[..., Any]
    doc: str
    texts: Texts | None


ROWS: dict[str, Function] = {}
"""All rows, by name, as the files that hold them are read."""


def function(
    resolve: Resolve,
    range: RangeRule,
    *,
    sql: str | None = None,
    parsed: str | None = None,
    engine: str | None = None,
    domain: str = "",
    texts: Texts | None = None,
    strict: bool = True,
    name: str | None = None,
    doc: str | None = None,
) -> Callable[[Callable[..., Any]], Function]:
    """Returns what makes a row of the table out of the operation's meaning. `Function` says what the words mean.

    Args:
        sql, parsed, engine: By default `NAME(a)`, the class `Name`, and the function `name`.
        strict: Whether it is NULL where an argument is: then `meaning` is not asked.
        name, doc: By default those of `meaning`, without the underscore of a name that Python has taken.
    """

    def made(meaning: Callable[..., Any]) -> Function:
        own = name or meaning.__name__.rstrip("_")
        if own in ROWS:
            raise ValueError(f"there are two operations {own}")
        ROWS[own] = Function(
            name=own,
            chapter=meaning.__module__.rpartition(".")[2],
            sql=f"{own.upper()}(a)" if sql is None else sql,
            parsed=own.title().replace("_", "") if parsed is None else parsed,
            engine=own if engine is None else engine,
            domain=domain,
            resolve=resolve,
            range=range,
            meaning=(lambda *values: None if None in values else meaning(*values)) if strict else meaning,
            doc=" ".join((doc or meaning.__doc__ or "").split()),
            texts=texts,
        )
        return ROWS[own]

    return made


def accepts(given: Type, wanted: Type) -> bool:
    """Whether a value of the type `given` is turned into `wanted` without being asked."""
    if wanted.kind is Kind.FLOAT64:
        return given.is_numeric
    return given == wanted or (given.kind, wanted.kind) == (Kind.DATE, Kind.TIMESTAMP)


def is_null_literal(expression: Expression) -> bool:
    """Whether the expression is the constant NULL, which has any type."""
    return isinstance(expression, Literal) and expression.value is None


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that must be a constant of a type.

    Attributes:
        check: Whether the operation takes it; raises SignatureError to say why not.
    """

    type: Type
    check: Callable[[Expression], object]


def text_literal(expression: Expression, what: str, *, limit: int = 200) -> str:
    """Returns the text of an argument that must be a constant of at most `limit` characters."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        raise SignatureError(f"{what} must be a text constant")
    if len(expression.value) > limit or "\0" in expression.value:
        raise SignatureError(f"{what} may hold at most {limit} characters")
    return expression.value


def text_constant(what: str, *, least: int = 0, limit: int = 200) -> Constant:
    """Returns an argument that must be a text constant of so many characters."""
    return Constant(TEXT, lambda given: len(text_literal(given, what, limit=limit)) >= least)


def integer_literal(expression: Expression, what: str, lower: int, upper: int) -> int:
    """Returns the value of an argument that must be an integer constant from `lower` to `upper`."""
    value = expression.value if isinstance(expression, Literal) and expression.type == INT64 else None
    if not isinstance(value, int) or not lower <= value <= upper:
        raise SignatureError(f"{what} must be an integer constant from {lower} to {upper}")
    return value


def constant(call: Call, index: int) -> Any:
    """Returns the value of an argument that `resolve` has found to be a constant."""
    argument = call.arguments[index]
    if not isinstance(argument, Literal):
        raise TypeError(f"argument {index} of {call.function} is not a constant")
    return argument.value
