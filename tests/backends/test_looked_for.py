"""Rows are looked for before they are grouped where a unit's own rows decide which, and few are expected."""

from __future__ import annotations

from typing import Any

import pytest

from dpquery.backends.duckdb.sql.semijoin_reduction import is_looked_for
from dpquery.plan.expr import Column, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Aggregate, Filter, Join, Ownership, Scan, ScanColumn
from dpquery.plan.types import INT64

OWNERSHIP = Ownership(path=(), column="id", type=INT64)


def visits(side: str) -> Scan:
    columns = tuple(ScanColumn(id=f"{side}_{name}", name=name, type=INT64) for name in ("id", "v"))
    return Scan(table="visits", columns=columns, public=False, unit=f"{side}_id", ownership=OWNERSHIP)


@pytest.mark.parametrize(
    ("kind", "equated", "compared", "expected"),
    [
        ("semi", "id", "eq", True),
        ("anti", "id", "eq", True),
        ("left", "id", "eq", False),  # its rows are there without a match too, of all groups
        ("inner", "id", "eq", False),
        ("semi", "v", "eq", False),  # another unit's rows would decide
        ("semi", "id", "gt", False),  # many rows are expected
    ],
)
def test_only_a_units_own_rows_decide_which_are_grouped(kind: Any, equated: str, compared: str, expected: bool) -> None:
    asked = call(compared, (Column(id="a_v", type=INT64), Literal(value=3, type=INT64)))
    around = Filter(source=visits("a"), condition=asked)
    groups = Aggregate(source=visits("b"), group_by=("b_id", "b_v"), aggregates=())
    sides = Column(id=f"a_{equated}", type=INT64), Column(id=f"b_{equated}", type=INT64)
    join = Join(left=around, right=groups, kind=kind, equalities=(sides,))
    assert is_looked_for(join, groups) is expected
