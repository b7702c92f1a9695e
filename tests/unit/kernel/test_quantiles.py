"""Quantiles that are chosen together: the tree by hand, what it costs, and that its sides share no weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from dpquery.errors import InternalError
from dpquery.kernel import choice_utilities, quantiles
from dpquery.kernel.accountant import BudgetKind, charge_of
from dpquery.kernel.choices import choose_together, divide
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import NoiseLaw, calibrated
from dpquery.kernel.plan import (
    WEIGHT,
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.kernel.sensitivity import sensitivity
from dpquery.plan.logical import Scan
from dpquery.result.measurements import measurements
from dpquery.units.declarations import Neighbours
from tests.scripted import zero_noise
from tests.weights import by_hand

Weights = dict[int, int]
LOWER, UPPER = 0, 20


def aggregate(*targets: str, unit: str | None = None, rows: int = 1) -> PrivateAggregate:
    on = Lattice(grid=Fraction(1), lower=LOWER, upper=UPPER)
    measures = tuple(
        Measure(id=f"q{t}", label="", count=Count.QUANTILE, value="x", lattice=on, target=Fraction(t)) for t in targets
    )
    return PrivateAggregate(
        source=Scan(table="t", columns=(), public=False),
        unit=unit,
        keys=(),
        weights=by_hand(unit, rows, 1),
        measures=measures,
    )


def paid(given: PrivateAggregate, loss: PrivacyLoss) -> BudgetedAggregate:
    noise = Noise(mechanism=Mechanism.EXPONENTIAL, loss=loss)
    return BudgetedAggregate(aggregate=given, noise=(noise,) * len(given.measures))


QUARTILES = ("1/4", "1/2", "3/4")


def test_the_tree_by_hand() -> None:
    targets = tuple(Fraction(t) for t in ("1/10", "1/4", "1/2", "3/4", "9/10"))
    places = quantiles.tree(targets)
    assert [(p.level, str(p.target), p.before, p.after, p.divides) for p in places] == [
        (2, "2/5", None, 1, False),
        (1, "1/2", None, 2, True),
        (0, "1/2", None, None, True),
        (2, "5/8", 2, 4, False),
        (1, "4/5", 2, None, True),
    ]


@pytest.mark.parametrize("targets", [("1/2", "1/2", "3/4"), ("1/2", "1/4"), ("0", "1/2"), ("1/2", "1")])
def test_targets_that_do_not_ascend_are_refused(targets: Sequence[str]) -> None:
    with pytest.raises(InternalError):
        quantiles.tree(tuple(Fraction(t) for t in targets))


def test_who_is_chosen_together() -> None:
    given = aggregate("3/4", "0", "1/4", "1", "1/2")
    assert quantiles.families(given.measures) == [(2, 4, 0)]
    assert quantiles.families(aggregate("1/4", "3/4").measures) == []
    filtered = (*given.measures[:2], replace(given.measures[2], filter="f"), *given.measures[3:])
    assert quantiles.families(filtered) == []
    # targets without a small common denominator might ask for a fraction of a side that is finer than any target
    assert quantiles.families(aggregate("1/3125", "1/10000", "1/2").measures) == []


def test_what_three_quantiles_cost() -> None:
    """Two levels instead of three: each measure pays a third of the loss, and each level gets a half of it."""
    budgeted = paid(aggregate(*QUARTILES), PrivacyLoss(epsilon=Fraction(1)))
    plan = BudgetedPlan(aggregates=(budgeted,))
    assert charge_of(plan, BudgetKind.PURE, Neighbours.ADD_REMOVE) == PrivacyLoss(epsilon=Fraction(3))
    assert charge_of(plan, BudgetKind.ZCDP, Neighbours.ADD_REMOVE) == PrivacyLoss(rho=2 * Fraction(3, 2) ** 2 / 8)
    made = calibrated(budgeted, Neighbours.ADD_REMOVE)
    apart = 2 * WEIGHT  # the target is 1/2 everywhere
    assert [noise.parameter for noise in made] == [
        Fraction(3, 2) / apart,
        Fraction(7, 8) * Fraction(3, 2) / apart,
        Fraction(3, 2) / apart,
    ]
    assert [noise.divider for noise in made] == [None, WEIGHT / (Fraction(1, 8) * Fraction(3, 2)), None]


def test_what_they_cost_in_rho() -> None:
    budgeted = paid(aggregate(*QUARTILES, unit="u", rows=2), PrivacyLoss(rho=Fraction(1, 3)))
    assert charge_of(BudgetedPlan(aggregates=(budgeted,)), BudgetKind.ZCDP, Neighbours.ADD_REMOVE) == PrivacyLoss(
        rho=Fraction(1)
    )
    made = calibrated(budgeted, Neighbours.ADD_REMOVE)
    apart = 4 * WEIGHT
    assert made[0].parameter ** 2 <= 8 * Fraction(1, 2) / apart**2
    divider = made[1].divider
    assert divider is not None
    assert (Fraction(apart, 2) / divider) ** 2 / 2 <= Fraction(1, 16) <= (Fraction(apart, 2) / divider) ** 2 / 1.99


def test_a_level_loses_no_more_than_its_part() -> None:
    """In rho a level is counted as a choice alone: its choice and what divides are within that."""
    part = quantiles.DIVIDING
    assert (1 - part) ** 2 / 8 + part**2 / 2 <= Fraction(1, 8)


def test_one_currency() -> None:
    given = aggregate(*QUARTILES)
    losses = (PrivacyLoss(epsilon=Fraction(1)), PrivacyLoss(rho=Fraction(1)), PrivacyLoss(epsilon=Fraction(1)))
    noises = tuple(Noise(mechanism=Mechanism.EXPONENTIAL, loss=loss) for loss in losses)
    mixed = BudgetedAggregate(aggregate=given, noise=noises)
    for refused in (lambda: calibrated(mixed, Neighbours.ADD_REMOVE), lambda: quantiles.levels_paid(mixed)):
        with pytest.raises(InternalError):
            refused()


def test_the_error_in_ranks_adds_up_along_the_tree() -> None:
    budgeted = paid(aggregate(*QUARTILES), PrivacyLoss(epsilon=Fraction(1)))
    quartile, median, _ = measurements(BudgetedPlan(aggregates=(budgeted,)), Neighbours.ADD_REMOVE)
    assert median.together == quartile.together == 3
    assert quartile.error95 > 1.5 * median.error95


def histogram(weights: Weights) -> Histogram:
    values = sorted(value for value in weights if weights[value])
    return Histogram(
        group=np.zeros(len(values), np.int64),
        value=np.array(values, np.int64),
        weight=np.array([weights[value] for value in values], np.int64),
    )


def weights_of(given: Histogram) -> Weights:
    return dict(zip(given.value.tolist(), given.weight.tolist(), strict=True))


def rank(measure: Measure, weights: Weights, at: int) -> int:
    """Returns the target rank less what is below the candidate, in steps of utility."""
    target = measure.target or Fraction(0)
    below = sum(weight for value, weight in weights.items() if value < at)
    return target.numerator * sum(weights.values()) - target.denominator * below


def apart(measure: Measure, here: Weights, there: Weights) -> int:
    """Returns how far the utilities of all candidates move apart."""
    tried = range(LOWER, UPPER + 1)
    moved = []
    for t in tried:
        scores = []
        for weights in (here, there):
            below = sum(weight for value, weight in weights.items() if value < t)
            numbers = (np.array([n]) for n in (below, weights.get(t, 0), sum(weights.values())))
            named = dict(zip(("below", "equal", "total"), numbers, strict=True))
            scores.append(int(choice_utilities.utilities(measure, 1, **named)[0]))
        moved.append(scores[0] - scores[1])
    return max(moved) - min(moved)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("targets", [QUARTILES, ("1/10", "1/4", "1/2", "3/4", "9/10"), ("1/100", "2/100", "99/100")])
def test_the_sides_of_a_level_share_what_one_unit_moves(targets: Sequence[str], neighbours: Neighbours) -> None:
    """Lemma 5: whatever was chosen before, the losses of a level's sides add up to no more than one loss.

    Each side's loss is what its utilities move apart (or its rank moves), in parts of what is declared of its measure.
    """
    random, rows = Random(5), 2
    given = aggregate(*targets, unit="u", rows=rows)
    most = {"choice": Fraction(0), "rank": Fraction(0)}
    for _ in range(120):
        crowd = {random.randint(LOWER, UPPER): WEIGHT * random.choice([1, 1, 5]) for _ in range(6)}
        left, right = (with_unit(crowd, random, rows) for _ in range(2))
        if neighbours is Neighbours.ADD_REMOVE:
            left = crowd
        sides = [(left, right, 0, len(targets), 0)]
        losses: dict[tuple[int, str], Fraction] = {}
        while sides:
            here, there, low, high, level = sides.pop()
            if low == high:
                continue
            middle = (low + high) // 2
            measure, _ = quantiles.asked(given, given.measures[middle])
            declared = sensitivity(given, given.measures[middle], neighbours).l1
            tried = random.choice([*here, *there, random.randint(LOWER, UPPER)])
            ranks = [rank(measure, weights, tried) for weights in (here, there)]
            parts = {
                "choice": Fraction(apart(measure, here, there), declared),
                "rank": Fraction(2 * abs(ranks[0] - ranks[1]), declared),
            }
            for name, part in parts.items():
                losses[level, name] = losses.get((level, name), Fraction(0)) + part
            noisy = ranks[0] + random.choice([0, random.randint(-WEIGHT, WEIGHT) * 20])
            divided = [
                [weights_of(side) for side in split(measure, weights, tried, noisy - at)]
                for weights, at in zip((here, there), ranks, strict=True)
            ]
            sides += [
                (divided[0][0], divided[1][0], low, middle, level + 1),
                (divided[0][1], divided[1][1], middle + 1, high, level + 1),
            ]
        for (_, name), loss in losses.items():
            assert loss <= 1
            most[name] = max(most[name], loss)
    assert most["choice"] > Fraction(3, 5)


def with_unit(crowd: Weights, random: Random, rows: int) -> Weights:
    """Returns the weights with those of one unit, of any number of values, some of them equal to others'."""
    values = [random.choice([*crowd, random.randint(LOWER, UPPER)]) for _ in range(random.randint(0, 4))]
    found = dict(crowd)
    for value in values:
        found[value] = found.get(value, 0) + WEIGHT * min(len(values), rows) // len(values)
    return found


def split(measure: Measure, weights: Weights, at: int, drawn: int) -> tuple[Histogram, Histogram]:
    return divide(histogram(weights), measure, np.array([at]), np.array([drawn]))


def test_all_weight_is_on_one_side_or_the_other() -> None:
    random = Random(2)
    measure = aggregate("1/3").measures[0]
    for _ in range(200):
        weights = {random.randint(0, 9): random.randint(1, 50) for _ in range(5)}
        at, drawn = random.randint(0, 9), random.randint(-100, 100)
        below, above = (weights_of(side) for side in split(measure, weights, at, drawn))
        assert {v: below.get(v, 0) + above.get(v, 0) for v in weights} == weights
        assert all(v <= at for v in below) and all(v >= at for v in above)
        missing = Fraction(sum(weights.values()), 3) - sum(w for v, w in weights.items() if v < at) + Fraction(drawn, 3)
        assert below.get(at, 0) == max(0, min(weights.get(at, 0), missing // 1))


@pytest.mark.parametrize("unit", [None, "u"])
def test_without_noise_quantiles_are_exact_ties_and_all(unit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    random = Random(9)
    targets = [Fraction(i, 20) for i in range(1, 20)]
    given = aggregate(*(str(t) for t in targets), unit=unit)
    noises = [NoiseLaw(mechanism=Mechanism.EXPONENTIAL, parameter=Fraction(1), divider=Fraction(1))] * len(targets)
    for size in (1, 2, 3, 10, 57, 200):
        values = [random.choice([0, 0, 0, 7, random.randint(LOWER, UPPER)]) for _ in range(size)]
        kept = histogram({v: values.count(v) * given.weight for v in values})
        found = choose_together(given, tuple(range(len(targets))), kept, noises, 1)
        expected = [sorted(values)[max(1, -(-size * t // 1)) - 1] for t in targets]
        assert [int(found[m.id][0]) for m in given.measures] == expected


def test_weights_beyond_64_bits_are_divided_exactly() -> None:
    measure = replace(aggregate("1/2").measures[0], target=Fraction(1234, 10**4))
    weights = {3: 2**58, 5: 3 * 2**58, 9: 2**57}
    below, above = (weights_of(side) for side in split(measure, weights, 3, 0))
    total = sum(weights.values())
    assert below == {3: 1234 * total // 10**4}
    assert above == {**weights, 3: weights[3] - below[3]}


def test_groups_without_values_and_more_than_can_be() -> None:
    given = aggregate(*QUARTILES)
    noises = calibrated(paid(given, PrivacyLoss(epsilon=Fraction(1))), Neighbours.ADD_REMOVE)
    nothing = histogram({})
    found = choose_together(given, (0, 1, 2), nothing, noises, 500)
    low, middle, high = (found[m.id] for m in given.measures)
    assert ((low <= middle) & (middle <= high)).all()
    assert set(middle.tolist()) == set(range(LOWER, UPPER + 1))
    with pytest.raises(InternalError):
        choose_together(given, (0, 1, 2), histogram({1: 2**46}), noises, 1)
