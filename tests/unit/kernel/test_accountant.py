"""Budgets, their limits, and what plans are charged."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.errors import InternalError, InvalidLossError
from dpquery.kernel.accountant import (
    DELTA_UNIT,
    EPSILON_UNIT,
    RHO_UNIT,
    Budget,
    BudgetKind,
    charge_of,
    compose,
    counted,
    from_units,
    guarantee_of,
    limit_of,
    promise,
    to_units,
)
from dpquery.kernel.loss import ZERO, PrivacyLoss, zcdp_to_approximate
from dpquery.kernel.plan import (
    WHOLE_ROW,
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
)
from dpquery.plan.logical import Scan
from dpquery.units.declarations import Neighbours

AMOUNTS = st.fractions(min_value=0, max_value=1000)
SCAN = Scan(table="visits", columns=(), public=False)


def plan(*parts: tuple[list[Noise], str]) -> BudgetedPlan:
    return BudgetedPlan(
        aggregates=tuple(
            BudgetedAggregate(
                aggregate=PrivateAggregate(
                    source=SCAN,
                    unit=None,
                    keys=(),
                    weights=WHOLE_ROW,
                    measures=tuple(Measure(id=f"m{i}", label="n", count=Count.ROWS) for i in range(len(noises))),
                ),
                noise=tuple(noises),
                selection_delta=Fraction(delta),
            )
            for noises, delta in parts
        )
    )


def laplace(epsilon: str) -> Noise:
    return Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(epsilon)))


def gaussian(rho: str) -> Noise:
    return Noise(mechanism=Mechanism.GAUSSIAN, loss=PrivacyLoss(rho=Fraction(rho)))


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ({"epsilon": 4}, BudgetKind.PURE),
        ({"epsilon": 4, "delta": "1e-6"}, BudgetKind.APPROXIMATE),
        ({"rho": 0.5, "delta": 1e-6}, BudgetKind.ZCDP),
        ({"rho": 0.5}, BudgetKind.ZCDP),
        ({"rho": 0.5, "delta": 0}, BudgetKind.ZCDP),
    ],
)
def test_the_parts_decide_the_kind(parts: dict[str, object], kind: BudgetKind) -> None:
    assert Budget.of(**parts).kind is kind


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"delta": "1e-6"},
        {"epsilon": 1, "rho": 1},
        {"epsilon": 1, "rho": 1, "delta": "1e-6"},
        {"epsilon": 1, "delta": 1},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": 2},
        {"rho": 1, "delta": 1},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": True},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": "1e7"},
        {"rho": "1e7"},
        {"rho": 1, "delta": -1},
        {"rho": 1, "delta": False},
    ],
)
def test_other_parts_make_no_budget(parts: dict[str, object]) -> None:
    with pytest.raises(InvalidLossError):
        Budget.of(**parts)


def test_a_budget_of_the_wrong_kind_cannot_be_built() -> None:
    with pytest.raises(InvalidLossError):
        Budget(kind=BudgetKind.PURE, epsilon=Fraction(1), delta=Fraction(1, 10))
    with pytest.raises(InvalidLossError):
        Budget(kind=BudgetKind.APPROXIMATE, epsilon=Fraction(1))
    with pytest.raises(InvalidLossError):
        Budget(kind=BudgetKind.PURE, epsilon=1.0)  # type: ignore[arg-type]


def test_promises_are_for_people() -> None:
    assert promise(Budget.of(epsilon=4)) == "differential privacy with epsilon 4"
    assert promise(Budget.of(epsilon=4, delta="1e-6")) == "differential privacy with epsilon 4, delta 1e-6"
    assert promise(Budget.of(rho="1/2")) == "zero-concentrated differential privacy with rho 0.5"


def test_limits_are_whole_units_rounded_down() -> None:
    assert limit_of(Budget.of(epsilon="1/3")).epsilon == Fraction(333_333_333_333, 10**12)
    assert limit_of(Budget.of(rho="2/3", delta="1/3")) == PrivacyLoss(
        rho=Fraction(666_666_666_666, 10**12), delta=Fraction(333_333_333_333_333_333, 10**18)
    )


@given(st.fractions(min_value=Fraction(1, 100), max_value=20), st.integers(10, 10**15))
def test_an_approximate_limit_keeps_the_promise_in_all(epsilon: Fraction, n: int) -> None:
    budget = Budget(kind=BudgetKind.APPROXIMATE, epsilon=epsilon, delta=Fraction(1, n))
    limit = limit_of(budget)
    conversion = budget.delta / 2
    assert limit.epsilon == 0 < limit.rho
    assert zcdp_to_approximate(limit.rho, conversion) <= epsilon
    assert limit.delta + conversion <= budget.delta


@pytest.mark.parametrize(
    "budget",
    [{"epsilon": "1e-13"}, {"rho": "1e-13"}, {"rho": 1, "delta": "1e-19"}, {"epsilon": "1e-9", "delta": "1e-12"}],
)
def test_a_budget_too_small_to_count_is_refused(budget: dict[str, str]) -> None:
    with pytest.raises(InvalidLossError, match="too small"):
        limit_of(Budget.of(**budget))


@given(AMOUNTS, st.fractions(min_value=0, max_value=1), AMOUNTS)
def test_counting_rounds_up_by_less_than_a_unit(epsilon: Fraction, delta: Fraction, rho: Fraction) -> None:
    loss = PrivacyLoss(epsilon=epsilon, delta=delta, rho=rho)
    whole = counted(loss)
    assert 0 <= whole.epsilon - epsilon < EPSILON_UNIT
    assert 0 <= whole.delta - delta < DELTA_UNIT
    assert 0 <= whole.rho - rho < RHO_UNIT
    assert counted(whole) == whole == from_units(to_units(whole))
    assert all(0 <= units < 2**62 for units in to_units(loss))


@pytest.mark.parametrize(
    "loss",
    [
        PrivacyLoss(epsilon=Fraction(10**6) + EPSILON_UNIT),
        PrivacyLoss(rho=Fraction(10**7)),
        PrivacyLoss(delta=Fraction(3, 2)),
    ],
)
def test_losses_beyond_the_integers_are_refused(loss: PrivacyLoss) -> None:
    with pytest.raises(InvalidLossError, match="too large"):
        counted(loss)


def test_losses_compose_by_sums() -> None:
    losses = [PrivacyLoss(epsilon=Fraction(1, 3)), PrivacyLoss(rho=Fraction(1), delta=Fraction(1, 7)), ZERO]
    assert compose(losses) == PrivacyLoss(epsilon=Fraction(1, 3), delta=Fraction(1, 7), rho=Fraction(1))
    assert compose([]) == ZERO


def test_a_pure_budget_counts_epsilon() -> None:
    loss = charge_of(
        plan(([laplace("1/3"), laplace("1/6")], "0"), ([laplace("1/2")], "0")), BudgetKind.PURE, Neighbours.ADD_REMOVE
    )
    assert loss == PrivacyLoss(epsilon=Fraction(1))


@pytest.mark.parametrize(
    "refused",
    [
        plan(([gaussian("1/2")], "0")),
        plan(([laplace("1/2"), gaussian("1/2")], "0")),
        plan(([laplace("1/2")], "1e-9")),
    ],
)
def test_a_pure_budget_refuses_what_costs_delta(refused: BudgetedPlan) -> None:
    with pytest.raises(InternalError):
        charge_of(refused, BudgetKind.PURE, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("kind", [BudgetKind.ZCDP, BudgetKind.APPROXIMATE])
def test_other_budgets_count_rho_and_delta(kind: BudgetKind) -> None:
    mixed = plan(([laplace("1/2"), gaussian("1/4")], "1e-9"), ([gaussian("1/8")], "2e-9"))
    assert charge_of(mixed, kind, Neighbours.ADD_REMOVE) == PrivacyLoss(rho=Fraction(1, 2), delta=Fraction(3, 10**9))


def test_charges_round_up_once() -> None:
    tiny = plan(([laplace("1e-20")] * 3, "0"))
    assert charge_of(tiny, BudgetKind.PURE, Neighbours.ADD_REMOVE) == PrivacyLoss(epsilon=EPSILON_UNIT)
    assert charge_of(tiny, BudgetKind.ZCDP, Neighbours.ADD_REMOVE) == PrivacyLoss(rho=RHO_UNIT)


@pytest.mark.parametrize(
    "noise",
    [
        Noise(mechanism=Mechanism.LAPLACE, loss=ZERO),
        Noise(mechanism=Mechanism.GAUSSIAN, loss=ZERO),
        Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(rho=Fraction(1))),
        Noise(mechanism=Mechanism.GAUSSIAN, loss=PrivacyLoss(epsilon=Fraction(1))),
        Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1), rho=Fraction(1))),
        Noise(mechanism=Mechanism.GAUSSIAN, loss=PrivacyLoss(rho=Fraction(1), delta=Fraction(1, 10))),
    ],
)
@pytest.mark.parametrize("kind", BudgetKind)
def test_noise_whose_loss_is_not_its_own_is_refused(noise: Noise, kind: BudgetKind) -> None:
    with pytest.raises(InternalError):
        charge_of(plan(([noise], "0")), kind, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("delta", ["-1e-9", "1", "2"])
def test_a_selection_delta_outside_its_domain_is_refused(delta: str) -> None:
    with pytest.raises(InternalError):
        charge_of(plan(([gaussian("1/2")], delta)), BudgetKind.ZCDP, Neighbours.ADD_REMOVE)


def test_an_answer_alone_is_pure_where_all_noise_is_laplace() -> None:
    assert guarantee_of(plan(([laplace("1/3"), laplace("1/6")], "1e-9")), Neighbours.ADD_REMOVE) == PrivacyLoss(
        epsilon=Fraction(1, 2), delta=Fraction(1, 10**9)
    )
    assert guarantee_of(plan(([laplace("1/2"), gaussian("1/8")], "1e-9")), Neighbours.ADD_REMOVE) == PrivacyLoss(
        rho=Fraction(1, 4), delta=Fraction(1, 10**9)
    )
    assert guarantee_of(plan(), Neighbours.ADD_REMOVE) == ZERO
