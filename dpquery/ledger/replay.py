"""How a ledger is verified: everything in it is computed again from its founding document and its entries.

docs/proofs/ledger.md. Nothing is believed that does not follow, and nothing is repaired.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from dpquery.errors import LedgerError
from dpquery.kernel.accountant import Budget, Units, limit_of, to_units
from dpquery.ledger import accounts, schema
from dpquery.ledger.schema import DATASET, NOTHING, Kind, Mark
from dpquery.ledger.store import Connection, Store
from dpquery.units.blocks import Axis
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
    lost: Units = NOTHING

    @property
    def is_open(self) -> bool:
        """Whether any analyst may spend the dataset's budget, as none has a limit of their own."""
        return len(self.budgets) == 1

    @property
    def axis(self) -> Axis | None:
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

    def limit(self, account: str) -> Units | None:
        """Returns what the owner allows an account, or None where there is none."""
        if account == accounts.TOTAL:
            return accounts.ENOUGH
        analyst = account.partition(accounts.SEPARATOR)[0]
        own = self.budgets.get(analyst) or (self.budgets[DATASET] if self.is_open else None)
        return None if own is None else to_units(limit_of(own))


def verify(store: Store, connection: Connection) -> tuple[Terms, Mark]:
    """Returns what the ledger promises and its last entry, after checking all of it.

    Checked: the store's own soundness and the tables; the document's hash; the chain of entries, that each was allowed
    when it was added, and that limits and totals are what the entries make them. Raises LedgerError otherwise.
    """
    try:
        store.check(connection)
        return _verify(connection)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise LedgerError("the ledger is damaged: it holds values of the wrong form") from error


def _verify(connection: Connection) -> tuple[Terms, Mark]:
    ((document, origin),) = connection.execute("SELECT document, hash FROM founding").fetchall()
    schema.demand(origin == schema.hash_of(document), "its founding document was changed")
    content = json.loads(document)
    replay = _Replay(_terms(content, origin))
    for name, limit in content["limits"].items():
        schema.demand(replay.terms.limit(name) == tuple(limit), "its founding limits are not those of its budgets")
    head = replay.follow(connection, origin)
    standing = {row[0]: row[1:] for row in connection.execute(schema.ACCOUNTS).fetchall()}
    schema.demand(standing.keys() >= replay.terms.budgets.keys() | replay.sums.keys(), "an account is missing")
    strange = [name for name in standing.keys() - replay.sums.keys() if not accounts.is_whole(name)]
    schema.demand(not strange, "it has an account of no block")
    for name, row in standing.items():
        declared, spent = replay.terms.limit(name), replay.sums[name]
        schema.demand(declared is not None and row[:3] == widest(declared, spent), "a limit was changed")
        schema.demand(row[3:] == spent, "its totals are not the sums of its entries")
    return replay.terms, head


def _terms(content: dict[str, Any], origin: str) -> Terms:
    return Terms(
        identity=origin,
        declarations=Declarations.from_json(content["declarations"]),
        budgets={name: schema.budget_from_list(own) for name, own in content["budgets"].items()},
        data_version=f"0-{origin[:16]}",
        place=content["mark"],
    )


def widest(limit: Units, spent: Units) -> Units:
    """Returns an account's limit as charges meet it: the owner's, but never below what was spent already."""
    epsilon, delta, rho = (max(pair) for pair in zip(limit, spent, strict=True))
    return epsilon, delta, rho


class _Replay:
    """Terms and totals after each entry in turn."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.sums: defaultdict[str, Units] = defaultdict(lambda: self.terms.lost)
        if terms.axis is not None:
            self.sums[accounts.TOTAL] = NOTHING
            for name in terms.budgets:
                self._open(name)

    def follow(self, connection: Connection, head: str) -> Mark:
        """Returns the last entry after following the chain from the founding document's hash."""
        seq = 0
        for row, expected in zip(schema.entries(connection), count(1)):
            *fields, hash, answered = row
            seq, _, kind, account, epsilon, delta, rho, text = fields
            whole = seq == expected and hash == schema.hash_of(head, *fields)
            schema.demand(whole, f"entry {expected} was changed or is missing")
            head = hash
            allowed = min(epsilon, delta, rho) >= 0 and answered in (0, 1)
            allowed = allowed and self._apply(Kind(kind), account, (epsilon, delta, rho), text, Mark(seq, hash))
            schema.demand(allowed, f"entry {expected} is invalid")
        return Mark(seq, head)

    def _apply(self, kind: Kind, account: str, units: Units, text: str, mark: Mark) -> bool:
        """Whether an entry was allowed; the state after it."""
        match kind:
            case Kind.CHARGE:
                self._open(analyst := accounts.meant(account, self.terms.axis)[0])
                charged = all(self._spend(name, units) for name in self.terms.charged(account))
                if self.terms.total != DATASET:
                    self.sums[self.terms.total] = plus(self.sums[self.terms.total], units)
                return analyst != DATASET and charged
            case Kind.LIMIT:
                return self._limit(account, units, schema.budget_from_list(json.loads(text)["budget"]))
            case Kind.DATA:
                self.terms = replace(self.terms, data_version=f"{mark.seq}-{mark.hash[:16]}")
                return account == DATASET and units == NOTHING
            case Kind.BLOCKS:
                return account == DATASET and units == NOTHING and self._extend(*json.loads(text)["blocks"])
            case Kind.RESTORE:
                for name in self.terms.budgets.keys() | self.sums.keys():
                    self.sums[name] = plus(self.sums[name], units)
                lost = plus(self.terms.lost, units)
                self.terms = replace(self.terms, data_version=f"{mark.seq}-{mark.hash[:16]}", lost=lost)
                return account == DATASET

    def _spend(self, name: str, units: Units) -> bool:
        limit = self.terms.limit(name)
        self.sums[name] = plus(self.sums[name], units)
        return limit is not None and all(
            not amount or total <= most for amount, total, most in zip(units, self.sums[name], limit, strict=True)
        )

    def _open(self, analyst: str) -> None:
        """Opens the accounts of an analyst that are not open, with what restored ledgers may have lost."""
        for name in accounts.family(analyst, self.terms.axis):
            self.sums[name]

    def _extend(self, first: int, last: int) -> bool:
        """A new block begins with what the whole has spent: all charges that its rows could ever cause before."""
        axis, declarations = self.terms.axis, self.terms.declarations
        if axis is None:
            return False
        grown = Axis(by=axis.by, first=first, last=last)
        for whole in [name for name in self.sums if accounts.is_whole(name)]:
            for name in accounts.family(whole, grown):
                self.sums.setdefault(name, self.sums[whole])
        self.terms = replace(self.terms, declarations=replace(declarations, blocks=grown))
        return grown != axis and accounts.contains(grown, axis)

    def _limit(self, account: str, units: Units, budget: Budget) -> bool:
        fits = account == DATASET or not self.terms.is_open
        self.terms = replace(self.terms, budgets={**self.terms.budgets, account: budget})
        return (
            fits
            and units == to_units(limit_of(budget))
            and budget.kind is self.terms.budgets[DATASET].kind
            and all(widest(units, self.sums[name]) == units for name in accounts.family(account, self.terms.axis))
        )


def plus(left: Units, right: Units) -> Units:
    """Returns the sum of two amounts, part by part."""
    epsilon, delta, rho = (one + other for one, other in zip(left, right, strict=True))
    return epsilon, delta, rho
