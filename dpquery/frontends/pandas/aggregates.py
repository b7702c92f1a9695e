"""pandas' aggregates, one row each: its name, its SQL, of which columns it is, and what the method says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpquery.catalog.names import suggestion
from dpquery.errors import MissingBoundsError, UnsupportedQueryError
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.values import quoted


@dataclass(frozen=True, slots=True)
class PandasAggregate:
    """One of pandas' aggregates.

    Attributes:
        sql: Of a column, which stands for `{}`; of a sample, where `of_population` is what `ddof=0` asks for.
        doc: What it returns.
        of: "all" columns, which need no bounds; "numbers"; "ranked": numbers, dates and timestamps, but no booleans; or
            "plain" numbers, without booleans.
    """

    sql: str
    doc: str
    of: str = "numbers"
    of_population: str = ""

    def form(self, asked: dict[str, Any]) -> str:
        """Returns its SQL for the arguments of a call, and takes `ddof` out of them."""
        if not self.of_population:
            return self.sql
        ddof = asked.pop("ddof", 1)
        if ddof not in (0, 1) or isinstance(ddof, bool):
            raise UnsupportedQueryError("ddof must be 1 (sample) or 0 (population)")
        return self.sql if ddof else self.of_population

    def fits(self, column: FrameColumn) -> bool:
        """Whether a column's type has it."""
        if column.type == "boolean":
            return self.of in ("all", "numbers")
        return self.of == "all" or column.is_number or (self.of == "ranked" and column.is_moment)


_SPREAD = "of a sample, or with `ddof=0` of a population"
AGGREGATES: Mapping[str, PandasAggregate] = {
    "size": PandasAggregate("COUNT(*)", "the number of rows", "all"),
    "count": PandasAggregate("COUNT({})", "how many values are not missing", "all"),
    "nunique": PandasAggregate("COUNT(DISTINCT {})", "how many different values there are", "all"),
    "sum": PandasAggregate("SUM({})", "sums"),
    "mean": PandasAggregate("AVG({})", "means"),
    "var": PandasAggregate("VAR_SAMP({})", f"variances: {_SPREAD}", of_population="VAR_POP({})"),
    "std": PandasAggregate("STDDEV_SAMP({})", f"standard deviations: {_SPREAD}", of_population="STDDEV_POP({})"),
    "median": PandasAggregate("MEDIAN({})", "values near the median: chosen by rank, privately", "ranked"),
    "min": PandasAggregate(
        "MIN({})", "values near the least that several units reach: that of one is never shown", "ranked"
    ),
    "max": PandasAggregate("MAX({})", "values near the greatest that several units reach", "ranked"),
    "mode": PandasAggregate("MODE({})", "the most frequent of public values", "all"),
}
_OTHERS = {
    "quantile": PandasAggregate("QUANTILE_CONT({}, {})", "values near quantiles", "ranked"),
    "describe": PandasAggregate("", "several of these", "plain"),
}
"""What methods of their own ask, which `agg` does not know; what is in neither table is of numbers."""


def method(name: str) -> Callable[..., Any]:
    """Returns a method that asks one aggregate of the columns that it is given, of which its class has `_reduced`."""
    row = AGGREGATES[name]

    def asks(self: Any, *columns: Any, **asked: Any) -> Any:
        return self._reduced(name, row.form(asked), *columns, **asked)

    asks.__name__ = asks.__qualname__ = name
    asks.__doc__ = f"Returns {row.doc}; in SQL {row.sql.format('column')}."
    return asks


def aggregate(function: object, column: FrameColumn) -> str:
    """Returns the SQL of an aggregate of a column.

    Raises:
        UnsupportedQueryError: No such aggregate, or not of such a column.
        MissingBoundsError: It needs bounds, and the column has none.
    """
    if not isinstance(function, str) or function not in AGGREGATES:
        reason = "name an aggregate with a string; functions are never called on rows"
        if isinstance(function, str):
            reason = f"there is no aggregate {function!r}; {suggestion(function, AGGREGATES)}"
        raise UnsupportedQueryError(reason, advice=f"Known: {', '.join(AGGREGATES)}.")
    demand(function, column)
    return AGGREGATES[function].sql.format(quoted(column.name))


def demand(function: str, column: FrameColumn) -> None:
    """Refuses an aggregate that a column's type or missing bounds do not allow."""
    row = _row(function)
    if row.of == "all":
        return
    if not row.fits(column):
        reason = f"{function} of {column.name}: its values are of type {column.type}"
        raise UnsupportedQueryError(reason, advice=_instead(column))
    if not column.has_bounds:
        name = repr(column.name)
        raise MissingBoundsError(
            f"{function} of {column.name} needs bounds, and {column.name} has none",
            advice=f"Declare them with protect(..., bounds={{{name}: (lower, upper)}}), or for this call: "
            f".assign_bounds({{{name}: (lower, upper)}}). If they are unknown, .suggest_bounds({name}) finds some.",
        )


def _row(function: object) -> PandasAggregate:
    name = function if isinstance(function, str) else ""
    return AGGREGATES.get(name) or _OTHERS.get(name) or PandasAggregate("", "")


def _instead(column: FrameColumn) -> str:
    if column.type == "boolean":
        return f"Write value_counts({column.name!r}), or mean({column.name!r}) for the part that is True."
    ranks = "; of dates and timestamps min, max, median and quantile too" if column.is_moment else ""
    return f"Numbers have it; of other columns count, nunique and mode{ranks}."


def numbers(function: object, columns: Mapping[str, FrameColumn], without: tuple[str, ...]) -> list[str]:
    """Returns the columns of numbers that have bounds and this aggregate.

    Raises:
        MissingBoundsError: There are none.
    """
    row = _row(function)
    found = [name for name, c in columns.items() if c.is_number and row.fits(c) and name not in without]
    bounded = [name for name in found if columns[name].has_bounds]
    if not bounded:
        first = repr(found[0]) if found else "'column'"
        raise MissingBoundsError(
            "no column of numbers has bounds",
            advice=f"Declare them with protect(..., bounds={{{first}: (lower, upper)}}).",
        )
    return bounded
