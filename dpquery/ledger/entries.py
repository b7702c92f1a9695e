"""The ledger's entries as people and programs read them: charges, and acts of the owner: docs/proofs/ledger.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from dpquery.errors import InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget, from_units
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger import schema
from dpquery.ledger.accounts import SEPARATOR
from dpquery.ledger.schema import DATASET, EntryKind, Record, budget_to_list
from dpquery.units.declarations import Declarations

LONGEST_NAME = 100
LONGEST_REASON = 1_000


class State(Enum):
    """Whether an answer followed a charge. Both count as spent, for ever."""

    PENDING = "pending"
    ANSWERED = "answered"
    DECIDED = "decided"
    """An act of the owner, which no answer follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded charge or act of the owner. The time is decoration: the order is that of `seq`.

    Attributes:
        analyst: Who was charged, or whose limit was changed; "" for the dataset.
        loss: What was charged; for a changed limit, the new one as the ledger counts it.
        query: The query's text; "" for acts of the owner.
        by, why: Who acted, and their reason; "" for charges.
        hash: The chain's hash, over this entry and all before it.
        blocks: The blocks that were charged, "*" for all; "" where rows are in no blocks, and for acts of the owner.
    """

    seq: int
    time: str
    analyst: str
    loss: PrivacyLoss
    query: str
    state: State
    kind: EntryKind = EntryKind.CHARGE
    by: str = ""
    why: str = ""
    hash: str = ""
    blocks: str = ""


def told(lines: Sequence[str], answered: Iterable[int]) -> list[Entry]:
    """Returns the entries of lines of the chain behind the first, which they follow; raises LedgerError on damage.

    `answered` holds numbers that are known to be answered and not yet written.
    """
    records, known = list[Record](), set(answered)
    chain = lines[0][: schema.DIGITS] if lines else ""
    try:
        for line in lines[1:]:
            record = schema.read(chain, line)
            if record is None:
                raise LedgerError("the ledger is damaged: a record was changed or is missing")
            chain = record.hash
            if record.kind == schema.ANSWERED:
                known.update(record.content[0])
            elif record.is_entry:
                records.append(record)
        return [_entry(record, record.seq in known) for record in records]
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise LedgerError("the ledger is damaged: it contains invalid values") from error


def _entry(record: Record, is_answered: bool) -> Entry:
    time, account, (epsilon, delta, rho), text = record.content
    loss = from_units((epsilon, delta, rho))
    kind = EntryKind(record.kind)
    if kind is not EntryKind.CHARGE:
        said = json.loads(text)
        kinds = {"kind": kind, "state": State.DECIDED, "query": "", "by": said["by"], "why": said["why"]}
    else:
        kinds = {"kind": kind, "state": State.ANSWERED if is_answered else State.PENDING, "query": text}
    analyst, _, blocks = account.partition(SEPARATOR)
    return Entry(seq=record.seq, time=time, analyst=analyst, loss=loss, hash=record.hash, blocks=blocks, **kinds)


def act(
    by: str,
    why: str,
    budget: Budget | None = None,
    *,
    blocks: tuple[int, int] | None = None,
    declarations: Declarations | None = None,
) -> str:
    """Returns the text of an entry that the owner makes; raises InvalidLossError unless both words are given."""
    for what, said, most in (("by", by, LONGEST_NAME), ("why", why, LONGEST_REASON)):
        if type(said) is not str or not said.strip() or len(said) > most or not said.isprintable():
            advice = "Say who decides and why; the ledger records both."
            raise InvalidLossError(f"{what} is a printable text of 1 to {most:,} characters", advice=advice)
    if budget is not None and type(budget) is not Budget:
        raise InvalidLossError("a limit must be a budget", advice="Write Budget.of(epsilon=1).")
    told: dict[str, object] = {"by": by, "why": why}
    told |= {} if budget is None else {"budget": budget_to_list(budget)}
    told |= {} if blocks is None else {"blocks": list(blocks)}
    told |= {} if declarations is None else {"declarations": declarations.to_json()}
    return json.dumps(told, sort_keys=True)


def check_analyst(name: str) -> str:
    """Returns an analyst's name, or raises InvalidLossError where it cannot be one."""
    if type(name) is not str or name == DATASET or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidLossError("an analyst's name must be a printable text of 1 to 100 characters")
    return name
