"""Ten questions whose refusals once helped nobody: each is answered, or its message says what to write."""

from __future__ import annotations

import pytest

import dpquery as dp
from dpquery.errors import QuerySyntaxError
from dpquery.sql.bind.wording import function_meant
from dpquery.sql.parse.parse import read
from tests.analysts.worlds import session_of

SERIES = """
SELECT x, COUNT(order_id) FROM generate_series(1, 3) AS g (x) LEFT JOIN order_items ON quantity = x GROUP BY x
"""
KEYS = "SELECT product_id, name, COUNT(*) FROM order_items JOIN products USING (product_id) GROUP BY 1, 2"
ANSWERED = [
    ("shop", "snowflake", "SELECT segment, ROUND(AVG(age), 2) AS a FROM customers GROUP BY segment"),
    ("shop", "bigquery", "SELECT COUNTIF(newsletter) AS n FROM customers"),
    ("hr", "postgres", "SELECT COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY salary) AS q FROM employees) t WHERE q<2"),
    ("shop", "postgres", KEYS),
    ("shop", "postgres", "SELECT percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY age) FROM customers"),
    ("shop", "postgres", SERIES),
    ("shop", "postgres", "SELECT country, COUNT(*) AS n FROM customers GROUP BY country HAVING n > 10"),
    ("shop", "snowflake", "SELECT VAR_SAMP(age) FROM customers"),
    ("shop", "tsql", "SELECT VAR(age) AS v FROM customers"),
    ("shop", "postgres", "SELECT COUNT(*) FROM orders WHERE shipped_at > ordered_at + 3 * INTERVAL '1 day'"),
]  # fmt: skip
ADVISED = [
    ("hospital", "SELECT AVG(discharged - admitted) FROM admissions", "EXTRACT(EPOCH FROM AVG(discharged - admitted))"),
    ("shop", "SELECT ARRAY[age] FROM customers", "ask for each by itself"),
    ("shop", "SELECT (ARRAY_AGG(age))[1] FROM customers", "FIRST(x ORDER BY y)"),
    ("hr", "SELECT COUNT(*) FROM (SELECT RANK() OVER (ORDER BY salary) AS r FROM employees) t", "PARTITION BY"),
    ("shop", "SELECT generate_series(1, MAX(age)) FROM customers", "FROM (VALUES"),
    ("shop", "SELECT vari(age) FROM customers", "reference of SQL"),
]


@pytest.mark.parametrize(("schema", "dialect", "query"), ANSWERED)
def test_is_answered(schema: str, dialect: str, query: str) -> None:
    assert len(session_of(schema).sql(query, dialect=dialect)) > 0


@pytest.mark.parametrize(("schema", "query", "advice"), ADVISED)
def test_says_what_to_write(schema: str, query: str, advice: str) -> None:
    with pytest.raises(dp.QueryError) as refused:
        session_of(schema).sql(query)
    assert advice in refused.value.advice


def test_notebooks_show_a_refusal_without_the_packages_own_lines() -> None:
    with pytest.raises(dp.QueryError) as refused:
        session_of("shop").sql("SELECT nothing FROM customers")
    (shown,) = refused.value._render_traceback_()
    assert "column nothing does not exist" in shown
    assert "Traceback" not in shown
    assert ".py" not in shown


@pytest.mark.parametrize(
    ("call", "dialect"),
    [("DATETIME_ADD(x)", "bigquery"), ("TIME_SUB()", "bigquery"), ("DATEDIFF(DISTINCT x)", "tsql"), ("XOR()", "mysql")],
)
def test_calls_on_which_the_parser_stumbles_are_errors_of_syntax(call: str, dialect: str) -> None:
    with pytest.raises(QuerySyntaxError):
        read(f"SELECT {call} FROM t", dialect)


def test_a_function_of_another_dialect_is_looked_for_in_short_calls() -> None:
    assert "duckdb" in function_meant("strftime", "strftime(x, '%Y')")
    assert "duckdb" not in function_meant("strftime", f"strftime(x, '{'%Y' * 1000}')")
    assert function_meant("xor", "XOR(") == function_meant("nothing", "nothing(x)") == ""
