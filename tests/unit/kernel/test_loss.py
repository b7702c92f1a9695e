"""Losses: exact amounts, and conversions that are never below the truth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.errors import InvalidLossError, QueryError
from dpquery.kernel import loss as module
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import (
    ZERO,
    PrivacyLoss,
    parse_amount,
    pure_to_zcdp,
    rho_within,
    zcdp_to_approximate,
)

EPSILONS = st.fractions(min_value=Fraction(1, 10**4), max_value=1000, max_denominator=10**9)
DELTAS = st.integers(2, 10**18).map(lambda n: Fraction(1, n))
RHOS = st.fractions(min_value=Fraction(1, 10**8), max_value=100, max_denominator=10**9)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("0.5", Fraction(1, 2)),
        ("1e-6", Fraction(1, 10**6)),
        ("1E-6", Fraction(1, 10**6)),
        ("1/2", Fraction(1, 2)),
        (".25", Fraction(1, 4)),
        ("3.", Fraction(3)),
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (1e-9, Fraction(1, 10**9)),
        (Decimal("0.3"), Fraction(3, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int32(2), Fraction(2)),
        (np.uint8(2), Fraction(2)),
        (np.float32(0.5), Fraction(1, 2)),
    ],
)
def test_amounts_are_read_exactly(value: object, amount: Fraction) -> None:
    assert parse_amount(value, name="epsilon") == amount


class LyingFloat(float):
    def __repr__(self) -> str:
        raise AssertionError("a foreign method was called")

    __str__ = __float__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __repr__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class LyingFraction(Fraction):
    @property
    def numerator(self) -> int:
        raise AssertionError("a foreign method was called")


class LyingText(str):
    def __len__(self) -> int:
        raise AssertionError("a foreign method was called")


BAD_AMOUNTS = [
    True,
    False,
    None,
    0,
    0.0,
    -0.0,
    -1,
    -0.5,
    "-1",
    "0",
    "0.0",
    "",
    " ",
    "1 ",
    "+1",
    "--1",
    "1_000",
    "１",
    "٣",
    "1e400",
    "1e31",
    "1e-31",
    "1e-320",
    "1e99999999999999999999999999999999999",
    "0." + "1" * 60,
    "1" * 41,
    "1/0",
    "0/1",
    "1/-2",
    "1.5/2",
    "0x10",
    "nan",
    "NaN",
    "inf",
    "Infinity",
    "1\n",
    "1\x00",
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    1e308,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    Decimal("-1"),
    Decimal("1e999999"),
    Decimal("1e-999999"),
    Decimal("1." + "1" * 1000),
    Fraction(-1, 2),
    Fraction(1, 10**400),
    10**31,
    10**5000,
    1j,
    b"1",
    [1],
    np.bool_(True),
    np.float64("nan"),
    np.float64("inf"),
    np.int64(-1),
    np.longdouble(1),
    np.array(1.0),
    LyingFloat(1.0),
    LyingFraction(1, 2),
    LyingText("1"),
]


@pytest.mark.parametrize("value", BAD_AMOUNTS, ids=lambda value: type(value).__name__)
def test_what_is_no_positive_amount_is_refused(value: object) -> None:
    with pytest.raises(InvalidLossError, match="epsilon"):
        parse_amount(value, name="epsilon")


def test_zero_is_an_amount_only_where_allowed() -> None:
    assert parse_amount(0, name="delta", allow_zero=True) == parse_amount("0.0", name="delta", allow_zero=True) == 0
    with pytest.raises(QueryError):
        parse_amount(-1, name="delta", allow_zero=True)


@given(st.one_of(st.text(), st.binary(), st.floats(), st.decimals(), st.fractions(), st.integers(), st.none()))
def test_every_value_is_read_exactly_or_refused(value: object) -> None:
    try:
        amount = parse_amount(value, name="epsilon")
    except InvalidLossError:
        return
    assert Fraction(1, 10**30) <= amount <= 10**30
    assert isinstance(value, (str, float, Decimal, Fraction, int))
    assert amount == Fraction(repr(value) if isinstance(value, float) else value)


def test_losses_add_part_by_part() -> None:
    one = PrivacyLoss(epsilon=Fraction(1, 3), delta=Fraction(1, 10**9))
    other = PrivacyLoss(epsilon=Fraction(1, 6), rho=Fraction(2))
    assert one + other == PrivacyLoss(epsilon=Fraction(1, 2), delta=Fraction(1, 10**9), rho=Fraction(2))
    assert one + ZERO == one


@pytest.mark.parametrize("part", [0.5, 1, -Fraction(1), True, "1", math.nan, Decimal(1)])
def test_a_loss_holds_fractions_alone(part: Fraction) -> None:
    for name in ("epsilon", "delta", "rho"):
        with pytest.raises(InvalidLossError, match=name):
            PrivacyLoss(**{name: part})


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (PrivacyLoss(epsilon=Fraction(1, 2), delta=Fraction(1, 10**9)), "epsilon 0.5, delta 1e-9"),
        (PrivacyLoss(rho=Fraction(1, 3)), "rho 0.333334"),
        (PrivacyLoss(epsilon=Fraction(1000000)), "epsilon 1000000"),
        (PrivacyLoss(epsilon=Fraction(1, 10**4)), "epsilon 0.0001"),
        (PrivacyLoss(delta=Fraction(123456789, 10**20)), "delta 1.23457e-12"),
        (ZERO, "nothing"),
    ],
)
def test_losses_are_shown_to_people(loss: PrivacyLoss, text: str) -> None:
    assert str(loss) == text


@given(EPSILONS)
def test_what_is_shown_is_never_below_and_hardly_above(epsilon: Fraction) -> None:
    shown = Fraction(module.show_amount(epsilon))
    assert epsilon <= shown <= epsilon * Fraction(100_002, 100_000)


def test_pure_privacy_is_zero_concentrated() -> None:
    assert pure_to_zcdp(Fraction(1, 2)) == Fraction(1, 8)


def tight_in_floats(rho: float, delta: float) -> float:
    """The formula of Canonne, Kamath, Steinke on a fine grid of orders."""
    orders = 1 + np.exp(np.linspace(math.log(1e-6), math.log(1e9), 200_001))
    values = rho * orders - np.log(orders * delta) / (orders - 1) + np.log1p(-1 / orders)
    return max(0.0, float(values.min()))


@pytest.mark.parametrize("rho", ["1e-8", "1e-4", "0.01", "0.1", "0.5", "1", "7", "50"])
@pytest.mark.parametrize("delta", ["1e-15", "1e-9", "1e-6", "1e-3", "0.1"])
def test_conversion_agrees_with_other_computations(rho: str, delta: str) -> None:
    exact = zcdp_to_approximate(Fraction(rho), Fraction(delta))
    grid = tight_in_floats(float(rho), float(delta))
    assert grid * (1 - 1e-6) - 1e-12 <= exact <= grid * (1 + 1e-6) + 1e-12
    orders = [1 + 10 ** (k / 50) for k in range(-150, 400)]
    library, _ = rdp_privacy_accountant.compute_epsilon(orders, [float(rho) * order for order in orders], float(delta))
    assert exact <= library * (1 + 1e-9) + 1e-12
    assert exact >= library * 0.99 - 1e-9


@given(RHOS, DELTAS)
def test_conversion_beats_the_simple_bound_and_covers_the_gaussian_mechanism(rho: Fraction, delta: Fraction) -> None:
    epsilon = float(zcdp_to_approximate(rho, delta))
    simple = float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / delta))
    assert epsilon <= simple * (1 + 1e-12)
    assert gaussian_delta(epsilon, float(rho)) <= float(delta) * (1 + 1e-6)


def gaussian_delta(epsilon: float, rho: float) -> float:
    """The exact delta of a Gaussian mechanism of that rho (Balle, Wang 2018, theorem 8)."""
    mu = math.sqrt(2 * rho)

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return below(mu / 2 - epsilon / mu) - math.exp(min(epsilon, 700.0)) * below(-mu / 2 - epsilon / mu)


def decimal_overhead(order: Fraction, delta: Fraction) -> Decimal:
    """The bound without rho, at the same order, to 120 digits."""
    context = Context(prec=120)
    alpha = 1 + order
    first = context.ln(context.divide(Decimal((alpha * delta).denominator), Decimal((alpha * delta).numerator)))
    ratio = order / alpha
    second = context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    inverse = context.divide(Decimal(order.denominator), Decimal(order.numerator))
    return context.add(context.multiply(first, inverse), second)


@given(st.floats(1e-6, 1e6), DELTAS)
def test_rounding_is_upward_and_tiny(order: float, delta: Fraction) -> None:
    ours, truth = module._overhead(Fraction(order), delta), Fraction(decimal_overhead(Fraction(order), delta))
    assert truth <= ours <= truth + Fraction(1, 10**38)


@given(RHOS, DELTAS)
def test_the_result_is_never_below_the_bound_at_its_order(rho: Fraction, delta: Fraction) -> None:
    order = module._best_order(rho, delta)
    tight = rho * (1 + order) + module._overhead(order, delta)
    simple = rho + 2 * module.sqrt_up(rho * module.ln_up(1 / delta))  # type: ignore[attr-defined]
    epsilon = zcdp_to_approximate(rho, delta)
    assert 0 <= epsilon - max(Fraction(0), min(tight, simple)) < Fraction(1, 10**18)


def test_a_rho_that_fails_the_check_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def stricter(rho: Fraction, delta: Fraction) -> Fraction:
        return zcdp_to_approximate(rho, delta) + Fraction(1, 10**9)

    monkeypatch.setattr(module, "zcdp_to_approximate", stricter)
    rho = rho_within.__wrapped__(Fraction(1), Fraction(1, 10**6))
    assert rho > 0
    assert stricter(rho, Fraction(1, 10**6)) <= 1


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(bool))
def test_roots_round_up(value: Fraction) -> None:
    root = module.sqrt_up(value)  # type: ignore[attr-defined]
    assert root * root >= value
    assert (root * (1 - Fraction(1, 10**48))) ** 2 < value


@given(EPSILONS, DELTAS)
@settings(max_examples=100)
def test_rho_within_is_within_and_nearly_the_greatest(epsilon: Fraction, delta: Fraction) -> None:
    rho = rho_within(epsilon, delta)
    assert (rho * 10**12).denominator == 1
    assert zcdp_to_approximate(rho, delta) <= epsilon
    more = Fraction(math.ceil((rho * (1 + Fraction(1, 10**11))) * 10**12) + 2, 10**12)
    assert zcdp_to_approximate(more, delta) > epsilon


@given(RHOS, RHOS, DELTAS)
def test_conversion_is_monotone_up_to_the_choice_of_order(one: Fraction, other: Fraction, delta: Fraction) -> None:
    low, high = sorted([one, other])
    assert zcdp_to_approximate(low, delta) <= zcdp_to_approximate(high, delta) * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize(
    ("rho", "delta"),
    [
        (Fraction(0), Fraction(1, 10)),
        (Fraction(1, 10**40), Fraction(1, 10**40)),
        (Fraction(10**12), Fraction(1, 10**18)),
        (Fraction(1, 2), 1 - Fraction(1, 10**25)),
        (Fraction(1, 10**400), Fraction(1, 10**400)),
    ],
)
def test_conversion_stands_extreme_parameters(rho: Fraction, delta: Fraction) -> None:
    epsilon = zcdp_to_approximate(rho, delta)
    assert epsilon <= Fraction(rho) + 2 * module.sqrt_up(rho * module.ln_up(1 / delta)) + Fraction(1, 10**18)  # type: ignore[attr-defined]
    if 0 < epsilon <= 10**6:
        assert zcdp_to_approximate(rho_within(epsilon, delta), delta) <= epsilon


@pytest.mark.parametrize("convert", [zcdp_to_approximate, rho_within])
@pytest.mark.parametrize(("amount", "delta"), [(1, 0), (1, 1), (1, 2), (-1, Fraction(1, 2))])
def test_conversion_refuses_other_domains(
    convert: Callable[[Fraction, Fraction], Fraction], amount: int, delta: Fraction
) -> None:
    with pytest.raises(InvalidLossError):
        convert(Fraction(amount), Fraction(delta))


def test_conversions_are_fast() -> None:
    start = time.thread_time()
    for n in range(100):
        rho_within(Fraction(4), Fraction(1, 10**6 + n))
    assert time.thread_time() - start < 10  # they take a hundredth of it


def test_a_notebook_shows_losses_and_budgets_as_people_say_them() -> None:
    assert repr(PrivacyLoss(epsilon=Fraction(1))) == "epsilon 1"
    assert repr([PrivacyLoss(rho=Fraction(1, 3), delta=Fraction(1, 10**6))]) == "[delta 1e-6, rho 0.333334]"
    assert repr(Budget.of(epsilon="0.8", delta="1e-6")) == "epsilon 0.8, delta 1e-6"
