"""Names, grouping values, and values on their lattice, in DuckDB's SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from dpquery.errors import InternalError
from dpquery.kernel.plan import Lattice, Measure
from dpquery.plan.types import FLOAT64, Kind, Type

_ID = re.compile(r"[a-z][a-z0-9_]*")


def normal(value: str, type: Type) -> str:
    """Returns a grouping value in one form: 0.0 and -0.0 are one group, and either of them could stand for it."""
    return f"({value} + 0.0::DOUBLE)" if type == FLOAT64 else value


def name(id: str) -> str:
    """Returns an id as a name in SQL; only names that the planner makes have this form."""
    if not _ID.fullmatch(id):
        raise InternalError("an id of a plan cannot be a name in SQL")
    return id


def lattice_value(value: str, type: Type, lattice: Lattice, *, is_step: bool = False) -> str:
    """Returns SQL that puts a column on its lattice: a BIGINT within the lattice's bounds; NULL for NULL and NaN. Of a
    Bernstein term it is the value above the lower bound, of which `bernstein_sum` makes the term.

    Args:
        is_step: Whether the column holds round(clamp(value / grid)) already, as an integer of some width.
    """
    step = f"CAST({value} AS BIGINT)" if is_step else _on_grid(value, type, lattice)
    offset = lattice.lower if lattice.bernstein is not None else lattice.offset
    if offset:
        step = f"({step} - {offset})"
    if not lattice.squared:
        return step
    return f"({step} * {step} - {lattice.offset_of_square})"


def bernstein_sum(lattice: Lattice, added: Callable[[int], str]) -> str:
    """Returns SQL for the sum of a Bernstein term C(d, i) j^i (N - j)^k over rows: N times the sum of j^i (N - j)^(k-1)
    less that of j^(i+1) (N - j)^(k-1), and so on. All of them are sums of what is not negative, none of more than N^d.

    Args:
        added: To a power the sum of j to that power, in SQL.
    """
    above, below = lattice.bernstein or (0, 0)
    most = f"CAST('{lattice.upper - lattice.lower}' AS HUGEINT)"

    def summed(i: int, k: int) -> str:
        return added(i) if k == 0 else f"({most} * {summed(i, k - 1)} - {summed(i + 1, k - 1)})"

    times = math.comb(lattice.degree, above)
    return summed(above, below) if times == 1 else f"({times} * {summed(above, below)})"


def _on_grid(value: str, type: Type, lattice: Lattice) -> str:
    """Returns round(clamp(value / grid)): exact for integers on a grid of 1, else in floats below 2^53 steps.

    Dates are days and timestamps microseconds since 1970-01-01.

    Bounds are compared before anything is rounded, so nothing overflows. DuckDB orders NaN above infinity, so NaN
    passes no branch; its cast of a float to an integer rounds half to even.
    """
    lower, upper = lattice.lower, lattice.upper
    if type.kind is Kind.DATE:
        value = f"({value} - DATE '1970-01-01')"
    elif type.kind is Kind.TIMESTAMP:
        value = f"epoch_us({value})"
    if type.kind in (Kind.INT64, Kind.DATE, Kind.TIMESTAMP) and lattice.grid == 1:
        return (
            f"CASE WHEN {value} BETWEEN {lower} AND {upper} THEN {value} "
            f"WHEN {value} < {lower} THEN {lower} WHEN {value} > {upper} THEN {upper} END"
        )
    steps = value if type.kind is Kind.FLOAT64 else f"CAST({value} AS DOUBLE)"
    if lattice.grid.numerator == 1 and lattice.grid.denominator < 2**1000:
        steps = f"({steps} * {lattice.grid.denominator}::DOUBLE)"
    else:
        steps = f"({steps} / {float(lattice.grid)!r}::DOUBLE)"
    return (
        f"CASE WHEN {steps} BETWEEN {lower}::DOUBLE AND {upper}::DOUBLE THEN CAST({steps} AS BIGINT) "
        f"WHEN {steps} < {lower}::DOUBLE THEN {lower} WHEN {steps} <= 'inf'::DOUBLE THEN {upper} END"
    )


def value_of(measure: Measure) -> str:
    """Returns the column of a measure's values."""
    return name(measure.value or "")


def filtered(measure: Measure, *more: str) -> str:
    """Returns the FILTER of a measure, with more conditions."""
    conditions = [*([] if measure.filter is None else [name(measure.filter)]), *more]
    return f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""


def weight_of_present(weight: str, measure: Measure, *values: str) -> str:
    """Returns the sum of what rows weigh in which none of these values is NULL: of all rows, without those in which one
    is, as an engine filters faster what passes seldom, and has the first sum anyway beside a COUNT(*)."""
    every = f"COALESCE(SUM({weight}){filtered(measure)}, 0)"
    if not values:
        return every
    missing = " OR ".join(f"{value} IS NULL" for value in values)
    return f"({every} - COALESCE(SUM({weight}){filtered(measure, f'({missing})')}, 0))"


def group_by(columns: list[str]) -> str:
    """Returns the GROUP BY of these columns, if there are some."""
    return f" GROUP BY {', '.join(columns)}" if columns else ""
