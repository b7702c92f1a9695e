"""Counts and aggregates by keys, in pandas' words: value_counts, histogram, crosstab, pivot_table, groupby."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dpquery.errors import UnsupportedQueryError
from dpquery.frontends.pandas import shapes
from dpquery.frontends.pandas.accuracy import proportions
from dpquery.frontends.pandas.aggregates import demand, numbers
from dpquery.frontends.pandas.groups import Groups
from dpquery.frontends.pandas.names import quoted
from dpquery.frontends.pandas.statistics import MOST_BINS, Statistics
from dpquery.result.table import Result


class Distributions(Statistics):
    """The statistics of one view by groups."""

    def groupby(
        self, by: str | Sequence[str], *, as_index: bool = True, sort: bool = True, dropna: bool = True
    ) -> Groups:
        """Returns the groups of one or several keys; arguments as in `DataFrame.groupby`."""
        keys = self._known([by] if isinstance(by, str) else by)
        return Groups(self, keys, as_index=as_index, sort=sort, dropna=dropna)

    def value_counts(
        self,
        columns: str | Sequence[str],
        *,
        normalize: bool = False,
        sort: bool = True,
        ascending: bool = False,
        dropna: bool = True,
        **asked: Any,
    ) -> Any:
        """Returns how often each value, or combination of values, occurs, the most frequent first."""
        groups = self.groupby(columns, dropna=dropna)
        name = "proportion" if normalize else "count"

        def shape(result: Result) -> Any:
            def counts(of: Result) -> pd.Series[Any]:
                return shapes.keyed(of, groups._seen(), [name], sort=not sort)[name]

            made = proportions(counts, result) if normalize else counts(result)
            made = made.sort_values(ascending=ascending, kind="stable") if sort else made
            return shapes.priced(made, result)

        return groups._select([("COUNT(*)", name, None)], asked, shape)

    def histogram(self, column: str, bins: int | Sequence[float] = 10, **asked: Any) -> Any:
        """Returns how many values lie in each bin, as `numpy.histogram`: of equal width between the bounds, or at given
        edges. The last bin holds its upper edge too; values beyond the edges are not counted."""
        seen = self._column(column)
        if not seen.is_number or seen.type == "boolean":
            raise UnsupportedQueryError(f"histogram of {column}: its values are of type {seen.type}")
        edges = self._edges(column, bins)
        params: dict[str, object] = {}
        values = [self._view.value(float(edge), params) for edge in edges]
        arms = " ".join(f"WHEN {quoted(column)} < {edge} THEN {i}" for i, edge in enumerate(values[1:-1]))
        place, by = (f"CASE {arms} ELSE {len(edges) - 2} END", " GROUP BY 1") if arms else ("0", "")
        inside = f"WHERE {quoted(column)} >= {values[0]} AND {quoted(column)} <= {values[-1]}"
        counts = f"SELECT {place} AS place, COUNT(*) AS count FROM {self._view.source} {inside}{by}"
        shown = _bins(edges)
        names = f"(VALUES {', '.join(f'({i}, {bin!r})' for i, bin in enumerate(shown))}) AS named (place, bin)"

        def shape(result: Result) -> Any:
            found, counts = shapes.columns_of(result)
            numbers = counts.to_numpy()
            filled = np.zeros(len(shown), dtype=numbers.dtype)
            filled[[shown.index(bin) for bin in found]] = numbers
            index = pd.IntervalIndex.from_breaks(edges, closed="left", name=column)
            made = pd.Series(filled, index=index, name="count")
            return shapes.priced(made, result)

        source = f"({counts}) AS counted JOIN {names} USING (place)"
        items = [f"bin AS {quoted(column)}", "count"]
        return self._ask(items, asked, shape, source=source, rest=" ORDER BY place", params=params)

    def crosstab(self, index: str | Sequence[str], columns: str | Sequence[str], **asked: Any) -> Any:
        """Returns the number of rows for each combination of keys; NaN where a combination was not shown."""
        rows, across = self._sides(index, columns)
        groups = self.groupby([*rows, *across])

        def shape(result: Result) -> Any:
            seen = groups._seen()
            return shapes.priced(shapes.grid(result, seen[: len(rows)], seen[len(rows) :]), result)

        return groups._select([("COUNT(*)", "count", None)], asked, shape)

    def pivot_table(
        self,
        values: str | Sequence[str] | None = None,
        index: str | Sequence[str] = (),
        columns: str | Sequence[str] = (),
        aggfunc: str = "mean",
        **asked: Any,
    ) -> Any:
        """Returns an aggregate for each combination of keys, as `DataFrame.pivot_table`."""
        rows, across = self._sides(index, columns, is_half_enough=True)
        keys = [*rows, *across]
        names = (
            numbers(aggfunc, self._view.columns, (*keys, self._held.unit))
            if values is None
            else self._known([values] if isinstance(values, str) else values)
        )
        groups = self.groupby(keys)
        items = [groups._item(aggfunc, name, name) for name in names]

        def shape(result: Result) -> Any:
            seen = groups._seen()
            if across and isinstance(values, str):
                return shapes.priced(shapes.grid(result, seen[: len(rows)], seen[len(rows) :]), result)
            made = shapes.keyed(result, seen, names, sort=not across)[sorted(names)]
            return shapes.priced(made.unstack(list(range(len(rows), len(keys)))) if across else made, result)

        return groups._select(items, asked, shape)

    def _edges(self, column: str, bins: int | Sequence[float]) -> list[float]:
        if isinstance(bins, int) and not isinstance(bins, bool):
            demand("histogram", self._column(column))
            if not 1 <= bins <= MOST_BINS:
                raise UnsupportedQueryError(f"a histogram has 1 to {MOST_BINS} bins")
            lower, upper = (float(str(end)) for end in self._column(column).bounds or ())
            return [float(edge) for edge in np.linspace(lower, upper, bins + 1)]
        edges = [float(edge) for edge in bins] if isinstance(bins, list | tuple | np.ndarray | range) else []
        if not 2 <= len(edges) <= MOST_BINS + 1 or not all(a < b for a, b in pairwise(edges)):
            raise UnsupportedQueryError("bins must be a number, or a list of increasing edges")
        return edges

    def _sides(self, index: Any, columns: Any, is_half_enough: bool = False) -> tuple[list[str], list[str]]:
        sides = [[side] if isinstance(side, str) else list(side) for side in (index, columns)]
        if not sides[0] or not (is_half_enough or sides[1]):
            raise UnsupportedQueryError("name the keys of rows and columns", advice="index='sex', columns='region'")
        self._known([*sides[0], *sides[1]])
        return sides[0], sides[1]


def _bins(edges: Sequence[float]) -> list[str]:
    """Returns the bins between edges as people write intervals, with as few digits as keep the edges apart.

    Example:
        >>> _bins([0.0, 0.1, 1000000.0])
        ['[0, 0.1)', '[0.1, 1000000]']
    """
    written = ([f"{edge:.{digits}g}" for edge in edges] for digits in (9, 15, 17))
    ends = next(ends for ends in written if len(set(ends)) == len(edges))
    return [f"[{a}, {b}{']' if b is ends[-1] else ')'}" for a, b in pairwise(ends)]
