"""Superset in a process of its own, over a new metadata database, and a user of its REST interface."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.server.clients.installing import python_with
from tests.waiting import PATIENCE, wait_until

PACKAGES = ("apache-superset==6.1.0", "flask-caching==2.3.1", "cachetools", "rich", "psycopg2-binary")
"""Superset and, besides the driver, what it imports and does not ask for, and the last version that it works with."""
PASSWORD = "a-password-of-superset-alone"
CONFIG = """\
SECRET_KEY = "a key for a test, which ends with it"
SQLALCHEMY_DATABASE_URI = "sqlite:///@FOLDER@/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
RATELIMIT_ENABLED = False
"""


@dataclass(frozen=True, slots=True)
class Superset:
    """A Superset that runs."""

    address: str
    log: Path

    def log_in(self, user: str) -> Visitor:
        """Returns one of its users, as an administrator."""
        asked = {"username": user, "password": PASSWORD, "provider": "db"}
        token = Visitor(self.address).post("security/login", asked)["access_token"]
        return Visitor(self.address, token)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks the REST interface."""

    address: str
    token: str = ""

    def get(self, place: str) -> Any:
        """Returns what is found there."""
        return self._ask("GET", place)

    def post(self, place: str, what: Mapping[str, object]) -> Any:
        """Returns the answer to something new."""
        return self._ask("POST", place, what)

    def put(self, place: str, what: Mapping[str, object]) -> Any:
        """Returns the answer to a change."""
        return self._ask("PUT", place, what)

    def _ask(self, method: str, place: str, what: Mapping[str, object] | None = None) -> Any:
        body = None if what is None else json.dumps(what).encode()
        headers = {"Authorization": f"Bearer {self.token}"} | (
            {} if body is None else {"Content-Type": "application/json"}
        )
        asked = urllib.request.Request(f"{self.address}/api/v1/{place}", data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AskedInVain(f"{method} {place}: {error.code} {error.read().decode()}") from None


class AskedInVain(Exception):
    """Superset answered with an error; the message quotes it."""


@contextlib.contextmanager
def superset(folder: Path, *users: str) -> Iterator[Superset]:
    """Runs Superset with these users, each an administrator, until the block ends."""
    folder.mkdir()
    config = folder / "superset_config.py"
    config.write_text(CONFIG.replace("@FOLDER@", str(folder)), encoding="utf-8")
    program = python_with("superset", *PACKAGES).with_name("superset")
    environment = os.environ | {"SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset", "HOME": str(folder)}
    environment.pop("PYTHONPATH", None)
    log = folder / "log"
    with log.open("w", encoding="utf-8") as said:

        def run(*words: str) -> None:
            subprocess.run([program, *words], env=environment, stdout=said, stderr=said, check=True)

        run("db", "upgrade")
        run("init")
        for user in users:
            options = ("--firstname", user, "--lastname", user, "--email", f"{user}@localhost")
            run("fab", "create-admin", "--username", user, "--password", PASSWORD, *options)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [str(program), "run", "--host", "127.0.0.1", "--port", str(port), "--with-threads"]
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        try:
            wait_until(lambda: process.poll() is not None or _listens(port), "Superset's start")
            assert process.poll() is None, log.read_text(encoding="utf-8")
            yield Superset(f"http://127.0.0.1:{port}", log)
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
