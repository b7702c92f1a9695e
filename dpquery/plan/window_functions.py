"""Window functions by what they depend on, and the columns that they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import get_args

from dpquery.errors import Span
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.types import Type

FrameMode = OneOf["rows", "range", "groups"]

RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Functions of the order alone: rows that it leaves equal have one value."""
PLACES = frozenset({"row_number", "ntile", "lag", "lead"})
"""Functions of a row's place among all rows of its partition."""
PICKS = frozenset({"first_value", "last_value", "nth_value"})
"""Functions that give the value of one row of the frame."""
TOTALS = frozenset({"count", "sum", "avg", "min", "max"})
"""Aggregates over the rows of the frame."""
WINDOW_FUNCTIONS = RANKS | PLACES | PICKS | TOTALS


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """Order by a column of the source."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Which rows of its partition a window function sees, counted from the current row; None is without end.

    In `rows` the numbers count rows; in `range` and `groups` rows of equal keys stand together, and in `range` only 0
    and None are known.
    """

    mode: FrameMode
    start: int | None
    end: int | None

    def __post_init__(self) -> None:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError("a frame ends before it starts")
        if self.mode not in get_args(FrameMode) or (self.mode == "range" and {self.start, self.end} - {0, None}):
            raise ValueError("a RANGE frame has no offsets, and no other mode is known")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumn:
    """A window function over rows of equal `partition_by` columns, in the order of `order_by`.

    Functions are those of `window_functions`. The first argument is the value, where there is one; then `lag` and
    `lead` have an offset and perhaps a default, `nth_value` a number; `ntile` has only a number. Rows that `order_by`
    leaves equal are ordered by all columns of the source, so only rows equal in all of them can change places.
    """

    id: str
    name: str
    function: str
    arguments: tuple[Expression, ...]
    filter: Expression | None
    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    frame: Frame | None
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if any(type(held) is not tuple for held in (self.arguments, self.partition_by, self.order_by)):
            raise ValueError("a node holds tuples: what may change is no part of a plan")
        if self.function not in WINDOW_FUNCTIONS:
            raise ValueError(f"{self.function} is no window function")
        numbered = {"ntile": (0, 1), "nth_value": (1, 1), "lag": (1, 0), "lead": (1, 0)}
        place, least = numbered.get(self.function, (0, None))
        if least is not None:
            number = self.arguments[place]
            if not (isinstance(number, Literal) and isinstance(number.value, int) and number.value >= least):
                raise ValueError(f"{self.function} needs a constant number")
