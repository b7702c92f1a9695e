"""Sums from means, and means from sums: exact without noise, and free where exact enough."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.accuracy.noise_shapes import variance_of
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.inverse_variance import CombinedNoise, Component
from tests.scripted import zero_noise
from tests.unit.reuse.shop import Shop

FREE = dp.PrivacyLoss()
PAIRS = [
    (
        "SELECT region, AVG(price) AS x FROM sales GROUP BY region",
        "SELECT region, SUM(price) AS x FROM sales GROUP BY region",
    ),
    ("SELECT region, AVG(score) AS x FROM sales GROUP BY region", "SELECT SUM(score) AS x FROM sales"),
    (
        "SELECT kind, SUM(score) AS s, COUNT(*) AS n FROM sales GROUP BY kind",
        "SELECT kind, AVG(score) AS x FROM sales GROUP BY kind",
    ),
]


@pytest.mark.parametrize(("bought", "asked"), PAIRS)
def test_sums_and_means_follow_from_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bought: str, asked: str
) -> None:
    zero_noise(monkeypatch)
    shop, plain = Shop(tmp_path), Shop(tmp_path, "plain.ledger")
    with shop.session() as session, plain.session(reuse=False) as measuring:
        session.sql(bought, epsilon=4)
        answer = session.sql(asked, epsilon="0.3")
        assert answer.charge == FREE and answer.source == "free, from release 1"
        assert answer.to_arrow() == measuring.sql(asked, epsilon="0.3").to_arrow()
        assert session.explain(asked, epsilon=9).charge != FREE  # less exact than asked


def test_weighted_rows_of_people_add_up_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    shop, plain = Shop(tmp_path, unit="customer"), Shop(tmp_path, "plain.ledger", unit="customer")
    with shop.session() as session, plain.session(reuse=False) as measuring:
        session.sql(PAIRS[0][0], epsilon=100)
        answer = session.sql(PAIRS[0][1], epsilon=1)
        assert answer.charge == FREE
        bought, known = answer.to_pandas()["x"], measuring.sql(PAIRS[0][1], epsilon=1).to_pandas()["x"]
        assert abs(bought - known).max() < 25.001  # the number of rows may be rounded, and counts 50 each


def test_the_interval_is_that_of_both_noises() -> None:
    total = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(40))
    rows = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(3))
    both = CombinedNoise(
        components=(
            Component(noise=total, count=1, weight=Fraction(1)),
            Component(noise=rows, count=1, weight=Fraction(50)),
        ),
        rounded=0,
    )
    drawn = total.sample(40_000) + 50 * rows.sample(40_000)
    width = both.half_width(Fraction(1, 20))
    assert 0.94 < (abs(drawn) <= width).mean() < 0.965
    assert width < 4 * (variance_of(total) + 2500 * variance_of(rows)) ** 0.5
