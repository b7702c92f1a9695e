"""Random queries over a study: without noise equal to plain SQL over the same rows, or refused by our errors.

Equal means: the same rows, whatever their order (in the order of the query where it gives one to all columns), floats
within 1e-6 (where squares are measured, whose lattice is as coarse as their range is wide: within 1 or 1e-3). Groups of
public keys without rows may be there in addition, with 0 or NULL for each aggregate; groups whose key is NULL may be
missing where keys are public; a SUM over no rows may be 0.
Queries whose groups cannot be empty have none of this freedom but the last. Groups without public keys are shown from
one unit on, by a threshold of 1.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpquery.errors import BackendError, DPQueryError, InsufficientBudgetError, InternalError, QueryError
from dpquery.kernel import exponential, mechanisms, rounds
from dpquery.result.table import Result
from tests.attacks.clinic import Clinic
from tests.attacks.combinations import Mixed, Mixture
from tests.attacks.study import CATALOG, Grammar, Query, frames
from tests.scripted import zero_noise

Row = tuple[Any, ...]


class Study:
    """The study behind noise that is zero, the same study with other patients, and its rows in plain DuckDB."""

    def __init__(self, folder: Path) -> None:
        given = [frames(), frames(seed=2, patients=7)]
        (folder / "other").mkdir()
        self.session = Clinic(folder, tables=given[0], catalog=CATALOG, analyst="analyst")
        self.other = Clinic(folder / "other", tables=given[1], catalog=CATALOG, analyst="analyst")
        self.plain = duckdb.connect(":memory:")
        for name, frame in given[0].items():
            self.plain.register(f"stored_{name}", frame)
            days = " REPLACE (CAST(days AS INTEGER) AS days)" if "days" in frame else ""
            self.plain.execute(f"CREATE VIEW {name} AS SELECT *{days} FROM stored_{name}")
        bounded = "CASE WHEN x IS NULL THEN NULL ELSE greatest(least(x, high), low) END"
        self.plain.execute(f"CREATE MACRO clamp(x, low, high) AS {bounded}")

    def check(self, query: Query) -> str:
        """Returns "answered" or the name of the refusal; fails on anything else."""
        options = {
            "dialect": "duckdb",
            "epsilon": 20,
            "max_groups": 40,
            "max_rows": 3000 if isinstance(query, Mixture) else 40,
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                answer = self.session.sql(query.text, **options)
        except (BackendError, InternalError, InsufficientBudgetError) as error:
            raise AssertionError(f"{type(error).__name__} for {query.text!r}") from error
        except QueryError as error:
            return type(error).__name__
        except DPQueryError as error:
            raise AssertionError(f"{type(error).__name__} for {query.text!r}") from error
        except Exception as error:
            raise AssertionError(f"bare {type(error).__name__} for {query.text!r}") from error
        if not answer.measurements:
            assert rows_of(answer) == rows_of(self.other.sql(query.text, **options)), f"no noise: {query.text}"
        self.compare(query, answer)
        return "answered"

    def compare(self, query: Query, answer: Result) -> None:
        try:
            expected = self.plain.execute(query.text.replace("MODE(", "HISTOGRAM(")).fetchall()
        except duckdb.Error:
            assert query.broken, query.text
            return
        given = rows_of(answer)
        loose = 1.0 if any(")^2)" in made.label or ") * (" in made.label for made in answer.measurements) else 1e-6
        exact = set(keys_of(answer))
        tolerance = [None if i in exact else loose for i in range(len(answer.columns))]
        if query.ordered:
            assert len(given) == len(expected), query.text
            assert all(alike(a, b, tolerance) for a, b in zip(given, expected, strict=True)), query.text
            return
        left = list(expected)
        for row in given:
            place = next((i for i, other in enumerate(left) if alike(row, other, tolerance)), None)
            if place is not None:
                left.pop(place)
                continue
            extra = not query.mild and empty(row, answer, hidden=query.broken)
            assert extra, f"{row} is not among {left[:5]}: {query.text}"
        public = all(made.tau is None for made in answer.measurements)
        for row in left:
            nameless = public and not query.mild and any(row[i] is None for i in keys_of(answer))
            assert nameless, f"{row} is not in the answer: {query.text}"


def keys_of(answer: Result) -> list[int]:
    noisy = set(answer.accuracy.columns.get_level_values(0)) if len(answer.accuracy.columns) else set()
    return [i for i, name in enumerate(answer.columns) if name not in noisy]


def empty(row: Row, answer: Result, *, hidden: bool) -> bool:
    """Whether a row is that of a group without rows: its aggregates are 0 or NULL. Its keys may be hidden."""
    keys = keys_of(answer)
    return (bool(keys) or hidden) and all(cell in (None, 0) for i, cell in enumerate(row) if i not in keys)


def rows_of(answer: Result) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in answer.to_arrow().columns), strict=True))


def alike(row: Row, other: Row, tolerance: list[float | None]) -> bool:
    cells = zip(row, other, tolerance, strict=True)
    return len(row) == len(other) and all(same(a, b, allowed) for a, b, allowed in cells)


def same(a: Any, b: Any, tolerance: float | None) -> bool:
    """Whether two cells are equal; a key has no tolerance, and any of several modes is one."""
    if b is None or b != b:
        return a is None or (tolerance is not None and not isinstance(a, bool) and a == 0)
    if isinstance(b, dict):
        return a in b and b[a] == max(b.values())
    tolerance = tolerance or 1e-9
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, int | float | Decimal):
        return bool(a == b) or str(a) == str(b).removesuffix(" 00:00:00")
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return isinstance(b, int | float | Decimal) and math.isclose(
        float(a), float(b), rel_tol=min(tolerance, 1e-3), abs_tol=tolerance
    )


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    zero_noise(monkeypatch)
    shown = mechanisms.tau_of
    monkeypatch.setattr(mechanisms, "tau_of", lambda *given: None if shown(*given) is None else 1)
    monkeypatch.setattr(rounds, "_least_tau", lambda *_: 1)
    monkeypatch.setattr(exponential, "rank_of_extreme", lambda *_: 1)
    return Study(tmp_path)


def fuzz(study: Study, grammar: Grammar | Mixed, count: int) -> Counter[str]:
    """Returns how often each outcome was met."""
    return Counter(study.check(grammar.query()) for _ in range(count))


def fuzz_mixed(study: Study, seed: int, count: int) -> int:
    """Returns how many queries were answered; one that mixes people may not be."""
    grammar, answered = Mixed(seed), 0
    for _ in range(count):
        query = grammar.query()
        outcome = study.check(query)
        assert not (query.illegal and outcome == "answered"), query.text
        answered += outcome == "answered"
    return answered


def test_random_queries(study: Study) -> None:
    """PAR-01, PAR-04, SEN-09, OUT-03: right, or refused; never wrong, never without noise, never a bare exception."""
    outcomes = fuzz(study, Grammar(1), 70)
    assert 25 <= outcomes["answered"] <= 50
    assert len(outcomes) > 3


def test_queries_where_capabilities_meet(study: Study) -> None:
    """PAR-01, PAR-04, SEN-09: joins under windows under unions, and noisy tables over each other."""
    assert fuzz_mixed(study, 1, 25) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_ten_thousand_random_queries(study: Study, seed: int) -> None:
    """PAR-01, PAR-04, SEN-09, OUT-03."""
    outcomes = fuzz(study, Grammar(seed), 1000)
    assert outcomes["answered"] >= 350


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_ten_thousand_queries_where_capabilities_meet(study: Study, seed: int) -> None:
    """PAR-01, PAR-04, SEN-09."""
    assert fuzz_mixed(study, seed, 1000) >= 400
