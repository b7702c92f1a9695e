"""What windows and second aggregations make of released groups has intervals where it is known what noise is in it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.added_tables import NoiseOfSum
from dpquery.result.propagated_noise import LooseSum

CATALOG = """
version: 2
dataset: groups
privacy_unit: row
budget: {epsilon: 1000, delta: 1e-3}
defaults: {epsilon: 1}
tables:
  t:
    columns:
      g: {type: int64, lower: 1, upper: 4}
      h: {type: text}
      x: {type: float64, lower: 0, upper: 10}
"""
CELLS = "WITH c AS (SELECT g, COUNT(*) AS n, MEDIAN(x) AS middle, AVG(x) AS m FROM t GROUP BY g) "
COUNTS = "WITH c AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) "


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    place = tmp_path_factory.mktemp("groups")
    (place / "groups.yaml").write_text(CATALOG)
    rows = pd.DataFrame(
        {"g": np.repeat([1, 2, 3, 4], [400, 300, 200, 100]), "h": ["a", "b"] * 500, "x": np.tile([1.0, 2, 3, 4], 250)}
    )
    with dp.connect(place / "groups.yaml", {"t": rows}, ledger=place / "l", create=True, reuse=False) as opened:
        yield opened


def widths(answer: dp.Result, name: str) -> list[float]:
    """Returns how wide the interval of each row is, NaN where there is none, in the order of the keys."""
    ends = answer.accuracy[name]
    return list(ends["upper"] - ends["lower"])


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("LAG(n) OVER (ORDER BY g)", [0, 1, 1, 1]),
        ("LAG(n, 2) OVER (ORDER BY g DESC)", [1, 1, 0, 0]),
        ("LEAD(n, 1, 0) OVER (ORDER BY g)", [1, 1, 1, 0]),
        ("n - LAG(n) OVER (ORDER BY g)", [0, 1, 1, 1]),
        ("m - LAG(m) OVER (ORDER BY g)", [0, 1, 1, 1]),
        ("FIRST_VALUE(n) OVER (ORDER BY g)", [1, 1, 1, 1]),
        ("NTH_VALUE(n, 3) OVER (ORDER BY g)", [0, 0, 1, 1]),
        ("SUM(n) OVER (ORDER BY g)", [1, 1, 1, 1]),
        ("AVG(n) OVER (ORDER BY g ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [1, 1, 1, 1]),
        ("SUM(n) FILTER (WHERE g > 2) OVER (ORDER BY g)", [0, 0, 1, 1]),
        ("SUM(n) OVER (ORDER BY g ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING)", [1, 1, 0, 0]),
        ("SUM(2 * n + 1) OVER (PARTITION BY g % 2 ORDER BY g)", [1, 1, 1, 1]),
        ("LAG(n) OVER (ORDER BY n)", [0, 0, 0, 0]),  # which group is read follows from noise
        ("LAG(n) OVER (PARTITION BY n > 150 ORDER BY g)", [0, 0, 0, 0]),
        ("SUM(n) OVER (ORDER BY n DESC)", [0, 0, 0, 0]),
        ("SUM(n) FILTER (WHERE n > 150) OVER (ORDER BY g)", [0, 0, 0, 0]),
        ("SUM(CASE WHEN n > 150 THEN n END) OVER (ORDER BY g)", [0, 0, 0, 0]),
        ("SUM(m) OVER (ORDER BY g)", [0, 0, 0, 0]),  # a mean is no sum of measures
        ("LAG(middle) OVER (ORDER BY g)", [0, 0, 0, 0]),  # nor is a choice
        ("MAX(n) OVER (ORDER BY g)", [0, 0, 0, 0]),
        ("RANK() OVER (ORDER BY n)", [0, 0, 0, 0]),
    ],
)
def test_values_and_sums_of_other_groups_have_intervals(value: str, known: list[int], session: dp.Session) -> None:
    answer = session.sql(f"{CELLS}SELECT g, {value} AS v FROM c ORDER BY g")
    assert [int(width > 0) for width in widths(answer, "v")] == known


def test_rows_that_noise_left_out_make_no_sum_certain(session: dp.Session) -> None:
    query = "SELECT g, SUM(n) OVER (ORDER BY g) AS v FROM c"
    for where, known in (("g > 1", True), ("n > 150", False)):
        answer = session.sql(f"{COUNTS}{query} WHERE {where}")
        assert np.isfinite(widths(answer, "v")).all() == known


def test_groups_that_are_shown_for_their_noisy_size_make_no_sum_certain(session: dp.Session) -> None:
    query = "SELECT h, n, SUM(n) OVER (ORDER BY h) AS v, LAG(n) OVER (ORDER BY h) AS w FROM ({}) ORDER BY h"
    answer = session.sql(query.format("SELECT h, COUNT(*) AS n FROM t GROUP BY h"), delta="1e-6")
    assert len(answer) == 2 and np.isfinite(widths(answer, "n")).all()
    assert np.isnan([widths(answer, name) for name in ("v", "w")]).all()


def test_an_aggregation_of_groups_has_intervals(session: dp.Session) -> None:
    columns = (
        "SUM(n) AS s, AVG(n) AS a, SUM(n) FILTER (WHERE g > 2) AS f, MAX(n) AS m, SUM(n) FILTER (WHERE n > 9) AS p"
    )
    answer = session.sql(f"{COUNTS}SELECT {columns} FROM c")
    found = {name: widths(answer, name)[0] for name in ("s", "a", "f", "m", "p")}
    assert found["s"] == pytest.approx(4 * found["a"]) and found["f"] < found["s"] < 2 * found["f"]
    assert np.isnan([found["m"], found["p"]]).all()
    grouped = session.sql(f"{COUNTS}SELECT g % 2 AS odd, SUM(n) AS s FROM c GROUP BY 1 ORDER BY 1")
    assert widths(grouped, "s") == [found["f"]] * 2  # two groups each
    assert np.isnan(widths(session.sql(f"{COUNTS}SELECT n > 150 AS big, SUM(n) AS s FROM c GROUP BY 1"), "s")).all()


def test_a_running_sum_is_as_uncertain_as_the_groups_in_it(session: dp.Session) -> None:
    answer = session.sql(f"{COUNTS}SELECT g, SUM(n) OVER (ORDER BY g) AS v FROM c ORDER BY g", epsilon="0.1")
    (made,) = answer.measurements
    noise = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(10))
    assert made.mechanism == "laplace" and made.scale == 10
    expected = [2 * NoiseOfSum(noise=noise, count=count).half_width(Fraction(1, 20)) for count in (1, 2, 3, 4)]
    assert widths(answer, "v") == expected


def test_a_difference_of_two_groups_is_followed_as_two_noises(session: dp.Session) -> None:
    """Two copies of one group's number are not taken for numbers with noise of their own."""
    lag, same, other = (f"({f}(n) OVER (ORDER BY g{o}))" for f, o in (("LAG", ""), ("LEAD", " DESC"), ("LEAD", "")))
    asked = f"n - {lag} AS one, n - {same} AS two, {lag} + {same} AS twice, {lag} - {other} AS far, {lag} AS itself"
    answer = session.sql(f"{COUNTS}SELECT g, {asked} FROM c ORDER BY g", epsilon="0.1")
    one, two, twice, far, itself = (widths(answer, name)[2] for name in ("one", "two", "twice", "far", "itself"))
    assert one == two and itself < one < 1.5 * itself
    assert twice >= 2 * itself and far >= 2 * itself


def test_intervals_that_hold_at_once_are_wider(session: dp.Session) -> None:
    query = f"{COUNTS}SELECT g, SUM(n) OVER (ORDER BY g) AS v, n - LAG(n) OVER (ORDER BY g) AS w FROM c ORDER BY g"
    one, all = (session.sql(query, simultaneous=at_once) for at_once in (False, True))
    for name in ("v", "w"):
        assert widths(all, name)[1] > widths(one, name)[1]


def test_a_sum_that_is_joined_to_itself_has_the_intervals_of_its_rows(session: dp.Session) -> None:
    sums = "SELECT g, SUM(n) OVER (ORDER BY g) AS r FROM c"
    query = f"{COUNTS}, k AS ({sums}) SELECT a.g, a.r, b.r AS s FROM k AS a JOIN k AS b ON a.g = b.g + 1 ORDER BY a.g"
    answer, alone = session.sql(query), session.sql(f"{COUNTS}{sums} ORDER BY g")
    expected = widths(alone, "r")
    for name, known in (("r", expected[1:]), ("s", expected[:3])):
        assert all(width == right or np.isnan(width) for width, right in zip(widths(answer, name), known, strict=True))


@pytest.mark.parametrize("count", [2, 12])
def test_numbers_of_normal_noise_are_normal_together(count: int) -> None:
    normal = NoiseLaw(mechanism=Mechanism.GAUSSIAN, parameter=Fraction(900))
    assert LooseSum(noise=normal, count=count).half_width(Fraction(1, 20)) == count * normal.half_width(Fraction(1, 20))
    other = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(30))
    each = other.half_width(Fraction(1, 20 * count))
    assert LooseSum(noise=other, count=count).half_width(Fraction(1, 20)) == count * each
    together = NoiseOfSum(noise=normal, count=count).half_width(Fraction(1, 20))
    assert together == pytest.approx(1.96 * 30 * count**0.5, abs=1.5)


@pytest.mark.parametrize("failure", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000)])
def test_a_sum_by_least_squares_varies_no_more_than_one_of_its_releases(failure: Fraction) -> None:
    shown = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(900))
    own = NoiseLaw(mechanism=Mechanism.LAPLACE, parameter=Fraction(1000))
    for count in (4, 100):
        found = LooseSum(noise=shown, count=count, direct=own).half_width(failure)
        independent = NoiseOfSum(noise=own, count=count).half_width(failure)
        assert independent <= found < 1.5 * independent < LooseSum(noise=shown, count=count).half_width(failure)
    alone = LooseSum(noise=shown, count=1, direct=own)
    assert alone.half_width(failure) == shown.half_width(failure)
