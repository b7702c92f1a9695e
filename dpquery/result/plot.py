"""Answers as pictures: noisy numbers with their intervals, in the form that their keys suggest."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.accuracy.intervals import digits_of
from dpquery.errors import DPQueryError, extra
from dpquery.result.bins import PlotAxis
from dpquery.result.choices import ABOVE, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpquery.result.table import Result

MOST_ROWS = 200
"""Rows that are drawn; of a longer answer the first ones."""
KINDS = ("point", "bar", "line", "heat")
WRITTEN_CELLS = 120
"""Cells of a heat map up to which each shows its number and interval."""
LONGEST_WRITTEN = 1e6
"""A number in a cell of a heat map from which on it is written with an exponent."""
MOST_LABELS = 25
"""Labels along an axis; of more keys every second, third and so on has one."""
LONGEST_TITLE = 60
"""Characters of an expression on an axis."""
LONGEST_NOTE = 100
"""Characters of a line of a note below the figure."""
MOST_LINES = 3
"""Of a note."""
LEVEL_CHARACTERS = 60
"""Characters of labels that fit along an axis; longer ones are turned."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What is drawn: rows by their keys, and for each noisy number its values and the ends of its intervals.

    Attributes:
        axes: What keys stand for.
        ranks: What is said of numbers whose error is known in ranks alone.
        biased: Numbers that are known to be too low.
    """

    keys: pa.Table
    numbers: dict[str, tuple[Numbers, Numbers, Numbers]]
    axes: Mapping[str, PlotAxis]
    ranks: Mapping[str, str]
    biased: frozenset[str]

    @property
    def labels(self) -> list[str]:
        """The rows, by what carries no noise."""
        if not self.keys.num_columns:
            return [""] * len(self.keys)
        columns = [self.labels_of(place) for place in range(self.keys.num_columns)]
        return [", ".join(row) for row in zip(*columns, strict=True)]

    def labels_of(self, place: int) -> list[str]:
        """A key of each row; of bins the values that they hold."""
        axis = self.axes.get(self.keys.column_names[place])
        values = self.keys.column(place).to_pylist()
        return [(axis.label(value) if axis is not None else None) or _label(value) for value in values]

    def title(self, place: int) -> str:
        """What a key is: its name, and what it was computed from; of bins what lies in them."""
        name = str(self.keys.column_names[place])
        axis = self.axes.get(name)
        text = "" if axis is None else axis.of or axis.text
        return name if text in ("", name) or len(text) > LONGEST_TITLE else f"{name}: {text}"


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
    from dpquery.result.figure import AnswerFigure

    figure = pyplot.figure(FigureClass=AnswerFigure, layout="constrained")
    panels = figure.subplots(len(drawn.numbers), 1, sharex=kind != "heat", squeeze=False)
    draw: Callable[..., None] = {"point": _points, "bar": _bars, "line": _line, "heat": _heat}[kind]
    level = result.level
    for panel, (name, numbers) in zip(panels[:, 0], drawn.numbers.items(), strict=True):
        draw(panel, drawn, name, *numbers)
        if kind != "heat":
            _explain(panel, drawn, name, numbers, level)
    if kind in ("point", "bar"):
        _label_across(panels[-1, 0], drawn.labels)
        panels[-1, 0].set_xlabel(", ".join(map(drawn.title, range(drawn.keys.num_columns))))
    figure.supxlabel("\n".join([_known_of(level, drawn), *map(_shortened, result.notes)]), fontsize="small")
    made: Figure = figure
    return made


def _explain(panel: Any, drawn: _Drawn, name: str, numbers: tuple[Numbers, Numbers, Numbers], level: str) -> None:
    """Says in a legend what bands or bars hold, or why there are none, and marks numbers that are known to be low."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if _has_interval(numbers):
        is_band = bool(panel.collections) and not panel.containers
        handles.append(
            Patch(alpha=0.25, label=level) if is_band else Line2D([], [], color="C0", marker="|", label=level)
        )
    elif name in drawn.ranks:
        handles.append(Line2D([], [], linestyle="", label=f"{drawn.ranks[name]}; no interval of values is known"))
    if name in drawn.biased:
        values, _, upper = numbers
        places = panel.lines[0].get_xdata() if panel.lines else np.arange(len(values))
        known = np.isfinite(values)
        ends = np.where(np.isfinite(upper), upper, values)[known]
        if len(places) == len(known):
            (mark,) = panel.plot(places[known], ends, linestyle="", marker="^", color="tab:red", markersize=5)
            mark.set_label(f"{ABOVE}: too low, not in the intervals")
            handles.append(mark)
    if handles:
        panel.legend(handles=handles, fontsize="small", loc="best")


def _known_of(level: str, drawn: _Drawn) -> str:
    """Returns what the bars and bands are, and of which numbers there are none."""
    without = [name for name, numbers in drawn.numbers.items() if not _has_interval(numbers)]
    return f"{level}; of {', '.join(without)} none is known" if without else level


def _has_interval(numbers: tuple[Numbers, Numbers, Numbers]) -> bool:
    return bool(np.isfinite(numbers[2] - numbers[1]).any())


def _shortened(note: str) -> str:
    return "\n".join(textwrap.wrap(note, LONGEST_NOTE, max_lines=MOST_LINES, placeholder=" ..."))


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
    ranks = {name: within(error) for name, error in result.rank_errors.items()}
    return _Drawn(keys, numbers, result.axes, ranks, result.biased)


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
    panel.set_xlabel(drawn.title(0))
    panel.tick_params(axis="x", rotation=30)


def _heat(panel: Any, drawn: _Drawn, name: str, values: Numbers, lower: Numbers, upper: Numbers) -> None:
    """A cell for each pair of keys, written with half the width of its interval."""
    sides = [drawn.labels_of(place) for place in range(2)]
    down, across = (list(dict.fromkeys(side)) for side in sides)
    grid = np.full((len(down), len(across)), np.nan)
    half = np.full_like(grid, np.nan)
    for a, b, value, low, high in zip(*sides, values, lower, upper, strict=True):
        grid[down.index(a), across.index(b)], half[down.index(a), across.index(b)] = value, (high - low) / 2
    image = panel.imshow(grid, aspect="auto")
    panel.figure.colorbar(image, ax=panel, label=f"{name}, too low: {ABOVE}" if name in drawn.biased else name)
    panel.set_yticks(range(len(down)), down)
    _label_across(panel, across)
    panel.set_ylabel(drawn.title(0))
    panel.set_xlabel(drawn.title(1))
    if grid.size <= WRITTEN_CELLS:
        middle = np.nanmean([np.nanmin(grid), np.nanmax(grid)])
        whole = bool(np.all(np.isnan(grid) | (grid == np.round(grid))))
        for (i, j), value in np.ndenumerate(grid):
            text = _cell(float(value), float(half[i, j]), whole=whole)
            panel.text(j, i, text, ha="center", va="center", color="white" if value < middle else "black", fontsize=8)


def _cell(value: float, half: float, *, whole: bool) -> str:
    """Returns a number and half the width of its interval, with as many digits as that deserves, or nothing."""
    if math.isnan(value):
        return ""
    if abs(value) >= LONGEST_WRITTEN or not math.isfinite(half):
        return f"{value:.4g}" + (f"\n±{half:.2g}" if math.isfinite(half) else "")
    digits = 0 if whole else digits_of(half)
    return f"{value:.{digits}f}\n±{half:.{digits}f}"


def _label(value: object) -> str:
    """Returns a key for people: NULL, dates without a time of 0:00, floats without digits that say nothing."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value).removesuffix(" 00:00:00")


def _label_across(panel: Any, labels: list[str]) -> None:
    """Labels the places 0, 1, ... along the lower side."""
    step = max(1, math.ceil(len(labels) / MOST_LABELS))
    shown = labels[::step]
    is_long = sum(map(len, shown)) > LEVEL_CHARACTERS
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
    panel.set_xticks(np.arange(0, len(labels), step), shown, **turned)


def _is_number(result: Result, name: str) -> bool:
    type = str(result.to_arrow().schema.field(name).type)
    return type.startswith(("int", "double", "decimal"))
