"""The accounts of a ledger whose rows are in blocks: one for each block, one for the whole. docs/proofs/blocks.md.

An analyst, or all together (""), has the account of that name, the *whole*, and one for each block, named by both. What
is charged to the whole is charged to every block, and a block that is declared later begins with the whole's total.
An entry names the analyst and the blocks in one field, `analyst + SEPARATOR + "2024-01..2024-03,undated"`.
"""

from __future__ import annotations

from dpquery.errors import InvalidLossError
from dpquery.plan.calendar import name_of, number_named
from dpquery.units.blocks import NONE, UNDATED, WHOLE, BlockRange, Touched

SEPARATOR = "\x1f"
"""In no analyst's name, as it is not printable."""
TOTAL = f"{SEPARATOR}total"
"""The account of all charges, to any blocks, without a limit of its own: what the mark follows."""


def family(name: str, axis: BlockRange | None) -> tuple[str, ...]:
    """Returns all accounts of an analyst, the whole first; without blocks there is one."""
    return (name,) if axis is None else (name, *(f"{name}{SEPARATOR}{block}" for block in axis.blocks))


def field_of(analyst: str, touched: Touched | None, axis: BlockRange | None) -> str:
    """Returns how an entry names an analyst and the blocks that are charged: None, and what reaches beyond the axis or
    is empty, is the whole."""
    if axis is None:
        return analyst
    if touched is None or touched == NONE or any(a < axis.first or b > axis.last for a, b in touched.spans):
        return f"{analyst}{SEPARATOR}{WHOLE}"
    ends = [(name_of(first, axis.by), name_of(last, axis.by)) for first, last in touched.spans]
    parts = [first if first == last else f"{first}..{last}" for first, last in ends]
    return f"{analyst}{SEPARATOR}{','.join([*parts, *([UNDATED] if touched.undated else [])])}"


def meant(field: str, axis: BlockRange | None) -> tuple[str, tuple[str, ...]]:
    """Returns the analyst that a field names, and the suffixes of the accounts; raises ValueError on what `field_of`
    does not write."""
    if axis is None:
        return field, ("",)
    analyst, _, blocks = field.partition(SEPARATOR)
    if blocks == WHOLE:
        return analyst, ("", *(f"{SEPARATOR}{block}" for block in axis.blocks))
    parts = [part for part in blocks.split(",") if part != UNDATED]
    ends = [(part.partition("..")[0], part.rpartition("..")[2]) for part in parts]
    spans = tuple((number_named(first, axis.by), number_named(last, axis.by)) for first, last in ends)
    touched = NONE | Touched(spans, parts != blocks.split(","))
    if any(first > last for first, last in spans) or field != field_of(analyst, touched, axis):
        raise ValueError("the entry names no blocks")
    names = [name_of(number, axis.by) for first, last in spans for number in range(first, last + 1)]
    return analyst, tuple(f"{SEPARATOR}{block}" for block in [*names, *([UNDATED] if touched.undated else [])])


def shown(field: str) -> str:
    """Returns the blocks of an entry's field, for people."""
    blocks = field.partition(SEPARATOR)[2]
    return "all blocks" if blocks == WHOLE else blocks.replace("..", " to ").replace(",", ", ")


def widened(axis: BlockRange | None, first: str | None, last: str | None) -> BlockRange:
    """Returns an axis that reaches to blocks of these names; raises InvalidLossError unless it grows."""
    if axis is None:
        raise InvalidLossError("this ledger has no blocks", advice="Blocks are declared when a ledger is created.")
    try:
        ends = [None if name is None else number_named(name, axis.by) for name in (first, last)]
        grown = BlockRange(
            by=axis.by,
            first=axis.first if ends[0] is None else ends[0],
            last=axis.last if ends[1] is None else ends[1],
        )
    except (OverflowError, TypeError, ValueError) as error:
        advice = f"Write them as {name_of(axis.first, axis.by)}."
        raise InvalidLossError(f"these are not blocks of the ledger: {error}", advice=advice) from None
    if grown == axis or not contains(grown, axis):
        held = f"{name_of(axis.first, axis.by)} to {name_of(axis.last, axis.by)}"
        raise InvalidLossError(f"the ledger has blocks from {held}; blocks can only be added")
    return grown


def contains(grown: BlockRange, axis: BlockRange) -> bool:
    """Whether an axis has all blocks of another."""
    return grown.by is axis.by and grown.first <= axis.first and axis.last <= grown.last


def is_whole(name: str) -> bool:
    """Whether an account is one that new blocks are opened from."""
    return SEPARATOR not in name
