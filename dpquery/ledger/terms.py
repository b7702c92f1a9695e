"""What a ledger promises: as founded, and as the owner's acts have changed it since: docs/proofs/ledger.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from dpquery.kernel.accountant import Budget, LedgerAmount, limit_of, to_units
from dpquery.ledger import accounts, schema
from dpquery.ledger.schema import DATASET, NOTHING, Record
from dpquery.units.blocks import BlockRange
from dpquery.units.declarations import Declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the ledger promises now: as founded, and as the owner's acts have changed it since.

    Attributes:
        identity: The founding document's hash, which no other ledger has.
        declarations: The promise.
        budgets: The budget of the dataset, under DATASET, and of each analyst who has one, in the owner's words.
        data_version: Number and beginning of the hash of the entry that began it; no two states share one.
        place: Where the mark is kept: a path, or "" for beside the ledger.
        lost: What all restored ledgers together may have lost, which accounts that are opened later begin with too: the
            entry that opened them before may be among what was lost.
    """

    identity: str
    declarations: Declarations
    budgets: Mapping[str, Budget]
    data_version: str
    place: str
    lost: LedgerAmount = NOTHING

    @property
    def is_open(self) -> bool:
        """Whether any analyst may spend the dataset's budget, as none has a limit of their own."""
        return len(self.budgets) == 1

    @property
    def axis(self) -> BlockRange | None:
        """The blocks that have accounts, where rows are in blocks."""
        return self.declarations.blocks

    @property
    def total(self) -> str:
        """The account that all charges are added to, which the mark follows."""
        return DATASET if self.axis is None else accounts.TOTAL

    def charged(self, field: str) -> tuple[str, ...]:
        """Returns the accounts that a charge counts against: of all together, and of the analyst that it names."""
        analyst, suffixes = accounts.meant(field, self.axis)
        return tuple(name + suffix for name in (DATASET, analyst) for suffix in suffixes)

    def limit(self, account: str) -> LedgerAmount | None:
        """Returns what the owner allows an account, or None where there is none."""
        analyst = account.partition(accounts.SEPARATOR)[0]
        own = self.budgets.get(analyst) or (self.budgets[DATASET] if self.is_open else None)
        return None if own is None else units_of(own)


def founded(record: Record) -> Terms:
    """Returns the terms of a founding document; raises LedgerError where they contradict themselves."""
    (content,) = record.content
    terms = Terms(
        identity=record.hash,
        declarations=Declarations.from_json(content["declarations"]),
        budgets={name: schema.budget_from_list(own) for name, own in content["budgets"].items()},
        data_version=version_of(0, record.hash),
        place=content["mark"],
    )
    for name, limit in content["limits"].items():
        schema.demand(terms.limit(name) == tuple(limit), "its founding limits do not match its budgets")
    return terms


@lru_cache(maxsize=1024)
def units_of(budget: Budget) -> LedgerAmount:
    """Returns the limit of a budget, as the ledger counts it."""
    return to_units(limit_of(budget))


def plus(left: LedgerAmount, right: LedgerAmount) -> LedgerAmount:
    """Returns the sum of two amounts, part by part."""
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(most: LedgerAmount, less: LedgerAmount) -> LedgerAmount:
    """Returns what is left of an amount, part by part, nothing where less is more."""
    return max(0, most[0] - less[0]), max(0, most[1] - less[1]), max(0, most[2] - less[2])


def widest(limit: LedgerAmount, spent: LedgerAmount) -> LedgerAmount:
    """Returns an account's limit as charges meet it: the owner's, but never below what was spent already."""
    epsilon, delta, rho = map(max, limit, spent)
    return epsilon, delta, rho


def most(amounts: Iterable[LedgerAmount]) -> LedgerAmount:
    """Returns the greatest of each part."""
    epsilon, delta, rho = map(max, zip(*amounts, strict=True))
    return epsilon, delta, rho


def least(amounts: Iterable[LedgerAmount]) -> LedgerAmount:
    """Returns the least of each part."""
    epsilon, delta, rho = map(min, zip(*amounts, strict=True))
    return epsilon, delta, rho


def version_of(seq: int, hash: str) -> str:
    """Returns the version of the data that begins with an entry, or with the founding document, 0."""
    return f"{seq}-{hash[:16]}"
