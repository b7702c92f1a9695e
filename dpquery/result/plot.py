"""Answers as pictures: one panel for each noisy column, with its intervals as error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpquery.errors import DPQueryError
from dpquery.extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpquery.result.table import Result

MOST_ROWS = 200
"""Rows that are drawn; of a longer answer the first ones."""


def plot(result: Result) -> Figure:
    """Returns a figure: rows as points, labelled by the columns that carry no noise; no bar where nothing is known."""
    bounds = result.accuracy
    noisy = dict.fromkeys(str(pair[0]) for pair in bounds.columns.to_list())
    names = [name for name in noisy if _is_number(result, name)]
    if not names:
        raise DPQueryError("the answer has no noisy number to draw")
    table = result.to_arrow().slice(0, MOST_ROWS)
    exact = [c for name, c in zip(result.columns, table.columns, strict=True) if (name, "lower") not in bounds.columns]
    labels = [", ".join(str(value.as_py()) for value in row) for row in zip(*exact, strict=True)] or [""] * len(table)
    figure, panels = extra(
        "matplotlib.pyplot", of="plot", purpose="a plot", instead="`answer.accuracy` has the same intervals as numbers."
    ).subplots(len(names), 1, sharex=True, squeeze=False, layout="constrained")
    places = np.arange(len(table))
    for panel, name in zip(panels[:, 0], names, strict=True):
        values = np.array([np.nan if v is None else float(v) for v in table[name].to_pylist()])
        ends = [bounds[name, end].to_numpy()[: len(table)] for end in ("lower", "upper")]
        errors = np.nan_to_num(np.maximum([values - ends[0], ends[1] - values], 0))
        panel.errorbar(places, values, yerr=errors, fmt="o", capsize=3)
        panel.set_ylabel(name)
    panels[-1, 0].set_xticks(places, labels, rotation=45 if len(table) > 6 else 0)
    panels[-1, 0].set_xlabel(f"{result.confidence * 100:g} % intervals of the noise")
    made: Figure = figure
    return made


def _is_number(result: Result, name: str) -> bool:
    type = str(result.to_arrow().schema.field(name).type)
    return type.startswith(("int", "double", "decimal"))
