"""A protected frame, and what may be asked of it: the words of pandas, each with what it may cost."""

from __future__ import annotations

import datetime
import html
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from dpquery.catalog.names import suggestion
from dpquery.errors import AccuracyWarning, MissingDeltaError, UnknownNameError, UnsupportedQueryError
from dpquery.frontends.pandas.accuracy import with_accuracy
from dpquery.frontends.pandas.busy_indicator import working
from dpquery.frontends.pandas.column_expressions import Mask, Picked, no_attribute, not_a_bracket
from dpquery.frontends.pandas.columns import FrameColumn, columns_of_pandas
from dpquery.frontends.pandas.datasets import MARK, Handle
from dpquery.frontends.pandas.groups import Groups
from dpquery.frontends.pandas.statistics import Statistics
from dpquery.frontends.pandas.values import ASKED, known, plain, without_habits
from dpquery.frontends.pandas.views import MOST_CELLS, View, clamped, filtered, joined, with_view
from dpquery.kernel.loss import PrivacyLoss
from dpquery.plan.types import Value
from dpquery.result.table import Result
from dpquery.session.profile import Profile
from dpquery.session.query_plan import Plan
from dpquery.session.session import Session


@dataclass(slots=True, kw_only=True)
class ProtectedState:
    """What all chains over one protected frame share.

    Attributes:
        session: Answers queries about it.
        data: The data as they were; while it is held, pandas copies before it writes.
        handle: What frames made from it carry.
        unit: The columns that tell the privacy unit, or ("row",).
        why_not: Columns that cannot be named, with the reason.
        public: The dataset's public frames by name, each with its columns.
        last: The last answer with its intervals.
    """

    session: Session
    data: Any
    handle: Handle
    unit: tuple[str, ...]
    why_not: dict[str, str]
    public: Mapping[str, tuple[Any, Mapping[str, FrameColumn]]] = field(default_factory=dict)
    last: Result | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedBounds:
    """Bounds that were found with noise, in the words of `protect`; `str()` says what to write.

    Attributes:
        bounds: For each column its lower and upper bound, as `protect(bounds=)` and `assign_bounds` take them.
        max_rows: How many rows one unit has in all, as `protect(max_rows=)` takes it; None where it was not found.
        missing: Columns for which the noise is larger than any step of the histogram.
        charge: What the ledger counted.
    """

    bounds: Mapping[str, tuple[Value, Value]]
    max_rows: int | None
    missing: tuple[str, ...]
    charge: PrivacyLoss

    def __str__(self) -> str:
        pairs = {column: tuple(map(_shown, pair)) for column, pair in self.bounds.items()}
        said = [f"bounds={pairs!r}"] if pairs else []
        said += [f"max_rows={self.max_rows}"] if self.max_rows is not None else []
        lines = [f"# Charged {self.charge}. Edit the bounds as you see fit, and give them to protect."]
        lines += [", ".join(said)] if said else []
        lines += [f"# {column}: too few units for this epsilon; nothing was found." for column in self.missing]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _shown(value: Value) -> Value:
    """Returns a bound as people write it: moments as texts."""
    return str(value) if isinstance(value, datetime.date) else value


class Protected(Statistics):
    """Private statistics of a frame. Every call is charged to the dataset's ledger, which all its frames share.

    Each call takes `epsilon=`, or `delta=`, `rho=`, `error=`, `weights=`, `max_groups=`, `max_rows=` and `confidence=`
    as `Session.sql` does. What it returns has the shape that pandas gives: numbers print their intervals, Series and
    frames have them as `.dp.accuracy`.
    """

    _held: ProtectedState

    def __init__(self, held: ProtectedState, view: View, *, is_explaining: bool = False) -> None:
        self._held, self._view, self._is_explaining = held, view, is_explaining

    @property
    def session(self) -> Session:
        """The session that answers; its SQL calls the frame `this`."""
        return self._held.session

    @property
    def handle(self) -> Handle:
        """What frames that are made from this one carry."""
        return self._held.handle

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that can be named."""
        return tuple(self._view.columns)

    @property
    def remaining(self) -> PrivacyLoss:
        """What may still be spent on this dataset."""
        return self._held.session.remaining

    @property
    def last(self) -> Result | None:
        """The last answer about this frame, with its intervals and its price; None before the first."""
        return self._held.last

    @property
    def explain(self) -> Protected:
        """The same words, each returning the `Plan` of what it would measure and cost; nothing is read or charged."""
        return Protected(self._held, self._view, is_explaining=True)

    def __getitem__(self, key: Any) -> Any:
        """Returns a column by its name, several by a list, or the rows of a mask: `df.dp[df.dp["age"] > 30]`."""
        if isinstance(key, str):
            return Picked(self, known(key, self._view.columns, self._held.why_not))
        if isinstance(key, Mask):
            if key.frame._held is not self._held:
                raise UnsupportedQueryError("the mask is of a different protected frame")
            return self._filtered(key.text, key.values)
        if isinstance(key, list) and all(isinstance(name, str) for name in key):
            names = self._known(key)
            return self._over(replace(self._view, columns={name: self._view.columns[name] for name in names}))
        return not_a_bracket(key)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(name)

    def resample(self, rule: str, *, on: str) -> Groups:
        """Returns the groups of periods: `resample("MS", on="day")["spend"].sum(epsilon="0.5")`."""
        return self.groupby(pd.Grouper(key=on, freq=rule))

    def _over(self, view: View) -> Protected:
        return Protected(self._held, view, is_explaining=self._is_explaining)

    def query(self, expr: str, *, local_dict: Mapping[str, object] | None = None) -> Protected:
        """Returns the rows for which a condition holds, in the words of `DataFrame.query`; parsed, never evaluated."""
        return self._filtered(expr, local_dict or {})

    def _filtered(self, text: str, values: Mapping[str, object]) -> Protected:
        return self._over(filtered(self._view, text, why_not=self._held.why_not, local_dict=values))

    def assign_bounds(
        self, bounds: Mapping[str, tuple[object, object]] | None = None, **by_name: tuple[object, object]
    ) -> Protected:
        """Returns the frame with columns clamped to a lower and upper bound each: `assign_bounds(age=(18, 90))`."""
        made = clamped(self._view, {**(bounds or {}), **by_name}, self._held.why_not)
        return self._over(made)

    def join(self, other: object, on: str | Sequence[str], how: str = "left") -> Protected:
        """Returns the frame beside a public one, as `DataFrame.join`; missing values are equal to nothing.

        Args:
            other: A small pandas frame that all may know; or one that `protect` was given as `public`, or its name.
            on: Columns of this frame that equal the columns of these names in `other`, or else its index.
            how: "left" or "inner".
        """
        names = [on] if isinstance(on, str) else list(on)
        names = [known(name, self._view.columns, self._held.why_not) for name in names]
        declared = self._declared(other)
        if declared is not None:
            table, columns, index = declared
            rows = None
        else:
            columns, index, rows = _written(other)
            table = ""
        to = names if all(name in columns for name in names) else index
        if len(to) != len(names):
            advice = "Give it columns of the same names, or an index of that many levels."
            raise UnsupportedQueryError(f"the public frame has nothing to equal {', '.join(names)}", advice=advice)
        made = joined(self._view, on=names, to=to, columns=columns, rows=rows, table=table, how=how)
        return self._over(made)

    def sql(self, query: str, *, params: Any = None, **asked: Any) -> Result | Plan:
        """Returns the `Result` of a SELECT that calls this frame `this`; arguments as in `Session.sql`."""
        text, values = with_view(self._view, query, params)
        made: Result | Plan = self._run(text, values, asked, lambda result: result, dialects=True)
        return made

    def suggest_bounds(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        coverage: object = "0.99",
    ) -> SuggestedBounds:
        """Returns bounds of columns, and rows of units, found with noise; charged once for all of them.

        Args:
            columns: One or several; by default all numbers, dates and timestamps without bounds.
            epsilon, delta, rho: What it may lose, as in `Session.sql`.
            coverage: The part of units that all values, or rows, are within.
        """
        if self._is_explaining:
            advice = "It costs what you offer: the epsilon that you say, once for all columns."
            raise UnsupportedQueryError("suggest_bounds has no plan", advice=advice)
        if self._view.text:
            advice = "Ask the frame that was protected; assign_bounds takes what it says."
            raise UnsupportedQueryError("bounds are found for a whole frame, not for a part of it", advice=advice)
        held, table = self._held, self._view.table
        names = None
        if columns is not None:
            asked = [columns] if isinstance(columns, str) else columns
            names = [f"{table}.{known(name, self._view.columns, held.why_not)}" for name in asked]
        with working():
            found = held.session.suggest_bounds(names, epsilon=epsilon, delta=delta, rho=rho, coverage=coverage)
        return SuggestedBounds(
            bounds={column: pair for (_, column), pair in found.bounds.items()},
            max_rows=found.max_rows.get(table),
            missing=tuple(column for _, column in found.missing),
            charge=found.charge,
        )

    def profile(self, *, epsilon: object = None, delta: object = None, rho: object = None) -> Profile:
        """Returns how rows and values of units lie against the bounds, as `Session.profile`; charged anew each time.

        From then on answers say what bounds leave out, and `max_rows="auto"` is the number that it suggests.
        """
        if self._is_explaining or self._view.text:
            advice = "Ask the frame that was protected: it costs what you offer."
            raise UnsupportedQueryError("a profile describes a whole frame and has no plan", advice=advice)
        with working():
            return self._held.session.profile(epsilon=epsilon, delta=delta, rho=rho)

    def _declared(self, other: object) -> tuple[str, Mapping[str, FrameColumn], list[str]] | None:
        """Returns name, columns and index of a frame that was declared as public, or None."""
        for name, (frame, columns) in self._held.public.items():
            if other is frame or (isinstance(other, str) and other == name):
                return name, columns, _index_of(frame)
        if isinstance(other, str):
            reason = f"there is no public frame {other!r}; {suggestion(other, self._held.public)}"
            raise UnknownNameError(reason, advice="Give it to protect, public={...}.")
        return None

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
        text = f"SELECT {', '.join(select)} FROM {source or self._view.source}{rest}"
        return self._run(text, {**self._view.params, **(params or {})} or None, asked, shape)

    def _run(
        self,
        text: str,
        params: Any,
        asked: Mapping[str, Any],
        shape: Callable[[Result], Any],
        *,
        dialects: bool = False,
    ) -> Any:
        asked = without_habits(asked)
        allowed = (*ASKED, "dialect") if dialects else ASKED
        if unknown := sorted(asked.keys() - set(allowed)):
            reason = f"{unknown[0]} is not an argument here; {suggestion(unknown[0], allowed)}"
            raise UnsupportedQueryError(reason, advice="Other arguments of pandas have no private counterpart.")
        if self._is_explaining:
            return self._held.session.explain(text, params=params, **asked)
        with working():
            try:
                result = self._held.session.sql(text, params=params, **asked)
            except MissingDeltaError as error:
                advice = (
                    "Say protect(..., keys={'x': [...]}) of keys that everybody may know, or a budget with a delta."
                )
                error.advice = advice
                raise
        self._held.last = result
        for words in result.warnings:
            warnings.warn(words, AccuracyWarning, stacklevel=4)
        return with_accuracy(shape, result)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a protected frame cannot be copied or pickled: it holds data and a ledger")

    def __repr__(self) -> str:
        catalog = self._held.session.catalog
        unit = "each row is a unit" if self._held.unit == ("row",) else f"unit {', '.join(self._held.unit)}"
        columns = ", ".join(self.columns)
        return f"Protected(dataset={catalog.dataset!r}, {unit}, remaining {self.remaining}, columns: {columns})"


def _index_of(frame: object) -> list[str]:
    return [str(name) for name in frame.index.names if name is not None] if isinstance(frame, pd.DataFrame) else []


def _written(other: object) -> tuple[Mapping[str, FrameColumn], list[str], list[list[object]]]:
    """Returns the columns, the index and the rows of a small public frame."""
    if not isinstance(other, pd.DataFrame):
        if isinstance(other, Protected):
            raise UnsupportedQueryError("a protected frame cannot be joined", advice="join takes public frames.")
        advice = "Give a pandas frame, or the name of one that protect was given as public."
        raise UnsupportedQueryError(f"a {type(other).__name__} cannot be joined", advice=advice)
    if MARK in other.attrs:
        advice = "join takes frames that everybody may know."
        raise UnsupportedQueryError("the frame was made from protected rows", advice=advice)
    index = _index_of(other)
    flat = other.reset_index() if index else other
    found = columns_of_pandas(flat, {})
    if found.unknown:
        name, why = next(iter(found.unknown.items()))
        raise UnsupportedQueryError(f"column {name!r} of the public frame cannot be used: {why}")
    if not len(flat) or len(flat) * len(flat.columns) > MOST_CELLS:
        advice = "Give it to protect when the dataset is first protected: public={'name': frame}."
        raise UnsupportedQueryError(f"a query holds a public frame of 1 to {MOST_CELLS} values", advice=advice)
    values = [[plain(v, found.known[name]) for v in flat[name].tolist()] for name in found.known]
    return found.known, index, [list(row) for row in zip(*values, strict=True)]
