"""Strata of a stored table: parts of it, in each of which a privacy unit's rows weigh a bounded number of rows."""

from __future__ import annotations

from dataclasses import dataclass

from dpquery.plan.calendar import By


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata:
    """What tells the stratum of a stored row, and what the rows of one unit weigh there together at most.

    A scan of max_rows M with strata of max_rows m gives each row, in place of the weight without strata,
    floor(2^24 * min(1, m / T) * min(1, M / A)), rounded once: T is the number of the unit's stored rows in the table
    (in the row's block of it, where rows are in blocks) that are in the row's stratum, and A the sum of min(m, T) over
    the strata in which the unit has rows there. `row_limit` moves neither. Backends owe the kernel this sentence.

    Rows are in one stratum where the column holds equal values, or dates of one calendar period; those in which it is
    NULL are one. Any value makes a stratum, declared or not.

    Attributes:
        column: The name of a stored column, read as declared.
        by: The period, for a date or a timestamp; None for the column's value.
        max_rows: What a unit's rows in one stratum weigh together at most, in rows.
    """

    column: str
    by: By | None
    max_rows: int

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise ValueError("a unit may weigh one row at least")
