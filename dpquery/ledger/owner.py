"""What only the owner does to a ledger: change limits, and accept one that was restored. docs/proofs/ledger.md.

Each act is an entry of the chain. None lowers a total, and no limit falls below what was spent.
"""

from __future__ import annotations

from collections.abc import Callable

from dpquery.errors import InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget, LedgerAmount, from_units
from dpquery.ledger.mark import Checkpoint, MarkFile
from dpquery.ledger.replay import Replay
from dpquery.ledger.schema import DATASET, NOTHING, Mark
from dpquery.ledger.terms import minus, units_of

Holds = Callable[[Mark], bool]
"""Whether a ledger holds a marked entry."""


def new_limit(replay: Replay, account: str, budget: Budget) -> LedgerAmount:
    """Returns another limit of an account, as the ledger counts it.

    Raises InvalidLossError for a budget of another kind, below what was spent, or where analysts have no limits.
    """
    kind = replay.terms.budgets[DATASET].kind
    if type(budget) is not Budget or budget.kind is not kind:
        raise InvalidLossError(f"the new limit must be a budget of the dataset's kind, {kind.value}")
    if account != DATASET and replay.terms.is_open:
        advice = "Limits of analysts are declared when a ledger is created."
        raise InvalidLossError(
            "any analyst may spend this ledger's budget; analysts have no limits of their own", advice=advice
        )
    units = units_of(budget)
    if not replay.fits(account, units):
        where = "in some block" if replay.terms.axis else str(from_units(replay.spent(account)))
        raise InvalidLossError(f"the new limit of {from_units(units)} is below what was already spent, {where}")
    return units


def lost(replay: Replay, marks: MarkFile, holds: Holds, *, is_mark_lost: bool) -> LedgerAmount:
    """Returns the most that a restored ledger may have lost, of each part.

    Claim:
        Every answer's charge is in this ledger's chain, or within what is returned (docs/proofs/ledger.md). Between the
        newest level of the mark and the newest that the chain still holds lie all charges that the mark saw and the
        chain may not hold. Without a mark, it is all that the dataset had left. With blocks, the levels are sums of all
        charges to any blocks, and the whole has at least as much left as any block.
    """
    if is_mark_lost and not marks.path.exists():
        return replay.left(DATASET) or NOTHING
    levels = marks.read(replay.terms.identity).levels
    if holds(levels[0].mark):
        raise LedgerError("the ledger contains every entry that its mark records; there is nothing to reconcile")
    base = next(level for level in levels if holds(level.mark))
    return minus(levels[0].spent, base.spent)


def kept(replay: Replay, marks: MarkFile, holds: Holds) -> list[Checkpoint]:
    """Returns what a mark goes on remembering when a ledger is accepted: the levels that the chain holds."""
    founding = Checkpoint(Mark(0, replay.terms.identity), NOTHING)
    levels = marks.read(replay.terms.identity).levels if marks.path.exists() else (founding,)
    return [level for level in levels if holds(level.mark)]
