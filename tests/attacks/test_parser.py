"""Attacks through the text of a query (PAR): what is not understood is refused, before a row is read."""

from __future__ import annotations

import contextlib
import time
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.errors import DPQueryError, QueryError, QuerySyntaxError, UnknownNameError, UnsupportedQueryError
from tests.attacks.clinic import CATALOG, Clinic, frames

SECONDS = 10.0
"""No text may keep its thread busy for longer: many times what it takes, far below what an explosion would."""

REFUSED = [
    ("PAR-01", "SELECT COUNT(*) FROM read_csv_auto('/etc/passwd')"),
    ("PAR-01", "SELECT COUNT(*) FROM read_parquet('visits.parquet')"),
    ("PAR-01", "SELECT COUNT(*) FROM read_text('/etc/passwd')"),
    ("PAR-01", "SELECT COUNT(*) FROM glob('*')"),
    ("PAR-01", "SELECT COUNT(*) FROM sniff_csv('/etc/passwd')"),
    ("PAR-01", "SELECT COUNT(*) FROM '/etc/passwd'"),
    ("PAR-01", "SELECT COUNT(*) FROM duckdb_tables()"),
    ("PAR-01", "SELECT COUNT(*) FROM range(10)"),
    ("PAR-01", "SELECT COUNT(*) FROM visits, LATERAL (SELECT 1) AS x"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE note = getenv('HOME')"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE note = current_setting('threads')"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE note ~ 'a(?=b)'"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE visit = ANY(ARRAY[id, 2])"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE [1, 2][1] = visit"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE {'a': 1}.a = visit"),
    ("PAR-01", "SELECT COUNT(*) FROM visits WHERE list_transform([visit], x -> x)[1] = 1"),
    ("PAR-02", "SELECT SUM(my_udf(cost)) FROM visits"),
    ("PAR-02", "SELECT COUNT(*) FROM visits WHERE error(note) IS NULL"),
    ("PAR-02", "SELECT COUNT(*) FROM visits WHERE sleep_ms(5000) IS NULL"),
    ("PAR-02", "SELECT SUM(repeat(note, 3)) FROM visits"),
    ("PAR-02", "SELECT COUNT(*) FROM visits WHERE md5(note) = 'x'"),
    ("PAR-02", "SELECT COUNT(*) FROM visits WHERE pg_sleep(1) IS NULL"),
    ("PAR-02", "SELECT COUNT(*) FROM visits WHERE _get(note) IS NULL"),
    ("PAR-03", "CALL pragma_version()"),
    ("PAR-03", "EXPLAIN SELECT COUNT(*) FROM visits"),
    ("PAR-03", "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits"),
    ("PAR-03", "DESCRIBE visits"),
    ("PAR-03", "SHOW TABLES"),
    ("PAR-03", "SUMMARIZE visits"),
    ("PAR-03", "COPY visits TO 'x.csv'"),
    ("PAR-03", "COPY (SELECT * FROM visits) TO 'x.csv'"),
    ("PAR-03", "ATTACH 'x.db' AS x"),
    ("PAR-03", "DETACH x"),
    ("PAR-03", "USE x"),
    ("PAR-03", "PRAGMA database_list"),
    ("PAR-03", "INSTALL httpfs"),
    ("PAR-03", "LOAD httpfs"),
    ("PAR-03", "SET threads = 1"),
    ("PAR-03", "RESET threads"),
    ("PAR-03", "BEGIN"),
    ("PAR-03", "COMMIT"),
    ("PAR-03", "INSERT INTO visits SELECT * FROM visits"),
    ("PAR-03", "UPDATE visits SET cost = 0"),
    ("PAR-03", "DELETE FROM visits"),
    ("PAR-03", "TRUNCATE visits"),
    ("PAR-03", "MERGE INTO visits USING people ON TRUE WHEN MATCHED THEN DELETE"),
    ("PAR-03", "CREATE TABLE t AS SELECT * FROM visits"),
    ("PAR-03", "CREATE MACRO f(x) AS x"),
    ("PAR-03", "DROP TABLE visits"),
    ("PAR-03", "ALTER TABLE visits ADD COLUMN x INT"),
    ("PAR-03", "GRANT ALL ON visits TO alice"),
    ("PAR-03", "VACUUM"),
    ("PAR-03", "EXPORT DATABASE 'x'"),
    ("PAR-03", "CHECKPOINT"),
    ("PAR-03", "KILL 1"),
    ("PAR-03", "TABLE visits"),
    ("PAR-03", "FROM visits"),
    ("PAR-03", "PIVOT visits ON ward USING COUNT(*)"),
    ("PAR-03", "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits"),
    ("PAR-03", "SELECT COUNT(*) FROM visits; DROP TABLE visits"),
    ("PAR-03", ";"),
    ("PAR-03", ""),
    ("PAR-03", "-- nothing"),
    ("PAR-03", "WITH gone AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) FROM gone"),
    ("PAR-03", "SELECT COUNT(*) INTO copied FROM visits"),
    ("PAR-04", "SELECT @@version, COUNT(*) FROM visits"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WHERE @cost > 1"),
    ("PAR-04", "SELECT COUNT(*) FROM visits FOR UPDATE"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WHERE cost > ?"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WHERE cost > $1"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WHERE cost > :x"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WHERE note = E'a\\n'"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WHERE note = U&'\\0041'"),
    ("PAR-04", "SELECT COUNT(*) FROM visits TABLESAMPLE (10 PERCENT)"),
    ("PAR-04", "SELECT COUNT(*) FROM visits AT (VERSION => 1)"),
    ("PAR-04", "SELECT COUNT(*) FROM visits ORDER BY 1 LIMIT 10%"),
    ("PAR-04", "SELECT DISTINCT ON (ward) COUNT(*) FROM visits"),
    ("PAR-04", "SELECT COUNT(*) FROM ONLY visits"),
    ("PAR-04", "SELECT SUM(cost) WITHIN GROUP (ORDER BY cost) FROM visits"),
    ("PAR-04", "SELECT COUNT(*) OVER () FROM visits"),
    ("PAR-04", "SELECT SUM(cost ORDER BY cost) FROM visits"),
    ("PAR-04", "SELECT COUNT(*) FROM visits WINDOW w AS (ORDER BY id)"),
    ("PAR-04", "SELECT COUNT(*) FROM visits QUALIFY 1 = 1"),
    ("PAR-07", "SELECT COUNT(*) FROM visits WHERE cost < 1e400"),
    ("PAR-07", "SELECT COUNT(*) FROM visits WHERE cost < 1e-400"),
    ("PAR-07", "SELECT COUNT(*) FROM visits WHERE cost < 'Infinity'::float8"),
    ("PAR-07", "SELECT COUNT(*) FROM visits WHERE cost < CAST('NaN' AS DOUBLE PRECISION)"),
    ("PAR-07", f"SELECT COUNT(*) FROM visits WHERE cost < {'9' * 39}"),
    ("PAR-07", f"SELECT COUNT(*) FROM visits WHERE cost < 0.{'9' * 60}"),
    ("PAR-07", f"SELECT COUNT(*) FROM visits WHERE note = '{'a' * 20_000}'"),
    ("PAR-07", f"SELECT COUNT(*) FROM visits WHERE visit = {'1' * 10_000}"),
    ("PAR-08", "SELECT COUNT(*) FROM visits\0"),
    ("PAR-08", "SELECT COUNT(*) FROM visits WHERE note = '\0'"),
    ("PAR-08", "SELECT COUNT(*) AS \u202ea FROM visits"),
    ("PAR-08", "SELECT COUNT(*) AS a\u200bb FROM visits"),
    ("PAR-08", "SELECT COUNT(*) FROM \uff56isits"),
    ("PAR-08", 'SELECT COUNT(*) AS "\x1b[31m" FROM visits'),
    ("PAR-08", "SELECT COUNT(*) FROM visits WHERE note = '\ud800'"),
    ("PAR-08", "SELECT COUNT(*) FROM visits WHERE note = 'a\x08'"),
    ("PAR-11", "SELECT SUM(COLUMNS('a.*')) FROM people"),
    ("PAR-11", "SELECT COUNT(COLUMNS(*)) FROM people"),
    ("PAR-11", "SELECT SUM(rowid) FROM visits"),
    ("PAR-11", "SELECT COUNT(ctid) FROM visits"),
    ("PAR-11", "SELECT COUNT(secret) FROM visits"),
    ("PAR-11", "SELECT * FROM visits"),
    ("PAR-11", "SELECT visits.* FROM visits"),
    ("PAR-11", "SELECT visits FROM visits"),
    ("PAR-11", "SELECT COUNT(visits) FROM visits"),
    ("PAR-11", "SELECT * EXCLUDE (id) FROM visits"),
    ("PAR-11", "SELECT * REPLACE (1 AS id) FROM visits"),
    ("PAR-11", "SELECT COUNT(*) FROM main.visits v JOIN information_schema.tables t ON TRUE"),
    ("PAR-11", "SELECT COUNT(*) FROM information_schema.columns"),
    ("PAR-11", "SELECT COUNT(*) FROM table1"),
    ("PAR-11", "SELECT COUNT(*) FROM stored"),
    ("PAR-13", "SELECT COUNT(*) FROM visits WHERE note ~ '(a+)\\1'"),
    ("PAR-13", "SELECT COUNT(*) FROM visits WHERE note ~ '((a{100}){100}){100}'"),
    ("PAR-13", "SELECT COUNT(*) FROM visits WHERE note ~ note"),
    ("PAR-13", "SELECT COUNT(*) FROM visits WHERE note LIKE note"),
    ("PAR-13", "SELECT COUNT(*) FROM visits WHERE note LIKE '%' || note"),
    ("PAR-13", f"SELECT COUNT(*) FROM visits WHERE note LIKE '{'%a' * 200}'"),
    ("PAR-13", f"SELECT COUNT(*) FROM visits WHERE note ~ '{'(a|' * 60}b{')' * 60}'"),
    ("PAR-14", "SELECT * FROM query('SELECT 1')"),
    ("PAR-14", "SELECT COUNT(*) FROM query_table('visits')"),
    ("PAR-14", "SELECT COUNT(*) FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))"),
    ("PAR-14", "PREPARE p AS SELECT 1"),
    ("PAR-14", "EXECUTE p"),
    ("PAR-14", "EXECUTE IMMEDIATE 'SELECT 1'"),
    ("PAR-15", "SELECT SUM(LENGTH(REPEAT(note, 1000000000))) FROM visits"),
    ("PAR-15", "SELECT SUM(LENGTH(LPAD(note, 1000000000, 'x'))) FROM visits"),
    ("PAR-15", "SELECT " + ", ".join(f"SUM(cost + {i})" for i in range(1000)) + " FROM visits"),
    ("PAR-15", "SELECT " + " + ".join(f"SUM(cost + {i})" for i in range(140)) + " FROM visits"),
    ("PAR-15", "SELECT COUNT(*) FROM wards" + "".join(f", tags t{i}" for i in range(9))),
]


@pytest.mark.parametrize(("row", "query"), REFUSED, ids=[f"{row} {query[:60]!a}" for row, query in REFUSED])
def test_what_is_not_understood_is_refused(clinic: Clinic, row: str, query: str) -> None:
    start = time.thread_time()
    clinic.refuses(query)
    assert time.thread_time() - start < 2 * SECONDS, row


@pytest.mark.parametrize(
    "dialect",
    ["duckdb", "bigquery", "snowflake", "spark", "mysql", "tsql", "clickhouse", "oracle", "sqlite", "presto", "hive"],
)
def test_no_dialect_opens_a_door(clinic: Clinic, dialect: str) -> None:
    """PAR-03, PAR-04: whatever grammar is chosen, only the engine's own plan runs."""
    for query in [
        "SELECT COUNT(*) FROM read_csv_auto('/etc/passwd')",
        "COPY visits TO 'x.csv'",
        "SELECT error(note) FROM visits",
        "SELECT COUNT(*) FROM `/etc/passwd`",
        'SELECT COUNT(*) FROM "/etc/passwd"',
        "SELECT reflect('java.lang.System', 'exit') FROM visits",
        "SELECT note FROM visits",
        "SELECT COUNT(*) FROM visits INTO OUTFILE '/tmp/x'",
        "!ls",
        ".shell ls",
    ]:
        clinic.refuses(query, dialect=dialect)


@pytest.mark.parametrize("dialect", ["", "nonsense", "duckdb, normalization_strategy=lowercase", "os", None, 7, "../x"])
def test_an_unknown_dialect_is_refused(clinic: Clinic, dialect: object) -> None:
    """PAR-03."""
    with contextlib.suppress(DPQueryError):
        clinic.session.explain("SELECT COUNT(*) AS n FROM visits", epsilon=1, dialect=dialect)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [None, 7, b"SELECT 1", ["SELECT 1"], object()])
def test_what_is_no_text_is_no_query(clinic: Clinic, text: object) -> None:
    """PAR-03."""
    clinic.refuses(text, QuerySyntaxError)  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_what_the_parser_would_reinterpret_is_refused_or_means_what_it_says(
    clinic: Clinic, no_noise: None, dialect: str
) -> None:
    """PAR-04: sqlglot reads 0x1F as 0 AS x1F, and drops what it does not know with a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for written, limit in [("0x1F", 31), ("1_0", 10), ("0b11", 3)]:
            try:
                query = f"SELECT COUNT(*) FROM visits WHERE visit > {written}"
                counted = clinic.one(query, dialect=dialect, max_rows=1000)
            except QueryError:
                continue
            assert counted == (frames()["visits"].visit > limit).sum()
    error = clinic.refuses("SELECT 0x1F, COUNT(*) FROM visits", dialect="duckdb")
    assert isinstance(error, UnsupportedQueryError | QuerySyntaxError)


BOMBS = {
    "brackets": "SELECT COUNT(*) FROM visits WHERE " + "(" * 5000 + "TRUE" + ")" * 5000,
    "one bracket too many": "SELECT " + "(" * 60 + "COUNT(*)" + ")" * 60 + " FROM visits",
    "CASE in CASE": "SELECT SUM(" + "CASE WHEN urgent THEN " * 100 + "1" + " ELSE 0 END" * 100 + ") FROM visits",
    "simple CASE in simple CASE": "SELECT COUNT(*) FROM visits WHERE "
    + "CASE " * 12
    + "urgent"
    + " WHEN TRUE THEN FALSE WHEN FALSE THEN TRUE WHEN NULL THEN TRUE END" * 12,
    "BETWEEN of BETWEEN": "SELECT COUNT(*) FROM visits WHERE " + "(" * 20 + "urgent" + " BETWEEN FALSE AND TRUE)" * 20,
    "subqueries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 60 + "visits" + ") x" * 60,
    "NOT": "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 5000 + "urgent",
    "minus": "SELECT SUM(" + "- " * 5000 + "cost) FROM visits",
    "chain": "SELECT SUM(" + "cost+" * 3000 + "cost) FROM visits",
    "AND chain": "SELECT COUNT(*) FROM visits WHERE " + " AND ".join(["urgent"] * 3000),
    "concat chain": "SELECT COUNT(*) FROM visits WHERE note = " + "||".join(["'a'"] * 3000),
    "casts": "SELECT SUM(cost" + "::float8" * 3000 + ") FROM visits",
    "unions": " UNION ALL ".join(["SELECT COUNT(*) FROM visits"] * 600),
    "arrays": "SELECT " + "[" * 3000 + "]" * 3000 + " FROM visits",
    "joins": "SELECT COUNT(*) FROM visits" + "".join(f" JOIN wards w{i} ON ward = w{i}.code" for i in range(300)),
    "WITH doubling": "WITH a0 AS (SELECT code FROM wards)"
    + "".join(f", a{i} AS (SELECT x.code FROM a{i - 1} x JOIN a{i - 1} y ON x.code = y.code)" for i in range(1, 30))
    + " SELECT COUNT(*) FROM a29",
    "column doubling": "SELECT SUM(x) FROM "
    + "(SELECT id, x + x AS x FROM " * 30
    + "(SELECT id, age AS x FROM people) p"
    + ") q" * 30,
    "key doubling": "SELECT x, COUNT(*) FROM "
    + "(SELECT id, x + x AS x FROM " * 30
    + "(SELECT id, age AS x FROM people) p"
    + ") q" * 30
    + " GROUP BY x",
    "doubling above": "SELECT x FROM "
    + "(SELECT x * x AS x FROM " * 30
    + "(SELECT COUNT(*) AS x FROM people) p"
    + ") q" * 30,
    "text": "SELECT COUNT(*) FROM visits WHERE note = 'a' -- " + "x" * 70_000,
    "words": "SELECT " + "1," * 6000 + "1 FROM visits",
    "quotes": "SELECT COUNT(*) FROM visits WHERE note = '" + "''" * 30_000 + "'",
    "open quote": "SELECT COUNT(*) FROM visits WHERE note = '",
    "open comment": "SELECT COUNT(*) FROM visits /*" + "/*" * 10_000,
    "nested comments": "SELECT COUNT(*) FROM visits " + "/*" * 10_000 + "*/" * 10_000,
    "dots": "SELECT " + "a." * 5000 + "a FROM visits",
    "commas": "SELECT COUNT(*) FROM visits WHERE visit IN (" + "," * 9000 + ")",
    "OR 1=1": "SELECT COUNT(*) FROM visits WHERE " + " OR ".join("1=1" for _ in range(2400)),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", BOMBS)
def test_deep_and_doubling_texts_are_refused_quickly(clinic: Clinic, name: str) -> None:
    """PAR-05, PAR-06, PAR-15: a short text that means a deep tree or an exponential plan."""
    start = time.thread_time()
    clinic.refuses(BOMBS[name])
    assert time.thread_time() - start < 2 * SECONDS


WIDE = {
    "IN list": "SELECT COUNT(*) FROM visits WHERE visit IN (" + ",".join(map(str, range(4900))) + ")",
    "IN texts": "SELECT COUNT(*) FROM visits WHERE note IN (" + ",".join(f"'{i}'" for i in range(4900)) + ")",
    "CASE arms": "SELECT SUM(CASE " + " ".join(f"WHEN visit = {i} THEN {i}" for i in range(1200)) + " END) FROM visits",
    "CASE keys": "SELECT CASE "
    + " ".join(f"WHEN age = {i} THEN {i}" for i in range(1200))
    + " END AS k, COUNT(*) FROM people GROUP BY 1",
    "CASE keys of two": "SELECT CASE "
    + " ".join(f"WHEN age = {i} THEN EXTRACT(doy FROM day)" for i in range(500))
    + " END AS k, COUNT(*) FROM visits JOIN people USING (id) GROUP BY 1",
    "simple CASE": "SELECT SUM(CASE visit " + " ".join(f"WHEN {i} THEN {i}" for i in range(1800)) + " END) FROM visits",
    "long simple CASE": "SELECT SUM(CASE "
    + "+".join(["visit"] * 140)
    + "".join(f" WHEN {i} THEN {i}" for i in range(1500))
    + " END) FROM visits",
    "aggregates": "SELECT " + ", ".join(f"SUM(cost + {i})" for i in range(100)) + " FROM visits",
    "deviations": "SELECT " + ", ".join(f"STDDEV(cost + {i})" for i in range(30)) + " FROM visits",
    "filters": "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE visit = {i})" for i in range(100)) + " FROM visits",
    "subqueries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 20 + "visits" + ") x" * 20,
    "cross joins": "SELECT COUNT(*) FROM visits, tags a, tags b, tags c, tags d, tags e, tags f, tags g",
    "many keys": "SELECT age * 1000000 + visit AS k, COUNT(*) FROM people JOIN visits USING (id) GROUP BY 1",
    "10^18 keys": "SELECT big, COUNT(*) FROM visits GROUP BY big",
    "148,000 groups": "SELECT day, age, ward, COUNT(*) FROM visits JOIN people USING (id) GROUP BY day, age, ward",
    "40,000 groups": "SELECT day, age, COUNT(*) FROM visits JOIN people USING (id) GROUP BY day, age",
    "long pattern": f"SELECT COUNT(*) FROM visits WHERE note LIKE '{'%a' * 99}'",
    "polynomial pattern": "SELECT COUNT(*) FROM visits WHERE note ~ '(a+)+$' OR note ~ '^(a|a)*$' OR note ~ '(.*)*x'",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", WIDE)
def test_wide_texts_are_answered_or_refused_within_limits(clinic: Clinic, name: str) -> None:
    """PAR-06, PAR-13, PAR-15."""
    start = time.thread_time()
    clinic.attempt(WIDE[name])
    assert time.thread_time() - start < 3 * SECONDS


def test_a_million_groups_of_private_keys_are_answered(tmp_path: Path) -> None:
    """PAR-15: GROUP BY over 10^6 different private values."""
    import numpy as np
    import pyarrow as pa

    ids = np.arange(1_000_000)
    rows = pa.table({"id": ids, "visit": ids})
    catalog = """
version: 2
dataset: many
privacy_unit: person
budget: BUDGET
tables:
  visits:
    unit: id
    max_rows: 8
    columns: {id: {type: int64}, visit: {type: int64}}
"""
    many = Clinic(tmp_path, catalog=catalog, tables={"visits": rows})
    start = time.thread_time()
    assert len(many.sql("SELECT visit, COUNT(*) FROM visits GROUP BY visit")) < 60
    assert time.thread_time() - start < 5 * SECONDS


def test_comments_and_hints_are_dropped(clinic: Clinic) -> None:
    """PAR-09: nothing in a comment changes the charge."""
    plain = clinic.session.explain("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
    for query in [
        "SELECT COUNT(*) AS n FROM visits -- dpquery: epsilon=100",
        "SELECT /*+ epsilon(100) */ COUNT(*) AS n FROM visits",
        "/* rho: 9, max_groups: 1 */ SELECT COUNT(*) AS n FROM visits",
    ]:
        plan = clinic.session.explain(query, epsilon="0.5")
        assert (plan.charge, plan.measurements) == (plain.charge, plain.measurements)
    clinic.refuses("SELECT COUNT(*) AS n FROM visits OPTION (epsilon = 100)", dialect="tsql")
    bigquery = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=100) COUNT(*) AS n FROM visits"
    clinic.refuses(bigquery, dialect="bigquery")


def test_names_decide_nothing(clinic: Clinic) -> None:
    """PAR-10: common tables under the names of public tables, aliases that are other columns' names."""
    plan = clinic.session.explain("WITH wards AS (SELECT * FROM visits) SELECT COUNT(*) AS n FROM wards", epsilon=1)
    assert plan.charge.rho > 0
    clinic.refuses("WITH wards AS (SELECT ward AS code FROM visits) SELECT code FROM wards")
    clinic.refuses("SELECT COUNT(*) FROM visits a JOIN visits b ON a.id = b.visit AND a.visit = b.id")
    clinic.refuses("WITH p AS (SELECT visit AS id FROM visits) SELECT COUNT(*) FROM p JOIN people USING (id)")
    clinic.refuses("SELECT COUNT(*) FROM (SELECT 1 AS id, visit FROM visits) a JOIN people b ON a.id = b.id")
    clinic.refuses("SELECT SUM(cost) FROM (SELECT free AS cost FROM visits) v")
    clinic.refuses("SELECT COUNT(*) FROM visits AS people, people")
    clinic.refuses("SELECT COUNT(*) FROM visits, visits")
    clinic.refuses("WITH a AS (SELECT * FROM a) SELECT COUNT(*) FROM a", UnknownNameError)
    clinic.refuses("WITH RECURSIVE a AS (SELECT id FROM people UNION ALL SELECT id FROM a) SELECT COUNT(*) FROM a")


def test_an_alias_hides_neither_bounds_nor_unit(clinic: Clinic, no_noise: None) -> None:
    """PAR-10: bounds and units follow the column, whatever it is called."""
    query = "SELECT SUM(age) AS s FROM (SELECT cost AS age, id AS visit, visit AS id FROM visits) v"
    (made,) = clinic.session.explain(query, epsilon=1).measurements
    assert 5 * 40 <= made.linf <= 5 * 40 * (1 + Fraction(1, 10**6))
    renamed = "WITH v AS (SELECT visit AS id, id AS visit FROM visits) SELECT COUNT(*) FROM v a JOIN people p ON"
    clinic.refuses(f"{renamed} a.id = p.id", UnsupportedQueryError)
    (made,) = clinic.session.explain(f"{renamed} a.visit = p.id", epsilon=1).measurements
    assert made.linf == 5
    self_join = "WITH v AS (SELECT * FROM visits) SELECT COUNT(*) FROM v a JOIN"
    (made,) = clinic.session.explain(f"{self_join} v b ON a.id = b.id", epsilon=1).measurements
    assert made.linf == 5 * 5
    once = f"{self_join} (SELECT id AS n, COUNT(*) AS id FROM v GROUP BY id) b ON a.id = b.n"
    (made,) = clinic.session.explain(once, epsilon=1).measurements
    assert made.linf == 5


def test_composed_and_decomposed_letters_are_one_name(clinic: Clinic) -> None:
    """PAR-08: two spellings that look the same name one column, so neither hides the other."""
    query = "SELECT cafe\u0301 FROM (SELECT COUNT(*) AS caf\u00e9 FROM visits) v"
    assert list(clinic.session.explain(query, epsilon=1).columns) == ["caf\u00e9"]
    both = "SELECT {} FROM (SELECT COUNT(*) AS cafe\u0301, SUM(cost) AS caf\u00e9 FROM visits) v"
    for name in ("caf\u00e9", "cafe\u0301"):
        clinic.refuses(both.format(name))


def test_upper_and_lower_case_follow_one_rule(clinic: Clinic) -> None:
    """PAR-12: unquoted names match in any case, quoted ones exactly."""
    clinic.session.explain('SELECT SUM(AGE) FROM PEOPLE WHERE "age" > 3', epsilon=1)
    clinic.refuses('SELECT SUM("Age") FROM people', UnknownNameError)
    clinic.refuses('SELECT COUNT(*) FROM "People"', UnknownNameError)
    clinic.refuses("SELECT x FROM (SELECT COUNT(*) AS x, COUNT(*) AS X FROM people) p")
    with pytest.raises(DPQueryError, match="ambiguous"):
        Clinic(Path("/nonexistent"), catalog=CATALOG.replace("town:", "AGE:"))


def test_patterns_run_in_linear_time(tmp_path: Path) -> None:
    """PAR-13: what takes a backtracking engine for ever takes this one no time."""
    visits = frames()["visits"]
    visits.loc[0, "note"] = "a" * 100_000 + "!"
    ward = Clinic(tmp_path, tables={"visits": visits})
    for condition in ["note ~ '^(a+)+$'", "note ~ '(a|a)*b'", f"note LIKE '{'%a' * 99}%b'", "note ILIKE '%a%a%a%b'"]:
        start = time.thread_time()
        ward.sql(f"SELECT COUNT(*) FROM visits WHERE {condition}")
        assert time.thread_time() - start < SECONDS
