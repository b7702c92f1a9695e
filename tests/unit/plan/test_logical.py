"""Relations refuse to be built where they make no sense."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpquery.plan.expr import Column, Literal
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Matched,
    OutputColumn,
    Project,
    Relation,
    SetOperation,
    Values,
)
from dpquery.plan.types import INT64, TEXT

ONE = Values(columns=(OutputColumn(id="a", name="a", type=INT64),), rows=((1,), (2,)))
OTHER = Values(columns=(OutputColumn(id="b", name="b", type=TEXT),), rows=(("x",),))
A, B = Column(id="a", type=INT64), Column(id="b", type=TEXT)
TWICE = Computed(id="c", name="c", expression=A)
SET = Matched(id="c", name="c", type=INT64, left="a", right="a")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Values(columns=ONE.columns, rows=((1, 2),)),
        lambda: Filter(source=ONE, condition=A),
        lambda: Project(source=ONE, columns=(TWICE, TWICE)),
        lambda: Join(left=ONE, right=OTHER, kind="inner", equalities=((A, B),)),
        lambda: Join(left=ONE, right=OTHER, kind="inner", equalities=(), condition=Literal(value=1, type=INT64)),
        lambda: Aggregate(source=ONE, group_by=("a", "a"), aggregates=()),
        lambda: Limit(source=ONE, count=-1),
        lambda: Limit(source=ONE, count=None, offset=-1),
        lambda: SetOperation(kind="union_all", left=ONE, right=ONE, columns=(SET, SET)),
    ],
)
def test_nodes_that_make_no_sense_are_not_built(make: Callable[[], Relation]) -> None:
    with pytest.raises(ValueError):
        make()


def test_a_family_has_boundaries_of_its_plan() -> None:
    with pytest.raises(ValueError, match="a family has boundaries of its plan"):
        LogicalPlan(boundaries=(), result=ONE, families=((0,),))
