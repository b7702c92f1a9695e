# mypy: disable-error-code="arg-type, assignment, attr-defined, call-arg"
"""Quantiles chosen together: the whole law of what is released, summed over every path, on every pair of neighbours.

No sampling and no bound is used. Tiny lattices, tiny weights and a fixed noise are enumerated: all choices of the tree,
and all ways in which noise divides the weight of the chosen value. docs/proofs/exponential.md, Lemma 5.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from random import Random

import numpy as np
import pytest

from dpquery.kernel import choices, plan, quantiles
from dpquery.kernel.accountant import BudgetKind, charge_of, guarantee_of
from dpquery.kernel.choice_utilities import utilities
from dpquery.kernel.choices import choose_together, divide
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import calibrated
from dpquery.kernel.plan import (
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.kernel.quantiles import asked, families
from dpquery.plan.logical import Scan
from dpquery.units.declarations import Neighbours
from tests.flipped import flipped
from tests.weights import by_hand

WEIGHT, LAST = 2, 3
"""A row's weight in these trees, instead of 2^24, and the last of four candidates."""
PAIRS = 12
"""Of units that are tried beside the same others."""
Weights = tuple[int, ...]
Law = dict[tuple[int, ...], float]
QUARTILES = ("1/4", "1/2", "3/4")
FIVE = ("1/10", "1/4", "1/2", "3/4", "9/10")
SKEWED = ("1/10", "1/5", "9/10")
EPSILON, RHO = PrivacyLoss(epsilon=Fraction(3, 2)), PrivacyLoss(rho=Fraction(1, 4))


@pytest.fixture(autouse=True)
def _small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "WEIGHT", WEIGHT)
    monkeypatch.setattr(quantiles, "WEIGHT", WEIGHT)
    monkeypatch.setattr(choices, "WEIGHT", WEIGHT)


def budgeted(
    targets: tuple[str, ...],
    loss: PrivacyLoss,
    *,
    unit: str | None,
    rows: int,
    mechanism: Mechanism = Mechanism.EXPONENTIAL,
) -> BudgetedAggregate:
    lattice = Lattice(grid=Fraction(1), lower=0, upper=LAST)
    measures = tuple(
        Measure(id=t, label="", count=Count.QUANTILE, value="x", lattice=lattice, target=Fraction(t)) for t in targets
    )
    aggregate = PrivateAggregate(
        source=Scan(table="t", columns=(), public=False),
        unit=unit,
        keys=(),
        weights=by_hand(unit, rows, 1),
        measures=measures,
    )
    noise = Noise(mechanism=mechanism, loss=loss)
    return BudgetedAggregate(aggregate=aggregate, noise=(noise,) * len(measures))


def histogram(weights: Weights) -> Histogram:
    values = np.array([value for value, weight in enumerate(weights) if weight], np.int64)
    held = np.array([weight for weight in weights if weight], np.int64)
    return Histogram(group=np.zeros(len(values), np.int64), value=values, weight=held)


def dense(given: Histogram) -> Weights:
    found = [0] * (LAST + 1)
    for value, weight in zip(given.value.tolist(), given.weight.tolist(), strict=True):
        found[value] += weight
    return tuple(found)


def of_choice(
    measure: Measure, coefficient: Fraction, weights: Weights, first: int, last: int, *, flips: bool = False
) -> Law:
    below = np.cumsum((0, *weights))[:-1]
    equal, total = np.array(weights), np.full(len(weights), sum(weights))
    scores = utilities(measure, 1, below=below, equal=equal, total=total).tolist()
    best = max(scores[first : last + 1])
    masses = {(t,): math.exp(float(coefficient) * (scores[t] - best)) for t in range(first, last + 1)}
    if flips:
        return dict(zip(masses, flipped([*masses.values()]), strict=True))
    return {t: mass / sum(masses.values()) for t, mass in masses.items()}


def at_least(scale: Fraction, k: int) -> float:
    """Returns P(noise >= k) of the discrete Laplace law."""
    ratio = math.exp(-1 / float(scale))
    return ratio**k / (1 + ratio) if k > 0 else 1 - ratio ** (1 - k) / (1 + ratio)


def divisions(measure: Measure, weights: Weights, chosen: int, scale: Fraction) -> Iterator[tuple[float, int]]:
    """Yields the chance of each number of weights that goes below, and a noise that brings it about."""
    assert measure.target is not None
    r, q = measure.target.numerator, measure.target.denominator
    rank = r * sum(weights) - q * sum(weights[:chosen])
    most = weights[chosen]
    for share in range(most + 1):
        over = at_least(scale, q * share - rank) if share else 1.0
        beyond = at_least(scale, q * (share + 1) - rank) if share < most else 0.0
        yield over - beyond, q * share - rank


def law(of: BudgetedAggregate, neighbours: Neighbours, weights: Weights) -> Law:
    """Returns the probability of every released tuple, in the order of the targets."""
    return laws_of(of, neighbours)(weights, 0, LAST, 0, len(of.aggregate.measures))


@cache
def laws_of(of: BudgetedAggregate, neighbours: Neighbours) -> Callable[[Weights, int, int, int, int], Law]:
    """Returns the law of a part of the tree, from the weights there; neighbours have most parts in common."""
    noises = calibrated(of, neighbours)
    measures = of.aggregate.measures

    @cache
    def of_side(weights: Weights, first: int, last: int, low: int, high: int) -> Law:
        if low == high:
            return {(): 1.0}
        middle = (low + high) // 2
        measure, _ = asked(of.aggregate, measures[middle])
        noise, found = noises[middle], Law()
        flips = noise.mechanism is Mechanism.PERMUTE_AND_FLIP
        for (chosen,), chance in of_choice(measure, noise.parameter, weights, first, last, flips=flips).items():
            parts: list[tuple[float, Weights, Weights]] = [(1.0, weights, weights)]
            if high - low > 1:
                assert noise.divider is not None
                parts = []
                for part, drawn in divisions(measure, weights, chosen, noise.divider):
                    at, noise_drawn = np.array([chosen]), np.array([drawn])
                    left, right = divide(histogram(weights), measure, at, noise_drawn)
                    parts.append((part, dense(left), dense(right)))
            for part, below, above in parts:
                lefts = of_side(below, first, chosen, low, middle)
                rights = of_side(above, chosen, last, middle + 1, high)
                for (left_values, p), (right_values, r) in itertools.product(lefts.items(), rights.items()):
                    key = (*left_values, chosen, *right_values)
                    found[key] = found.get(key, 0.0) + chance * part * p * r
        return found

    return of_side


def units(rows: int) -> list[Weights]:
    """Returns the weights of every unit with up to two rows more than count, as step 2 of the kernel gives them."""
    found = {(0,) * (LAST + 1)}
    for size in range(1, rows + 3):
        each = WEIGHT * min(rows, size) // size
        for values in itertools.combinations_with_replacement(range(LAST + 1), size):
            found.add(tuple(each * values.count(value) for value in range(LAST + 1)))
    return sorted(found)


def pairs(neighbours: Neighbours, *, unit: str | None, rows: int) -> Iterator[tuple[Weights, Weights]]:
    """Yields neighbours: few others, ties or none, and some unit there or not, or another in its place; both ways."""
    random = Random(5)
    nobody = (0,) * (LAST + 1)
    owned = units(rows) if unit else [tuple(WEIGHT * (v == own) for v in range(LAST + 1)) for own in range(LAST + 1)]
    for rest in ((0, 0, 0, 0), (4, 0, 0, 0), (0, 6, 2, 0), (2, 0, 2, 4)):
        twos = [(nobody, own) for own in owned if own != nobody]
        if neighbours is Neighbours.REPLACE_ONE:
            twos = list(itertools.combinations(owned, 2))
        for one, two in random.sample(twos, min(len(twos), PAIRS)):
            here, there = (tuple(a + b for a, b in zip(rest, own, strict=True)) for own in (one, two))
            yield here, there
            yield there, here


def divergences(one: Law, two: Law, orders: tuple[float, ...]) -> list[float]:
    """Returns the Renyi divergences of two laws, each divided by its order; of order infinity as it is."""
    assert one.keys() == two.keys()
    found = []
    for a in orders:
        if a == math.inf:
            found.append(max(math.log(p / two[key]) for key, p in one.items()))
        else:
            total = math.fsum(two[key] * (p / two[key]) ** a for key, p in one.items())
            found.append(math.log(total) / (a - 1) / a)
    return found


ORDERS = (1.01, 2.0, 8.0, 64.0)
CASES = [
    *itertools.product((QUARTILES, SKEWED), Neighbours, (None, "u"), (2,)),
    (FIVE, Neighbours.ADD_REMOVE, "u", 2),
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("targets", "neighbours", "unit", "rows"), CASES)
def test_what_a_tree_loses(targets: tuple[str, ...], neighbours: Neighbours, unit: str | None, rows: int) -> None:
    """Claimed: the sum of all levels in epsilon; in rho, where the ledger counts that, whatever it is paid in. By
    permute-and-flip too, whose claim in rho is its own."""
    flips = budgeted(targets, EPSILON, unit=unit, rows=rows, mechanism=Mechanism.PERMUTE_AND_FLIP)
    in_flips = float(charge_of(BudgetedPlan(aggregates=(flips,)), BudgetKind.ZCDP, Neighbours.ADD_REMOVE).rho)
    in_epsilon = budgeted(targets, EPSILON, unit=unit, rows=rows)
    in_rho = budgeted(targets, RHO, unit=unit, rows=rows)
    epsilon = float(guarantee_of(BudgetedPlan(aggregates=(in_epsilon,)), Neighbours.ADD_REMOVE).epsilon)
    counted = float(charge_of(BudgetedPlan(aggregates=(in_epsilon,)), BudgetKind.ZCDP, Neighbours.ADD_REMOVE).rho)
    rho = float(charge_of(BudgetedPlan(aggregates=(in_rho,)), BudgetKind.ZCDP, Neighbours.ADD_REMOVE).rho)
    laws: dict[tuple[int, Weights], Law] = {}
    worst = (0.0, 0.0, 0.0)
    most_flips = (0.0, 0.0)
    for pair in pairs(neighbours, unit=unit, rows=rows):
        for kind, of in enumerate((in_epsilon, in_rho, flips)):
            for weights in pair:
                if (kind, weights) not in laws:
                    laws[kind, weights] = law(of, neighbours, weights)
        most, *orders = divergences(*(laws[0, weights] for weights in pair), (math.inf, *ORDERS))
        orders_of_rho = divergences(*(laws[1, weights] for weights in pair), ORDERS)
        worst = max(worst[0], most), max(worst[1], *orders), max(worst[2], *orders_of_rho)
        most, *orders = divergences(*(laws[2, weights] for weights in pair), (math.inf, *ORDERS))
        most_flips = max(most_flips[0], most), max(most_flips[1], *orders)
    assert worst[0] <= epsilon and worst[1] <= counted and worst[2] <= rho
    assert epsilon / 5 < most_flips[0] <= epsilon and most_flips[1] <= in_flips
    assert worst[0] > epsilon / 5, "these neighbours come nowhere near what is paid, so they would show no mistake"


def test_the_law_is_that_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is summed above is what `choose_together` draws: it is run once for each path."""
    of, weights = budgeted(QUARTILES, EPSILON, unit="u", rows=2), (2, 5, 0, 4)
    noises = calibrated(of, Neighbours.ADD_REMOVE)
    family, *_ = families(of.aggregate.measures)
    script: list[tuple[int, int]] = []  # of each draw so far which of how many outcomes it has
    chance, drawn, last = 1.0, 0, (of.aggregate.measures[0], weights, 0)

    def draw(outcomes: list[tuple[float, int]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        nonlocal chance, drawn
        if drawn == len(script):
            script.append((0, len(outcomes)))
        part, value = outcomes[script[drawn][0]]
        chance, drawn = chance * part, drawn + 1
        return np.array([value])

    def choose(measure: Measure, coefficient: Fraction, side: Histogram, groups: int, **ends: object) -> object:
        nonlocal last
        first, end = (int(at[0]) for at in ends["within"])
        found = of_choice(measure, coefficient, dense(side), first, end)
        chosen = draw([(p, t) for (t,), p in found.items()])
        last = measure, dense(side), int(chosen[0])
        return chosen

    def laplace(scale: Fraction, size: int) -> object:
        measure, held, chosen = last
        return draw(list(divisions(measure, held, chosen, scale)))

    monkeypatch.setattr(choices.exponential, "choose", choose)
    monkeypatch.setattr(choices.samplers, "discrete_laplace", laplace)
    found = Law()
    while True:
        chance, drawn = 1.0, 0
        made = choose_together(of.aggregate, family, histogram(weights), noises, 1)
        key = tuple(int(made[measure.id][0]) for measure in of.aggregate.measures)
        found[key] = found.get(key, 0.0) + chance
        while script and script[-1][0] + 1 == script[-1][1]:
            script.pop()
        if not script:
            break
        script[-1] = script[-1][0] + 1, script[-1][1]
    expected = law(of, Neighbours.ADD_REMOVE, weights)
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(p, rel=1e-9) for key, p in expected.items())
    assert sum(expected.values()) == pytest.approx(1)


@pytest.mark.parametrize(("targets", "unit"), [(QUARTILES, None), (SKEWED, "u"), (FIVE, "u")])
def test_what_is_drawn_has_that_law(targets: tuple[str, ...], unit: str | None) -> None:
    """Drawn for very many groups that are alike. Fails by chance once in 10^7 runs."""
    of, weights, groups = budgeted(targets, EPSILON, unit=unit, rows=1), (2, 6, 0, 4), 100_000
    one = histogram(tuple(w // WEIGHT for w in weights) if unit is None else weights)  # a row of its own weighs 1 here
    many = Histogram(
        group=np.repeat(np.arange(groups), len(one.group)),
        value=np.tile(one.value, groups),
        weight=np.tile(one.weight, groups),
    )
    family, *_ = families(of.aggregate.measures)
    noises = calibrated(of, Neighbours.ADD_REMOVE)
    made = choose_together(of.aggregate, family, many, noises, groups)
    drawn = Counter(zip(*(made[measure.id].tolist() for measure in of.aggregate.measures), strict=True))
    expected = law(of, Neighbours.ADD_REMOVE, weights)
    assert drawn.keys() <= expected.keys()
    for outcome, chance in expected.items():
        deviation = math.sqrt(groups * chance * (1 - chance))
        assert abs(drawn[outcome] - groups * chance) <= 6.5 * deviation + 20, outcome
