"""Attacks on what comes out beside the numbers (OUT): order, types, errors, logs, previews."""

from __future__ import annotations

import logging
import re
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dpquery.errors import DPQueryError, QueryError, UnknownNameError
from dpquery.frontends.cli.main import run
from dpquery.plan.logical import Aggregate, Join, Relation, Released, Scan, sources
from dpquery.result.measurements import Measurement
from dpquery.session.session import Session
from tests.attacks.clinic import BUDGET, CATALOG, Clinic, frames
from tests.attacks.test_planner import planned

CANARY = "canary7f3a"
NUMBER = 7_313_131


def planted() -> dict[str, pd.DataFrame]:
    """Returns rows of which every private value is a canary."""
    data = frames()
    data["people"]["town"] = [f"{CANARY}-{i}" for i in range(len(data["people"]))]
    data["visits"]["note"] = [f"{CANARY}-{i}" for i in range(len(data["visits"]))]
    data["visits"]["free"] = NUMBER + 0.25
    data["visits"]["visit"] = range(NUMBER, NUMBER + len(data["visits"]))
    data["people"]["id"] += NUMBER
    data["visits"]["id"] += NUMBER
    data["referrals"]["id"] += NUMBER
    return data


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    return Clinic(tmp_path_factory.mktemp("canaries"), tables=planted())


def assert_silent(text: str) -> None:
    assert CANARY not in text
    assert not re.search(r"7[ _,.]?313[ _,.]?1\d\d", text)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def test_rows_come_in_the_order_of_their_keys(tmp_path: Path, no_noise: None) -> None:
    """OUT-01: whatever order the rows were stored in."""
    orders = set()
    for turn in range(4):
        folder = tmp_path / str(turn)
        folder.mkdir()
        people = pd.DataFrame({"id": range(900), "age": 1, "sex": "F", "town": ["zed", "amy", "bob"] * 300})
        shuffled = Clinic(folder, tables={"people": people.sample(frac=1, random_state=turn)})
        answer = shuffled.rows("SELECT town, sex, COUNT(*) FROM people GROUP BY town, sex")
        orders.add(tuple(row[0] for row in answer))
        assert [row[0] for row in shuffled.rows("SELECT DISTINCT town FROM people")] == ["amy", "bob", "zed"]
    assert len(orders) == 1


def test_null_keys_have_a_fixed_place(tmp_path: Path, no_noise: None) -> None:
    """OUT-01: NULL comes last, wherever its rows were."""
    people = pd.DataFrame({"id": range(900), "age": 1, "sex": "F", "town": [None, "b", "a"] * 300})
    mixed = Clinic(tmp_path, tables={"people": people})
    assert [town for town, _ in mixed.rows("SELECT town, COUNT(*) FROM people GROUP BY town")] == ["a", "b", None]


def test_the_size_of_an_answer_is_that_of_what_is_released(canaries: Clinic) -> None:
    """OUT-02, OUT-12: no count of suppressed groups, no group beside the released ones, anywhere."""
    answer = canaries.sql("SELECT note, COUNT(*) FROM visits GROUP BY note")
    assert len(answer) == 0
    text = f"{answer} {answer._repr_html_()} {answer.accuracy} {answer.measurements}"
    assert_silent(text)
    assert not re.search(r"suppress|hidden|dropped|removed|180", text)


QUERIES = [
    "SELECT note FROM visits",
    "SELECT SUM(free) FROM visits",
    "SELECT nothing FROM visits",
    "SELECT COUNT(*) FROM nowhere",
    "SELECT COUNT(*) FROM visits WHERE note = 3",
    "SELECT COUNT(*) FROM visits WHERE CAST(note AS BIGINT) > 3",
    "SELECT SUM(CLAMP(CAST(note AS DOUBLE PRECISION), 0, 1)) FROM visits",
    "SELECT SUM(CLAMP(visit * 1000000000000000000, 0, 1)) FROM visits",
    "SELECT SUM(CLAMP(1 / (free - visit - 0.25), 0, 1)) FROM visits",
    "SELECT note, COUNT(*) FROM visits GROUP BY note",
    "SELECT note, town, AVG(cost) FROM visits JOIN people USING (id) GROUP BY note, town",
    "SELECT COUNT(*) FROM visits WHERE note LIKE '%' || note",
    "SELECT (SELECT MAX(note) FROM visits)",
    "SELECT STDDEV(price), VAR_POP(big) FROM visits",
    "SELECT COUNT(*) FROM",
    "SELECT id, COUNT(*) FROM visits GROUP BY id",
    "SELECT visit, SUM(cost) FROM visits GROUP BY visit HAVING SUM(cost) > 3",
    "SELECT MIN(visit), MAX(note) FROM visits",
]


@pytest.mark.parametrize("query", QUERIES)
def test_no_value_is_told_by_anything(
    canaries: Clinic, query: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """OUT-03: canaries stand in every private column; none comes out by error, traceback, log, print, repr or plan."""
    caplog.set_level(logging.DEBUG)
    told = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for ask in (canaries.session.sql, canaries.session.explain):
            try:
                answer: Any = ask(query, epsilon="0.01")
                told += [str(answer), repr(answer), getattr(answer, "_repr_html_", str)(), str(answer.measurements)]
            except DPQueryError as error:
                for part in chain(error):
                    told += [str(part), repr(part), str(part.args), str(getattr(part, "__dict__", ""))]
                told += traceback.format_exception(error)
    told += [str(w.message) for w in warned] + [caplog.text, *capfd.readouterr()]
    told += [repr(canaries.session), str(canaries.session), repr(canaries.ledger), repr(canaries.catalog)]
    told += [repr(entry) for entry in canaries.ledger.entries()]
    for text in told:
        assert_silent(text)


def test_the_ledger_holds_no_value(canaries: Clinic) -> None:
    """OUT-03: the audit log holds the analyst's texts and nothing of the rows."""
    canaries.sql("SELECT town, COUNT(*), SUM(age) FROM people GROUP BY town")
    content = canaries.path.read_bytes()
    assert CANARY.encode() not in content
    assert str(NUMBER).encode() not in content


def test_exact_numbers_show_nothing_of_themselves(canaries: Clinic) -> None:
    """OUT-03, API-09: the secret intermediate values, the backend and its sources have silent reprs."""
    canaries.sql("SELECT note, SUM(CLAMP(free, 0, 8000000)) FROM visits GROUP BY note")
    secret = canaries.backend.exact[-1]
    told = [repr(secret), str(secret), f"{secret}", repr(canaries.backend.inner), repr(vars(canaries.session).keys())]
    for text in told:
        assert_silent(text)


def test_errors_about_data_are_told_without_values(tmp_path: Path) -> None:
    """OUT-03: what an owner hears of data that do not fit names tables and columns, never values."""
    wards = pd.DataFrame({"code": [CANARY, CANARY], "floor": [1, 2]})
    visits = planted()["visits"]
    mistakes: list[dict[str, object]] = [
        {"wards": wards},
        {"visits": visits.assign(visit=NUMBER)},
        {"visits": visits.drop(columns="cost")},
        {"visits": visits.assign(urgent=pd.Timestamp("2020-01-01"))},
        {"people": 7},
    ]
    for number, tables in enumerate(mistakes):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(DPQueryError) as caught:
            Clinic(folder, tables=tables)
        told = "".join(traceback.format_exception(caught.value))
        assert CANARY not in told
        assert str(NUMBER) not in str(caught.value)


def test_the_command_line_tells_no_value(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """OUT-03: output, errors and defects on the command line."""
    text = CATALOG.replace("BUDGET", BUDGET)
    (tmp_path / "clinic.yaml").write_text(text)
    for name, frame in planted().items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    catalog = str(tmp_path / "clinic.yaml")
    assert run(["ledger", "create", catalog]) == 0
    for number, query in enumerate([*QUERIES, "SELECT COUNT(*) FROM visits"]):
        for command in ("query", "explain") if number % 4 == 0 else ("query",):
            run([command, catalog, query, "--epsilon", "0.01"])
    run(["budget", catalog])
    run(["ledger", "show", str(tmp_path / "clinic.ledger")])
    run(["check", catalog])
    out, err = capfd.readouterr()
    assert "COUNT" in out
    assert "Traceback" not in err
    assert "defect" not in err
    assert_silent(out + err)


SLOW = [
    "LENGTH(REPEAT(note, 20000000))",
    "LENGTH(MD5(REPEAT(note, 1000)))",
    "SLEEP(1)",
    "(SELECT COUNT(*) FROM visits a, visits b)",
]


@pytest.mark.parametrize("text", SLOW)
def test_no_function_takes_long_for_one_row(clinic: Clinic, text: str) -> None:
    """OUT-04: what would make one row slow is not known."""
    clinic.refuses(f"SELECT COUNT(*) FROM visits WHERE CASE WHEN note = 'x' THEN {text} ELSE 0 END > 0")


def test_growing_texts_are_cut(tmp_path: Path) -> None:
    """OUT-04, OUT-05: functions that lengthen texts stop at a constant length, nested or not."""
    visits = frames()["visits"]
    visits.loc[0, "note"] = "a" * 200_000
    long = Clinic(tmp_path, tables={"visits": visits})
    doubled = "REPLACE(" * 12 + "note" + ", 'a', 'aaaaaaaaaaaaaaaa')" * 12
    long.sql(f"SELECT COUNT(*) FROM visits WHERE LENGTH({doubled}) > 3")
    concatenated = "note"
    for _ in range(4):
        concatenated = f"({concatenated} || {concatenated})"
    long.sql(f"SELECT COUNT(*) FROM visits WHERE LENGTH({concatenated}) > 3")


ALL = """SELECT ward, COUNT(*) AS n, SUM(cost) AS c, SUM(price) AS p, SUM(loss) AS l, AVG(cost) AS a,
STDDEV(price) AS s, COUNT(DISTINCT note) AS d FROM visits GROUP BY ward"""


def neighbours() -> dict[str, dict[str, pd.DataFrame]]:
    """Returns databases that differ from the clinic's in one person at most, or in all."""
    visits, people = frames()["visits"], frames()["people"]
    odd = visits.copy()
    odd.loc[odd.id == 7, ["cost", "free"]] = float("nan")
    odd["ward"] = odd["ward"].astype(object)
    odd.loc[odd.id == 7, "ward"] = None
    return {
        "as they are": {},
        "without one": {"visits": visits[visits.id != 7], "people": people[people.id != 7]},
        "one of them odd": {"visits": odd},
        "none": {"visits": visits.iloc[:0], "people": people.iloc[:0], "flags": frames()["flags"].iloc[:0]},
        "shuffled": {"visits": visits.sample(frac=1, random_state=3)},
    }


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> list[Clinic]:
    """Clinics over the neighbours, which have answered the same."""
    return [Clinic(tmp_path_factory.mktemp("alike"), tables=tables) for tables in neighbours().values()]


@pytest.mark.parametrize(
    "query",
    [
        ALL,
        "SELECT COUNT(*), AVG(age), STDDEV(age), SUM(age) FROM people",
        "SELECT day, urgent, AVG(price) AS a FROM visits GROUP BY day, urgent ORDER BY day DESC LIMIT 30",
        "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
        "SELECT MAX(n) AS m FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) w",
        "SELECT CASE WHEN n > 5 THEN n END AS x, n / 7 AS y, n / 7.0 AS z, CAST(n AS TEXT) AS t "
        "FROM (SELECT COUNT(*) AS n FROM people) q",
    ],
)
def test_neighbours_look_alike(alike: list[Clinic], query: str) -> None:
    """OUT-06, OUT-01, ACC-10: the same columns, types, public rows, order, plan and charge over all of them."""
    seen: dict[str, set[Any]] = {"schema": set(), "plan": set(), "charge": set(), "keys": set(), "intervals": set()}
    for one in alike:
        answer = one.sql(query, epsilon="0.5")
        table = answer.to_arrow()
        seen["schema"].add(str(table.schema))
        seen["plan"].add(str(one.session.explain(query, epsilon="0.5")))
        seen["charge"].add((answer.charge, answer.guarantee, answer.measurements))
        seen["intervals"].add(tuple(map(str, answer.accuracy.columns)))
        if query.startswith(("SELECT ward", "SELECT day")):
            seen["keys"].add(str(table[0].to_pylist()))
    assert {name: len(values) for name, values in seen.items()} == {
        "schema": 1,
        "plan": 1,
        "charge": 1,
        "keys": int(query.startswith(("SELECT ward", "SELECT day"))),
        "intervals": 1,
    }


def test_no_output_is_minus_zero_or_nan(tmp_path: Path, no_noise: None) -> None:
    """OUT-06, SEN-12."""
    none = Clinic(tmp_path, tables=neighbours()["none"])
    for row in none.rows(ALL):
        for value in row:
            assert str(value) not in ("-0.0", "nan", "inf", "-inf", "-0", "-0.00")


def test_the_plan_is_known_without_the_rows(canaries: Clinic) -> None:
    """OUT-07: explaining reads no private row and charges nothing."""
    before, runs = canaries.path.read_bytes(), canaries.backend.runs
    for query in [ALL, "SELECT town, COUNT(*) FROM people GROUP BY town", "SELECT AVG(age) FROM people"]:
        plan = canaries.session.explain(query, epsilon=1)
        assert_silent(f"{plan} {plan.measurements} {plan.charge} {plan.columns}")
    assert canaries.backend.runs == runs
    assert canaries.path.read_bytes() == before


def test_intervals_follow_from_noisy_numbers(tmp_path: Path) -> None:
    """OUT-07: the interval of a mean has no width from the exact count: over an empty table it is there as well."""
    none = Clinic(tmp_path, tables=neighbours()["none"])
    for options, forms in (({"epsilon": "0.5"}, ["sum", "sum"]), ({"rho": "0.5"}, ["count", "sum"])):
        answer = none.sql("SELECT COUNT(*) AS n, AVG(age) AS a FROM people", **options)
        assert [made.aggregate for made in answer.measurements] == forms
        bounds = answer.accuracy
        width = float(bounds[("n", "upper")].iloc[0] - bounds[("n", "lower")].iloc[0])
        assert abs(width / 2 - half_width(answer.measurements)) <= 1
        mean = bounds[[("a", "lower"), ("a", "upper")]].iloc[0]
        assert mean.isna().all() or (0 <= mean.iloc[0] <= mean.iloc[1] <= 100)


def half_width(measurements: Sequence[Measurement]) -> float:
    """Returns with how much a count is off at most, 19 times of 20: its own noise, or a hundredth of that of two sums,
    each of Laplace's law with scale b, for which P(|X + Y| > x) = exp(-x / b) (1 + x / 2b), a twentieth at 4.113 b."""
    made = measurements[0]
    return made.error95 if made.aggregate == "count" else made.scale * 4.113 / 100


def test_nothing_is_declared_from_the_rows(tmp_path: Path) -> None:
    """OUT-08: the catalog, its text, its warnings and the plans are the same over any rows."""
    texts = set()
    for number, tables in enumerate(neighbours().values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        one = Clinic(folder, tables=tables)
        texts.add((one.catalog.to_text(), one.catalog.warnings, repr(one.catalog), repr(one.session)))
    assert len(texts) == 1


@pytest.mark.parametrize(
    "name", ["nowhere", "table0", "sqlite_master", "pg_catalog.pg_class", "entry", "account", "stored", "made1"]
)
def test_tables_that_are_not_declared_do_not_exist(clinic: Clinic, name: str) -> None:
    """OUT-09: one message for all, whatever exists in the engine or the ledger."""
    error = clinic.refuses(f"SELECT COUNT(*) FROM {name}", UnknownNameError)
    assert error.reason in (f"table {name} does not exist", f"table {name.split('.')[-1]} does not exist")


def test_columns_that_are_not_declared_do_not_exist(tmp_path: Path) -> None:
    """OUT-09, PAR-11: a stored column and one that is nowhere give the same message."""
    visits = frames()["visits"].assign(hidden=1)
    path = tmp_path / "visits.parquet"
    visits.to_parquet(path)
    for tables in ({"visits": visits}, {"visits": str(path)}):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        one = Clinic(folder, tables=tables)
        stored = one.refuses("SELECT COUNT(hidden) FROM visits", UnknownNameError)
        nowhere = one.refuses("SELECT COUNT(hiddem) FROM visits", UnknownNameError)
        assert str(stored).replace("hidden", "hiddem") == str(nowhere)


def scans(relation: Relation) -> Iterator[Scan]:
    if isinstance(relation, Scan):
        yield relation
    for source in sources(relation):
        yield from scans(source)


@pytest.mark.parametrize(
    "query",
    [
        ALL,
        "SELECT floor, n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) v JOIN wards ON ward = code",
        "SELECT a.n - b.n AS d FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT COUNT(*) AS n FROM people) b",
        "SELECT AVG(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 3) v",
    ],
)
def test_nothing_private_is_read_above_the_boundary(clinic: Clinic, query: str) -> None:
    """OUT-10, OUT-11: what computes the answer reads released and public tables alone."""
    result = planned(clinic, query).private.result
    assert all(scan.public for scan in scans(result))
    kinds = {type(node) for node in _walk(result)}
    assert Released in kinds
    assert kinds & {Released, Join, Aggregate}


def _walk(relation: Relation) -> Iterator[Relation]:
    yield relation
    for source in sources(relation):
        yield from _walk(source)


def test_rows_of_single_people_do_not_follow_from_released_numbers(clinic: Clinic) -> None:
    """OUT-10: noisy tables joined with private rows show no row."""
    clinic.refuses("SELECT n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) v JOIN visits USING (ward)")


IN_STEPS = (
    "SELECT COUNT(*) FROM visits v JOIN (SELECT AVG(cost) AS m FROM visits) a ON v.cost > a.m",
    "SELECT COUNT(*) FROM visits, (SELECT COUNT(*) AS n FROM visits) a WHERE a.n > 3",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT MAX(age) FROM people)",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)",
    "SELECT COUNT(*) FROM people WHERE age IN (SELECT COUNT(*) FROM visits GROUP BY ward)",
    "SELECT COUNT(*) FROM people p WHERE age > (SELECT MAX(q.age) FROM people q WHERE q.town = p.town)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT note FROM visits) v JOIN people p ON TRUE",
    "SELECT COUNT(*) FROM visits JOIN (SELECT ward, COUNT(*) FROM visits GROUP BY ward) w USING (ward)",
    "SELECT COUNT(*) FROM (SELECT age, AVG(age) OVER () AS m FROM people) p WHERE age > m",
    "SELECT COUNT(*) FROM (SELECT cost, MAX(cost) OVER (PARTITION BY ward) AS m FROM visits) v WHERE cost = m",
    "SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY age) AS q FROM people) p GROUP BY q",
)


@pytest.mark.parametrize("query", IN_STEPS)
def test_released_numbers_choose_private_rows_only_after_they_were_paid(clinic: Clinic, query: str) -> None:
    """OUT-10, SEN-20, SEN-22: each step is a release of its own, charged before the next one is planned with it."""
    before, left = len(clinic.ledger.entries()), clinic.session.remaining
    answer = clinic.session.sql(query, epsilon="0.5")
    assert len(clinic.ledger.entries()) >= before + 2
    assert left.rho - clinic.session.remaining.rho == answer.charge.rho > 0


def test_a_result_has_no_exact_companion(canaries: Clinic) -> None:
    """OUT-11: nothing reachable from an answer holds the exact numbers."""
    answer = canaries.sql("SELECT COUNT(*) AS n, SUM(loss) AS l FROM visits", epsilon="0.0001")
    exact = [int(numbers[0]) for numbers in canaries.backend.exact[-1].numbers]
    seen: set[int] = set()
    pending: list[object] = [answer]
    while pending:
        part = pending.pop()
        if id(part) in seen or isinstance(part, Session | type):
            continue
        seen.add(id(part))
        if isinstance(part, int) and not isinstance(part, bool):
            assert part not in exact
        if isinstance(part, pa.Table):
            pending += [value for column in part.columns for value in column.to_pylist()]
        elif isinstance(part, dict):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            pending += part
        elif hasattr(part, "__dict__"):
            pending.append(vars(part))
        elif hasattr(type(part), "__slots__"):
            slots: Any = type(part)
            pending += [getattr(part, slot) for slot in slots.__slots__ if hasattr(part, slot)]


def test_refusals_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    """OUT-03, SEN-09: the error of a query is the same over any rows."""
    messages: dict[str, set[str]] = {query: set() for query in QUERIES}
    for number, tables in enumerate(neighbours().values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        one = Clinic(folder, tables=tables)
        for query in QUERIES:
            try:
                one.sql(query, epsilon="0.01")
                messages[query].add("answered")
            except QueryError as error:
                messages[query].add(str(error))
    assert {len(found) for found in messages.values()} == {1}


def test_errors_quote_the_query_alone(clinic: Clinic) -> None:
    """OUT-03: a long query is cut in the message, and nothing else is quoted."""
    error = clinic.refuses("SELECT nothing, " + "1, " * 2000 + "2 FROM visits")
    assert len(str(error)) < 2000
