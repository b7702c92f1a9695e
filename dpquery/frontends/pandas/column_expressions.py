"""A column of a protected frame as an expression: `df.dp["spend"].mean(...)`, `df.dp[df.dp["spend"] > 10]`,
`df.dp.groupby(df.dp["day"].dt.month)`. No expression holds data: masks are texts of `query`, keys are texts of SQL.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from dpquery.errors import UnsupportedQueryError
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.values import quoted

if TYPE_CHECKING:
    from dpquery.frontends.pandas.protected_frame import Protected

_numbers = itertools.count()
_READS_ROWS = "rows of people are never shown; ask for aggregates, as df.dp.describe(epsilon=...) does"
_CALLS_BACK = "functions are never called on rows; write what they do with columns, query and groupby, or in df.dp.sql"
ADVICE = {
    **dict.fromkeys(("head", "tail", "sample", "iloc", "loc", "at", "iat", "values", "to_numpy", "items"), _READS_ROWS),
    **dict.fromkeys(
        ("iterrows", "itertuples", "to_csv", "to_dict", "nlargest", "nsmallest", "sort_values", "unique"), _READS_ROWS
    ),
    **dict.fromkeys(("apply", "map", "transform", "pipe", "applymap", "eval"), _CALLS_BACK),
    "assign": "add the column to the frame and protect it again: df.assign(...).dp.protect()",
    "merge": "df.dp.join takes public frames; of private ones df.dp.sql joins those of one dataset",
    "fillna": "missing values are skipped; df.dp[df.dp['x'].notna()] keeps the others",
    "dropna": "missing values are skipped; df.dp[df.dp['x'].notna()] keeps the others",
    "clip": "df.dp.assign_bounds(x=(lower, upper)) clamps a column for the calls that follow",
    "str": "compare texts by == and isin, or write df.dp.sql(\"SELECT ... FROM this WHERE city LIKE 'B%'\")",
    "astype": "convert the column of the frame and protect it again: df.assign(...).dp.protect()",
    "shape": "df.dp.count() is the number of rows, with noise, and df.dp.columns lists the columns",
    "info": "df.dp.columns lists the columns, df.dp.count() counts the values of each",
    "plot": "plot the answer: df.dp.groupby('region').size().plot(), or with its intervals df.dp.last.plot()",
    "hist": "df.dp.histogram('x', bins) counts, and df.dp.last.plot(kind='bar') draws it with its intervals",
    **dict.fromkeys(("isna", "isnull", "notna", "notnull"), "df.dp[df.dp['x'].isna()].count() counts missing values"),
    **dict.fromkeys(
        ("rolling", "expanding", "shift", "diff", "cumsum", "rank"),
        "rows of different people are not put in order; df.dp.sql has windows within one person's rows",
    ),
    "boxplot": "df.dp.describe(columns) has the quartiles",
}
"""What to do instead of what pandas' frames have and a protected one has not."""
PARTS = {
    "year": "EXTRACT(YEAR FROM {})",
    "quarter": "EXTRACT(QUARTER FROM {})",
    "month": "EXTRACT(MONTH FROM {})",
    "day": "EXTRACT(DAY FROM {})",
    "hour": "EXTRACT(HOUR FROM {})",
    "dayofweek": "EXTRACT(ISODOW FROM {}) - 1",
    "day_of_week": "EXTRACT(ISODOW FROM {}) - 1",
    "weekday": "EXTRACT(ISODOW FROM {}) - 1",
}
"""Parts of moments, as `Series.dt` calls them, in SQL; Monday is 0 in pandas."""
PERIODS = {"YS-JAN": "year", "QS-JAN": "quarter", "MS": "month", "D": "day", "h": "hour"}
"""Frequencies of `pd.Grouper` whose groups begin where their label says, and what `DATE_TRUNC` calls them."""


def no_attribute(name: str, columns: Sequence[str] = ()) -> AttributeError:
    """Returns the error of a name that protected frames do not have, with what to do instead."""
    if name in columns:
        return AttributeError(f"a column is written in brackets: df.dp[{name!r}]")
    return AttributeError(f"a protected frame has no {name!r}: {ADVICE.get(name, 'dir(df.dp) lists what it has')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A group key that follows from a column: its name in queries, its text in SQL, and how answers show it."""

    name: str
    sql: str
    shown: FrameColumn


class Expression:
    """A column, or what is computed from columns and constants; compared, it is a mask.

    Attributes:
        frame: The protected frame that it is of.
        text: In the words of `DataFrame.query`.
        values: Those of its `@names`.
    """

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numpy leaves comparisons with its numbers to this class

    def __init__(self, frame: Protected, text: str, values: Mapping[str, object]) -> None:
        self.frame, self.text, self.values = frame, text, dict(values)

    def _with(self, sign: str, other: object, kind: type[Expression], *, is_turned: bool = False) -> Any:
        text, values = self._other(other)
        pair = (text, self.text) if is_turned else (self.text, text)
        return kind(self.frame, f"({pair[0]} {sign} {pair[1]})", {**self.values, **values})

    def _other(self, other: object) -> tuple[str, dict[str, object]]:
        if isinstance(other, Expression):
            if other.frame._held is not self.frame._held:
                raise UnsupportedQueryError("the two columns are of different protected frames")
            return other.text, other.values
        if isinstance(other, pd.Series | pd.Index | np.ndarray | pd.DataFrame):
            raise rows_refused()
        name = f"v{next(_numbers)}"
        return f"@{name}", {name: other}

    def __lt__(self, other: object) -> Mask:
        return self._with("<", other, Mask)  # type: ignore[no-any-return]

    def __le__(self, other: object) -> Mask:
        return self._with("<=", other, Mask)  # type: ignore[no-any-return]

    def __gt__(self, other: object) -> Mask:
        return self._with(">", other, Mask)  # type: ignore[no-any-return]

    def __ge__(self, other: object) -> Mask:
        return self._with(">=", other, Mask)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> Mask:  # type: ignore[override]
        return self._with("==", other, Mask)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> Mask:  # type: ignore[override]
        return self._with("!=", other, Mask)  # type: ignore[no-any-return]

    def __add__(self, other: object) -> Expression:
        return self._with("+", other, Expression)  # type: ignore[no-any-return]

    def __radd__(self, other: object) -> Expression:
        return self._with("+", other, Expression, is_turned=True)  # type: ignore[no-any-return]

    def __sub__(self, other: object) -> Expression:
        return self._with("-", other, Expression)  # type: ignore[no-any-return]

    def __rsub__(self, other: object) -> Expression:
        return self._with("-", other, Expression, is_turned=True)  # type: ignore[no-any-return]

    def __mul__(self, other: object) -> Expression:
        return self._with("*", other, Expression)  # type: ignore[no-any-return]

    def __rmul__(self, other: object) -> Expression:
        return self._with("*", other, Expression, is_turned=True)  # type: ignore[no-any-return]

    def isin(self, values: Sequence[object]) -> Mask:
        """Returns where the value is one of a list."""
        if isinstance(values, str | pd.Series) or not hasattr(values, "__iter__"):
            raise UnsupportedQueryError("isin takes a list of values")
        name = f"v{next(_numbers)}"
        return Mask(self.frame, f"({self.text} in @{name})", {**self.values, name: list(values)})

    def notna(self) -> Mask:
        """Returns where the value is not missing."""
        return Mask(self.frame, f"({self.text} == {self.text})", self.values)

    def isna(self) -> Mask:
        """Returns where the value is missing."""
        return Mask(self.frame, f"({self.text} != {self.text})", self.values)

    notnull, isnull = notna, isna

    def between(self, left: object, right: object) -> Mask:
        """Returns where the value is from `left` to `right`, both included."""
        return (self >= left) & (self <= right)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        advice = "Bins are df.dp['age'].cut([0, 18, 65]), statistics the methods of df.dp['age']."
        raise UnsupportedQueryError("a protected column holds no values for pandas and numpy", advice=advice)

    def __len__(self) -> int:
        raise UnsupportedQueryError("the number of rows is private", advice="Ask df.dp.count(epsilon=...).")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            example = 'df.dp.sql("SELECT SUM(price * items) FROM this")'
            raise AttributeError(
                f"what is computed from columns has no {name!r}: compare it to filter rows, or ask {example}"
            )

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false: combine masks by &, | and ~, with brackets")


class Mask(Expression):
    """A condition on rows, for the brackets of a protected frame; combined by &, | and ~."""

    def __and__(self, other: Mask) -> Mask:
        return self._with("and", _mask(other), Mask)  # type: ignore[no-any-return]

    def __or__(self, other: Mask) -> Mask:
        return self._with("or", _mask(other), Mask)  # type: ignore[no-any-return]

    def __invert__(self) -> Mask:
        return Mask(self.frame, f"(not {self.text})", self.values)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"a mask has no {name!r}: df.dp[mask].count() counts the rows for which it holds")


def _mask(other: object) -> Mask:
    if not isinstance(other, Mask):
        raise rows_refused()
    return other


class Picked(Expression):
    """One column, with the statistics of a Series: `df.dp["spend"].mean(epsilon="0.1")`."""

    def __init__(self, frame: Protected, name: str) -> None:
        super().__init__(frame, f"`{name}`", {})
        self.name = name

    @property
    def dt(self) -> Moments:
        """The parts of its moments, as keys of groups."""
        return Moments(self)

    def quantile(self, q: float | Sequence[float] = 0.5, **asked: Any) -> Any:
        """Returns values near quantiles; as `Protected.quantile`."""
        return self.frame.quantile(q, self.name, **asked)

    def value_counts(self, **asked: Any) -> Any:
        """Returns how often each value occurs; as `Protected.value_counts`."""
        return self.frame.value_counts(self.name, **asked)

    def histogram(self, bins: int | Sequence[float] = 10, **asked: Any) -> Any:
        """Returns how many values lie in each bin; as `Protected.histogram`."""
        return self.frame.histogram(self.name, bins, **asked)

    def corr(self, other: Picked, **asked: Any) -> Any:
        """Returns the correlation with another column."""
        return self.frame.corr(self.name, other.name, **asked)

    def agg(self, func: str | Sequence[str], **asked: Any) -> Any:
        """Returns one aggregate of a name, or a Series of several, as `Series.agg`."""
        if isinstance(func, str):
            return getattr(self, func)(**asked)
        made = self.frame.agg({self.name: func}, **asked)
        return made[self.name] if isinstance(made, pd.DataFrame) else made

    def cut(self, bins: Sequence[float], *, right: bool = True, labels: Sequence[str] | None = None) -> GroupKey:
        """Returns bins of its values as a key of groups, as `pd.cut` makes them of public edges; values beyond the
        edges are in no bin."""
        edges = [float(edge) for edge in bins] if isinstance(bins, list | tuple | np.ndarray | range) else []
        if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)) or not np.isfinite(edges).all():
            raise UnsupportedQueryError(
                "bins must be a list of increasing, finite edges: a number of bins would read data"
            )
        ends = [f"{edge:.15g}" for edge in edges]
        usual = [f"({a}, {b}]" if right else f"[{a}, {b})" for a, b in itertools.pairwise(ends)]
        named = usual if labels is None else list(labels)
        if len(named) != len(usual) or len({*named}) < len(named) or not all(type(label) is str for label in named):
            raise UnsupportedQueryError("labels are a different text for each bin")
        below = f"WHEN {quoted(self.name)} {'<=' if right else '<'}"
        arms = [f"{below} {ends[0]} THEN NULL"]
        texts = [label.replace("'", "''") for label in named]
        arms += [f"{below} {end} THEN '{text}'" for end, text in zip(ends[1:], texts, strict=True)]
        shown = FrameColumn(name=self.name, type="text", dtype=pd.CategoricalDtype(named, ordered=True))
        return GroupKey(name=f"{self.name} in bins", sql=f"CASE {' '.join(arms)} END", shown=shown)

    def __getattr__(self, name: str) -> Any:
        if name not in ("count", "sum", "mean", "var", "std", "median", "min", "max", "nunique", "mode", "describe"):
            raise no_attribute(name)
        return lambda **asked: getattr(self.frame, name)(self.name, **asked)

    def __repr__(self) -> str:
        return f"Picked({self.name!r} of {self.frame!r})"


class Moments:
    """`Series.dt` of a protected column: `df.dp["day"].dt.month` is a key of groups."""

    def __init__(self, of: Picked) -> None:
        self._of = of

    def __getattr__(self, name: str) -> GroupKey:
        if name not in PARTS:
            grouper = f"groupby(pd.Grouper(key={self._of.name!r}, freq='MS'))"
            advice = f"known are {', '.join(PARTS)}; months of each year are {grouper}"
            raise AttributeError(f"a column of moments has no {name!r} here; {advice}")
        return key_of_moment(self._of.frame, self._of.name, name, PARTS[name], is_moment=False)


def key_of_moment(frame: Protected, column: str, part: str, sql: str, *, is_moment: bool) -> GroupKey:
    """Returns a key of a column's moments: a part of them, or the period that they are in."""
    seen = frame._column(column)
    if not seen.is_moment:
        raise UnsupportedQueryError(
            f"{part} of {column}: its values are of type {seen.type}",
            advice=f"Moments have it: df.assign({column}=pd.to_datetime(df[{column!r}])).dp.protect() reads them.",
        )
    shown = seen if is_moment else replace(seen, type="int64", dtype=None, bounds=None, zone="")
    return GroupKey(name=f"{column} {part}", sql=sql.format(quoted(column)), shown=shown)


def key_of_grouper(frame: Protected, grouper: pd.Grouper) -> GroupKey:
    """Returns the key that `pd.Grouper(key=, freq=)` means."""
    freq = getattr(getattr(grouper, "freq", None), "freqstr", None)
    if grouper.key is None or freq not in PERIODS:
        advice = "Groups begin where their label says: freq 'YS', 'QS', 'MS', 'D' or 'h'."
        raise UnsupportedQueryError("this Grouper is not known here", advice=advice)
    return key_of_moment(frame, grouper.key, PERIODS[freq], f"DATE_TRUNC('{PERIODS[freq]}', {{}})", is_moment=True)


def rows_refused() -> UnsupportedQueryError:
    """Returns the refusal of what was computed from the frame itself: it holds rows of people."""
    advice = "Take columns of the protected frame: df.dp[df.dp['age'] > 30], df.dp.groupby(df.dp['day'].dt.month)."
    return UnsupportedQueryError("a Series or an array holds rows of people, which are not read here", advice=advice)


def not_a_bracket(key: object) -> NoReturn:
    """Refuses what brackets do not take."""
    if isinstance(key, pd.Series | pd.Index | np.ndarray | pd.DataFrame):
        raise rows_refused()
    advice = "Brackets take a column, a list of columns, or a mask of protected columns."
    raise UnsupportedQueryError(f"a {type(key).__name__} is not a column", advice=advice)
