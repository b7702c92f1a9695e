"""Attacks on time (WRK): one person's row decides whether other people's rows are read at all.

What is counted is what each operator of the engine's plan gives, by its own profile: with the bit and without it the
plans are the same, and no operator gives more rows than the person may have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery as dp
from benchmarks.shapes import ANSWERED, CATALOG, asked, frames
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.protect.protect import ContributionBounds
from dpquery.session.options import Request
from dpquery.session.pipeline import plan

PERSONS, VISITS = 2_000, 20
"""Visits of all are many vectors of the engine, which are 2,048 rows."""
MOST = 400
"""Rows that a person may make more of one operator: those of one year's days. Each table of persons has more."""
PUBLIC = 3_000
"""The same where `codes` are read, of which a person may start all (docs/proofs/work.md, Lemma 4)."""
Sources = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a plan, as the engine has run it: the rows that it gives, or has read where it reads a file."""

    kind: str
    detail: str
    rows: int
    groups: int
    built: int | None = None
    """Rows of the side of a join in which the engine looks for those of the other; where it has none, the other side is
    not read. None for what is no join, and for joins that keep rows of the other side."""


def in_memory(folder: Path, *, bit: bool) -> Sources:
    return frames(bit, VISITS, PERSONS, notes=5)


def in_files(folder: Path, *, bit: bool) -> Sources:
    """Parquet with statistics, of row groups that hold many persons."""
    made = {}
    for name, frame in frames(bit, VISITS, PERSONS, notes=5).items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if "day" in table.column_names:
            table = table.set_column(table.column_names.index("day"), "day", table["day"].cast(pa.date32(), safe=False))
        made[name] = str(folder / f"{name}.parquet")
        pq.write_table(table, made[name], row_group_size=8_192)
    return made


@pytest.fixture(scope="module", params=[in_memory, in_files], ids=["in memory", "in files"])
def wards(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dp.Session]]:
    sessions = []
    for bit in (True, False):
        folder, catalog = tmp_path_factory.mktemp("ward"), Catalog.from_yaml(CATALOG)
        dp.create_ledger(catalog, folder / "ward.ledger").close()
        sessions.append(dp.connect(catalog, request.param(folder, bit=bit), ledger=folder / "ward.ledger", reuse=False))
    yield sessions
    for session in sessions:
        session.close()


def profile(session: dp.Session, text: str) -> list[Operator]:
    """Returns the operators of all statements of a query, in the order of the engine's plans."""
    request = Request(text=text, offer=QueryBudget.of("0.1", None, None), bounds=ContributionBounds())
    (made,) = plan((request,), catalog=session.catalog, ledger=session._ledger, public=session._backend)
    backend, found = session._backend, list[Operator]()
    assert isinstance(backend, DuckDBBackend)
    for part in made.budgeted.aggregates:
        backend.run(backend.prepare(part.aggregate), 7)  # now it is known which units weigh less than 1
        statement = backend.prepare(part.aggregate)
        written = statement.text.replace("$1::UBIGINT", "1::UBIGINT").replace("$2::UBIGINT", "2::UBIGINT")
        backend._private.provide(statement.domains)
        ((_, profiled),) = backend._private.cursor().execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {written}").fetchall()
        found += operators(json.loads(profiled)["operator"])
    return found


def operators(nodes: list[dict[str, Any]]) -> list[Operator]:
    found = list[Operator]()
    for node in nodes:
        info = {key: value for key, value in node["extra_info"].items() if key not in ("Estimated Cardinality",)}
        rows = max(int(node["intermediate_rows"]), int(node.get("rows_scanned", 0)))
        groups = int(node.get("row_groups_scanned", 0))
        sides = node.get("children", [])
        reads_both = info.get("Join Type") in ("LEFT", "ANTI", "FULL")
        built = given(sides[1]) if node["type"] == "HASH_JOIN" and not reads_both else None
        found.append(Operator(str(node["type"]), json.dumps(info, sort_keys=True), rows, groups, built))
        found += operators(sides)
    return found


def given(node: dict[str, Any]) -> int:
    """Returns how many rows an operator gives: a union counts none of its own."""
    return sum(map(given, node["children"])) if node["type"] == "UNION" else int(node["intermediate_rows"])


@pytest.mark.parametrize("shape", ANSWERED)
def test_no_row_of_a_person_decides_whether_rows_of_others_are_read(wards: list[dp.Session], shape: str) -> None:
    """WRK-01: by the clock alone one person's bit was read, as it decided whether millions of others' rows are."""
    first, last = (profile(session, asked(shape, 5)) for session in wards)
    assert [(operator.kind, operator.groups) for operator in first] == [
        (operator.kind, operator.groups) for operator in last
    ]
    most = PUBLIC if "codes" in asked(shape) else MOST
    apart = {(a, b.rows) for a, b in zip(first, last, strict=True) if abs(a.rows - b.rows) > most}
    assert not apart


ROWS_ARE_READ = {
    "once": asked("selected groups", 5),
    "for other values": "SELECT note, COUNT(DISTINCT v) FROM visits WHERE hiv AND v <> 1005 GROUP BY note",
    "for a median": "SELECT note, MEDIAN(v) FROM visits WHERE hiv AND v <> 1005 GROUP BY note",
}


@pytest.mark.parametrize("text", ROWS_ARE_READ.values(), ids=ROWS_ARE_READ)
def test_rows_of_selected_groups_are_read_where_nobody_decides(wards: list[dp.Session], text: str) -> None:
    """No row passes: with an empty list of deciding units the engine would not read what is added up."""
    without = profile(wards[1], text)
    assert [one.detail for one in without if one.built == 0 and "unit" in one.detail] == []
    assert [one.rows for one in without if one.kind == "WINDOW" and "hashed" in one.detail] == [1]


def private_profile(session: dp.Session, text: str) -> list[Operator]:
    """Returns the operators of a SELECT of ours over the tables, named in braces, in the engine of private tables."""
    backend = session._backend
    assert isinstance(backend, DuckDBBackend)
    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {text.format(**backend._tables.places)}"
    ((_, profiled),) = backend._private.cursor().execute(explained).fetchall()
    return operators(json.loads(profiled)["operator"])


def test_the_profile_sees_what_the_engine_leaves_out(wards: list[dp.Session]) -> None:
    """A control: without sentinels the same shape reads 2,000 persons' visits or 2,048 rows of them."""
    text = "SELECT COUNT(*) FROM {visits} a SEMI JOIN (SELECT id FROM {p} WHERE hiv) b ON a.id = b.id"
    read = [one.rows for one in private_profile(wards[1], text) if one.kind == "TABLE_SCAN"]
    assert min(read) < PERSONS * VISITS / 2


def test_keys_of_one_side_of_a_join_are_not_looked_for_in_the_other(wards: list[dp.Session]) -> None:
    text = "SELECT COUNT(*) FROM {visits} a JOIN (SELECT id FROM {p} WHERE id = 7 AND age < 9) b ON a.id = b.id"
    read = private_profile(wards[0], text)
    assert PERSONS * VISITS in {one.rows for one in read if one.kind == "TABLE_SCAN"}


def test_the_least_and_greatest_value_of_a_private_column_do_not_make_the_plan(wards: list[dp.Session]) -> None:
    kinds = {operator.kind for operator in private_profile(wards[0], "SELECT v, COUNT(*) FROM {visits} GROUP BY v")}
    assert "HASH_GROUP_BY" in kinds


FOLLOWING = {
    "a filter of public rows": "SELECT COUNT(*) FROM p JOIN days ON age = week WHERE week = 50",
    "of public rows that may lack": "SELECT COUNT(*) FROM p LEFT JOIN days ON age = week WHERE week = 50",
    "a factor of a filter": "SELECT COUNT(*) FROM p JOIN days ON age = week WHERE age = 50 OR (age = 50 AND week > 3)",
    "a factor of what joins": "SELECT COUNT(*) FROM p JOIN days ON age = week AND (age = 50 OR age = 50 AND week > 3)",
}


@pytest.mark.parametrize("shape", FOLLOWING)
def test_what_follows_of_private_rows_leaves_no_row_group_out(tmp_path: Path, shape: str) -> None:
    """Nobody is 50: by the equality a public filter was one of private rows, and their file was not read at all."""
    files, catalog = in_files(tmp_path, bit=False), Catalog.from_yaml(CATALOG)
    days = pq.read_table(files["days"])
    weeks = pa.array([50] * len(days))
    pq.write_table(days.set_column(days.column_names.index("week"), "week", weeks), files["days"])
    dp.create_ledger(catalog, tmp_path / "ward.ledger").close()
    with dp.connect(catalog, files, ledger=tmp_path / "ward.ledger", reuse=False) as session:
        scans = [one for one in profile(session, FOLLOWING[shape]) if "READ_PARQUET" in one.detail]
    assert [one.groups for one in scans] == [1, 1]


def test_keys_beyond_their_bounds_leave_no_row_group_out(tmp_path: Path) -> None:
    """A group's code is the key itself where keys are a run of integers: rows beyond it are found row by row."""
    files, catalog = in_files(tmp_path, bit=False), Catalog.from_yaml(CATALOG)
    visits = pq.read_table(files["visits"])
    beyond = pa.array([50] * len(visits))
    visits = visits.set_column(visits.column_names.index("v"), "v", beyond)
    pq.write_table(visits, files["visits"], row_group_size=8_192)
    dp.create_ledger(catalog, tmp_path / "ward.ledger").close()
    with dp.connect(catalog, files, ledger=tmp_path / "ward.ledger", reuse=False) as session:
        asked = profile(session, "SELECT v, day, COUNT(*) FROM visits GROUP BY v, day")
        scans = [one for one in asked if "READ_PARQUET" in one.detail]
    assert [one.groups for one in scans] == [-(-len(visits) // 8_192)]


def test_rows_are_looked_for_before_they_are_grouped(wards: list[dp.Session]) -> None:
    """Only one person has the bit: without it no key is looked for, and the others' rows are read all the same."""
    text = asked("EXISTS with a comparison", 5)
    first, last = (profile(session, text) for session in wards)
    grouped = [[one.rows for one in found if one.kind == "HASH_GROUP_BY"] for found in (first, last)]
    assert grouped == [[1], [0]]
    read = [max(one.rows for one in found if one.kind == "TABLE_SCAN") for found in (first, last)]
    assert read == [PERSONS * VISITS] * 2
    assert [one for one in last if one.built == 0] == []


COUNTED = {
    "inner": "SELECT COUNT(*) FROM p JOIN (SELECT id, COUNT(*) AS n FROM visits WHERE v < 2 GROUP BY id) x "
    "ON p.id = x.id WHERE n > 1 AND age < 7",
    "inner, with a condition": "SELECT COUNT(*) FROM visits JOIN p ON visits.id = p.id AND visits.v < p.age "
    "AND p.age > 2",
    "semi": "SELECT COUNT(*) FROM p WHERE age > 3 AND id IN (SELECT id FROM visits WHERE v = 3)",
    "semi, with a condition": "SELECT COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM visits WHERE visits.id = p.id AND "
    "visits.v + 5 < p.age)",
    "anti": "SELECT COUNT(*) FROM p WHERE NOT EXISTS (SELECT 1 FROM visits WHERE visits.id = p.id AND v = 3)",
    "anti, with a condition": "SELECT COUNT(*) FROM p WHERE NOT EXISTS (SELECT 1 FROM visits WHERE visits.id = p.id "
    "AND visits.v + 1 < p.age)",
    "semi, of few": "SELECT COUNT(*) FROM visits a WHERE v = 1 AND EXISTS (SELECT 1 FROM visits b WHERE b.id = a.id "
    "AND b.v <> a.v)",
    "anti, of few": "SELECT COUNT(*) FROM visits a WHERE v = 1 AND NOT EXISTS (SELECT 1 FROM visits b WHERE "
    "b.id = a.id AND b.v < a.v)",
    "both, of few": "SELECT COUNT(*) FROM visits a WHERE v = 3 AND EXISTS (SELECT 1 FROM visits b WHERE b.id = a.id "
    "AND b.v <> a.v) AND NOT EXISTS (SELECT 1 FROM visits b WHERE b.id = a.id AND b.v > a.v AND v < 7)",
    "inner, of few": "SELECT COUNT(*) FROM visits a JOIN (SELECT id, MAX(v) AS v FROM visits GROUP BY id) b "
    "ON a.id = b.id AND a.v = b.v WHERE a.v = 3",
    "left": "SELECT COUNT(*) FROM p LEFT JOIN (SELECT id, COUNT(*) AS n FROM visits WHERE v = 3 GROUP BY id) x "
    "ON p.id = x.id AND p.age > 2 WHERE n IS NULL OR n > 2",
    "left, of few": "SELECT COUNT(*) FROM p LEFT JOIN (SELECT id, COUNT(*) AS n FROM visits WHERE v = 3 GROUP BY id) x "
    "ON p.id = x.id WHERE p.age = 3",
    "full": "SELECT COUNT(*) FROM (SELECT COALESCE(a.id, b.id) AS id, n FROM (SELECT id FROM p WHERE age < 5) a FULL "
    "JOIN (SELECT id, COUNT(*) AS n FROM visits WHERE v = 3 GROUP BY id) b ON a.id = b.id) x WHERE n IS NULL OR n < 3",
    "computed keys": "SELECT COUNT(*) FROM visits a JOIN (SELECT id, MAX(v) AS v FROM visits GROUP BY id) b "
    "ON a.id = b.id AND a.v + 1 = b.v",
    "intersect": "SELECT COUNT(*) FROM (SELECT id, v FROM visits WHERE v < 5 INTERSECT SELECT id, v FROM visits "
    "WHERE v > 2) x",
    "intersect all": "SELECT COUNT(*) FROM (SELECT id, v FROM visits WHERE v < 5 INTERSECT ALL SELECT id, v FROM "
    "visits WHERE v > 2) x",
    "except": "SELECT COUNT(*) FROM (SELECT id, v FROM visits EXCEPT SELECT id, v FROM visits WHERE v > 2) x",
    "except all": "SELECT COUNT(*) FROM (SELECT id, v FROM visits EXCEPT ALL SELECT id, v FROM visits WHERE v > 2) x",
}


@pytest.fixture(scope="module", params=[0, 200])
def counting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dp.Session, duckdb.DuckDBPyConnection]]:
    """A session over so many persons, and an engine with the same rows."""
    given = (
        frames(True, 20, request.param, notes=5) if request.param else {n: t.head(0) for n, t in frames(True).items()}
    )
    catalog, place = (
        Catalog.from_yaml(CATALOG.replace("max_rows: 8", "max_rows: 20")),
        tmp_path_factory.mktemp("few") / "l",
    )
    dp.create_ledger(catalog, place).close()
    with dp.connect(catalog, given, ledger=place, reuse=False) as session, duckdb.connect() as plain:
        plain.register("p", given["p"])
        plain.register("visits", given["visits"])
        yield session, plain


@pytest.mark.parametrize("kind", COUNTED)
def test_what_is_counted_is_what_the_engine_counts_without_sentinels(
    counting: tuple[dp.Session, duckdb.DuckDBPyConnection], kind: str
) -> None:
    """Of no persons too; persons have the ids and values that sentinels have, among others."""
    session, plain = counting
    ((expected,),) = plain.execute(COUNTED[kind]).fetchall()
    assert exact_count(session, COUNTED[kind]) == expected


def exact_count(session: dp.Session, text: str) -> Fraction:
    request = Request(text=text, offer=QueryBudget.of("0.1", None, None), bounds=ContributionBounds(max_rows=20))
    (made,) = plan((request,), catalog=session.catalog, ledger=session._ledger, public=session._backend)
    (part,) = made.budgeted.aggregates
    (measure,) = part.aggregate.measures
    backend = session._backend
    exact = backend.run(backend.prepare(part.aggregate), 7)
    return Fraction(int(exact.numbers[0][0]), part.aggregate.steps(measure))
