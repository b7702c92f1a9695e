"""Window functions by what they depend on."""

from __future__ import annotations

RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Functions of the order alone: rows that it leaves equal have one value."""
PLACES = frozenset({"row_number", "ntile", "lag", "lead"})
"""Functions of a row's place among all rows of its partition."""
PICKS = frozenset({"first_value", "last_value", "nth_value"})
"""Functions that give the value of one row of the frame."""
TOTALS = frozenset({"count", "sum", "avg", "min", "max"})
"""Aggregates over the rows of the frame."""
WINDOW_FUNCTIONS = RANKS | PLACES | PICKS | TOTALS
