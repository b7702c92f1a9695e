"""Other libraries beside ours: `python -m benchmarks.peers [PEER ...]` writes docs/peers.md, its plot, results.json.

Each peer runs in an environment of its own, which is made where it is missing: they need different versions of the same
packages. All read one file, which is written here, and answer the same questions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.peers.questions import EPSILON, LOWER, MOST_ROWS, QUESTIONS, REGIONS, UPPER

HERE, DOCS = Path(__file__).parent, Path(__file__).parents[2] / "docs"
RESULTS, PAGE, PLOT = HERE / "results.json", DOCS / "peers.md", DOCS / "images" / "peers.svg"
USERS, HOME = 2_000, 0.9
"""How many users there are, with 10 rows each on average, and which part of these is in the user's region."""
PEERS = {"opendp": "opendp[polars]", "pipeline-dp": "pipeline-dp", "smartnoise-sql": "smartnoise-sql"}
"""By name of the package: what is installed."""
NAMES = {"dpquery": "dpquery", "opendp": "OpenDP", "pipeline-dp": "PipelineDP", "smartnoise-sql": "SmartNoise SQL"}


def main(peers: list[str], environments: Path) -> None:
    """Runs ours and these peers, and writes the page."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        exact = _data(Path(folder))
        for name in ("dpquery", *peers):
            python = Path(sys.executable) if name == "dpquery" else _environment(environments / name, PEERS[name])
            file = HERE / f"run_{name.replace('-', '_')}.py"
            environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1])} if name == "dpquery" else None
            command = [str(python), "-W", "ignore", str(file), folder]
            made = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            known[name] = _measured(json.loads(made.stdout), exact)
            RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    PAGE.write_text(_page(known))
    _plot(known)


def _data(folder: Path) -> dict[str, list[float]]:
    """Writes the file that all read, and returns the exact answers over its rows."""
    random = np.random.default_rng(20260101)
    user = np.repeat(np.arange(USERS), random.negative_binomial(2, 1 / 6, USERS))
    at_home = random.random(len(user)) < HOME
    region = np.where(at_home, user * 7919 % len(REGIONS), random.integers(0, len(REGIONS), len(user)))
    amount = np.round(random.gamma(2, 60, len(user)), 2).clip(LOWER, UPPER)
    table = pa.table({"user_id": user, "region": np.array(REGIONS)[region], "amount": amount})
    pyarrow.csv.write_csv(table, folder / "visits.csv")
    engine = duckdb.connect()
    engine.register("visits", table)
    found = {name: engine.sql(text).fetchall() for name, text in QUESTIONS.items()}
    rows = {name: dict(row) if len(row[0]) == 2 else {"": row[0][0]} for name, row in found.items()}
    return {name: [float(row[key]) for key in (REGIONS if len(row) > 1 else [""])] for name, row in rows.items()}


def _environment(place: Path, package: str) -> Path:
    """Returns the Python of an environment that has a package."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--prefer-binary", package], check=True)
    return python


def _measured(said: dict[str, Any], exact: dict[str, list[float]]) -> dict[str, Any]:
    """Returns a run with errors in place of answers: root mean squares, as parts of the mean exact number."""
    results = {}
    for name, result in said["results"].items():
        off = np.array(result["answers"]) - np.array(exact[name])
        error = float(np.sqrt(np.mean(off**2)) / np.mean(np.abs(exact[name])))
        results[name] = {"error": error, "ms": result["ms"], "answers": len(result["answers"])}
    return {"version": said["version"], "delta": said["delta"], "results": results}


def _page(known: dict[str, Any]) -> str:
    names = [name for name in NAMES if name in known]
    versions = ", ".join(f"{NAMES[name]} {known[name]['version']}" for name in names)
    head = " | ".join(NAMES[name] for name in names)
    lines = [
        "# Beside other libraries",
        "",
        f"Written by `python -m benchmarks.peers`: {versions}. Each answers the same questions over the same file:",
        f"visits of {USERS:,} users, 10 each on average and 59 at most, in {len(REGIONS)} regions that are known",
        f"beforehand, with amounts declared from {LOWER:g} to {UPPER:g}. Each answer has epsilon {EPSILON:g} under",
        "Laplace noise, as the library's documentation begins. Where `rows` are protected, one row is added",
        "or removed; where `people` are, all rows of a user, of whom each library is told to let",
        f"{MOST_ROWS} count in all. Errors are against all rows, so what that bound leaves out is in them.",
        "",
        "![Errors by question](images/peers.svg)",
        "",
        "Error, root mean square, in percent of the mean exact number:",
        "",
        f"| question | {head} |",
        f"|---|{'---:|' * len(names)}",
        *_rows(known, names, "error"),
        "",
        "Milliseconds of processor time for one answer, of all threads (the median). Waiting, such as for a disk, is",
        "not in it; the two cores were busy with other work, which makes it longer for all alike:",
        "",
        f"| question | {head} |",
        f"|---|{'---:|' * len(names)}",
        *_rows(known, names, "ms"),
        "",
        *(HERE / "words.md").read_text(encoding="utf-8").splitlines(),
    ]
    return "\n".join(lines) + "\n"


def _rows(known: dict[str, Any], names: list[str], what: str) -> list[str]:
    cells = {question: [_cell(known[name], question, what) for name in names] for question in QUESTIONS}
    return [f"| {question} | {' | '.join(row)} |" for question, row in cells.items()]


def _cell(run: dict[str, Any], question: str, what: str) -> str:
    result = run["results"].get(question)
    if result is None:
        return ""
    return f"{100 * result['error']:.2g} %" if what == "error" else f"{result['ms']:,.0f}"


def _plot(known: dict[str, Any]) -> None:
    """Draws the errors as dots on a logarithmic axis, one line for each question."""
    plt.rcParams["svg.hashsalt"] = "dpquery"
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    for name, mark in zip(NAMES, "osD^", strict=True):
        results = known.get(name, {"results": {}})["results"]
        errors = [100 * results[question]["error"] if question in results else np.nan for question in QUESTIONS]
        axes.plot(errors, range(len(QUESTIONS)), mark, label=NAMES[name], alpha=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(QUESTIONS)), list(QUESTIONS))
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_xlabel("error in percent of the exact number")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, 1.17), ncols=4, frameon=False)
    figure.savefig(PLOT, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}; all by default")
    parser.add_argument("--environments", type=Path, default=Path(".venv/peers"), help="where those of the peers are")
    given = parser.parse_args()
    main(given.peers or list(PEERS), given.environments)
