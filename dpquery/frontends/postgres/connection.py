"""One client after its login: messages in, answers out, in the order and with the states that the protocol demands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpquery.frontends.postgres.commands.commands import read
from dpquery.frontends.postgres.commands.gucs import REPORTED
from dpquery.frontends.postgres.commands.portals import Outcome, Portal
from dpquery.frontends.postgres.commands.statements import Statement, split
from dpquery.frontends.postgres.execution import Executor
from dpquery.frontends.postgres.process.log import ConnectionLog
from dpquery.frontends.postgres.wire import messages, wire
from dpquery.frontends.postgres.wire.answers import Field, Refusal
from dpquery.frontends.postgres.wire.channel import Channel, Closed
from dpquery.frontends.postgres.wire.codecs import decode
from dpquery.frontends.postgres.wire.rows import copy_rows, data_rows

LITTLE = 16_384
"""Bytes that are read or written at once."""
SHORT_TEXT = 2_048
"""Characters of a statement that is taken apart at once."""
COLUMN = 64
"""Bytes of a result that cost as much to write as one column does."""


@dataclass(slots=True)
class ClientConnection:
    """A client that is logged in.

    Attributes:
        idle: Seconds that it may be silent.
        patience: Seconds that it may leave what was sent unread.
    """

    channel: Channel
    executor: Executor
    log: ConnectionLog
    idle: float
    patience: float
    is_ending: bool = False
    is_busy: bool = False
    _is_skipping: bool = False

    async def serve(self) -> None:
        """Answers until the client ends it, is silent for too long, or the server ends."""
        self._ready()
        while not self.is_ending:
            try:
                async with asyncio.timeout(self.idle):
                    message = await self.channel.message()
            except TimeoutError:
                self._fatal(Refusal("57P05", "terminating connection due to idle-session timeout"))
                return
            except wire.ProtocolError as error:
                self._fatal(Refusal("08P01", str(error)))
                return
            if message == wire.TERMINATE:
                return
            self.is_busy = True
            try:
                await self._take(message)
            finally:
                self.is_busy = False
            await self.channel.drain(self.patience)
        self._fatal(Refusal("57P01", "terminating connection due to administrator command"))

    def end(self) -> None:
        """Ends the connection, after the statement that runs."""
        self.is_ending = True
        if not self.is_busy:
            self._fatal(Refusal("57P01", "terminating connection due to administrator command"))

    def cancel(self) -> None:
        """Cancels the statement that runs, if one does."""
        self.executor.cancel(Refusal("57014", "canceling statement due to user request"))

    def report(self, name: str, value: str) -> None:
        """Tells the client the value of a setting that drivers watch."""
        if name in REPORTED:
            self.channel.write(messages.parameter_status(REPORTED[name], value))

    def _fatal(self, refusal: Refusal) -> None:
        self.channel.write(messages.error(refusal, "FATAL"))
        self.channel.close()

    def _ready(self) -> None:
        self.channel.write(messages.ready(self.executor.block.status))

    async def _take(self, message: wire.Message) -> None:
        if message == wire.SYNC:
            self._is_skipping = False
            self.executor.block.end_implicit(is_committed=True)
            self._ready()
            return
        if self._is_skipping:
            return
        if isinstance(message, wire.Query):
            await self._query(message.text)
            return
        try:
            await self._extended(message)
        except Closed:
            raise
        except Exception as error:
            self._is_skipping = True
            self._failed(_refusal(error, self.log), None)

    # Simple queries.

    async def _query(self, text: str) -> None:
        executor = self.executor
        executor.store.statements.pop("", None)
        executor.store.portals.pop("", None)
        statement: Statement | None = None
        try:
            statements = await self._split(text)
            if not statements:
                self.channel.write(messages.EMPTY_QUERY)
            executor.block.in_block = len(statements) > 1
            for statement in statements:
                if self.channel.is_closed:
                    raise Closed  # an answer that is not read is not charged
                command = read(statement)
                outcome = await executor.run(command)
                await self._send(outcome)
                await asyncio.sleep(0)  # what needed no engine waited for nothing: others have their turn
        except Closed:
            raise
        except Exception as error:
            self._failed(_refusal(error, self.log), statement)
            self.executor.block.end_implicit(is_committed=False)
        else:
            self.executor.block.end_implicit(is_committed=True)
        finally:
            executor.block.in_block = False
        self._ready()

    async def _send(self, outcome: Outcome) -> None:
        """Sends all of a result, in parts that wait for the client to read."""
        self._tell(outcome)
        if outcome.fields is not None and outcome.copy is None:
            self.channel.write(messages.row_description(outcome.fields, [0] * len(outcome.fields)))
        await self._send_rows(outcome, (0,) * len(outcome.fields or ()))
        self.channel.write(messages.command_complete(_tag(outcome, outcome.rows)))

    async def _send_rows(self, outcome: Outcome, formats: tuple[int, ...]) -> None:
        if outcome.table is None or outcome.fields is None:
            return
        if outcome.copy is None:
            parts = data_rows(outcome.table, outcome.fields, formats)
        else:
            is_binary = outcome.copy.kind == "binary"
            self.channel.write(messages.copy_out([int(is_binary)] * len(outcome.fields), is_binary))
            parts = copy_rows(outcome.table, outcome.fields, outcome.copy)
        size = outcome.table.nbytes + COLUMN * len(outcome.fields)
        while (part := await self._aside(size, next, parts, None)) is not None:
            self.channel.write(part)
            await self.channel.drain(self.patience)
        if outcome.copy is not None:
            self.channel.write(messages.COPY_DONE)

    async def _split(self, text: str) -> list[Statement]:
        found: list[Statement] = await self._aside(LITTLE * len(text) // SHORT_TEXT, split, text)
        return found

    async def _aside(self, size: int, work: Callable[..., Any], *given: object) -> Any:
        """Does work over so many bytes: a little at once, more in a thread, so that other users do not wait."""
        return (
            work(*given) if size <= LITTLE else await self.executor.shares.aside(self.executor.user.name, work, *given)
        )

    def _tell(self, outcome: Outcome) -> None:
        for sqlstate, words in outcome.notices:
            self.channel.write(messages.notice(words, sqlstate, "NOTICE" if sqlstate == "00000" else "WARNING"))

    def _failed(self, refusal: Refusal, statement: Statement | None) -> None:
        if self.executor.block.status == "T":
            self.executor.block.status = "E"
        if refusal.position is not None and statement is not None:
            refusal = _moved(refusal, statement.start)
        self.log.refused(self.executor.user, refusal)
        self.channel.write(messages.error(refusal))

    # The extended protocol.

    async def _extended(self, message: wire.Message) -> None:
        match message:
            case wire.Parse():
                await self._parse(message)
            case wire.Bind():
                await self._bind(message)
            case wire.Describe(is_portal, name):
                await (self._describe_portal(name) if is_portal else self._describe_statement(name))
            case wire.Execute(name, most_rows):
                await self._execute(name, most_rows)
            case wire.Close(is_portal, name):
                store = self.executor.store
                (store.portals if is_portal else store.statements).pop(name, None)
                self.channel.write(messages.CLOSE_COMPLETE)
            case wire.FLUSH:
                pass
            case wire.Bare(b"c" | b"d" | b"f"):
                pass  # of a COPY that has failed or never was: PostgreSQL ignores them too
            case wire.Bare(b"F"):
                raise Refusal("0A000", "function calls are not supported")
            case _:
                raise Refusal("08P01", "the message is not expected here")

    async def _parse(self, message: wire.Parse) -> None:
        statements = await self._split(message.text)
        if len(statements) > 1:
            raise Refusal("42601", "cannot insert multiple commands into a prepared statement")
        statement = statements[0] if statements else Statement("", ())
        command = read(statement) if statements else None
        self.executor.check_usable(command)
        if not message.name:
            self.executor.store.statements.pop("", None)
        self.executor.keep(message.name, statement, command, message.oids)
        self.channel.write(messages.PARSE_COMPLETE)

    async def _bind(self, message: wire.Bind) -> None:
        store = self.executor.store
        prepared = store.statement(message.statement)
        self.executor.check_usable(prepared.command)
        if message.values or prepared.has_parameters or prepared.described is not None:
            await self.executor.describe(prepared)
        known = prepared.described.parameters if prepared.described is not None else ()
        if len(known) != len(message.values):
            raise Refusal("08P01", "bind message supplies another number of parameters than the statement requires")
        formats = message.formats if len(message.formats) == len(known) else (message.formats or (0,)) * len(known)
        size = sum(len(value or b"") for value in message.values)
        parameters = await self._aside(size + 16 * len(known), _decoded, message.values, known, formats)
        if not message.portal:
            store.portals.pop("", None)
        store.check_portal(message.portal)
        portal = Portal(prepared.command, parameters, message.result_formats, prepared.described)
        portal.has_intervals = prepared.has_intervals
        if portal.described is not None and portal.described.fields:
            portal.formats(len(portal.described.fields))
        store.portals[message.portal] = portal
        self.channel.write(messages.BIND_COMPLETE)

    async def _describe_statement(self, name: str) -> None:
        prepared = self.executor.store.statement(name)
        prepared.is_told = False  # it asks again, regardless of earlier answers
        described = await self.executor.describe(prepared)
        prepared.is_told = True
        self.channel.write(messages.parameter_description(described.parameters))
        self._row_description(described.fields, (0,) * len(described.fields))

    async def _describe_portal(self, name: str) -> None:
        portal = self.executor.store.portal(name)
        fields = await self.executor.fields_of(portal)
        self._row_description(fields, portal.formats(len(fields)) if fields else ())

    def _row_description(self, fields: tuple[Field, ...], formats: tuple[int, ...]) -> None:
        self.channel.write(messages.row_description(fields, formats) if fields else messages.NO_DATA)

    async def _execute(self, name: str, most_rows: int) -> None:
        portal = self.executor.store.portal(name)
        if portal.command is None:
            self.channel.write(messages.EMPTY_QUERY)
            return
        self.executor.check_usable(portal.command)
        is_first = portal.outcome is None
        outcome = await self.executor.outcome_of(portal)
        if is_first:
            self._tell(outcome)
        if outcome.fields is None or outcome.table is None:
            if not is_first:
                raise Refusal("55000", f'portal "{name[:63]}" cannot be run')
            self.channel.write(messages.command_complete(outcome.tag))
            return
        start = min(portal.place, outcome.rows)
        left = outcome.rows - start
        count = min(most_rows, left) if most_rows and outcome.copy is None else left
        part = replace(outcome, table=outcome.table.slice(start, count), notices=())
        is_all = not most_rows or count < most_rows
        portal.place = outcome.rows + 1 if is_all else start + count
        await self._send_rows(part, portal.formats(len(outcome.fields)) if outcome.copy is None else ())
        self.channel.write(messages.command_complete(_tag(part, count)) if is_all else messages.PORTAL_SUSPENDED)


def _tag(outcome: Outcome, rows: int) -> str:
    """Returns the tag of what was sent: it counts released rows."""
    return f"{outcome.tag} {rows}" if outcome.is_counted else outcome.tag


def _decoded(values: tuple[bytes | None, ...], known: tuple[int, ...], formats: tuple[int, ...]) -> tuple[object, ...]:
    return tuple(decode(value, oid, bool(code)) for value, oid, code in zip(values, known, formats, strict=True))


def _moved(refusal: Refusal, by: int) -> Refusal:
    position = None if refusal.position is None else refusal.position + by
    return Refusal(refusal.sqlstate, refusal.message, refusal.detail, refusal.hint, position)


def _refusal(error: Exception, log: ConnectionLog) -> Refusal:
    """Returns what the client is told; of unexpected errors, nothing."""
    if isinstance(error, Refusal):
        return error
    log.defect(error)
    return Refusal("XX000", "the server has failed; a charge that was made is kept")
