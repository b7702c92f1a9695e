"""Which measures weigh together where their filters are disjoint."""

from __future__ import annotations

from dataclasses import replace

from dpquery.kernel.plan import Weighing
from dpquery.kernel.sensitivity import coarseness, weighs_together
from tests.weighing import ROWS, UNITS, aggregate, total, weights


def test_sums_that_are_rounded_before_noise_weigh_apart() -> None:
    """Each of them may move by a coarse step more, whatever the others do."""
    fine, coarse = (total(0, largest, filter="v_ok") for largest in (2**18, 2**20))
    plan = aggregate(fine, coarse, weights=weights(Weighing.COUNTED, 1, most=6))
    assert (coarseness(plan, fine), coarseness(plan, coarse)) == (1, 4)
    assert weighs_together(plan, fine)
    assert not weighs_together(plan, coarse)


def test_rows_that_pass_a_filter_weigh_together_and_units_do_not() -> None:
    plan = aggregate(ROWS, weights=weights(Weighing.COUNTED, 2))
    assert weighs_together(plan, replace(ROWS, filter="v_ok"))
    assert not weighs_together(plan, ROWS)
    assert not weighs_together(plan, replace(UNITS, filter="v_ok"))
    whole = aggregate(UNITS, weights=weights(Weighing.WHOLE, 1))
    assert weighs_together(whole, replace(UNITS, filter="v_ok"))
