"""What a parsed statement is, as far as a server asks."""

from __future__ import annotations

import pytest

from dpquery.sql.parse.parse import read
from dpquery.sql.statements.parameter_types import TypeNumbers, inferred
from dpquery.sql.statements.statement_trees import as_query, position_of, tables_of

WORDS = ("bool", "int4", "int8", "numeric", "float8", "text", "date", "timestamp", "oid")
NUMBERS = TypeNumbers(
    words={word: number for number, word in enumerate(WORDS)},
    arrays={number: number + 100 for number in range(len(WORDS))},
)


@pytest.mark.parametrize(
    ("text", "is_query"),
    [
        ("SELECT 1", True),
        ("((SELECT a FROM t))", True),
        ("SELECT a FROM t UNION ALL SELECT b FROM u", True),
        ("VALUES (1), (2)", True),
        ("SELECT a FROM t FOR UPDATE", False),
        ("DELETE FROM t", False),
        ("INSERT INTO t SELECT 1", False),
    ],
)
def test_only_what_reads_is_a_query(text: str, is_query: bool) -> None:
    assert (as_query(read(text)[0], text) is not None) is is_query


def test_tables_are_those_that_are_stored_with_their_places() -> None:
    text = 'WITH c AS (SELECT x FROM "T") SELECT * FROM c JOIN pg_catalog.pg_class ON true JOIN s.c AS d ON true'
    found = {(table.schema, table.name, table.is_quoted): table.position for table in tables_of(read(text)[0], text)}
    assert set(found) == {("", "T", True), ("pg_catalog", "pg_class", False), ("s", "c", False)}
    assert found["", "T", True] == text.index('"T"') + 1 and position_of(read("SELECT 1")[0], "SELECT 1") == 1


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT a FROM t WHERE a = $1 AND b LIKE $2", {1: "date", 2: "text"}),
        ("SELECT a + $1 FROM t LIMIT $2", {1: "int8", 2: "int8"}),
        ("SELECT $1::float8, CASE WHEN $2 THEN 1 END", {1: "float8"}),
        ("SELECT a FROM t WHERE unknown = $1", {}),
        ("SELECT x.d FROM (SELECT 1.5 AS d) AS x WHERE d > $1", {1: "numeric"}),
    ],
)
def test_a_parameter_has_the_type_of_what_it_stands_beside(text: str, types: dict[int, str]) -> None:
    tree, placeholders = read(text)
    found = dict(inferred(tree, placeholders, NUMBERS, lambda name, _: NUMBERS.words["date"] if name == "a" else None))
    assert {key: WORDS[number] for key, number in found.items()} == types
