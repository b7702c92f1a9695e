"""Statements of one connection, run: those of the connection here, the others by the engine, each charged by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from dpquery.frontends.postgres.commands import nodes
from dpquery.frontends.postgres.commands.commands import read
from dpquery.frontends.postgres.commands.gucs import Settings
from dpquery.frontends.postgres.commands.portals import Motion, Outcome, Portal, Prepared, Store, motion
from dpquery.frontends.postgres.commands.statements import Statement
from dpquery.frontends.postgres.commands.transactions import Block
from dpquery.frontends.postgres.login.kept import key_of
from dpquery.frontends.postgres.login.shares import Shares
from dpquery.frontends.postgres.login.users import User
from dpquery.frontends.postgres.process.supervisor import (
    Call,
    Reply,
    Supervisor,
    answered_of,
    ask_words,
    describe_words,
    described_of,
)
from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Answered, Asked, Described, Field, Refusal
from dpquery.frontends.postgres.wire.codecs import decode

PRICE = (Field(name="QUERY PLAN", oid=oids.TEXT),)
MAX_WAIT = 600.0
SHORT_TABLE = 1 << 15
"""Bytes of a table that is read at once; longer ones are read in a thread."""
REMAINING = Statement("SELECT currency, remaining FROM dp.budget", ())


@dataclass(slots=True)
class Executor:
    """One connection's statements.

    Attributes:
        find_user: Looks up a user, for SET ROLE.
        heard: Tells the log of an answer: its kind, rows, seconds and notices.
        shares: What users share.
        timeout: Seconds that a statement may take at most, those that it waits for its turn included.
        block: The transaction that it is in, with what that undoes.
    """

    engine: Supervisor
    block: Block
    user: User
    login: User
    find_user: Callable[[str], User | None]
    heard: Callable[[Answered, float], None]
    shares: Shares
    timeout: float = MAX_WAIT
    _call: Call | None = None
    _turn: asyncio.Future[None] | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the connection."""
        return self.block.settings

    @property
    def store(self) -> Store:
        """What the connection has named."""
        return self.block.store

    # Asking the engine.

    async def _replied(self, words: dict[str, Any]) -> Reply:
        """Returns the engine's reply to a request, once it is the user's turn."""
        own, name = self.settings.statement_timeout, self.user.name
        seconds = min(own, self.timeout) if own else self.timeout
        late = Refusal("57014", "canceling statement due to statement timeout")
        alarm = asyncio.get_running_loop().call_later(seconds, self.cancel, late)
        turns = self.shares.statements
        self._turn = turn = turns.ask(name)
        try:
            await self._come_to(turn)
            self._call = await self.engine.begin(words, lambda size: self.shares.room.take(name, size))
            return await self.engine.finish(self._call)
        finally:
            alarm.cancel()
            self._call = self._turn = None
            turns.leave(name, turn)

    async def _come_to(self, turn: asyncio.Future[None]) -> None:
        """Waits for a turn; a statement that is cancelled before it begins ends at the next tick, as all others do."""
        try:
            await turn
        except Refusal:
            now, tick = asyncio.get_running_loop().time(), self.engine.settings.tick
            await asyncio.sleep((now // tick + 1) * tick - now)
            raise

    def cancel(self, reason: Refusal) -> None:
        """Cancels the statement that runs, or waits for its turn; what waits was not charged."""
        if self._call is not None:
            self._call.cancel(reason)
        elif self._turn is not None and not self._turn.done():
            self._turn.set_exception(reason)

    async def describe_text(self, statement: Statement, given: tuple[int, ...]) -> Described:
        """Returns the types of a statement for the engine; nothing is charged."""
        name, analyst, values = self.user.name, self.user.analyst, dict(self.settings.values)
        key = key_of(statement.text, given, analyst, values, self.engine.restarts)
        described = self.shares.kept.find(name, key, Described)
        if described is None:
            described = described_of(await self._replied(describe_words(statement.text, given, analyst, values)))
            self.shares.kept.keep(name, key, described)
        return described

    async def ask(
        self, statement: Statement, parameters: tuple[object, ...] = (), *, is_explained: bool = False
    ) -> Answered:
        """Returns the answer to a statement, which may be charged for, from the engine unless it always is the same."""
        begun = asyncio.get_running_loop().time()
        name, analyst, values = self.user.name, self.user.analyst, dict(self.settings.values)
        key = key_of(statement.text, parameters, analyst, values, self.engine.restarts)
        answered = None if is_explained else self.shares.kept.find(name, key, Answered)
        if answered is None:
            asked = Asked(text=statement.text, parameters=parameters, analyst=analyst, settings=values)
            answered = await self._asked(asked, is_explained=is_explained)
            if answered.is_lasting:
                self.shares.kept.keep(name, key, answered)
        self.heard(answered, asyncio.get_running_loop().time() - begun)
        return answered

    async def _asked(self, asked: Asked, *, is_explained: bool) -> Answered:
        words, table = await self._replied(ask_words(asked, is_explained=is_explained))
        is_short = len(table) <= SHORT_TABLE
        reply = words, table
        return answered_of(reply) if is_short else await self.shares.aside(self.user.name, answered_of, reply)

    # What a statement takes and gives.

    async def describe(self, prepared: Prepared) -> Described:
        """Returns the types of a prepared statement, found out once for each form of its columns.

        Raises:
            Refusal: dpquery.intervals was set after its client was told the columns, and they are others now.
        """
        known, has_intervals = prepared.described, self.settings.has_intervals
        if known is None or prepared.has_intervals is not has_intervals:
            found = await self._describe(prepared.command, prepared.oids)
            if known is not None and prepared.is_told:
                _check_same(known.fields, found.fields)
            prepared.described, prepared.has_intervals = found, has_intervals
            return found
        return known

    async def _describe(self, command: nodes.Command | None, given: tuple[int, ...]) -> Described:
        match command:
            case nodes.Ask(statement):
                return await self.describe_text(statement, given)
            case nodes.Explain(statement):
                return Described(parameters=(await self.describe_text(statement, given)).parameters, fields=PRICE)
            case nodes.Declare(statement=statement) | nodes.Copy(statement=statement):
                return Described(parameters=(await self.describe_text(statement, given)).parameters, fields=())
            case nodes.Show(name):
                return Described(parameters=(), fields=await self._shown_fields(name))
            case nodes.ShowAll():
                return Described(parameters=(), fields=_ALL_SETTINGS)
            case nodes.Fetch(name, is_move=False):
                return Described(parameters=(), fields=await self.fields_of(self.store.cursor(name)))
            case nodes.Invoke(name):
                return Described(parameters=(), fields=(await self.describe(self.store.statement(name))).fields)
            case _:
                return Described(parameters=(), fields=())

    async def fields_of(self, portal: Portal) -> tuple[Field, ...]:
        """Returns the columns of a portal, or none."""
        if portal.outcome is not None:
            return () if portal.outcome.copy is not None else portal.outcome.fields or ()
        if portal.described is None:
            portal.described = await self._describe(portal.command, portal.oids)
            portal.has_intervals = self.settings.has_intervals
        return portal.described.fields

    # Running.

    def check_usable(self, command: nodes.Command | None) -> None:
        """Raises Refusal for what a failed transaction does not take."""
        if self.block.status == "E" and command is not None and not isinstance(command, nodes.Commit | nodes.Rollback):
            raise Refusal("25P02", "current transaction is aborted, commands ignored until end of transaction block")

    async def run(self, command: nodes.Command, parameters: tuple[object, ...] = ()) -> Outcome:
        """Runs a statement."""
        self.check_usable(command)
        match command:
            case nodes.Ask(statement):
                return _rows(await self.ask(statement, parameters), "SELECT")
            case nodes.Explain(statement):
                answered = await self.ask(statement, parameters, is_explained=True)
                lines = answered.table.select([0]).rename_columns(["0"])
                return Outcome(tag="EXPLAIN", fields=PRICE, table=lines, notices=_notices(answered))
            case nodes.Copy(statement, form):
                answered = await self.ask(statement, parameters)
                return Outcome(
                    tag="COPY",
                    fields=answered.fields,
                    table=answered.table,
                    is_counted=True,
                    copy=form,
                    notices=_notices(answered),
                )
            case nodes.Declare():
                return await self._declare(command, parameters)
            case nodes.Fetch():
                return await self._fetch(command)
            case nodes.Invoke():
                return await self._invoke(command)
            case nodes.Show(name):
                return await self._show(name)
            case _:
                return self._run_here(command)

    def _run_here(self, command: nodes.Command) -> Outcome:
        match command:
            case nodes.Begin() | nodes.Commit() | nodes.Rollback() | nodes.Savepoint() | nodes.Release():
                return self.block.run(command)
            case nodes.SetSetting():
                return self._set(command)
            case nodes.SetRole():
                return self._set_role(command)
            case nodes.ShowAll():
                return _table("SHOW", _ALL_SETTINGS, [(n, v, "") for n, v in sorted(self.settings.values.items())])
            case nodes.Discard(what):
                return self._discard(what)
            case nodes.Prepare(name, given, statement):
                return self._prepare(name, given, statement)
            case nodes.Deallocate(name):
                self.store.forget_statement(name)
                return Outcome(tag="DEALLOCATE ALL" if name is None else "DEALLOCATE")
            case nodes.CloseCursor(name):
                self.store.close_cursor(name)
                return Outcome(tag="CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR")
            case nodes.Nothing(tag):
                return Outcome(tag=tag)
            case (
                nodes.Ask() | nodes.Explain() | nodes.Copy() | nodes.Declare() | nodes.Fetch() | nodes.Invoke()
            ) | nodes.Show():
                raise AssertionError("run elsewhere")
            case _:
                assert_never(command)

    # Settings.

    def _set(self, command: nodes.SetSetting) -> Outcome:
        tag = "RESET" if command.is_reset else "SET"
        if command.name == "all" and command.is_reset:
            self.block.tell_changes(self.settings.reset_all)
            return Outcome(tag=tag)
        if command.is_local and self.block.status == "I" and not self.block.in_block:
            words = ("25P01", "SET LOCAL can only be used in transaction blocks")
            return Outcome(tag=tag, notices=(words,))
        value = self.settings.set(command.name, command.value, is_local=command.is_local)
        self.block.report(command.name, value)
        return Outcome(tag=tag)

    def _set_role(self, command: nodes.SetRole) -> Outcome:
        user = self.login if command.name is None else self._other(command.name)
        self.user = user
        self.settings.values["role"] = "none" if command.name is None else user.name
        return Outcome(tag="RESET" if command.is_reset else "SET")

    def _other(self, name: str) -> User:
        """A delegate asks for another; who is none learns not even whether the other exists."""
        other = self.find_user(name) if self.login.may_act_for(name) else None
        if other is None:
            raise Refusal("42501", f'permission denied to set role "{name[:63]}"')
        return other

    async def _shown_fields(self, name: str) -> tuple[Field, ...]:
        return (Field(name=name, oid=oids.TEXT),)

    async def _show(self, name: str) -> Outcome:
        fields = (Field(name=name, oid=oids.TEXT),)
        if name != "dpquery.remaining":
            return _table("SHOW", fields, [(self.settings.show(name),)])
        answered = await self.ask(REMAINING)
        rows = zip(*(column.to_pylist() for column in answered.table.columns), strict=True)
        return _table("SHOW", fields, [(", ".join(f"{currency} {left:.12g}" for currency, left in rows),)])

    def _discard(self, what: str) -> Outcome:
        if what == "all":
            if self.block.status != "I":
                raise Refusal("25001", "DISCARD ALL cannot run inside a transaction block")
            self.store.statements.clear()
            self.store.portals.clear()
            self.user = self.login
            self.block.tell_changes(self.settings.reset_all)
            self.settings.values["role"] = "none"
        elif what == "plans":
            for prepared in self.store.statements.values():
                prepared.described = None
        return Outcome(tag=f"DISCARD {what.upper()}".replace("TEMPORARY", "TEMP"))

    # Cursors, prepared statements.

    async def _declare(self, command: nodes.Declare, parameters: tuple[object, ...]) -> Outcome:
        if not command.is_held:
            self.block.demand("DECLARE CURSOR")
        self.store.check_portal(command.name)
        answered = await self.ask(command.statement, parameters)
        self.store.portals[command.name] = Portal(
            command=nodes.Ask(command.statement),
            result_formats=(1,) if command.is_binary else (),
            outcome=_rows(answered, "SELECT"),
            is_cursor=True,
            is_held=command.is_held,
            can_scroll=command.can_scroll,
        )
        return Outcome(tag="DECLARE CURSOR", notices=_notices(answered))

    async def _fetch(self, command: nodes.Fetch) -> Outcome:
        portal = self.store.cursor(command.name)
        outcome = await self.outcome_of(portal)
        if outcome.table is None or outcome.fields is None or outcome.copy is not None:
            raise Refusal("24000", "the portal has no rows to fetch")
        moved = motion(portal.place, outcome.rows, command.direction, command.count)
        if not portal.can_scroll and not _is_forward(portal.place, moved):
            raise Refusal("55000", "cursor can only scan forward", hint="Declare it with SCROLL option.")
        portal.place = moved.place
        if command.is_move:
            return Outcome(tag=f"MOVE {moved.count}")
        return Outcome(tag="FETCH", fields=outcome.fields, table=moved.rows(outcome.table), is_counted=True)

    def _prepare(self, name: str, given: tuple[int, ...], statement: Statement) -> Outcome:
        inner = read(statement)
        if not isinstance(inner, nodes.Ask):
            raise Refusal("42601", "PREPARE takes a query")
        if not name:
            raise Refusal("42602", "a prepared statement needs a name")
        self.store.add_statement(name, Prepared.of(statement, inner, given))
        return Outcome(tag="PREPARE")

    async def _invoke(self, command: nodes.Invoke) -> Outcome:
        prepared = self.store.statement(command.name)
        if prepared.command is None or isinstance(prepared.command, nodes.Invoke):
            raise Refusal("26000", "the prepared statement cannot be executed")
        described = await self.describe(prepared)
        if len(described.parameters) != len(command.arguments):
            raise Refusal("42601", "wrong number of parameters for the prepared statement")
        values = zip(command.arguments, described.parameters, strict=True)
        decoded = tuple(decode(None if text is None else text.encode(), oid, False) for text, oid in values)
        return await self.run(prepared.command, decoded)

    async def outcome_of(self, portal: Portal) -> Outcome:
        """Returns a portal's result; runs it once, and never again, so that it is charged once."""
        if portal.outcome is None:
            if portal.is_complete or portal.command is None:
                raise Refusal("55000", "the portal cannot be run again")
            if portal.described is not None and portal.has_intervals is not self.settings.has_intervals:
                _check_same(portal.described.fields, (await self._describe(portal.command, portal.oids)).fields)
            portal.is_complete = True
            outcome = await self.run(portal.command, portal.parameters)
            if portal.described is not None and outcome.copy is None:
                _check_same(portal.described.fields, outcome.fields or ())
            portal.outcome = outcome
        return portal.outcome


_ALL_SETTINGS = tuple(Field(name=name, oid=oids.TEXT) for name in ("name", "setting", "description"))


def _is_forward(place: int, moved: Motion) -> bool:
    return moved.place >= place and moved.step > 0 and (moved.count == 0 or moved.first > place)


def _rows(answered: Answered, tag: str) -> Outcome:
    if not answered.fields:
        return Outcome(tag=f"{tag} 0", notices=_notices(answered))
    return Outcome(tag=tag, fields=answered.fields, table=answered.table, is_counted=True, notices=_notices(answered))


def _notices(answered: Answered) -> tuple[tuple[str, str], ...]:
    return tuple(("00000", words) for words in answered.notices)


def _table(tag: str, fields: tuple[Field, ...], rows: list[tuple[str, ...]]) -> Outcome:
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(fields))]
    return Outcome(tag=tag, fields=fields, table=pa.table(columns, names=[str(i) for i in range(len(fields))]))


def _check_same(told: tuple[Field, ...], made: tuple[Field, ...]) -> None:
    """The types that a client was told stand: it reads the rows by them."""
    if [field.oid for field in told] != [field.oid for field in made]:
        raise Refusal("0A000", "cached plan must not change result type", hint="Prepare the statement again.")
