"""What a loss means: bounds that are met by the mechanisms that attain them."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery import accounting
from dpquery.accounting.meaning import DEPLOYMENTS, best_guess, posterior, relatives, trade_off
from dpquery.frontends.cli.main import run
from dpquery.kernel.loss import PrivacyLoss

ONE = PrivacyLoss(epsilon=Fraction(1))
CENSUS_SCALE = Fraction(339, 542)
"""`global_scale` of the persons of the redistricting data, in the US Census Bureau's published production code."""


def test_the_best_guess_is_that_of_randomised_response() -> None:
    assert float(best_guess(ONE)) == pytest.approx(math.e / (1 + math.e)) and best_guess(ONE) >= Fraction(731, 1000)
    assert float(best_guess(PrivacyLoss())) == 0.5
    leaky = accounting.leaky_response(1, "0.1")  # attains (1, 0.1)
    best = max((1 - x + 1 - leaky(x)) / 2 for x in (Fraction(i, 1000) for i in range(1001)))
    assert 0 <= float(best_guess(PrivacyLoss(epsilon=Fraction(1), delta=Fraction(1, 10))) - best) < 1e-3


@pytest.mark.parametrize("rho", ["0.01", "0.5", "3"])
def test_what_rho_allows_is_more_than_gaussian_noise_reaches(rho: str) -> None:
    """Gaussian noise of rho has mu = sqrt(2 rho)."""
    loss = accounting.loss(rho=rho)
    gaussian = accounting.gaussian(scale=1, sensitivity=Fraction(math.isqrt(int(2 * Fraction(rho) * 10**12)), 10**6))
    for alarms in ("0.001", "0.05", "0.3", "0.9"):
        assert 0 <= trade_off(loss)(alarms) <= gaussian(alarms)
    assert best_guess(loss) < 1


def test_odds_change_by_the_factor_and_no_more() -> None:
    for prior in ("0.001", "0.5", "0.99"):
        low, high = posterior(prior, ONE)
        odds = Fraction(prior) / (1 - Fraction(prior))
        assert float(high / (1 - high)) == pytest.approx(math.e * float(odds))
        assert float(low / (1 - low)) == pytest.approx(float(odds) / math.e)
    assert [*map(float, posterior(1, ONE)), *map(float, posterior(0, ONE))] == [1, 1, 0, 0]
    wide = PrivacyLoss(epsilon=Fraction(3000))  # e^-3000 is bounded by 0 from below
    assert posterior(1, wide) == (Fraction(1), Fraction(1))
    assert relatives(ONE, 3).epsilon == 3


def test_deployments_say_what_they_protect_and_where_it_is_published() -> None:
    assert len(DEPLOYMENTS) >= 5 and all(one.unit and one.neighbours and one.source for one in DEPLOYMENTS)


def test_the_epsilon_of_the_census_is_that_of_the_best_conversion_at_the_scale_of_its_code() -> None:
    """A person who is replaced moves counts by sqrt 2 in the L2 norm, so rho is the inverse square of the scale; it was
    published rounded. Bun and Steinke's formula would be more, and what Gaussian noise itself loses is less."""
    rho, delta = (1 / CENSUS_SCALE) ** 2, DEPLOYMENTS[0].loss.delta
    assert round(rho, 2) == DEPLOYMENTS[0].loss.rho == Fraction("2.56")
    assert round(float(accounting.zcdp_to_approximate(rho, delta)), 2) == 17.14
    assert round(float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / delta)), 2) == 17.9
    noise = accounting.gaussian_epsilon(delta, scale=CENSUS_SCALE, sensitivity=Fraction(math.sqrt(2)))
    assert round(float(noise), 2) == 16.47


def test_the_command_prints_it_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "meaning.html"
    assert run(["meaning", "--epsilon", "1", "--relatives", "3", "--html", str(written)]) == 0
    told = capsys.readouterr().out
    assert "at most 73.2 %" in told or "at most 73.1 %" in told
    assert "3 relatives who are alike count together: epsilon 3" in told and "Wikimedia" in told
    text = written.read_text()
    assert text.count('<svg class="plot"') == 2 and "3 relatives, asked" in text and "as published" in text
    assert not re.search(r"https?:|src=|<link|@import|url\(|<script", text), "the page loads nothing"
    assert run(["meaning"]) == 2
