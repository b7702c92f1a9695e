"""Failure as an oracle: whatever goes wrong after a charge is one error with one text, and what cannot run is free."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dpquery.backends.duckdb.sql.aggregates_sql as aggregates_sql
import dpquery.reuse.answers as answers
from dpquery.backends.duckdb import backend as engine
from dpquery.errors import (
    BackendError,
    InsufficientBudgetError,
    InternalError,
    LedgerError,
    QueryCancelledError,
    QueryError,
    UnsupportedQueryError,
)
from dpquery.kernel import release, samplers, selection
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.failures import FAILED, cause_of
from dpquery.kernel.release import ExactAggregates
from dpquery.session.session import Session
from tests.attacks.clinic import Clinic, Watched

SECRET = "canary-7f3a"
GROUPED = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY ward"
SELECTED = "SELECT note, COUNT(*) AS n FROM visits GROUP BY note"
CHOSEN = "SELECT ward, MODE(ward) AS m FROM visits GROUP BY ward"

ERRORS: list[BaseException] = [
    ValueError(SECRET),
    MemoryError(SECRET),
    RecursionError(SECRET),
    KeyError(SECRET),
    OSError(28, SECRET),
    duckdb.OutOfMemoryException(SECRET),
    duckdb.InterruptException(SECRET),
    duckdb.IOException(SECRET),
    BackendError(SECRET),
    InternalError(SECRET),
    LedgerError(SECRET),
    QueryError(SECRET),
    UnsupportedQueryError(SECRET),
    QueryCancelledError(SECRET),
    type("Panic", (BaseException,), {})(SECRET),
]


class Broken(Watched):
    """A backend that does something of its own to what it gives, or to how it gives it."""

    def __init__(self, inner: Any, at: str, change: Callable[[Any], Any]) -> None:
        super().__init__(inner)
        self.at, self.change = at, change

    def prepare(self, aggregate: Any) -> Any:
        made = self.inner.prepare(aggregate)
        return self.change(made) if self.at == "prepare" else made

    def run(self, statement: Any, key: int) -> ExactAggregates:
        exact = super().run(statement, key)
        made: ExactAggregates = self.change(exact) if self.at == "run" else exact
        return made

    def evaluate(self, relation: Any, released: Any) -> Any:
        made = super().evaluate(relation, released)
        return self.change(made) if self.at == "evaluate" else made


def raising(error: BaseException) -> Callable[[Any], Any]:
    def change(_: Any) -> Any:
        raise error

    return change


def outcome(ward: Clinic, at: str, change: Callable[[Any], Any], query: str, *, reuse: bool = True) -> BackendError:
    """Returns the error of a query that fails after its charge; every part of it is the same for every failure."""
    backend = Broken(ward.backend.inner, at, change)
    session = Session(ward.catalog, backend=backend, ledger=ward.ledger, analyst="alice", reuse=reuse)
    before = len(ward.ledger.entries())
    with pytest.raises(BackendError) as caught:
        session.sql(query, epsilon="0.5", fresh=True)
    error = caught.value
    assert (type(error), error.args) == (BackendError, (FAILED,))
    assert error.__cause__ is error.__context__ is None
    assert not hasattr(error, "__notes__")
    assert len(ward.ledger.entries()) == before + 1
    return error


ABOVE = f"SELECT MAX(n) AS most FROM ({GROUPED}) AS noisy"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("at", ["run", "evaluate"])
def test_whatever_is_raised_after_the_charge_is_one_error(
    clinic: Clinic, caplog: pytest.LogCaptureFixture, at: str, error: BaseException
) -> None:
    """WRK-04: of the engine and of post-processing; the operator hears of type and place, and nobody of words."""
    with caplog.at_level(logging.DEBUG):
        outcome(clinic, at, raising(error), ABOVE)
    told = [record for record in caplog.records if record.name == "dpquery.operator"]
    assert len(told) == 1
    assert type(error).__name__ in told[0].getMessage()
    assert " at dpquery." in told[0].getMessage()
    assert SECRET not in caplog.text
    assert told[0].exc_info is None


def _twice(exact: ExactAggregates) -> ExactAggregates:
    keys = tuple(np.concatenate([key, key]) for key in exact.keys)
    return ExactAggregates(keys=keys, numbers=tuple(np.concatenate([n, n]) for n in exact.numbers))


def _with_keys(exact: ExactAggregates, by: int) -> ExactAggregates:
    return ExactAggregates(keys=tuple(key + by for key in exact.keys), numbers=exact.numbers)


def _with_numbers(exact: ExactAggregates, change: Callable[[Any], Any]) -> ExactAggregates:
    return ExactAggregates(
        keys=exact.keys, numbers=tuple(change(n) for n in exact.numbers), histograms=exact.histograms
    )


DEFECTS: dict[str, tuple[str, Callable[[ExactAggregates], Any]]] = {
    "nothing": (GROUPED, lambda exact: None),
    "another thing": (GROUPED, lambda exact: SECRET),
    "no columns": (GROUPED, lambda exact: ExactAggregates(keys=(), numbers=())),
    "a column more": (GROUPED, lambda e: ExactAggregates(keys=e.keys, numbers=(*e.numbers, e.numbers[0]))),
    "a column cut": (GROUPED, lambda exact: _with_numbers(exact, lambda n: n[:-1])),
    "a group twice": (GROUPED, _twice),
    "a code too high": (GROUPED, lambda exact: _with_keys(exact, 100)),
    "a code too low": (GROUPED, lambda exact: _with_keys(exact, -100)),
    "floats": (GROUPED, lambda exact: _with_numbers(exact, lambda n: n + 0.5)),
    "texts": (GROUPED, lambda exact: _with_numbers(exact, lambda n: np.array([SECRET] * len(n), dtype=object))),
    "NULLs": (GROUPED, lambda exact: _with_numbers(exact, lambda n: np.array([None] * len(n), dtype=object))),
    "a key of another type": (
        SELECTED,
        lambda e: ExactAggregates(
            keys=tuple(np.array([object()] * len(k), dtype=object) for k in e.keys),
            numbers=tuple(n + 10**6 for n in e.numbers),
        ),
    ),
    "a histogram of a group that is not there": (
        CHOSEN,
        lambda e: ExactAggregates(
            keys=e.keys,
            numbers=e.numbers,
            histograms=tuple(Histogram(group=h.group + 99, value=h.value, weight=h.weight) for h in e.histograms),
        ),
    ),
    "a histogram of a value outside": (
        CHOSEN,
        lambda e: ExactAggregates(
            keys=e.keys,
            numbers=e.numbers,
            histograms=tuple(Histogram(group=h.group, value=h.value + 99, weight=h.weight) for h in e.histograms),
        ),
    ),
    "weights that overflow": (
        CHOSEN,
        lambda e: ExactAggregates(
            keys=e.keys,
            numbers=e.numbers,
            histograms=tuple(
                Histogram(group=h.group, value=h.value, weight=h.weight * 0 + 2**62) for h in e.histograms
            ),
        ),
    ),
    "no histogram": (CHOSEN, lambda e: ExactAggregates(keys=e.keys, numbers=e.numbers)),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_what_the_engine_gives_is_the_same_error(clinic: Clinic, name: str) -> None:
    """WRK-04: a shape, a group twice, a code outside its domain, an overflow would each tell something."""
    query, change = DEFECTS[name]
    outcome(clinic, "run", change, query)


STEPS: dict[str, tuple[object, str, str]] = {
    "a key for the hashes": (samplers, "random_key", GROUPED),
    "noise": (samplers, "discrete_gaussian", GROUPED),
    "adding noise": (release, "_add", GROUPED),
    "places of groups": (selection, "group_numbers", GROUPED),
    "selection": (selection, "selected_order", SELECTED),
    "choices": (release, "choose_all", CHOSEN),
    "keeping the answer": (answers, "_kept", GROUPED),
    "combining answers": (answers, "_with_stored", GROUPED),
    "putting the answer together": (answers, "_answered", GROUPED),
}
KEEPS = {"keeping the answer", "combining answers"}


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("step", "reuse"), [(step, reuse) for step in STEPS for reuse in (True, False) if reuse or step not in KEEPS]
)
@pytest.mark.parametrize("error", [MemoryError(SECRET), InternalError(SECRET)], ids=lambda error: type(error).__name__)
def test_each_step_after_the_engine_fails_with_the_same_error(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, step: str, reuse: bool, error: Exception
) -> None:
    """WRK-04: noise, selection, the store, and what follows from noisy numbers."""
    owner, name, query = STEPS[step]

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(owner, name, fail)
    if step == "noise":
        monkeypatch.setattr(samplers, "discrete_laplace", fail)
    outcome(clinic, "nowhere", lambda made: made, query, reuse=reuse)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=lambda error: type(error).__name__)
def test_who_ends_the_process_is_not_held(clinic: Clinic, error: BaseException) -> None:
    backend = Broken(clinic.backend.inner, "run", raising(error))
    session = Session(clinic.catalog, backend=backend, ledger=clinic.ledger, analyst="alice")
    with pytest.raises(type(error)):
        session.sql(GROUPED, epsilon=1, fresh=True)


@pytest.mark.parametrize("error", [UnsupportedQueryError("not here"), InternalError("a defect"), KeyError(SECRET)])
def test_what_cannot_be_prepared_costs_nothing(clinic: Clinic, error: Exception) -> None:
    """B11: a plan that the backend cannot lower is refused before the charge, and no row is read."""
    backend = Broken(clinic.backend.inner, "prepare", raising(error))
    session = Session(clinic.catalog, backend=backend, ledger=clinic.ledger, analyst="alice")
    before = clinic.path.read_bytes()
    with pytest.raises((UnsupportedQueryError, InternalError)) as caught:
        session.sql(GROUPED, epsilon=1, fresh=True)
    assert SECRET not in str(caught.value)
    assert clinic.path.read_bytes() == before
    assert backend.runs == 0


def test_all_parts_of_a_query_are_prepared_before_any_is_charged(clinic: Clinic) -> None:
    steps: list[str] = []

    class Noting(Watched):
        def prepare(self, aggregate: Any) -> Any:
            steps.append("prepare")
            return self.inner.prepare(aggregate)

        def run(self, statement: Any, key: int) -> ExactAggregates:
            steps.append("run")
            return super().run(statement, key)

    session = Session(clinic.catalog, backend=Noting(clinic.backend.inner), ledger=clinic.ledger, analyst="alice")
    session.sql("SELECT (SELECT COUNT(*) FROM people) + (SELECT SUM(cost) FROM visits) AS n", epsilon=1)
    assert steps == ["prepare", "prepare", "run", "run"]


def test_what_the_engine_cannot_bind_costs_nothing(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """B11: were an aggregate written in a form that the engine refuses, the analyst would not pay for it."""
    monkeypatch.setattr(aggregates_sql, "_by", lambda *order: " ORDER BY 'a'")
    text = "SELECT COUNT(*) FROM (SELECT id, MODE(ward) AS m FROM visits GROUP BY id) AS each_unit WHERE m = 'x'"
    before = clinic.path.read_bytes()
    with pytest.raises(UnsupportedQueryError, match="cannot run"):
        clinic.sql(text)
    assert clinic.path.read_bytes() == before
    assert clinic.backend.runs == 0


def test_binding_holds_no_private_row(clinic: Clinic) -> None:
    backend = clinic.backend.inner
    assert isinstance(backend, engine.DuckDBBackend)
    cursor = backend._empty.engine.cursor()
    tables = [
        f"{schema}.{name}"
        for schema, name in cursor.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
    ]
    assert len(tables) >= len(clinic.catalog.tables)  # and those for weights, and those of other sessions
    assert all(cursor.execute(f"SELECT COUNT(*) FROM {name}").fetchall() == [(0,)] for name in tables)


def test_a_refused_charge_stays_a_refused_charge(tmp_path: Path) -> None:
    """What fails before the charge keeps its own words."""
    small = Clinic(tmp_path, budget="{epsilon: 1}")
    with pytest.raises(InsufficientBudgetError):
        small.sql(GROUPED, epsilon=2)


def test_a_cause_is_a_type_and_a_place() -> None:
    try:
        selection.group_numbers((), (), -1)
    except ValueError as error:
        assert cause_of(error).startswith("ValueError at dpquery.kernel.selection:")
        assert cause_of(error).endswith(" in group_numbers")
    assert cause_of(ValueError(SECRET)) == "ValueError at unknown"
