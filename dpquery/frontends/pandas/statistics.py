"""Statistics in pandas' words: each call writes one query and shapes its answer as pandas would."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpquery.data.arrow import for_pandas
from dpquery.errors import UnsupportedQueryError
from dpquery.frontends.pandas import shapes
from dpquery.frontends.pandas.aggregates import aggregate, demand, numbers
from dpquery.frontends.pandas.columns import Column
from dpquery.frontends.pandas.names import known, quoted
from dpquery.frontends.pandas.views import View
from dpquery.result.table import Result

Names = str | Sequence[str] | None
"""One column: the answer is a scalar, as of a Series. Several: a Series, as of a DataFrame. None: all that fit."""
PERCENTILES = (0.25, 0.5, 0.75)
MOST_BINS = 500


class Statistics(ABC):
    """The statistics of one view."""

    _view: View
    _held: Any

    @abstractmethod
    def _ask(
        self,
        select: Sequence[str],
        asked: Mapping[str, Any],
        shape: Callable[[Result], Any],
        *,
        source: str = "",
        rest: str = "",
        params: Mapping[str, object] | None = None,
    ) -> Any:
        """Returns the shaped answer to a SELECT of these items over the view, or over `source`; or its plan."""

    def count(self, columns: Names = None, **asked: Any) -> Any:
        """Returns the number of rows, `len(df)`; of columns, how many values are not missing."""
        if columns is None:
            return self._ask(["COUNT(*) AS count"], asked, lambda result: shapes.cells(result)[0])
        return self._reduce("count", columns, asked)

    def sum(self, columns: Names = None, **asked: Any) -> Any:
        """Returns sums."""
        return self._reduce("sum", columns, asked)

    def mean(self, columns: Names = None, **asked: Any) -> Any:
        """Returns means."""
        return self._reduce("mean", columns, asked)

    def var(self, columns: Names = None, *, ddof: int = 1, **asked: Any) -> Any:
        """Returns variances: of a sample, or with `ddof=0` of a population."""
        return self._reduce("var", columns, asked, form=_spread("VAR", ddof))

    def std(self, columns: Names = None, *, ddof: int = 1, **asked: Any) -> Any:
        """Returns standard deviations: of a sample, or with `ddof=0` of a population."""
        return self._reduce("std", columns, asked, form=_spread("STDDEV", ddof))

    def median(self, columns: Names = None, **asked: Any) -> Any:
        """Returns values near the median: chosen by rank, privately."""
        return self._reduce("median", columns, asked)

    def min(self, columns: Names = None, **asked: Any) -> Any:
        """Returns values near the least that several units reach: that of a single one is never shown."""
        return self._reduce("min", columns, asked)

    def max(self, columns: Names = None, **asked: Any) -> Any:
        """Returns values near the greatest that several units reach."""
        return self._reduce("max", columns, asked)

    def nunique(self, columns: Names = None, **asked: Any) -> Any:
        """Returns how many different values there are."""
        return self._reduce("nunique", columns, asked)

    def mode(self, columns: Names, **asked: Any) -> Any:
        """Returns the most frequent of public values: a Series of one; of several columns a frame of one row."""
        names = self._names("mode", columns)
        seen = [self._view.columns[name] for name in names]

        def shape(result: Result) -> Any:
            frame = pd.DataFrame([shapes.cells(result)], columns=names)
            frame = frame.assign(**{c.name: shapes.as_frame_has_it(frame[c.name], c) for c in seen})
            return shapes.priced(frame[columns] if isinstance(columns, str) else frame, result)

        return self._ask(self._items("mode", names), asked, shape)

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

    def _reduce(self, function: str, columns: Names, asked: Mapping[str, Any], form: str | None = None) -> Any:
        names = self._names(function, columns)
        items = self._items(function, names, form)

        def shape(result: Result) -> Any:
            row = [for_pandas(column)[0].as_py() for column in result.to_arrow().columns]
            values = [
                shapes.scalar_as_frame_has_it(value, self._view.columns[name])
                for value, name in zip(row, names, strict=True)
            ]
            return values[0] if isinstance(columns, str) else shapes.series(values, names, result)

        return self._ask(items, asked, shape)

    def _items(self, function: str, names: Sequence[str], form: str | None = None) -> list[str]:
        """Returns what stands behind SELECT for an aggregate of these columns."""
        made = [aggregate(function, self._view.columns[name]) for name in names]
        if form is not None:
            made = [form.format(quoted(name)) for name in names]
        return [f"{sql} AS {quoted(name)}" for sql, name in zip(made, names, strict=True)]

    def _names(self, function: str, columns: Names) -> list[str]:
        """Returns the columns that are meant; None are all that the aggregate fits."""
        unit = (self._held.unit,)
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

    def _column(self, name: object) -> Column:
        return self._view.columns[known(name, self._view.columns, self._held.why_not)]


def _spread(function: str, ddof: int) -> str:
    if ddof not in (0, 1) or isinstance(ddof, bool):
        raise UnsupportedQueryError("ddof must be 1 (sample) or 0 (population)")
    return f"{function}_{'SAMP' if ddof else 'POP'}({{}})"


def _quantiles(made: dict[str, list[Any]], fractions: list[float], q: Any, columns: Names) -> Any:
    """Returns quantiles as pandas has them: by q, by column, both or none."""
    if isinstance(columns, str):
        values = made[columns]
        return values[0] if isinstance(q, float | int) else pd.Series(values, index=fractions, name=columns)
    frame = pd.DataFrame(made, index=fractions)
    return frame.iloc[0] if isinstance(q, float | int) else frame
