"""What is asked of every library: the questions, how often, and how a run is written down. Standard library only, since
each peer runs in an environment of its own, which has nothing of ours."""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

EPSILON, DELTA, MOST_ROWS = 1.0, 1e-6, 20
RUNS, FEWEST, SECONDS = 20, 3, 10
"""How often a question is asked: until it took this long, and at least the fewest times."""
LOWER, UPPER = 0.0, 500.0
QUESTIONS = {
    "rows: COUNT": "SELECT COUNT(*) AS answer FROM visits",
    "rows: SUM": "SELECT SUM(amount) AS answer FROM visits",
    "rows: AVG": "SELECT AVG(amount) AS answer FROM visits",
    "rows: COUNT by region": "SELECT region, COUNT(*) AS answer FROM visits GROUP BY region",
    "rows: SUM by region": "SELECT region, SUM(amount) AS answer FROM visits GROUP BY region",
    "people: COUNT by region": "SELECT region, COUNT(*) AS answer FROM visits GROUP BY region",
    "people: SUM by region": "SELECT region, SUM(amount) AS answer FROM visits GROUP BY region",
    "people: COUNT DISTINCT": "SELECT COUNT(DISTINCT user_id) AS answer FROM visits",
}
"""By name; `rows` says that a row is what is protected, `people` that all rows with one user_id are."""
REGIONS = [f"region-{i:02d}" for i in range(50)]
Answer = Callable[[], Sequence[float]]


def write(package: str, answers: Mapping[str, Answer], delta: float, notes: Mapping[str, str] | None = None) -> None:
    """Asks each question once to warm up and then RUNS times, and prints what came back.

    Args:
        package: Whose version is noted.
        answers: For each question what answers it: a number for each region, or one.
        delta: Of the guarantee of an answer; 0 if it is pure.
        notes: For questions that are not answered, or not as the others, what is to be said.
    """
    results = {}
    for name, answer in answers.items():
        try:
            answer()
            times, found, end = [], [], time.perf_counter() + SECONDS
            while len(found) < FEWEST or (len(found) < RUNS and time.perf_counter() < end):
                start = time.process_time()
                found.append([float(value) for value in answer()])
                times.append((time.process_time() - start) * 1000)
            results[name] = {"ms": statistics.median(times), "answers": found}
        except Exception as error:
            print(f"{package}, {name}: {error!r}"[:2000], file=sys.stderr)
    version = importlib.metadata.version(package)
    print(json.dumps({"version": version, "delta": delta, "results": results, "notes": dict(notes or {})}))


def in_order(found: Mapping[str, float]) -> list[float]:
    """Returns the answers of all regions in their order, 0 where there is none."""
    return [float(found.get(region) or 0) for region in REGIONS]
