"""Measures TPC-H and writes docs/tpch.md: what becomes of each query, and its time beside plain DuckDB's.

Usage: python -m benchmarks.tpch [SCALE]     (default: 1)
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
from benchmarks.measure import alternate
from benchmarks.tpch.outcomes import OUTCOMES, Kind
from benchmarks.tpch.tables import generate, plain_engine, prepared_session, queries, rewritten, session

ROOT = Path(__file__).parent.parent.parent
RUNS = 5
SHOWN = "private_ms", "plain_ms", "ratio", "prepared_ms", "prepared_ratio"
Timings = dict[str, dict[str, float]]


def main(scale: float) -> None:
    """Measures every query that is answered, and writes the report."""
    with tempfile.TemporaryDirectory() as folder:
        paths = generate(Path(folder), scale)
        private, plain = session(paths, Path(folder)), plain_engine(paths)
        prepared = prepared_session(paths, Path(folder))
        texts, timings = queries() | rewritten(), Timings()
        for name, outcome in OUTCOMES.items():
            if outcome.kind is Kind.REFUSED:
                continue
            timings[name] = _timing(private, plain, texts[name])
            over = _timing(prepared, plain, texts[name])
            timings[name] |= {"prepared_ms": over["private_ms"], "prepared_ratio": over["ratio"]}
            print(name, {key: round(value, 2) for key, value in timings[name].items()}, flush=True)
    (ROOT / "benchmarks" / "tpch" / "results.json").write_text(json.dumps({"scale": scale, **timings}, indent=1) + "\n")
    (ROOT / "docs" / "tpch.md").write_text(report(scale, timings))


def _timing(private: dp.Session, plain: duckdb.DuckDBPyConnection, text: str) -> dict[str, float]:
    def asked() -> object:
        return private.sql(text).to_arrow()

    return alternate(asked, lambda: plain.sql(text).to_arrow_table(), RUNS, clock=time.process_time)


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
        f"Times are medians in milliseconds on processors at scale factor {scale:g} on 2 shared cores, private and",
        "plain DuckDB in turn over the same Parquet files; ratios are medians of neighbouring runs. The last columns",
        "are private queries over prepared data (`dpquery prepare`) beside the same plain ones.",
        *_summary(timings),
        "",
        "| query | outcome | why | private | plain | ratio | prepared | ratio |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, outcome in OUTCOMES.items():
        row = timings.get(name, {})
        cells = [f"{row[key]:.3g}" if key in row else "" for key in SHOWN]
        lines.append(f"| {name.upper()} | {outcome.kind.value} | {outcome.why} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _summary(timings: Timings) -> list[str]:
    """Returns a line about queries that read private data."""
    private = [row for name, row in timings.items() if OUTCOMES[name].kind is not Kind.FREE]
    told = []
    for word, key in (("over Parquet", "ratio"), ("over prepared data", "prepared_ratio")):
        ratios = [row[key] for row in private]
        told.append(f"{word} median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}")
    return [f"Of the {len(private)} queries that are answered from private data: ratios {'; '.join(told)}."]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
