"""Queries over prepared data beside plain DuckDB, one level: over the same rows as Parquet and as Arrow, and over the
prepared codes and integers.

Usage: python -m benchmarks.prepared [ROWS ...]     (default: 1000000 10000000)

What is compared is time on processors, in one process and in turn: a loaded machine bears that.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import dpquery as dp
from benchmarks.measure import alternate, bytes_read, plain_engine
from benchmarks.visits import catalog, visits

ONE_DAY = "day = DATE '2024-05-17'"
DAYS = 3 * 365
PREPARED = "prepared, "
"""What the rows of the table begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A private query, the plain one over the source, and the plain one over the prepared columns.

    Attributes:
        name: For the report.
        unit_is_row: Which catalog the private query runs under.
        keys: Columns that it groups by.
        measures, coded: What is aggregated of the source, and of the prepared table.
        aim: Ratio to the first plain query, or None.
    """

    name: str
    unit_is_row: bool
    keys: tuple[str, ...]
    measures: str
    coded: str
    aim: float | None

    def over(self, table: str, keys: tuple[str, ...], measures: str, where: str) -> str:
        """Returns the query over a table."""
        shown = ", ".join([*keys, measures])
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {shown} FROM {table}{f' WHERE {where}' if where else ''}{grouped}"


THREE = "COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS m"
STEPS = 'COUNT(*), SUM(" step amount"), AVG(" step amount")'
UNITS = ("COUNT(*) AS n, SUM(amount) AS s, COUNT(DISTINCT user_id) AS u", f'{STEPS}, COUNT(DISTINCT " code")')
WHOLE = ("COUNT(*) AS n, SUM(qty) AS q", 'COUNT(*), SUM(" step qty")')
QUESTIONS = [
    *(
        Question(name=f"{level} {name}", unit_is_row=level == "row-level", keys=keys, measures=m, coded=c, aim=aim)
        for level, name, keys, (m, c), aim in (
            ("row-level", "grand total of floats", (), (THREE, STEPS), 1.0),
            ("row-level", "by region", ("region",), (THREE, STEPS), 1.0),
            ("row-level", "by region and product", ("region", "product"), (THREE, STEPS), 1.0),
            ("user-level", "grand total of integers", (), WHOLE, 2.0),
            ("user-level", "grand total of floats", (), (THREE, STEPS), 2.0),
            ("user-level", "by region", ("region",), (THREE, STEPS), 1.0),
            ("user-level", "by region and product", ("region", "product"), (THREE, STEPS), 1.2),
            ("user-level", "by region, with units", ("region",), UNITS, 2.5),
        )
    )
]


def over_prepared(rows: int, shards: int | None = None) -> dict[str, dict[str, float]]:
    """Returns seconds of preparing and of opening, megabytes, and for each question its milliseconds on processors
    (`private_ms`), those of plain DuckDB over Parquet (`plain_ms`), and the ratios to it (`ratio`), to an Arrow table
    (`to_arrow`) and to the same prepared columns (`to_codes`).

    Args:
        rows: Of the visits table.
        shards: As for `dp.prepare`.
    """
    days = np.random.default_rng(7).integers(0, DAYS, rows).astype("timedelta64[D]") + np.datetime64("2023-01-01")
    table, found = visits(rows).append_column("day", pa.array(days)), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(table, f"{folder}/visits.parquet")
        engine = duckdb.connect()
        engine.execute("SET enable_progress_bar = false")
        engine.execute(f"CREATE VIEW visits AS SELECT * FROM '{folder}/visits.parquet'")
        in_memory = plain_engine(table)
        for unit_is_row in (False, True):
            session, place, said = _prepared(Path(folder), unit_is_row, shards)
            level = "row-level" if unit_is_row else "user-level"
            found[f"{PREPARED}{level}, writing {rows:,} rows (s)"] = said | {"aim": 8 * rows / 1e7}
            engine.execute(f"CREATE OR REPLACE VIEW coded AS SELECT * FROM '{place}/*/*.parquet'")
            for question in QUESTIONS:
                for where in ("", ONE_DAY) if question.unit_is_row is unit_is_row else ():
                    name = f"{PREPARED}{question.name}{', one day' if where else ''}, {rows:,} rows"
                    found[name] = _compared(session, engine, in_memory, question, where, 5 if rows > 10**6 else 9)
                    print(f"{name:64} {', '.join(f'{k} {v:.2f}' for k, v in found[name].items())}", flush=True)
    return found


def _prepared(folder: Path, unit_is_row: bool, shards: int | None) -> tuple[dp.Session, Path, dict[str, float]]:
    """Returns a session over prepared visits, the folder, and how long it took."""
    declared, place = catalog(unit_is_row=unit_is_row, dated=True), folder / f"prepared-{unit_is_row}"
    ledger = dp.create_ledger(declared, folder / f"{unit_is_row}.ledger")
    start = time.process_time()
    dp.prepare(declared, {"visits": f"{folder}/visits.parquet"}, place, ledger=ledger, shards=shards)
    middle = time.process_time()
    session = dp.connect(declared, place, ledger=ledger, reuse=False)
    size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / 2**20
    said = {"private_ms": middle - start, "open_s": time.process_time() - middle, "megabytes": size}
    return session, place, said


def _compared(
    session: dp.Session,
    engine: duckdb.DuckDBPyConnection,
    in_memory: duckdb.DuckDBPyConnection,
    question: Question,
    where: str,
    runs: int,
) -> dict[str, float]:
    """Returns times and ratios of one question, medians of runs in turn, and the megabytes that it reads of files."""
    private = question.over("visits", question.keys, question.measures, where)
    keys = tuple(f'" code {key}"' for key in question.keys)

    def asked() -> object:
        return session.sql(private).to_arrow()

    def beside(plain: duckdb.DuckDBPyConnection, text: str) -> dict[str, float]:
        return alternate(asked, lambda: plain.sql(text).to_arrow_table(), runs, clock=time.process_time)

    made = beside(engine, private)
    made |= {"to_arrow": beside(in_memory, private)["ratio"]}
    made |= {"to_codes": beside(engine, question.over("coded", keys, question.coded, where))["ratio"]}
    made |= {"read_mb": bytes_read(asked) / 2**20}
    return made | ({} if question.aim is None else {"aim": question.aim})


def table(results: dict[str, dict[str, float]]) -> list[str]:
    """Returns the report's section; empty without results."""
    rows = {name.removeprefix(PREPARED): row for name, row in results.items() if name.startswith(PREPARED)}
    asked = {name: row for name, row in rows.items() if "to_codes" in row}
    if not asked:
        return []
    lines = [
        "",
        "## Prepared data",
        "",
        "Fresh questions over prepared data beside plain DuckDB, one level, without privacy: over the same rows as",
        "Parquet and as an Arrow table, and over the prepared codes and integers themselves",
        "(`python -m benchmarks --only prepared`). Times are milliseconds on processors, planning, charge and noise",
        "included, ratios medians of neighbouring runs in one process. One day is one of three years. The last columns",
        "are megabytes read from files by one question, and the load of the machine, which changes ratios little.",
        "",
        "| question | private | plain, Parquet | ratio | aim | to Arrow | to the same codes | MB read | load |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    shown = ("private_ms", "plain_ms", "ratio", "aim", "to_arrow", "to_codes", "read_mb", "load")
    for name, row in asked.items():
        lines.append(f"| {name} | {' | '.join(f'{row[key]:.3g}' if key in row else '' for key in shown)} |")
    for name, row in rows.items():
        if "open_s" in row:
            lines.append("")
            lines.append(
                f"{name[0].upper()}{name[1:]}: {row['private_ms']:.3g} on processors, at a load of "
                f"{row.get('load', 0):.3g}; {row['megabytes']:.0f} MB, opened in {row['open_s']:.2g} s."
            )
    return lines


def main(sizes: list[int]) -> None:
    """Prints what is found for each size."""
    for rows in sizes:
        over_prepared(rows)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10**6, 10**7])
