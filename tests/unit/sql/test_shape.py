"""The shape of a query: its columns by the text and the catalog alone, also of queries that will not be answered."""

from __future__ import annotations

import pytest

import dpquery as dp
from dpquery.plan.types import BOOLEAN, INT64, TEXT, decimal
from dpquery.sql.bind.shape import ResultShape, shape
from tests.cases.catalogs import catalog_of


def of(text: str, *params: object) -> ResultShape:
    return shape(text, catalog_of("orders"), list(params) or None)


@pytest.mark.parametrize(
    ("text", "is_row_level", "is_empty"),
    [
        ("SELECT region FROM orders", True, False),
        ("SELECT region FROM orders ORDER BY qty LIMIT 5", True, False),
        ("SELECT * FROM (SELECT region FROM orders LIMIT 5) AS t", True, False),
        ("SELECT region FROM orders LIMIT 0", True, True),
        ("SELECT region FROM orders FETCH FIRST 0 ROWS ONLY", True, True),
        ("SELECT region FROM orders WHERE 1 <> 1", True, True),
        ("SELECT region FROM orders WHERE qty > 1 AND (FALSE)", True, True),
        ("SELECT region FROM orders WHERE 'a' = 'b'", True, True),
        ("SELECT region FROM orders WHERE 1 = 1", True, False),
        ("SELECT region FROM orders WHERE qty > 1 OR FALSE", True, False),
        ("SELECT region, COUNT(*) FROM orders GROUP BY region", False, False),
        ("SELECT region, COUNT(*) FROM orders WHERE false GROUP BY region", False, True),
        ("SELECT COUNT(*) FROM orders WHERE false", False, False),
        ("SELECT COUNT(*) FROM (SELECT region FROM orders WHERE false) AS t", False, False),
        ("SELECT region, COUNT(*) FROM orders WHERE false GROUP BY ROLLUP (region)", False, False),
        ("SELECT region FROM orders WHERE false UNION ALL SELECT name FROM regions", False, False),
        ("SELECT * FROM (SELECT COUNT(*) AS n FROM orders) AS t WHERE 0 = 1", False, True),
        ("SELECT COUNT(*) FROM orders LEFT JOIN regions ON false WHERE true", False, False),
        ("SELECT name FROM regions", False, False),
    ],
)
def test_what_the_text_says_of_rows(text: str, is_row_level: bool, is_empty: bool) -> None:
    try:
        found = of(text)
    except dp.QueryError:
        assert not is_empty
        return
    assert found.is_empty is is_empty
    assert found.is_row_level is is_row_level or "UNION" in text


def test_names_are_those_of_postgres() -> None:
    found = of(
        'SELECT Region AS Area, COUNT(*) AS "Count", MIN(qty), MIN(qty), SUM(amount), is_new FROM orders GROUP BY 1, 6'
    )
    assert [name for name, _ in found.columns] == ["area", "Count", "min", "min", "sum", "is_new"]
    assert [type for _, type in found.columns] == [TEXT, INT64, INT64, INT64, decimal(23, 2), BOOLEAN]


def test_parameters_are_values() -> None:
    assert of("SELECT region FROM orders LIMIT $1", 0).is_empty
    assert not of("SELECT region FROM orders LIMIT $1", 1).is_empty
    with pytest.raises(dp.QueryError):
        of("SELECT region, COUNT(*) FROM orders GROUP BY region LIMIT $1", "0")


@pytest.mark.parametrize("text", ["SELECT nothing FROM orders LIMIT 5", "SELECT * FROM nowhere LIMIT 0", "SELECT"])
def test_what_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(dp.QueryError) as refused:
        of(text)
    assert refused.value.text == text
