"""What a statement asks of its connection."""

from __future__ import annotations

from dataclasses import dataclass

from dpquery.frontends.postgres.commands.statements import Statement
from dpquery.frontends.postgres.wire.rows import CopyForm


@dataclass(frozen=True, slots=True)
class Ask:
    """A statement for the engine."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class Explain:
    """Price and expected error of a statement."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class Begin:
    """Begins a transaction, of the level of isolation that is named; all levels are alike here."""

    isolation: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Ends a transaction."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Ends a transaction, or goes back to a savepoint."""

    savepoint: str | None


@dataclass(frozen=True, slots=True)
class Savepoint:
    """Names a place in a transaction."""

    name: str


@dataclass(frozen=True, slots=True)
class Release:
    """Forgets a savepoint."""

    name: str


@dataclass(frozen=True, slots=True)
class SetSetting:
    """Gives a setting a value, or its default for None; `all` with `is_reset` gives all theirs."""

    name: str
    value: str | None
    is_local: bool
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class SetRole:
    """Asks in another analyst's name, or again in the own one."""

    name: str | None
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """Shows a setting."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowAll:
    """Shows all settings."""


@dataclass(frozen=True, slots=True)
class Discard:
    """Forgets what the connection holds."""

    what: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepares a statement under a name, with the OIDs of its parameters as far as they are given."""

    name: str
    oids: tuple[int, ...]
    statement: Statement


@dataclass(frozen=True, slots=True)
class Invoke:
    """Runs a prepared statement with literals, as text or None."""

    name: str
    arguments: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Deallocate:
    """Forgets a prepared statement, or all for None."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Declare:
    """Opens a cursor."""

    name: str
    is_binary: bool
    can_scroll: bool
    is_held: bool
    statement: Statement


@dataclass(frozen=True, slots=True)
class Fetch:
    """Moves a cursor, and shows the rows that it passes unless `is_move`.

    `direction` is forward, backward, absolute or relative; `count` is None for all.
    """

    name: str
    direction: str
    count: int | None
    is_move: bool


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """Closes a cursor, or all for None."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Copy:
    """Sends the rows of a statement in the form of a file."""

    statement: Statement
    form: CopyForm


@dataclass(frozen=True, slots=True)
class Nothing:
    """A statement that is accepted and has no effect."""

    tag: str


Command = (
    Ask
    | Explain
    | Begin
    | Commit
    | Rollback
    | Savepoint
    | Release
    | SetSetting
    | SetRole
    | Show
    | ShowAll
    | Discard
    | Prepare
    | Invoke
    | Deallocate
    | Declare
    | Fetch
    | CloseCursor
    | Copy
    | Nothing
)
