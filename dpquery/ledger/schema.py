"""What stands in a ledger, whichever store holds it: records, one line each, in a chain. docs/proofs/ledger.md.

A line is `HASH [seq, kind, ...]`: the SHA-256 of the hash before it and of what follows the hash. The first is the
founding document (declarations, budgets, limits). Then come entries, numbered 1, 2, 3: charges, and acts of the owner.
Between them stand records without a number of their own, under that of the entry before them: which entries were
answered, and checkpoints, which hold all totals so that opening need not add up every entry again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from dpquery.errors import CatalogError, LedgerError
from dpquery.kernel.accountant import Budget, BudgetKind, LedgerAmount, limit_of, to_units
from dpquery.units.declarations import Declarations

VERSION = 3
DATASET = ""
"""The name of the account that all charges count against, beside those of the analysts"""
NOTHING: LedgerAmount = (0, 0, 0)
FOUNDING, ANSWERED, CHECKPOINT = "founding", "answered", "checkpoint"
"""The kinds of records that are no entries."""
DIGITS = 64  # of a hash


class EntryKind(Enum):
    """What an entry records."""

    CHARGE = "charge"
    """A query's loss, taken from the analyst's account and the dataset's."""
    LIMIT = "limit"
    """The owner gave an account another limit, or opened one for an analyst."""
    DATA = "data"
    """The owner says that the data changed."""
    BLOCKS = "blocks"
    """The owner extended the blocks of rows that have a budget."""
    AMEND = "amend"
    """The owner declared more tables, or other keys of public ones, under the same promise."""
    RESTORE = "restore"
    """The owner accepted a ledger that may have lost entries: every account paid for what they may have spent."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry's number and hash: later states of the same ledger still hold it, earlier ones and others do not."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class Record:
    """A line of the chain, and what it says.

    Attributes:
        seq: The number of the entry; of another record, that of the last entry before it.
        kind: A value of `EntryKind`, or one of FOUNDING, ANSWERED and CHECKPOINT.
        content: What follows number and kind.
        line: The whole line, without its end.
    """

    seq: int
    kind: str
    content: tuple[Any, ...]
    line: str

    @property
    def hash(self) -> str:
        """The chain's hash, over this record and all before it."""
        return self.line[:DIGITS]

    @property
    def is_entry(self) -> bool:
        """Whether it has a number of its own."""
        return self.kind not in (FOUNDING, ANSWERED, CHECKPOINT)


def write(before: str, seq: int, kind: str, *content: Any) -> Record:
    """Returns the record that says something behind the record with a hash, "" for none."""
    body = json.dumps([seq, kind, *content], sort_keys=True)
    return Record(seq, kind, content, f"{_hash(before, body)} {body}")


def read(before: str, line: str) -> Record | None:
    """Returns the record of a line behind the record with a hash, or None where it is not the line that follows.

    Raises ValueError, IndexError or TypeError for a line with a right hash that `write` did not make.
    """
    hash, _, body = line.partition(" ")
    if hash != _hash(before, body):
        return None
    seq, kind, *content = json.loads(body)
    if type(seq) is not int or type(kind) is not str:
        raise ValueError("a record begins with its number and kind")
    return Record(seq, kind, tuple(content), line)


def read_checkpoint(line: str) -> Record | None:
    """Returns the checkpoint of a line, which says itself which hash it follows; None where it is none."""
    _, _, body = line.partition(" ")
    try:
        (before,) = {told["before"] for told in json.loads(body)[2:]}
        record = read(str(before), line)
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return record if record is not None and record.kind == CHECKPOINT else None


def glance(line: str) -> tuple[int, str, str]:
    """Returns number, kind and hash of a line that was verified, or will be; raises ValueError on other text."""
    number, kind, *_ = line[DIGITS + 2 : DIGITS + 64].split(", ", 2)
    return int(number), kind.strip('"]'), line[:DIGITS]


def founding(declarations: Declarations, budget: Budget, analysts: Mapping[str, Budget], **told: str) -> Record:
    """Returns the founding document of a ledger; `told` holds when it was `created`, and the path of the `mark`'s file,
    or "" for beside the ledger."""
    budgets = {DATASET: budget, **analysts}
    if any(own.kind is not budget.kind for own in analysts.values()):
        raise CatalogError(f"budgets of analysts must be of the dataset's kind, {budget.kind.value}")
    content = {
        "version": VERSION,
        "declarations": declarations.to_json(),
        "budgets": {name: budget_to_list(own) for name, own in budgets.items()},
        "limits": {name: to_units(limit_of(own)) for name, own in budgets.items()},
        **told,
    }
    return write("", 0, FOUNDING, content)


def read_founding(line: str) -> Record:
    """Returns the founding document of a line; raises LedgerError where it is none, or of another format."""
    try:
        record = read("", line)
    except (LookupError, TypeError, ValueError, RecursionError):
        record = None
    if record is None or record.kind != FOUNDING or record.seq != 0:
        raise LedgerError("this is not a dpquery ledger, or its founding document was changed")
    (content,) = record.content
    if content["version"] != VERSION:
        raise LedgerError(of_format(content["version"]))
    return record


def of_format(version: object) -> str:
    """Returns what is wrong with a ledger of another format."""
    return (
        f"the ledger has format {version}; this release of dpquery reads only format {VERSION}. Continue with the "
        "release that created it; a new ledger would give the same people a new budget on top of what was already "
        "spent"
    )


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


def _hash(before: str, body: str) -> str:
    return hashlib.sha256((before + body).encode(errors="surrogatepass")).hexdigest()
