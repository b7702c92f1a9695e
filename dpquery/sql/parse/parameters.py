"""Parameters: values that stand in a query where it has `$1`, `?`, `%s`, `:name`, `@name` or `%(name)s`.

A value never becomes text of a query. Each placeholder becomes one token that no text can hold, the parser makes a
name of it, and that name is replaced in the parsed tree by a constant. A placeholder in any other place is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import sys
import unicodedata
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp
from sqlglot.expressions.datatypes import DType
from sqlglot.tokenizer_core import Token, TokenType

from dpquery.errors import ParameterError, QuerySyntaxError, Span
from dpquery.sql.parse.lexemes import lexemes
from dpquery.sql.parse.lists import is_list_place

Given = Sequence[object] | Mapping[str, object] | None
"""Values by position, or by name."""

MAX_TEXT = 10_000
MAX_PARAMETERS = 1000
_MARK = "\0"
"""Begins the names that stand for placeholders; no text of a query may hold this character."""
_DOLLAR = "\ue000"
"""Begins the words that stand for $1 and $name until they are marked; of no category that a text may hold."""
_WORDS = ("word", "number", "parameter")
_OPERANDS = {
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.NUMBER,
    TokenType.STRING,
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.R_BRACE,
    TokenType.END,
}
"""After these a colon or a per cent sign is an operator."""
_BEGIN = {TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.MOD}
"""These may begin a placeholder, and words behind a dollar sign."""
_NUMPY = [f"{kind}{bits}" for kind in ("float", "int", "uint") for bits in (8, 16, 32, 64)] + ["bool_", "bool"]


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One placeholder: its name, its number counted from 1, or None for the next value; and its place."""

    key: str | int | None
    span: Span


def with_dollars_marked(text: str) -> str:
    """Returns a text with each `$1` and `$name` as a word of the same length that no text may hold.

    The text is read by PostgreSQL's rules.
    Raises:
        QuerySyntaxError: A parameter touches a word or number: nothing tells where it ends.
    """
    if "$" not in text:
        return text
    parts: list[str] = []
    before = ""
    for lexeme in lexemes(text):
        is_number = lexeme.kind == "parameter"
        if (is_number and before in _WORDS) or (before == "parameter" and lexeme.kind in (*_WORDS, "dollar")):
            reason, span = "a parameter runs into the text beside it", Span(lexeme.start, lexeme.end)
            raise QuerySyntaxError(reason, advice="Write a space between them.", span=span).locate(text)
        written = text[lexeme.start : lexeme.end]
        parts.append(_DOLLAR + written[1:] if is_number else written)
        before = lexeme.kind
    return "".join(parts)


def mark(tokens: list[Token]) -> tuple[list[Token], list[Placeholder]]:
    """Returns the tokens with each placeholder as one name that no text can hold, and the placeholders in order."""
    if [token for token in tokens if token.text == "?::"]:
        tokens = [part for token in tokens for part in _split(token)]
    marked: list[Token] = []
    found: list[Placeholder] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if _MARK in token.text or _DOLLAR in token.text[1:]:  # written with an escape; in what is not a word
            raise QuerySyntaxError("the query contains a control character", span=Span(token.start, token.end + 1))
        before = marked[-1].token_type if marked else None
        may_begin = token.token_type in _BEGIN or token.text.startswith((_DOLLAR, "$"))
        read = _placeholder(tokens, place, operand_before=before in _OPERANDS) if may_begin else None
        if read is None:
            marked.append(token)
            place += 1
            continue
        length, key = read
        last = tokens[place + length - 1]
        name = f"{_MARK}{len(found)}"
        marked.append(Token(TokenType.IDENTIFIER, name, token.line, token.col, token.start, last.end))
        found.append(Placeholder(key, Span(token.start, last.end + 1)))
        place += length
    return marked, found


def _split(token: Token) -> list[Token]:
    """Returns `?::`, which is one token to the parser's words, as a placeholder and a cast."""
    if token.text != "?::":
        return [token]
    mark = Token(TokenType.PLACEHOLDER, "?", token.line, token.col, token.start, token.start)
    return [mark, Token(TokenType.DCOLON, "::", token.line, token.col, token.start + 1, token.end)]


def _placeholder(tokens: list[Token], place: int, *, operand_before: bool) -> tuple[int, str | int | None] | None:
    """Returns how many tokens the placeholder at this place has, and its key; None if there is none."""
    token = tokens[place]
    if token.text.startswith(_DOLLAR):
        name = token.text[1:]
        if name.isdigit() and not _is_number(name):
            reason = f"parameters are numbered from 1 to {MAX_PARAMETERS}"
            raise QuerySyntaxError(reason, span=Span(token.start, token.end + 1))
        return 1, int(name) if name.isdigit() else name
    after = [""] * 3
    for i in range(3):  # the words that touch one another behind the token
        following = tokens[place + i + 1] if place + i + 1 < len(tokens) else None
        if following is None or following.start != tokens[place + i].end + 1:
            break
        after[i] = following.text
    if token.token_type is TokenType.PLACEHOLDER and token.text == "?":
        return (2, int(after[0])) if _is_number(after[0]) else (1, None)
    if token.token_type is TokenType.VAR and token.text.startswith("$") and token.text[1:].isidentifier():
        return 1, token.text[1:]
    named = token.token_type is TokenType.PARAMETER and token.text in ("$", "@")
    if named or (token.token_type is TokenType.COLON and not operand_before):
        if _is_number(after[0]):
            return 2, int(after[0])
        return (2, after[0]) if after[0].isidentifier() else None
    if token.token_type is TokenType.MOD and not operand_before:
        if after[0] == "s":
            return 2, None
        tail = tokens[place + 4] if place + 4 < len(tokens) else None
        closed = tail is not None and tail.text == "s" and tail.start == tokens[place + 3].end + 1
        if after[0] == "(" and after[1].isidentifier() and after[2] == ")" and closed:
            return 5, after[1]
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def fill(tree: exp.Expr, placeholders: list[Placeholder], given: Given) -> exp.Expr:
    """Returns the tree with a constant for each placeholder.

    Raises:
        ParameterError: Values are missing or left over, are of no known type, or stand where no value can.
    """
    values = _values(placeholders, given)
    if not placeholders:
        return tree
    replaced = 0
    for node in list(tree.walk()):
        if isinstance(node, exp.Column) and _is_mark(node.this) and set(present(node)) == {"this"}:
            number = int(node.this.name[1:])
            is_list = type(values[number]) is list and is_list_place(node)
            made = (
                exp.Array(expressions=[_constant(part, placeholders[number]) for part in _parts(values[number])])
                if is_list
                else _constant(values[number], placeholders[number])
            )
            for part in made.walk():
                part.meta.update(node.this.meta)
            if node is tree:
                raise _misplaced(placeholders[number])
            node.replace(made)
            replaced += 1
    for node in tree.walk():
        for value in node.args.values():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and text.startswith(_MARK) and text[1:].isdigit():
                    raise _misplaced(placeholders[int(text[1:])])
    if replaced != len(placeholders):
        raise _misplaced(placeholders[0])
    return tree


def _parts(values: object) -> list[object]:
    return values if isinstance(values, list) else []


def number_of(node: object) -> int | None:
    """Returns the place in the list of placeholders of the one that a name stands for, or None."""
    return int(node.this.name[1:]) if isinstance(node, exp.Column) and _is_mark(node.this) else None


def _is_mark(node: object) -> bool:
    return isinstance(node, exp.Identifier) and node.name.startswith(_MARK)


def present(node: exp.Expression) -> list[str]:
    """Returns the names of the parts that a node of the tree has."""
    return [name for name, value in node.args.items() if value not in (None, False, [], ())]


def _misplaced(placeholder: Placeholder) -> ParameterError:
    reason = "a parameter is a value, and no value is allowed here"
    return ParameterError(reason, advice="Names and keywords cannot be parameters.", span=placeholder.span)


def _values(placeholders: list[Placeholder], given: Given) -> list[object]:
    """Returns the value of each placeholder."""
    if given is not None and type(given) not in (list, tuple, dict):
        raise ParameterError("params must be a list or tuple of values, or a dict of values by name")
    if isinstance(given, Mapping) and any(type(name) is not str for name in given):
        raise ParameterError("the names in params must be strings")
    if given is not None and len(given) > MAX_PARAMETERS:
        raise ParameterError(f"a query has at most {MAX_PARAMETERS} parameters")
    if not placeholders:
        if given:
            raise ParameterError("values are given, but the query has no parameter", advice="Write $1, ? or :name.")
        return []
    first = placeholders[0]
    if given is None:
        raise ParameterError(
            "the query has a parameter, but no value is given", advice="Give it with params=.", span=first.span
        )
    for other in placeholders:
        if type(other.key) is not type(first.key):
            reason = "the query mixes parameters of several forms"
            raise ParameterError(reason, advice="Use $1, ? or :name.", span=other.span)
    return _by_name(placeholders, given) if isinstance(given, Mapping) else _by_position(placeholders, given)


def _by_name(placeholders: list[Placeholder], given: Mapping[str, object]) -> list[object]:
    for placeholder in placeholders:
        if not isinstance(placeholder.key, str):
            advice = "Give a list, or write :name."
            raise ParameterError("this parameter must have a name", advice=advice, span=placeholder.span)
        if placeholder.key not in given:
            raise ParameterError(f"no value is given for {placeholder.key}", span=placeholder.span)
    unused = sorted(repr(name) for name in given if name not in {placeholder.key for placeholder in placeholders})
    if unused:
        raise ParameterError(f"the query has no parameter {', '.join(unused)[:100]}")
    return [given[str(placeholder.key)] for placeholder in placeholders]


def _by_position(placeholders: list[Placeholder], given: Sequence[object]) -> list[object]:
    numbers = []
    for place, placeholder in enumerate(placeholders, start=1):
        if isinstance(placeholder.key, str):
            advice = "Give a dict of values by name."
            raise ParameterError(f"parameter {placeholder.key} has a name", advice=advice, span=placeholder.span)
        numbers.append(place if placeholder.key is None else placeholder.key)
        if not 1 <= numbers[-1] <= len(given):
            reason = f"the query has a parameter {numbers[-1]}, and {len(given)} values are given"
            raise ParameterError(reason, span=placeholder.span)
    unused = sorted(set(range(1, len(given) + 1)) - set(numbers))
    if unused:
        raise ParameterError(f"{len(given)} values are given, but the query has no parameter {unused[0]}")
    return [given[number - 1] for number in numbers]


def _constant(value: object, placeholder: Placeholder) -> exp.Expression:
    """Returns the parsed form of a constant. Looks at the exact type: no foreign method is called."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and any(type(value) is getattr(numpy, scalar, None) for scalar in _NUMPY):
        value = value.item()  # type: ignore[attr-defined]
    if value is None:
        return exp.Null()
    if type(value) is bool:
        return exp.Boolean(this=value)
    if type(value) is int:
        return _integer(value, placeholder)
    if type(value) is float:
        if not math.isfinite(value):
            raise _refused("NaN and infinities are not accepted as values", placeholder)
        text = repr(abs(value))
        return _signed(exp.Literal.number(text if "e" in text else f"{text}e0"), negative=value < 0)
    if type(value) is Decimal:
        return _decimal(value, placeholder)
    if type(value) is str:
        return _text(value, placeholder)
    if type(value) is datetime.datetime:
        if value.tzinfo is not None:
            return _instant(value, placeholder)
        return _cast(exp.Literal.string(value.isoformat(sep=" ")), DType.TIMESTAMP)
    if type(value) is datetime.date:
        return _cast(exp.Literal.string(value.isoformat()), DType.DATE)
    if type(value) is datetime.timedelta and not value.microseconds:
        seconds = value.days * 86_400 + value.seconds
        return exp.Interval(this=exp.Literal.string(str(seconds)), unit=exp.var("SECOND"))
    kinds = "None, bool, int, float, Decimal, str, date, datetime, and timedelta of whole seconds"
    raise _refused(
        f"a value of the type {type(value).__name__[:40]} cannot be a parameter", placeholder, f"Known: {kinds}."
    )


def _instant(value: datetime.datetime, placeholder: Placeholder) -> exp.Expression:
    """Returns a moment with a zone, in UTC; it is read in the zone of the catalog."""
    if type(value.tzinfo) in (datetime.timezone, zoneinfo.ZoneInfo):
        with contextlib.suppress(OverflowError):
            text = value.astimezone(datetime.UTC).isoformat(sep=" ")
            return _cast(exp.Literal.string(text), DType.TIMESTAMPTZ)
    advice = "Give it with a zone of datetime or zoneinfo, in the years 1 to 9999."
    raise _refused("the time zone of a parameter is not known", placeholder, advice)


def _integer(value: int, placeholder: Placeholder) -> exp.Expression:
    if not -(2**63) <= value < 2**63:
        raise _refused("an integer is beyond 64 bits", placeholder, "Give a Decimal.")
    if value == -(2**63):
        return _cast(exp.Literal.string(str(value)), DType.BIGINT)
    return _signed(exp.Literal.number(str(abs(value))), negative=value < 0)


def _decimal(value: Decimal, placeholder: Placeholder) -> exp.Expression:
    if not value.is_finite():
        raise _refused("NaN and infinities are not accepted as values", placeholder)
    if abs(value.adjusted()) > 40 or len(value.as_tuple().digits) > 38:
        raise _refused("a decimal has more than 38 digits", placeholder)
    text = format(abs(value), "f")
    whole, _, fraction = text.partition(".")
    precision, scale = max(1, len(whole.lstrip("0")) + len(fraction)), len(fraction)
    if precision > 38:
        raise _refused("a decimal has more than 38 digits", placeholder)
    sizes = [exp.DataTypeParam(this=exp.Literal.number(str(size))) for size in (precision, scale)]
    to = exp.DataType(this=DType.DECIMAL, expressions=sizes)
    return exp.Cast(this=_signed(exp.Literal.number(text), negative=value < 0), to=to)


def _text(value: str, placeholder: Placeholder) -> exp.Expression:
    if len(value) > MAX_TEXT:
        raise _refused(f"a text is longer than {MAX_TEXT} characters", placeholder)
    if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\r\t\f" for c in value):
        raise _refused("a text holds control characters", placeholder)
    return exp.Literal.string(value)


def _signed(literal: exp.Expression, *, negative: bool) -> exp.Expression:
    return exp.Neg(this=literal) if negative else literal


def _cast(value: exp.Expression, to: DType) -> exp.Expression:
    return exp.Cast(this=value, to=exp.DataType(this=to))


def _refused(reason: str, placeholder: Placeholder, advice: str = "") -> ParameterError:
    return ParameterError(reason, advice=advice, span=placeholder.span)
