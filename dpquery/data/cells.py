"""How the shards of prepared tables are cut by a date: into cells, each a file, of which a query about some days reads
those of these days. Which ones follows from the query and the declarations alone.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from dpquery.plan.calendar import By, first_day, number_of
from dpquery.units.blocks import FIRST, LAST, Touched

ROWS_OF_CELL = 250_000
"""Rows that a cell has on average, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Which cell a row is in: 0 without a date, else 1 for the first period, 2 for the next, ...

    Attributes:
        column: Of dates or timestamps.
        by: How long a period is.
        first, last: The numbers of the first and the last period, which hold all rows before and after them too.
    """

    column: str
    by: By
    first: int
    last: int

    def __post_init__(self) -> None:
        if not FIRST < self.first <= self.last < LAST:
            raise ValueError("periods go from one number to another")

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.last - self.first + 2

    @property
    def ends(self) -> tuple[datetime.date, datetime.date]:
        """The first days of the first and the last period."""
        return first_day(self.first, self.by), first_day(self.last, self.by)

    def meets(self, cell: int, touched: Touched) -> bool:
        """Whether a cell may hold rows of these periods."""
        if not cell:
            return touched.undated
        number = self.first + cell - 1
        low, high = (FIRST if number == self.first else number), (LAST if number == self.last else number)
        return any(a <= high and low <= b for a, b in touched.spans)

    def to_json(self) -> list[Any]:
        """Returns what `from_json` reads."""
        return [self.column, self.by.value, self.first, self.last]

    @staticmethod
    def from_json(content: Any) -> Cut:
        """Returns the cut of a manifest; raises TypeError or ValueError for anything else."""
        column, by, first, last = content
        return Cut(column=str(column), by=By(by), first=int(first), last=int(last))


def cut_of(column: str, lower: datetime.date, upper: datetime.date, rows: int) -> Cut | None:
    """Returns the finest cut of so many rows, of days within these bounds; None where they are too few for any."""
    for by in By:
        cut = Cut(column=column, by=by, first=number_of(lower, by), last=number_of(upper, by))
        if 1 < cut.cells - 1 <= rows // ROWS_OF_CELL:
            return cut
    return None
