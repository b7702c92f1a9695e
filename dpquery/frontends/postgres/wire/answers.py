"""What the wire asks of the engine, and what it gets: one SQL statement of one analyst, answered, described or refused.

All of it is plain data, so that the engine can live in another process than the connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of a result, as the wire describes it.

    Attributes:
        name: Its name, as PostgreSQL would call it.
        oid: The OID of its type.
        typmod: What the type's parameters are, as PostgreSQL codes them; -1 for none.
    """

    name: str
    oid: int
    typmod: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One SQL statement of one analyst.

    Attributes:
        text: The statement, with its parameters as $1, $2 and so on.
        parameters: Their values: None, bool, int, float, Decimal, str, date, datetime, time, UUID, bytes or list.
        analyst: Who asks; the connection has proved it.
        settings: The settings of the connection by name, in lower case ("timezone", "dpquery.epsilon", ...).
    """

    text: str
    parameters: tuple[object, ...] = ()
    analyst: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a statement will take and give, known without reading data.

    Attributes:
        parameters: The OIDs of the parameters' types.
        fields: The columns of the result; none for statements without rows.
    """

    parameters: tuple[int, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer.

    Attributes:
        fields: The columns, as `describe` gave them.
        table: Columns in the order of the fields, of Arrow types that match their OIDs.
        notices: Sentences for the analyst: what was charged, what was answered for free and why.
        is_lasting: Whether the same statement of the same analyst always gives this: it reads no data and no clock.
    """

    fields: tuple[Field, ...]
    table: pa.Table
    notices: tuple[str, ...] = ()
    is_lasting: bool = False


class Refusal(Exception):
    """A statement that is refused, in words that say nothing about data; can be pickled.

    Attributes:
        sqlstate: Five characters, as PostgreSQL codes errors.
        message: What was refused and why.
        detail, hint: More of it, and what to do instead; or None.
        position: Where in the statement, in characters counted from 1, or None.
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(sqlstate, message, detail, hint, position)
        self.sqlstate, self.message = sqlstate, message
        self.detail, self.hint, self.position = detail, hint, position

    def __str__(self) -> str:
        return f"{self.sqlstate}: {self.message}"


class Answerer(Protocol):
    """Answers statements; many threads may ask at once."""

    def describe(
        self, text: str, parameter_oids: tuple[int, ...], analyst: str, settings: Mapping[str, str]
    ) -> Described:
        """Returns what a statement takes and gives. Reads no data, charges nothing.

        Args:
            text: The statement, with its parameters as $1, $2 and so on.
            parameter_oids: The OIDs that the client declared, 0 for those that it left open.
            analyst: Who asks.
            settings: The settings of the connection.
        Raises:
            Refusal: The statement would be refused.
        """
        ...

    def answer(self, asked: Asked) -> Answered:
        """Returns the answer to a statement; charges at most once.

        Raises:
            Refusal: The statement is refused. Only a failed engine (58030) leaves a charge.
        """
        ...

    def explain(self, asked: Asked) -> Answered:
        """Returns what a statement would measure and cost, as lines of text. Reads no data, charges nothing.

        Raises:
            Refusal: The statement would be refused.
        """
        ...
