"""Nothing but released numbers comes out: no value of a private column in any error, repr, plan, log or ledger.

Canaries stand in every private column: texts, numbers and dates that occur nowhere else.
"""

from __future__ import annotations

import copy
import datetime
import logging
import pickle
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.kernel.release import ExactAggregates
from tests.properties.neighbours import Database, Hall, folder
from tests.properties.queries import Query
from tests.properties.worlds import Row, Rows, World, catalog_of, tables_of

TEXT, NUMBER, REAL, DAY = "canary-q7x", 918_273_645, 31.41592653, datetime.date(2000, 11, 23)
CANARIES = (TEXT, str(NUMBER), str(REAL), str(DAY), "2000, 11, 23", "canary")


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


def canary_rows(count: int, first: int = NUMBER) -> Rows:
    """Returns people in whose rows each value is a canary."""
    rows: Rows = {"people": [], "visits": [], "items": []}
    for person in range(first, first + count):
        rows["people"].append({"id": person, "age": NUMBER, "income": REAL, "sex": TEXT, "town": TEXT})
        visit: Row = {"person": person, "visit": person, "kind": TEXT, "cell": NUMBER, "score": NUMBER, "cost": REAL}
        rows["visits"].append({**visit, "place": NUMBER, "rate": None, "note": TEXT, "day": DAY, "ok": True})
        rows["items"].append({"visit": person, "label": TEXT, "weight": REAL})
    return rows


def database(shelf: str, people: int) -> Database:
    """Returns a database of this many people."""
    hall = Hall(catalog_of(), shelf)
    crowd: Rows = {name: [] for name in tables_of(hall.catalog)} | canary_rows(people)
    made = World(catalog=hall.catalog, crowd=crowd, guests=(), styles=(), stored_as_text=frozenset())
    return hall.open(made.sources())


@pytest.fixture(scope="module")
def neighbours(shelf: str) -> tuple[Database, Database, Database]:
    """Databases of nobody, of one person and of many."""
    return database(shelf, 0), database(shelf, 1), database(shelf, 30)


@pytest.fixture(scope="module")
def alone(shelf: str) -> Database:
    """A database of one person, with a ledger of its own."""
    return database(shelf, 1)


def assert_clean(text: str) -> None:
    """Asserts that no canary stands in a text."""
    assert not [canary for canary in CANARIES if canary in text], text


def everything_about(error: BaseException) -> str:
    """Returns all that can be printed of an exception, with those that it hides."""
    parts, pending = [], [error]
    while pending:
        found = pending.pop()
        parts += [str(found), repr(found), repr(found.args), repr(vars(found))]
        pending += [e for e in (found.__cause__, found.__context__) if e is not None]
    return "\n".join([*parts, *traceback.format_exception(error)])


ANSWERED = [
    "SELECT kind, COUNT(*) AS n, SUM(score) AS s, AVG(cost) AS m FROM visits GROUP BY kind",
    "SELECT sex, COUNT(*) AS n, VAR_POP(income) AS v FROM people GROUP BY sex",
    "SELECT COUNT(DISTINCT note) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM people p JOIN visits v ON p.id = v.person WHERE v.note LIKE 'c%'",
    "SELECT label, SUM(weight) AS w FROM items GROUP BY label",
    "SELECT EXTRACT(MONTH FROM day) AS k, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT note, COUNT(*) AS n FROM visits GROUP BY note",  # one person only: the group is not shown
    "SELECT place, COUNT(*) AS n FROM visits GROUP BY place",
    "SELECT SUM(CLAMP(CAST(note AS INTEGER), 0, 9)) AS s FROM visits",
    "SELECT SUM(CLAMP(score * 9000000000000 * score, 0, 9)) AS s FROM visits",
    "SELECT SUM(CLAMP(cost / (score - 918273645), 0, 9)) AS s FROM visits".replace(str(NUMBER), "17"),
    "SELECT SUM(CLAMP(LN(score - 99), 0, 9)) AS s FROM visits",
    "SELECT MIN(score), MAX(score), MEDIAN(score) FROM visits",
]
REFUSED = [
    "SELECT * FROM visits",
    "SELECT note FROM visits",
    "SELECT MAX(note) FROM visits",
    "SELECT SUM(note) FROM visits",
    "SELECT SUM(place) FROM visits",
    "SELECT SUM(CAST(note AS DOUBLE)) FROM visits",
    "SELECT COUNT(*) FROM nothing",
    "SELECT COUNT(nothing) FROM visits",
    "SELECT COUNT(* FROM visits",
    "SELECT error(note) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE note = (SELECT MAX(note) FROM visits)",
    "SELECT note, COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits v JOIN people p ON v.score = p.age",
    "SELECT COUNT(*) FROM visits LIMIT note",
    "SELECT STRING_AGG(note, ',') FROM visits",
]


@pytest.mark.parametrize("text", [*ANSWERED, *REFUSED])
def test_no_value_comes_out(
    text: str, alone: Database, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = [repr(alone.preview(Query(text=text)))]
    try:
        answer = alone.answer(Query(text=text))
    except dp.QueryError as error:
        assert text in REFUSED
        seen.append(everything_about(error))
    else:
        assert text in ANSWERED
        table = answer.to_arrow()
        rows = str(table.to_pylist()) if "CAST" not in text else ""
        seen += [str(answer), repr(answer), answer._repr_html_(), rows, str(table.schema), str(answer.accuracy)]
    seen += [repr(alone.session), repr(alone.backend), repr(alone.hall.ledger), repr(alone.hall.ledger.entries())]
    seen += [record.getMessage() for record in caplog.records]
    seen += capfd.readouterr()
    for shown in seen:
        assert_clean(shown)


def test_the_ledger_file_holds_no_value(shelf: str) -> None:
    opened = database(shelf, 1)
    for text in ANSWERED:
        opened.answer(Query(text=text))
    opened.hall.ledger.close()
    for file in Path(shelf).iterdir():
        content = file.read_bytes()
        assert not [canary for canary in CANARIES if canary.encode() in content]


@pytest.mark.parametrize("text", [*ANSWERED, *REFUSED])
def test_neighbours_see_equal_plans_and_errors(text: str, neighbours: tuple[Database, Database, Database]) -> None:
    none, one, many = neighbours
    query = Query(text=text)
    assert none.preview(query) == one.preview(query) == many.preview(query)
    outcomes = []
    for opened in (none, one, many):
        try:
            outcomes.append(("answer", str(opened.answer(query).charge)))
        except dp.DPQueryError as error:
            outcomes.append((type(error).__name__, str(error)))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    spent = [opened.hall.ledger.spent(None) for opened in (none, one, many)]
    assert spent[0] == spent[1] == spent[2]


@dataclass(frozen=True, slots=True)
class Failing:
    """A backend whose engine quotes a value in its error, as real ones do."""

    backend: DuckDBBackend
    error: Exception = field(repr=False)

    def run(self, statement: Any, key: int) -> ExactAggregates:
        self.backend.run(statement, key)
        raise self.error

    def __getattr__(self, name: str) -> object:
        return getattr(self.backend, name)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(TEXT),
        MemoryError(TEXT),
        OSError(5, TEXT),
        ArithmeticError(NUMBER),
        dp.QueryError(TEXT),
        dp.InternalError(TEXT),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_engine_raises_is_never_quoted_and_stays_charged(error: Exception, shelf: str) -> None:
    opened = database(shelf, 1)
    backend = Failing(opened.backend, error)  # type: ignore[arg-type]
    session = dp.Session(opened.hall.catalog, backend=backend, ledger=opened.hall.ledger, analyst="alice", reuse=False)  # type: ignore[arg-type]
    before = opened.hall.ledger.spent("alice")
    messages = set()
    for text in ANSWERED[:3]:
        with pytest.raises(dp.BackendError) as raised:
            session.sql(text, epsilon="1")
        assert_clean(everything_about(raised.value))
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        messages.add(str(raised.value))
    assert len(messages) == 1
    assert opened.hall.ledger.spent("alice").rho > before.rho
    assert len(opened.hall.ledger.entries()) == 3


def test_no_charge_comes_after_a_row_is_read(shelf: str) -> None:
    """When the backend is called, the charge stands in the ledger already, in full."""
    opened = database(shelf, 1)
    seen = []

    class Watching(Failing):
        def run(self, statement: Any, key: int) -> ExactAggregates:
            seen.append(opened.hall.ledger.spent(None))
            return self.backend.run(statement, key)

    backend = Watching(opened.backend, ValueError())  # type: ignore[arg-type]
    session = dp.Session(opened.hall.catalog, backend=backend, ledger=opened.hall.ledger, analyst="alice", reuse=False)  # type: ignore[arg-type]
    answer = session.sql("SELECT kind, COUNT(*) AS n, AVG(score) AS m FROM visits GROUP BY kind", epsilon="1")
    assert seen == [opened.hall.ledger.spent(None)]
    assert seen[0].rho >= answer.charge.rho > 0


def test_refused_queries_never_reach_the_private_engine(shelf: str) -> None:
    opened = database(shelf, 1)
    backend = Failing(opened.backend, AssertionError("the private engine was asked"))  # type: ignore[arg-type]
    session = dp.Session(opened.hall.catalog, backend=backend, ledger=opened.hall.ledger, analyst="alice", reuse=False)  # type: ignore[arg-type]
    mark = opened.hall.ledger.mark
    for text in REFUSED:
        with pytest.raises(dp.QueryError):
            session.sql(text, epsilon="1")
    for text in ANSWERED:
        session.explain(text, epsilon="1")
        with pytest.raises((dp.InsufficientBudgetError, dp.InvalidLossError)):
            session.sql(text, epsilon="900000")
        with pytest.raises(dp.InvalidLossError):
            session.sql(text, epsilon="-1")
    assert opened.hall.ledger.mark == mark


def with_column(frame: pd.DataFrame, column: str, values: list[Any]) -> pd.DataFrame:
    """Returns the frame with other values in a column."""
    changed = frame.copy()
    changed[column] = pd.Series(values, dtype=object)
    return changed


@pytest.mark.parametrize("column", ["score", "cost", "note", "day", "person", "visit"])
def test_mistakes_in_the_data_are_reported_without_values(column: str, shelf: str) -> None:
    hall = Hall(catalog_of(), shelf)
    crowd: Rows = {name: [] for name in tables_of(hall.catalog)} | canary_rows(3)
    tables: dict[str, object] = dict(
        World(catalog=hall.catalog, crowd=crowd, guests=(), styles=(), stored_as_text=frozenset()).sources()
    )
    frame = pd.DataFrame(canary_rows(3)["visits"])
    wrongs = [
        frame.drop(columns=column),
        with_column(frame, column, [[TEXT], [TEXT, TEXT], None]),
        with_column(frame, column, [{"a": TEXT}] * 3),
        with_column(frame, column, [complex(1, 2)] * 3),
        frame.assign(visit=1),
        pd.concat([frame, frame[[column]]], axis=1),
        [TEXT],
        f"/nowhere/{column}.parquet",
    ]
    refused = 0
    for wrong in wrongs:
        try:
            hall.open({**tables, "visits": wrong})
        except dp.DPQueryError as error:
            refused += 1
            assert_clean(everything_about(error))
    assert refused >= 4


def test_what_holds_data_is_neither_printed_nor_copied(shelf: str) -> None:
    opened = database(shelf, 3)
    prepared = opened.prepare(Query(text="SELECT note, COUNT(*) AS n, SUM(score) AS s FROM visits GROUP BY note"))
    exact = opened.backend.run(opened.backend.prepare(prepared.aggregates[0]), 1)
    for shown in (exact, opened.session, opened.backend, opened.hall.ledger, opened.hall.catalog, prepared.budgeted):
        assert_clean(repr(shown))
        assert_clean(str(shown))
    assert "3" not in repr(exact), "not even the numbers"
    for held in (opened.session, opened.backend, opened.hall.ledger):
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                copied(held)
