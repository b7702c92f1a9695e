"""Who may connect: the users' file, an SQLite database with SCRAM verifiers and no passwords.

A user is a role of PostgreSQL's protocol. It asks as one analyst of the ledger, may be a delegate who acts for others
(a shared service account), and may have a client certificate's name instead of a password.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dpquery.errors import CatalogError
from dpquery.frontends.postgres.login.scram import Verifier, new_verifier, no_verifier

_TABLE = """CREATE TABLE IF NOT EXISTS user (
    name TEXT PRIMARY KEY, analyst TEXT NOT NULL, iterations INTEGER NOT NULL, salt BLOB NOT NULL,
    stored_key BLOB NOT NULL, server_key BLOB NOT NULL, certificate TEXT, delegate_for TEXT NOT NULL
) STRICT"""
_SECRET = "CREATE TABLE IF NOT EXISTS secret (value BLOB NOT NULL) STRICT"
_COLUMNS = "name, analyst, iterations, salt, stored_key, server_key, certificate, delegate_for"
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,63}")
EVERYBODY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user.

    Attributes:
        analyst: Who pays, as the ledger knows them.
        verifier: What proves the password.
        certificate: The common name of the client certificate that is enough to log in, or None.
        delegate_for: The users in whose names this one may ask; `*` for every other.
    """

    name: str
    analyst: str
    verifier: Verifier = field(repr=False)
    certificate: str | None = None
    delegate_for: tuple[str, ...] = ()

    def may_act_for(self, name: str) -> bool:
        """Whether this user may ask in the name of another."""
        return name == self.name or EVERYBODY in self.delegate_for or name in self.delegate_for


class Users:
    """The users' file, read anew for each login, so that changes hold at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _check(path)
        with self._open():
            pass

    @staticmethod
    def create(path: Path) -> Users:
        """Returns the users of a file, which is made where there is none; readable by its owner alone."""
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        users = Users(path)
        with users._open() as connection:
            connection.execute(_TABLE)
            connection.execute(_SECRET)
            connection.execute(
                "INSERT INTO secret SELECT ? WHERE NOT EXISTS (SELECT 1 FROM secret)", (secrets.token_bytes(32),)
            )
        return users

    def verifier(self, name: str) -> tuple[User | None, Verifier]:
        """Returns a user with the verifier, or None with one that no password matches, at the same expense."""
        with self._open() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM user WHERE name = ?", (name,)).fetchone()
            secret = connection.execute("SELECT value FROM secret").fetchone()[0]
        user = None if row is None else _user(row)
        unknown = no_verifier(name, secret)  # made in any case, for the same expense
        return user, unknown if user is None else user.verifier

    def find(self, name: str) -> User | None:
        """Returns the user of a name, or None."""
        with self._open() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM user WHERE name = ?", (name,)).fetchone()
        return None if row is None else _user(row)

    def all(self) -> list[User]:
        """Returns all users by name."""
        with self._open() as connection:
            return [_user(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM user ORDER BY name")]

    def add(
        self,
        name: str,
        password: str,
        *,
        analyst: str | None = None,
        certificate: str | None = None,
        delegate_for: tuple[str, ...] = (),
    ) -> None:
        """Adds a user, who asks as the analyst of the same name unless one is given."""
        for word in (name, analyst or name, *delegate_for, *filter(None, [certificate])):
            if not _NAME.fullmatch(word) or "," in word:
                raise CatalogError("a name has 1 to 63 characters, no control characters and no commas")
        verifier = new_verifier(password)
        row = (name, analyst or name, *_parts(verifier), certificate, ",".join(delegate_for))
        with self._open() as connection:
            try:
                connection.execute(f"INSERT INTO user ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise CatalogError(f"there is a user {name} already; change the password with passwd") from None

    def set_password(self, name: str, password: str) -> None:
        """Gives a user another password."""
        text = "UPDATE user SET iterations = ?, salt = ?, stored_key = ?, server_key = ? WHERE name = ?"
        with self._open() as connection:
            _demand(connection.execute(text, (*_parts(new_verifier(password)), name)), name)

    def remove(self, name: str) -> None:
        """Forgets a user; what the analyst spent stays in the ledger."""
        with self._open() as connection:
            _demand(connection.execute("DELETE FROM user WHERE name = ?", (name,)), name)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self._path, timeout=5)
            try:
                with connection:
                    yield connection
            finally:
                connection.close()
        except sqlite3.Error:
            raise CatalogError(f"{self._path} is not a file of users, or cannot be used") from None


def _check(path: Path) -> None:
    """The file holds what lets its reader pose as the server or guess passwords."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise CatalogError(f"there is no file {path}; make it with: dpquery user add NAME --users {path}") from None
    if not stat.S_ISREG(status.st_mode):
        raise CatalogError(f"{path} is not a file; name the file of users, which dpquery user add creates")
    if status.st_mode & 0o077:
        raise CatalogError(f"{path} must be readable only by its owner; run chmod 600 {path}")


def _demand(cursor: sqlite3.Cursor, name: str) -> None:
    if cursor.rowcount != 1:
        raise CatalogError(f"there is no user {name}")


def _parts(verifier: Verifier) -> tuple[int, bytes, bytes, bytes]:
    return verifier.iterations, verifier.salt, verifier.stored_key, verifier.server_key


def _user(row: tuple[str, str, int, bytes, bytes, bytes, str | None, str]) -> User:
    name, analyst, iterations, salt, stored_key, server_key, certificate, delegate_for = row
    return User(
        name=name,
        analyst=analyst,
        verifier=Verifier(iterations=iterations, salt=salt, stored_key=stored_key, server_key=server_key),
        certificate=certificate,
        delegate_for=tuple(filter(None, delegate_for.split(","))),
    )
