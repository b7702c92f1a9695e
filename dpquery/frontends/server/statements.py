"""SQL text taken apart: its tokens, and the statements between its semicolons."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpquery.frontends.server.answers import Refusal

MOST_STATEMENTS = 100
"""Statements of one simple query."""
MOST_TOKENS = 100_000
"""Tokens of one query."""

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\r\n]*)
    | (?P<comment>/\*)
    | (?P<string>(?:[Uu]&|[NnBbXx])?'[^']*(?:''[^']*)*')
    | (?P<escaped>[Ee]'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')
    | (?P<quoted>(?:[Uu]&)?"[^"]*(?:""[^"]*)*")
    | (?P<open>(?:[Ee]|[Uu]&|[NnBbXx])?'|(?:[Uu]&)?")
    | (?P<dollar>\$(?P<tag>[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*|)\$)
    | (?P<parameter>\$[0-9]+)
    | (?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*)
    | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<sign>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind (word, quoted, string, escaped, dollar, parameter, number, sign), its text, where it begins."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """The word in lower case, or "" where it is none."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text, its tokens, which know their places in that text, and where it began in the query."""

    text: str
    tokens: tuple[Token, ...]
    start: int = 0


def tokens(text: str) -> list[Token]:
    """Returns the tokens of a text, without spaces and comments.

    Raises:
        Refusal: A string, name or comment has no end.
    """
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Refusal("42601", "syntax error", position=place + 1)
        kind, end = match.lastgroup or "sign", match.end()
        if kind == "tag":
            kind = "dollar"
        if kind == "open":
            raise Refusal("42601", "unterminated quoted string", position=place + 1)
        if kind == "comment":
            end = _end_of_comment(text, place)
        elif kind == "dollar":
            closed = text.find(match.group(), end)
            if closed < 0:
                raise Refusal("42601", "unterminated dollar-quoted string", position=place + 1)
            end = closed + len(match.group())
        if kind not in ("space", "comment"):
            found.append(Token(kind, text[place:end], place))
            if len(found) > MOST_TOKENS:
                raise Refusal("54001", "the query is too long", position=place + 1)
        place = end
    return found


def _end_of_comment(text: str, start: int) -> int:
    depth, place = 0, start
    while match := _COMMENT.search(text, place):
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
        if depth == 0:
            return place
    raise Refusal("42601", "unterminated /* comment", position=start + 1)


def split(text: str) -> list[Statement]:
    """Returns the statements of a text, without those that are empty.

    Raises:
        Refusal: The text has no tokens, or too many statements.
    """
    statements, current = [], list[Token]()
    for token in [*tokens(text), Token("sign", ";", len(text))]:
        if token.kind != "sign" or token.text != ";":
            current.append(token)
        elif current:
            statements.append(_statement(text, current))
            current = []
    if len(statements) > MOST_STATEMENTS:
        raise Refusal(
            "54001", "too many statements in one query", hint=f"At most {MOST_STATEMENTS} can be sent at once."
        )
    return statements


def _statement(text: str, found: list[Token]) -> Statement:
    start = found[0].start
    moved = tuple(Token(token.kind, token.text, token.start - start) for token in found)
    return Statement(text[start : found[-1].end], moved, start)


def name_of(token: Token) -> str:
    """Returns the name that a token spells: folded to lower case unless it is quoted."""
    if token.kind == "word":
        return token.text.lower()
    if token.kind == "quoted" and token.text[0] == '"':
        return token.text[1:-1].replace('""', '"')
    raise unexpected(token)


def value_of(token: Token) -> str:
    """Returns the text of a string, name or number."""
    if token.kind == "string" and token.text[0] == "'":
        return token.text[1:-1].replace("''", "'")
    if token.kind == "escaped":
        return _unescaped(token.text[2:-1])
    if token.kind == "dollar":
        tag = token.text[: token.text.index("$", 1) + 1]
        return token.text[len(tag) : -len(tag)]
    if token.kind == "number":
        return token.text
    return name_of(token) if token.kind == "quoted" else token.text if token.kind == "word" else _refuse(token)


def _unescaped(text: str) -> str:
    letters = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
    return re.sub(r"\\(.)|''", lambda m: "'" if m[1] is None else letters.get(m[1], m[1]), text, flags=re.DOTALL)


def _refuse(token: Token) -> str:
    raise unexpected(token)


def unexpected(token: Token) -> Refusal:
    """Returns the refusal of a token that stands where it may not."""
    return Refusal("42601", f'syntax error at or near "{token.text[:60]}"', position=token.start + 1)
