"""What BI tools ask all the time and what costs nothing: lists of values, bounds, probes; and what looks like it."""

from __future__ import annotations

import pytest

from tests.server.orders import Study

REGIONS = [("east",), ("north",), ("south",), ("west",)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # Tableau's filter list, Superset's filter box, Metabase's field values.
        (
            'SELECT CAST("o"."region" AS TEXT) AS "region" FROM "public"."orders" "o" GROUP BY 1 '
            "ORDER BY 1 ASC NULLS FIRST",
            REGIONS,
        ),
        ('SELECT "o"."region" AS "region" FROM "public"."orders" "o" GROUP BY 1', REGIONS),
        ("SELECT DISTINCT region AS column_values FROM public.orders LIMIT 10000", REGIONS),
        (
            'SELECT "public"."orders"."region" AS "region" FROM "public"."orders" GROUP BY "public"."orders"."region" '
            'ORDER BY "public"."orders"."region" ASC LIMIT 1000',
            REGIONS,
        ),
        ("SELECT region FROM orders GROUP BY region ORDER BY region DESC LIMIT 2", [("west",), ("south",)]),
        ("SELECT DISTINCT region AS r FROM orders ORDER BY r LIMIT 2 OFFSET 1", [("north",), ("south",)]),
        ("SELECT is_new FROM orders GROUP BY is_new", [(False,), (True,)]),
        # Range sliders.
        (
            'SELECT CAST(MIN("o"."qty") AS BIGINT) AS "TEMP(none:qty:qk lower)(1)(1)", '
            'CAST(MAX("o"."qty") AS BIGINT) AS '
            '"TEMP(none:qty:qk upper)(1)(1)" FROM "public"."orders" "o" HAVING (COUNT(1) > 0)',
            [(0, 20)],
        ),
        ("SELECT MIN(price) AS a, MAX(price) AS b FROM orders", [(0.0, 100.0)]),
        # Null probes of columns that hold none.
        ('SELECT "o"."region" FROM "public"."orders" "o" WHERE ("o"."region" IS NULL) LIMIT 1', []),
        # Schema probes and privilege probes.
        ("SELECT * FROM orders LIMIT 0", []),
        ("SELECT * FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS q WHERE 1=0", []),
        ('SELECT * FROM (SELECT * FROM orders) "Custom SQL Query" LIMIT 0', []),
        ('SELECT TRUE AS "_" FROM "public"."orders" WHERE 1 <> 1 LIMIT 0', []),
        ("SELECT region, SUM(amount) FROM orders WHERE false GROUP BY region", []),
        ("SELECT note FROM orders WHERE (1 = 0) AND note = 'x'", []),
        ("SELECT 1 FROM orders LIMIT 1", [(1,)]),
        ("SELECT 'x' AS a, TRUE AS b, NULL AS c FROM public.orders FETCH FIRST 1 ROWS ONLY", [("x", True, None)]),
        # Public tables, expressions, the server itself.
        ("SELECT COUNT(*) AS n FROM regions", [(4,)]),
        ("SELECT 1", [(1,)]),
        ("SELECT COUNT(*) FROM orders WHERE 1 = 0", [(0,)]),
        ("SELECT COUNT(*), SUM(CASE WHEN qty IS NULL THEN 1 ELSE 0 END) FROM orders WHERE region IS NULL", [(0, 0)]),
        ("SELECT 'it''s' AS x, 1 + 1 AS y, NULL AS z, true", [("it's", 2, None, True)]),
        ("SELECT current_database(), current_schema(), current_user", [("shop", "public", "alice")]),
        ("SELECT current_setting('server_version_num')::int/100 AS version", [(1500,)]),
        ("SELECT generate_series AS n FROM generate_series(1, 3)", [(1,), (2,), (3,)]),
    ],
)
def test_it_is_answered_free(study: Study, text: str, rows: list[tuple[object, ...]]) -> None:
    assert study.rows(text) == rows
    assert study.entries == 0
    assert study.answer(text).fields == study.engine.describe(text, (), "alice", {}).fields


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("VALUES (1, 'a'), (2, 'b') ORDER BY column2 DESC", ["column1", "column2"]),
        ("WITH v AS (VALUES (1)) SELECT * FROM v", ["column1"]),
        ("SELECT * FROM (VALUES (1)) AS t JOIN (VALUES (1)) AS u (x) ON x = column1", ["column1", "x"]),
        ("SELECT now(), now()::date", ["now", "now"]),
        ("SELECT CURRENT_TIMESTAMP", ["current_timestamp"]),
    ],
)
def test_columns_have_the_names_that_postgres_gives(study: Study, text: str, names: list[str]) -> None:
    assert study.answer(text).table.column_names == names


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT region FROM orders",
        "SELECT MIN(qty), MAX(qty) FROM orders",
        "SELECT region FROM orders WHERE region IS NULL",
    ],
)
def test_a_notice_says_that_it_is_declared(study: Study, text: str) -> None:
    (notice,) = study.answer(text).notices
    assert notice.startswith("no charge: ") and "declared" in notice


@pytest.mark.parametrize(
    "text",
    [
        "SELECT region FROM orders WHERE qty > 3 GROUP BY region",
        "SELECT region, COUNT(*) FROM orders GROUP BY region",
        "SELECT MIN(qty) FROM orders WHERE region = 'east'",
        "SELECT MIN(qty), COUNT(*) FROM orders",
        "SELECT region, MIN(qty) FROM orders GROUP BY region",
        "SELECT MIN(qty) FROM orders HAVING COUNT(1) > 5",
        "SELECT MIN(qty + 1) FROM orders",
        "SELECT MIN(qty) FILTER (WHERE is_new) FROM orders",
        "SELECT COUNT(*) FROM orders WHERE 1 = 1",
        "SELECT COUNT(*) FROM orders LIMIT 1",
        "SELECT is_new, COUNT(*) FROM orders WHERE 1 = 0 GROUP BY ROLLUP (is_new)",
    ],
)
def test_what_reads_data_is_charged_or_needs_no_measurement(text: str) -> None:
    """These resemble the free ones; whatever is measured for them is charged once, and said."""
    study = Study()
    answered = study.answer(text)
    is_charged = answered.notices[0].startswith("charged")
    assert study.entries == int(is_charged)
    if "COUNT" in text or "MIN" in text:
        assert is_charged
    study.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 FROM orders",
        "SELECT 1 FROM orders LIMIT 2",
        "SELECT 1 FROM orders WHERE customer_id = 7 LIMIT 1",
        "SELECT 1 FROM orders LIMIT 1 OFFSET 1000",
        "SELECT 1, qty FROM orders LIMIT 1",
        "SELECT 1 FROM orders AS a JOIN orders AS b ON a.customer_id = b.customer_id LIMIT 1",
    ],
)
def test_probes_that_would_tell_of_rows_are_refused(study: Study, text: str) -> None:
    with pytest.raises(Exception, match="42501"):
        study.answer(text)


def test_nullable_columns_are_not_declared_to_hold_no_null(study: Study) -> None:
    with pytest.raises(Exception, match="42501"):
        study.answer("SELECT note FROM orders WHERE note IS NULL LIMIT 1")
