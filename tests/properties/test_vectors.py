"""Vectors of Bernstein terms against all that a unit can add: exact norms over groups and terms by brute force.

docs/proofs/weights.md, Theorem 10. What a unit adds is a sum of weights times the terms of its rows, wherever these lie
within the range; weights add up to M at most, and to m in a group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from dpquery.backends.lattice import lattice_value
from dpquery.errors import InternalError
from dpquery.kernel.accountant import BudgetKind, charge_of
from dpquery.kernel.checks import check
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import recomputed
from dpquery.kernel.parallel import chains
from dpquery.kernel.plan import (
    WEIGHT,
    WHOLE_ROW,
    BudgetedAggregate,
    BudgetedPlan,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Second,
    Weighing,
)
from dpquery.kernel.sensitivity import coarseness, sensitivity
from dpquery.units.declarations import Neighbours
from tests.weighing import ROWS, Facts, aggregate, declarations, scan, total, weights

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
SHAPES: list[tuple[tuple[int, int], ...]] = [((1, 3),), ((2, 3),), ((1, 2), (1, 3)), ((2, 2), (2, 2))]
"""Of each value the degree and the steps of its range."""


def terms(shape: tuple[tuple[int, int], ...], *, filter: str | None = None, lower: int = -1) -> tuple[Measure, ...]:
    """Returns the measures of a vector."""
    plain = total(0, 0)
    made = []
    for powers in itertools.product(*(range(degree + 1) for degree, _ in shape)):
        each = [
            Lattice(grid=Fraction(1), lower=lower, upper=lower + steps, bernstein=(power, degree - power))
            for power, (degree, steps) in zip(powers, shape, strict=True)
        ]
        second = Second(value="v_place", lattice=each[1]) if len(each) > 1 else None
        id = f"t{''.join(map(str, powers))}{filter or ''}"
        made.append(replace(plain, id=id, filter=filter, lattice=each[0], second=second))
    return tuple(made)


def rows(measures: tuple[Measure, ...]) -> set[tuple[int, ...]]:
    """Returns what one row adds to each term, for all values within the range and beyond it."""
    lattices = measures[0].lattices
    places = itertools.product(*(range(one.lower - 1, one.upper + 2) for one in lattices))
    return {
        tuple(
            math.prod(lattice_value(one, place) for one, place in zip(measure.lattices, at, strict=True))
            for measure in measures
        )
        for at in places
    }


def added(measures: tuple[Measure, ...], most: int, one: int, groups: int) -> set[tuple[int, ...]]:
    """Returns what a unit adds to groups and terms with whole rows at the ends of the range, which norms are largest
    at, and inside of it."""
    kinds = sorted(rows(measures))
    kinds = kinds if len(kinds) < 6 else [kinds[0], kinds[len(kinds) // 2], *kinds[-3:]]
    found = set()
    for count in range(most + 1):
        for laid in itertools.combinations_with_replacement(itertools.product(range(groups), kinds), count):
            in_group = [sum(group == at for at, _ in laid) for group in range(groups)]
            if max(in_group) <= one:
                numbers = [
                    [sum(row[i] for at, row in laid if at == g) for i in range(len(measures))] for g in range(groups)
                ]
                found.add(tuple(itertools.chain(*numbers)))
    return found


def norms(differences: Iterator[tuple[int, ...]]) -> tuple[int, int, int]:
    found = [(max(map(abs, x)), sum(map(abs, x)), sum(n * n for n in x)) for x in differences]
    linf, l1, l2 = (max(column) for column in zip(*found, strict=True))
    return linf, l1, l2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_terms_of_a_row_are_not_negative_and_add_up_to_one_number(shape: tuple[tuple[int, int], ...]) -> None:
    measures = terms(shape)
    size = math.prod(steps**degree for degree, steps in shape)
    assert {sum(row) for row in rows(measures)} == {size}
    assert min(itertools.chain(*rows(measures))) == 0
    assert {measure.terms for measure in measures} == {len(measures)}
    assert len({measure.family for measure in measures}) == 1
    assert len({measure.powers for measure in measures}) == len(measures)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize(("most", "one"), [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("groups", [1, 2])
def test_vectors_move_as_far_as_is_declared_and_no_farther(
    groups: int, most: int, one: int, shape: tuple[tuple[int, int], ...], neighbours: Neighbours
) -> None:
    measures = terms(shape)
    plan = aggregate(*measures, weights=replace(weights(Weighing.WHOLE, most), rows_in_group=one), keys=groups)
    found = {sensitivity(plan, measure, neighbours) for measure in measures}
    assert len(found) == 1
    claimed = found.pop()
    vectors = added(measures, most, one, groups)
    pairs = itertools.product(vectors, repeat=2)
    differences = (
        iter(vectors) if neighbours is ADD else (tuple(a - b for a, b in zip(x, y, strict=True)) for x, y in pairs)
    )
    assert norms(differences) == (claimed.linf, claimed.l1, claimed.l2_squared)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("groups", [1, 2])
def test_vectors_that_are_rounded_down_to_coarser_steps(groups: int, neighbours: Neighbours) -> None:
    """Each of the groups and terms that change may move by a step more."""
    size = 2**21
    measures = terms(((2, 2**10), (1, 2)))
    plan = aggregate(*measures, weights=weights(Weighing.COUNTED, 1, most=1), keys=groups)
    coarse, steps = coarseness(plan, measures[0]), plan.steps(measures[0])
    assert coarse > 1 and steps == WEIGHT
    found = sensitivity(plan, measures[0], neighbours)
    ends = [tuple(size * steps * (i == j) for j in range(groups * 6)) for i in range(groups * 6)]
    spread = [tuple(size * steps // 6 + (i == j) for j in range(groups * 6)) for i in range(2)] if groups == 1 else []
    others = [*ends, *spread] if neighbours is REPLACE else [(0,) * (groups * 6)]
    for base in ((0,) * (groups * 6), (coarse - 1,) * (groups * 6)):
        for x, y in itertools.product([*ends, *spread], others):
            moves = [(a + c) // coarse - (b + c) // coarse for a, b, c in zip(x, y, base, strict=True)]
            sizes = [abs(Fraction(move * coarse, steps)) for move in moves]
            assert sum(sizes) <= found.l1 and sum(size**2 for size in sizes) <= found.l2_squared
            assert max(sizes) <= found.linf


def paid(*measures: Measure, loss: PrivacyLoss, plan: PrivateAggregate | None = None) -> BudgetedPlan:
    """Returns the plan in which each measure has this loss."""
    law = Mechanism.LAPLACE if loss.epsilon else Mechanism.GAUSSIAN
    given = plan or aggregate(*measures, weights=weights(Weighing.WHOLE, 2))
    noise = tuple(Noise(mechanism=law, loss=loss) for _ in measures)
    return BudgetedPlan(aggregates=(BudgetedAggregate(aggregate=given, noise=noise),))


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("loss", [PrivacyLoss(epsilon=Fraction(1)), PrivacyLoss(rho=Fraction(1))])
def test_the_terms_of_a_vector_are_paid_for_once(loss: PrivacyLoss, neighbours: Neighbours) -> None:
    kind = BudgetKind.PURE if loss.epsilon else BudgetKind.ZCDP
    vector = terms(((2, 3),))
    assert charge_of(paid(*vector, loss=loss), kind, neighbours) == loss
    assert charge_of(paid(*vector, ROWS, loss=loss), kind, neighbours) == loss + loss
    other = tuple(replace(measure, id=f"{measure.id}w", value="v_place") for measure in vector)
    assert charge_of(paid(*vector, *other, loss=loss), kind, neighbours) == loss + loss
    wider = tuple(replace(measure, id=f"{measure.id}w") for measure in terms(((2, 4),)))
    assert charge_of(paid(*vector, *wider, loss=loss), kind, neighbours) == loss + loss
    assert charge_of(paid(vector[0], wider[1], loss=loss), kind, neighbours) == loss + loss
    filtered = terms(((2, 3),), filter="v_ok")
    assert charge_of(paid(*vector, *filtered, loss=loss), kind, neighbours) == loss + loss


def test_vectors_of_two_aggregates_are_paid_for_apart() -> None:
    loss, vector = PrivacyLoss(epsilon=Fraction(1)), terms(((1, 3),))
    by_row = aggregate(*vector, weights=WHOLE_ROW, source=scan("visits", "v", by_row=True), unit=None)
    one = paid(*vector, loss=loss, plan=by_row).aggregates[0]
    assert charge_of(BudgetedPlan(aggregates=(one,)), BudgetKind.PURE, ADD) == loss
    parts = tuple(paid(term, loss=loss, plan=replace(by_row, measures=(term,))).aggregates[0] for term in vector)
    for both in ((one, one), parts):
        assert charge_of(BudgetedPlan(aggregates=both), BudgetKind.PURE, ADD) == loss + loss


def test_a_vector_in_coarser_steps_shares_its_loss_with_no_disjoint_filter() -> None:
    vector = terms(((1, 2**20),), filter="v_ok")
    plan = aggregate(*vector, weights=weights(Weighing.COUNTED, 2, most=4))
    assert coarseness(plan, vector[0]) > 1
    assert chains([plan], ADD) == (((0,), (1,)),)
    apart = replace(total(0, 2**20), id="other", filter="v_ok")
    plan = aggregate(*vector, apart, weights=weights(Weighing.COUNTED, 2, most=4))
    assert len(chains([plan], ADD)) == 2


@pytest.mark.parametrize("neighbours", Neighbours)
def test_every_row_of_a_person_or_of_its_own_loses_what_is_charged(neighbours: Neighbours) -> None:
    """The loss of each pair, summed over terms, each with its own scale: never more than one term's, and reached."""
    loss, shape = PrivacyLoss(epsilon=Fraction(1)), ((2, 3),)
    measures = terms(shape)
    plan = paid(*measures, loss=loss, plan=aggregate(*measures, weights=weights(Weighing.WHOLE, 2), keys=2))
    scales = [law.parameter for law in recomputed(plan.aggregates[0], neighbours)[0]]
    vectors = added(measures, 2, 2, 2)
    pairs = [(x, (0,) * len(x)) for x in vectors] if neighbours is ADD else itertools.product(vectors, repeat=2)
    most = max(
        sum(abs(a - b) / scales[i % len(scales)] for i, (a, b) in enumerate(zip(x, y, strict=True))) for x, y in pairs
    )
    assert most == charge_of(plan, BudgetKind.PURE, neighbours).epsilon == 1


def refused(*noise: Noise, measures: tuple[Measure, ...]) -> str:
    given = BudgetedAggregate(
        aggregate=aggregate(*measures, source=scan("visits", "v", by_row=True), unit=None), noise=noise
    )
    with pytest.raises(InternalError) as caught:
        check(given, declarations(unit="row"), Facts())
    return str(caught.value)


def test_the_gate_refuses_terms_of_one_vector_with_different_noise() -> None:
    vector = terms(((1, 3),))
    one, more = (Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(n))) for n in (1, 2))
    other = Noise(mechanism=Mechanism.GAUSSIAN, loss=PrivacyLoss(rho=Fraction(1)))
    assert "different laws" in refused(one, more, measures=vector)
    assert "different laws" in refused(one, other, measures=vector)
    twice = (*vector, replace(vector[0], id="again"))
    assert "twice" in refused(one, one, one, measures=twice)
    wide = terms(((2, 2**32),))
    given = aggregate(*wide, weights=weights(Weighing.WHOLE, 1))
    with pytest.raises(InternalError, match="too fine"):
        sensitivity(given, wide[0], ADD)


def test_what_is_no_bernstein_term_is_refused() -> None:
    lattice = Lattice(grid=Fraction(1), lower=0, upper=3)
    for wrong in ((3, 0), (0, 0), (-1, 2)):
        with pytest.raises(ValueError, match="degree"):
            replace(lattice, bernstein=wrong)
    with pytest.raises(ValueError, match="degree"):
        replace(lattice, bernstein=(1, 0), offset=1)
    term = replace(lattice, bernstein=(1, 0))
    with pytest.raises(ValueError, match="only they are multiplied"):
        replace(total(0, 3), second=Second(value="v_place", lattice=term))
    with pytest.raises(ValueError, match="only they are multiplied"):
        replace(total(0, 3), lattice=term, second=Second(value="v_place", lattice=lattice))
