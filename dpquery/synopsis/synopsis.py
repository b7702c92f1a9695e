"""Synopsis: what was bought, for people and programs; and what it would be, before it is."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpquery.catalog.names import plain
from dpquery.errors import ParameterError
from dpquery.kernel.loss import PrivacyLoss
from dpquery.synopsis.axes import SynopsisAxis
from dpquery.synopsis.making import Transcript, measure
from dpquery.synopsis.model import Integers, Marginal
from dpquery.synopsis.rounds import MEAN_SIZE, MarginalQuestion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WAYS = {1: "columns", 2: "pairs", 3: "triples"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One marginal of a synopsis: how exact it was measured, and how near to it the synthetic rows are.

    Attributes:
        columns: Its columns' names.
        cells: The number of its groups.
        deviation: Of the noise of each number.
        noise: The expected sum of the noises' sizes, as a share of the rows.
        apart: The sum of the differences between synthetic and measured numbers, as a share of the rows; NaN before.
    """

    columns: tuple[str, ...]
    cells: int
    deviation: float
    noise: float
    apart: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What a synopsis measures, or would measure, and how exact that is."""

    measured: tuple[Measured, ...]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each marginal."""
        import pandas as pd

        rows = [(", ".join(m.columns), m.cells, m.deviation, m.noise, m.apart) for m in self.measured]
        return pd.DataFrame(rows, columns=["columns", "cells", "deviation", "noise", "apart"])

    def of(self, way: int) -> tuple[Measured, ...]:
        """Returns the marginals of so many columns."""
        return tuple(one for one in self.measured if len(one.columns) == way)

    def lines(self) -> list[str]:
        """Returns a line for columns, pairs and triples each."""
        found = []
        for way, name in WAYS.items():
            some = self.of(way)
            if some:
                noise, apart = (float(np.mean([getattr(m, part) for m in some])) for part in ("noise", "apart"))
                near = "" if math.isnan(apart) else f"; synthetic rows are {apart:.1%} apart from it"
                least, most = min(m.deviation for m in some), max(m.deviation for m in some)
                spread = f"{least:,.1f}" if most < 1.01 * least else f"{least:,.1f} to {most:,.1f}"
                found.append(
                    f"{len(some)} tables by {name}: ± {spread} (a deviation of noise) in each cell, {noise:.1%} of the "
                    f"rows over all{near}"
                )
        return found

    def plot(self) -> Figure:
        """Returns a figure: of each marginal the noise and, once there are any, the distance of synthetic rows."""
        try:
            from matplotlib.figure import Figure as Made
        except ImportError:
            raise ParameterError("plots need matplotlib", advice="pip install 'dpquery[plot]'") from None
        figure = Made(figsize=(8, 3.2), layout="constrained")
        ways = [way for way in WAYS if self.of(way)]
        for place, way in enumerate(ways):
            axes, some = figure.add_subplot(1, len(ways), place + 1), sorted(self.of(way), key=lambda m: m.noise)
            axes.plot([m.noise for m in some], "o", markersize=3, label="noise, expected")
            if not all(math.isnan(m.apart) for m in some):
                axes.plot([m.apart for m in some], "_", label="synthetic from measured")
            axes.set(title=WAYS[way], ylim=(0, None), xticks=[])
            axes.set_ylabel("share of the rows" if not place else "")
        figure.axes[-1].legend(fontsize="small")
        return figure


def quality_of(transcript: Transcript, cells: Integers | None = None) -> Quality:
    """Returns how exact each marginal of the later rounds is, or of the first where a column was asked once.

    Args:
        cells: The synthetic rows, shape (rows, columns); None before there are any.
    """
    again = {one.columns for one in transcript.later}
    first = [] if cells is not None else [one for one in transcript.first if one.columns not in again]
    rows = max(1.0, float(np.median([one.numbers.sum() for one in transcript.first])))
    return Quality(measured=tuple(_measured(one, transcript, rows, cells) for one in (*first, *transcript.later)))


def _measured(one: Marginal, transcript: Transcript, rows: float, cells: Integers | None) -> Measured:
    deviation, apart = float(np.sqrt(one.variances.mean())), math.nan
    if cells is not None:
        found = np.bincount(one.places(cells), minlength=len(one.numbers)) * (rows / len(cells))
        apart = float(np.abs(found - one.numbers).sum()) / rows
    return Measured(
        columns=tuple(transcript.axes[i].name for i in one.columns),
        cells=len(one.numbers),
        deviation=deviation,
        noise=MEAN_SIZE * deviation * len(one.numbers) / rows,
        apart=apart,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SynopsisPlan:
    """What a synopsis would measure of a table of so many rows; nothing was charged or read.

    Attributes:
        table: Whose.
        columns: Its columns, with their numbers of cells.
        rows: The number of rows that is assumed.
        loss: What it would cost.
        quality: What would be measured where values are spread evenly.
    """

    table: str
    columns: Mapping[str, int]
    rows: int
    loss: PrivacyLoss
    quality: Quality

    def __str__(self) -> str:
        cells = ", ".join(f"{plain(name)} ({size})" for name, size in self.columns.items())
        return "\n".join(
            [
                f"Synopsis of {plain(self.table)}, not bought",
                f"  columns (cells): {cells}",
                f"  if the table has {self.rows:,} rows, spread evenly over its cells:",
                *(f"  {line}" for line in self.quality.lines()),
                f"Would be charged {self.loss}, for all analysts once",
            ]
        )

    __repr__ = __str__


def expected(axes: Sequence[SynopsisAxis], rows: int, deviation: float, is_pure: bool) -> Quality:
    """Returns what would be measured of so many rows that are spread evenly.

    Args:
        deviation: Of the noise of a single marginal for the whole loss.
    """

    def ask(questions: Sequence[MarginalQuestion], asked: Sequence[SynopsisAxis], share: Fraction) -> list[Marginal]:
        more = len(questions) / float(share)
        spread, made = deviation * (more if is_pure else math.sqrt(more)), []
        for question in questions:
            size = math.prod(int(groups.max()) + 1 for groups in question.groups)
            numbers, variances = np.full(size, rows / size), np.full(size, spread**2)
            made.append(
                Marginal(columns=question.columns, groups=question.groups, numbers=numbers, variances=variances)
            )
        return made

    return quality_of(measure(axes, ask, is_pure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Synopsis:
    """Synthetic rows of one table, which any SQL may read free as `synopsis.NAME`.

    Attributes:
        name: Of its table in the schema `synopsis`.
        table: The table that it tells of.
        columns: The columns that were measured; all others of the table are NULL.
        measures: Those of them whose values queries add up.
        rows: The synthetic rows, typed as declared.
        weight: How many rows of the table each of them stands for.
        quality: What was measured, and how exact.
        charge: What the ledger counted, once.
        entry: The ledger's entry.
        analyst, time: Who bought it, and when.
        data_version: Of the data that it tells of.
        transcript: What was measured.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    measures: tuple[str, ...]
    rows: pa.Table
    weight: float
    quality: Quality
    charge: PrivacyLoss
    entry: int
    analyst: str
    time: str
    data_version: str
    transcript: Transcript

    def to_arrow(self) -> pa.Table:
        """Returns the synthetic rows, as SQL sees them."""
        return self.rows

    def to_pandas(self) -> pd.DataFrame:
        """Returns the synthetic rows as a DataFrame."""
        frame: pd.DataFrame = self.rows.to_pandas()
        return frame

    @property
    def note(self) -> str:
        """A line that goes with each answer."""
        parts = []
        for way, name in WAYS.items():
            if some := self.quality.of(way):
                apart, noise = (float(np.mean([getattr(m, part) for m in some])) for part in ("apart", "noise"))
                parts.append(f"{apart:.1%} by {name} (noise alone makes {noise:.1%})")
        each = "" if self.weight == 1 else f"; each row stands for {self.weight:.6g}: SUM(row_weight) counts"
        return (
            f"synthetic: synopsis.{plain(self.name)} has {self.rows.num_rows:,} made rows, from release {self.entry}"
            f"{each}. Numbers with an interval are sums of measured cells, and it holds the table's own; all others "
            "are synthetic alone, and may be off by any amount. Its rows are apart from what was measured of the table "
            f"by {', '.join(parts)}"
        )

    def __str__(self) -> str:
        standing = "" if self.weight == 1 else f", each for {self.weight:.6g} of the table"
        return "\n".join(
            [
                f"Synopsis {plain(self.name)} of {plain(self.table)}: {self.rows.num_rows:,} synthetic rows{standing}",
                f"  columns: {', '.join(map(plain, self.columns))}",
                *(f"  {line}" for line in self.quality.lines()),
                f"[charged {self.charge} once, as release {self.entry}; free from here on]",
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
