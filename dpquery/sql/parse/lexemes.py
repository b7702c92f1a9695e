"""PostgreSQL's lexical rules: where the words, strings, comments and parameters of a text begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEXEME = re.compile(
    r"""
      (?P<space>\s+|--[^\r\n]*)
    | (?P<comment>/\*)
    | (?P<string>(?:[Uu]&|[NnBbXx])?'[^']*(?:''[^']*)*')
    | (?P<escaped>[Ee]'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')
    | (?P<quoted>(?:[Uu]&)?"[^"]*(?:""[^"]*)*")
    | (?P<open>(?:[Ee]|[Uu]&|[NnBbXx])?'|(?:[Uu]&)?")
    | (?P<dollar>\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$)
    | (?P<parameter>\$(?:[0-9]+|[A-Za-z_][A-Za-z0-9_]*))
    | (?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*)
    | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<sign>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A stretch of a text from `start` to `end`.

    Its kind is space, comment, string, escaped, quoted, dollar, parameter, word, number or sign. A string, name or
    comment that has no end is the last one of its text: of the kind open, open dollar or open comment.
    """

    kind: str
    start: int
    end: int


def lexemes(text: str) -> Iterator[Lexeme]:
    """Yields the lexemes of a text, which cover all of it; comments nest, and no dollar quote begins with a digit.

    Example:
        >>> [(lexeme.kind, lexeme.end) for lexeme in lexemes("($1,$2)")]
        [('sign', 1), ('parameter', 3), ('sign', 4), ('parameter', 6), ('sign', 7)]
    """
    place = 0
    while place < len(text):
        match = _LEXEME.match(text, place)
        assert match is not None  # a sign is any character
        kind, end = match.lastgroup or "sign", match.end()
        if kind == "comment":
            end = _end_of_comment(text, place)
        elif kind == "dollar":
            closed = text.find(match.group(), end)
            end = -1 if closed < 0 else closed + len(match.group())
        if kind == "open" or end < 0:
            yield Lexeme("open" if kind == "open" else f"open {kind}", place, len(text))
            return
        yield Lexeme(kind, place, end)
        place = end


def _end_of_comment(text: str, start: int) -> int:
    """Returns where the comment ends that begins here, or -1."""
    depth, place = 0, start
    while match := _COMMENT.search(text, place):
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
        if depth == 0:
            return place
    return -1
