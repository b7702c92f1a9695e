"""Someone writes plans so that one unit moves a number further than its noise is for.

Plans are made by hand, at random, far from what SQL becomes; the gate's own rules judge them, and the reference
interpreter runs them on neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, Scan
from dpquery.plan.types import INT64
from dpquery.units.weights import weighed
from tests.properties.weighed_pairs import KINDS, Found, check_plan, look
from tests.properties.weighed_plans import Maker, catalog_of, frames_of, world
from tests.reference.backend import ReferenceBackend

PLANS, GUESTS, SLOW_PAIRS, SLOW_PLANS = 15, 30, 100_000, 300


@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_moves_no_number_of_any_plan_further_than_its_sensitivity(kind: str) -> None:
    found = Found()
    for seed in range(PLANS):
        check_plan(found, kind, seed, guests=GUESTS)
    assert not found.violations
    assert found.pairs > 10 * PLANS
    assert found.tight > len(found.attainable) * 0.75 and len(found.attainable) > 2 * PLANS
    assert any("scaled to a total" in shape for shape in found.by_shape())


@pytest.mark.slow
def test_very_many_pairs_of_neighbours_move_no_number_further_than_its_sensitivity() -> None:
    found = look(SLOW_PAIRS, plans=SLOW_PLANS)
    assert not found.violations
    assert found.tight > len(found.attainable) * 0.9
    assert {"rounds", "turns", "totals", "stored weights, in strata, Bernstein terms"} <= found.vectors.keys()


@pytest.mark.slow
def test_the_engine_moves_no_number_further_either() -> None:
    found = look(SLOW_PAIRS // 5, engine="duckdb", first=10**6)
    assert not found.violations
    assert {"rounds", "turns", "totals", "stored weights, in strata, Bernstein terms"} <= found.vectors.keys()


def test_rows_of_a_unit_and_a_computed_key_are_as_many_as_the_key_has_values() -> None:
    """An expression was once taken for a constant, as what reads its columns was read twice."""
    catalog = catalog_of()
    scan = Maker(Random(1), catalog).scan("orders")
    assert isinstance(scan, Scan)
    scan = replace(scan, row_limit=1000)
    key = next(c for c in scan.columns if c.name == "key")
    moved_key = Computed(
        id="more", name="", expression=call("add", (Column(id=key.id, type=INT64), Literal(value=1, type=INT64)))
    )
    unit = Computed(id="whose", name="", expression=Column(id=scan.unit or "", type=INT64))
    grouped = Aggregate(
        source=Project(source=scan, columns=(unit, moved_key)), group_by=("whose", "more"), aggregates=()
    )
    sizes = ReferenceBackend(catalog, frames_of(world(Random(2))))
    assert weighed(grouped, catalog.declarations, sizes).rows == 1000


def test_a_key_made_of_itself_many_times_is_judged_at_once() -> None:
    """Each level reads the one below twice; forty levels would take longer than anybody waits."""
    catalog = catalog_of()
    maker = Maker(Random(1), catalog)
    relation: Relation = maker.scan("orders")
    unit, *read = maker.units(relation)[0], *(column.id for column in maker.columns(relation, INT64)[1:3])
    for _ in range(40):
        pair = tuple(Column(id=id, type=INT64) for id in read)
        made: list[Expression] = [call("add", pair), call("subtract", pair), Column(id=unit, type=INT64)]
        columns = tuple(Computed(id=maker.id(), name="", expression=expression) for expression in made)
        relation = Project(source=relation, columns=columns)
        *read, unit = (column.id for column in columns)
    grouped = Aggregate(source=relation, group_by=(unit, read[0]), aggregates=())
    sizes = ReferenceBackend(catalog, frames_of(world(Random(2))))
    assert weighed(grouped, catalog.declarations, sizes).rows is not None
