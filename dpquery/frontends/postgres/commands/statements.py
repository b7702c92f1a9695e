"""SQL text taken apart: its tokens, and the statements between its semicolons."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.sql.parse.lexemes import lexemes

MOST_STATEMENTS = 100
"""Statements of one simple query."""
MOST_TOKENS = 100_000
"""Tokens of one query."""

_UNTERMINATED = {
    "open": "unterminated quoted string",
    "open dollar": "unterminated dollar-quoted string",
    "open comment": "unterminated /* comment",
}


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
    for lexeme in lexemes(text):
        if lexeme.kind in _UNTERMINATED:
            raise Refusal("42601", _UNTERMINATED[lexeme.kind], position=lexeme.start + 1)
        if lexeme.kind not in ("space", "comment"):
            found.append(Token(lexeme.kind, text[lexeme.start : lexeme.end], lexeme.start))
            if len(found) > MOST_TOKENS:
                raise Refusal("54001", "the query is too long", position=lexeme.start + 1)
    return found


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
