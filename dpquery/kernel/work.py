"""The work bound of a whole plan: what one stored row can cause in all that one query measures. docs/proofs/work.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpquery.kernel.plan import CHOICES, BudgetedPlan, Count, PrivateAggregate
from dpquery.units.costs import SORT, STEP, lengths
from dpquery.units.declarations import Declarations
from dpquery.units.public_work import PUBLIC_PART
from dpquery.units.sizes import Sizes, Unbounded
from dpquery.units.work import OperatorCost, Work

TEXTS = 1_000_000
"""Bytes of text that one stored row may have in memory."""
BYTES = 4
"""Of a character, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What one stored row may cause.

    Attributes:
        steps: The most steps.
        sizes: Facts of stored tables, from which the steps of a plan are counted.
    """

    steps: int
    sizes: Sizes


def parts_of(plan: BudgetedPlan, declared: Declarations, sizes: Sizes) -> tuple[OperatorCost, ...]:
    """Returns what each operator of a plan costs for one stored row, one measured table after another.

    Source:
        docs/proofs/work.md, Theorem 1.
    """
    return tuple(part for one in plan.aggregates for part in _of_aggregate(one.aggregate, declared, sizes))


def steps_of(parts: Iterable[OperatorCost]) -> int:
    """Returns steps from characters, rounded up."""
    return -(-sum(part.characters for part in parts) // STEP)


def require_bounded(plan: BudgetedPlan, declared: Declarations, allowed: Allowed) -> None:
    """Raises Unbounded unless one stored row causes at most the allowed steps, and texts of at most 1 MB.

    Privacy:
        Then one unit with r rows in each table changes at most r times the allowed steps, for any values of the rows.
    Source:
        docs/proofs/work.md, Theorem 1.
    """
    parts = parts_of(plan, declared, allowed.sizes)
    steps, held = steps_of(parts), BYTES * sum(part.held for part in parts)
    if steps > allowed.steps:
        raise _refused(parts, f"{steps:,} steps", f"{allowed.steps:,}", max(parts, key=lambda p: p.characters))
    if held > TEXTS:
        raise _refused(parts, f"{held:,} bytes of text", f"{TEXTS:,}", max(parts, key=lambda p: p.held))


def _of_aggregate(aggregate: PrivateAggregate, declared: Declarations, sizes: Sizes) -> list[OperatorCost]:
    """Each row is put into its group, counted in each measure, and for some measures sorted."""
    if not aggregate.measures:
        return []
    read = [id for measure in aggregate.measures for id in (measure.value, measure.filter) if id is not None]
    read += [measure.second.value for measure in aggregate.measures if measure.second is not None]
    read += [id for key in aggregate.keys for id in key.columns]
    needed = frozenset(read if aggregate.unit is None else [*read, aggregate.unit])
    work = Work(declared=declared, sizes=sizes)
    rows = work.add(aggregate.source, needed)
    longest = lengths(aggregate.source)
    counts = [measure.count for measure in aggregate.measures]
    sorts = sum(count in (*CHOICES, Count.DECIDING) for count in counts) + 2 * counts.count(Count.DISTINCT)
    texts = sum(longest[id] for id in needed)
    characters = STEP * (1 + len(needed) + len(aggregate.measures)) + texts + sorts * SORT
    measured = OperatorCost(
        what="what is measured", rows=rows, characters=rows * characters, held=rows * texts, span=None
    )
    return [*work.parts, measured]


def _refused(parts: tuple[OperatorCost, ...], found: str, most: str, dearest: OperatorCost) -> Unbounded:
    """Returns the refusal, which names the operator that costs most and, if it has many rows, the join they are of."""
    reason = f"one stored row may cause {found} here, but at most {most} are allowed"
    joins = [part for part in parts if part.what == "a join" and part.rows > 1]
    if joins and dearest.rows > 1:
        join = max(joins, key=lambda part: part.rows)
        return Unbounded(
            f"{reason}: a join makes {join.rows:,} rows of it",
            "Join on more columns of the public table, or with fewer rows; the catalog's `work` is the limit.",
            join.span,
        )
    if dearest.what == PUBLIC_PART:
        return Unbounded(
            f"{reason}, as it may start {dearest.what}",
            "Join public tables on more columns, or store what is computed of them as a public table of its own.",
        )
    share = -(-dearest.characters // STEP)
    return Unbounded(
        f"{reason}, most of them ({share:,} steps) by {dearest.what}",
        "Shorten the texts first, for example with LEFT(text, 100), or ask for less at once; the catalog's "
        "`max_length` says how long texts are read, and its `work` is the limit.",
        dearest.span,
    )
