"""Statements of one connection, run: those of the connection here, the others by the engine, each charged by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpquery.frontends.postgres.commands import nodes
from dpquery.frontends.postgres.commands.commands import read
from dpquery.frontends.postgres.commands.gucs import Settings
from dpquery.frontends.postgres.commands.portals import NamedStatements, Outcome, Portal, PreparedStatement
from dpquery.frontends.postgres.commands.statements import Statement
from dpquery.frontends.postgres.commands.transactions import Block
from dpquery.frontends.postgres.login.shares import Shares, key_of
from dpquery.frontends.postgres.login.users import User
from dpquery.frontends.postgres.process import serialization
from dpquery.frontends.postgres.process.pool import Pool
from dpquery.frontends.postgres.process.supervisor import LONG, Reply, RunningRequest
from dpquery.frontends.postgres.wire.answers import Described, Field, Refusal, StatementAnswer

MAX_WAIT = 600.0
SHORT_TABLE = 1 << 15
"""Bytes of a table that is read at once; longer ones are read in a thread."""


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

    engine: Pool
    block: Block
    user: User
    login: User
    find_user: Callable[[str], User | None]
    heard: Callable[[StatementAnswer, float], None]
    shares: Shares
    timeout: float = MAX_WAIT
    _call: RunningRequest | None = None
    _is_long: bool = False
    _turn: asyncio.Future[None] | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the connection."""
        return self.block.settings

    @property
    def store(self) -> NamedStatements:
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
            is_long = self._is_long and words["what"] == "answer"
            self._call = self.engine.begin(words, lambda size: self.shares.room.take(name, size), is_long=is_long)
            return await self.engine.finish(self._call)
        finally:
            if self._call is not None and words["what"] == "answer":
                self._is_long = 0 < self._call.begun < asyncio.get_running_loop().time() - LONG
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
        key = key_of(statement.text, given, analyst, values, self.engine.epoch)
        described = self.shares.kept.find(name, key, Described)
        if described is None:
            words = {"what": "describe", "text": statement.text, "oids": given, "analyst": analyst, "settings": values}
            described = serialization.to_described((await self._replied(words))[0])
            self.shares.kept.keep(name, key, described)
        return described

    async def ask(
        self, statement: Statement, parameters: tuple[object, ...] = (), *, is_explained: bool = False
    ) -> StatementAnswer:
        """Returns the answer to a statement, which may be charged for, from the engine unless it always is the same."""
        begun = asyncio.get_running_loop().time()
        name, analyst, values = self.user.name, self.user.analyst, dict(self.settings.values)
        key = key_of(statement.text, parameters, analyst, values, self.engine.epoch)
        answered = None if is_explained else self.shares.kept.find(name, key, StatementAnswer)
        if answered is None:
            what, written = (
                "explain" if is_explained else "answer",
                [serialization.from_value(value) for value in parameters],
            )
            words = {
                "what": what,
                "text": statement.text,
                "parameters": written,
                "analyst": analyst,
                "settings": values,
            }
            reply = await self._replied(words)
            is_short = len(reply[1]) <= SHORT_TABLE
            read = serialization.to_answered
            answered = read(reply) if is_short else await self.shares.aside(self.user.name, read, reply)
            if answered.is_lasting:
                self.shares.kept.keep(name, key, answered)
        self.heard(answered, asyncio.get_running_loop().time() - begun)
        return answered

    # What a statement takes and gives.

    async def describe(self, prepared: PreparedStatement) -> Described:
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
        return Described(parameters=(), fields=()) if command is None else await command.describe(self, given)

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
        ends = ("COMMIT", "ROLLBACK", "ROLLBACK TO SAVEPOINT")
        is_end = command is None or (isinstance(command, nodes.Transaction) and command.act in ends)
        if self.block.status == "E" and not is_end:
            raise Refusal("25P02", "current transaction is aborted, commands ignored until end of transaction block")

    async def run(self, command: nodes.Command, parameters: tuple[object, ...] = ()) -> Outcome:
        """Runs a statement."""
        self.check_usable(command)
        return await command.run(self, parameters)

    def act_as(self, name: str | None) -> None:
        """Asks in another's name, which a delegate may; who is none learns not even whether the other exists.

        Raises:
            Refusal: There is no such user, or the login may not act for it.
        """
        other = self.login
        if name is not None:
            found = self.find_user(name) if self.login.may_act_for(name) else None
            if found is None:
                raise Refusal("42501", f'permission denied to set role "{name[:63]}"')
            other = found
        self.user = other
        self.settings.values["role"] = "none" if name is None else other.name

    def discard(self, what: str) -> None:
        """Forgets the types of prepared statements ("plans"), or all that the connection holds ("all")."""
        if what == "plans":
            for prepared in self.store.statements.values():
                prepared.described = None
        if what != "all":
            return
        if self.block.status != "I":
            raise Refusal("25001", "DISCARD ALL cannot run inside a transaction block")
        self.store.statements.clear()
        self.store.portals.clear()
        self.user = self.login
        self.block.tell_changes(self.settings.reset_all)
        self.settings.values["role"] = "none"

    # Prepared statements and portals.

    def keep(self, name: str, statement: Statement, command: nodes.Command | None, given: tuple[int, ...]) -> None:
        """Keeps a prepared statement, without its tokens, which take more room than its text."""
        has_parameters = bool(given) or any(token.kind == "parameter" for token in statement.tokens)
        if isinstance(command, nodes.Ask):
            command = nodes.Ask(Statement(statement.text, (), statement.start))
        self.store.add_statement(name, PreparedStatement(statement.text, command, given, has_parameters))

    def prepare(self, name: str, given: tuple[int, ...], statement: Statement) -> None:
        """Keeps a query under a name. Raises Refusal for statements of the connection."""
        inner = read(statement)
        if not isinstance(inner, nodes.Ask):
            raise Refusal("42601", "PREPARE takes a query")
        if not name:
            raise Refusal("42602", "a prepared statement needs a name")
        self.keep(name, statement, inner, given)

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


def _check_same(told: tuple[Field, ...], made: tuple[Field, ...]) -> None:
    """The types that a client was told stand: it reads the rows by them."""
    if [field.oid for field in told] != [field.oid for field in made]:
        raise Refusal("0A000", "cached plan must not change result type", hint="Prepare the statement again.")
