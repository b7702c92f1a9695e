"""Attacks on the engine (BAK): what it could do if a text reached it, and names and values that try to be SQL."""

from __future__ import annotations

import ast
import os
import stat
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import dpquery
from dpquery.auditing import own_laws
from dpquery.backends.duckdb import engine, statements, system_tables
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import BackendError, CatalogError, QueryError
from dpquery.kernel.failures import FAILED
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.logical import Relation
from dpquery.session.session import Session
from tests.architecture.package import modules
from tests.attacks.clinic import CATALOG, Clinic, Watched, frames
from tests.scripted import zero_noise


@pytest.fixture(scope="module")
def on_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clinic, Path]:
    """A clinic whose tables lie in files, beside files that are none of its business."""
    folder = tmp_path_factory.mktemp("files")
    data = frames()
    data["visits"].to_parquet(folder / "visits.parquet")
    data["wards"].to_parquet(folder / "wards.parquet")
    data["wards"].to_parquet(folder / "other.parquet")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    for name, table in [("people", data["people"]), ("elsewhere", data["wards"])]:
        connection = duckdb.connect(str(folder / f"{name}.duckdb"))
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.close()
    tables = {name: str(folder / f"{name}.parquet") for name in ("visits", "wards")}
    return Clinic(folder, tables={**tables, "people": str(folder / "people.duckdb")}), folder


POWERS = """
SELECT * FROM '{folder}/other.csv'
SELECT * FROM read_csv_auto('{folder}/other.csv')
SELECT * FROM read_csv('{folder}/*.csv')
SELECT * FROM read_parquet('{folder}/other.parquet')
SELECT * FROM read_parquet('{folder}/../{name}/other.parquet')
SELECT * FROM read_parquet('{folder}/*.parquet')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM read_json('/etc/passwd')
SELECT * FROM read_text('/proc/self/environ')
SELECT * FROM read_csv('/dev/stdin')
SELECT * FROM glob('{folder}/*')
SELECT * FROM sniff_csv('{folder}/other.csv')
SELECT * FROM parquet_metadata('{folder}/other.parquet')
SELECT * FROM parquet_schema('{folder}/other.parquet')
SELECT * FROM read_csv_auto('http://localhost/x.csv')
SELECT * FROM read_csv_auto('s3://x/y.csv')
SELECT * FROM read_duckdb('{folder}/elsewhere.duckdb')
SELECT * FROM sqlite_scan('{folder}/clinic.ledger', 'entry')
COPY (SELECT 1) TO '{folder}/out.csv'
COPY (SELECT 1) TO '{folder}/out.parquet' (FORMAT parquet)
COPY (SELECT 1) TO '{folder}/visits.parquet' (FORMAT parquet)
COPY (SELECT 1) TO '/dev/stdout'
EXPORT DATABASE '{folder}/export'
IMPORT DATABASE '{folder}/export'
ATTACH '{folder}/elsewhere.duckdb' AS e
ATTACH '{folder}/new.duckdb' AS n
ATTACH '{folder}/clinic.ledger' AS l (TYPE sqlite)
ATTACH 'http://localhost/x' AS h
INSTALL httpfs
INSTALL sqlite
INSTALL x FROM community
FORCE INSTALL sqlite
LOAD httpfs
LOAD '{folder}/x.duckdb_extension'
SET enable_external_access = true
SET lock_configuration = false
RESET lock_configuration
SET python_enable_replacements = true
SET python_scan_all_frames = true
SET allowed_paths = ['/etc/passwd']
SET allowed_directories = ['/']
SET temp_directory = '{folder}'
SET autoinstall_known_extensions = true
SET autoload_known_extensions = true
SET allow_unsigned_extensions = true
SET allow_community_extensions = true
SET memory_limit = '1TB'
SET threads = 9
SET secret_directory = '{folder}'
SET allow_persistent_secrets = true
SET profiling_output = '{folder}/profile.json'
SET enable_profiling = 'json'
SET log_query_path = '{folder}/log.sql'
SET file_search_path = '/etc'
SET home_directory = '{folder}'
SET extension_directory = '{folder}'
SET http_proxy = 'x'
SET enable_logging = true
SET preserve_insertion_order = true
PRAGMA enable_profiling
CALL enable_logging(storage = 'file', storage_path = '{folder}')
SELECT getenv('HOME')
SELECT * FROM secret_frame
SELECT * FROM given
SELECT * FROM POWERS
CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')
CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')
INSERT INTO table0.people SELECT * FROM table0.people
CREATE TABLE table0.x AS SELECT 1
UPDATE table0.people SET age = 0
DELETE FROM table0.people
DROP TABLE table0.people
USE table1
""".strip().split("\n")


@pytest.mark.parametrize("which", ["_private", "_public"])
@pytest.mark.parametrize("power", POWERS)
def test_the_engine_has_lost_its_powers(on_files: tuple[Clinic, Path], which: str, power: str) -> None:
    """BAK-03, BAK-04, LED-14: no file but the declared ones, no writing, no extension, no setting, no Python frame."""
    clinic, folder = on_files
    secret_frame = pd.DataFrame({"secret": [1]})
    before = sorted(os.listdir(folder))
    cursor = getattr(clinic.backend.inner, which).cursor()
    with pytest.raises(duckdb.Error):
        cursor.execute(power.format(folder=folder, name=folder.name)).fetchall()
    assert sorted(os.listdir(folder)) == before
    assert len(secret_frame) == 1


def test_private_files_are_out_of_reach_of_the_engine_for_results(on_files: tuple[Clinic, Path]) -> None:
    """BAK-03, OUT-10: what runs above the boundary cannot read a private table, by no name."""
    clinic, folder = on_files
    cursor = clinic.backend.inner._public.cursor()
    assert cursor.execute(f"SELECT COUNT(*) FROM read_parquet('{folder}/wards.parquet')").fetchall() == [(4,)]
    for text in [f"FROM read_parquet('{folder}/visits.parquet')", "FROM table0.people", "FROM table1", "FROM table2"]:
        with pytest.raises(duckdb.Error):
            cursor.execute(f"SELECT COUNT(*) {text}").fetchall()


def test_locks_are_the_same_in_every_thread(on_files: tuple[Clinic, Path]) -> None:
    """BAK-03: a new thread gets a new connection to the same locked engine."""
    clinic, folder = on_files
    failures: list[type] = []

    def work() -> None:
        for text in [f"SELECT * FROM '{folder}/other.csv'", "SET lock_configuration = false"]:
            try:
                clinic.backend.inner._private.cursor().execute(text)
            except duckdb.Error as error:
                failures.append(type(error))
        assert clinic.one("SELECT COUNT(*) FROM visits") is not None

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(failures) == 2


def test_locks_are_read_back() -> None:
    """BAK-03: the names of settings change between versions; a lock that is not there refuses the engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine.LOCK, "lock_configuration", "maybe")
        with pytest.raises((BackendError, duckdb.Error)):
            engine.DuckDBEngine({}, keep_order=False)


# Texts of the analyst reach the engine as constants alone.

INJECTIONS = [
    "'",
    "''",
    "' OR 1=1 --",
    "\\",
    "\\' OR 1=1 --",
    "'; DROP TABLE visits; --",
    '"; DROP TABLE visits; --',
    "$1",
    "$2",
    "?",
    ":x",
    "{}",
    "{0}",
    "%s",
    "%(x)s",
    "/* */",
    "--",
    "\n\r\t",
    "\u00e9\u4e2d\U0001f600",
    "a" * 900,
    "$$",
    "E'\\x41'",
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("text", INJECTIONS, ids=ascii)
def test_literals_are_values_and_nothing_else(tmp_path: Path, no_noise: None, text: str) -> None:
    """BAK-01: each literal finds exactly the rows that hold it."""
    visits = frames()["visits"].iloc[:20].copy()
    visits["note"] = [text] * 7 + ["plain"] * 13
    visits["id"] = range(20)
    ward = Clinic(tmp_path, tables={"visits": visits})
    quoted = text.replace("'", "''")
    for condition in [
        f"note = '{quoted}'",
        f"note IN ('{quoted}', 'neither')",
        f"CASE WHEN note = '{quoted}' THEN '{quoted}' ELSE 'x' END = '{quoted}'",
        f"note || '{quoted}' = '{quoted}' || '{quoted}'",
        f"REPLACE(note, 'plain', 'p') = '{quoted}'",
    ]:
        assert ward.one(f"SELECT COUNT(*) FROM visits WHERE {condition}") == 7
    key = f"CASE WHEN note = '{quoted}' THEN '{quoted}' ELSE '' END"
    grouped = ward.rows(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY 1")
    assert dict(grouped) == {text: 7, "": 13}


@pytest.mark.parametrize("dialect", ["mysql", "bigquery", "spark", "snowflake", "clickhouse"])
def test_escapes_of_other_dialects_cannot_break_out(tmp_path: Path, dialect: str) -> None:
    """BAK-01: where a backslash escapes, the literal is read so once, and then it is a constant."""
    ward = Clinic(tmp_path)
    for literal in [r"'\' OR 1=1 --'", r"'a\'b'", r"'\\'", r"'\\\' OR 1=1 --'", "'a''b'"]:
        try:
            counted = ward.one(f"SELECT COUNT(*) FROM visits WHERE note = {literal}", dialect=dialect, max_rows=1000)
        except QueryError:
            continue
        assert abs(counted) < 200_000
        exact = ward.backend.exact[-1].numbers[0]
        assert exact[0] == 0, "some row matched"


NAMES = [
    "a b",
    'a"b',
    "a'b",
    "a`b",
    "a\\b",
    "a;b",
    "a--b",
    "a{b}",
    "a{}",
    "a{0}",
    "a%sb",
    "$1",
    "*",
    "select",
    "a.b",
    "table0",
    "stored",
    "owner0",
    "rowid",
    "value",
    "code",
    "key0",
    "number0",
    "unit",
    "parts",
    "source_rows",
    "c1",
    "m1_1",
    "made1",
    "domain0",
    "\u00e9\u4e2d",
    "a]b",
    "1a",
    "NULL",
    "true",
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_tables_and_columns_are_quoted(tmp_path: Path, no_noise: None, name: str) -> None:
    """BAK-02: in the catalog, in the stored data, in the query, and as the names of the plan's own tables."""
    tables = {
        name: {
            "unit": name,
            "max_rows": 8,
            "columns": {
                name: {"type": "int64"},
                f"{name}k": {"type": "text", "keys": ["a", "b"]},
                f"{name}v": {"type": "int64", "lower": 0, "upper": 9},
            },
        }
    }
    catalog = Catalog(
        dataset="d", privacy_unit="person", tables=tables, budget={"epsilon": 1000}, defaults={"least_charge": "1e-12"}
    )
    data = pd.DataFrame({name: range(10), f"{name}k": ["a"] * 10, f"{name}v": [1] * 10})
    q = '"' + name.replace('"', '""')
    query = f'SELECT {q}k" AS {q}", SUM({q}v") AS s, COUNT(DISTINCT {q}") FROM {q}" AS {q}" GROUP BY {q}k"'
    ledger = dpquery.Ledger.create(tmp_path / "ledger", catalog.declarations, catalog.budget, {})
    database = tmp_path / "t.duckdb"
    connection = duckdb.connect(str(database))
    connection.register("given", data)
    connection.execute(f'CREATE TABLE {q}" AS SELECT * FROM given')
    connection.close()
    for source in (data, str(database)):
        with dpquery.connect(catalog, {name: source}, ledger=ledger, reuse=False) as session:
            answer = session.sql(query, epsilon=1).to_arrow()
            assert answer.column_names[0] == name
            assert [column.to_pylist() for column in answer.columns] == [["a", "b"], [10, 0], [10, 0]]


HIDDEN = ["a\0b", "a\nb", "a\u202eb", "a\u200bb", "", " a", "a ", "\ufeff", "a" * 200, "a\x1b[0m"]


@pytest.mark.parametrize("name", HIDDEN)
def test_names_with_hidden_characters_are_refused(name: str) -> None:
    """BAK-02: at registration, in tables, columns, analysts and the dataset."""
    good: dict[str, Any] = {"t": {"unit": "id", "max_rows": 8, "columns": {"id": {"type": "int64"}}}}
    mistakes: list[dict[str, Any]] = [
        {"tables": {name: good["t"]}},
        {"tables": {"t": {"unit": name, "max_rows": 8, "columns": {name: {"type": "int64"}}}}},
        {"tables": good, "analysts": {name: {"epsilon": 1}}},
        {"tables": good, "dataset": name},
        {"tables": good, "privacy_unit": name},
    ]
    for more in mistakes:
        given: dict[str, Any] = {"dataset": "d", "privacy_unit": "person", "budget": {"epsilon": 1}} | more
        with pytest.raises(CatalogError):
            Catalog(**given)


ALIASES = ['a"b', "a'b", "; DROP TABLE x", "{}", "--", "c1", "m1_1", "c1_lower", "\u00e9", "SELECT", "a b", "%", "\\"]


@pytest.mark.parametrize("alias", ALIASES, ids=ascii)
def test_aliases_never_become_names_in_the_engine(clinic: Clinic, alias: str) -> None:
    """BAK-02: what the analyst calls a column comes back as it was written."""
    quoted = '"' + alias.replace('"', '""') + '"'
    second = f'{quoted[:-1]}2"'
    query = f"WITH {quoted} AS (SELECT ward AS {quoted}, COUNT(*) AS {second} FROM visits AS {quoted} GROUP BY 1)"
    answer = clinic.sql(f"{query} SELECT * FROM {quoted} ORDER BY {second}")
    assert answer.columns == (alias, f"{alias}2")
    assert answer.to_pandas().columns.tolist() == [alias, f"{alias}2"]


def test_two_columns_of_one_name(clinic: Clinic) -> None:
    """BAK-02: names of the answer are made different."""
    answer = clinic.sql("SELECT COUNT(*) AS n, COUNT(id) AS n, ward AS n, ward AS n_2 FROM visits GROUP BY ward")
    assert len(set(answer.columns)) == 4
    assert answer.to_pandas().shape == (4, 4)
    assert repr(answer)


def test_values_of_every_kind_in_the_data(tmp_path: Path, no_noise: None) -> None:
    """BAK-01: hostile texts in private rows stay values: counted, compared, grouped, never shown below tau."""
    visits = frames()["visits"].iloc[: len(INJECTIONS)].copy()
    visits["note"], visits["ward"], visits["id"] = INJECTIONS, INJECTIONS, range(len(INJECTIONS))
    hostile = Clinic(tmp_path, tables={"visits": visits})
    assert hostile.one("SELECT COUNT(DISTINCT note) FROM visits") == len(INJECTIONS)
    assert hostile.one("SELECT COUNT(*) FROM visits WHERE UPPER(note) IS NOT NULL") == len(INJECTIONS)
    assert hostile.rows("SELECT note, COUNT(*) FROM visits GROUP BY note") == []
    assert {n for _, n in hostile.rows("SELECT ward, COUNT(*) FROM visits GROUP BY ward")} == {0}


def test_selected_keys_may_hold_anything(tmp_path: Path, no_noise: None) -> None:
    """BAK-01, OUT-01: hostile texts that many share are shown as they are, in one order."""
    texts = sorted(text for text in INJECTIONS if len(text) < 100)
    people = pd.DataFrame({"id": range(100 * len(texts)), "age": 1, "sex": "F", "town": np.repeat(texts, 100)})
    many = Clinic(tmp_path, tables={"people": people})
    assert [town for town, _ in many.rows("SELECT town, COUNT(*) FROM people GROUP BY town")] == texts


# The process itself.


STARTED = {
    (
        "backends/duckdb/system_tables.py",
        "subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)",
    ),
    (
        "auditing/own_laws.py",
        "subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)",
    ),
}
"""The process with the system tables, which statements of clients must not share with the ledger and private rows, and
one that draws from a law that is audited. The two tests of fixed texts say what they run."""


def test_nothing_evaluates_texts() -> None:
    """BAK-07: no eval, exec, DataFrame.query or DataFrame.eval, pickle or yaml.load anywhere in the package."""
    started = []
    for module in modules():
        path = module.path
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "compile", "__import__", "os.system", "yaml.load"), path
                assert not called.startswith(("pickle.", "marshal.", "os.spawn", "os.exec", "os.popen")), path
                assert not called.endswith((".eval", ".query", ".read_pickle")), path
                if called.startswith("subprocess."):
                    started.append((path, ast.unparse(node)))
            if isinstance(node, ast.ImportFrom):  # or a call would not show where it is from
                assert node.module not in ("subprocess", "pickle", "marshal"), path
    assert len(started) == len(STARTED) and set(started) == STARTED


def test_the_process_of_the_system_tables_runs_a_fixed_text() -> None:
    """BAK-07: no shell, one constant program; what it is given are the places of modules, a socket and settings."""
    tree = ast.parse(Path(system_tables.__file__).read_text())
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            assigned.setdefault(ast.unparse(node.targets[0]), []).append(node.value)
    (command,), (given,), (start,) = assigned["command"], assigned["given"], assigned["START"]
    assert ast.unparse(command) == "[sys.executable, '-P', '-c', START, *given]"
    assert ast.unparse(given) == "[json.dumps(sys.path), str(theirs.fileno()), json.dumps(_ENVIRONMENT)]"
    assert isinstance(start, ast.Constant)
    assert isinstance(assigned["_ENVIRONMENT"][0], ast.Dict) and ast.literal_eval(assigned["_ENVIRONMENT"][0])


def test_the_process_that_draws_from_an_audited_law_runs_a_fixed_text() -> None:
    """BAK-07: what it is given are the places of modules, the law that its auditor named, and numbers."""
    tree = ast.parse(Path(own_laws.__file__).read_text())
    assigned = {ast.unparse(node.targets[0]): node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    assert ast.unparse(assigned["command"]) == "[sys.executable, '-c', _CHILD, *given]"
    given = "[json.dumps(sys.path), loaded.name, str(one.steps), str(one.loss), str(COMPARED)]"
    assert ast.unparse(assigned["given"]) == given
    assert isinstance(assigned["_CHILD"], ast.Constant)


def test_a_query_reads_one_snapshot(tmp_path: Path) -> None:
    """BAK-09: one statement for each boundary, so that SUM and COUNT are of the same rows."""
    ward = Clinic(tmp_path)
    ward.sql("SELECT ward, COUNT(*), SUM(cost), AVG(price), COUNT(DISTINCT note) FROM visits GROUP BY ward")
    assert ward.backend.runs == 1


def test_rows_are_spilled_to_an_encrypted_folder_of_the_owners_alone(on_files: tuple[Clinic, Path]) -> None:
    """BAK-10: each engine has a folder for temporary files that nobody else may open."""
    clinic, _ = on_files
    folders = set()
    for which in ("_private", "_public"):
        cursor = getattr(clinic.backend.inner, which).cursor()
        names = "'temp_directory', 'temp_file_encryption'"
        found = dict(cursor.execute(f"SELECT name, value FROM duckdb_settings() WHERE name IN ({names})").fetchall())
        assert stat.S_IMODE(os.stat(found["temp_directory"]).st_mode) == 0o700
        assert found["temp_file_encryption"] == "true"
        folders.add(found["temp_directory"])
    assert len(folders) == 2


def damaged(folder: Path) -> dict[str, Path]:
    """Returns files that are not what their endings say."""
    table = pa.Table.from_pandas(frames()["people"], preserve_index=False)
    whole = folder / "whole.parquet"
    pyarrow.parquet.write_table(table, whole)
    content = whole.read_bytes()
    pyarrow.feather.write_feather(table, str(folder / "whole.feather"))
    feather = (folder / "whole.feather").read_bytes()
    files = {
        "empty.parquet": b"",
        "junk.parquet": b"PAR1" * 10,
        "cut.parquet": content[:-50],
        "head.parquet": b"\xff" * 100 + content[100:],
        "middle.parquet": content[:100] + b"\xff" * 300 + content[400:],
        "feather.parquet": feather,
        "empty.feather": b"",
        "cut.feather": feather[: len(feather) // 2],
        "parquet.feather": content,
        "junk.duckdb": b"junk" * 1000,
        "empty.csv": b"",
        "binary.csv": content,
        "quote.csv": b'id,age,sex,town\n1,2,"F,west\n',
        "twice.csv": b"id,id,age,sex,town\n1,1,2,F,west\n",
        "nul.csv": b"id,age,sex,town\n1,2,F,we\0st\n",
        "short.csv": b"id,age\n1,2\n",
        "bom.csv": b"\xff\xfei\0d\0\n\0",
    }
    made = {}
    for name, data in files.items():
        made[name] = folder / name
        made[name].write_bytes(data)
    return made


def test_damaged_files_are_the_owners_errors(tmp_path: Path) -> None:
    """BAK-11: refused when the session opens, by an error for the owner, or read without an exception afterwards."""
    for name, path in damaged(tmp_path).items():
        folder = tmp_path / f"of {name}"
        folder.mkdir()
        try:
            opened = Clinic(folder, tables={"people": str(path)})
        except CatalogError:
            continue
        opened.sql("SELECT sex, town, COUNT(*), AVG(age) FROM people GROUP BY sex, town")


@pytest.mark.parametrize(
    "source",
    ["", ".", "/nonexistent.parquet", "s3://a/b.parquet", "x.parquet\0", "/dev/zero", "/etc/passwd", None, 7, b"x"],
)
def test_what_is_no_source_is_refused(tmp_path: Path, source: object) -> None:
    """BAK-11."""
    with pytest.raises(CatalogError):
        Clinic(tmp_path, tables={"people": source})


PEOPLE = frames()["people"]
DRIFTED = {
    "ages as text": PEOPLE.astype({"age": str}),
    "ages as floats": PEOPLE.astype({"age": float}),
    "ages as objects": PEOPLE.astype({"age": object}),
    "ages as dates": PEOPLE.assign(age=pd.Timestamp("2020-01-01")),
    "ages as categories": PEOPLE.astype({"age": "category"}),
    "ages as half floats": PEOPLE.astype({"age": "float16"}),
    "ages as lists": PEOPLE.assign(age=pd.Series([[1]] * len(PEOPLE), dtype=object)),
    "ages as bytes": PEOPLE.assign(age=[b"1"] * len(PEOPLE)),
    "ages as booleans": PEOPLE.assign(age=True),
    "ages as durations": PEOPLE.assign(age=pd.Timedelta(1)),
    "ages as complex numbers": PEOPLE.assign(age=1j),
    "ages as sparse": PEOPLE.assign(age=pd.arrays.SparseArray([1] * len(PEOPLE))),
    "ages all missing": PEOPLE.assign(age=None),
    "sex as numbers": PEOPLE.assign(sex=1),
    "sex as floats": PEOPLE.assign(sex=1.5),
    "sex as bytes": PEOPLE.assign(sex=b"F"),
    "ids as text": PEOPLE.astype({"id": str}),
    "no age": PEOPLE.drop(columns="age"),
    "another case": PEOPLE.rename(columns={"age": "AGE"}),
    "age twice": pd.concat([PEOPLE, PEOPLE[["age"]]], axis=1),
    "two levels": PEOPLE.T.set_index(pd.Index(list("abcd")), append=True).T,
    "nobody": PEOPLE.iloc[:0],
    "nobody, objects": PEOPLE.iloc[:0].astype(object),
    "no units": PEOPLE.assign(id=pd.array([None] * len(PEOPLE), dtype="Int64")),
    "no units, objects": PEOPLE.assign(id=None),
    "odd index": PEOPLE.set_index(pd.Index([7] * len(PEOPLE))),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", DRIFTED)
def test_stored_types_that_are_not_the_declared_ones(tmp_path: Path, name: str) -> None:
    """BAK-12, BAK-08, OUT-06: refused at opening, or answered with the declared types and never an error."""
    try:
        drifted = Clinic(tmp_path, tables={"people": DRIFTED[name]})
    except CatalogError:
        return
    answer = drifted.sql("SELECT sex, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS m FROM people GROUP BY sex").to_arrow()
    assert [str(field.type) for field in answer.schema] == ["string", "int64", "decimal128(32, 0)", "double"]
    assert answer["sex"].to_pylist() == ["F", "M"]
    drifted.sql("SELECT town, COUNT(DISTINCT id) FROM people GROUP BY town")


MISFITS = ["x", None, float("nan"), float("inf"), 2**70, -(2**70), b"b", [1], {}, object(), True, "7", pd.NA, pd.NaT]


def sums_with_last(folder: Path, last: object) -> tuple[Any, ...]:
    """Returns sums and counts, without noise, over the people where the last has this age and this town."""
    people = PEOPLE.astype({"age": object}).copy()
    people.loc[len(people) - 1, "age"] = 0
    ages = list(people["age"])
    ages[-1] = last
    people["age"] = pd.Series(ages, dtype=object)
    people["town"] = pd.Series([*people["town"][:-1], last], dtype=object)
    one = Clinic(folder, tables={"people": people})
    with pytest.MonkeyPatch.context() as patch:
        zero_noise(patch)
        return one.rows("SELECT SUM(age), COUNT(age), COUNT(DISTINCT town), COUNT(town) FROM people")[0]


@pytest.fixture(scope="module")
def sums_with_zero(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """What the sums are where no value is of another type."""
    return sums_with_last(tmp_path_factory.mktemp("zero"), 0)


@pytest.mark.parametrize("odd", [*MISFITS, "\ud800", "a\0"], ids=[str(i) for i in range(len(MISFITS) + 2)])
def test_one_odd_value_changes_no_other(tmp_path: Path, sums_with_zero: tuple[Any, ...], odd: object) -> None:
    """BAK-12: a value of another type in an object column is NULL for itself; every other row is read as before."""
    sums = sums_with_zero, sums_with_last(tmp_path, odd)
    assert all(abs(a - b) <= limit for a, b, limit in zip(*sums, [100, 1, 1, 1], strict=True))


def test_a_statement_that_never_ends_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PAR-15, OUT-04, OUT-05: joins of public tables that multiply without end fail; the charge stays."""
    wards = pd.DataFrame({"code": [str(i) for i in range(1900)], "floor": 1})
    catalog = f"work: 2000000000\n{CATALOG}"
    many = Clinic(tmp_path, tables={"wards": wards}, catalog=catalog, budget="{epsilon: 2}")
    joined = ", ".join(f"wards w{i}" for i in range(5))
    with monkeypatch.context() as limited:
        limited.setattr(statements, "TIME_LIMIT", 0.1)
        with pytest.raises(BackendError) as private:
            many.sql("SELECT COUNT(*) FROM visits, wards w0, wards w1 WHERE SIN(price + w0.floor + w1.floor) < 2")
        with pytest.raises(BackendError):
            many.sql(f"SELECT COUNT(*) FROM {joined} WHERE w0.code <> w1.code AND w2.code <> w3.code")
    assert "it was charged all the same" in str(private.value)
    assert many.session.remaining.epsilon == 1
    assert many.sql("SELECT COUNT(*) FROM visits", epsilon="0.5")


class Lying(Watched):
    """A backend that gives another shape than it was asked for."""

    def __init__(self, inner: DuckDBBackend, change: Any) -> None:
        super().__init__(inner)
        self.change = change

    def run(self, statement: Any, key: int) -> ExactAggregates:
        changed: ExactAggregates = self.change(super().run(statement, key))
        return changed

    def evaluate(self, relation: Relation, released: Any) -> pa.Table:
        return super().evaluate(relation, released)


LIES = {
    "no columns": lambda exact: ExactAggregates(keys=(), numbers=()),
    "twice": lambda exact: ExactAggregates(
        keys=tuple(np.concatenate([k, k]) for k in exact.keys),
        numbers=tuple(np.concatenate([n, n]) for n in exact.numbers),
    ),
    "a key too high": lambda exact: ExactAggregates(keys=tuple(k + 100 for k in exact.keys), numbers=exact.numbers),
    "a key too low": lambda exact: ExactAggregates(keys=tuple(k - 100 for k in exact.keys), numbers=exact.numbers),
    "a column more": lambda exact: ExactAggregates(keys=exact.keys, numbers=(*exact.numbers, exact.numbers[0])),
    "a column cut": lambda exact: ExactAggregates(keys=exact.keys, numbers=tuple(n[:-1] for n in exact.numbers)),
    "floats": lambda exact: ExactAggregates(keys=exact.keys, numbers=tuple(n + 0.5 for n in exact.numbers)),
    "a long text": lambda exact: ExactAggregates(keys=exact.keys, numbers=("x" * 10,)),  # type: ignore[arg-type]
    "nothing": lambda exact: None,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_backend_that_gives_another_shape_is_refused(tmp_path: Path, lie: str) -> None:
    """BAK-09: the gate looks at shapes and keys before it adds noise."""
    ward = Clinic(tmp_path)
    session = Session(
        ward.catalog, backend=Lying(ward.backend.inner, LIES[lie]), ledger=ward.ledger, analyst="alice", reuse=False
    )
    with pytest.raises(BackendError) as caught:
        session.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1)
    assert str(caught.value) == FAILED
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_two_queries_at_once_do_not_mix(tmp_path: Path, no_noise: None) -> None:
    """BAK-09: threads share engines and registered names, and still each gets its own answer."""
    ward = Clinic(tmp_path)
    data = frames()["visits"]
    expected = {w: int((data.ward == w).sum()) for w in ("x", "y", "z")}
    wrong: list[object] = []

    def work(name: str) -> None:
        for _ in range(8):
            query = f"SELECT ward, COUNT(*) FROM visits WHERE ward = '{name}' GROUP BY ward"
            found = dict(ward.rows(query, max_rows=99))
            if found.get(name) != expected[name] or sum(found.values()) != expected[name]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(name,)) for name in expected for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_catalog_text_is_no_sql(tmp_path: Path) -> None:
    """BAK-02: hostile public keys and descriptions."""
    text = CATALOG.replace("keys: [F, M]", "keys: [\"F'; DROP TABLE x; --\", 'M\"', '$1', '{}']")
    hostile = Clinic(tmp_path, catalog=text)
    answer = hostile.rows("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    assert [sex for sex, _ in answer] == ["$1", "F'; DROP TABLE x; --", 'M"', "{}"]
