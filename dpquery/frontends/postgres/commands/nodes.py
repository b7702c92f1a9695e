"""Statements as their connection understands them: what each takes and gives, and what it does when it is run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpquery.frontends.postgres.commands.portals import ALL_SETTINGS, PRICE, PRICE_AS_JSON, Outcome, Portal, motion
from dpquery.frontends.postgres.commands.statements import Statement
from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Described, Field, Refusal
from dpquery.frontends.postgres.wire.codecs import decode
from dpquery.frontends.postgres.wire.rows import CopyForm

if TYPE_CHECKING:
    from dpquery.frontends.postgres.execution import Executor

REMAINING = Statement("SELECT currency, remaining FROM dp.budget", ())
Values = tuple[object, ...]


class Command(ABC):
    """A statement, read."""

    __slots__ = ()

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        """Returns the types of its parameters and columns; charges nothing.

        Args:
            given: The OIDs of the parameters' types that the client has declared.
        """
        return Described(parameters=(), fields=())

    @abstractmethod
    async def run(self, on: Executor, values: Values) -> Outcome:
        """Returns what it gives, with these values of its parameters; what asks data is charged."""


@dataclass(frozen=True, slots=True)
class _OfQuery(Command):
    """A statement around a query, which has its parameters."""

    statement: Statement

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        return replace(await on.describe_text(self.statement, given), fields=())


@dataclass(frozen=True, slots=True)
class Ask(Command):
    """A statement for the engine."""

    statement: Statement

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        """Returns its types, as the engine tells them."""
        return await on.describe_text(self.statement, given)

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Answers it."""
        return Outcome.of(await on.ask(self.statement, values))


@dataclass(frozen=True, slots=True)
class Explain(_OfQuery):
    """Price and expected error of a statement."""

    is_json: bool = False

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        """Returns the types of the statement's parameters, and one column."""
        found = await on.describe_text(self.statement, given)
        return replace(found, fields=PRICE_AS_JSON if self.is_json else PRICE)

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Plans it."""
        made = Outcome.of(await on.ask(self.statement, values, is_explained=True))
        lines = [] if made.table is None else made.table.column(0).to_pylist()
        return Outcome.of_plan(lines, is_json=self.is_json, notices=made.notices)


@dataclass(frozen=True, slots=True)
class Copy(_OfQuery):
    """Sends the rows of a statement in the form of a file."""

    form: CopyForm

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Answers it."""
        return Outcome.of(await on.ask(self.statement, values), "COPY", self.form)


@dataclass(frozen=True, slots=True)
class Declare(_OfQuery):
    """Opens a cursor."""

    name: str
    is_binary: bool
    can_scroll: bool
    is_held: bool

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Answers the query, once; the cursor then moves over its rows."""
        if not self.is_held:
            on.block.demand("DECLARE CURSOR")
        on.store.check_portal(self.name)
        made = Outcome.of(await on.ask(self.statement, values))
        on.store.portals[self.name] = Portal(
            command=Ask(self.statement),
            result_formats=(1,) if self.is_binary else (),
            outcome=made,
            is_cursor=True,
            is_held=self.is_held,
            can_scroll=self.can_scroll,
        )
        return Outcome(tag="DECLARE CURSOR", notices=made.notices)


@dataclass(frozen=True, slots=True)
class Fetch(Command):
    """Moves a cursor, and shows the rows that it passes unless `is_move`.

    `direction` is forward, backward, absolute or relative; `count` is None for all.
    """

    name: str
    direction: str
    count: int | None
    is_move: bool

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        """Returns the columns of the cursor."""
        fields = () if self.is_move else await on.fields_of(on.store.portal(self.name, "cursor"))
        return Described(parameters=(), fields=fields)

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Moves it."""
        portal = on.store.portal(self.name, "cursor")
        outcome = await on.outcome_of(portal)
        if outcome.table is None or outcome.fields is None or outcome.copy is not None:
            raise Refusal("24000", "the portal has no rows to fetch")
        moved = motion(portal.place, outcome.rows, self.direction, self.count)
        if not portal.can_scroll and not moved.is_forward(portal.place):
            raise Refusal("55000", "cursor can only scan forward", hint="Declare it with SCROLL option.")
        portal.place = moved.place
        if self.is_move:
            return Outcome(tag=f"MOVE {moved.count}")
        return Outcome(tag="FETCH", fields=outcome.fields, table=moved.rows(outcome.table), is_counted=True)


@dataclass(frozen=True, slots=True)
class Invoke(Command):
    """Runs a prepared statement with literals, as text or None."""

    name: str
    arguments: tuple[str | None, ...]

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        """Returns the columns of the prepared statement."""
        return Described(parameters=(), fields=(await on.describe(on.store.statement(self.name))).fields)

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Runs it."""
        prepared = on.store.statement(self.name)
        if prepared.command is None or isinstance(prepared.command, Invoke):
            raise Refusal("26000", "the prepared statement cannot be executed")
        parameters = (await on.describe(prepared)).parameters
        if len(parameters) != len(self.arguments):
            raise Refusal("42601", "wrong number of parameters for the prepared statement")
        given = zip(self.arguments, parameters, strict=True)
        decoded = tuple(decode(None if text is None else text.encode(), oid, False) for text, oid in given)
        return await on.run(prepared.command, decoded)


@dataclass(frozen=True, slots=True)
class Transaction(Command):
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE or ROLLBACK TO, as `act`; `name` is a savepoint's, or of BEGIN the
    level of isolation. All levels are alike here."""

    act: str
    name: str | None = None

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Runs it."""
        return on.block.run(self.act, self.name)


@dataclass(frozen=True, slots=True)
class SetSetting(Command):
    """Gives a setting a value, or its default for None; `all` with `is_reset` gives all theirs."""

    name: str
    value: str | None
    is_local: bool
    is_reset: bool = False

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Makes the setting."""
        tag, block = "RESET" if self.is_reset else "SET", on.block
        if self.name == "all" and self.is_reset:
            block.tell_changes(block.settings.reset_all)
        elif self.is_local and block.status == "I" and not block.in_block:
            return Outcome(tag=tag, notices=(("25P01", "SET LOCAL can only be used in transaction blocks"),))
        else:
            block.report(self.name, block.settings.set(self.name, self.value, is_local=self.is_local))
        return Outcome(tag=tag)


@dataclass(frozen=True, slots=True)
class Show(Command):
    """Shows a setting, or all of them for None."""

    name: str | None

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that it gives."""
        return ALL_SETTINGS if self.name is None else (Field(name=self.name, oid=oids.TEXT),)

    async def describe(self, on: Executor, given: tuple[int, ...]) -> Described:
        """Returns one column of its name."""
        return Described(parameters=(), fields=self.fields)

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Returns the value; what is left of the budget is the ledger's to say."""
        if self.name is None:
            return Outcome.of_texts(self.fields, [(n, v, "") for n, v in sorted(on.settings.values.items())])
        if self.name != "dpquery.remaining":
            return Outcome.of_texts(self.fields, [(on.settings.show(self.name),)])
        answered = await on.ask(REMAINING)
        rows = zip(*(column.to_pylist() for column in answered.table.columns), strict=True)
        return Outcome.of_texts(self.fields, [(", ".join(f"{currency} {left:.12g}" for currency, left in rows),)])


@dataclass(frozen=True, slots=True)
class Act(Command):
    """A statement that gives no rows: its tag, and what it does, which raises Refusal where it may not."""

    tag: str
    do: Callable[[Executor], object] = lambda on: None

    async def run(self, on: Executor, values: Values) -> Outcome:
        """Does it."""
        self.do(on)
        return Outcome(tag=self.tag)
