"""The exponential mechanism: utilities by hand, choices without noise, doubtful draws, and what is refused."""

from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel import choice_utilities, exponential
from dpquery.kernel.accountant import BudgetKind, charge_of, guarantee_of
from dpquery.kernel.exponential import Histogram, choose, uniform_below
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import calibrate
from dpquery.kernel.plan import (
    WEIGHT,
    WHOLE_ROW,
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.kernel.sensitivity import Sensitivity
from dpquery.plan.logical import Scan
from dpquery.units.declarations import Neighbours
from tests.scripted import zero_noise


def quantile(lower: int, upper: int, target: Fraction | int) -> Measure:
    on = Lattice(grid=Fraction(1), lower=lower, upper=upper)
    return Measure(id="q", label="", count=Count.QUANTILE, value="x", lattice=on, target=Fraction(target))


def mode(size: int) -> Measure:
    return Measure(id="m", label="", count=Count.MODE, value="x", domain=tuple(range(size)))


def histogram(*groups: list[int]) -> Histogram:
    """Returns the histogram of lists of values, each of weight 1, in no order."""
    triples = [(g, v, values.count(v)) for g, values in enumerate(groups) for v in set(values)]
    Random(1).shuffle(triples)
    columns = np.array(triples, dtype=np.int64).reshape(-1, 3)
    return Histogram(group=columns[:, 0], value=columns[:, 1], weight=columns[:, 2])


def rank_distance(values: list[int], target: Fraction, t: int) -> Fraction:
    """Returns how far t is from the target rank, in ranks: the definition, value by value."""
    below, upto = sum(v < t for v in values), sum(v <= t for v in values)
    return max(Fraction(0), below - target * len(values), target * len(values) - upto)


TARGETS = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 1000)]


@pytest.mark.parametrize("target", TARGETS)
def test_utilities_are_distances_to_the_target_rank(target: Fraction) -> None:
    values, measure = [3, 3, 5, 8, 8, 8, 9], quantile(0, 10, target)
    tried = np.arange(11)
    below, equal = (
        np.array([values_of(t) for t in tried])
        for values_of in (lambda t: sum(v < t for v in values), lambda t: values.count(int(t)))
    )
    found = choice_utilities.utilities(measure, 1, below=below, equal=equal, total=np.full(11, len(values)))
    expected = [-target.denominator * rank_distance(values, target, t) for t in range(11)]
    assert found.tolist() == expected


def test_extremes_ask_for_a_rank() -> None:
    values, tried = [3, 3, 5, 8], np.arange(11)
    below, equal = np.array([sum(v < t for v in values) for t in tried]), np.array([values.count(t) for t in range(11)])
    least = choice_utilities.utilities(quantile(0, 10, 0), 3, below=below, equal=equal, total=np.full(11, 4))
    assert least.tolist() == [-3, -3, -3, -1, -1, 0, -1, -1, -1, -2, -2]
    greatest = choice_utilities.utilities(quantile(0, 10, 1), 1, below=below, equal=equal, total=np.full(11, 4))
    assert greatest.tolist() == [-4, -4, -4, -2, -2, -1, -1, -1, 0, -1, -1]


def test_the_rank_of_an_extreme_follows_from_the_plan() -> None:
    assert choice_utilities.rank_of_extreme(quantile(0, 99, 0), Fraction(1)) == 1 + 7  # ln 2000 = 7.6
    assert choice_utilities.rank_of_extreme(quantile(0, 99, 0), Fraction(100)) == 1


@pytest.mark.parametrize("target", [*TARGETS, Fraction(0), Fraction(1)])
def test_without_noise_a_quantile_is_exact(target: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first value that so large a part of all reaches, as SQL defines it; ties and single values included."""
    zero_noise(monkeypatch)
    random = Random(7)
    groups = [[random.randint(-9, 9) for _ in range(random.choice([1, 2, 3, 10, 50]))] for _ in range(200)]
    groups += [[4] * 30, [-9], [9, 9]]
    found = choose(quantile(-9, 9, target), Fraction(1000), histogram(*groups), len(groups))
    for values, chosen in zip(groups, found.tolist(), strict=True):
        place = max(1, -(-len(values) * target // 1))
        assert chosen == sorted(values)[int(place) - 1]


def test_without_noise_a_mode_is_the_first_of_the_most_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    groups = [[2, 2, 1], [3, 1], [], [0]]
    assert choose(mode(4), Fraction(50), histogram(*groups), 4).tolist() == [2, 1, 0, 0]


def test_groups_without_values_and_lattices_of_one_point() -> None:
    assert choose(quantile(5, 5, Fraction(1, 2)), Fraction(1), histogram([], [5]), 2).tolist() == [5, 5]
    assert choose(quantile(0, 9, 0), Fraction(1), histogram(), 0).tolist() == []
    drawn = choose(quantile(0, 9, Fraction(1, 2)), Fraction(1), histogram(), 2000)
    assert set(drawn.tolist()) == set(range(10))


def test_doubtful_draws_are_decided_with_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything in doubt the same bits lead to the same choices."""
    random = Random(3)
    groups = [[random.randint(0, 50) for _ in range(30)] for _ in range(60)]
    script = random.randbytes(8 * len(groups))

    def scripted(size: int) -> bytes:
        return script[:size] if size == len(script) else bytes(size)

    monkeypatch.setattr(exponential.samplers, "random_bytes", scripted)  # type: ignore[attr-defined]
    measure, given = quantile(0, 60, Fraction(1, 2)), histogram(*groups)
    clear = choose(measure, Fraction(1, 7), given, len(groups))
    calls = itertools.count()
    exactly = exponential.exactly

    def counted(*arguments: object) -> int:
        next(calls)
        return exactly(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(exponential, "exactly", counted)
    assert choose(measure, Fraction(1, 7), given, len(groups)).tolist() == clear.tolist()
    assert next(calls) == 0
    monkeypatch.setattr(exponential, "_MARGIN", 2**62)
    assert choose(measure, Fraction(1, 7), given, len(groups)).tolist() == clear.tolist()
    assert next(calls) == len(groups) + 1


def test_the_filter_is_as_exact_as_it_claims() -> None:
    x = np.linspace(0, 256, 20_001)
    found = exponential.fall(x)
    for at, value in zip(x[::97].tolist(), found[::97].tolist(), strict=True):
        true = Fraction(exponential.samplers.exponential(Fraction(at)), 2**1024)  # type: ignore[attr-defined]
        assert abs(Fraction(value) - true) <= true / 2**36


def test_places_in_a_segment_are_uniform() -> None:
    drawn = uniform_below(np.full(60_000, 3, np.int64))
    assert np.abs(np.bincount(drawn, minlength=3) - 20_000).max() < 1500  # 13 standard deviations
    assert uniform_below(np.array([1, 2**62], np.int64))[0] == 0


BROKEN = {
    "twice": ([0, 0], [3, 3], [1, 1]),
    "no such group": ([2], [3], [1]),
    "beyond the lattice": ([0], [11], [1]),
    "no weight": ([0], [3], [0]),
    "too heavy": ([0], [3], [2**61]),
    "another length": ([0], [3, 4], [1]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_histograms_are_refused(name: str) -> None:
    group, value, weight = (np.array(column, dtype=np.int64) for column in BROKEN[name])
    with pytest.raises(InternalError):
        choose(quantile(0, 10, Fraction(1, 2)), Fraction(1), Histogram(group=group, value=value, weight=weight), 2)


WRONG = {
    "too fine a target": quantile(0, 10, Fraction(1, 10_001)),
    "a target beyond 1": quantile(0, 10, Fraction(3, 2)),
    "too wide a lattice": quantile(0, 2**53 + 1, Fraction(1, 2)),
    "nothing to choose": mode(0),
}


@pytest.mark.parametrize("name", WRONG)
def test_measures_that_cannot_be_chosen_exactly_are_refused(name: str) -> None:
    with pytest.raises(InternalError):
        choice_utilities.candidates(WRONG[name])


def test_many_groups_and_wide_lattices_are_quick() -> None:
    groups = np.repeat(np.arange(50_000), 10)
    values: NDArray[np.int64] = np.tile(np.arange(10) * 10**9, 50_000)
    given = Histogram(group=groups, value=values, weight=np.ones(len(groups), np.int64))
    choose(quantile(0, 2**40, Fraction(1, 2)), Fraction(1), given, 50_000)


# Losses.


def plan_of(noise: Noise) -> BudgetedPlan:
    aggregate = PrivateAggregate(
        source=Scan(table="t", columns=(), public=False),
        unit=None,
        keys=(),
        weights=WHOLE_ROW,
        measures=(quantile(0, 10, Fraction(1, 2)),),
    )
    return BudgetedPlan(aggregates=(BudgetedAggregate(aggregate=aggregate, noise=(noise,)),))


def test_a_choice_costs_epsilon_or_an_eighth_of_its_square() -> None:
    plan = plan_of(Noise(mechanism=Mechanism.EXPONENTIAL, loss=PrivacyLoss(epsilon=Fraction(2))))
    assert (
        charge_of(plan, BudgetKind.PURE, Neighbours.ADD_REMOVE)
        == guarantee_of(plan, Neighbours.ADD_REMOVE)
        == PrivacyLoss(epsilon=Fraction(2))
    )
    assert charge_of(plan, BudgetKind.ZCDP, Neighbours.ADD_REMOVE) == PrivacyLoss(rho=Fraction(1, 2))
    paid = plan_of(Noise(mechanism=Mechanism.EXPONENTIAL, loss=PrivacyLoss(rho=Fraction(1, 3))))
    assert guarantee_of(paid, Neighbours.ADD_REMOVE) == PrivacyLoss(rho=Fraction(1, 3))
    with pytest.raises(InternalError):
        charge_of(paid, BudgetKind.PURE, Neighbours.ADD_REMOVE)


def test_the_coefficient_of_a_loss() -> None:
    """Worked out by hand: two groups, each moving apart by 3."""
    moved = Sensitivity(linf=3, l1=6, l2_squared=18)
    pure = calibrate(moved, Noise(mechanism=Mechanism.EXPONENTIAL, loss=PrivacyLoss(epsilon=Fraction(1, 2))))
    assert pure.parameter == Fraction(1, 12)
    paid = calibrate(moved, Noise(mechanism=Mechanism.EXPONENTIAL, loss=PrivacyLoss(rho=Fraction(1, 2))))
    assert paid.parameter**2 <= Fraction(4, 18) < (paid.parameter + Fraction(1, 2**250)) ** 2


@pytest.mark.parametrize("loss", [PrivacyLoss(), PrivacyLoss(epsilon=Fraction(1), rho=Fraction(1))])
def test_a_choice_is_paid_in_one_currency(loss: PrivacyLoss) -> None:
    with pytest.raises(InternalError):
        calibrate(Sensitivity(linf=1, l1=1, l2_squared=1), Noise(mechanism=Mechanism.EXPONENTIAL, loss=loss))


def test_a_weight_is_what_the_proof_says() -> None:
    assert WEIGHT == 2**24
    assert choice_utilities.spread(quantile(0, 10, Fraction(1, 4)), 5) == (30, 40)
    assert choice_utilities.spread(quantile(0, 10, 0), 5) == choice_utilities.spread(quantile(0, 10, 1), 5) == (10, 10)
    assert choice_utilities.spread(mode(3), 5) == (5, 10)


def test_many_values_and_one_that_is_frequent_are_no_error() -> None:
    """No error may tell how many values there are: twelve million of them, as one joined table can hold."""
    kept = Histogram(
        group=np.zeros(2**22, np.int64),
        value=np.arange(2**22),
        weight=np.concatenate(([2**48], np.full(2**22 - 1, WEIGHT))),
    )
    measure = quantile(0, 2**23, Fraction(1, 2))
    assert choose(measure, Fraction(1), kept, 1)[0] == 0


@pytest.mark.parametrize("target", [0, 1, Fraction(1, 2), Fraction(1234, 10**4), Fraction(9999, 10**4)])
def test_weights_beyond_64_bits_are_weighed_exactly(target: Fraction | int) -> None:
    measure, scale = quantile(0, 10, target), 2**58
    values = [3, 3, 5, 8, 8, 8, 9]
    below, equal = (
        np.array([values_of(t) for t in range(11)])
        for values_of in (lambda t: sum(v < t for v in values), values.count)
    )
    found = choice_utilities.utilities(
        measure, 1, below=below * scale, equal=equal * scale, total=np.full(11, len(values) * scale)
    )
    assert found.dtype == np.int64
    if measure.target in (0, 1):
        assert found.max() == 0
        return
    expected = [-measure.target.denominator * scale * rank_distance(values, measure.target, t) for t in range(11)]  # type: ignore[arg-type, union-attr]
    assert found.tolist() == [max(utility, -(2**61)) for utility in expected]


def test_all_but_hopeless_candidates_are_within_reach() -> None:
    """What is left out has a gap of more than 256 / c, and a utility that counts as the least possible is left out."""
    assert 256 / exponential.MIN_COEFFICIENT < choice_utilities.LARGEST_UTILITY
    measure, far = quantile(0, 1, Fraction(1, 2)), int(256 / exponential.MIN_COEFFICIENT)
    for weight, both in ((far, True), (far + 1, False)):
        kept = Histogram(group=np.zeros(1, np.int64), value=np.zeros(1, np.int64), weight=np.full(1, weight))
        found = exponential._segments(measure, exponential.MIN_COEFFICIENT, kept, *(np.full(1, end) for end in (0, 1)))
        assert (len(found.gap) == 2) is both
