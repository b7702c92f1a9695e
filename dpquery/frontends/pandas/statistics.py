"""Statistics in pandas' words: each call writes one query and shapes its answer as pandas would. What is one row of
`aggregates.AGGREGATES` is a method made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dpquery.data.arrow import for_pandas
from dpquery.errors import UnsupportedQueryError
from dpquery.frontends.pandas import shapes
from dpquery.frontends.pandas.accuracy import proportions
from dpquery.frontends.pandas.aggregates import AGGREGATES, aggregate, demand, method, numbers
from dpquery.frontends.pandas.column_expressions import GroupKey, Picked, key_of_grouper, rows_refused
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.groups import Groups
from dpquery.frontends.pandas.values import known, quoted
from dpquery.frontends.pandas.views import View, with_keys
from dpquery.result.table import Result

Names = str | Sequence[str] | None
"""One column: the answer is a scalar, as of a Series. Several: a Series, as of a DataFrame. None: all that fit."""
PERCENTILES = (0.25, 0.5, 0.75)
MOST_BINS = 500


class Statistics:
    """The statistics of one view: of all its rows, or by groups. `_ask` returns the shaped answer to a SELECT."""

    _view: View
    _held: Any
    _ask: Callable[..., Any]
    _over: Callable[[View], Any]

    def count(self, columns: Names = None, **asked: Any) -> Any:
        """Returns the number of rows, `len(df)`; of columns, how many values are not missing."""
        if columns is None:
            return self._ask(["COUNT(*) AS count"], asked, lambda result: shapes.cells(result)[0])
        return self._reduced("count", AGGREGATES["count"].sql, columns, **asked)

    sum, mean, var, std, median = map(method, ("sum", "mean", "var", "std", "median"))
    min, max, nunique = map(method, ("min", "max", "nunique"))

    def mode(self, columns: Names, **asked: Any) -> Any:
        """Returns the most frequent of public values: a Series of one; of several columns a frame of one row."""
        names = self._names("mode", columns)
        seen = [self._view.columns[name] for name in names]

        def shape(result: Result) -> Any:
            frame = pd.DataFrame([shapes.cells(result)], columns=names)
            frame = frame.assign(**{c.name: shapes.as_frame_has_it(frame[c.name], c) for c in seen})
            return shapes.priced(frame[columns] if isinstance(columns, str) else frame, result)

        return self._ask(self._items("mode", names, AGGREGATES["mode"].sql), asked, shape)

    def quantile(self, q: float | Sequence[float] = 0.5, columns: Names = None, **asked: Any) -> Any:
        """Returns values near quantiles, chosen by rank; one `q` or several, as `DataFrame.quantile`."""
        names = self._names("quantile", columns)
        fractions = [q] if isinstance(q, float | int) else list(q)
        params: dict[str, object] = {}
        places = [self._view.value(fraction, params) for fraction in fractions]
        items = []
        for name in names:
            demand("quantile", self._view.columns[name])
            items += [
                f"QUANTILE_CONT({quoted(name)}, {place}) AS {quoted(f'{name} {fraction}')}"
                for place, fraction in zip(places, fractions, strict=True)
            ]

        def shape(result: Result) -> Any:
            values = iter(result.to_arrow().columns)
            made = {
                name: [
                    shapes.scalar_as_frame_has_it(next(values)[0].as_py(), self._view.columns[name]) for _ in fractions
                ]
                for name in names
            }
            return shapes.priced_or_plain(_quantiles(made, fractions, q, columns), result)

        return self._ask(items, asked, shape, params=params)

    def corr(self, x: Names = None, y: str | None = None, **asked: Any) -> Any:
        """Returns the correlation of two columns, or of several the matrix."""
        return self._pairs("CORR", x, y, asked)

    def cov(self, x: Names = None, y: str | None = None, **asked: Any) -> Any:
        """Returns the covariance of two columns, or of several the matrix."""
        return self._pairs("COVAR_SAMP", x, y, asked)

    def describe(self, columns: Names = None, **asked: Any) -> Any:
        """Returns count, mean, std, min, quartiles and max; of one column a Series, of several a frame. Booleans have
        no quartiles: by default they are left out."""
        names = self._names("describe", columns)
        rows = ["count", "mean", "std", "min", *(f"{p:.0%}" for p in PERCENTILES), "max"]
        items = []
        for name in names:
            column = self._view.columns[name]
            demand("describe", column)
            made = [aggregate(function, column) for function in ("count", "mean", "std", "min")]
            made += [f"QUANTILE_CONT({quoted(name)}, {p})" for p in PERCENTILES] + [aggregate("max", column)]
            items += [f"{sql} AS {quoted(f'{name} {row}')}" for sql, row in zip(made, rows, strict=True)]

        def shape(result: Result) -> Any:
            values = np.array(shapes.cells(result), dtype=float).reshape(len(names), len(rows))
            frame = pd.DataFrame(values.T, index=rows, columns=names)
            return shapes.priced(frame[columns] if isinstance(columns, str) else frame, result)

        return self._ask(items, asked, shape)

    def groupby(
        self, by: Any, *, as_index: bool = True, sort: bool = True, dropna: bool = True, observed: bool = False
    ) -> Groups:
        """Returns the groups of one or several keys: columns by name, `df.dp["day"].dt.month`, `df.dp["age"].cut(...)`,
        `pd.Grouper(key=, freq=)`; other arguments as in `DataFrame.groupby`."""
        if observed:
            advice = "Leave observed out: all public keys are shown, each with noise."
            raise UnsupportedQueryError("which keys occur is a fact about people", advice=advice)
        if isinstance(by, pd.Series | np.ndarray) or callable(by):
            raise rows_refused()
        given = list(by) if isinstance(by, list | tuple | pd.Index) else [by]
        named = [one.name if isinstance(one, Picked) else one for one in given]
        made = [key_of_grouper(self, one) if isinstance(one, pd.Grouper) else one for one in named]  # type: ignore[arg-type]
        keys = [one for one in made if isinstance(one, GroupKey)]
        of = self._over(with_keys(self._view, keys)) if keys else self
        names = of._known([one.name if isinstance(one, GroupKey) else one for one in made])
        return Groups(of, names, as_index=as_index, sort=sort, dropna=dropna)

    def agg(self, func: Any, **asked: Any) -> Any:
        """Returns aggregates of columns as `DataFrame.agg`: of a name, a list of names, a dict of columns to them."""
        given = (
            func
            if isinstance(func, Mapping)
            else dict.fromkeys(numbers("mean", self._view.columns, self._held.unit), func)
        )
        pairs = [
            (name, one) for name, ones in given.items() for one in (ones if isinstance(ones, list | tuple) else [ones])
        ]
        items = [f"{aggregate(one, self._column(name))} AS {quoted(f'{name} {one}')}" for name, one in pairs]
        if not items:
            raise UnsupportedQueryError("agg takes aggregates by their names", advice="Write agg({'spend': 'mean'}).")

        def shape(result: Result) -> Any:
            values = shapes.cells(result)
            if all(isinstance(ones, str) for ones in given.values()):
                return shapes.series(values, [name for name, _ in pairs], result)
            rows = list(dict.fromkeys(one for _, one in pairs))
            made = pd.DataFrame(np.nan, index=rows, columns=list(given), dtype=float)
            for (name, one), value in zip(pairs, values, strict=True):
                made.loc[one, name] = float(value)
            return shapes.priced(made, result)

        return self._ask(items, asked, shape)

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
            numbers(aggfunc, self._view.columns, (*keys, *self._held.unit))
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

    def _pairs(self, function: str, x: Names, y: str | None, asked: Mapping[str, Any]) -> Any:
        if isinstance(x, str) is (y is None):
            raise UnsupportedQueryError("give two columns, or a list of them", advice="Write corr('x', 'y').")
        names = self._names("mean", [x, y] if isinstance(x, str) and y is not None else x)
        for name in names:
            demand("mean", self._view.columns[name])
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        if function != "CORR" and not isinstance(x, str):
            pairs += [(name, name) for name in names]
        items = [f"{function}({quoted(a)}, {quoted(b)}) AS {quoted(f'{a}, {b}')}" for a, b in pairs]
        if not items:
            raise UnsupportedQueryError("a correlation takes at least two columns")

        def shape(result: Result) -> Any:
            values = shapes.cells(result)
            if isinstance(x, str):
                return values[0]
            matrix = pd.DataFrame(np.eye(len(names)), index=names, columns=names)
            for (a, b), value in zip(pairs, values, strict=True):
                matrix.loc[a, b] = matrix.loc[b, a] = value
            return shapes.priced(matrix, result)

        return self._ask(items, asked, shape)

    def _reduced(self, function: str, form: str, columns: Names = None, **asked: Any) -> Any:
        """Returns one aggregate of columns."""
        names = self._names(function, columns)

        def shape(result: Result) -> Any:
            row = [for_pandas(column)[0].as_py() for column in result.to_arrow().columns]
            seen = [self._view.columns[name] for name in names]
            values = [shapes.scalar_as_frame_has_it(value, column) for value, column in zip(row, seen, strict=True)]
            return values[0] if isinstance(columns, str) else shapes.series(values, names, result)

        return self._ask(self._items(function, names, form), asked, shape)

    def _items(self, function: str, names: Sequence[str], form: str) -> list[str]:
        """Returns what stands behind SELECT for an aggregate of these columns."""
        for name in names:
            demand(function, self._view.columns[name])
        return [f"{form.format(quoted(name))} AS {quoted(name)}" for name in names]

    def _names(self, function: str, columns: Names) -> list[str]:
        """Returns the columns that are meant; None are all that the aggregate fits."""
        unit = self._held.unit
        if columns is None:
            if function in ("count", "nunique", "mode"):
                return list(self._view.columns)
            return numbers(function, self._view.columns, unit)
        return self._known([columns] if isinstance(columns, str) else columns)

    def _known(self, names: Sequence[str]) -> list[str]:
        if not isinstance(names, list | tuple | pd.Index) or not len(names):
            raise UnsupportedQueryError("name a column, or a list of columns")
        found = [known(name, self._view.columns, self._held.why_not) for name in names]
        if len(set(found)) < len(found):
            raise UnsupportedQueryError("a column is named twice")
        return found

    def _column(self, name: object) -> FrameColumn:
        return self._view.columns[known(name, self._view.columns, self._held.why_not)]


def _quantiles(made: dict[str, list[Any]], fractions: list[float], q: Any, columns: Names) -> Any:
    """Returns quantiles as pandas has them: by q, by column, both or none."""
    if isinstance(columns, str):
        values = made[columns]
        return values[0] if isinstance(q, float | int) else pd.Series(values, index=fractions, name=columns)
    frame = pd.DataFrame(made, index=fractions)
    return frame.iloc[0] if isinstance(q, float | int) else frame


def _bins(edges: Sequence[float]) -> list[str]:
    """Returns the bins between edges as people write intervals, with as few digits as keep the edges apart.

    Example:
        >>> _bins([0.0, 0.1, 1000000.0])
        ['[0, 0.1)', '[0.1, 1000000]']
    """
    written = ([f"{edge:.{digits}g}" for edge in edges] for digits in (9, 15, 17))
    ends = next(ends for ends in written if len(set(ends)) == len(edges))
    return [f"[{a}, {b}{']' if b is ends[-1] else ')'}" for a, b in pairwise(ends)]
