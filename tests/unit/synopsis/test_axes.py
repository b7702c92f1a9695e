"""Cells of columns, and the SQL that counts rows by groups of them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import numpy as np
import pytest

from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, Kind, Type
from dpquery.synopsis.axes import CELLS, MISSING, SynopsisAxis, literal, value_of
from dpquery.synopsis.rounds import merge

DAY = datetime.date(2024, 1, 1)
WARDS = SynopsisAxis(name="ward", type=TEXT, values=("A", "it's", "C"), nullable=True)
AGES = SynopsisAxis(name="a", type=INT64, edges=(0, 10, 20, 30), nullable=True)
DAYS = SynopsisAxis(name="d", type=DATE, edges=(DAY, DAY + datetime.timedelta(5), DAY + datetime.timedelta(9)))


def groups_of(axis: SynopsisAxis, groups: list[int], values: list[str]) -> list[int]:
    """Returns the group of each value, written as SQL."""
    rows = ", ".join(f"({value})" for value in values)
    query = f"SELECT {axis.sql(np.array(groups))} FROM (VALUES {rows}) AS t({axis.name})"
    return [row[0] for row in duckdb.execute(query).fetchall()]


def test_values_have_the_group_of_their_cell() -> None:
    assert groups_of(WARDS, [1, 0, 1, 2], ["'A'", "'it''s'", "'C'", "'D'", "NULL"]) == [1, 0, 1, MISSING, MISSING]


def test_ranges_are_clamped_and_end_before_the_next() -> None:
    values = ["-5", "0", "9", "10", "19", "20", "30", "99", "NULL"]
    assert groups_of(AGES, [0, 1, 2, 3], values) == [0, 0, 0, 1, 1, 2, 2, 2, MISSING]
    assert groups_of(AGES, [0, 0, 1, 2], values) == [0, 0, 0, 0, 0, 1, 1, 1, MISSING]
    assert groups_of(DAYS, [0, 1], ["DATE '2024-01-05'", "DATE '2024-01-06'"]) == [0, 1]


@pytest.mark.parametrize(
    ("value", "type", "written"),
    [
        (True, BOOLEAN, "TRUE"),
        ("a'b", TEXT, "'a''b'"),
        (1e-7, FLOAT64, "0.0000001"),
        (Decimal("1.50"), Type(kind=Kind.DECIMAL, precision=6, scale=2), "1.50"),
        (DAY, DATE, "DATE '2024-01-01'"),
    ],
)
def test_literals_are_exact(value: object, type: Type, written: str) -> None:
    assert literal(value, type) == written  # type: ignore[arg-type]


def test_numbers_become_values_of_their_type() -> None:
    assert value_of(DAY.toordinal(), DATE) == DAY
    assert value_of(7.9, INT64) == 7
    assert value_of(1.239, Type(kind=Kind.DECIMAL, precision=6, scale=2)) == Decimal("1.24")
    assert CELLS > 1


def test_groups_have_their_share_and_null_is_one_of_its_own() -> None:
    ages = merge(AGES, np.array([0.1, 0.5, 0.3, 0.1]), 0.25)
    assert ages.tolist() == [0, 0, 1, 2]
    wards = merge(WARDS, np.array([0.2, 0.6, 0.1, 0.1]), 0.25)
    assert wards.tolist() == [1, 0, 1, 2]
