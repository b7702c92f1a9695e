"""What stands in a ledger, whichever store holds it. docs/proofs/ledger.md.

The founding document (declarations, budgets, limits) is written once. Entries are only added: charges, and acts of the
owner. Each carries the SHA-256 of its fields and of the hash before it, the first following the document's. Accounts
hold limits and running totals.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from dpquery.errors import CatalogError, LedgerError
from dpquery.kernel.accountant import Budget, BudgetKind, Units, limit_of, to_units
from dpquery.ledger.accounts import ENOUGH, TOTAL, family
from dpquery.ledger.store import Connection
from dpquery.units.declarations import Declarations

VERSION = 2
DATASET = ""
"""The name of the account that all charges count against, beside those of the analysts"""
NOTHING: Units = (0, 0, 0)

PARTS = ("epsilon", "delta", "rho")
COLUMNS = "seq, time, kind, account, epsilon, delta, rho, text, hash, answered"
OPEN_ACCOUNT = """INSERT INTO account
    (name, limit_epsilon, limit_delta, limit_rho, spent_epsilon, spent_delta, spent_rho) VALUES (?, ?, ?, ?, ?, ?, ?)"""
ACCOUNT = """SELECT name, limit_epsilon, limit_delta, limit_rho, spent_epsilon, spent_delta, spent_rho
    FROM account WHERE name = ?"""
ACCOUNTS = ACCOUNT.replace("WHERE name = ?", "ORDER BY name")
APPEND = f"INSERT INTO entry ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
PAGE = 1000  # entries read at a time


class Kind(Enum):
    """What an entry records."""

    CHARGE = "charge"
    """A query's loss, taken from the analyst's account and the dataset's."""
    LIMIT = "limit"
    """The owner gave an account another limit, or opened one for an analyst."""
    DATA = "data"
    """The owner says that the data changed."""
    BLOCKS = "blocks"
    """The owner extended the blocks of rows that have a budget."""
    RESTORE = "restore"
    """The owner accepted a ledger that may have lost entries: every account paid for what they may have spent."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry's number and hash: later states of the same ledger still hold it, earlier ones and others do not."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


def tables(integer: str, keyed: str = "", strict: str = "") -> tuple[str, ...]:
    """Returns the statements that create the tables, in a dialect with this integer type and these endings."""
    limits = ", ".join(f"limit_{part} {integer} NOT NULL" for part in PARTS)
    totals = ",\n    ".join(
        f"spent_{part} {integer} NOT NULL DEFAULT 0 CHECK (spent_{part} BETWEEN 0 AND limit_{part})" for part in PARTS
    )
    amounts = ", ".join(f"{part} {integer} NOT NULL" for part in PARTS)
    return (
        f"CREATE TABLE account (\n    name TEXT PRIMARY KEY,\n    {limits},\n    {totals}\n){keyed}",
        f"""CREATE TABLE entry (
    seq {integer} PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL,
    {amounts},
    text TEXT NOT NULL, hash TEXT NOT NULL, answered {integer} NOT NULL DEFAULT 0
){strict}""",
        f"""CREATE TABLE founding (
    seq {integer} PRIMARY KEY CHECK (seq = 0), document TEXT NOT NULL, hash TEXT NOT NULL
){strict}""",
    )


def found(
    connection: Connection,
    declarations: Declarations,
    budget: Budget,
    analysts: Mapping[str, Budget],
    *,
    created: str,
    mark: str,
) -> Mark:
    """Fills empty tables, inside the caller's transaction; returns the founding document's mark.

    `mark` is the path of the mark's file, or "" for beside the ledger.
    """
    budgets = {DATASET: budget, **analysts}
    if any(own.kind is not budget.kind for own in analysts.values()):
        raise CatalogError(f"budgets of analysts must be of the dataset's kind, {budget.kind.value}")
    content = {
        "version": VERSION,
        "created": created,
        "declarations": declarations.to_json(),
        "budgets": {name: budget_to_list(own) for name, own in budgets.items()},
        "limits": {name: to_units(limit_of(own)) for name, own in budgets.items()},
        "mark": mark,
    }
    document = json.dumps(content, sort_keys=True)
    connection.execute("INSERT INTO founding VALUES (0, ?, ?)", (document, hash_of(document)))
    for name, own in budgets.items():
        for account in family(name, declarations.blocks):
            connection.execute(OPEN_ACCOUNT, (account, *to_units(limit_of(own)), *NOTHING))
    if declarations.blocks is not None:
        connection.execute(OPEN_ACCOUNT, (TOTAL, *ENOUGH, *NOTHING))
    return Mark(0, hash_of(document))


def append(connection: Connection, kind: Kind, account: str, units: Units, text: str, time: str) -> Mark:
    """Adds an entry behind the last one, inside the caller's transaction."""
    before = last(connection)
    fields = (before.seq + 1, time, kind.value, account, *units, text)
    mark = Mark(before.seq + 1, hash_of(before.hash, *fields))
    connection.execute(APPEND, (*fields, mark.hash))
    return mark


def hash_of(*fields: str | int) -> str:
    """Returns the SHA-256 of the fields, in hexadecimal; different sequences of fields have different texts."""
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def hash_at(connection: Connection, seq: int) -> str | None:
    """Returns the hash of an entry, of the founding document for 0, or None where there is none."""
    table = "entry" if seq else "founding"
    row = connection.execute(f"SELECT hash FROM {table} WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else row[0]


def holds(connection: Connection, mark: Mark) -> bool:
    """Whether the ledger still has a marked entry."""
    return hash_at(connection, mark.seq) == mark.hash


def last(connection: Connection) -> Mark:
    """Returns the last entry, or the founding document where there is none."""
    for table in ("entry", "founding"):
        row = connection.execute(f"SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1").fetchone()
        if row is not None:
            return Mark(*row)
    raise LedgerError("the ledger is damaged: it has no founding document")


def entries(connection: Connection, after: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of the entries after a number in their order, a page at a time."""
    while page := connection.execute(
        f"SELECT {COLUMNS} FROM entry WHERE seq > ? ORDER BY seq LIMIT {PAGE}", (after,)
    ).fetchall():
        yield from page
        after = page[-1][0]


def acts_since(connection: Connection, seq: int) -> bool:
    """Whether the owner acted after an entry."""
    act = "SELECT 1 FROM entry WHERE seq > ? AND kind <> ? LIMIT 1"
    return connection.execute(act, (seq, Kind.CHARGE.value)).fetchone() is not None


def demand(holds: bool, otherwise: str) -> None:
    """Raises LedgerError, as of damage, unless something holds."""
    if not holds:
        raise LedgerError(f"the ledger is damaged: {otherwise}")


def budget_to_list(budget: Budget) -> list[str]:
    """Returns a budget in the form in which the ledger keeps it."""
    return [budget.kind.value, str(budget.epsilon), str(budget.delta), str(budget.rho)]


def budget_from_list(content: list[str]) -> Budget:
    """Returns the budget that `budget_to_list` wrote; raises ValueError on what it did not."""
    kind, epsilon, delta, rho = content
    return Budget(kind=BudgetKind(kind), epsilon=Fraction(epsilon), delta=Fraction(delta), rho=Fraction(rho))
