"""How often intervals hold, and how wide they are beside what noise really does: each aggregate alone, over groups of
several sizes, at several losses.

Each answer is one of `Session.sql`, over many groups that hold the same rows: each group is a draw of its own. The
engine reads one group of them, and gives its exact integers for all (`Repeated`): the rest is what everybody gets.
Held is the part of groups whose interval holds the exact number; wide is half the median width of intervals over the
distance from the exact number within which 95 % of the answers are. An interval of 95 % should hold in 94 % or more,
and be at most 1.1 wide, or reach an end of the range of all values. Both are known within bounds that fail in one of
1,000 cells: a cell misses where a bound says so, and is drawn again until bounds decide, or `MOST_DRAWS`.
Of quantiles, minima and maxima the error in ranks is compared in the same way: its bound holds whatever the values are.
Where no interval that holds for all data can be as narrow as that (`tightest.py`), the narrowest of those counts in
its place, and `spread` is the width beside what the answers do.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpquery as dp
from benchmarks.tightest import least_ranks, least_rounded
from dpquery.backends.base import Backend
from dpquery.backends.opening import open_backend
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.release import ExactAggregates
from dpquery.session.session import Session

SIZES = (40, 200, 1_000, 10_000)
LOSSES = ({"epsilon": "0.1"}, {"epsilon": "1"}, {"epsilon": "10"}, {"rho": "0.5"})
CANDIDATES = 101
"""Values that `x` can have."""
GROUPS = 250
"""Answers of one query."""
LEAST_DRAWS, MOST_DRAWS = 2_000, 8_000
"""Answers of each cell."""
DOUBT = 0.001
"""How often each bound of a cell fails."""
CELL, CHOICE = "interval of ", "chosen by "
"""How the names of results begin."""
LEAST_HELD, MOST_WIDE, MOST_NONE = 0.94, 1.1, 0.02
Floats = NDArray[np.float64]
Cell = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Question:
    """An aggregate, what it is without noise in a group, and the range of all its values if there is one.

    Attributes:
        is_rounded: Whether it may be a fraction, and is shown as a whole number.
    """

    sql: str
    exact: Callable[[pd.DataFrame], float]
    range: tuple[float, float] | None = None
    target: float | None = None
    table: str = "t"
    is_rounded: bool = False


QUESTIONS: Mapping[str, Question] = {
    "COUNT": Question("COUNT(*)", len),
    "COUNT where": Question("COUNT(*) FILTER (WHERE y > 4)", lambda g: (g.y > 4).sum()),
    "COUNT, 3 rows of a person": Question(
        "COUNT(*)",
        lambda g: (3 / g.groupby("person").x.transform("size")).clip(upper=1).sum(),
        table="rows",
        is_rounded=True,
    ),
    "COUNT DISTINCT": Question("COUNT(DISTINCT kind)", lambda g: g.kind.nunique()),
    "SUM of whole numbers": Question("SUM(x)", lambda g: g.x.sum()),
    "SUM of 0 to 3": Question("SUM(few)", lambda g: g.few.sum()),
    "SUM of floats": Question("SUM(y)", lambda g: g.y.sum()),
    "difference of counts": Question(
        "COUNT(*) FILTER (WHERE y > 4) - COUNT(*) FILTER (WHERE few = 1)",
        lambda g: (g.y > 4).sum() - (g.few == 1).sum(),
    ),
    "share": Question("1.0 * COUNT(*) FILTER (WHERE y > 4) / COUNT(*)", lambda g: (g.y > 4).mean(), (0, 1)),
    "ratio of sums": Question("1.0 * SUM(x) / SUM(y)", lambda g: g.x.sum() / g.y.sum(), (0, math.inf)),
    "AVG": Question("AVG(x)", lambda g: g.x.mean(), (0, 100)),
    "VAR_SAMP": Question("VAR_SAMP(x)", lambda g: g.x.var(), (0, 5000)),
    "STDDEV_SAMP": Question("STDDEV_SAMP(x)", lambda g: g.x.std(), (0, math.sqrt(5000))),
    "COVAR_SAMP": Question("COVAR_SAMP(x, y)", lambda g: g.x.cov(g.y), (-500, 500)),
    "CORR": Question("CORR(x, y)", lambda g: g.x.corr(g.y), (-1, 1)),
    "REGR_SLOPE": Question("REGR_SLOPE(y, x)", lambda g: g.x.cov(g.y) / g.x.var(), (-102.4, 102.4)),
    "MEDIAN": Question("MEDIAN(x)", lambda g: g.x.median(), (0, 100), 0.5),
    "MAX": Question("MAX(x)", lambda g: g.x.max(), (0, 100), 1.0),
}


def coverage(names: tuple[str, ...] = tuple(QUESTIONS), sizes: tuple[int, ...] = SIZES) -> dict[str, dict[str, float]]:
    """Returns for each question, size and loss what `_measured` does."""
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            sessions = {money: opened(Path(folder) / money, size, money) for money in ("epsilon", "rho")}
            for name in names:
                for loss in LOSSES:
                    ((money, amount),) = loss.items()
                    made = _measured(sessions[money], QUESTIONS[name], size, money, amount)
                    found[f"{CELL}{name}, {size:,} rows, {money} {amount}"] = made
                    print(name, size, money, amount, {k: round(v, 4) for k, v in made.items()}, flush=True)
            for session in sessions.values():
                session.close()
    return found


CHOSEN = {
    "HAVING COUNT(*) > {size}": (40, 1_000),
    "ORDER BY answer DESC LIMIT 10": (40, 1_000),
}
"""What chooses rows for their noise, and in groups of which sizes."""
TIMES = 250
"""Answers of each such query, of `FEW` groups each."""
FEW = 40
UNITS = (1, 5, 10, 15, 20, 25, 30, 40)
"""People of a group that is selected: tau is about 15 under epsilon 1, 6 under rho 0.5."""


def chosen() -> dict[str, dict[str, float]]:
    """Returns how often intervals of counts hold among rows that HAVING or LIMIT chose and among selected groups: each
    by itself, `held`, and all of an answer at once, `together`; `shown` is the part of groups that are selected."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            (f"{clause.format(size=size)}, {size:,} rows", size, "g", clause.format(size=size))
            for clause, sizes in CHOSEN.items()
            for size in sizes
        ]
        asked += [(f"selected groups, {size:,} people", size, "h", "") for size in UNITS]
        for name, size, key, clause in asked:
            session = opened(Path(folder) / f"{key} {name}", size, "both", FEW)
            for loss in ({"epsilon": "1", "delta": "1e-6"}, {"rho": "0.5", "delta": "1e-6"}):
                query = f"SELECT {key}, COUNT(*) AS answer FROM t GROUP BY {key} {clause}"
                answers = [session.sql(query, **loss) for _ in range(TIMES)]  # type: ignore[arg-type]
                made = _held_in(answers, float(size))
                words = " ".join(f"{money} {amount}" for money, amount in loss.items() if money != "delta")
                found[f"{CHOICE}{name}, {words}"] = made
                print(name, words, {k: round(v, 4) for k, v in made.items()}, flush=True)
            session.close()
    return found


def _held_in(answers: Sequence[dp.Result], exact: float) -> dict[str, float]:
    """Returns how often intervals hold in answers that show something, each by itself and all at once, with bounds."""
    answers = [answer for answer in answers if len(answer)]
    if not answers:
        return {"shown": 0.0}

    def held(frame: pd.DataFrame) -> NDArray[np.bool_]:
        return ((frame["answer", "lower"] <= exact) & (exact <= frame["answer", "upper"])).to_numpy(bool)

    each = np.concatenate([held(answer.accuracy) for answer in answers])
    together = [bool(held(answer.intervals(simultaneous=True)).all()) for answer in answers]
    least, most = _part(int(each.sum()), len(each))
    first, last = _part(sum(together), len(together))
    found = {"held": float(each.mean()), "least": least, "most": most, "shown": len(each) / (FEW * TIMES)}
    return found | {"together": float(np.mean(together)), "together_least": first, "together_most": last}


@dataclass(frozen=True, slots=True)
class Repeated:
    """A backend over tables with the rows of one group at most, whose exact integers it gives for many alike."""

    backend: Backend
    groups: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def run(self, statement: Any, key: int) -> ExactAggregates:
        """Returns what the backend has of one group, for each."""
        found, every = self.backend.run(statement, key), np.arange(self.groups)
        if not found.keys or not len(found.keys[0]):
            return found
        histograms = tuple(
            Histogram(
                group=np.repeat(every, len(one.value)),
                value=np.tile(one.value, self.groups),
                weight=np.tile(one.weight, self.groups),
            )
            for one in found.histograms
        )
        numbers = tuple(np.repeat(exact, self.groups) for exact in found.numbers)
        keys = (every.astype(found.keys[0].dtype),)  # places in a domain, or values
        return ExactAggregates(keys=keys, numbers=numbers, histograms=histograms)


def rows_of(size: int) -> pd.DataFrame:
    """Returns the rows of a group: of one person each, or, by `person`, of people with 1 to 6 of them."""
    random = np.random.default_rng(size)
    x = random.gamma(2, 15, size).clip(0, 100).round().astype(np.int64)
    y = (x / 10 + random.normal(0, 1.5, size)).clip(0, 10)
    few, kind = random.binomial(3, 0.3, size), random.integers(0, max(10, size // 3), size)
    person = np.repeat(np.arange(size), np.arange(size) % 6 + 1)[:size]
    return pd.DataFrame(
        {"x": x, "y": y, "few": few, "kind": kind, "person": person, "id": np.arange(size), "g": 0, "h": 0}
    )


def opened(folder: Path, size: int, money: str, groups: int = GROUPS, frame: pd.DataFrame | None = None) -> dp.Session:
    """Returns a session over so many groups: of a frame that has them all, or else of one that is repeated."""
    folder.mkdir()
    columns = {
        "id": {"type": "int64"},
        "person": {"type": "int64"},
        "g": {"type": "int64", "lower": 0, "upper": groups - 1},
        "h": {"type": "int64"},
        "x": {"type": "int64", "lower": 0, "upper": 100},
        "y": {"type": "float64", "lower": 0, "upper": 10},
        "few": {"type": "int64", "lower": 0, "upper": 3},
        "kind": {"type": "int64"},
    }
    budgets: dict[str, Any] = {
        "epsilon": {"epsilon": 10**6},
        "rho": {"rho": 10**6, "delta": "1e-6"},
        "both": {"epsilon": 10**6, "delta": "0.1"},
    }
    tables: dict[str, Any] = {"t": {"unit": "id", "unique": [["id"]], "columns": columns}}
    tables["rows"] = {"unit": "person", "max_rows": 3, "columns": columns}
    catalog = dp.Catalog(dataset="coverage", privacy_unit="person", budget=budgets[money], tables=tables)
    ledger = dp.create_ledger(catalog, folder / "coverage.ledger")
    given = rows_of(size) if frame is None else frame
    backend = open_backend(catalog, {"t": given, "rows": given})
    if frame is None:
        backend = Repeated(backend, groups)
    return Session(catalog, backend=backend, ledger=ledger, analyst="analyst", reuse=False)


def _measured(session: dp.Session, question: Question, size: int, money: str, amount: str) -> dict[str, float]:
    """Returns the parts held and without an interval, how wide intervals are, and bounds on both."""
    query = f"SELECT g, {question.sql} AS answer FROM {question.table} GROUP BY g"
    group = rows_of(size)
    exact = float(question.exact(group))
    drawn: list[tuple[Floats, Floats, Floats]] = []
    while True:
        asked: dict[str, object] = {money: amount}
        answer = session.sql(query, **asked)  # type: ignore[arg-type]
        lower, upper = (answer.accuracy["answer", end].to_numpy(float) for end in ("lower", "upper"))
        drawn.append((answer.to_pandas()["answer"].to_numpy(float), lower, upper))
        values, low, high = (np.concatenate(column) for column in zip(*drawn, strict=True))
        if len(values) < LEAST_DRAWS:
            continue
        made = answer.measurements[0]
        if question.target is None:
            least = least_rounded(made) if question.is_rounded else 0.0
            found = _of_values(values, low, high, exact, question.range, least)
        else:
            ranks, least = answer.rank_errors["answer"], least_ranks(made, question.target, CANDIDATES)
            found = _of_ranks(values, np.sort(group["x"].to_numpy(float)), question.target, ranks, least)
        if len(values) >= MOST_DRAWS or misses(found) or holds(found):
            return found


def _of_values(
    values: Floats, low: Floats, high: Floats, exact: float, ends: tuple[float, float] | None, least: float
) -> dict[str, float]:
    known = ~(np.isnan(low) | np.isnan(high))
    if not known.any():
        return {"draws": len(values), "none": 1.0}
    slack = 1e-9 * max(1.0, abs(exact))
    held = (low <= exact + slack) & (exact - slack <= high)
    half = float(np.median((high - low)[known])) / 2
    found = _summary(held[known], half, np.abs(values - exact)[np.isfinite(values)], slack, least)
    found |= {"draws": len(values), "none": float(1 - known.mean())}
    if ends is not None:
        a, b = ends
        span = 1e-9 * ((b - a) if math.isfinite(b - a) else 1.0)
        found["range"] = float(((low <= a + span) | (high >= b - span))[known].mean())
    return found


def _of_ranks(chosen: Floats, values: Floats, target: float, ranks: float, least: float) -> dict[str, float]:
    """Returns how often a choice is within its ranks, and how many these are beside what choices really are off."""
    below, reached = np.searchsorted(values, chosen, "left"), np.searchsorted(values, chosen, "right")
    aimed = target * len(values)
    off = np.maximum(0, np.maximum(below - aimed, aimed - reached))
    return _summary(off <= ranks, ranks, np.maximum(1.0, off), 0.0, least) | {"draws": len(chosen), "none": 0.0}


def _summary(held: NDArray[np.bool_], half: float, errors: Floats, slack: float, least: float) -> dict[str, float]:
    """Returns the part that holds and how wide intervals are, each with bounds: Clopper and Pearson's, and those of the
    order statistics between which the quantile of the errors lies, or the least half-width that holds for all data."""
    count, draws = int(held.sum()), len(errors)
    ordered = np.sort(errors)
    places = (_binomial(draws, 0.95, DOUBT), draws * 19 // 20, _binomial(draws, 0.95, 1 - DOUBT) + 1)
    spreads = [float(ordered[min(place, draws - 1)]) for place in places]
    wider, wide, narrower = (_beside(half, max(spread, least), slack) for spread in spreads)
    fewest, most = _part(count, len(held))
    found = {"held": count / len(held), "least": fewest, "most": most}
    found |= {"wide": wide, "narrower": narrower, "wider": wider}
    return found | ({"spread": _beside(half, spreads[1], slack)} if least > spreads[1] else {})


def _beside(half: float, spread: float, slack: float) -> float:
    """Returns how wide an interval is; where most answers are exact, one of no width is as narrow as can be."""
    if spread > slack:
        return half / spread
    return 1.0 if half <= slack else math.inf


def _logs(draws: int) -> Floats:
    """Returns the logarithms of the numbers of ways to choose 0, 1, ... of so many."""
    factorials = _log_factorials(draws)
    found: Floats = factorials[-1] - factorials - factorials[::-1]
    return found


@lru_cache(maxsize=64)
def _log_factorials(most: int) -> Floats:
    return np.concatenate([[0.0], np.log(np.arange(1, most + 1)).cumsum()])


def _up_to(draws: int, chance: float) -> Floats:
    """Returns the binomial distribution function at 0, 1, ..., for a chance between 0 and 1."""
    k = np.arange(draws + 1)
    logs: Floats = _logs(draws) + k * math.log(chance) + (draws - k) * math.log1p(-chance)
    found: Floats = np.exp(logs).cumsum()
    return found


def _binomial(draws: int, chance: float, below: float) -> int:
    return int(np.searchsorted(_up_to(draws, chance), below))


def _part(count: int, draws: int) -> tuple[float, float]:
    """Returns bounds on a chance that was met so often (Clopper, Pearson 1934)."""

    def first(fails: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if fails(middle) else (middle, high)
        return low

    least = first(lambda p: 1 - _up_to(draws, p)[count - 1] > DOUBT) if count else 0.0
    most = first(lambda p: _up_to(draws, p)[count] < DOUBT) if count < draws else 1.0
    return least, most


def misses(found: Cell) -> bool:
    """Whether, for certain, an interval holds less often than it says, or is too wide and not for the range of all
    values, or is not there."""
    wide = found.get("narrower", 0) > MOST_WIDE and found.get("range", 0) < 0.5
    return found.get("most", 0) < LEAST_HELD or wide or found["none"] > MOST_NONE


def holds(found: Cell) -> bool:
    """Whether, for certain, it does not."""
    narrow = found.get("wider", math.inf) <= MOST_WIDE or found.get("range", 0) >= 0.5
    return found.get("least", 0) >= LEAST_HELD and narrow and found["none"] <= MOST_NONE


def table(results: Mapping[str, Cell]) -> list[str]:
    """Returns what was found as lines of a page: a row for each aggregate, with each cell that misses."""
    head = "hold for certain | least held | widest within the range | beside what answers do"
    lines = [f"| interval of | cells | miss | {head} | cells that miss |", "|---|---:|---:|---:|---:|---:|---:|---|"]
    for name in QUESTIONS:
        places = (
            f"{size:,} rows, {money} {amount}" for size in SIZES for loss in LOSSES for money, amount in loss.items()
        )
        own = {place: results[cell] for place in places if (cell := f"{CELL}{name}, {place}") in results}
        if own:
            inner = [cell for cell in own.values() if "wide" in cell and cell.get("range", 0) < 0.5]
            missed = [f"{place}: {_cell(cell)}" for place, cell in own.items() if misses(cell)]
            numbers = [f"{max(cell['wide'] for cell in inner):.2f}" if inner else ""]
            spread = max((cell.get("spread", 0.0) for cell in inner), default=0.0)
            numbers.append(f"{spread:.2f}" if spread else "")
            least = f"{100 * min(cell.get('held', 0.0) for cell in own.values()):.1f} %"
            made = [len(own), len(missed), sum(map(holds, own.values())), least, *numbers, "; ".join(missed)]
            lines.append(f"| {name} | {' | '.join(map(str, made))} |")
    return lines if len(lines) > 2 else []


def table_of_chosen(results: Mapping[str, Cell]) -> list[str]:
    """Returns how often intervals of chosen rows hold, as lines of a page."""
    lines = ["| rows | shown | held | held at once |", "|---|---:|---:|---:|"]
    for name, cell in results.items():
        if name.startswith(CHOICE):
            parts = (f"{100 * cell[part]:.1f} %" if part in cell else "" for part in ("shown", "held", "together"))
            lines.append(f"| {name.removeprefix(CHOICE)} | {' | '.join(parts)} |")
    return lines


def _cell(found: Cell) -> str:
    if "held" not in found:
        return "none"
    text = f"{100 * found['held']:.1f} % {found['wide']:.2f}"
    text += f", range {100 * found['range']:.0f} %" if found.get("range", 0) > 0.02 else ""
    return text + (f", none {100 * found['none']:.0f} %" if found["none"] > 0.005 else "")
