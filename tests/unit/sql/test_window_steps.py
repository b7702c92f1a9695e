"""Window functions over several orders are computed in steps, each over the columns that are read from there on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpquery.plan.logical import Relation, Window, output, sources
from dpquery.plan.types import TEXT
from dpquery.sql.bind.bind import bind
from dpquery.sql.parse.parse import parse
from tests.cases.catalogs import session_of

RANK, LAG = "RANK() OVER (PARTITION BY id ORDER BY test) AS r", "LAG(cost) OVER (PARTITION BY id ORDER BY taken) AS l"
FIRST = "LAG(cost) OVER (PARTITION BY id ORDER BY test) AS r"


def _windows(relation: Relation) -> Iterator[Window]:
    """Yields windows, the last step first."""
    if isinstance(relation, Window):
        yield relation
    for source in sources(relation):
        yield from _windows(source)


def _steps(select: str, condition: str) -> list[tuple[list[str], int]]:
    """Returns of each step its functions, and how many columns of text its rows have."""
    text = f"SELECT COUNT(*) FROM (SELECT {select} FROM labs) AS t WHERE {condition}"
    bound = bind(parse(text), session_of("hospital").catalog, text)
    windows = list(_windows(bound.boundaries[0].source))[::-1]
    return [([c.function for c in w.columns], sum(c.type == TEXT for c in output(w.source))) for w in windows]


@pytest.mark.parametrize("select", [f"id, {RANK}, {LAG}", f"id, {LAG}, {RANK}"])
def test_a_text_that_is_ordered_is_left_out_of_later_steps(select: str) -> None:
    assert _steps(select, "r > l") == [(["rank"], 1), (["lag"], 0)]


def test_a_text_that_is_read_above_stays() -> None:
    assert _steps(f"id, test, {RANK}, {LAG}", "r > l AND test <> 'x'") == [(["rank"], 1), (["lag"], 1)]


def test_places_in_two_orders_are_two_steps_and_the_text_comes_first() -> None:
    assert _steps(f"id, {LAG}, {FIRST}", "r > l") == [(["lag"], 1), (["lag"], 0)]


def test_what_has_one_order_or_none_is_one_step() -> None:
    more = "SUM(cost) OVER (PARTITION BY id) AS s, MAX(cost) OVER (PARTITION BY id ORDER BY taken) AS m"
    assert _steps(f"id, {LAG}, {more}", "l > s AND m > 1") == [(["lag"], 0), (["sum", "max"], 0)]
