"""The ledger's entries as people and programs read them: charges, and acts of the owner."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dpquery.errors import InvalidLossError
from dpquery.kernel.accountant import Budget, from_units
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.accounts import SEPARATOR
from dpquery.ledger.schema import DATASET, Kind, budget_to_list

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
    kind: Kind = Kind.CHARGE
    by: str = ""
    why: str = ""
    hash: str = ""
    blocks: str = ""


def entry_of(row: tuple[Any, ...], answered: Container[int]) -> Entry:
    """Returns the entry of a row; `answered` holds numbers that are known to be answered and not yet written."""
    seq, time, kind, account, *units, text, hash, written = row
    epsilon, delta, rho = units
    loss = from_units((epsilon, delta, rho))
    if Kind(kind) is not Kind.CHARGE:
        told = json.loads(text)
        kinds = {"kind": Kind(kind), "state": State.DECIDED, "query": "", "by": told["by"], "why": told["why"]}
    else:
        state = State.ANSWERED if written or seq in answered else State.PENDING
        kinds = {"kind": Kind.CHARGE, "state": state, "query": text}
    analyst, _, blocks = account.partition(SEPARATOR)
    return Entry(seq=seq, time=time, analyst=analyst, loss=loss, hash=hash, blocks=blocks, **kinds)


def act(by: str, why: str, budget: Budget | None = None, *, blocks: tuple[int, int] | None = None) -> str:
    """Returns the text of an entry that the owner makes; raises InvalidLossError unless both words are given."""
    for what, said, most in (("by", by, LONGEST_NAME), ("why", why, LONGEST_REASON)):
        if type(said) is not str or not said.strip() or len(said) > most or not said.isprintable():
            advice = "Say who decides, and why; the ledger keeps both."
            raise InvalidLossError(f"{what} is a printable text of 1 to {most:,} characters", advice=advice)
    if budget is not None and type(budget) is not Budget:
        raise InvalidLossError("a limit is a budget", advice="Write Budget.of(epsilon=1).")
    told: dict[str, object] = {"by": by, "why": why}
    told |= {} if budget is None else {"budget": budget_to_list(budget)}
    told |= {} if blocks is None else {"blocks": list(blocks)}
    return json.dumps(told, sort_keys=True)


def check_analyst(name: str) -> str:
    """Returns an analyst's name, or raises InvalidLossError where it cannot be one."""
    if type(name) is not str or name == DATASET or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidLossError("an analyst's name is a printable text of 1 to 100 characters")
    return name
