"""Expressions as SQL in the default dialect: what is shown parses back to what is measured.

Casts that typing puts in by itself are left out, and brackets are where the order of operators needs them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import assert_never

from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
from dpquery.plan.functions import SignatureError, call, common_type
from dpquery.plan.types import DATE, FLOAT64, INT64, INTERVAL, TEXT, TIMESTAMP, Type, decimal

_OR, _AND, _NOT, _COMPARED, _OTHER, _SUM, _PRODUCT, _PRIMARY = range(8)
"""How tightly operators bind."""

_LEVELS: dict[int, dict[str, str]] = {
    _OR: {"or": "OR"},
    _AND: {"and": "AND"},
    _COMPARED: {
        "eq": "=",
        "ne": "<>",
        "lt": "<",
        "le": "<=",
        "gt": ">",
        "ge": ">=",
        "is_distinct_from": "IS DISTINCT FROM",
        "is_not_distinct_from": "IS NOT DISTINCT FROM",
    },
    _OTHER: {"concat": "||", "bit_and": "&", "bit_or": "|", "bit_xor": "#"},
    _SUM: {"add": "+", "subtract": "-"},
    _PRODUCT: {"multiply": "*", "divide": "/", "int_divide": "/", "modulo": "%"},
}
_INFIX = {name: (sign, level) for level, signs in _LEVELS.items() for name, sign in signs.items()}
_CHAINS = ("and", "or", "concat")
"""Operators on any number of operands."""
_TESTS = frozenset(f"is_{what}{value}" for what in ("", "not_") for value in ("null", "true", "false"))
_DIVISIONS = ("divide", "int_divide")
"""What `/` means, and what it means between integers."""
_MOVES = {"add_days": "day", "add_months": "month", "add_microseconds": "microsecond"}
_FORMATS = {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "HH24", "%M": "MI", "%S": "SS", "%j": "DDD"}
_FORMATS |= {"%y": "YY", "%G": "IYYY", "%q": "Q", "%b": "Mon", "%B": "FMMonth", "%V": "IW", "%a": "Dy", "%A": "FMDay"}
_FORMATS |= {"%u": "ID", "%I": "HH12", "%p": "AM"}
_MOST_TRIED = 4
"""Arguments of which each is tried without its cast by itself."""

_Text = tuple[str, int]
"""SQL, and how tightly its outermost operator binds."""


def quoted(name: str) -> str:
    """Returns a name as SQL reads it, in quotes where it is more than small letters, digits and underscores."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def written(expression: Expression) -> str:
    """Returns an expression as SQL, with columns by their ids."""
    return _write(expression)[0]


def _write(expression: Expression) -> _Text:
    match expression:
        case Column():
            return expression.id, _PRIMARY
        case Literal():
            return _literal(expression), _PRIMARY
        case Cast(argument=Literal(value=int() | Decimal())) if expression.type == FLOAT64:
            folded = _folded(expression)
            assert isinstance(folded, Literal)
            return _literal(folded), _PRIMARY
        case Cast(argument=Call() as moved, type=type) if type == TIMESTAMP and _is_moved_date(moved):
            return _moved(moved)
        case Cast(argument=Call(function="microseconds_between") as apart) if expression.type == INTERVAL:
            return _infix("subtract", [_write(end) for end in reversed(apart.arguments)])
        case Cast() if expression.type == INTERVAL:
            return f"{_within(_write(expression.argument), _PRODUCT)} * INTERVAL '1 microsecond'", _PRODUCT
        case Cast():
            return f"CAST({written(expression.argument)} AS {_type_name(expression.type)})", _PRIMARY
        case Case():
            return _case(expression), _PRIMARY
        case Call():
            return _call(expression)
        case _:
            assert_never(expression)


def _type_name(type: Type) -> str:
    return "double precision" if type == FLOAT64 else str(type)


def _literal(literal: Literal) -> str:
    """Returns a constant that is read as a constant of its own type; a NULL without type is a text."""
    value, of = literal.value, literal.type
    match value:
        case None:
            return "NULL" if of == TEXT else f"CAST(NULL AS {_type_name(of)})"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float():
            return repr(value) if "e" in repr(value) else f"{value!r}e0"
        case int() if of == INTERVAL:
            return f"INTERVAL '{value} microseconds'"
        case int() | Decimal():
            text = format(value, "f") if isinstance(value, Decimal) else str(value)
            return text if _read(value) == literal else f"CAST({text} AS {of})"
        case datetime.date():
            return f"{of} '{value}'"
        case _:
            assert_never(value)


def _read(number: int | Decimal) -> Literal:
    """Returns the constant that SQL reads from a number without exponent."""
    exact = Decimal(number)
    scale = -int(exact.as_tuple().exponent)
    if scale <= 0 and abs(exact) < 2**63:
        return Literal(value=int(exact), type=INT64)
    return Literal(value=exact, type=decimal(min(38, max(len(exact.as_tuple().digits), scale)), scale))


def _plain(expression: Expression) -> Expression:
    """Returns what remains of an expression that is written without its cast, or of a constant without its type."""
    match expression:
        case Cast():
            return _plain(expression.argument)
        case Literal(value=None):
            return Literal(value=None, type=TEXT)
        case Literal(value=float() as value) if re.fullmatch(r"-?[0-9]+[.][0-9]+", repr(value)):
            return _read(Decimal(repr(value)))
        case Literal(value=Decimal() as value):
            return _read(value)
        case _:
            return expression


def _folded(expression: Expression) -> Expression:
    """Returns a constant that is cast as a constant."""
    if isinstance(expression, Cast) and isinstance(argument := _folded(expression.argument), Literal):
        return Literal(value=evaluate(Cast(argument=argument, type=expression.type), {}), type=expression.type)
    return expression


def _means(function: str, given: Sequence[Expression], wanted: Call) -> bool:
    """Whether an operation on these arguments is typed as the wanted one."""
    if function in _DIVISIONS and function != _DIVISIONS[all(argument.type == INT64 for argument in given)]:
        return False
    try:
        made = call(function, [_folded(argument) for argument in given])  # as they are read again
    except SignatureError:
        return False
    same = zip(made.arguments, wanted.arguments, strict=True)
    return made.type == wanted.type and all(one == other or _folded(one) == _folded(other) for one, other in same)


def _arguments(wanted: Call) -> tuple[Expression, ...]:
    """Returns the arguments with as few casts as mean the same."""
    plain = tuple(_plain(argument) for argument in wanted.arguments)
    if _means(wanted.function, plain, wanted):
        return plain
    own = tuple(argument.argument if isinstance(argument, Cast) else argument for argument in wanted.arguments)
    kept = own if _means(wanted.function, own, wanted) else wanted.arguments
    if len(kept) <= _MOST_TRIED:
        for place, argument in enumerate(plain):
            tried = (*kept[:place], argument, *kept[place + 1 :])
            kept = tried if _means(wanted.function, tried, wanted) else kept
    return kept


def _case(case: Case) -> str:
    results = (*(result for _, result in case.branches), case.otherwise)
    plain = tuple(_plain(result) for result in results)
    try:
        is_typed = common_type(tuple(result.type for result in plain), plain) == case.type
    except SignatureError:
        is_typed = False
    *shown, otherwise = plain if is_typed and _same(plain, results, case.type) else results
    arms = [f"WHEN {written(c)} THEN {written(r)}" for (c, _), r in zip(case.branches, shown, strict=True)]
    return f"CASE {' '.join(arms)} ELSE {written(otherwise)} END"


def _same(plain: Sequence[Expression], wanted: Sequence[Expression], type: Type) -> bool:
    cast = (one if one.type == type else Cast(argument=one, type=type) for one in plain)
    return all(one == other or _folded(one) == _folded(other) for one, other in zip(cast, wanted, strict=True))


def _call(wanted: Call) -> _Text:
    name, given = wanted.function, _arguments(wanted)
    if name in _CHAINS and len(given) == 1:
        return _write(wanted.arguments[0])
    parts = [_write(argument) for argument in given]
    texts = [text for text, _ in parts]
    if name in _INFIX:
        return _infix(name, parts)
    if name in _TESTS:
        return f"{_within(parts[0], _SUM)} {name.replace('_', ' ').upper()}", _COMPARED
    if name in _MOVES:  # SQL reads a moved date as a timestamp
        return (f"CAST({_moved(wanted)[0]} AS date)", _PRIMARY) if _is_moved_date(wanted) else _moved(wanted)
    match name:
        case "not":
            return f"NOT ({texts[0]})", _NOT
        case "negate":
            return f"-{_within(parts[0], _PRIMARY) if texts[0][0] != '-' else f'({texts[0]})'}", _PRIMARY
        case "in":
            return f"{_within(parts[0], _SUM)} IN ({', '.join(texts[1:])})", _COMPARED
        case "like" | "ilike":
            escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
            return f"{_within(parts[0], _SUM)} {name.upper()} {texts[1]}{escape}", _COMPARED
        case _:
            return _SPELLED.get(name, _by_name)(name, texts), _PRIMARY


def _within(part: _Text, least: int) -> str:
    return part[0] if part[1] >= least else f"({part[0]})"


def _infix(name: str, parts: list[_Text]) -> _Text:
    sign, level = _INFIX[name]
    match level:
        case _ if level == _COMPARED:
            first = rest = _SUM
        case _ if level == _OTHER:
            first = rest = _PRIMARY
        case _ if name in _CHAINS:
            first = rest = _NOT
        case _:
            first, rest = level, level + 1
    shown = [_within(part, rest if place else first) for place, part in enumerate(parts)]
    return f" {sign} ".join(shown), level


def _is_moved_date(call: Call) -> bool:
    return call.function in _MOVES and call.type == DATE


def _moved(call: Call) -> _Text:
    given, unit = _arguments(call), _MOVES[call.function]
    moment, count = _write(given[0]), given[1]
    if isinstance(count, Literal) and isinstance(count.value, int) and abs(count.value) < 2**63:
        return f"{_within(moment, _SUM)} + INTERVAL '{count.value} {unit}s'", _SUM
    return f"{_within(moment, _SUM)} + INTERVAL ({written(count)}) {unit.upper()}", _SUM


def _by_name(name: str, texts: list[str]) -> str:
    part = name.removeprefix("extract_")
    return f"{name.upper()}({', '.join(texts)})" if part == name else f"EXTRACT({part.upper()} FROM {texts[0]})"


def _formatted(_: str, texts: list[str]) -> str:
    form = re.sub("%.|[A-Za-z]+", lambda found: _FORMATS.get(found[0], f'"{found[0]}"'), texts[1])
    return f"TO_CHAR({texts[0]}, {form})"


_SPELLED: dict[str, Callable[[str, list[str]], str]] = {
    "concat_without_nulls": lambda _, texts: f"CONCAT({', '.join(texts)})",
    "log10": lambda _, texts: f"LOG({texts[0]})",
    "log2": lambda _, texts: f"LOG(2, {texts[0]})",
    "regexp_extract": lambda _, texts: f"SUBSTRING({texts[0]} FROM {texts[1]})",
    "position": lambda _, texts: f"POSITION({texts[1]} IN {texts[0]})",
    "trim": lambda name, texts: f"TRIM({texts[1]} FROM {texts[0]})" if len(texts) > 1 else _by_name(name, texts),
    "date_diff": lambda _, texts: f"DATE_DIFFERENCE({', '.join(texts)})",
    "format_date": _formatted,
}
"""Functions that SQL spells in another way than plans."""
