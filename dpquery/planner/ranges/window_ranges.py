"""Ranges of window functions within one unit's rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpquery.plan.expr import Literal
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import WindowColumn
from dpquery.plan.ranges import UNKNOWN, Range, hull, total_range
from dpquery.plan.windows import frame_of, may_be_empty, summand


def window_range(column: WindowColumn, source: dict[str, Range], rows: int | None) -> Range:
    """Returns the range of a window function over one unit's rows, at most `rows` of them if that is known."""
    most = None if rows is None else Fraction(rows)
    match column.function:
        case "row_number" | "rank" | "dense_rank":
            return Range(lower=Fraction(1), upper=most, nullable=False)
        case "ntile":
            tiles = column.arguments[0]
            number = tiles.value if isinstance(tiles, Literal) and isinstance(tiles.value, int) else 1
            return Range(lower=Fraction(1), upper=Fraction(number), nullable=False)
        case "percent_rank" | "cume_dist":
            return Range(lower=Fraction(0), upper=Fraction(1), nullable=False)
        case "count":
            return Range(lower=Fraction(0), upper=_within_frame(column, most), nullable=False)
        case "lag" | "lead":
            known = range_of(column.arguments[0], source)
            if len(column.arguments) < 3:
                return replace(known, nullable=True)
            return hull(known, range_of(column.arguments[2], source))
    return _of_frame(column, source, most)


def _of_frame(column: WindowColumn, source: dict[str, Range], most: Fraction | None) -> Range:
    """Returns the range of a function of the rows of a frame: NULL where the frame holds no value."""
    argument = column.arguments[0]
    known = range_of(argument, source)
    nullable = known.nullable or column.filter is not None or may_be_empty(frame_of(column))
    match column.function:
        case "first_value" | "last_value" | "min" | "max":
            return replace(known, nullable=nullable)
        case "nth_value":
            return replace(known, nullable=True)
        case "avg":
            return replace(range_of(summand(argument), source), nullable=nullable)
        case "sum":
            return total_range(
                range_of(summand(argument), source),
                _within_frame(column, most),
                nullable=nullable,
            )
        case _:
            return UNKNOWN


def _within_frame(column: WindowColumn, most: Fraction | None) -> Fraction | None:
    """Returns the most rows that a frame holds, where the partition holds `most`."""
    frame = frame_of(column)
    if frame.mode != "rows" or frame.start is None or frame.end is None:
        return most
    width = Fraction(frame.end - frame.start + 1)
    return width if most is None else min(most, width)
