"""Where the time of one query goes: the milliseconds of each stage, and its part of the whole."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from benchmarks.measure import session
from benchmarks.visits import visits
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.ledger.versions import AtVersion
from dpquery.planner.passes import Draft, Pass, PlanningTerms, run_passes
from dpquery.session import answering, pipeline, planning

ROWS = 100_000
RUNS = 101
STAGE = "stage "
"""How the names of these rows begin."""
QUERY = "SELECT region, COUNT(*) AS n, AVG(amount) AS mean FROM visits GROUP BY region"
REST = "session, the rest"
WRAPPED: Sequence[tuple[object, str, str]] = (
    (pipeline, "plan", "checks after planning"),
    (planning, "parse", "parse"),
    (planning, "bind_step", "bind"),
    (answering, "release", "checks of the gate"),
    (DuckDBBackend, "prepare", "prepare"),
    (AtVersion, "charge", "charge"),
    (AtVersion, "complete", "complete"),
    (DuckDBBackend, "run", "run"),
    (answering, "finish", "finish"),
)
"""What is timed: where it is looked up, its name there, and the stage. Time within an inner one is the inner one's."""
AFTER = {"run": "noise"}
"""What the gate does once the engine has returned; noise is drawn while the engine runs, as far as there is time."""


class Clock:
    """Seconds by stage; at each instant one stage runs, so that all of them add up to the whole."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._running = [REST]
        self._since = time.perf_counter()

    def turn(self, stage: str | None = None) -> None:
        """Counts the time since the last turn to a stage, by default the one that runs."""
        now = time.perf_counter()
        name = stage or self._running[-1]
        self.spent[name] = self.spent.pop(name, 0.0) + now - self._since  # in the order of their last turn
        self._since = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time within to a stage."""
        self.turn()
        self._running.append(name)
        try:
            yield
        finally:
            self.turn()
            self._running.pop()
            if name in AFTER:
                self._running[-1] = AFTER[name]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, timed as a stage."""

        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return function(*args, **kwargs)

        return within

    def run_passes(self, passes: Sequence[Pass], draft: Draft, terms: PlanningTerms, _: object = None) -> Draft:
        """Runs passes of planning, each a stage: the observer ends it."""
        self.turn()
        return run_passes(passes, draft, terms, lambda one, _: self.turn(f"pass {one.name}"))


def stages() -> dict[str, dict[str, float]]:
    """Returns for each stage the least milliseconds, and its part of the sum of all, in the order in which they end.

    What else the machine does adds to a run, most of all where a stage waits for the disk or for a thread; the least
    of many runs has the least of it.

    The query has another text in each run, as plans are kept; no answer is stored.
    """
    runs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        private = session(visits(ROWS), folder, unit_is_row=True)
        for run in range(RUNS + 1):
            clock = Clock()
            with ExitStack() as stack:
                for holder, name, stage in WRAPPED:
                    stack.enter_context(patch.object(holder, name, clock.timed(stage, getattr(holder, name))))
                stack.enter_context(patch.object(pipeline, "run_passes", clock.run_passes))
                clock.turn("patching")
                private.sql(f"{QUERY} -- {run}").to_arrow()
                clock.turn()
            runs.append({name: spent for name, spent in clock.spent.items() if name != "patching"})
    found = {name: min(run[name] for run in runs[1:]) * 1000 for name in runs[0]}
    whole = sum(found.values())
    return {STAGE + name: {"private_ms": spent, "part": spent / whole} for name, spent in found.items()}


def table(results: dict[str, dict[str, float]]) -> list[str]:
    """Returns the section of the report; nothing where no stage was measured."""
    rows = [(name.removeprefix(STAGE), row) for name, row in results.items() if name.startswith(STAGE)]
    if not rows:
        return []
    whole = sum(row["private_ms"] for _, row in rows)
    return [
        "",
        "## Stages",
        "",
        f"Where the time of one query over {ROWS:,} rows goes, the least of {RUNS} runs of each stage",
        f"(`python -m benchmarks --only stages`, at a load of {rows[0][1]['load']:.3g}). Each instant is in one stage:",
        "",
        "```text",
        QUERY,
        "```",
        "",
        "The passes are those of [planning](concepts/pipeline.md#the-passes-of-planning). Noise is drawn while the",
        "engine runs; its stage is what is left to do then, and to add it. The rest of the session is the look for",
        "stored answers, what waits for Ctrl-C, and the table.",
        "",
        "| stage | ms | part |",
        "|---|---:|---:|",
        *(f"| {name} | {row['private_ms']:.3f} | {100 * row['part']:.1f} % |" for name, row in rows),
        f"| together | {whole:.3f} | |",
    ]
