"""`groupby`: aggregates of groups, with the keys as the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from dpquery.errors import UnsupportedQueryError
from dpquery.frontends.pandas import shapes
from dpquery.frontends.pandas.aggregates import aggregate, demand, method, numbers
from dpquery.frontends.pandas.column_expressions import no_attribute
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.values import ASKED, quoted
from dpquery.result.table import Result

if TYPE_CHECKING:
    from dpquery.frontends.pandas.statistics import Statistics

Item = tuple[str, Any, FrameColumn | None]
"""An aggregate in SQL, the label of its column, and the column of the frame whose sort of dtype it has, if any."""


class Groups:
    """The groups of a frame by keys; public keys all appear, others where enough units share them.

    Brackets choose columns, as in pandas: `groupby("region")["amount"].mean(epsilon="0.1")`.
    """

    def __init__(self, of: Statistics, keys: Sequence[str], *, as_index: bool, sort: bool, dropna: bool) -> None:
        self._of, self._keys = of, list(keys)
        self._as_index, self._sort, self._dropna = as_index, sort, dropna
        self._chosen: str | Sequence[str] | None = None

    def __getitem__(self, columns: str | list[str]) -> Groups:
        self._of._known([columns] if isinstance(columns, str) else columns)
        made = copy(self)
        made._chosen = columns
        return made

    def agg(self, func: Any = None, **named: Any) -> Any:
        """Returns several aggregates: `agg(total=("amount", "sum"), n=("amount", "count"), epsilon="0.5")`; or those of
        one name, a list of names, or a dict of columns to them."""
        asked = {name: named.pop(name) for name in ASKED if name in named and not isinstance(named[name], tuple)}
        if (func is None) is (not named):
            advice = "Write agg(total=('amount', 'sum')), or agg({'amount': 'sum'})."
            raise UnsupportedQueryError("agg takes either named aggregates or one argument", advice=advice)
        if func is None:
            return self._table([self._named(label, pair) for label, pair in named.items()], asked)
        if isinstance(func, str):
            return self._table([self._item(func, name, name) for name in self._names(func)], asked)
        given = func if isinstance(func, Mapping) else dict.fromkeys(self._names("count"), func)
        pairs = [(name, functions) for name, functions in given.items()]
        is_flat = all(isinstance(functions, str) for _, functions in pairs)
        items: list[Item] = []
        for name, functions in pairs:
            for function in [functions] if isinstance(functions, str) else self._functions(functions):
                label = name if is_flat else function if isinstance(self._chosen, str) else (name, function)
                items.append(self._item(function, name, label))
        return self._table(items, asked)

    def size(self, **asked: Any) -> Any:
        """Returns the number of rows of each group."""

        def shape(result: Result) -> Any:
            if not self._as_index:
                return self._flat(result, ["size"])
            made = shapes.keyed(result, self._seen(), ["size"], sort=self._sort)["size"]
            return shapes.priced(made.rename(None), result)

        return self._select([("COUNT(*)", "size", None)], asked, shape)

    count, nunique, sum, mean, var = map(method, ("count", "nunique", "sum", "mean", "var"))
    std, median, min, max = map(method, ("std", "median", "min", "max"))

    def quantile(self, q: float = 0.5, **asked: Any) -> Any:
        """Returns values near one quantile."""
        params: dict[str, object] = {}
        place = self._of._view.value(q, params)
        names = self._names("quantile")
        for name in names:
            demand("quantile", self._of._column(name))
        items: list[Item] = [
            (f"QUANTILE_CONT({quoted(name)}, {place})", name, self._of._column(name)) for name in names
        ]
        return self._table(items, asked, params=params)

    def _reduced(self, function: str, form: str, columns: str | list[str] | None = None, /, **asked: Any) -> Any:
        """Returns one aggregate of these columns, the chosen ones, or all that it fits."""
        if columns is not None:
            return self[columns]._reduced(function, form, **asked)
        names = self._names(function)
        items: list[Item] = [self._item(function, name, name) for name in names]
        return self._table([(form.format(quoted(label)), label, column) for _, label, column in items], asked)

    def _item(self, function: object, name: object, label: Any) -> Item:
        column = self._of._column(name)
        return aggregate(function, column), label, None if function == "nunique" else column

    def _named(self, label: str, pair: Any) -> Item:
        if isinstance(self._chosen, str) and isinstance(pair, str):
            return self._item(pair, self._chosen, label)
        if not isinstance(pair, tuple) or len(pair) != 2:
            advice = f"Write agg({label}=('column', 'sum'))."
            raise UnsupportedQueryError(f"{label} is neither an aggregate nor an argument of agg", advice=advice)
        return self._item(pair[1], pair[0], label)

    def _functions(self, functions: Any) -> list[str]:
        if not isinstance(functions, list | tuple):
            raise UnsupportedQueryError("name aggregates with strings; functions are never called on rows")
        return list(functions)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and name in self._of._view.columns:
                raise AttributeError(f"a column is written in brackets: groupby(...)[{name!r}]")
            raise no_attribute(name)

    def _table(self, items: list[Item], asked: Mapping[str, Any], params: Mapping[str, object] | None = None) -> Any:
        """Returns the aggregates of each group as a frame, or of one chosen column as a Series."""
        labels = [label for _, label, _ in items]

        def shape(result: Result) -> Any:
            if not self._as_index:
                return self._flat(result, labels)
            names: Any = pd.MultiIndex.from_tuples(labels) if isinstance(labels[0], tuple) else labels
            made = shapes.keyed(result, self._seen(), names, sort=self._sort)
            for place, (_, _, column) in enumerate(items):
                if column is not None and shapes.has_family(column):
                    made.isetitem(place, shapes.in_family(made.iloc[:, place], column))
            is_one = isinstance(self._chosen, str) and labels == [self._chosen]
            return shapes.priced(made.iloc[:, 0] if is_one else made, result)

        return self._select(items, asked, shape, params)

    def _flat(self, result: Result, labels: Sequence[Any]) -> Any:
        """Returns keys and aggregates as columns."""
        made = shapes.keyed(result, self._seen(), labels, sort=self._sort)
        return shapes.priced(made.reset_index(), result)

    def _select(
        self,
        items: Sequence[Item],
        asked: Mapping[str, Any],
        shape: Callable[[Result], Any],
        params: Mapping[str, object] | None = None,
    ) -> Any:
        if {*self._of._held.unit} <= {*self._keys}:
            keys, advised = ", ".join(self._listed()), ", ".join(f"{sql} AS x" for sql, _, _ in items[:1])
            raise UnsupportedQueryError(
                "each of these groups would be one unit, which is never shown",
                advice="Aggregate them once more, as in "
                f'df.dp.sql("""SELECT AVG(x) FROM (SELECT {keys}, {advised} FROM this GROUP BY {keys}) AS t""").',
            )
        named = [f"{sql} AS {quoted(label if isinstance(label, str) else ' '.join(label))}" for sql, label, _ in items]
        return self._of._ask([*self._listed(), *named], asked, shape, rest=self._rest(), params=params)

    def _listed(self) -> list[str]:
        return [quoted(name) for name in self._keys]

    def _rest(self) -> str:
        kept = [f"{name} IS NOT NULL" for name, seen in zip(self._listed(), self._seen(), strict=True) if seen.nullable]
        where = f" WHERE {' AND '.join(kept)}" if kept and self._dropna else ""
        made = [
            name for name, seen in zip(self._keys, self._seen(), strict=True) if seen.nullable and seen.name != name
        ]
        shown = [f"{quoted(name)} IS NOT NULL" for name in made if self._dropna]  # a public key, though it cannot occur
        having = f" HAVING {' AND '.join(shown)}" if shown else ""
        return f"{where} GROUP BY {', '.join(self._listed())}{having}"

    def _seen(self) -> list[FrameColumn]:
        return [self._of._view.columns[name] for name in self._keys]

    def _names(self, function: str) -> list[str]:
        """Returns the columns to aggregate: the chosen ones, or all that the aggregate fits."""
        if self._chosen is not None:
            return [self._chosen] if isinstance(self._chosen, str) else list(self._chosen)
        if function in ("count", "nunique"):
            return [name for name in self._of._view.columns if name not in self._keys]
        return numbers(function, self._of._view.columns, (*self._keys, *self._of._held.unit))
