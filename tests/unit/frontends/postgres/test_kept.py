"""What is kept of answers that are always the same: by all that they depend on, each user apart, in bounded memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpquery.frontends.postgres.login.shares import (
    LONGEST,
    MOST_OF_ONE,
    MOST_OF_USER,
    MOST_USERS,
    StatementCache,
    key_of,
)
from dpquery.frontends.postgres.wire.answers import Described, Field, StatementAnswer

FIELDS = (Field(name="a", oid=23),)
ONE = StatementAnswer(fields=FIELDS, table=pa.table({"a": [1]}), is_lasting=True)
TYPES = Described(parameters=(), fields=FIELDS)


def key(
    text: str = "SELECT 1", given: tuple[object, ...] = (), analyst: str = "ann", **other: str
) -> tuple[object, ...]:
    return key_of(text, given, analyst, {"timezone": "UTC", **other}, 0)


def test_answers_and_types_of_one_statement_are_apart() -> None:
    kept = StatementCache()
    kept.keep("ann", key(), ONE)
    assert kept.find("ann", key(), Described) is None
    kept.keep("ann", key(), TYPES)
    assert kept.find("ann", key(), StatementAnswer) is ONE
    assert kept.find("ann", key(), Described) is TYPES


@pytest.mark.parametrize(
    "other",
    [
        key("SELECT 2"),
        key(given=(1,)),
        key(analyst="ben"),
        key(timezone="CET"),
        key_of("SELECT 1", (), "ann", {"timezone": "UTC"}, 1),
    ],
)
def test_all_that_an_answer_depends_on_counts(other: tuple[object, ...]) -> None:
    """ACC-14: nobody is given what another asked, or what an engine said that has ended."""
    kept = StatementCache()
    kept.keep("ann", key(), ONE)
    assert kept.find("ann", other, StatementAnswer) is None
    assert kept.find("ben", key(), StatementAnswer) is None


def test_values_that_are_equal_are_told_apart_by_their_form() -> None:
    assert len({key(given=(value,)) for value in (1, 1.0, True, "1")}) == 4


def test_what_is_long_is_not_kept() -> None:
    kept, wide = (
        StatementCache(),
        StatementAnswer(fields=FIELDS, table=pa.table({"a": ["x" * MOST_OF_ONE]}), is_lasting=True),
    )
    for of, made in ((key("1" * (LONGEST + 1)), ONE), (key(given=("1" * LONGEST,)), ONE), (key(), wide)):
        kept.keep("ann", of, made)
        assert kept.find("ann", of, StatementAnswer) is None


def test_memory_is_bounded_and_nobody_pushes_out_what_another_asks() -> None:
    """WRK-05."""
    kept, size = StatementCache(), MOST_OF_ONE // 2
    long = StatementAnswer(fields=FIELDS, table=pa.table({"a": ["x" * size]}), is_lasting=True)
    kept.keep("ben", key(), ONE)
    for i in range(100):
        kept.keep("ann", key(f"SELECT {i}"), long)
    found = [i for i in range(100) if kept.find("ann", key(f"SELECT {i}"), StatementAnswer) is not None]
    assert found == list(range(found[0], 100))
    assert len(found) <= MOST_OF_USER // size
    assert kept.find("ben", key(), StatementAnswer) is ONE
    for i in range(2 * MOST_USERS):
        kept.keep(f"user{i}", key(), ONE)
    assert sum(kept.find(f"user{i}", key(), StatementAnswer) is not None for i in range(2 * MOST_USERS)) == MOST_USERS
