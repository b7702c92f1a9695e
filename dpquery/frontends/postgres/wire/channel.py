"""One client's socket: bytes that come are kept within a limit, bytes that go wait for a client that reads."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable
from typing import TypeVar

from dpquery.frontends.postgres.wire.wire import MOST_MESSAGE, First, Inbox, Message

MOST_KEPT = 2 * MOST_MESSAGE
"""Bytes that are kept of what a client sends ahead."""
MOST_KEPT_OF_STRANGERS = 20_000
"""The same before its login."""
MOST_UNSENT = 1 << 20
"""Bytes that may wait for the client before the server stops making more."""
AT_ONCE = 1 << 16
"""Bytes that are collected before they are sent."""

Read = TypeVar("Read")


class Closed(Exception):
    """The client is gone, or too slow."""


class Channel(asyncio.Protocol):
    """A connection, as asyncio drives it.

    Args:
        accepted: Called once it is open.
        spoken: Called when its first bytes have come.
        closed: Called when it has ended.
    """

    def __init__(
        self,
        accepted: Callable[[Channel], None],
        spoken: Callable[[Channel], None],
        closed: Callable[[Channel], None],
    ) -> None:
        self._accepted, self._spoken, self._closed_by = accepted, spoken, closed
        self.has_spoken = False
        self.since = 0.0
        self._inbox = Inbox()
        self._transport: asyncio.Transport | None = None
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_paused = False
        self.is_known = False
        self._unsent = bytearray()
        self.is_tls = False
        self.is_closed = False
        self.on_lost: Callable[[], None] | None = None
        self.address, self.is_local = "", False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.since = asyncio.get_running_loop().time()
        transport.set_write_buffer_limits(high=MOST_UNSENT)
        peer, own = (transport.get_extra_info(name) or ("",) for name in ("peername", "sockname"))
        self.address = str(peer[0])
        self.is_local = _is_loopback(self.address) and _is_loopback(str(own[0]))
        self._accepted(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._inbox.feed(data)
        self._arrived.set()
        if not self.has_spoken:
            self.has_spoken = True
            self._spoken(self)
        most = MOST_KEPT if self.is_known else MOST_KEPT_OF_STRANGERS
        if len(self._inbox) > most and self._transport is not None and not self._is_paused:
            self._transport.pause_reading()
            self._is_paused = True

    def eof_received(self) -> bool:
        """The client sends no more: the connection ends."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self.is_closed = True
        self._arrived.set()
        self._writable.set()
        self._closed_by(self)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._writable.set()

    # What the server calls.

    async def first(self) -> First:
        """Waits for the packet that begins a connection."""
        return await self._read(self._inbox.first)

    async def message(self, most: int = MOST_MESSAGE) -> Message:
        """Waits for the next message of at most so many bytes. Raises ProtocolError or Closed."""
        return await self._read(lambda: self._inbox.message(most))

    async def _read(self, read: Callable[[], Read | None]) -> Read:
        while (found := read()) is None:
            self._flush()
            if self.is_closed:
                raise Closed
            if self._is_paused and self._transport is not None:
                self._is_paused = False
                self._transport.resume_reading()
            self._arrived.clear()
            await self._arrived.wait()
        return found

    @property
    def has_unread(self) -> bool:
        """Whether there are bytes that were not read yet."""
        return len(self._inbox) > 0

    async def start_tls(self, context: ssl.SSLContext, seconds: float) -> None:
        """Answers S and encrypts the connection from the next byte on.

        What stood in the inbox before was sent in the clear by anybody: the caller has made sure that it is empty. No
        byte is read between, so what is in it afterwards came encrypted.
        """
        assert self._transport is not None
        self._transport.pause_reading()
        self.write(b"S")
        self._flush()
        loop = asyncio.get_running_loop()
        try:
            changed = await loop.start_tls(
                self._transport, self, context, server_side=True, ssl_handshake_timeout=max(seconds, 0.1)
            )
        except (TimeoutError, OSError, ssl.SSLError):
            raise Closed from None
        if changed is None:
            raise Closed
        self._transport, self.is_tls = changed, True
        changed.set_write_buffer_limits(high=MOST_UNSENT)

    @property
    def certificate_name(self) -> str | None:
        """The common name in the client's certificate, which the owner's authority has signed; or None."""
        found = self._transport.get_extra_info("peercert") if self._transport is not None and self.is_tls else None
        names = [value for part in (found or {}).get("subject", ()) for key, value in part if key == "commonName"]
        return names[0] if len(names) == 1 else None

    def write(self, data: bytes) -> None:
        """Sends bytes, at the latest when the next message is waited for: a client gets one packet, not many."""
        self._unsent += data
        if len(self._unsent) > AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None and not self.is_closed:
            self._transport.write(bytes(self._unsent))
        self._unsent.clear()

    async def drain(self, seconds: float) -> None:
        """Waits until the client has read most of what was sent. Raises Closed where it does not."""
        self._flush()
        if not self._writable.is_set():
            try:
                await asyncio.wait_for(self._writable.wait(), seconds)
            except TimeoutError:
                self.abort()
                raise Closed from None
        if self.is_closed:
            raise Closed

    def close(self) -> None:
        """Ends the connection after what was sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
