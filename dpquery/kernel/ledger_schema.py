"""What stands in a ledger file, and how it is verified. docs/proofs/ledger.md.

The founding document (declarations, budgets, limits) is written once. Entries are only added; each carries the SHA-256
of its fields and of the hash before it, the first following the document's. Accounts hold limits and running totals.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from dpquery.errors import CatalogError, LedgerError
from dpquery.kernel.accountant import Budget, BudgetKind, Units, limit_of, to_units
from dpquery.kernel.declarations import Declarations

APPLICATION_ID = 0x64705131  # "dpQ1"
VERSION = 1
DATASET = ""
"""The name of the account that all charges count against, beside those of the analysts"""

SCHEMA = (
    """CREATE TABLE account (
    name TEXT PRIMARY KEY,
    limit_epsilon INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL,
    spent_epsilon INTEGER NOT NULL DEFAULT 0 CHECK (spent_epsilon BETWEEN 0 AND limit_epsilon),
    spent_delta INTEGER NOT NULL DEFAULT 0 CHECK (spent_delta BETWEEN 0 AND limit_delta),
    spent_rho INTEGER NOT NULL DEFAULT 0 CHECK (spent_rho BETWEEN 0 AND limit_rho)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE entry (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, analyst TEXT NOT NULL,
    epsilon INTEGER NOT NULL, delta INTEGER NOT NULL, rho INTEGER NOT NULL,
    query TEXT NOT NULL, hash TEXT NOT NULL, answered INTEGER NOT NULL DEFAULT 0
) STRICT""",
    """CREATE TABLE founding (
    seq INTEGER PRIMARY KEY CHECK (seq = 0), document TEXT NOT NULL, hash TEXT NOT NULL
) STRICT""",
)

OPEN_ACCOUNT = "INSERT OR IGNORE INTO account (name, limit_epsilon, limit_delta, limit_rho) VALUES (?, ?, ?, ?)"
ACCOUNT = "SELECT * FROM account WHERE name = ?"
SPEND = """UPDATE account SET
    spent_epsilon = spent_epsilon + :epsilon, spent_delta = spent_delta + :delta, spent_rho = spent_rho + :rho
    WHERE name = :name AND spent_epsilon + :epsilon <= limit_epsilon
    AND spent_delta + :delta <= limit_delta AND spent_rho + :rho <= limit_rho"""
APPEND = "INSERT INTO entry (seq, time, analyst, epsilon, delta, rho, query, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Founding:
    """The founding document, read. `limits` are those of the dataset and of each analyst that has a budget."""

    declarations: Declarations
    budget: Budget
    limits: Mapping[str, Units]


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry's number and hash: later states of the same ledger still hold it, earlier ones and others do not."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


def found(
    connection: sqlite3.Connection,
    declarations: Declarations,
    budget: Budget,
    analysts: Mapping[str, Budget],
    created: str,
) -> None:
    """Fills an empty database, inside the caller's transaction."""
    budgets = {DATASET: budget, **analysts}
    if any(own.kind is not budget.kind for own in analysts.values()):
        raise CatalogError(f"budgets of analysts must be of the dataset's kind, {budget.kind.value}")
    limits = {name: to_units(limit_of(own)) for name, own in budgets.items()}
    content = {
        "version": VERSION,
        "created": created,
        "declarations": declarations.to_json(),
        "budgets": {name: _budget_to_list(own) for name, own in budgets.items()},
        "limits": limits,
    }
    document = json.dumps(content, sort_keys=True)
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO founding VALUES (0, ?, ?)", (document, hash_of(document)))
    connection.executemany(OPEN_ACCOUNT, [(name, *limit) for name, limit in limits.items()])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def hash_of(*fields: str | int) -> str:
    """Returns the SHA-256 of the fields, in hexadecimal; different sequences of fields have different texts."""
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def check_kind(connection: sqlite3.Connection) -> None:
    """Raises LedgerError unless the file says that it is a ledger of this version; only reads."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise LedgerError("the file is no ledger of dpquery")
    if version != VERSION:
        raise LedgerError(f"the ledger has format {version}; this release of dpquery reads format {VERSION}")


def hash_at(connection: sqlite3.Connection, seq: int) -> str | None:
    """Returns the hash of an entry, of the founding document for 0, or None where there is none."""
    table = "entry" if seq else "founding"
    row = connection.execute(f"SELECT hash FROM {table} WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else row[0]


def last(connection: sqlite3.Connection) -> Mark:
    """Returns the last entry, or the founding document where there is none."""
    for table in ("entry", "founding"):
        row = connection.execute(f"SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1").fetchone()
        if row is not None:
            return Mark(*row)
    raise LedgerError("the ledger is damaged: it has no founding document")


def verify(connection: sqlite3.Connection) -> tuple[Founding, Mark]:
    """Returns what the ledger was founded on and its last entry, after checking all of it.

    Checked: the pages (by SQLite), the schema, the document's hash, the chain of entries, limits as founded, and
    totals equal to the sums of entries. Raises LedgerError otherwise, never repairs.
    """
    try:
        return _verify(connection)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise LedgerError("the ledger is damaged: it holds values of the wrong form") from error


def _verify(connection: sqlite3.Connection) -> tuple[Founding, Mark]:
    check_kind(connection)
    _demand(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "its pages are inconsistent")
    schema = connection.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
    _demand(schema == [(statement,) for statement in SCHEMA], "its tables are not as they were created")
    ((document, origin),) = connection.execute("SELECT document, hash FROM founding").fetchall()
    _demand(origin == hash_of(document), "its founding document was changed")
    content = json.loads(document)
    limits: dict[str, Units] = {name: (e, d, r) for name, (e, d, r) in content["limits"].items()}
    head, sums = _verify_entries(connection, origin)
    accounts = {row[0]: row[1:] for row in connection.execute("SELECT * FROM account")}
    _demand(accounts.keys() >= limits.keys() | sums.keys(), "an account is missing")
    for name, row in accounts.items():
        limit = limits.get(name) or (limits[DATASET] if len(limits) == 1 else None)
        _demand(row[:3] == limit, "a limit was changed")
        _demand(row[3:] == sums[name], "its totals are not the sums of its entries")
    budget = _budget_from_list(content["budgets"][DATASET])
    declarations = Declarations.from_json(content["declarations"])
    return Founding(declarations=declarations, budget=budget, limits=limits), head


def _verify_entries(connection: sqlite3.Connection, head: str) -> tuple[Mark, defaultdict[str, Units]]:
    """Returns the last entry and the sums of all entries by account, after following the chain."""
    sums: defaultdict[str, Units] = defaultdict(lambda: (0, 0, 0))
    seq = 0
    for row, expected in zip(connection.execute("SELECT * FROM entry ORDER BY seq"), count(1)):
        *fields, hash, answered = row
        seq, _, analyst, *amounts, _ = fields
        _demand(seq == expected and hash == hash_of(head, *fields), f"entry {expected} was changed or is missing")
        _demand(min(amounts) >= 0 and answered in (0, 1) and analyst != DATASET, f"entry {expected} is invalid")
        head = hash
        for account in (DATASET, analyst):
            epsilon, delta, rho = (total + amount for total, amount in zip(sums[account], amounts, strict=True))
            sums[account] = (epsilon, delta, rho)
    return Mark(seq, head), sums


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise LedgerError(f"the ledger is damaged: {otherwise}")


def _budget_to_list(budget: Budget) -> list[str]:
    return [budget.kind.value, str(budget.epsilon), str(budget.delta), str(budget.rho)]


def _budget_from_list(content: list[str]) -> Budget:
    kind, epsilon, delta, rho = content
    return Budget(kind=BudgetKind(kind), epsilon=Fraction(epsilon), delta=Fraction(delta), rho=Fraction(rho))
