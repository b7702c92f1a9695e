"""Texts beyond the limits are refused after the limit: what follows is not read."""

from __future__ import annotations

import pytest
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token

from dpquery.errors import QuerySyntaxError
from dpquery.sql.parse.parse import MAX_CHARACTERS, MAX_DEPTH, MAX_STRING, MAX_TOKENS, read

TEXTS = {
    "brackets": "SELECT " + "(" * MAX_CHARACTERS,
    "brackets beside a parameter": "SELECT $1, " + "(" * MAX_CHARACTERS,
    "closed brackets": "SELECT " + "(" * 10_000 + "1" + ")" * MAX_CHARACTERS,
    "brackets behind a text": "SELECT '" + "(" * MAX_STRING + "', " + "(" * MAX_CHARACTERS,
    "lists": "SELECT " + "[" * MAX_CHARACTERS,
    "CASE": "SELECT " + "CASE " * MAX_CHARACTERS,
    "NOT": "SELECT " + "NOT " * MAX_CHARACTERS,
    "words": "SELECT " + "a," * MAX_CHARACTERS,
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns the list of how many tokens each run of the tokenizer made."""
    counts: list[int] = []
    plain = Dialect.tokenize

    def tokenize(self: Dialect, text: str, **options: object) -> list[Token]:
        tokens = plain(self, text, **options)  # type: ignore[arg-type]
        counts.append(len(tokens))
        return tokens

    monkeypatch.setattr(Dialect, "tokenize", tokenize)
    return counts


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "bigquery", "mysql"])
def test_twice_the_text_is_refused_with_the_same_work(made: list[int], name: str, dialect: str) -> None:
    read("SELECT 1", dialect)  # a dialect reads some of its own types when it is used first
    work = []
    for length in (MAX_CHARACTERS // 2, MAX_CHARACTERS):
        made.clear()
        with pytest.raises(QuerySyntaxError, match="more than"):
            read(TEXTS[name][:length], dialect)
        work.append(sum(made))
    assert 0 < work[0] == work[1] < MAX_CHARACTERS // 3


def test_the_place_is_the_first_beyond_the_limit() -> None:
    for n in (MAX_DEPTH + 1, 20_000):
        with pytest.raises(QuerySyntaxError, match="nested more than 50 deep") as found:
            read("SELECT " + "(" * n + "1" + ")" * n)
        assert found.value.span is not None
        assert found.value.span.start == len("SELECT ") + MAX_DEPTH


def test_what_a_quote_or_comment_holds_is_not_counted() -> None:
    deep = "(" * 5000
    for text in [
        f"SELECT '{deep}' AS a, '{'x' * 9000}' AS b",
        f"SELECT 1 /* {deep} */ AS a",
        f"SELECT 1 AS a -- {deep}\n, 2 AS b",
        f'SELECT 1 AS "{deep}", 2 AS b',
        f"SELECT $tag$ {deep} $tag$ AS a, 2 AS b",
        f"SELECT '{'(' * 4000}' || '{'(' * 4000}' AS a" + " " * 9000,
    ]:
        assert len(text) > 5000
        read(text)


def test_a_long_text_within_the_limits_is_read_as_it_is() -> None:
    columns = ", ".join(f"(a + {i}) AS column_{i}" for i in range(1000))
    text = f"SELECT {columns} FROM t"
    assert len(text) > 16_384
    tree, placeholders = read(text)
    assert len(tree.expressions) == 1000 and not placeholders
    assert tree.sql("postgres") == text


def test_placeholders_count_as_one_word_each() -> None:
    many = (MAX_TOKENS - 2) // 2
    text = "SELECT " + ",".join(["%(a)s"] * many)
    assert len(read(text)[1]) == many
    with pytest.raises(QuerySyntaxError, match=f"more than {MAX_TOKENS} words"):
        read(text + ", %(a)s, %(a)s")


def test_of_a_text_too_long_only_the_start_is_read(made: list[int]) -> None:
    for text, place in (("SELECT " + "(" * 10**6, MAX_CHARACTERS), ("é" * 10**6, MAX_CHARACTERS // 2)):
        with pytest.raises(QuerySyntaxError, match=f"longer than {MAX_CHARACTERS} bytes") as found:
            read(text)
        assert found.value.span is not None and found.value.span.start == place
    assert made == []
