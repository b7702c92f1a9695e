"""SQL to operations: each has a spelling, dialects meet, and nothing that carries a modifier is let through."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from dpquery.plan.functions import FUNCTIONS
from dpquery.plan.types import FLOAT64, INT64
from dpquery.sql.names.functions import NAMED, PLAIN, division_of, operation_of

FOR_THE_BINDER = {"in", "divide", "int_divide"}


def parsed(sql: str, dialect: str = "postgres") -> exp.Expression:
    node: exp.Expression = sqlglot.parse_one(f"SELECT {sql}", read=dialect).expressions[0]
    return node


def found(sql: str, dialect: str = "postgres") -> str | None:
    operation = operation_of(parsed(sql, dialect))
    return operation and f"{operation[0]}({', '.join(part.sql('postgres') for part in operation[1])})"


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - FOR_THE_BINDER))
def test_the_spelling_of_an_operation_means_it(name: str) -> None:
    operation = operation_of(parsed(FUNCTIONS[name].sql))
    positive = {"is_not_true": "not", "is_not_false": "not"}
    assert operation is not None
    assert operation[0] == positive.get(name, name)
    assert operation[0] in FUNCTIONS


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_row_says_what_the_parser_makes_of_it_or_the_code_does(name: str) -> None:
    listed = {operation for operation, _ in (*PLAIN.values(), *NAMED.values())}
    assert (name in listed) == bool(FUNCTIONS[name].parsed)


@pytest.mark.parametrize(
    ("dialect", "sql", "expected"),
    [
        ("postgres", "a AND (b AND c) AND d", "and(a, b, c, d)"),
        ("postgres", "a || b || 'x'", "concat(a, b, 'x')"),
        ("postgres", "a NOT LIKE 'x'", "not(a LIKE 'x')"),
        ("postgres", "a NOT LIKE 'x!%' ESCAPE '!'", "not(a LIKE 'x!%' ESCAPE '!')"),
        ("postgres", "a LIKE 'x!%' ESCAPE '!'", "like(a, 'x!%', '!')"),
        ("postgres", "a IS NOT NULL", "is_not_null(a)"),
        ("postgres", "a !~ 'x'", "not(a ~ 'x')"),
        ("postgres", "TRIM(LEADING 'x' FROM a)", "ltrim(a, 'x')"),
        ("postgres", "ROUND(a)", "round(a)"),
        ("postgres", "DATE_PART('dow', a)", "extract_dow(a)"),
        ("postgres", "a + INTERVAL '1 week'", "add_days(a, 7)"),
        ("postgres", "INTERVAL '1 day' + a", "add_days(a, 1)"),
        ("postgres", "a - INTERVAL '2 years'", "add_months(a, -24)"),
        ("postgres", "a - INTERVAL '-3' MINUTE", "add_microseconds(a, 180000000)"),
        ("postgres", "a + 3 * INTERVAL '1 day'", "add_days(a, 3)"),
        ("postgres", "a - INTERVAL '2 hours' * b", "add_microseconds(a, ((b) * 2) * -3600000000)"),
        ("postgres", "MICROSECONDS_BETWEEN(a, b)", "microseconds_between(a, b)"),
        ("postgres", "FULL_MONTHS_BETWEEN(a, b)", "full_months_between(a, b)"),
        ("redshift", "DATEDIFF(day, a, b)", "date_diff('day', a, b)"),
        ("snowflake", "ROUND(a, 2)", "round(a, 2)"),
        ("postgres", "TO_CHAR(a, 'YYYY-MM-DD HH24:MI:SS')", "format_date(a, '%Y-%m-%d %H:%M:%S')"),
        ("duckdb", "DATE_DIFF('month', a, b)", "date_diff('month', a, b)"),
        ("duckdb", "LEN(a)", "length(a)"),
        ("duckdb", "STRLEN(a)", "octet_length(a)"),
        ("duckdb", "a // b", "int_divide(a, b)"),
        ("duckdb", "ISODOW(a)", "extract_isodow(a)"),
        ("duckdb", "DATE_ADD(a, INTERVAL 2 QUARTER)", "add_months(a, 6)"),
        ("duckdb", "PREFIX(a, 'x')", "starts_with(a, 'x')"),
        ("snowflake", "DATEADD(month, b, a)", "add_months(a, b)"),
        ("snowflake", "DATEADD(year, -b, a)", "add_months(a, (-b) * 12)"),
        ("snowflake", "DATEDIFF(day, a, b)", "date_diff('day', a, b)"),
        ("snowflake", "DATE_TRUNC('month', a)", "date_trunc('month', a)"),
        ("snowflake", "EQUAL_NULL(a, b)", "is_not_distinct_from(a, b)"),
        ("snowflake", "CHARINDEX('x', a)", "position(a, 'x')"),
        ("bigquery", "SAFE_DIVIDE(a, b)", "divide(a, b)"),
        ("bigquery", "DATE_TRUNC(a, MONTH)", "date_trunc('month', a)"),
        ("bigquery", "TIMESTAMP_ADD(a, INTERVAL 1 HOUR)", "add_microseconds(a, 3600000000)"),
        ("bigquery", "DATE_SUB(a, INTERVAL 1 MONTH)", "add_months(a, -1)"),
        ("bigquery", "DATE_DIFF(b, a, DAY)", "date_diff('day', a, b)"),
        ("bigquery", "REGEXP_CONTAINS(a, 'x')", "regexp_matches(a, 'x')"),
        ("postgres", "a SIMILAR TO 'x_%'", r"regexp_matches(a, '^(?:x(?:.|\n)(?:.|\n)*)$')"),
        ("postgres", "REGEXP_REPLACE(a, 'x', 'y')", "regexp_replace(a, 'x', 'y', '')"),
        ("postgres", "SUBSTRING(a FROM 'x')", "regexp_extract(a, 'x')"),
        ("bigquery", "REGEXP_EXTRACT(a, 'x')", "regexp_extract(a, 'x')"),
        ("bigquery", "CONCAT(a, b)", "concat(a, b)"),
        ("bigquery", "LOG(a, 2)", "log2(a)"),
        ("bigquery", "LOG(a)", "ln(a)"),
        ("tsql", "ISNULL(a, b)", "coalesce(a, b)"),
        ("tsql", "YEAR(a)", "extract_year(CAST(a AS DATE))"),
        ("tsql", "DATEPART(quarter, a)", "extract_quarter(a)"),
        ("tsql", "EOMONTH(a)", "last_day(CAST(a AS DATE))"),
        ("tsql", "DATEADD(day, 1, a)", "add_days(a, 1)"),
    ],
)
def test_dialects_meet(dialect: str, sql: str, expected: str) -> None:
    assert found(sql, dialect) == expected


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgres", "RANDOM()"),
        ("postgres", "NOW()"),
        ("postgres", "GEN_RANDOM_UUID()"),
        ("postgres", "NEXTVAL('s')"),
        ("postgres", "MY_UDF(a)"),
        ("duckdb", "ERROR(a)"),
        ("duckdb", "READ_TEXT(a)"),
        ("postgres", "PG_SLEEP(a)"),
        ("postgres", "REPEAT(a, 1000000000)"),
        ("postgres", "a ~* 'x'"),
        ("duckdb", "REGEXP_MATCHES(a, 'x', 'i')"),
        ("snowflake", "RLIKE(a, 'x')"),
        ("postgres", "TRUNC(a, 2)"),
        ("postgres", "DATE_TRUNC('day', a, 'UTC')"),
        ("bigquery", "TIMESTAMP_TRUNC(a, DAY, 'UTC')"),
        ("bigquery", "DATE_TRUNC(a, WEEK)"),
        ("bigquery", "EXTRACT(DAYOFWEEK FROM a)"),
        ("tsql", "ROUND(a, 2, 1)"),
        ("bigquery", "INSTR(a, 'x', 2)"),
        ("snowflake", "GREATEST(a, b)"),
        ("snowflake", "ADD_MONTHS(a, 1)"),
        ("postgres", "a + INTERVAL '1 year 2 days'"),
        ("postgres", "a + INTERVAL '1.5 days'"),
        ("postgres", "a << 2"),
        ("postgres", "EXTRACT(CENTURY FROM a)"),
        ("bigquery", "LAST_DAY(a, YEAR)"),
        ("postgres", "LOG(3, a)"),
        ("postgres", "CLAMP(a, 1)"),
        ("postgres", "a AT TIME ZONE 'UTC'"),
        ("postgres", "MD5(a)"),
        ("postgres", "~a"),
        ("postgres", "a LIKE ANY (ARRAY['x'])"),
        ("postgres", "a LIKE b"),
        ("postgres", "DATE_DIFF('day', a, b)"),
        ("postgres", "a IS OF (int)"),
        ("postgres", "a[1]"),
        ("postgres", "a -> 'b'"),
        ("mysql", "a XOR b"),
        ("postgres", "INTERVAL '1 day' - a"),
        ("postgres", 'a COLLATE "C"'),
        ("postgres", "TAN(a)"),
    ],
)
def test_what_is_not_known_in_full_is_nothing(dialect: str, sql: str) -> None:
    try:
        node = parsed(sql, dialect)
    except sqlglot.errors.SqlglotError:
        return
    assert operation_of(node) is None


def test_every_class_is_checked_for_modifiers() -> None:
    for sql in (row.sql for name, row in FUNCTIONS.items() if name not in FOR_THE_BINDER):
        node = parsed(sql)
        node.set("unheard_of", exp.true())
        assert operation_of(node) is None, sql


def test_integers_divide_as_the_dialect_says() -> None:
    assert division_of(parsed("a / b"), INT64, INT64) == "int_divide"  # type: ignore[arg-type]
    assert division_of(parsed("a / b"), INT64, FLOAT64) == "divide"  # type: ignore[arg-type]
    assert division_of(parsed("a / b", "duckdb"), INT64, INT64) == "divide"  # type: ignore[arg-type]
