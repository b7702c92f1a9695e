"""Sentences about answers that say nothing: they are shown with the answer, in all its ways to people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.accuracy.rules import Interval
from dpquery.plan.intervals import range_of
from dpquery.result.arrays import is_number
from dpquery.result.choices import RankError
from dpquery.result.finish import Finished
from dpquery.result.measurements import Measurement

MOST_NAMED = 3
"""Columns that one sentence names."""


def warnings_of(
    finished: Finished,
    interval_of: Callable[[str], Interval],
    measurements: Sequence[Measurement],
    ranks: Mapping[str, RankError],
) -> tuple[str, ...]:
    """Returns sentences for people: no group was shown, or numbers lack groups that are not; in half of a column's rows
    or more the interval is as wide as the range of all values, or the group too small for a quantile, a minimum or a
    maximum; a number is outside its interval, as a total may be that is divided by a count as small as its noise.

    It follows from the plan and from what is released, so it says nothing more of the data.
    """
    few = _withheld(finished)
    if finished.hidden:
        return (_no_group(measurements), *few)
    few = (*few, _missing(measurements)) if finished.adds_up else few
    wide = {name: _as_wide_as_the_range(finished, name, interval_of) for name in finished.noisy}
    small = {name: error.small for name, error in ranks.items()}
    said = (
        ("intervals as wide as the range of possible values, which say nothing", wide),
        ("groups of too few rows for a rank error as large, of which these say nothing", small),
    )
    rows = len(finished.table)
    half = [(words, {name: n for name, n in where.items() if 2 * n >= rows}) for words, where in said]
    outside = {name: _outside(finished.table[name], interval_of(name)) for name in finished.noisy}
    every = (*half, ("numbers outside their intervals", outside))
    return (*few, *(f"{words}: {names}" for words, where in every if (names := _named(where, rows))))


def _withheld(finished: Finished) -> tuple[str, ...]:
    """Returns what is left out because of few people: it follows from released counts."""
    left = [(one, groups) for one, groups in finished.withheld if groups]
    what = ["the total" if one.is_total else f"{groups:,} group{'s' * (groups > 1)}" for one, groups in left]
    return tuple(
        f"withheld: {named}, of fewer than min_units {one.least:,} people (noisy)"
        for (one, _), named in zip(left, what, strict=True)
    )


def _named(where: Mapping[str, int], rows: int) -> str:
    """Returns the columns and in how many rows, for people; "" where it is none."""
    found = [(name, count) for name, count in where.items() if count]
    named = [name if count == rows == 1 else f"{name} in {count:,} of {rows:,} rows" for name, count in found]
    more = f" and {len(named) - MOST_NAMED} more columns" if len(named) > MOST_NAMED else ""
    return ", ".join(named[:MOST_NAMED]) + more


def _least(measurements: Sequence[Measurement]) -> str:
    taus = sorted({made.tau for made in measurements if made.tau is not None})
    return f"at least {taus[0]:,} units, counted with noise" if taus else "enough units"


def _missing(measurements: Sequence[Measurement]) -> str:
    return f"only groups of {_least(measurements)}, are in numbers over several groups"


def _no_group(measurements: Sequence[Measurement]) -> str:
    return (
        f"no group was shown: a group needs {_least(measurements)}. Group coarser, offer more, "
        "or declare the keys as public if everybody may know them"
    )


def _as_wide_as_the_range(finished: Finished, name: str, interval_of: Callable[[str], Interval]) -> int:
    """Returns in how many rows an interval contains every possible value of the column, for any data."""
    meaning = finished.noisy.get(name)
    known = None if meaning is None else range_of(meaning, {})
    if known is None or known.lower is None or known.upper is None:
        return 0
    low, high = float(known.lower), float(known.upper)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return 0
    interval, slack = interval_of(name), (high - low) * 1e-9
    return int(np.sum((interval.lower <= low + slack) & (interval.upper >= high - slack)))


def _outside(column: pa.ChunkedArray, interval: Interval) -> int:
    """Returns how many numbers of a column lie outside their intervals, by more than they may be rounded for."""
    if not is_number(column.type):
        return 0
    values = pc.cast(column, pa.float64(), safe=False).to_numpy()
    step = 0.0 if pa.types.is_floating(column.type) else 10.0 ** -getattr(column.type, "scale", 0)
    slack = step / 2 + 1e-9 * (1 + np.abs(values))
    return int(np.sum((values < interval.lower - slack) | (values > interval.upper + slack)))
