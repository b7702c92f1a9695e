"""Result: the answer's table, its accuracy, and what it cost; for programs, terminals and notebooks."""

from __future__ import annotations

import copy
import html
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa

from dpquery.accuracy.intervals import IntervalInputs
from dpquery.accuracy.rules import Interval
from dpquery.data.arrow import for_pandas
from dpquery.kernel.loss import PrivacyLoss
from dpquery.result.arrays import is_number
from dpquery.result.bins import PlotAxis
from dpquery.result.cell_texts import NONE, exact, line, value_text, with_intervals
from dpquery.result.choices import ABOVE, RankError, sentence
from dpquery.result.finish import Finished
from dpquery.result.measurements import Measurement
from dpquery.result.plot import plot
from dpquery.result.simultaneous import read_confidence
from dpquery.result.warnings import warnings_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SHOWN_ROWS = 40

WAY_ON = "its table is to_pandas() or to_arrow(), and intervals() are those of its numbers"


class Result:
    """One noisy answer. It is materialised: reading it again draws no noise and costs nothing.

    Attributes:
        charge: What the ledger counted for it; of a batch, for all its answers together.
        guarantee: What the answer alone satisfies: epsilon and delta, or rho and delta; of a batch, all its answers.
        measurements: How each noisy column was measured.
        blocks: The blocks that were charged, as "2024-01 to 2024-03"; "" where the dataset's rows are in none.
        protects: What the charge and the guarantee are about, as "the rows of one patient in one month".
        confidence: The probability with which the interval of a cell holds: at least, or about where it is simulated.
        simultaneous: Whether it is the probability, at least, with which all of them hold at once.
    """

    def __init__(
        self,
        finished: Finished,
        *,
        charge: PrivacyLoss,
        guarantee: PrivacyLoss,
        measurements: tuple[Measurement, ...],
        confidence: Fraction,
        protects: str,
        blocks: str = "",
        charged_with: int = 1,
        entry: int | None = None,
        notes: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        simultaneous: bool = False,
    ) -> None:
        self._charged_with = charged_with
        self._table, self._finished = finished.table, finished
        self.charge: PrivacyLoss = charge
        self.guarantee: PrivacyLoss = guarantee
        self.measurements: tuple[Measurement, ...] = measurements
        self.blocks: str = blocks
        self.protects: str = protects
        self.confidence: float = float(confidence)
        self.simultaneous: bool = simultaneous
        self._confidence, self._told, self._warned = confidence, notes, warnings
        self._found: dict[str, Interval] = {}
        is_charged = entry is not None and any(not measurement.stored for measurement in measurements)
        self._entries: tuple[int, ...] = (entry,) if entry is not None and is_charged else ()
        self._own = measurements

    def after(self, steps: Sequence[Result]) -> Result:
        """Returns the answer of a query whose steps were answered before: charge and guarantee are those of all."""
        made = copy.copy(self)
        made.charge = sum((step.charge for step in steps), self.charge)
        made.guarantee = sum((step.guarantee for step in steps), self.guarantee)
        made.measurements = tuple(one for step in (*steps, self) for one in step.measurements)
        made._entries = tuple(entry for step in (*steps, self) for entry in step._entries)
        told = [step._released() for step in steps]
        made._told = tuple(dict.fromkeys([*told, *(note for step in steps for note in step._told), *self._told]))
        return made

    def _released(self) -> str:
        if self._table.num_rows == 1 and self._table.num_columns == 1:
            return f"released first, and used as a constant: {value_text(self._table.column(0)[0].as_py())}"
        return f"released first, and used as constants: {self._table.num_rows} rows"

    @property
    def releases(self) -> tuple[int, ...]:
        """The ledger's entries that paid for what the answer is computed from, this query's own last.

        Example:
            >>> len(session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1").releases)
            1
        """
        stored = {entry for measurement in self.measurements for entry in measurement.stored}
        return (*sorted(stored - {*self._entries}), *self._entries)

    @property
    def source(self) -> str:
        """Where its numbers come from, for people: `charged as release 7`, or `free, from release 3`.

        Example:
            >>> session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1").source.split(" release ")[0]
            'charged as'
        """
        stored = [entry for entry in self.releases if entry not in self._entries]
        if not self._entries:
            return f"free, from {_releases(stored)}" if stored else "free"
        return f"charged as {_releases(self._entries)}" + (f", and from {_releases(stored)}" if stored else "")

    def to_arrow(self) -> pa.Table:
        """Returns the answer as an Arrow table, columns in the order of the query, as `Plan.schema` says before.

        Example:
            >>> session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1").to_arrow().schema
            region: string
            n: int64
        """
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Returns the answer as a DataFrame, columns in the order of the query.

        Sums of integers, which Arrow has as decimals, are int64 here, unless a number is beyond 64 bits.

        Example:
            >>> session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1").to_pandas().shape
            (2, 2)
        """
        columns = [for_pandas(column) for column in self._table.columns]
        frame: pd.DataFrame = pa.Table.from_arrays(columns, names=self._table.column_names).to_pandas()
        return frame

    @property
    def accuracy(self) -> pd.DataFrame:
        """One interval for each noisy cell: rows as in the answer, columns (name, "lower") and (name, "upper").

        The interval speaks of noise alone, not of clamping and not of the weights of rows. NaN: nothing is known.
        `accuracy.attrs["notes"]` holds the answer's `notes`, `accuracy.attrs["ranks"]` its `rank_errors`.

        Example:
            >>> answer = session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1")
            >>> answer.accuracy.shape, [*answer.accuracy.columns]
            ((2, 2), [('n', 'lower'), ('n', 'upper')])
        """
        return self._as_frame(self._intervals)

    def intervals(self, confidence: object = None, *, simultaneous: bool | None = None) -> pd.DataFrame:
        """Returns the intervals for another confidence, in the form of `accuracy`; draws no noise and costs nothing.

        Args:
            confidence: Between 0 and 1; by default that of the query.
            simultaneous: Whether it is the probability, at least, with which all intervals of the answer hold together;
                otherwise each of them by itself; by default as the query was asked.
        Raises:
            InvalidLossError: The confidence is not between 0 and 1.
        Example:
            >>> answer = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
            >>> wide, narrow = (answer.intervals(confidence)["n"] for confidence in ("0.99", "0.5"))
            >>> bool((wide["lower"] < narrow["lower"]).all())
            True
        """
        return self._as_frame(self.ends(confidence, simultaneous))

    def ends(self, confidence: object = None, simultaneous: bool | None = None) -> Mapping[str, Interval]:
        """Returns what `intervals` does, by column, as arrays of shape (rows,)."""
        at_once = self.simultaneous if simultaneous is None else simultaneous
        held = self._confidence if confidence is None else read_confidence(confidence)
        if held == self._confidence and at_once == self.simultaneous:
            return self._intervals
        measured = self._finished.measured(held, at_once)
        return {name: self._finished.interval(name, measured) for name in self._finished.noisy}

    @cached_property
    def rank_errors(self) -> dict[str, float]:
        """How many ranks the quantiles, minima and maxima of the answer are off at most with its confidence, by column.

        How far that is in values depends on the data: `accuracy` has it where other quantiles of the same values and
        their number, in the same answer, tell it.

        Example:
            >>> [*session.sql("SELECT MEDIAN(cost) AS m FROM visits", epsilon=1).rank_errors]
            ['m']
        """
        return {name: error.ranks for name, error in self._ranks.items() if error.target is not None}

    @cached_property
    def _ranks(self) -> Mapping[str, RankError]:
        return self._finished.choices(self._confidence, self.simultaneous)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is known of the rows that bounds leave out, a line for each table, of the table and not of a cell; how
        far chosen values may be off in ranks; then the `warnings`.

        Example:
            >>> any(note.startswith("rank") for note in session.sql("SELECT MEDIAN(cost) FROM visits", epsilon=1).notes)
            True
        """
        ranks = (sentence(self._ranks, self.confidence),) if self._ranks else ()
        return (*self._told, *ranks, *self.warnings)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What in the answer says nothing: no group was shown, intervals are as wide as the range of the values, or
        groups are too small for a quantile or an extreme."""
        found = warnings_of(self._finished, self._interval, self._own, self._ranks)
        return (*self._warned, *found)

    def _as_frame(self, intervals: Mapping[str, Interval]) -> pd.DataFrame:
        import pandas as pd

        bounds = [bound for one in intervals.values() for bound in (one.lower, one.upper)]
        codes = [[place // 2 for place in range(len(bounds))], [place % 2 for place in range(len(bounds))]]
        frame = pd.DataFrame(
            np.column_stack(bounds) if bounds else None,
            index=range(len(self._table)),
            columns=pd.MultiIndex([list(intervals), ["lower", "upper"]], codes) if bounds else None,
        )
        frame.attrs["notes"] = list(self.notes)
        frame.attrs["ranks"] = dict(self.rank_errors)
        return frame

    def plot(self, kind: str | None = None) -> Figure:
        """Returns a matplotlib figure of the noisy numbers with their intervals.

        Args:
            kind: "point", "bar", "line" or "heat". If None: a line over dates and timestamps, a heat map of two keys
                and one number, else points.
        Raises:
            DPQueryError: Nothing to draw, or no matplotlib, which comes with `pip install 'dpquery[plot]'`.
        """
        return plot(self, kind)

    @cached_property
    def _intervals(self) -> dict[str, Interval]:
        return {name: self._interval(name) for name in self._finished.noisy}

    def _interval(self, name: str) -> Interval:
        """Returns one column's intervals, which are found once."""
        if name not in self._found:
            self._found[name] = self._finished.interval(name, self._measured)
        return self._found[name]

    @cached_property
    def _measured(self) -> IntervalInputs:
        return self._finished.measured(self._confidence, self.simultaneous)

    @property
    def axes(self) -> Mapping[str, PlotAxis]:
        """What the group keys of the answer stand for, by column: for the axes of pictures."""
        return self._finished.axes()

    @property
    def biased(self) -> frozenset[str]:
        """The counts of the answer of which rows are known to be left out, more than the noise: they are too low."""
        if not any(ABOVE in note for note in self._told):
            return frozenset()
        return self._finished.counts()

    @property
    def level(self) -> str:
        """What its intervals are, for people: `95 % intervals of the noise`, and whether they hold all at once.

        Example:
            >>> session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1").level
            '95 % intervals of the noise'
        """
        at_once = ", all at once" if self.simultaneous else ""
        return f"{self.confidence * 100:g} % intervals of the noise{at_once}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the answer's columns.

        Example:
            >>> session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1").columns
            ('n',)
        """
        return tuple(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(f"a Result has no brackets: {WAY_ON}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"a Result has no {name!r}" + ("" if name.startswith("_") else f": {WAY_ON}"))

    def __str__(self) -> str:
        return "\n".join([self.to_text(), *self._noted(), self._footer()])

    def to_text(self, most: int = SHOWN_ROWS) -> str:
        """Returns so many rows for people, each noisy cell with its interval; neither notes nor the charge.

        Example:
            >>> answer = session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1")
            >>> [text.split()[0] for text in answer.to_text().splitlines()]
            ['region', '------', 'east', 'west']
        """
        rows = self.cells(most)
        widths = [max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(self.columns)]
        numeric = [is_number(field.type) for field in self._table.schema]
        lines = [line(self.columns, widths, numeric), "  ".join("-" * width for width in widths)]
        lines += [line(row, widths, numeric) for row in rows]
        return "\n".join([*lines, *self._more(most)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        numeric = [is_number(field.type) for field in self._table.schema]
        align = ['style="text-align:right"' if right else 'style="text-align:left"' for right in numeric]
        head = "".join(f"<th {a}>{html.escape(name)}</th>" for a, name in zip(align, self.columns, strict=True))
        body = "".join(
            "<tr>" + "".join(f"<td {a}>{html.escape(c)}</td>" for a, c in zip(align, row, strict=True)) + "</tr>"
            for row in self.cells()
        )
        foot = "<br>".join(html.escape(line) for line in [*self._more(), *self._noted(), self._footer()])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p><small>{foot}</small></p>"

    def cells(self, most: int = SHOWN_ROWS) -> list[list[str]]:
        """Returns the first rows as text, each noisy cell with its interval; intervals are aligned by column.

        Example:
            >>> answer = session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon="0.1")
            >>> [row[0] for row in answer.cells()]
            ['east', 'west']
        """
        shown = self._table.slice(0, most)
        columns: list[list[str]] = []
        for name, column in zip(self.columns, shown.columns, strict=True):
            values = column.to_pylist()
            if name not in self._intervals:
                columns.append([exact(value) for value in values])
                continue
            interval = self._intervals[name]
            beside = str(self._ranks[name]) if name in self.rank_errors else NONE
            columns.append(with_intervals(values, interval.lower.tolist(), interval.upper.tolist(), beside))
        return [list(row) for row in zip(*columns, strict=True)]

    def _more(self, most: int = SHOWN_ROWS) -> list[str]:
        hidden = len(self._table) - most
        return [f"... {hidden} more rows"] if hidden > 0 else []

    def _noted(self) -> list[str]:
        return [f"[{note}]" for note in (self.notes if self._finished.noisy or self._told else self.warnings)]

    def _footer(self) -> str:
        charge = self.source if self.charge == PrivacyLoss() else f"charged {self.charge}"
        charge += f" to {self.blocks}" if self.blocks else ""
        charge += f" for {self._charged_with} queries together" if self._charged_with > 1 else ""
        level = f"{self.level}; " if self._intervals else ""
        return f"[{level}{charge}]"


def _releases(entries: Sequence[int]) -> str:
    return f"release{'s' if len(entries) > 1 else ''} {', '.join(map(str, entries))}"
