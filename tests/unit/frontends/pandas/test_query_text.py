"""`DataFrame.query`'s text becomes SQL, or is refused; nothing of it is ever evaluated."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpquery as dp
from dpquery.frontends.pandas.columns import FrameColumn
from dpquery.frontends.pandas.query_text import Condition, condition_of

COLUMNS = {
    "age": FrameColumn(name="age", type="int64", nullable=False),
    "x": FrameColumn(name="x", type="float64"),
    "n": FrameColumn(name="n", type="int64", is_missing_unknown=True),
    "sex": FrameColumn(name="sex", type="text"),
    "day": FrameColumn(name="day", type="timestamp"),
    "ok": FrameColumn(name="ok", type="boolean"),
    'a"b; --': FrameColumn(name='a"b; --', type="int64", nullable=False),
}


def read(text: str, **local: object) -> Condition:
    return condition_of(text, COLUMNS, why_not={"odd": "it is odd"}, local_dict=local, first=0)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("age > 30 and sex == 'F'", '(("age" > :dp0) AND ("sex" = :dp1))'),
        ("age > 30 & sex == 'F'", '(("age" > :dp0) AND ("sex" = :dp1))'),
        ("18 <= age < 65", '((:dp0 <= "age") AND ("age" < :dp1))'),
        ("x != 3", 'COALESCE(("x" <> :dp0), TRUE)'),
        ("n != 3", '("n" <> :dp0)'),
        ("not x > 3", '(NOT COALESCE(("x" > :dp0), FALSE))'),
        ("not age > 3", '(NOT ("age" > :dp0))'),
        ("sex in ['F', 'M']", '("sex" IN (:dp0, :dp1))'),
        ("sex not in ('F',)", '(NOT COALESCE(("sex" IN (:dp0)), FALSE))'),
        ("age in []", "FALSE"),
        ("age / 2 + 1 > -3", '((CAST("age" AS DOUBLE PRECISION) / :dp0) + :dp1) > (-:dp2)'),
        ("ok or ~ok", '("ok" OR (NOT COALESCE("ok", FALSE)))'),
        ('`a"b; --` == 1', '("a""b; --" = :dp0)'),
    ],
)
def test_conditions(text: str, sql: str) -> None:
    assert read(text).text.strip("()") == sql.strip("()") or read(text).text == sql


def test_values_are_parameters() -> None:
    made = read("sex == \"F' OR 1=1 --\" and age > @limit and day >= '2020-01-01'", limit=7)
    assert "OR 1" not in made.text
    assert [str(value) for value in made.params.values()] == ["F' OR 1=1 --", "7", "2020-01-01 00:00:00"]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("x.abs() > 3", dp.UnsupportedQueryError, "calls"),
        ("__import__('os').system('true')", dp.UnsupportedQueryError, "calls"),
        ("(lambda: 1)() == 1", dp.UnsupportedQueryError, "calls"),
        ("x.real > 3", dp.UnsupportedQueryError, "attributes"),
        ("sex.str > 'a'", dp.UnsupportedQueryError, "attributes"),
        ("x[0] > 3", dp.UnsupportedQueryError, "brackets"),
        ("[y for y in [1]] == x", dp.UnsupportedQueryError, ""),
        ("x > (y := 3)", dp.UnsupportedQueryError, ""),
        ("x == None", dp.UnsupportedQueryError, "None"),
        ("x is x", dp.UnsupportedQueryError, "is compares"),
        ("f'{x}' == 'a'", dp.UnsupportedQueryError, ""),
        ("x > @limit", dp.UnsupportedQueryError, "@limit"),
        ("@x.y() > 3", dp.UnsupportedQueryError, "calls"),
        ("age if ok else x", dp.UnsupportedQueryError, ""),
        ("age", dp.UnsupportedQueryError, "must be a boolean column"),
        ("3", dp.UnsupportedQueryError, ""),
        ("age << 2 > 1", dp.UnsupportedQueryError, "operator"),
        ("index > 3", dp.UnknownNameError, "index"),
        ("odd > 3", dp.UnknownNameError, "it is odd"),
        ("agee > 3", dp.UnknownNameError, "age"),
        ("`no such` > 3", dp.UnknownNameError, "no such"),
        ("x >", dp.QuerySyntaxError, ""),
        ("", dp.QuerySyntaxError, ""),
        ("x = 3", dp.QuerySyntaxError, ""),
        ("x > 3; import os", dp.QuerySyntaxError, ""),
        ("x > 3) or (x < 3", dp.QuerySyntaxError, ""),
        ("x > 3\x00", dp.QuerySyntaxError, ""),
        ("not " * 5000 + "ok", dp.QuerySyntaxError, ""),
        ("x > 1" * 5000, dp.QuerySyntaxError, ""),
        ("x in x", dp.UnsupportedQueryError, "list"),
        ("x in [x]", dp.UnsupportedQueryError, "constants"),
        ("3 in [3]", dp.UnsupportedQueryError, "column"),
        (7, dp.UnsupportedQueryError, "string"),
    ],
)
def test_what_is_refused(text: str, error: type[dp.QueryError], words: str) -> None:
    with pytest.raises(error) as caught:
        read(text)
    assert words in str(caught.value)


def test_a_refusal_shows_its_place() -> None:
    with pytest.raises(dp.UnknownNameError) as caught:
        read("age > 3 and agee < 4")
    assert caught.value.column == 13


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=string.printable + "éß\u202e", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        made = read(text)
    except dp.QueryError:
        return
    assert set(made.text) <= set(string.printable)


@settings(max_examples=300, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(
            [
                *COLUMNS,
                '`a"b; --`',
                "and",
                "or",
                "not",
                "~",
                "&",
                "|",
                "(",
                ")",
                "==",
                "!=",
                "<",
                ">=",
                "in",
                "[1, 2]",
                "'F'",
                "3",
                "0.5",
                "-",
                "+",
                "*",
                "/",
                "%",
                "@y",
            ]
        ),
        max_size=9,
    )
)
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    try:
        read(" ".join(words), y=3)
    except dp.QueryError:
        return
