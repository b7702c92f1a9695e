# mypy: disable-error-code="attr-defined, call-overload, comparison-overlap"
"""The public surface: what it reads, what it gives, and that it says where it comes from."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from dpquery import accounting as privacy
from dpquery import errors as extras
from dpquery.errors import DPQueryError, InvalidLossError
from tests.waiting import PATIENCE

NAMES = {
    *("ORDERS", "Amount", "Noise", "PrivacyLoss", "RenyiCurve", "TradeOff", "loss"),
    *(
        "pure_to_zcdp",
        "pure_to_rdp",
        "zcdp_to_rdp",
        "zcdp_to_approximate",
        "zcdp_within",
        "rdp_to_approximate",
        "rdp_delta",
    ),
    *("laplace_rdp", "discrete_laplace_rdp", "gaussian_rdp", "randomised_response_rdp", "compose_rdp"),
    *("gaussian_delta", "gaussian_epsilon", "gaussian_scale", "laplace_delta"),
    *("discrete_gaussian_delta", "discrete_gaussian_variance"),
    *("sequential", "parallel", "advanced", "optimal", "optimal_delta", "group"),
    *("approximate", "randomised_response", "laplace", "gaussian", "leak", "leaky_response", "roc", "plot_roc"),
    *("discrete_laplace", "discrete_gaussian", "batch_epsilon", "batch_delta", "batch"),
    *("Way", "laplace_error", "laplace_epsilon", "gaussian_error", "exponential_error", "least_error"),
    *("gaussians_rdp", "subsampled", "compose", "reconstruction_error", "response_error", "plot_errors"),
    *("laplace_density", "gaussian_density", "plot_densities"),
    *("DEPLOYMENTS", "Deployment", "best_guess", "posterior", "relatives", "trade_off"),
}

CALLS: dict[str, Callable[[Any], Any]] = {
    "pure_to_zcdp": lambda x: privacy.pure_to_zcdp(x),
    "zcdp_to_approximate": lambda x: privacy.zcdp_to_approximate(x, "1e-6"),
    "zcdp_within": lambda x: privacy.zcdp_within(x, "1e-6"),
    "pure_to_rdp": lambda x: privacy.pure_to_rdp(x, [2])[Fraction(2)],
    "randomised_response_rdp": lambda x: privacy.randomised_response_rdp(x, [2])[Fraction(2)],
    "zcdp_to_rdp": lambda x: privacy.zcdp_to_rdp(x, ["1.5"])[Fraction(3, 2)],
    "laplace_rdp": lambda x: privacy.laplace_rdp(x, orders=[2])[Fraction(2)],
    "gaussian_rdp": lambda x: privacy.gaussian_rdp(x, orders=[2])[Fraction(2)],
    "discrete_laplace_rdp": lambda x: privacy.discrete_laplace_rdp(x, 2, [2])[Fraction(2)],
    "gaussian_delta": lambda x: privacy.gaussian_delta(x, scale=2),
    "gaussian_epsilon": lambda x: privacy.gaussian_epsilon("1e-6", scale=x),
    "gaussian_scale": lambda x: privacy.gaussian_scale(x, "1e-6"),
    "discrete_gaussian_delta": lambda x: privacy.discrete_gaussian_delta(x, variance=9),
    "discrete_gaussian_variance": lambda x: privacy.discrete_gaussian_variance(x, "1e-3"),
    "laplace_delta": lambda x: privacy.laplace_delta(x, scale="0.25"),
    "optimal": lambda x: privacy.optimal(x, 9, total_delta="1e-6"),
    "optimal_delta": lambda x: privacy.optimal_delta("0.1", 9, total_epsilon=x),
    "advanced": lambda x: privacy.advanced([privacy.loss(epsilon="0.01")] * 5, x).epsilon,
    "group": lambda x: privacy.group(privacy.loss(epsilon=x, delta=x), 2).delta,
    "laplace": lambda x: privacy.laplace(x)(x),
    "gaussian": lambda x: privacy.gaussian(x)(x),
    "approximate": lambda x: privacy.approximate(x, x)("0.01"),
    "leak": lambda x: privacy.leak(x)(0),
}


def test_these_names_and_no_others() -> None:
    assert set(privacy.__all__) == NAMES


@pytest.mark.parametrize("name", CALLS)
def test_amounts_are_read_as_everywhere(name: str) -> None:
    call = CALLS[name]
    found = call("0.5")
    assert type(found) is Fraction
    assert found == call(0.5) == call(Decimal("0.5")) == call(Fraction(1, 2)) == call("1/2")
    for wrong in (True, None, "-1", -1, "x", float("nan"), Fraction(-1)):
        with pytest.raises(InvalidLossError):
            call(wrong)


def test_what_is_given_can_be_given_back() -> None:
    curve = privacy.compose_rdp(privacy.laplace_rdp(50), privacy.gaussian_rdp(20), privacy.zcdp_to_rdp("0.001"))
    epsilon = privacy.rdp_to_approximate(curve, "1e-6")
    assert privacy.rdp_delta(curve, epsilon) <= Fraction(1, 10**6) * (1 + Fraction(1, 10**20))
    scale = privacy.gaussian_scale("1", "1e-6")
    assert privacy.gaussian_delta("1", scale=scale) <= Fraction(1, 10**6)
    assert privacy.zcdp_to_approximate(privacy.zcdp_within(1, "1e-6"), "1e-6") <= 1
    assert privacy.sequential([privacy.loss(rho=1), privacy.loss(rho=2)]) == privacy.loss(rho=3)
    assert privacy.parallel([privacy.loss(rho=1), privacy.loss(rho=2)]) == privacy.loss(rho=2)


@pytest.mark.parametrize("name", sorted(name for name in NAMES if name.islower()))
def test_each_function_says_what_it_gives_and_names_a_source(name: str) -> None:
    text = inspect.getdoc(getattr(privacy, name)) or ""
    assert text.startswith("Returns ")
    unsourced = {"loss", "roc", "plot_roc", "discrete_laplace", "discrete_gaussian", "randomised_response", "leak"}
    unsourced |= {"plot_errors", "plot_densities"}
    assert name in unsourced or any(
        word in text for word in ("Source", "Proof", "As above", "as above", "`pure_to_rdp`")
    )


def test_roc_curves_are_numbers_without_any_library() -> None:
    curve = privacy.roc(privacy.leak("0.1"), points=11)
    assert curve[0] == (0, Fraction(1, 10))
    assert curve[-1] == (1, 1)
    assert [x for x, _ in curve] == [Fraction(n, 10) for n in range(11)]
    assert [y for _, y in curve] == sorted(y for _, y in curve)


class _Axes:
    """Stands for matplotlib's, and remembers."""

    def __init__(self) -> None:
        self.lines: dict[str, list[tuple[float, float]]] = {}

    def plot(self, x: list[float], y: list[float], *, label: str, **_: object) -> None:
        self.lines[label] = list(zip(x, y, strict=True))

    def set(self, **_: object) -> None:
        pass

    def legend(self) -> None:
        pass


def test_a_plot_has_a_line_for_each_function() -> None:
    axes: Any = _Axes()
    assert privacy.plot_roc([privacy.laplace(1), privacy.gaussian(1)], points=5, axes=axes) is axes
    privacy.plot_roc({"mine": privacy.leaky_response(1, "0.1")}, points=3, axes=axes)
    assert set(axes.lines) == {"Laplace 1", "Gaussian 1", "mine", "guessing"}
    assert axes.lines["mine"][0] == (0.0, 0.1)


def test_a_plot_with_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pytest.importorskip("matplotlib")
    axes = privacy.plot_roc([privacy.laplace(1)], points=5)
    assert len(axes.get_lines()) == 2


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        (lambda: privacy.plot_roc([privacy.laplace(1)]), "dpquery[plot]"),
        (lambda: privacy.batch_epsilon([privacy.discrete_laplace(1)], "1e-6"), "dpquery[accounting]"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    call: Callable[[], object], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(DPQueryError) as caught:
        call()
    assert extra in str(caught.value)


def test_neither_library_is_loaded_with_the_package() -> None:
    code = "import sys, dpquery.accounting; assert not {'matplotlib', 'dp_accounting', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
