"""From a table's columns to synthetic rows: three rounds of questions, and a distribution that fits all answers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpquery.data.arrow import arrow_type
from dpquery.plan.types import Kind
from dpquery.synopsis.axes import SynopsisAxis, numbers_of, value_of
from dpquery.synopsis.model import STRENGTH, Integers, Marginal, Model
from dpquery.synopsis.pseudorandom import Scattered
from dpquery.synopsis.rounds import (
    FIRST,
    LEAST_GROUPS,
    OF_ALL_PAIRS,
    OF_TRIPLES,
    MarginalQuestion,
    Settled,
    all_pairs,
    alone,
    combined,
    dependent,
    for_columns,
    least_share,
    settle,
    triples_of,
)

MOST_ROWS, IN_MODEL = 1_000_000, 100_000
"""Rows of a synopsis, and of the sample with which a distribution is found."""

Ask = Callable[[Sequence[MarginalQuestion], Sequence[SynopsisAxis], Fraction], Sequence[Marginal]]
"""Measures questions over axes, for a share of the whole loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What was measured, in order: the rest of a synopsis follows from it.

    Attributes:
        asked: The axes of the first round.
        first: Its marginals.
        axes: The axes of all later rounds.
        later: Their marginals.
    """

    asked: tuple[SynopsisAxis, ...]
    first: tuple[Marginal, ...]
    axes: tuple[SynopsisAxis, ...]
    later: tuple[Marginal, ...]


def measure(axes: Sequence[SynopsisAxis], ask: Ask, is_pure: bool) -> Transcript:
    """Returns what the rounds measure. What they ask follows from the answers before and from the axes alone.

    Args:
        ask: Is asked for shares of the loss that add up to 1 at most.
        is_pure: Whether noise is in proportion to 1 / loss, as under a pure budget, or to the root of it.
    """
    first = tuple(ask(alone(axes), axes, FIRST))
    settled, later = settle(axes, first), list[Marginal]()

    def ask_alone(share: Fraction) -> None:
        later.extend(ask(alone(settled.axes), settled.axes, share))

    def ask_combined(
        chosen: Sequence[tuple[int, ...]], share: Fraction, crowding: Mapping[tuple[int, ...], float]
    ) -> list[Marginal]:
        shares = settled.shares([*settled.marginals, *later])
        asked = combined(settled, shares, chosen, share, is_pure, crowding)
        found = list(ask(asked, settled.axes, share)) if asked else []
        later.extend(found)
        return found

    columns = for_columns(settled, is_pure)
    if columns > FIRST:
        ask_alone(columns - FIRST)
    if len(axes) > 1:
        rest = 1 - columns
        of_all = OF_ALL_PAIRS * rest
        worth, crowding = dependent(ask_combined(all_pairs(settled), of_all, {}))
        triples, of_triples = triples_of(len(axes), worth), OF_TRIPLES * (rest - of_all)
        if triples and 1 / least_share(settled, 3, len(triples), of_triples, is_pure) < LEAST_GROUPS:
            triples = []
        of_pairs = rest - of_all - (of_triples if triples else 0)
        if not worth:
            ask_alone(of_pairs)
        else:
            ask_combined(list(worth), of_pairs, crowding)
        if triples:
            ask_combined(triples, of_triples, crowding)
    return Transcript(asked=tuple(axes), first=first, axes=settled.axes, later=tuple(later))


def draw(transcript: Transcript, *, rows: int | None) -> tuple[pa.Table, Integers]:
    """Returns synthetic rows, as values and as cells: a function of what was measured alone, without a private row.

    Args:
        rows: How many; by default as many as the table has, as far as noise lets it be known.
    """
    settled = settle(transcript.asked, transcript.first)
    marginals = [*settled.marginals, *transcript.later]
    scattered = Scattered(int.from_bytes(_digest(transcript)[:8], "big"))
    count = rows or max(1, min(MOST_ROWS, round(settled.total)))
    noises = [math.sqrt(one.variances[0]) for one in transcript.later or transcript.first]
    strength = STRENGTH / float(np.median(noises))
    model = Model(settled.shares(marginals), settled.total, min(IN_MODEL, 10 * count), marginals, strength, scattered)
    model.fit()
    cells = model.sample(count)
    return table_of(cells, transcript.asked, settled, settled.total / count, scattered), cells


def _digest(transcript: Transcript) -> bytes:
    found = hashlib.sha256()
    for one in (*transcript.first, *transcript.later):
        found.update(repr(one.columns).encode() + one.numbers.tobytes() + one.variances.tobytes())
    return found.digest()


WEIGHT = "row_weight"
PARTS = 16
"""Values of float64 lie on so many places of a cell: more would take space and tell nothing."""


def table_of(
    rows: Integers, asked: Sequence[SynopsisAxis], settled: Settled, weight: float, scattered: Scattered
) -> pa.Table:
    """Returns the rows with typed columns, and the number of rows that each stands for.

    Args:
        rows: Cells, shape (rows, columns).
        asked: The axes of the first round; `settled` has what was made of them.
    """
    columns = {axis.name: _column(rows[:, i], axis, settled, i, scattered) for i, axis in enumerate(asked)}
    return pa.table({**columns, weight_name(asked): pa.array(np.full(len(rows), weight))})


def weight_name(axes: Sequence[SynopsisAxis]) -> str:
    """Returns the name of the column of weights."""
    name, taken = WEIGHT, {axis.name.casefold() for axis in axes}
    while name in taken:
        name += "_"
    return name


def _column(cells: Integers, axis: SynopsisAxis, settled: Settled, at: int, scattered: Scattered) -> pa.Array:
    kind, is_null = arrow_type(axis.type), np.zeros(len(cells), dtype=bool)
    if axis.nullable:
        is_null = cells == settled.axes[at].size - 1
    if axis.values:
        held = pa.array(list(axis.values), kind)
        return held.take(pa.array(np.where(is_null, 0, cells), mask=is_null))
    first = _first_cells(np.where(is_null, 0, cells), settled.merged[at], settled.within[at], scattered)
    edges = numbers_of(axis.edges)
    low, high = edges[first], edges[first + 1]
    match axis.type.kind:
        case Kind.INT64 | Kind.DATE:
            last = first == axis.plain - 1
            numbers = low + np.floor(scattered.numbers(len(low)) * np.maximum(1, high - low + last))
        case Kind.TIMESTAMP:
            numbers = low + np.floor(scattered.numbers(len(low)) * np.maximum(1, (high - low) // 10**6)) * 10**6
        case _:
            numbers = (
                low + np.floor(scattered.numbers(len(low)) * PARTS) * (high - low) / PARTS + (high - low) / (2 * PARTS)
            )
    numbers = np.minimum(numbers, edges[-1])
    different, places = np.unique(numbers, return_inverse=True)
    values = pa.array([value_of(Fraction(number), axis.type) for number in different.tolist()], kind)
    return values.take(pa.array(places, mask=is_null))


def _first_cells(
    cells: Integers, merged: Integers, within: np.ndarray[tuple[int], np.dtype[np.float64]], scattered: Scattered
) -> Integers:
    """Returns for each cell one of the first cells that were merged into it, by their numbers of rows."""
    ends = np.cumsum(within)
    start = np.concatenate([[0.0], ends])[np.searchsorted(merged, np.arange(merged.max() + 1))]
    whole = np.bincount(merged, within)
    at = start[cells] + scattered.numbers(len(cells)) * whole[cells]
    found = np.minimum(np.searchsorted(ends, at, side="right"), len(merged) - 1)
    return np.where(merged[found] == cells, found, np.searchsorted(merged, cells))
