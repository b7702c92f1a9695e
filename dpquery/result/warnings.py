"""Sentences about answers that say nothing: they are shown with the answer, in all its ways to people."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpquery.accuracy.rules import Interval
from dpquery.plan.intervals import range_of
from dpquery.result.finish import Finished
from dpquery.result.measurements import Measurement

MOST_NAMED = 3
"""Columns that one sentence names."""


def warnings_of(
    finished: Finished, interval_of: Callable[[str], Interval], measurements: Sequence[Measurement]
) -> tuple[str, ...]:
    """Returns at most one sentence: no group was shown, or in half of its rows or more a column's intervals are as wide
    as the range that all its values have.

    It follows from the plan and from what is released, so it says nothing more of the data.
    """
    if finished.hidden:
        return (_no_group(measurements),)
    found = []
    for name in finished.noisy:
        wide = _as_wide_as_the_range(finished, name, interval_of)
        rows = len(finished.table)
        if wide and 2 * wide >= rows:
            found.append((name, rows, wide))
    if not found:
        return ()
    named = [name if wide == rows == 1 else f"{name} in {wide:,} of {rows:,} rows" for name, rows, wide in found]
    more = f" and {len(named) - MOST_NAMED} more columns" if len(named) > MOST_NAMED else ""
    listed = ", ".join(named[:MOST_NAMED])
    return (f"intervals as wide as the range of possible values, which say nothing: {listed}{more}",)


def _no_group(measurements: Sequence[Measurement]) -> str:
    taus = sorted({made.tau for made in measurements if made.tau is not None})
    least = f"at least {taus[0]:,} units, counted with noise" if taus else "enough units"
    return (
        f"no group was shown: a group needs {least}. Group coarser, offer more, "
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
