"""Forty questions about a hospital: how far answers at epsilon 1 are off, and whether they said so.

Bounds are those that a profile suggests, bought for a twentieth of a question's epsilon, which is taken off every
question. What an answer says of bias is, where it names a table, the most of its rows that may be left out by the
profile; it is taken as a share of each number. Units above the end of its ladder, which may hold any number, are not in
it: what they hold shows as answers that are off by more than they say.

Usage: python -m benchmarks.hospital [VISITS]     (default: 400000; the aim is meant for 4000000)
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

import dpquery as dp
from benchmarks.suggested import PART, profile
from benchmarks.wards import VISITS, catalog, session, tables

QUESTIONS = Path(__file__).with_name("questions.sql")
EPSILON = Fraction(1)
MEDIAN = 0.05
"""The aim: half of the questions are off by less."""
CONFIDENCE = "0.999999"
"""Of an interval; with some four hundred cells, one beside it is no accident."""
GENEROUS = (50, 300)
"""Bounds under which the profile is bought; they change nothing of it."""
Key = tuple[str, ...]
"""The exact columns of a row, as text."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How far the cells of one answer are off.

    Attributes:
        errors: Of each cell, in parts of the exact number.
        beyond: Cells that are off by more than their interval and what is said of bias.
    """

    sql: str
    errors: tuple[float, ...]
    beyond: int

    @property
    def error(self) -> float:
        """The median error of a cell."""
        return statistics.median(self.errors)


def questions() -> list[str]:
    """Returns the forty texts."""
    lines = [line for line in QUESTIONS.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
    return [text.strip() for text in "\n".join(lines).split(";") if text.strip()]


def outcomes(visits: int = VISITS) -> list[Outcome]:
    """Returns what came of each question that has an answer, in order; of few visits some have none."""
    data, engine = tables(visits), duckdb.connect(":memory:")
    for name, table in data.items():
        engine.register(name, table)
    with tempfile.TemporaryDirectory() as folder:
        bought = profile(catalog(*GENEROUS), data, Path(folder) / "profile", EPSILON * PART)
        bounds = {name: bought[name].suggest_max_rows(epsilon=EPSILON * (1 - PART)) for name in ("visits", "labs")}
        said = {name: bought[name].loss(bound).at_most for name, bound in bounds.items()}
        with session(data, Path(folder), bounds["visits"], bounds["labs"]) as opened:
            made = [_outcome(opened, engine, sql, said) for sql in questions()]
            return [one for one in made if one.errors]


def _outcome(opened: dp.Session, engine: duckdb.DuckDBPyConnection, sql: str, said: Mapping[str, float]) -> Outcome:
    answer = opened.sql(sql, epsilon=EPSILON * (1 - PART), confidence=CONFIDENCE)
    exact = _cells(engine.sql(sqlglot.transpile(sql, read="postgres", write="duckdb")[0]).to_arrow_table(), answer)
    noisy = _cells(answer.to_arrow(), answer)
    bias = max((said[name] for name in said for note in answer.notes if note.startswith(name)), default=0.0)
    intervals, errors, beyond = answer.accuracy, [], 0
    places = {key: place for place, key in enumerate(_keys(answer.to_arrow(), answer))}
    for (key, name), true in exact.items():
        found = noisy.get((key, name))
        if not true:
            continue
        if found is None:  # too few rows for an answer: as wrong as 0
            errors.append(1.0)
            continue
        errors.append(abs(found - true) / abs(true))
        low, high = (intervals[name, end][places[key]] for end in ("lower", "upper"))
        half = max(found - low, high - found)
        beyond += not math.isnan(half) and abs(found - true) > half + bias * abs(true)
    return Outcome(sql=sql, errors=tuple(errors), beyond=beyond)


def _noisy(answer: dp.Result) -> list[str]:
    return list(dict.fromkeys(name for name, _ in answer.accuracy.columns))


def _keys(table: pa.Table, answer: dp.Result) -> list[Key]:
    """Returns the exact columns of each row."""
    exact = [name for name in table.column_names if name not in _noisy(answer)]
    columns = [[_key(value) for value in table[name].to_pylist()] for name in exact]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _cells(table: pa.Table, answer: dp.Result) -> dict[tuple[Key, str], float]:
    """Returns the noisy columns' numbers by key and column."""
    keys, found = _keys(table, answer), dict[tuple[Key, str], float]()
    for name in _noisy(answer):
        values = zip(keys, table[name].to_pylist(), strict=True)
        found |= {(key, name): float(value) for key, value in values if value is not None}
    return found


def _key(value: Any) -> str:
    """Returns a key that is the same whatever the type of a date or of a whole number."""
    if isinstance(value, float) or hasattr(value, "as_tuple"):
        return str(int(value))
    return str(value)[:10] if hasattr(value, "isoformat") else str(value)


def hospital_errors(visits: int = VISITS) -> dict[str, dict[str, float]]:
    """Returns the median error of the questions, and how many are off by more than they say."""
    made = outcomes(visits)
    title = f"hospital, {len(made)} questions, {visits:,} visits"
    return {
        f"{title}: median error": {"ratio": statistics.median(one.error for one in made), "aim": MEDIAN},
        f"{title}: off by more than interval and bias": {"ratio": sum(one.beyond > 0 for one in made), "aim": 0},
    }


def main(visits: int) -> None:
    """Prints each question's error."""
    made = outcomes(visits)
    for number, one in enumerate(made, 1):
        worst = f"worst {max(one.errors):7.2%} of {len(one.errors):3} cells"
        print(f"{number:2} {one.error:7.2%}, {worst}, {one.beyond} beyond  {one.sql[:90]}")
    print(f"median error {statistics.median(one.error for one in made):.2%} (aim {MEDIAN:.0%})")
    print(f"{sum(one.beyond > 0 for one in made)} of {len(made)} questions off by more than interval and bias")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else VISITS)
