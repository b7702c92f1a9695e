"""Measures TPC-H and writes docs/tpch.md: what becomes of each query, and its time beside plain DuckDB's.

Usage: python -m benchmarks.tpch [SCALE]     (default: 1)
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from time import process_time

import duckdb

import dpquery as dp
from benchmarks.measure import alternate
from benchmarks.tpch.outcomes import OUTCOMES, Kind
from benchmarks.tpch.tables import generate, plain_engine, prepared_session, queries

ROOT = Path(__file__).parent.parent.parent
RUNS = 5
Timings = dict[str, dict[str, float]]


def main(scale: float) -> None:
    """Measures every query that is answered, and writes the report."""
    with tempfile.TemporaryDirectory() as folder:
        paths = generate(Path(folder), scale)
        private, plain = prepared_session(paths, Path(folder)), plain_engine(paths)
        texts, timings = queries(), Timings()
        for name, outcome in OUTCOMES.items():
            if outcome.kind is Kind.REFUSED:
                continue
            timings[name] = _timing(private, plain, texts[name])
            print(name, {key: round(value, 2) for key, value in timings[name].items()}, flush=True)
    (ROOT / "benchmarks" / "tpch" / "results.json").write_text(json.dumps({"scale": scale, **timings}, indent=1) + "\n")
    (ROOT / "docs" / "tpch.md").write_text(report(scale, timings))


def _timing(private: dp.Session, plain: duckdb.DuckDBPyConnection, text: str) -> dict[str, float]:
    return alternate(
        lambda: private.sql(text).to_arrow(), lambda: plain.sql(text).to_arrow_table(), RUNS, clock=process_time
    )


def report(scale: float, timings: Timings) -> str:
    """Returns the page: outcomes and times."""
    lines = [
        "# TPC-H",
        "",
        "The 22 queries of the TPC-H benchmark with the customer as the privacy unit: customers, orders and line items",
        "are private (a line item belongs to the customer of its order), everything else is public. The catalog is",
        "[benchmarks/tpch/catalog.yaml](../benchmarks/tpch/catalog.yaml), its bounds are those of the specification.",
        "Every query stands in its standard text, with the specification's parameters for validation.",
        "",
        f"Times are medians in milliseconds on processors at scale factor {scale:g}, planning, charge and noise",
        "included, the private side over prepared data and plain DuckDB over the Parquet files, in turn; the ratio is",
        "the median of neighbouring runs. By the values that it finds in one table plain DuckDB leaves rows of another",
        "unread, which private tables must not do to each other ([work](proofs/work.md)): Q21 looks for all line items",
        "twice for that.",
        "",
        "| query | outcome | why | private | plain | ratio |",
        "|---|---|---|---:|---:|---:|",
    ]
    for name, outcome in OUTCOMES.items():
        row = timings.get(name, {})
        cells = [f"{row[key]:.3g}" if key in row else "" for key in ("private_ms", "plain_ms", "ratio")]
        lines.append(f"| {name.upper()} | {outcome.kind.value} | {outcome.why} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
