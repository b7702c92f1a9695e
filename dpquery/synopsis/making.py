"""From a table's columns to synthetic rows: three rounds of questions, and a distribution that fits all answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from dpquery.synopsis.axes import Axis
from dpquery.synopsis.model import STRENGTH, Integers, Marginal, Model
from dpquery.synopsis.rounds import (
    FIRST,
    LEAST_GROUPS,
    OF_ALL_PAIRS,
    OF_TRIPLES,
    Question,
    all_pairs,
    alone,
    combined,
    dependent,
    for_columns,
    least_share,
    settle,
    triples_of,
)
from dpquery.synopsis.scattered import Scattered
from dpquery.synopsis.synthetic_rows import table_of

MOST_ROWS, IN_MODEL = 1_000_000, 100_000
"""Rows of a synopsis, and of the sample with which a distribution is found."""

Ask = Callable[[Sequence[Question], Sequence[Axis], Fraction], Sequence[Marginal]]
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

    asked: tuple[Axis, ...]
    first: tuple[Marginal, ...]
    axes: tuple[Axis, ...]
    later: tuple[Marginal, ...]


def measure(axes: Sequence[Axis], ask: Ask, is_pure: bool) -> Transcript:
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


def draw(transcript: Transcript, *, rows: int | None, max_rows: int) -> tuple[pa.Table, Integers]:
    """Returns synthetic rows, as values and as cells: a function of what was measured alone, without a private row.

    Args:
        rows: How many; by default as many as the table has, as far as noise lets it be known.
        max_rows: What the rows of one unit weigh at most: so many rows tell as much as one.
    """
    settled = settle(transcript.asked, transcript.first)
    marginals = [*settled.marginals, *transcript.later]
    scattered = Scattered(int.from_bytes(_digest(transcript)[:8], "big"))
    count = rows or max(1, min(MOST_ROWS, round(settled.total)))
    strength = STRENGTH / max_rows
    model = Model(settled.shares(marginals), settled.total, min(IN_MODEL, 10 * count), marginals, strength, scattered)
    model.fit()
    cells = model.sample(count)
    return table_of(cells, transcript.asked, settled, settled.total / count, scattered), cells


def _digest(transcript: Transcript) -> bytes:
    found = hashlib.sha256()
    for one in (*transcript.first, *transcript.later):
        found.update(repr(one.columns).encode() + one.numbers.tobytes() + one.variances.tobytes())
    return found.digest()
