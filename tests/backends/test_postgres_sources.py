"""Tables of PostgreSQL as sources: what is read, when, and what is said where that fails."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
from typer.testing import CliRunner

import dpquery as dp
from dpquery.data import postgres
from dpquery.frontends.cli.main import app
from tests.postgres import Cluster, cluster
from tests.scripted import zero_noise

SECRET = "canary-pw-7731"
CATALOG = dp.Catalog.from_yaml("""
version: 2
dataset: clinic
privacy_unit: person
budget: {epsilon: 1000}
tables:
  people:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      age: {type: int64, lower: 0, upper: 100, nullable: true}
      ward: {type: text, keys: [a, b], nullable: true}
      mood: {type: text, keys: [calm, sad], nullable: true}
      pay: {type: 'decimal(10,2)', lower: 0, upper: 1000, nullable: true}
      weight: {type: float64, lower: 0, upper: 300, nullable: true}
      born: {type: date, lower: 1900-01-01, upper: 2020-01-01, nullable: true}
      seen: {type: timestamp, zone: Europe/Berlin, nullable: true}
      key: {type: text, nullable: true}
      well: {type: boolean, nullable: true}
  visits:
    unit: id
    max_rows: 5
    columns: {id: {type: int64}, cost: {type: float64, lower: 0, upper: 10}}
""")
TABLES = """
CREATE TYPE mood AS ENUM ('calm', 'sad');
CREATE DOMAIN years AS int CHECK (value < 200);
CREATE TABLE people (
    id bigint, secret text DEFAULT 'never read', age years, ward char(4), mood mood, pay numeric(12,3), weight real,
    born date, seen timestamptz, key uuid, well boolean);
INSERT INTO people (id, age, ward, mood, pay, weight, born, seen, key, well) VALUES
    (1, 30, 'a', 'calm', 10.25, 70.5, '1990-05-01', '2020-06-01 12:00Z', '10000000-0000-0000-0000-000000000001', true),
    (2, 40, 'a', 'sad', 'NaN', 'NaN', '1980-05-01', '2020-06-30 22:30+00', NULL, false),
    (3, NULL, 'b', 'sad', 2000, 'Infinity', NULL, NULL, '10000000-0000-0000-0000-000000000003', NULL),
    (4, 150, 'c', NULL, NULL, NULL, '1970-01-01', '2020-01-01 00:00+01', '10000000-0000-0000-0000-000000000003', true);
CREATE SCHEMA old;
CREATE TABLE old."visits.2020" (id int, cost double precision);
INSERT INTO old."visits.2020" SELECT 1 + i % 4, 2.5 FROM generate_series(1, 12) AS i;
CREATE TABLE visits AS TABLE old."visits.2020";
"""
EXACT = {
    "COUNT(*)": 4,
    "SUM(age)": 170,
    "COUNT_IF(ward = 'a')": 2,
    "COUNT_IF(mood = 'sad')": 2,
    "SUM(pay)": 1010.25,
    "SUM(weight)": 370.5,
    "COUNT(born)": 3,
    "COUNT_IF(EXTRACT(month FROM seen) = 7)": 1,
    "COUNT(DISTINCT key)": 2,
    "COUNT_IF(well)": 2,
}
PEOPLE = "SELECT COUNT(*) AS n, SUM(age) AS age FROM people"
VISITS = "SELECT COUNT(*) AS n, SUM(cost) AS cost FROM visits"


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def url(server: Cluster) -> str:
    made = server.fresh()
    change(made, TABLES)
    return made.replace("owner@", f"owner:{SECRET}@")  # which this server does not ask for


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


def change(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


def session(folder: Path, sources: Any, catalog: dp.Catalog = CATALOG) -> dp.Session:
    return dp.connect(catalog, sources, ledger=folder / "ledger", create=True, reuse=False)


def asked(of: dp.Session, query: str) -> list[float]:
    return [float(value) for value in of.sql(query, epsilon=1).to_pandas().iloc[0]]


def refused(folder: Path, sources: Any, catalog: dp.Catalog = CATALOG) -> str:
    with pytest.raises(dp.DPQueryError) as caught:
        session(folder, sources, catalog)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return str(caught.value)


def test_values_are_read_as_declared(url: str, tmp_path: Path) -> None:
    with session(tmp_path, {"people": url, "visits": f"{url}#old.visits%2E2020"}) as opened:
        assert asked(opened, f"SELECT {', '.join(EXACT)} FROM people") == [*EXACT.values()]
        assert asked(opened, VISITS) == [12, 30]


def test_one_address_has_all_tables(url: str, tmp_path: Path) -> None:
    with session(tmp_path, url) as opened:
        assert asked(opened, PEOPLE) == [4, 170]


def test_all_tables_are_of_one_moment_and_stay_so(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = postgres.DatabaseSnapshot.read

    def reading(*given: Any) -> Any:
        found = read(*given).read_all()
        change(url, "INSERT INTO visits VALUES (1, 1); UPDATE people SET age = 0")
        return found.to_reader()

    monkeypatch.setattr(postgres.DatabaseSnapshot, "read", reading)
    with session(tmp_path, url) as opened:
        change(url, "DROP TABLE visits; DELETE FROM people")
        assert asked(opened, PEOPLE) == [4, 170]
        assert asked(opened, VISITS) == [12, 30]


def test_a_new_version_of_the_data_is_read_by_a_new_session_alone(url: str, tmp_path: Path) -> None:
    with session(tmp_path, url) as opened:
        change(url, "INSERT INTO visits VALUES (1, 1)")
        dp.Ledger.open(tmp_path / "ledger").new_data_version(by="owner", why="more visits")
        left = opened.remaining
        with pytest.raises(dp.DPQueryError, match="version"):
            asked(opened, VISITS)
        assert opened.remaining == left
    with session(tmp_path, url) as opened:
        assert asked(opened, VISITS) == [13, 31]


def test_prepared_data_hold_one_snapshot_for_all_sessions(url: str, tmp_path: Path) -> None:
    ledger = dp.create_ledger(CATALOG, tmp_path / "ledger")
    folder = dp.prepare(CATALOG, {"people": url, "visits": url}, tmp_path / "prepared", ledger=ledger, shards=2)
    change(url, "DROP TABLE visits; DROP TABLE people")
    files = sorted(path.name for path in folder.rglob("*"))
    assert [name for name in files if name.endswith("parquet")] == [
        f"{t}-000{s}-0.parquet" for t in (0, 1) for s in (0, 1)
    ]
    assert len(files) == 6, "the copies that it was made from are gone"
    with session(tmp_path, folder) as opened:
        assert asked(opened, PEOPLE) == [4, 170]
        assert asked(opened, VISITS) == [12, 30]


def test_declared_columns_are_all_that_the_role_needs(url: str, tmp_path: Path) -> None:
    names = ", ".join(CATALOG.tables["people"].columns)
    role = f"reader{abs(hash(url))}"
    change(
        url, f"CREATE ROLE {role} LOGIN; GRANT SELECT ({names}) ON people TO {role}; GRANT SELECT ON visits TO {role}"
    )
    own = url.replace("owner:", f"{role}:")
    with session(tmp_path, own) as opened:
        assert asked(opened, PEOPLE) == [4, 170]
    change(url, f"REVOKE SELECT (pay) ON people FROM {role}")
    assert "the role may not read it" in refused(tmp_path, own)


def test_nothing_is_written_to_the_database(url: str, tmp_path: Path) -> None:
    function = "CREATE FUNCTION cost() RETURNS float8 LANGUAGE sql AS 'INSERT INTO people (id) VALUES (9); SELECT 1.0'"
    change(url, f"DROP TABLE visits; {function}; CREATE VIEW visits AS SELECT 1 AS id, cost() AS cost")
    assert "the reading failed" in refused(tmp_path, url)
    with psycopg.connect(url) as connection:
        assert connection.execute(b"SELECT COUNT(*) FROM people").fetchall() == [(4,)]


def test_one_table_is_not_private_and_public(url: str, tmp_path: Path) -> None:
    text = """
version: 2
dataset: clinic
privacy_unit: person
budget: {epsilon: 1}
tables:
  people: {unit: id, max_rows: 1, columns: {id: {type: int64}, cost: {type: float64}}}
  known: {public: true, columns: {cost: {type: float64}}}
"""
    catalog, visits = dp.Catalog.from_yaml(text), f"{url}#visits"
    assert "has the same data" in refused(tmp_path, {"people": visits, "known": visits[:]}, catalog)
    change(url, "CREATE VIEW same AS SELECT * FROM visits")
    assert "has the same rows" in refused(tmp_path, {"people": visits, "known": f"{url}#same"}, catalog)


ADDRESSES = {
    "no server": "postgresql://ann:{}@127.0.0.1:1/clinic",
    "a slash": "postgresql://ann:se/{}@127.0.0.1/clinic",
    "a question mark": "postgresql://ann:se?{}@127.0.0.1/clinic",
    "a number sign": "postgresql://ann:se#{}@127.0.0.1/clinic",
    "an at sign": "postgresql://ann:se@{}@127.0.0.1/clinic",
    "no host": "postgresql://ann:{}",
    "a wrong option": "postgresql://ann@127.0.0.1:1/clinic?passwrd={}",
    "an option": "postgresql://127.0.0.1:1/clinic?user=ann&password={}",
    "a key": "s3://AKIA:{0}@bucket/people.parquet?{0}=1&region=x",
    "a signature": "https://127.0.0.1:1/people.parquet?X-Signature={}",
    "another kind": "mysql://ann:{}@127.0.0.1/clinic",
}


@pytest.mark.parametrize("what", ADDRESSES)
def test_no_message_holds_a_password(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = ADDRESSES[what].format(SECRET)
    with caplog.at_level(logging.DEBUG):
        said = refused(tmp_path, {"people": address, "visits": address})
    assert "canary" not in said + caplog.text and "the source of table people" in said
    (tmp_path / "c.yaml").write_text(CATALOG_TEXT)
    for given in (address, f"people={address}"):
        made = CliRunner().invoke(app, ["check", str(tmp_path / "c.yaml"), "--source", given])
        assert made.exit_code != 0 and "canary" not in made.output + str(made.exception)


CATALOG_TEXT = """
version: 2
dataset: clinic
privacy_unit: row
budget: {epsilon: 1}
tables:
  people: {columns: {age: {type: int64, lower: 0, upper: 100}}}
"""


def test_a_catalog_holds_no_address_and_its_errors_none() -> None:
    address = f"postgresql://ann:{SECRET}@h/db"
    for text in (
        CATALOG_TEXT.replace("people: {", f"people: {{source: '{address}', "),
        f"{CATALOG_TEXT}sources: {{people: '{address}'}}\n",
    ):
        with pytest.raises(dp.CatalogError, match="source") as caught:
            dp.Catalog.from_yaml(text)
        assert "canary" not in str(caught.value) + repr(caught.value.problems)


def test_nothing_that_is_kept_or_shown_holds_a_password(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        dp.create_ledger(CATALOG, tmp_path / "ledger").close()
        dp.prepare(CATALOG, url, tmp_path / "prepared", ledger=tmp_path / "ledger", say=logging.info)
        with dp.connect(CATALOG, url, ledger=tmp_path / "ledger") as opened:
            plan, answer = opened.explain(PEOPLE, epsilon=1, passes=True), opened.sql(PEOPLE, epsilon=1)
            shown = [
                str(plan),
                repr(plan),
                repr(answer),
                str(answer),
                repr(opened),
                repr(vars(opened)),
                repr(opened.remaining),
            ]
            shown += [repr(vars(opened._backend)), CATALOG.to_text()]
    assert SECRET in url and not [text for text in (*shown, caplog.text) if SECRET in text]
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"ledger", "ledger.releases", "manifest.json"} <= {path.name for path in kept}
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]


def test_a_missing_driver_says_how_it_is_installed(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    assert "pip install 'dpquery[postgres]'" in refused(tmp_path, url)


def test_the_command_line_reads_a_database(server: Cluster, tmp_path: Path) -> None:
    address = server.fresh()
    change(address, "CREATE TABLE people AS SELECT 7 AS age FROM generate_series(1, 30)")
    (tmp_path / "c.yaml").write_text(CATALOG_TEXT)
    run = CliRunner().invoke
    assert run(app, ["ledger", "create", str(tmp_path / "c.yaml")]).exit_code == 0
    for given in (address, f"people={address}", f"people={address}#public.people"):
        query = ["query", str(tmp_path / "c.yaml"), "SELECT COUNT(*) AS n FROM people", "--epsilon", "0.1"]
        made = run(app, [*query, "--source", given])
        assert made.exit_code == 0 and "30" in made.output
    for given in (f"people={address}", address):
        shown_to_all = given.replace("owner@", f"owner:{SECRET}@")
        made = run(app, ["query", str(tmp_path / "c.yaml"), "SELECT 1", "--epsilon", "1", "--source", shown_to_all])
        assert made.exit_code != 0 and "password" in made.output and SECRET not in made.output
    made = run(app, ["prepare", str(tmp_path / "c.yaml"), "--into", str(tmp_path / "p"), "--source", address])
    assert made.exit_code == 0, made.output


def test_frames_of_the_same_rows_have_the_same_answers(url: str, tmp_path: Path) -> None:
    """Decimals, numbers and days as a frame holds them; texts of the database's own types are tested above."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(b"SELECT id, cost FROM visits").fetchall()
    frame = pd.DataFrame(rows, columns=["id", "cost"])
    with session(tmp_path, {"people": url, "visits": frame}) as opened:
        assert asked(opened, VISITS) == [12, 30]
