"""Operations on text. A character is a Unicode code point; no text has more than 10,000 characters.

An operation that lengthens texts reads so much of its arguments that its result, and all that is made on the way to it,
stays within that: the first 10,000 characters of what is joined, and as much of a text as fits after replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dpquery.plan.expr import Call, Literal
from dpquery.plan.functions.bounds import any_nullable
from dpquery.plan.functions.promotion import Expressions, Types, signature
from dpquery.plan.functions.table import (
    CHOOSES,
    READS,
    TEXT_LIMIT,
    Constant,
    Lengths,
    Signature,
    Texts,
    constant,
    function,
    integer_literal,
    text_constant,
)
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, INT64, TEXT


def unranged(ranges: tuple[Range, ...], _: Call) -> Range:
    """Text has no range; it is NULL if an argument is."""
    return Range(nullable=any_nullable(ranges))


def counted(ranges: tuple[Range, ...], call: Call) -> Range:
    """A number of characters, each of at most four bytes, or a place among them; nothing is at the first place."""
    longest, size = ranges[0].longest, 4 if call.function == "octet_length" else 1
    upper = None if longest is None else Fraction(size * max(longest, 1))
    return Range(lower=Fraction(0), upper=upper, nullable=any_nullable(ranges))


def truth(ranges: tuple[Range, ...], _: Call) -> Range:
    """A truth value that is NULL if an argument is."""
    return Range(lower=Fraction(0), upper=Fraction(1), nullable=any_nullable(ranges))


def upper_character(character: str) -> str:
    """Returns the one capital of a character (of those that become several: the title-case one, or itself)."""
    for capital in (character.upper(), {"\u00df": "\u1e9e"}.get(character, character.title())):
        if len(capital) == 1:
            return capital
    return character


def replaced_part(old: str, new: str) -> int:
    """Returns how many characters of a text REPLACE reads: as many as fit into 10,000 if all of them are replaced."""
    return TEXT_LIMIT * len(old) // len(new) if 0 < len(old) < len(new) else TEXT_LIMIT


def _never_null(_: tuple[Range, ...], __: Call) -> Range:
    return Range(nullable=False)


def _substring_range(ranges: tuple[Range, ...], _: Call) -> Range:
    negative = len(ranges) > 2 and (ranges[2].lower is None or ranges[2].lower < 0)
    return Range(nullable=any_nullable(ranges) or negative)


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


_ONE, _WITH_COUNT = signature(TEXT, result=TEXT), signature(TEXT, INT64, result=TEXT)
_TEST = signature(TEXT, TEXT, result=BOOLEAN)
_TRIM = signature(TEXT, text_constant("the characters to trim", limit=100), result=TEXT, optional=1)
_REPLACE = signature(
    TEXT, text_constant("what REPLACE looks for"), text_constant("what REPLACE puts instead"), result=TEXT
)
_PLACE = Constant(INT64, lambda given: integer_literal(given, "the number of the part", -TEXT_LIMIT, TEXT_LIMIT))
_LENGTH = Constant(INT64, lambda given: integer_literal(given, "the length to pad to", 0, TEXT_LIMIT) is not None)
_PAD = signature(TEXT, _LENGTH, text_constant("the padding", least=1), result=TEXT, optional=1)


def _many(types: Types, _: Expressions) -> Signature | None:
    """Texts that are joined; numbers and dates are printed, as in SQL."""
    return ((TEXT,) * len(types), TEXT) if 1 <= len(types) <= 100 else None


@function(_ONE, unranged, texts=CHOOSES)
def upper(x: str) -> str:
    """The text in capitals, character by character; NULL if it is."""
    return "".join(map(upper_character, x))


@function(_ONE, unranged, texts=CHOOSES)
def lower(x: str) -> str:
    """The text in small letters, character by character; NULL if it is."""
    return "".join(c.lower()[0] for c in x)


@function(signature(TEXT, result=INT64), counted, texts=READS)
def length(x: str) -> int:
    """How many characters it has; NULL if it is."""
    return len(x)


@function(
    signature(TEXT, result=INT64),
    counted,
    parsed="ByteLength octet_length/1 strlen/1",
    engine="strlen",
    texts=READS,
)
def octet_length(x: str) -> int:
    """How many bytes it has in UTF-8; NULL if it is."""
    return len(x.encode())


def _trimming(name: str, trimmed: Callable[[str, str], str], where: str) -> None:
    def meaning(x: str, characters: str = " ") -> str:
        return trimmed(x, characters) if characters else x

    doc = f"The text without these characters (a constant; spaces) at {where}; NULL if it is."
    function(_TRIM, unranged, name=name, parsed="", texts=_TRIMMED, doc=doc)(meaning)


_trimming("trim", str.strip, "both ends")
_trimming("ltrim", str.lstrip, "its start")
_trimming("rtrim", str.rstrip, "its end")


@function(
    signature(TEXT, INT64, INT64, result=TEXT, optional=1),
    _substring_range,
    sql="SUBSTRING(a FROM 1 FOR 2)",
    parsed="Substring(this,start,length?)",
    engine="",
    texts=_MIDDLE,
)
def substring(x: str, start: int, count: int | None = None) -> str | None:
    """The part from a place, counted from 1, of a length; NULL if an argument is or the length is negative."""
    if count is not None and count < 0:
        return None
    end = len(x) + 1 if count is None else start + count  # places before the first count, as in PostgreSQL
    return x[max(start, 1) - 1 : max(end, 1) - 1]


@function(_WITH_COUNT, unranged, sql="LEFT(a, 2)", engine="", texts=_PART)
def left(x: str, count: int) -> str:
    """The first characters, or all but the last -n; NULL if an argument is."""
    return x[:count]


@function(_WITH_COUNT, unranged, sql="RIGHT(a, 2)", engine="", texts=_PART)
def right(x: str, count: int) -> str:
    """The last characters, or all but the first -n; NULL if an argument is."""
    return x[len(x) - count if 0 <= count <= len(x) else max(-count, 0) :]


@function(
    _REPLACE,
    unranged,
    sql="REPLACE(a, 'x', 'y')",
    parsed="Replace(this,expression,replacement)",
    engine="",
    texts=Texts(makes=_replaced),
)
def replace(x: str, old: str, new: str) -> str:
    """The text with one constant instead of another; NULL if it is."""
    part = x[: replaced_part(old, new)]
    return part.replace(old, new) if old else part


@function(_many, unranged, sql="a || b", parsed="", engine="", texts=_JOINED)
def concat(*values: str) -> str:
    """The texts one after another; NULL if one is."""
    return "".join(values)[:TEXT_LIMIT]


@function(_many, _never_null, sql="CONCAT(a, b)", parsed="", engine="", texts=_JOINED, strict=False)
def concat_without_nulls(*values: str | None) -> str:
    """The texts that are not NULL one after another; never NULL."""
    return "".join(v for v in values if v is not None)[:TEXT_LIMIT]


@function(
    signature(TEXT, TEXT, result=INT64),
    counted,
    sql="POSITION(b IN a)",
    parsed="StrPosition",
    engine="strpos",
    texts=_SEARCHED,
)
def position(x: str, part: str) -> int:
    """Where in the first text the second begins, from 1; 0 if nowhere; NULL if either is."""
    return x.find(part) + 1


@function(_TEST, truth, sql="STARTS_WITH(a, b)", parsed="StartsWith prefix/2", texts=READS)
def starts_with(x: str, start: str) -> bool:
    """Whether it starts with the second; NULL if either is."""
    return x.startswith(start)


@function(_TEST, truth, sql="ENDS_WITH(a, b)", parsed="EndsWith suffix/2", texts=READS)
def ends_with(x: str, end: str) -> bool:
    """Whether it ends with the second; NULL if either is."""
    return x.endswith(end)


@function(_TEST, truth, sql="CONTAINS(a, b)", texts=_SEARCHED)
def contains(x: str, part: str) -> bool:
    """Whether it contains the second; NULL if either is."""
    return part in x


@function(_ONE, unranged, engine="array_to_string(list_reverse(string_split({0}, '')), '')", texts=_BY_CHARACTER)
def reverse(x: str) -> str:
    """The characters in reverse order; NULL if it is."""
    return x[::-1]


@function(
    signature(TEXT, text_constant("the delimiter", least=1), _PLACE, result=TEXT),
    unranged,
    sql="SPLIT_PART(a, ',', 1)",
    parsed="SplitPart(this,delimiter,part_index)",
    engine="",
    texts=_SPLIT,
)
def split_part(x: str, delimiter: str, index: int) -> str:
    """The n-th part between constant delimiters, from the end if n < 0, or ''; NULL if the text is."""
    parts = x.split(delimiter)
    place = index - 1 if index > 0 else len(parts) + index
    return parts[place] if 0 <= place < len(parts) else ""


def _filling(x: str, count: int, fill: str) -> str:
    """Returns what is missing to a length."""
    missing = max(count - len(x), 0)
    return (fill * (missing // len(fill) + 1))[:missing]


@function(_PAD, unranged, sql="LPAD(a, 5, '0')", parsed="", engine="", texts=_PADDED)
def lpad(x: str, count: int, fill: str = " ") -> str:
    """The text filled on the left, or cut, to a constant length; NULL if it is."""
    return _filling(x, count, fill) + x[:count]


@function(_PAD, unranged, sql="RPAD(a, 5, '0')", parsed="", engine="", texts=_PADDED)
def rpad(x: str, count: int, fill: str = " ") -> str:
    """The text filled on the right, or cut, to a constant length; NULL if it is."""
    return x[:count] + _filling(x, count, fill)
