"""The engine's process: holds the data, answers what the listener asks of it, several statements at once.

It reads frames from one socket that the listener holds the other end of, and ends when that is closed.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from dpquery.cancelling import Cancellation, cancellable
from dpquery.errors import DPQueryError
from dpquery.frontends.postgres.process import serialization
from dpquery.frontends.postgres.wire.answers import Answerer, Refusal, StatementRequest, failed
from dpquery.frontends.postgres.wire.columns import stored
from dpquery.kernel.failures import OPERATOR, cause_of

SWITCH = 0.001
"""Seconds after which a thread that computes lets another one run; shorter than usual, so that short statements are."""
Factory = Callable[[dict[str, Any]], AbstractContextManager[tuple[Answerer, dict[str, Any]]]]
"""Opens an answerer from arguments that are JSON, and says what there is to say of it."""


def cancelled() -> Refusal:
    """Returns the refusal of a statement that its client has cancelled."""
    return Refusal("57014", "canceling statement due to user request")


class Worker:
    """Answers the requests that come through a socket."""

    def __init__(self, channel: socket.socket, answerer: Answerer, *, limits: dict[str, int]) -> None:
        self._channel, self._answerer = channel, answerer
        self._most_rows, self._most_bytes = limits["most_rows"], limits["most_bytes"]
        self._pool = ThreadPoolExecutor(limits["threads"], thread_name_prefix="statement")
        self._sending = threading.Lock()
        self._guard = threading.Lock()
        self._running: dict[int, Cancellation] = {}

    def serve(self) -> None:
        """Answers until the listener closes the socket."""
        while (received := receive(self._channel)) is not None:
            number, words = received
            if words["what"] == "cancel":
                with self._guard:
                    running = self._running.get(number)
                if running is not None:
                    running.cancel()
                continue
            cancellation = Cancellation()
            with self._guard:
                self._running[number] = cancellation
            self._pool.submit(self._answer, number, words, cancellation)
        with self._guard:
            for running in self._running.values():
                running.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _answer(self, number: int, words: dict[str, Any], cancellation: Cancellation) -> None:
        try:
            reply, table = self._reply(words, cancellation)
        except Refusal as refusal:
            reply, table = serialization.of_refusal(cancelled() if cancellation.is_cancelled else refusal), b""
        except BaseException as error:
            _note(error)
            reply, table = serialization.of_refusal(cancelled() if cancellation.is_cancelled else failed()), b""
        with self._guard:
            self._running.pop(number, None)
        with self._sending:
            send(self._channel, number, reply, table)

    def _reply(self, words: dict[str, Any], cancellation: Cancellation) -> tuple[dict[str, Any], Any]:
        if cancellation.is_cancelled:
            raise cancelled()
        with cancellable(cancellation):
            if words["what"] == "describe":
                oids = tuple(words["oids"])
                described = self._answerer.describe(words["text"], oids, words["analyst"], words["settings"])
                return serialization.of_described(described), b""
            asked = StatementRequest(
                text=words["text"],
                parameters=tuple(map(serialization.to_value, words["parameters"])),
                analyst=words["analyst"],
                settings=words["settings"],
            )
            answered = self._answerer.explain(asked) if words["what"] == "explain" else self._answerer.answer(asked)
        if len(answered.table) > self._most_rows:
            hint = "Ask for fewer groups, or add a LIMIT. The charge is kept."
            raise Refusal("54000", f"the answer has more than {self._most_rows:,} rows", hint=hint)
        table = stored(answered.table, answered.fields)
        if table.nbytes > self._most_bytes:
            hint = "Ask for fewer groups or columns, or add a LIMIT. The charge is kept."
            raise Refusal("54000", f"the answer takes more than {self._most_bytes >> 20} MB", hint=hint)
        return serialization.of_answered(replace(answered, table=table))


def receive(channel: socket.socket) -> tuple[int, dict[str, Any]] | None:
    """Returns the next request and its number, or None where the listener is gone."""
    head = _exactly(channel, serialization.HEAD.size)
    if head is None:
        return None
    number, length, _ = serialization.HEAD.unpack(head)
    written = _exactly(channel, length)
    return None if written is None else (number, json.loads(written))


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        try:
            part = channel.recv(min(count - len(found), 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        found += part
    return bytes(found)


def send(channel: socket.socket, number: int, words: dict[str, Any], table: Any = b"") -> None:
    """Sends a reply; to a listener that is gone, nothing."""
    try:
        for part in serialization.frame(number, words, table):
            channel.sendall(part)
    except OSError:
        return


def _note(error: BaseException) -> None:
    """Tells the owner where it failed."""
    print(f"dpquery worker: {cause_of(error)}", file=sys.stderr, flush=True)


def main(descriptor: int) -> None:
    """Serves through an inherited socket until it is closed; its first frame says how to open the answerer."""
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, signal.SIG_IGN)  # the listener ends this process, when its clients are done
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setswitchinterval(SWITCH)
    operator = logging.StreamHandler(sys.stderr)
    operator.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    OPERATOR.addHandler(operator)
    with socket.socket(fileno=descriptor) as channel:
        received = receive(channel)
        if received is None:
            return
        _, start = received
        module, _, name = start["factory"].partition(":")
        try:
            factory: Factory = getattr(importlib.import_module(module), name)
            with factory(start["arguments"]) as (answerer, about):
                send(channel, 0, {"about": about})
                Worker(channel, answerer, limits=start).serve()
        except DPQueryError as error:
            send(channel, 0, {"failed": str(error)})
        except BaseException as error:
            _note(error)
            send(channel, 0, {"failed": "the engine could not be started"})
    sys.stderr.flush()
    os._exit(0)
