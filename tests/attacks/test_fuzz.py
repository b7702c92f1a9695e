"""Random SQL, half of it legal, and mutated texts: refusals by our errors alone, in time, no answer without noise."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from pathlib import Path

import pytest

from dpquery.errors import BackendError, DPQueryError, InternalError, QueryError
from tests.attacks.clinic import Clinic
from tests.attacks.grammar import Grammar

SECONDS = 20.0
"""Of this thread on the processor, for what takes milliseconds: only work that explodes can be so slow."""
DIALECTS = ["postgres", "postgres", "postgres", "duckdb", "bigquery", "snowflake", "spark", "mysql", "tsql"]


def attempt(clinic: Clinic, text: str, dialect: str) -> str:
    """Returns "answered" or the name of the error; fails unless the attempt kept every rule."""
    before, runs, start = clinic.path.read_bytes(), clinic.backend.runs, time.thread_time()
    try:
        answer = clinic.sql(text, dialect=dialect)
    except (BackendError, InternalError) as error:
        raise AssertionError(f"{type(error).__name__} for {text!r} in {dialect}") from error
    except QueryError as error:
        assert clinic.backend.runs == runs, text
        assert clinic.path.read_bytes() == before, text
        outcome = type(error).__name__
    except DPQueryError as error:
        raise AssertionError(f"{type(error).__name__} for {text!r}") from error
    except Exception as error:
        raise AssertionError(f"bare {type(error).__name__} for {text!r} in {dialect}") from error
    else:
        outcome = "answered"
        repr(answer), answer.accuracy, answer.to_pandas()
        if clinic.backend.runs > runs:
            assert answer.charge.rho > 0, text
            assert answer.measurements, text
            assert all(made.scale > 0 for made in answer.measurements), text
    assert time.thread_time() - start < SECONDS, text
    return outcome


def fuzz(clinic: Clinic, seed: int, count: int) -> Counter[str]:
    """Returns how often each outcome was met."""
    grammar, outcomes = Grammar(seed), Counter[str]()
    for turn in range(count):
        text, dialect = grammar.query(), "postgres"
        if turn % 2:
            text, dialect = grammar.mutated(text), grammar.pick(DIALECTS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcomes[attempt(clinic, text, dialect)] += 1
    return outcomes


def test_random_queries(clinic: Clinic) -> None:
    """PAR-01, PAR-02, PAR-04, SEN-09, OUT-03: no bare exception, no slow refusal, no answer without noise."""
    outcomes = fuzz(clinic, 1, 100)
    assert outcomes["answered"] > 5
    assert len(outcomes) > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_hundred_thousand_random_queries(tmp_path: Path, seed: int) -> None:
    """PAR-01, PAR-02, PAR-04, SEN-09, OUT-03."""
    budget = "{epsilon: 1000000, delta: 1e-1}"
    fuzz(Clinic(tmp_path, budget=budget), seed, 10_000)
