"""What a ledger's records make: its terms, and the totals of all accounts, after each record in turn.

docs/proofs/ledger.md. There is no other copy of the totals. Nothing is believed that does not follow from the chain.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from dpquery.errors import LedgerError
from dpquery.kernel.accountant import Budget, LedgerAmount
from dpquery.ledger import accounts, schema
from dpquery.ledger.amendments import differences
from dpquery.ledger.schema import ANSWERED, CHECKPOINT, DATASET, NOTHING, EntryKind, Mark, Record
from dpquery.ledger.terms import founded, minus, plus, units_of, version_of, widest
from dpquery.units.blocks import BlockRange
from dpquery.units.declarations import Declarations

RECENT = 4096  # entries whose hashes are at hand
OFTEN = 1000  # entries between two checkpoints, or as many as there are accounts


class Replay:
    """Terms and totals after the last record that was followed.

    Attributes:
        head: The last entry, or the founding document.
        chain: The hash of the last record.
    """

    def __init__(self, founding: Record) -> None:
        self.terms = founded(founding)
        self.head, self.chain = Mark(0, founding.hash), founding.hash
        self._sums: dict[str, LedgerAmount] = {}
        self._recent = {0: founding.hash}
        self._since = 0
        if self.terms.axis is not None:
            self._sums[accounts.TOTAL] = NOTHING
            for name in self.terms.budgets:
                self._open(name)

    def resume(self, checkpoint: Record) -> None:
        """Goes on from a checkpoint of the same ledger, in place of the records before it."""
        (told,) = checkpoint.content
        schema.demand(told["identity"] == self.terms.identity, "it contains a checkpoint of another ledger")
        self.terms = replace(
            self.terms,
            declarations=Declarations.from_json(told["declarations"]),
            budgets={name: schema.budget_from_list(own) for name, own in told["budgets"].items()},
            data_version=told["data_version"],
            lost=tuple(told["lost"]),
        )
        self._sums = {name: _units(spent) for name, spent in told["sums"].items()}
        self.head, self.chain, self._since = Mark(checkpoint.seq, told["entry"]), checkpoint.hash, 0
        self._recent = {self.head.seq: self.head.hash}

    def checkpoint(self) -> dict[str, Any]:
        """Returns all that later records build on, in the form in which a checkpoint keeps it."""
        return {
            "before": self.chain,
            "entry": self.head.hash,
            "identity": self.terms.identity,
            "declarations": self.terms.declarations.to_json(),
            "budgets": {name: schema.budget_to_list(own) for name, own in self.terms.budgets.items()},
            "data_version": self.terms.data_version,
            "lost": list(self.terms.lost),
            "sums": {name: list(spent) for name, spent in self._sums.items()},
        }

    @property
    def is_due(self) -> bool:
        """Whether the next entry is to be followed by a checkpoint."""
        return self._since + 1 >= max(OFTEN, len(self._sums))

    def hash_at(self, seq: int) -> str | None:
        """Returns the hash of a recent entry, or None where it is not at hand."""
        return self._recent.get(seq)

    def spent(self, account: str) -> LedgerAmount:
        """Returns an account's total; one that is not open yet begins with what restored ledgers may have lost."""
        return self._sums.get(account, self.terms.lost)

    def limit(self, account: str) -> LedgerAmount | None:
        """Returns a limit as charges meet it: the owner's, but never below what was spent; None where there is none."""
        declared = self.terms.limit(account)
        return None if declared is None else widest(declared, self.spent(account))

    def left(self, account: str) -> LedgerAmount | None:
        """Returns what an account may still spend, part by part; None where the owner set nothing apart for it."""
        limit = self.limit(account)
        return None if limit is None else minus(limit, self.spent(account))

    def allows(self, field: str, units: LedgerAmount) -> bool:
        """Whether a charge may be recorded: each account that it counts against has room for it, part by part.

        Claim:
            After a charge that is allowed, no total exceeds its limit (docs/proofs/ledger.md). Amounts are 0 or more
            and not all 0.
        """
        left = [self.left(name) for name in self.terms.charged(field)]
        return min(units) >= 0 < max(units) and all(
            rest is not None and all(amount <= most for amount, most in zip(units, rest, strict=True)) for rest in left
        )

    def follow(self, line: str) -> bool:
        """Whether a line is the next of the chain, after which totals and terms are what it makes them.

        Raises LedgerError where it follows, and was not allowed.
        """
        try:
            record = schema.read(self.chain, line)
            if record is None:
                return False
            allowed = self._take(record)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise LedgerError("the ledger is damaged: it contains invalid values") from error
        schema.demand(allowed, f"the record behind entry {self.head.seq} is invalid")
        self.chain = record.hash
        return True

    def _take(self, record: Record) -> bool:
        match record.kind:
            case kind if kind == ANSWERED:
                (answered,) = record.content
                return record.seq == self.head.seq and all(type(n) is int and 0 < n <= record.seq for n in answered)
            case kind if kind == CHECKPOINT:
                self._since = 0
                return record.seq == self.head.seq and record.content == (self.checkpoint(),)
        _, account, units, text = record.content
        allowed = record.seq == self.head.seq + 1 and self._apply(record, account, _units(units), text)
        self.head = Mark(record.seq, record.hash)
        self._since += 1
        self._recent[record.seq] = record.hash
        self._recent.pop(record.seq - RECENT, None)
        return allowed

    def _apply(self, record: Record, account: str, units: LedgerAmount, text: str) -> bool:
        """Whether an entry was allowed; the state after it."""
        match EntryKind(record.kind):
            case EntryKind.CHARGE:
                analyst = accounts.meant(account, self.terms.axis)[0]
                allowed = analyst != DATASET and self.allows(account, units)
                self._open(analyst)
                for name in dict.fromkeys([*self.terms.charged(account), self.terms.total]):
                    self._sums[name] = plus(self.spent(name), units)
                return allowed
            case EntryKind.LIMIT:
                return self._limit(account, units, schema.budget_from_list(json.loads(text)["budget"]))
            case EntryKind.DATA:
                self.terms = replace(self.terms, data_version=version_of(record.seq, record.hash))
                return account == DATASET and units == NOTHING
            case EntryKind.BLOCKS:
                return account == DATASET and units == NOTHING and self._extend(*json.loads(text)["blocks"])
            case EntryKind.AMEND:
                return account == DATASET and units == NOTHING and self._amend(json.loads(text)["declarations"])
            case EntryKind.RESTORE:
                for name in [*dict.fromkeys([*self.terms.budgets, *self._sums])]:
                    self._sums[name] = plus(self.spent(name), units)
                lost = plus(self.terms.lost, units)
                self.terms = replace(self.terms, data_version=version_of(record.seq, record.hash), lost=lost)
                return account == DATASET and min(units) >= 0

    def _open(self, analyst: str) -> None:
        """Opens the accounts of an analyst that are not open, with what restored ledgers may have lost."""
        for name in accounts.family(analyst, self.terms.axis):
            self._sums.setdefault(name, self.terms.lost)

    def _extend(self, first: int, last: int) -> bool:
        """A new block begins with what the whole has spent: all charges that its rows could ever cause before."""
        axis, declarations = self.terms.axis, self.terms.declarations
        if axis is None:
            return False
        grown = BlockRange(by=axis.by, first=first, last=last)
        for whole in [name for name in self._sums if accounts.is_whole(name)]:
            for name in accounts.family(whole, grown):
                self._sums.setdefault(name, self._sums[whole])
        self.terms = replace(self.terms, declarations=replace(declarations, blocks=grown))
        return grown != axis and accounts.contains(grown, axis)

    def _amend(self, text: str) -> bool:
        """Only what changes no promise follows; see `amended`."""
        held, said = self.terms.declarations, Declarations.from_json(text)
        self.terms = replace(self.terms, declarations=said)
        is_new = said.fingerprint() != held.fingerprint()
        return is_new and not [*differences(held, said)] and said.tables.keys() >= held.tables.keys()

    def fits(self, account: str, units: LedgerAmount) -> bool:
        """Whether no account that a limit would be for has spent more."""
        return all(widest(units, self.spent(name)) == units for name in accounts.family(account, self.terms.axis))

    def _limit(self, account: str, units: LedgerAmount, budget: Budget) -> bool:
        fits = (account == DATASET or not self.terms.is_open) and self.fits(account, units)
        self.terms = replace(self.terms, budgets={**self.terms.budgets, account: budget})
        return fits and units == units_of(budget) and budget.kind is self.terms.budgets[DATASET].kind


def begun(line: str) -> Replay:
    """Returns the state that a founding document makes; raises LedgerError where the line is none."""
    try:
        return Replay(schema.read_founding(line))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise LedgerError("the ledger is damaged: its founding document is malformed") from error


def _units(told: list[int]) -> LedgerAmount:
    epsilon, delta, rho = told
    if any(type(part) is not int for part in (epsilon, delta, rho)):
        raise ValueError("amounts are integers")
    return epsilon, delta, rho
