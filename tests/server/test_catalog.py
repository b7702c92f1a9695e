"""The emulated catalogs: statements in the manner of psql, drivers and BI tools, held against a real PostgreSQL 15."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpquery.frontends.postgres.wire.answers import Refusal
from tests.server.orders import Study

TABLES = [("orders", "r"), ("regions", "r")]
COLUMNS = (
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attnum "
    "FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'public.orders'::regclass AND a.attnum > 0 "
    "AND NOT a.attisdropped "
    "ORDER BY a.attnum"
)
DECLARED = """
CREATE TABLE orders (order_id bigint NOT NULL, customer_id bigint NOT NULL, region text NOT NULL,
    amount numeric(10,2) NOT NULL, price double precision, qty bigint NOT NULL, is_new boolean NOT NULL, note text,
    ordered_on date NOT NULL, created_at timestamp NOT NULL);
CREATE TABLE regions (name text NOT NULL, country text NOT NULL);
"""
"""The tables of the study as PostgreSQL would declare them."""

STATEMENTS = [
    # psql: the lists of tables and columns.
    "SELECT c.relname, c.relkind FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON "
    "n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r','p','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' "
    "AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1",
    "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(orders)$' COLLATE "
    "pg_catalog.default AND pg_catalog.pg_table_is_visible(c.oid)",
    COLUMNS,
    "SELECT c.relchecks, c.relhasindex, c.relhasrules, c.relhastriggers, c.relispartition, "
    "array(SELECT 'toast.' || x FROM pg_catalog.unnest(c.reloptions) x), "
    "CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END, am.amname "
    "FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_am am ON c.relam = am.oid WHERE c.relname = 'regions'",
    "SELECT pg_catalog.pg_encoding_to_char(encoding), datlocprovider FROM pg_catalog.pg_database WHERE datname = "
    "current_database()",
    # Drivers: types, their lists, how they are sent.
    "SELECT t.typname, t.typarray, t.typelem, t.typtype, t.typdelim, t.typlen FROM pg_type t WHERE t.oid IN "
    "(16,17,20,21,23,25,26,700,701,1043,1082,1083,1114,1184,1186,1700,2950,1009,1016) ORDER BY t.oid",
    "SELECT t.oid, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS kind FROM pg_type AS t "
    "JOIN pg_proc AS p ON p.oid = t.typreceive WHERE t.typname IN ('int4', '_int4', 'text', '_text') ORDER BY t.oid",
    "SELECT typinput = 'pg_catalog.array_in'::regproc AS is_array, typtype FROM pg_type WHERE typname = '_int8'",
    "SELECT 'int8'::regtype::oid, 'numeric'::regtype::text, 'pg_class'::regclass::oid, "
    "to_regtype('hstore') IS NULL AS h, "
    "'information_schema.tables'::regclass::text",
    "SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type WHERE "
    "(typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv' "
    "AND typname IN ('int8', 'text', 'bool') "
    "ORDER BY oid",
    "SELECT CAST('-12345.678901' AS numeric) AS a, -1.23456::numeric AS b, '\\x00ff41'::bytea AS c, "
    "'7'::numeric(5,2) AS d",
    "SELECT attname FROM pg_attribute WHERE attrelid = '\"regions\"'::regclass::oid AND attnum > 0 ORDER BY attnum",
    "SELECT nspname AS TABLE_SCHEM, NULL AS TABLE_CATALOG FROM pg_catalog.pg_namespace WHERE nspname = 'public'",
    "SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname = ANY (current_schemas(true))",
    "SELECT i.indrelid, (information_schema._pg_expandarray(i.indkey)).n FROM pg_catalog.pg_index i "
    "WHERE i.indrelid = 'orders'::regclass",
    "SELECT conname, pg_catalog.pg_get_constraintdef(oid, true) FROM pg_catalog.pg_constraint WHERE "
    "contype = 'f'::\"char\"",
    "SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname = 'orders' "
    "AND a.attnum = ANY ('{1,2}'::int[]) ORDER BY attnum",
    # information_schema, as Power BI, Metabase and Excel read it.
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.tables WHERE TABLE_SCHEMA = "
    "'public' ORDER BY 2",
    "SELECT column_name, ordinal_position, is_nullable, data_type, numeric_precision, numeric_scale, udt_name, "
    "character_maximum_length, datetime_precision FROM information_schema.columns WHERE table_name = "
    "'orders' ORDER BY 2",
    "SELECT character_set_name FROM information_schema.character_sets",
    "SELECT k.column_name FROM information_schema.table_constraints c JOIN information_schema.key_column_usage k "
    "ON c.constraint_name = k.constraint_name WHERE c.table_name = 'orders'",
    # Grafana, Superset, Metabase.
    "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
    "SELECT quote_ident('order'), quote_ident('orders'), quote_ident('Order\"s'), quote_literal('it''s')",
    "SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'hstore'",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = '12345'",
    "SELECT has_table_privilege('orders', 'select'), has_any_column_privilege('orders', 'SELECT')",
    "SELECT COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', 'public', 'regions') AS REGCLASS) AS OID), 2) IS NULL AS x",
    # pgcli and pgAdmin 4.
    "SELECT p.proname, COALESCE(p.proallargtypes::regtype[], NULL)::text[] AS kinds FROM pg_proc p "
    "WHERE p.proname = 'int4in' AND p.prorettype::regtype <> 'trigger'::regtype AND false",
    "SELECT 25::regtype::text, ARRAY[25, 20]::regtype[]::text[] AS names",
    "SELECT (a).grantee, (a).privilege_type FROM (SELECT aclexplode(d.datacl) AS a FROM pg_database d WHERE false) x",
    "SELECT c.xmin IS NULL AS missing FROM pg_catalog.pg_class c WHERE c.relname = 'orders'",
    "SELECT x.extname, e.comment FROM pg_extension x JOIN pg_catalog.pg_available_extensions() e ON x.extname = e.name "
    "WHERE false",
    "SELECT substring('fillfactor=70,a=b' FROM 'fillfactor=([0-9]*)') AS f, "
    "pg_catalog.substring('WHEN (x) EXECUTE', 'WHEN .* EX') AS w, substring('abc' FROM 'x') IS NULL AS n",
    "SELECT encode('\\x00ff'::bytea, 'hex') AS h, encode('a'::bytea, 'base64') AS b, bpchar('v') = 'v' AS c",
    "SELECT pg_catalog.to_char(TIMESTAMP '2024-02-03 04:05:06', 'YYYY-MM-DD HH24:MI:SS') AS t",
    "SELECT 'x' AS name, pg_catalog.row_to_json(t)::text AS data FROM (SELECT 1 AS \"In use\", NULL AS c) t",
    "SELECT lower(word) AS word FROM (SELECT regexp_split_to_table('a B', '\\W+') AS word) w ORDER BY 1",
    # R.
    "SELECT schemaname, tablename, hasindexes FROM pg_tables WHERE schemaname = ANY(current_schemas(false)) ORDER BY 2",
    "SELECT COUNT(*) > 50 AS many FROM pg_views WHERE schemaname = 'pg_catalog'",
    # Expressions alone.
    "SELECT 1 AS one, 'x' AS x, 1.5 AS d, true AS t, NULL AS n, 2 + 2 AS s",
    "SELECT current_setting('standard_conforming_strings'), current_setting('nothing.here', true)",
    "SELECT CASE WHEN true THEN 1 ELSE 2 END, upper('x'), 'pg_catalog.int4in'::regproc::oid > 0 AS "
    "b, ARRAY['a'], coalesce(NULL, 3)",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT n FROM t ORDER BY n",
]
SAME = {
    18: 25,
    19: 25,
    24: 25,
    194: 25,
    705: 25,
    1043: 25,
    2205: 25,
    2206: 25,
    1003: 1009,
    1002: 1009,
    28: 26,
    1184: 1114,
}
"""Types that the emulation shows as their nearest kin."""


@pytest.fixture(scope="module")
def real() -> Iterator[object]:
    """A connection to a real PostgreSQL with the same tables."""
    import psycopg

    from tests.postgres import cluster

    with cluster() as running:
        url = running.database() if hasattr(running, "database") else running.url("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(DECLARED)
            yield connection


@pytest.mark.parametrize("text", STATEMENTS)
def test_the_emulation_answers_as_postgres_does(study: Study, real: object, text: str) -> None:
    cursor = real.execute(text)  # type: ignore[attr-defined]
    answered = study.answer(text)
    assert [field.name for field in answered.fields] == [column.name for column in cursor.description]
    kinds = [SAME.get(column.type_code, column.type_code) for column in cursor.description]
    shown = [SAME.get(field.oid, field.oid) for field in answered.fields]
    assert [(a, b) for a, b in zip(kinds, shown, strict=True) if a != b and {a, b} - {20, 21, 23}] == []
    assert [_plain(row) for row in study.rows(text)] == [_plain(row) for row in cursor.fetchall()]


def _plain(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(float(value) if type(value).__name__ == "Decimal" else value for value in row)  # type: ignore[arg-type]


def test_every_statement_is_described_as_it_is_answered(study: Study) -> None:
    for text in STATEMENTS:
        assert study.engine.describe(text, (), "alice", {}).fields == study.answer(text).fields
    assert study.entries == 0


def test_comments_show_what_is_declared(study: Study) -> None:
    rows = dict(  # type: ignore[var-annotated]
        study.rows(  # type: ignore[arg-type]
            "SELECT a.attname, col_description(a.attrelid, a.attnum) FROM pg_attribute a "
            "WHERE a.attrelid = 'orders'::regclass"
        )
    )
    assert rows["customer_id"] == "Privacy unit: names the customer."
    assert rows["qty"] == "Clamped to 0 .. 20."
    assert rows["region"] == "Where it was sent. Public keys: east, north, south, west."
    assert rows["is_new"] == "Public keys: false, true."
    ((said,),) = study.rows("SELECT obj_description('orders'::regclass, 'pg_class')")
    assert said == (
        "One row for each order. Private: protects each customer. "
        "Rows of one customer: at most 60 in all (default). One customer counts in at most 12 groups."
    )


def test_everybody_may_select_and_do_nothing_more(study: Study) -> None:
    text = (
        "SELECT (a).grantee, (a).privilege_type, (a).is_grantable FROM (SELECT aclexplode(relacl) AS a FROM pg_class "
    )
    assert study.rows(f"{text} WHERE relname = 'orders') x") == [(0, "SELECT", False)]


def test_json_is_told_as_json(study: Study) -> None:
    answered = study.answer("SELECT row_to_json(t) AS a, json_build_object('b', 1) AS c FROM (SELECT 1 AS b) t")
    assert [field.oid for field in answered.fields] == [114, 114]


def test_virtual_tables_are_listed(study: Study) -> None:
    assert study.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'dp' ORDER BY 1") == [
        ("budget",),
        ("columns",),
        ("releases",),
    ]


def test_no_statistics_come_from_data(study: Study) -> None:
    assert study.rows("SELECT DISTINCT reltuples, relpages FROM pg_class") == [(-1.0, 0)]
    for table in ("pg_stats", "pg_statistic", "pg_stat_activity", "pg_stat_user_tables", "pg_stat_all_tables"):
        assert study.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]
    assert study.rows("SELECT pg_total_relation_size('orders'::regclass), pg_size_pretty(5)") == [(0, "0 bytes")]


def test_roles_show_nobody_else(study: Study) -> None:
    assert study.rows("SELECT rolname FROM pg_roles ORDER BY 1") == [("alice",), ("dpquery",)]
    assert study.rows("SELECT usename FROM pg_user ORDER BY 1") == [("alice",), ("dpquery",)]
    assert study.rows("SELECT DISTINCT grantee FROM information_schema.table_privileges") == [("alice",)]


@pytest.mark.parametrize(
    "text", ["SELECT now()", *(f'SELECT "{name}"' for name in ("localtimestamp", "LocalTime", "current_date"))]
)
def test_what_reads_a_clock_is_not_a_constant(study: Study, text: str) -> None:
    assert not study.answer(text).is_lasting
    assert study.answer("SELECT 1 AS localtimestamp_").is_lasting


def test_synopses_are_listed_as_long_as_they_are_there() -> None:
    study = Study()
    listed = (
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('public', 'synopsis') "
        "ORDER BY 2, 1"
    )
    columns = (
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'synopsis' "
        "AND table_name = 'orders' ORDER BY ordinal_position"
    )
    namespace = "SELECT COUNT(*) FROM pg_namespace WHERE nspname = 'synopsis'"
    by_oid = (
        "SELECT a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n "
        "ON n.oid = c.relnamespace WHERE n.nspname = 'synopsis' AND a.attnum > 0 AND c.relkind = 'r' ORDER BY a.attnum"
    )
    declared = [("public", "orders"), ("public", "regions")]
    assert study.rows(listed) == declared and study.rows(namespace) == [(0,)] and study.rows(columns) == []
    session = study.engine._session("alice")
    session.synopsis("orders", ["region", "is_new"], epsilon="1000", rows=40)
    assert study.rows(listed) == [declared[0], ("synopsis", "orders"), declared[1]]
    assert study.rows(namespace) == [(1,)]
    found = study.rows(columns)
    assert ("region", "text") in found and ("is_new", "boolean") in found
    assert found[-1] == ("row_weight", "double precision")
    assert study.rows(by_oid) == [(name,) for name, _ in found]
    assert study.rows("SELECT 'synopsis.orders'::regclass::text, 'orders'::regclass::text") == [
        ("synopsis.orders", "orders")
    ]
    assert study.rows("SELECT COUNT(*) FROM dp.columns WHERE table_name = 'synopsis.orders'") == [(len(found),)]
    assert study.rows("SELECT pg_table_is_visible('synopsis.orders'::regclass)") == [(False,)]
    for text in (listed, by_oid, "SELECT to_regclass('synopsis.orders')", "SELECT 'orders'::regclass::oid"):
        assert not study.answer(text).is_lasting
    session.synopses.drop("orders")
    assert study.rows(listed) == declared and study.rows(namespace) == [(0,)]
    study.close()


def test_oids_are_those_of_the_next_start() -> None:
    first, second = Study(), Study()
    text = "SELECT oid, relname FROM pg_class WHERE relnamespace = 2200 ORDER BY 1"
    assert first.rows(text) == second.rows(text)
    assert all(oid > 16383 for oid, _ in first.rows(text))  # type: ignore[operator]
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("SELECT current_setting('no.such')", "42704"),
        ("SELECT nothing FROM pg_class", "0A000"),
        ("SELECT * FROM pg_catalog.pg_nothing", "42P01"),
        ("SELECT no_such_function(1)", "42883"),
        ("SELECT * FROM pg_catalog.no_such_function(1)", "42883"),
        ("SELECT set_config('dpquery.epsilon', '9', false)", "42501"),
    ],
)
def test_what_is_not_emulated_is_refused(study: Study, text: str, sqlstate: str) -> None:
    with pytest.raises(Refusal) as raised:
        study.answer(text)
    assert raised.value.sqlstate == sqlstate
