"""A server over the fake answerer, in a thread of the tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpquery.frontends.postgres.listener import Limits, Server
from dpquery.frontends.postgres.login.tls import tls_context
from dpquery.frontends.postgres.login.users import Users
from dpquery.frontends.postgres.process.pool import Pool
from dpquery.frontends.postgres.process.supervisor import SupervisorSettings
from tests.waiting import PATIENCE

PASSWORD = "correct horse"
FACTORY = "tests.unit.frontends.postgres.fake:build"


@dataclass(slots=True)
class Running:
    """A server that runs, and the loop it runs in."""

    server: Server
    loop: asyncio.AbstractEventLoop
    port: int
    host: str = "127.0.0.1"

    def url(self, user: str = "alice", database: str = "shop", **options: str) -> str:
        extra = " ".join(f"{name}={value}" for name, value in options.items())
        return f"host={self.host} port={self.port} user={user} password='{PASSWORD}' dbname={database} {extra}"

    def begun(self) -> threading.Event:
        """Returns what is set as soon as an engine was told of another statement."""
        told = threading.Event()

        def noted(numbers: Iterator[int]) -> Iterator[int]:
            for number in numbers:
                told.set()
                yield number

        for engine in self.server.engine._engines:
            engine._numbers = noted(engine._numbers)
        return told

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)


def make_users(folder: Path) -> Users:
    path = folder / "users.db"
    users = Users.create(path)
    if users.find("alice") is None:
        users.add("alice", PASSWORD)
        users.add("bob", PASSWORD, analyst="robert")
        users.add("superset", PASSWORD, delegate_for=("alice",))
        users.add("carol", PASSWORD, certificate="carol@example.org")
    return users


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    factory: str = FACTORY,
    arguments: dict[str, Any] | None = None,
    limits: Limits | None = None,
    certificate: tuple[Path, Path, Path | None] | None = None,
    caps: dict[str, str] | None = None,
    threads: int = 16,
    workers: int = 1,
    most_rows: int = 1_000_000,
) -> Iterator[Running]:
    """Runs a server for as long as the block lasts."""
    settings = SupervisorSettings(factory=factory, arguments=arguments or {}, threads=threads, most_rows=most_rows)
    engine = Pool(settings, workers)
    server = Server(engine, make_users(folder), limits or Limits(), caps=caps or {})
    if certificate is not None:
        server.tls, server.binding = tls_context(*certificate)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(PATIENCE)
    try:
        yield Running(server, loop, port)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
