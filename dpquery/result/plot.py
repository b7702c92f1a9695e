"""Answers as pictures: noisy numbers with their intervals, in the form that their keys suggest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.errors import DPQueryError
from dpquery.extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpquery.result.table import Result

MOST_ROWS = 200
"""Rows that are drawn; of a longer answer the first ones."""
KINDS = ("point", "bar", "line", "heat")
WRITTEN_CELLS = 120
"""Cells of a heat map up to which each shows its number and interval."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What is drawn: rows by their keys, and for each noisy number its values and the ends of its intervals."""

    keys: pa.Table
    numbers: dict[str, tuple[Numbers, Numbers, Numbers]]

    @property
    def labels(self) -> list[str]:
        """The rows, by what carries no noise."""
        rows = zip(*self.keys.columns, strict=True) if self.keys.num_columns else iter(())
        return [", ".join(str(value.as_py()) for value in row) for row in rows]


def plot(result: Result, kind: str | None = None) -> Figure:
    """Returns a figure with one panel for each noisy number; no error bar where nothing is known.

    Args:
        kind: "point", "bar", "line" or "heat". If None: a line over dates and timestamps, a heat map of two keys and
            one number, else points.
    """
    drawn = _read(result)
    kind = kind or _kind(drawn)
    if kind not in KINDS:
        raise DPQueryError(f"there is no picture of kind {kind!r}\n  Known: {', '.join(KINDS)}.")
    if kind == "heat" and drawn.keys.num_columns != 2:
        raise DPQueryError("a heat map has two keys\n  Group by two columns, or draw points.")
    pyplot = extra(
        "matplotlib.pyplot", of="plot", purpose="a plot", instead="`answer.accuracy` has the same intervals as numbers."
    )
    count = len(drawn.numbers)
    figure, panels = pyplot.subplots(count, 1, sharex=kind != "heat", squeeze=False, layout="constrained")
    draw: Callable[..., None] = {"point": _points, "bar": _bars, "line": _line, "heat": _heat}[kind]
    for panel, (name, numbers) in zip(panels[:, 0], drawn.numbers.items(), strict=True):
        draw(panel, drawn, name, *numbers)
    if kind in ("point", "bar"):
        labels = drawn.labels or [""] * len(drawn.keys)
        panels[-1, 0].set_xticks(np.arange(len(labels)), labels, rotation=45 if len(labels) > 6 else 0)
    figure.supxlabel(f"{result.confidence * 100:g} % intervals of the noise", fontsize="small")
    made: Figure = figure
    return made


def _read(result: Result) -> _Drawn:
    bounds = result.accuracy
    noisy = dict.fromkeys(str(pair[0]) for pair in bounds.columns.to_list())
    names = [name for name in noisy if _is_number(result, name)]
    if not names:
        raise DPQueryError("the answer has no noisy number to draw")
    table = result.to_arrow().slice(0, MOST_ROWS)
    numbers = {}
    for name in names:
        values = np.array([np.nan if v is None else float(v) for v in table[name].to_pylist()])
        lower, upper = (bounds[name, end].to_numpy()[: len(table)] for end in ("lower", "upper"))
        numbers[name] = (values, lower, upper)
    keys = table.select([name for name in result.columns if (name, "lower") not in bounds.columns])
    return _Drawn(keys if keys.num_columns else pa.table({"": pa.nulls(len(table), pa.string())}), numbers)


def _kind(drawn: _Drawn) -> str:
    types = [field.type for field in drawn.keys.schema]
    if len(types) == 1 and pa.types.is_temporal(types[0]):
        return "line"
    return "heat" if len(types) == 2 and len(drawn.numbers) == 1 else "point"


def _errors(values: Numbers, lower: Numbers, upper: Numbers) -> Any:
    return np.nan_to_num(np.maximum([values - lower, upper - values], 0))


def _points(panel: Any, drawn: _Drawn, name: str, values: Numbers, lower: Numbers, upper: Numbers) -> None:
    errors = _errors(values, lower, upper)
    panel.errorbar(np.arange(len(values)), values, yerr=errors, fmt="o", capsize=3)
    panel.set_ylabel(name)


def _bars(panel: Any, drawn: _Drawn, name: str, values: Numbers, lower: Numbers, upper: Numbers) -> None:
    panel.bar(np.arange(len(values)), values, yerr=_errors(values, lower, upper), width=0.9, capsize=3, alpha=0.7)
    panel.set_ylabel(name)


def _line(panel: Any, drawn: _Drawn, name: str, values: Numbers, lower: Numbers, upper: Numbers) -> None:
    """One line over the first key, with a band of intervals."""
    places = drawn.keys.column(0).to_pandas()
    known = places.notna().to_numpy()
    x = places[known].to_numpy()
    panel.plot(x, values[known], marker="o", markersize=3)
    panel.fill_between(x, lower[known].astype(float), upper[known].astype(float), alpha=0.25, linewidth=0)
    panel.set_ylabel(name)
    panel.set_xlabel(drawn.keys.column_names[0])
    panel.tick_params(axis="x", rotation=30)


def _heat(panel: Any, drawn: _Drawn, name: str, values: Numbers, lower: Numbers, upper: Numbers) -> None:
    """A cell for each pair of keys, written with half the width of its interval."""
    sides = [[str(value) for value in column.to_pylist()] for column in drawn.keys.columns]
    down, across = (list(dict.fromkeys(side)) for side in sides)
    grid = np.full((len(down), len(across)), np.nan)
    half = np.full_like(grid, np.nan)
    for a, b, value, low, high in zip(*sides, values, lower, upper, strict=True):
        grid[down.index(a), across.index(b)], half[down.index(a), across.index(b)] = value, (high - low) / 2
    image = panel.imshow(grid, aspect="auto")
    panel.figure.colorbar(image, ax=panel, label=name)
    panel.set_yticks(range(len(down)), down)
    panel.set_xticks(range(len(across)), across, rotation=45 if len(across) > 6 else 0)
    panel.set_ylabel(drawn.keys.column_names[0])
    panel.set_xlabel(drawn.keys.column_names[1])
    if grid.size <= WRITTEN_CELLS:
        middle = np.nanmean([np.nanmin(grid), np.nanmax(grid)])
        for (i, j), value in np.ndenumerate(grid):
            text = "" if np.isnan(value) else f"{value:.4g}" + ("" if np.isnan(half[i, j]) else f"\n±{half[i, j]:.2g}")
            panel.text(j, i, text, ha="center", va="center", color="white" if value < middle else "black", fontsize=8)


def _is_number(result: Result, name: str) -> bool:
    type = str(result.to_arrow().schema.field(name).type)
    return type.startswith(("int", "double", "decimal"))
