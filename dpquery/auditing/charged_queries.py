"""The queries of a charge, read from its text in the ledger: several that were asked at once, parameters, steps."""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpquery.ledger.entries import Entry
from dpquery.ledger.ledger import LONGEST_QUERY
from dpquery.mechanisms.accountant import CALLER
from dpquery.sql.parse.parameters import Given

_TOKENS = re.compile(r"\"[^\"]*\"|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|;", re.DOTALL)
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SAID = re.compile(r"(.*?)(?:\n-- params: ([^\n]*))?(?:\n-- step (\d+))?", re.DOTALL)
_MADE: dict[str, Callable[..., Any]] = {
    "datetime.date": datetime.date,
    "datetime.datetime": datetime.datetime,
    "datetime.timezone": datetime.timezone,
    "datetime.timedelta": datetime.timedelta,
    "Decimal": Decimal,
}


VALUES = "mechanisms on values, whose sensitivity the caller vouches for"
SYNOPSES = "synopses"


class NotRead(Exception):
    """Why a charge holds too little to be computed anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A query as it was recorded: its text, the values of its parameters, and which of its steps it is, from 0."""

    text: str
    params: Given = None
    step: int | None = None


def queries_of(entry: Entry) -> tuple[Logged, ...]:
    """Returns the queries of a charge; raises NotRead as `logged` does, and for charges of other things."""
    if entry.analyst == CALLER:
        raise NotRead(VALUES)
    if entry.query.startswith("synopsis "):
        raise NotRead(SYNOPSES)
    return logged(entry.query)


def logged(text: str) -> tuple[Logged, ...]:
    """Returns the queries of a charge's text, as `Request.recorded` wrote them; raises NotRead where it is cut, or
    parameters are not values."""
    if len(text) >= LONGEST_QUERY:
        raise NotRead("texts that were cut in the ledger")
    found = list[str]()
    for part in apart(text):
        is_said_of_last = found and not _COMMENTS.sub("", part).strip()  # by a semicolon before parameters
        if is_said_of_last:
            found[-1] += part
        else:
            found.append(part)
    return tuple(_logged(part.removeprefix("\n") if place else part) for place, part in enumerate(found))


def apart(text: str) -> Iterator[str]:
    """Yields the statements of a text, apart by semicolons."""
    start = 0
    for match in _TOKENS.finditer(text):
        if match.group() == ";":
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def _logged(part: str) -> Logged:
    match = _SAID.fullmatch(part)
    assert match is not None  # every part of it may be missing
    text, params, step = match.groups()
    try:
        values = None if params is None else _value(ast.parse(params, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        raise NotRead("parameters that are not written as values") from None
    if not isinstance(values, dict | tuple | None):
        raise NotRead("parameters that are not written as values")
    return Logged(text=text, params=values, step=None if step is None else int(step) - 1)


def _value(node: ast.expr) -> Any:
    """Returns the value of an expression as `repr` writes it; raises ValueError on any other."""
    match node:
        case ast.Call(keywords=[]) if (make := _MADE.get(ast.unparse(node.func))) is not None:
            return make(*map(_value, node.args))
        case ast.Call(keywords=[ast.keyword(arg="tzinfo", value=zone)]):
            return _value(ast.Call(func=node.func, args=node.args, keywords=[])).replace(tzinfo=_value(zone))
        case ast.Attribute() if ast.unparse(node) == "datetime.timezone.utc":
            return datetime.UTC
        case ast.Tuple():
            return tuple(map(_value, node.elts))
        case ast.Dict():
            return {_key(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
        case _:
            return ast.literal_eval(node)


def _key(node: ast.expr | None) -> object:
    if node is None:
        raise ValueError
    return ast.literal_eval(node)
