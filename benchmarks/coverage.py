"""How often intervals hold, and how wide they are beside what noise really does: each aggregate alone, over groups of
several sizes, at several losses.

All groups hold the same rows, so each is a draw of its own of one answer. Held is the part of groups whose interval
holds the exact number; wide is half the median width of intervals over the distance from the exact number within which
95 % of the answers are. An interval of 95 % should hold in 94 % or more, and be at most 1.1 wide, or reach an end of
the range of all values. Of quantiles, minima and maxima the error in ranks is compared in the same way: its bound holds
whatever the values are.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpquery as dp

SIZES = (40, 200, 1_000, 10_000)
LOSSES = ({"epsilon": "0.1"}, {"epsilon": "1"}, {"epsilon": "10"}, {"rho": "0.5"})
DRAWS = {40: 2_000, 200: 2_000, 1_000: 1_000, 10_000: 1_000}
"""Answers of each kind, by the rows of a group: the part that holds is known within 0.5 or 0.7 %, one deviation."""
GROUPS = {40: 500, 200: 500, 1_000: 250, 10_000: 50}
LEAST_HELD, MOST_WIDE = 0.94, 1.1
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """An aggregate, what it is without noise in a group, and the range of all its values if there is one."""

    sql: str
    exact: Callable[[pd.DataFrame], float]
    range: tuple[float, float] | None = None
    target: float | None = None


QUESTIONS: Mapping[str, Question] = {
    "COUNT": Question("COUNT(*)", len),
    "COUNT where": Question("COUNT(*) FILTER (WHERE y > 4)", lambda g: (g.y > 4).sum()),
    "COUNT, 3 rows of a person": Question("COUNT(*)", len),
    "COUNT DISTINCT": Question("COUNT(DISTINCT kind)", lambda g: g.kind.nunique()),
    "SUM of whole numbers": Question("SUM(x)", lambda g: g.x.sum()),
    "SUM of 0 to 3": Question("SUM(few)", lambda g: g.few.sum()),
    "SUM of floats": Question("SUM(y)", lambda g: g.y.sum()),
    "difference of counts": Question(
        "COUNT(*) FILTER (WHERE y > 4) - COUNT(*) FILTER (WHERE few = 1)",
        lambda g: (g.y > 4).sum() - (g.few == 1).sum(),
    ),
    "share": Question("1.0 * COUNT(*) FILTER (WHERE y > 4) / COUNT(*)", lambda g: (g.y > 4).mean()),
    "ratio of sums": Question("1.0 * SUM(x) / SUM(y)", lambda g: g.x.sum() / g.y.sum()),
    "AVG": Question("AVG(x)", lambda g: g.x.mean(), (0, 100)),
    "VAR_SAMP": Question("VAR_SAMP(x)", lambda g: g.x.var(), (0, 2500)),
    "STDDEV_SAMP": Question("STDDEV_SAMP(x)", lambda g: g.x.std(), (0, 50)),
    "COVAR_SAMP": Question("COVAR_SAMP(x, y)", lambda g: g.x.cov(g.y), (-250, 250)),
    "CORR": Question("CORR(x, y)", lambda g: g.x.corr(g.y), (-1, 1)),
    "REGR_SLOPE": Question("REGR_SLOPE(y, x)", lambda g: g.x.cov(g.y) / g.x.var()),
    "MEDIAN": Question("MEDIAN(x)", lambda g: g.x.median(), (0, 100), 0.5),
    "MAX": Question("MAX(x)", lambda g: g.x.max(), (0, 100), 1.0),
}


def coverage(
    names: tuple[str, ...] = tuple(QUESTIONS), draws: Mapping[int, int] = DRAWS
) -> dict[str, dict[str, float]]:
    """Returns for each question, size and loss the parts held and without an interval, and how wide intervals are."""
    found: dict[str, dict[str, float]] = {}
    for size in SIZES:
        groups = min(GROUPS[size], draws[size])
        with tempfile.TemporaryDirectory() as folder:
            sessions = {money: _session(Path(folder) / money, size, groups, money) for money in ("epsilon", "rho")}
            for name in names:
                for loss in LOSSES:
                    ((money, amount),) = loss.items()
                    runs = math.ceil(draws[size] / groups)
                    made = _measured(sessions[money], name, size, money, amount, runs)
                    found[f"interval of {name}, {size:,} rows, {money} {amount}"] = made
                    print(name, size, money, amount, {k: round(v, 3) for k, v in made.items()}, flush=True)
            for session in sessions.values():
                session.close()
    return found


def _group(size: int) -> pd.DataFrame:
    random = np.random.default_rng(size)
    x = random.gamma(2, 15, size).clip(0, 100).round().astype(np.int64)
    y = (x / 10 + random.normal(0, 1.5, size)).clip(0, 10)
    few, kind = random.binomial(3, 0.3, size), random.integers(0, max(10, size // 3), size)
    return pd.DataFrame({"x": x, "y": y, "few": few, "kind": kind})


def _session(folder: Path, size: int, groups: int, money: str) -> dp.Session:
    folder.mkdir()
    columns = {
        "id": {"type": "int64"},
        "g": {"type": "int64", "lower": 0, "upper": groups - 1},
        "x": {"type": "int64", "lower": 0, "upper": 100},
        "y": {"type": "float64", "lower": 0, "upper": 10},
        "few": {"type": "int64", "lower": 0, "upper": 3},
        "kind": {"type": "int64"},
    }
    budget = {"epsilon": 10**6} if money == "epsilon" else {"rho": 10**6, "delta": "1e-6"}
    tables: dict[str, Any] = {"t": {"unit": "id", "unique": [["id"]], "columns": columns}}
    tables["rows"] = {"unit": "id", "max_rows": 3, "columns": columns}
    catalog = dp.Catalog(dataset="coverage", privacy_unit="person", budget=budget, tables=tables)
    frame = pd.concat([_group(size)] * groups, ignore_index=True)
    frame["id"], frame["g"] = np.arange(len(frame)), np.repeat(np.arange(groups), size)
    ledger = dp.create_ledger(catalog, folder / "coverage.ledger")
    return dp.connect(catalog, {"t": frame, "rows": frame}, ledger=ledger, reuse=False)


def _measured(session: dp.Session, name: str, size: int, money: str, amount: str, runs: int) -> dict[str, float]:
    question, table = QUESTIONS[name], "rows" if "rows of a person" in name else "t"
    query = f"SELECT g, {question.sql} AS answer FROM {table} GROUP BY g"
    group = _group(size)
    exact = float(question.exact(group))
    values, lower, upper, ranks = [], [], [], 0.0
    for _ in range(runs):
        asked: dict[str, object] = {money: amount}
        answer = session.sql(query, **asked)  # type: ignore[arg-type]
        values.append(answer.to_pandas()["answer"].to_numpy(float))
        lower.append(answer.accuracy["answer", "lower"].to_numpy())
        upper.append(answer.accuracy["answer", "upper"].to_numpy())
        ranks = answer.rank_errors.get("answer", 0.0)
    made, low, high = map(np.concatenate, (values, lower, upper))
    if question.target is not None:
        return _of_ranks(made, np.sort(group["x"].to_numpy(float)), question.target, ranks)
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return {"none": 1.0}
    error = np.abs(made - exact)[np.isfinite(made)]
    spread = float(np.quantile(error, 0.95, method="higher")) or float(error.max())  # most answers may be exact
    slack = 1e-9 * max(1.0, abs(exact))
    held = (low <= exact + slack) & (exact - slack <= high)
    half = float(np.median((high - low)[known])) / 2
    found = {"held": float(held[known].mean()), "none": float(1 - known.mean()), "wide": half / max(spread, slack)}
    if question.range is not None:
        a, b = question.range
        span = (b - a) * 1e-9
        found["range"] = float(((low <= a + span) | (high >= b - span))[known].mean())
    return found


def _of_ranks(chosen: Floats, values: Floats, target: float, ranks: float) -> dict[str, float]:
    """Returns how often a choice is within its ranks, and how many these are beside what choices really are off."""
    below, reached = np.searchsorted(values, chosen, "left"), np.searchsorted(values, chosen, "right")
    aimed = target * len(values)
    off = np.maximum(0, np.maximum(below - aimed, aimed - reached))
    spread = float(np.quantile(off, 0.95))
    return {"held": float((off <= ranks).mean()), "none": 0.0, "wide": ranks / max(1.0, spread), "range": 0.0}


def table(results: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns what was found as lines of a page: a row for each aggregate and size, a column for each loss."""
    losses = [f"{money} {amount}" for loss in LOSSES for money, amount in loss.items()]
    lines = ["| interval of | rows | " + " | ".join(losses) + " |", "|---|---:|" + "---:|" * len(losses)]
    for name in QUESTIONS:
        for size in SIZES:
            cells = [results.get(f"interval of {name}, {size:,} rows, {loss}") for loss in losses]
            if any(cells):
                lines.append(f"| {name} | {size:,} | " + " | ".join(_cell(c) if c else "" for c in cells) + " |")
    return lines if len(lines) > 2 else []


def misses(found: Mapping[str, float]) -> bool:
    """Whether an interval holds less often than it says, is too wide and not for the range of all values, or is not
    there."""
    wide = found.get("wide", 0) > MOST_WIDE and found.get("range", 0) < 0.5
    return found.get("held", 0) < LEAST_HELD or wide or found["none"] > 0.02


def _cell(found: Mapping[str, float]) -> str:
    if "held" not in found:
        return "**none**"
    text = f"{100 * found['held']:.1f} % {found['wide']:.2f}"
    text += f", range {100 * found['range']:.0f} %" if found.get("range", 0) > 0.02 else ""
    text += f", none {100 * found['none']:.0f} %" if found["none"] > 0.005 else ""
    return f"**{text}**" if misses(found) else text
