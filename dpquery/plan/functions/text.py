"""Operations on text. A character is a Unicode code point; no text has more than 10,000 characters.

An operation that lengthens texts reads so much of its arguments that its result, and all that is made on the way to it,
stays within that: the first 10,000 characters of what is joined, and as much of a text as fits after replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpquery.plan.expr import Call, Literal
from dpquery.plan.functions.bounds import any_nullable
from dpquery.plan.functions.promotion import Expressions, Types, signature, untyped
from dpquery.plan.functions.table import (
    CHOOSES,
    READS,
    TEXT_LIMIT,
    Function,
    Lengths,
    RangeRule,
    Resolve,
    Signature,
    Texts,
    constant,
    integer_literal,
    is_null_literal,
    text_literal,
)
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, INT64, TEXT, Type


def unranged(ranges: tuple[Range, ...], _: Call) -> Range:
    """Text has no range; it is NULL if an argument is."""
    return Range(nullable=any_nullable(ranges))


def counted(ranges: tuple[Range, ...], _: Call) -> Range:
    """A number of characters, or a place among them."""
    return Range(lower=Fraction(0), nullable=any_nullable(ranges))


def truth(ranges: tuple[Range, ...], _: Call) -> Range:
    """A truth value that is NULL if an argument is."""
    return Range(lower=Fraction(0), upper=Fraction(1), nullable=any_nullable(ranges))


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with NULL for every NULL argument."""
    return lambda *values: None if any(v is None for v in values) else function(*values)


def upper_character(character: str) -> str:
    """Returns the one capital of a character (of those that become several: the title-case one, or itself)."""
    for capital in (character.upper(), {"\u00df": "\u1e9e"}.get(character, character.title())):
        if len(capital) == 1:
            return capital
    return character


def upper(x: str) -> str:
    """Returns the text in capitals, character by character."""
    return "".join(map(upper_character, x))


def lower(x: str) -> str:
    """Returns the text in small letters, character by character."""
    return "".join(c.lower()[0] for c in x)


def _substring(x: str, start: int, count: int | None = None) -> str | None:
    """PostgreSQL's meaning: places before the first count, though nothing stands there."""
    if count is not None and count < 0:
        return None
    end = len(x) + 1 if count is None else start + count
    return x[max(start, 1) - 1 : max(end, 1) - 1]


def _left(x: str, count: int) -> str:
    return x[:count]


def _right(x: str, count: int) -> str:
    return x[len(x) - count if 0 <= count <= len(x) else max(-count, 0) :]


def replaced_part(old: str, new: str) -> int:
    """Returns how many characters of a text REPLACE reads: as many as fit into 10,000 if all of them are replaced."""
    return TEXT_LIMIT * len(old) // len(new) if 0 < len(old) < len(new) else TEXT_LIMIT


def _replace(x: str, old: str, new: str) -> str:
    part = x[: replaced_part(old, new)]
    return part.replace(old, new) if old else part


def _concat(*values: str) -> str:
    return "".join(values)[:TEXT_LIMIT]


def _joined(*values: str | None) -> str:
    return "".join(v for v in values if v is not None)[:TEXT_LIMIT]


def _split_part(x: str, delimiter: str, index: int) -> str:
    parts = x.split(delimiter)
    place = index - 1 if index > 0 else len(parts) + index
    return parts[place] if 0 <= place < len(parts) else ""


def _padded(x: str, count: int, fill: str = " ", *, left: bool) -> str:
    if len(x) >= count:
        return x[:count]
    missing = count - len(x)
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + x if left else x + padding


def _texts(result: Type, *, least: int, most: int, lengthens: bool = False) -> Resolve:
    """The rule of an operation on texts; where it joins them, numbers and dates are printed, as in SQL."""

    def resolve(types: Types, expressions: Expressions) -> Signature | None:
        found = untyped(types, expressions, TEXT)
        fit = lengthens or all(t == TEXT for t in found)
        return ((TEXT,) * len(types), result) if fit and least <= len(types) <= most else None

    return resolve


def _trim_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if len(types) == 2:
        text_literal(expressions[1], "the characters to trim", limit=100)
    return _texts(TEXT, least=1, most=2)(types, expressions)


def _substring_resolve(types: Types, expressions: Expressions) -> Signature | None:
    types = untyped(types[:1], expressions[:1], TEXT) + untyped(types[1:], expressions[1:], INT64)
    return (types, TEXT) if types in ((TEXT, INT64), (TEXT, INT64, INT64)) else None


def _substring_range(ranges: tuple[Range, ...], _: Call) -> Range:
    negative = len(ranges) > 2 and (ranges[2].lower is None or ranges[2].lower < 0)
    return Range(nullable=any_nullable(ranges) or negative)


def _replace_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if len(types) != 3 or not (types[0] == TEXT or is_null_literal(expressions[0])):
        return None
    text_literal(expressions[1], "what REPLACE looks for")
    text_literal(expressions[2], "what REPLACE puts instead")
    return (TEXT, TEXT, TEXT), TEXT


def _split_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if len(types) != 3 or not (types[0] == TEXT or is_null_literal(expressions[0])):
        return None
    if not text_literal(expressions[1], "the delimiter"):
        return None
    index = integer_literal(expressions[2], "the number of the part", -TEXT_LIMIT, TEXT_LIMIT)
    return ((TEXT, TEXT, INT64), TEXT) if index else None


def _pad_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if not 2 <= len(types) <= 3 or not (types[0] == TEXT or is_null_literal(expressions[0])):
        return None
    integer_literal(expressions[1], "the length to pad to", 0, TEXT_LIMIT)
    if len(types) == 3 and not text_literal(expressions[2], "the padding"):
        return None
    return (TEXT, INT64, TEXT)[: len(types)], TEXT


def _first(call: Call, index: int) -> int | None:
    """Returns an argument that is a constant count of characters, or None."""
    argument = call.arguments[index]
    value = argument.value if isinstance(argument, Literal) else None
    return value if isinstance(value, int) and value >= 0 else None


def _taken(call: Call, given: Lengths, index: int = 1) -> int:
    """The length of a part of a text, which may be said by a constant."""
    count = _first(call, index) if len(call.arguments) > index else None
    return given[0] if count is None else min(given[0], count)


def _replaced(call: Call, given: Lengths) -> int:
    old, new = str(constant(call, 1)), str(constant(call, 2))
    part = min(given[0], replaced_part(old, new))
    return part * len(new) // len(old) if 0 < len(old) < len(new) else part


def _joining(_: Call, given: Lengths) -> int:
    """Texts are joined one after another, and each intermediate text is cut before the next is added."""
    made, total = 0, 0
    for length in given:
        total += made + length
        made = min(made + length, TEXT_LIMIT)
    return total


def _searched(_: Call, given: Lengths) -> int:
    """A search may compare the text sought at each place of the other, 64 characters in one step."""
    return sum(given) + given[0] * given[1] // 64


_PART = Texts(makes=_taken)
_MIDDLE = Texts(makes=lambda call, given: _taken(call, given, 2))
_JOINED = Texts(makes=lambda _, given: min(sum(given), TEXT_LIMIT), reads=_joining)
_PADDED = Texts(makes=lambda call, _: int(constant(call, 1)))
_SEARCHED = Texts(makes=lambda _, __: 0, reads=_searched)
_TRIMMED = Texts(makes=lambda _, given: given[0])
_SPLIT = Texts(makes=lambda _, given: given[0], reads=_searched)
_BY_CHARACTER = Texts(makes=lambda _, given: given[0], reads=lambda _, given: 64 * given[0])


def _length_range(ranges: tuple[Range, ...], call: Call) -> Range:
    """The length of what an operation has cut or padded is bounded, that of a column is not."""
    argument = call.arguments[0]
    known = {"concat": TEXT_LIMIT, "concat_without_nulls": TEXT_LIMIT, "replace": TEXT_LIMIT}
    most: int | None = None
    if isinstance(argument, Call):
        most = known.get(argument.function)
        if argument.function in ("lpad", "rpad"):
            most = int(constant(argument, 1))
    return Range(lower=Fraction(0), upper=None if most is None else Fraction(most), nullable=ranges[0].nullable)


def _function(
    name: str, meaning: Callable[..., Any], resolve: Resolve, doc: str, rule: RangeRule = unranged, *, texts: Texts
) -> Function:
    return Function(name=name, resolve=resolve, range=rule, meaning=strict(meaning), doc=doc, texts=texts)


_ONE, _WITH_COUNT = signature(TEXT, result=TEXT), signature(TEXT, INT64, result=TEXT)
_TEST = _texts(BOOLEAN, least=2, most=2)

TEXTS = (
    _function("upper", upper, _ONE, "The text in capitals, character by character; NULL if it is.", texts=CHOOSES),
    _function("lower", lower, _ONE, "The text in small letters, character by character; NULL if it is.", texts=CHOOSES),
    _function(
        "length",
        len,
        signature(TEXT, result=INT64),
        "How many characters it has; NULL if it is.",
        _length_range,
        texts=READS,
    ),
    _function(
        "trim",
        lambda x, c=" ": x.strip(c) if c else x,
        _trim_resolve,
        "The text without these characters (a constant; spaces) at both ends; NULL if it is.",
        texts=_TRIMMED,
    ),
    _function(
        "ltrim",
        lambda x, c=" ": x.lstrip(c) if c else x,
        _trim_resolve,
        "The text without these characters (a constant; spaces) at its start; NULL if it is.",
        texts=_TRIMMED,
    ),
    _function(
        "rtrim",
        lambda x, c=" ": x.rstrip(c) if c else x,
        _trim_resolve,
        "The text without these characters (a constant; spaces) at its end; NULL if it is.",
        texts=_TRIMMED,
    ),
    _function(
        "substring",
        _substring,
        _substring_resolve,
        "The part from a place, counted from 1, of a length; NULL if an argument is or the length is negative.",
        _substring_range,
        texts=_MIDDLE,
    ),
    _function(
        "left", _left, _WITH_COUNT, "The first characters, or all but the last -n; NULL if an argument is.", texts=_PART
    ),
    _function(
        "right",
        _right,
        _WITH_COUNT,
        "The last characters, or all but the first -n; NULL if an argument is.",
        texts=_PART,
    ),
    _function(
        "replace",
        _replace,
        _replace_resolve,
        "The text with one constant instead of another; NULL if it is.",
        texts=Texts(makes=_replaced),
    ),
    _function(
        "concat",
        _concat,
        _texts(TEXT, least=1, most=100, lengthens=True),
        "The texts one after another; NULL if one is.",
        texts=_JOINED,
    ),
    Function(
        name="concat_without_nulls",
        resolve=_texts(TEXT, least=1, most=100, lengthens=True),
        range=lambda _, __: Range(nullable=False),
        meaning=_joined,
        doc="The texts that are not NULL one after another; never NULL.",
        texts=_JOINED,
    ),
    _function(
        "position",
        lambda x, part: x.find(part) + 1,
        _texts(INT64, least=2, most=2),
        "Where in the first text the second begins, from 1; 0 if nowhere; NULL if either is.",
        counted,
        texts=_SEARCHED,
    ),
    _function(
        "starts_with",
        str.startswith,
        _TEST,
        "Whether it starts with the second; NULL if either is.",
        truth,
        texts=READS,
    ),
    _function(
        "ends_with", str.endswith, _TEST, "Whether it ends with the second; NULL if either is.", truth, texts=READS
    ),
    _function(
        "contains",
        lambda x, part: part in x,
        _TEST,
        "Whether it contains the second; NULL if either is.",
        truth,
        texts=_SEARCHED,
    ),
    _function(
        "reverse", lambda x: x[::-1], _ONE, "The characters in reverse order; NULL if it is.", texts=_BY_CHARACTER
    ),
    _function(
        "split_part",
        _split_part,
        _split_resolve,
        "The n-th part between constant delimiters, from the end if n < 0, or ''; NULL if the text is.",
        texts=_SPLIT,
    ),
    _function(
        "lpad",
        lambda *a: _padded(*a, left=True),
        _pad_resolve,
        "The text filled on the left, or cut, to a constant length; NULL if it is.",
        texts=_PADDED,
    ),
    _function(
        "rpad",
        lambda *a: _padded(*a, left=False),
        _pad_resolve,
        "The text filled on the right, or cut, to a constant length; NULL if it is.",
        texts=_PADDED,
    ),
)
