"""Reads the tokens of a statement one after the other."""

from __future__ import annotations

from dpquery.frontends.postgres.commands.statements import Statement, Token, name_of, unexpected, value_of
from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Refusal


class Reader:
    """A place between the tokens of a statement. What it does not find it refuses, with the token's place."""

    def __init__(self, statement: Statement) -> None:
        self._statement, self._tokens, self._place = statement, statement.tokens, 0

    @property
    def at_end(self) -> bool:
        """Whether all was read."""
        return self._place >= len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """Returns a coming word in lower case, or sign, or "" for all else."""
        place = self._place + ahead
        if place >= len(self._tokens):
            return ""
        token = self._tokens[place]
        return token.text if token.kind == "sign" else token.word

    def is_number(self) -> bool:
        """Whether a number comes."""
        return not self.at_end and self._tokens[self._place].kind == "number"

    def is_last(self) -> bool:
        """Whether one token is left."""
        return self._place == len(self._tokens) - 1

    def skip(self) -> None:
        """Reads a token."""
        self._place += 1

    def take(self, word: str) -> bool:
        """Reads a word or sign if it is the next token; returns whether."""
        if self.peek() != word:
            return False
        self._place += 1
        return True

    def take_phrase(self, phrase: str) -> bool:
        """Reads words if the first of them is the next token, after which the others have to come; returns whether."""
        first, *others = phrase.split()
        is_next = self.take(first)
        for word in others if is_next else ():
            self.need(word)
        return is_next

    def need(self, word: str) -> None:
        """Reads a word or sign that has to come."""
        if not self.take(word):
            raise self.unexpected()

    def word(self, words: tuple[str, ...]) -> str:
        """Reads one of some words."""
        found = self.peek()
        if found not in words:
            raise self.unexpected()
        self._place += 1
        return found

    def token(self) -> Token:
        """Reads any token."""
        if self.at_end:
            raise self.unexpected()
        self._place += 1
        return self._tokens[self._place - 1]

    def name(self) -> str:
        """Reads a name."""
        return name_of(self.token())

    def text(self) -> str:
        """Reads the text of a string or word."""
        return value_of(self.token())

    def dotted(self) -> str:
        """Reads the name of a setting, in lower case."""
        name = self.name()
        while self.take("."):
            name += "." + self.name()
        return name.lower()

    def values(self) -> str:
        """Reads values to the end, joined by commas."""
        found = [self._signed()]
        while self.take(","):
            found.append(self._signed())
        self.end()
        return ", ".join(found)

    def _signed(self) -> str:
        sign = "-" if self.take("-") else ""
        self.take("+")
        return sign + value_of(self.token())

    def count(self) -> int:
        """Reads a whole number."""
        sign = -1 if self.take("-") else 1
        self.take("+")
        token = self.token()
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 18:
            raise unexpected(token)
        return sign * int(token.text)

    def types(self) -> tuple[int, ...]:
        """Reads `(type, ...)` as OIDs; a type that is not known is left open."""
        self.need("(")
        found = []
        while True:
            words = []
            is_array = False
            while self.peek() not in (",", ")"):
                if self.take("["):
                    self.need("]")
                    is_array = True
                    continue
                words.append(self.name())
                self._skip_parentheses()
            name = " ".join(words)
            oid = oids.TYPES.get(name, 0)
            found.append(oids.ARRAYS.get(oid, 0) if is_array else oid)
            if self.take(")"):
                return tuple(found)
            self.need(",")

    def _skip_parentheses(self) -> None:
        if self.take("("):
            while not self.take(")"):
                self.token()

    def literals(self) -> tuple[str | None, ...]:
        """Reads `(literal, ...)` as text, with None for NULL; a cast behind a literal is ignored, its type is known."""
        self.need("(")
        found: list[str | None] = []
        while not self.take(")"):
            if found:
                self.need(",")
            found.append(self._literal())
        return tuple(found)

    def _literal(self) -> str | None:
        if self.peek() in ("date", "timestamp", "timestamptz", "time", "interval", "numeric"):
            self.skip()
        if self.peek() in ("null", "true", "false"):
            word = self.token().word
            value = None if word == "null" else word
        else:
            sign = "-" if self.take("-") else ""
            token = self.token()
            if token.kind not in ("string", "escaped", "dollar", "number"):
                raise Refusal("0A000", "EXECUTE only takes literals", position=token.start + 1)
            value = sign + value_of(token)
        while self.take("::"):
            self.name()
            self._skip_parentheses()
        return value

    def options(self) -> tuple[tuple[str, str], ...]:
        """Reads `(name [value], ...)`; a name alone has the value "true"."""
        self.need("(")
        found = []
        while True:
            name = self.name()
            value = "true"
            if self.peek() not in (",", ")"):
                if self.take("("):
                    value = ",".join(iter(self._listed, ""))
                else:
                    value = "*" if self.take("*") else self._signed()
            found.append((name, value))
            if self.take(")"):
                return tuple(found)
            self.need(",")

    def _listed(self) -> str:
        if self.take(")"):
            return ""
        self.take(",")
        return self.name()

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
        found = self._tokens[first:past]
        start = found[0].start
        moved = tuple(Token(t.kind, t.text, t.start - start) for t in found)
        return Statement(self._statement.text[start : found[-1].end], moved, self._statement.start + start)

    def end(self) -> None:
        """Demands that all was read."""
        if not self.at_end:
            raise self.unexpected()

    def unexpected(self) -> Refusal:
        """Returns the refusal of the next token."""
        if self.at_end:
            return Refusal("42601", "syntax error at end of input", position=len(self._statement.text) + 1)
        return unexpected(self._tokens[self._place])
