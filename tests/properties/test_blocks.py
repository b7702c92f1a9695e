"""docs/proofs/blocks.md over random worlds: who differs in a block that is not charged is not seen at all."""

from __future__ import annotations

from random import Random

import pytest

import dpquery as dp
from dpquery.kernel.checks import blocks_of
from dpquery.plan.calendar import By, number_named
from dpquery.units.blocks import Touched
from tests.properties.dated import a_query, block_of, catalog_of, neighbour, rows_of, tables_of
from tests.properties.neighbours import Hall, check_inputs
from tests.properties.outside_blocks import look
from tests.properties.queries import Query
from tests.scripted import zero_noise

WORLDS, SLOW_WORLDS, QUERIES, PAIRS = 1, 5, 12, 4
LATER = range(WORLDS, SLOW_WORLDS)
OUTSIDE, SLOW_OUTSIDE = 200, 10_000


def is_charged(touched: Touched, block: str, by: By) -> bool:
    if block == "undated":
        return touched.undated
    return any(first <= number_named(block, by) <= last for first, last in touched.spans)


@pytest.mark.parametrize("worlds", [WORLDS, pytest.param(SLOW_WORLDS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", ["patient", "row"])
@pytest.mark.parametrize("by", [By.MONTH, By.WEEK])
def test_rows_of_a_block_move_only_what_is_charged_to_it(shelf: str, by: By, unit: str, worlds: int) -> None:
    """Lemma 2 and the theorem: nothing moves where the block is not charged, and else within the norms."""
    moved = unmoved = 0
    for seed in range(worlds):
        random = Random(f"{seed} {by} {unit}")
        catalog, rows = catalog_of(unit=unit, by=by), rows_of(random)
        hall = Hall(catalog, shelf)
        here = hall.open(tables_of(rows))
        prepared = [(text, here.prepare(Query(text=text))) for text in (a_query(random, unit) for _ in range(QUERIES))]
        known = sorted({b for t, own in rows.items() for row in own if (b := block_of(t, row, by)) is not None})
        for _ in range(PAIRS):
            block, whole = random.choice(known), random.random() < 0.2
            there = hall.open(tables_of(neighbour(rows, block, by, random, unit_is_row=unit == "row", whole=whole)))
            for text, plan in prepared:
                touched = blocks_of(plan.budgeted, catalog.declarations)
                key = random.getrandbits(128)
                one, other = here.inputs(plan, key), there.inputs(plan, key)
                if is_charged(touched, block, by):
                    moved += check_inputs(plan, one, other, text)
                else:
                    assert one == other, (text, block)
                    unmoved += 1
    assert moved > worlds and unmoved > worlds


@pytest.mark.parametrize("unit", ["patient", "row"])
@pytest.mark.parametrize("seed", [*range(WORLDS), *(pytest.param(n, marks=pytest.mark.slow) for n in LATER)])
def test_blocks_change_no_answer(shelf: str, seed: int, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the scans as well leaves the same rows, which weigh 1 where no unit has more than `max_rows`
    in all; rows beyond the bounds are as if they were not there."""
    zero_noise(monkeypatch)
    random = Random(f"{seed} {unit}")
    rows = rows_of(random)
    axes = catalog_of(unit=unit, by=By.DAY).declarations.blocks
    assert axes is not None
    days = {*axes.blocks, None}
    inside = {t: [row for row in own if t == "tests" or block_of(t, row, By.DAY) in days] for t, own in rows.items()}
    plain = Hall(catalog_of(unit=unit, by=None, max_rows=1000), shelf).open(tables_of(inside))
    for by in (By.MONTH, By.QUARTER):
        dated = Hall(catalog_of(unit=unit, by=by, max_rows=1000), shelf).open(tables_of(rows))
        for _ in range(QUERIES):
            query = Query(text=a_query(random, unit))
            try:
                expected = plain.answer(query).to_arrow()
            except dp.QueryError as error:
                with pytest.raises(type(error)):
                    dated.answer(query)
                continue
            answer = dated.answer(query).to_arrow()
            if answer.num_rows < expected.num_rows:  # blocks may prove that no row is left, and so no group
                assert "Filter FALSE" in str(dated.explain(query)), query.text
                assert not answer.num_rows and not any(expected["n"].to_pylist()), query.text
                continue
            assert answer == expected, query.text


def test_rows_of_blocks_that_are_not_charged_move_nothing_in_plans_of_any_shape() -> None:
    seen = look(OUTSIDE)
    assert not seen.violations
    assert seen.control > OUTSIDE // 20


@pytest.mark.slow
def test_rows_of_blocks_that_are_not_charged_move_nothing_in_very_many_plans() -> None:
    assert not look(SLOW_OUTSIDE).violations
    assert not look(SLOW_OUTSIDE // 10, engine="duckdb", first=10**6).violations
