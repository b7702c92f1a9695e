"""The noise that estimates share: against dense algebra, and what it does to the intervals of ratios."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpquery.accuracy.noise_shapes import variance_of
from dpquery.accuracy.simulated import Shared
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.reuse.joint_noise import LARGEST, RIDGE, _largest, joint
from dpquery.reuse.least_squares import Observed, System
from dpquery.session.options import Options
from tests.unit.reuse.shop import Shop
from tests.unit.reuse.test_least_squares import matrix, table, world

LAWS = [
    NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(30)),
    NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=Fraction(900)),
    NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=Fraction(90_000)),
]
WEEKS = "SELECT region, kind, AVG(score) AS m, COUNT(*) AS n FROM sales GROUP BY region, kind"


def covariance(shared: Shared) -> np.ndarray:
    """Returns the covariance that a law of continuous noises stands for."""
    factors = np.array(shared.factors)
    sizes = [float(s.scale) ** 2 * (2 if s.mechanism is Mechanism.LAPLACE else 1) for s in shared.sources]
    return np.asarray((factors * sizes) @ factors.T)


@pytest.mark.parametrize("seed", range(40))
def test_one_law_is_at_least_that_of_each_group(seed: int) -> None:
    chance, sizes, made = world(seed)
    noises = [chance.choice(LAWS) for _ in made]
    rows = np.concatenate([matrix(t, f, sizes) for t, f, _ in made])
    precisions = np.concatenate(
        [np.full(len(matrix(t, f, sizes)), 1 / variance_of(n)) for (t, f, _), n in zip(made, noises, strict=True)]
    )
    normal = rows.T @ (precisions[:, None] * rows)
    inverse = np.linalg.pinv(normal, rcond=1e-11, hermitian=True)
    system = System(sizes, [Observed(t, f, variance_of(n), None) for (t, f, _), n in zip(made, noises, strict=True)])
    asked, forms = table(chance, sizes) if chance.random() < 0.7 else made[0][0], [f for _, f, _ in made[:3]]
    known = [system.exactness(asked, factors) for factors in forms]
    if not all(one is not None and one.read for one in known):
        return
    found = joint([(system, noises, asked, factors, 0) for factors in forms], [1.0] * len(forms))
    if found is None:  # no group is close to the worst in all combinations
        return
    wanted = np.stack([matrix(asked, factors, sizes) for factors in forms], axis=1)  # (groups, measures, cells)
    groups = np.einsum("gac,cd,gbd->gab", wanted, inverse, wanted)
    law, scale = covariance(found), np.sqrt(groups.diagonal(axis1=1, axis2=2).max(axis=0))
    scale = np.multiply.outer(scale, scale)
    values = np.linalg.eigvalsh((law - groups) / scale)
    assert values.min() > -3 * LARGEST * (RIDGE + 1e-4)  # discrete noises vary a little less than continuous ones
    assert (law.diagonal() <= 1.01 * LARGEST * groups.diagonal(axis1=1, axis2=2).max(axis=0)).all()


def test_one_law_grows_until_no_group_exceeds_it() -> None:
    """Each of two groups is twice as exact as the other in one of two measures: neither is the law of both."""
    found = _largest(np.array([np.diag([1.0, 0.5]), np.diag([0.5, 1.0])]))
    assert found is not None and found[1] == pytest.approx(2, rel=1e-6)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("budget", ["{epsilon: 100000}", "{rho: 100000, delta: 1e-6}"])
@pytest.mark.parametrize(
    "number", ["AVG(score)", "COUNT(*) - COUNT(site)", "VAR_POP(score)", "SUM(score) / COUNT(site)"]
)
def test_intervals_do_not_widen_when_more_is_asked(budget: str, number: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, budget=budget)
    offer, little = Options(epsilon="0.5"), Options(epsilon="0.0001")
    if "rho" in budget:
        offer, little = Options(rho="0.05"), Options(rho="0.0001")
    query = f"SELECT region, {number} AS m FROM sales GROUP BY region"
    with shop.session() as session:
        widths = []

        def note(bought: str, *, fresh: bool = False) -> None:
            session.sql(bought, fresh=fresh, options=offer)
            answer = session.sql(query, options=little)
            ends = answer.accuracy
            widths.append(float(np.mean(np.subtract(ends["m", "upper"], ends["m", "lower"]))))

        note(query)
        note(WEEKS)
        note("SELECT COUNT(*) AS n, SUM(score) AS s FROM sales")
        note(query, fresh=True)
    for before, after in itertools.pairwise(widths):
        assert after < before * 1.05  # an average's interval follows its number of rows, which has another estimate
    assert widths[-1] < 0.85 * widths[0]
