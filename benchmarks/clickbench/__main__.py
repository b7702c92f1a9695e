"""Measures questions in the manner of ClickBench over prepared data, and writes docs/clickbench.md.

Usage: python -m benchmarks.clickbench [ROWS]     (default: 1000000)
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import dpquery as dp
from benchmarks.clickbench.questions import QUESTIONS
from benchmarks.clickbench.tables import catalog, generate
from benchmarks.measure import alternate

ROOT = Path(__file__).parent.parent.parent
RUNS = 3
UNITS = {"row": True, "user": False}
Found = dict[str, dict[str, float] | str]


def main(rows: int) -> None:
    """Measures every question that is answered, and writes the report."""
    found = dict[str, Found]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hits.parquet"
        generate(file, rows)
        plain = duckdb.connect()
        plain.execute("SET enable_progress_bar = false")
        plain.execute(f"CREATE VIEW hits AS SELECT * FROM '{file}'")
        for unit, unit_is_row in UNITS.items():
            declared, place = catalog(unit_is_row=unit_is_row), Path(folder) / unit
            ledger = dp.create_ledger(declared, f"{place}.ledger")
            dp.prepare(declared, {"hits": str(file)}, place, ledger=ledger)
            with dp.connect(declared, place, ledger=ledger, reuse=False) as session:
                for number, text in enumerate(QUESTIONS):
                    found.setdefault(f"Q{number}", {})[unit] = _asked(session, plain, text)
                    print(unit, number, found[f"Q{number}"][unit], flush=True)
    said = {"rows": rows, **found}
    (ROOT / "benchmarks" / "clickbench" / "results.json").write_text(json.dumps(said, indent=1) + "\n")
    (ROOT / "docs" / "clickbench.md").write_text(report(rows, found))


def _asked(session: dp.Session, plain: duckdb.DuckDBPyConnection, text: str) -> dict[str, float] | str:
    """Returns times of both on processors and their ratio, or the first words of the refusal."""
    try:
        session.explain(text)
        return alternate(
            lambda: session.sql(text).to_arrow(),
            lambda: plain.sql(text).to_arrow_table(),
            RUNS,
            clock=time.process_time,
        )
    except dp.QueryError as error:
        return str(error).splitlines()[0]


def report(rows: int, found: dict[str, Found]) -> str:
    """Returns the page: what becomes of each question, and ratios."""
    lines = [
        "# Questions in the manner of ClickBench",
        "",
        "43 questions about page views, each of which asks what the one of the same number in ClickBench asks, over a",
        f"generated table of {rows:,} page views (`python -m benchmarks.clickbench`). The private side reads prepared",
        "data, once with the row and once with the user as the privacy unit (30 rows of a user weigh in full); the",
        "plain side is DuckDB over the same rows as Parquet. Times are milliseconds on processors, medians of runs in",
        "turn, on 2 shared cores; the plain ones shown are those beside the user.",
        "Keys of groups are not declared, so most are selected, in rounds where a user may have several: these are the",
        "slowest. What is refused lists rows, asks for single users, or has a measure without bounds.",
        "",
    ]
    for unit in UNITS:
        times = [one["ratio"] for row in found.values() if isinstance(one := row[unit], dict)]
        spread = f"ratio to plain {statistics.median(times):.2g} in the median, {max(times):.3g} at most"
        lines.append(f"- Unit {unit}: {len(times)} of {len(found)} answered, {spread}.")
    lines += [
        "",
        "| question | plain | row | ratio | user | ratio | text, or why it is refused |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for name, row in found.items():
        cells, plain, why = list[str](), "", ""
        for unit in UNITS:
            one = row[unit]
            if isinstance(one, str):
                cells, why = [*cells, "refused", ""], f"{why}; {one}" if why and one not in why else one
            else:
                cells, plain = [*cells, f"{one['private_ms']:.3g}", f"{one['ratio']:.2g}"], f"{one['plain_ms']:.3g}"
        text = why or QUESTIONS[int(name[1:])]
        short = text if len(text) <= 120 else f"{text[:117]}..."
        shown = short.replace("|", r"\|")
        lines.append(f"| {name} | {plain} | {' | '.join(cells)} | {shown} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**6)
