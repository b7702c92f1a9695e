"""SQL text taken apart: its tokens, the statements between its semicolons, and a reader of the tokens of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.sql.parse.lexemes import lexemes

Read = TypeVar("Read")
MOST_STATEMENTS = 100
"""Statements of one simple query."""
MOST_TOKENS = 100_000
"""Tokens of one query."""

_UNTERMINATED = {
    "open": "unterminated quoted string",
    "open dollar": "unterminated dollar-quoted string",
    "open comment": "unterminated /* comment",
}
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


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

    @property
    def name(self) -> str:
        """The name that it spells: folded to lower case unless it is quoted. Raises Refusal where it is none."""
        if self.kind == "quoted" and self.text[0] == '"':
            return self.text[1:-1].replace('""', '"')
        if self.kind != "word":
            raise self.unexpected()
        return self.text.lower()

    @property
    def value(self) -> str:
        """The text of a string, name, word or number. Raises Refusal for all else."""
        match self.kind:
            case "string" if self.text[0] == "'":
                return self.text[1:-1].replace("''", "'")
            case "escaped":
                inner = self.text[2:-1]
                return re.sub(r"\\(.)|''", lambda m: _LETTERS.get(m[1], m[1]) if m[1] else "'", inner, flags=re.DOTALL)
            case "dollar":
                tag = self.text.index("$", 1) + 1
                return self.text[tag:-tag]
            case "number" | "word":
                return self.text
        return self.name

    def unexpected(self) -> Refusal:
        """Returns the refusal of a token where it may not be."""
        return Refusal("42601", f'syntax error at or near "{self.text[:60]}"', position=self.start + 1)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text, its tokens, which know their places in that text, and where it began in the query."""

    text: str
    tokens: tuple[Token, ...]
    start: int = 0

    @staticmethod
    def of(text: str, found: Sequence[Token], before: int = 0) -> Statement:
        """Returns a statement of some tokens of a text that itself began at `before`."""
        start = found[0].start
        moved = tuple(Token(token.kind, token.text, token.start - start) for token in found)
        return Statement(text[start : found[-1].end], moved, before + start)


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
            statements.append(Statement.of(text, current))
            current = []
    if len(statements) > MOST_STATEMENTS:
        hint = f"At most {MOST_STATEMENTS} can be sent at once."
        raise Refusal("54001", "too many statements in one query", hint=hint)
    return statements


class TokenReader:
    """A place between the tokens of a statement. What it does not find it refuses, with the token's place."""

    def __init__(self, statement: Statement, place: int = 0) -> None:
        self._statement, self._tokens, self._place = statement, statement.tokens, place

    @property
    def left(self) -> int:
        """How many tokens were not read."""
        return len(self._tokens) - self._place

    @property
    def kind(self) -> str:
        """The kind of the next token, or "" at the end."""
        return self._tokens[self._place].kind if self.left else ""

    def peek(self, ahead: int = 0) -> str:
        """Returns a coming word in lower case, or sign, or "" for all else."""
        if ahead >= self.left:
            return ""
        token = self._tokens[self._place + ahead]
        return token.text if token.kind == "sign" else token.word

    def take(self, *phrases: str) -> str:
        """Reads the phrase of which the first word or sign comes next, its others have to follow; returns it, or ""."""
        found = self.peek()
        for phrase in phrases if found else ():
            first, _, others = phrase.partition(" ")
            if found == first:
                self._place += 1
                for word in others.split():
                    self.need(word)
                return phrase
        return ""

    def need(self, *phrases: str) -> str:
        """Reads one of some phrases, which has to come."""
        found = self.take(*phrases)
        if not found:
            raise self.unexpected()
        return found

    def token(self) -> Token:
        """Reads any token."""
        if not self.left:
            raise self.unexpected()
        self._place += 1
        return self._tokens[self._place - 1]

    def name(self) -> str:
        """Reads a name."""
        return self.token().name

    def text(self) -> str:
        """Reads the text of a string or word."""
        return self.token().value

    def dotted(self) -> str:
        """Reads the name of a setting, in lower case."""
        return ".".join(self.separated(self.name, ".")).lower()

    def separated(self, read: Callable[[], Read], sign: str = ",") -> list[Read]:
        """Reads one or more of something, with signs between."""
        found = [read()]
        while self.take(sign):
            found.append(read())
        return found

    def values(self) -> str:
        """Reads values to the end, joined by commas."""
        found = ", ".join(self.separated(self._signed))
        self.end()
        return found

    def _signed(self) -> str:
        sign = self.take("-")
        self.take("+")
        return sign + self.text()

    def count(self) -> int:
        """Reads a whole number."""
        sign = -1 if self.take("-") else 1
        self.take("+")
        token = self.token()
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 18:
            raise token.unexpected()
        return sign * int(token.text)

    def types(self) -> tuple[int, ...]:
        """Reads `(type, ...)` as OIDs; a type that is not known is left open."""
        self.need("(")
        found = self.separated(self._type)
        self.need(")")
        return tuple(found)

    def _type(self) -> int:
        words, is_array = list[str](), False
        while self.peek() not in (",", ")"):
            if self.take("[ ]"):
                is_array = True
            else:
                words.append(self.name())
                self._skip_parentheses()
        oid = oids.TYPES.get(" ".join(words), 0)
        return oids.ARRAYS.get(oid, 0) if is_array else oid

    def _skip_parentheses(self) -> None:
        if self.take("("):
            while not self.take(")"):
                self.token()

    def literals(self) -> tuple[str | None, ...]:
        """Reads `(literal, ...)` as text, with None for NULL; a cast behind a literal is ignored, its type is known."""
        self.need("(")
        found = [] if self.peek() == ")" else self.separated(self._literal)
        self.need(")")
        return tuple(found)

    def _literal(self) -> str | None:
        self.take("date", "timestamp", "timestamptz", "time", "interval", "numeric")
        is_null, value = bool(self.take("null")), ""
        if not is_null and not (value := self.take("true", "false")):
            sign, token = self.take("-"), self.token()
            if token.kind not in ("string", "escaped", "dollar", "number"):
                raise Refusal("0A000", "EXECUTE only takes literals", position=token.start + 1)
            value = sign + token.value
        while self.take("::"):
            self.name()
            self._skip_parentheses()
        return None if is_null else value

    def options(self) -> dict[str, str]:
        """Reads `(name [value], ...)`; a name alone has the value "true"."""
        self.need("(")
        found = dict(self.separated(self._option))
        self.need(")")
        return found

    def _option(self) -> tuple[str, str]:
        name = self.name()
        if self.peek() in (",", ")"):
            return name, "true"
        if self.take("("):
            names = self.separated(self.name)
            self.need(")")
            return name, ",".join(names)
        return name, self.take("*") or self._signed()

    def inside(self) -> Statement:
        """Reads `( ... )` and returns the statement within."""
        self.need("(")
        first, depth = self._place, 1
        while depth:
            sign = self.peek()
            depth += (sign == "(") - (sign == ")")
            self.token()
        return self._between(first, self._place - 1)

    def statement(self) -> Statement:
        """Reads all that is left and returns it as a statement of its own."""
        place, self._place = self._place, len(self._tokens)
        return self._between(place, self._place)

    def _between(self, first: int, past: int) -> Statement:
        if first >= past:
            raise self.unexpected()
        return Statement.of(self._statement.text, self._tokens[first:past], self._statement.start)

    def end(self) -> None:
        """Demands that all was read."""
        if self.left:
            raise self.unexpected()

    def unexpected(self) -> Refusal:
        """Returns the refusal of the next token."""
        if self.left:
            return self._tokens[self._place].unexpected()
        return Refusal("42601", "syntax error at end of input", position=len(self._statement.text) + 1)
