"""The noise of whole queries, measured through Session.sql against scales that are worked out here by hand.

Each error is an answer less the exact value of fixed data. Its scale follows from what the ledger was charged and from
the sensitivity written beside the query, not from what the plan says of itself. Both tails are tested: too little noise
breaks the promise, too much wastes accuracy; and each test must also reject a scale that is off by a half.

A correct engine fails one check with a chance of at most FALSE_ALARM.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from tests.properties.neighbours import folder
from tests.statistical.laws import Floats, plausible
from tests.statistical.tails_of_sums import FALSE_ALARM, gaussian_surprise, laplace_surprise

CELLS = 500
QUERIES = 8  # 4000 draws of each kind: a scale that is off by a half has a chance below 1e-15 to pass
PEOPLE = range(2 * CELLS)  # two in each cell

PURE = {"epsilon": 1_000_000}
CONCENTRATED = {"rho": 1_000_000, "delta": "1/10"}
APPROXIMATE = {"epsilon": 1_000_000, "delta": "1/10"}
EPSILON, RHO = Fraction(2), Fraction(1, 2)


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


_numbers = itertools.count()


def session(
    shelf: str,
    budget: Mapping[str, object],
    *,
    unit: str = "person",
    neighbours: str = "add_remove",
    most: int | None = None,
) -> dp.Session:
    """Returns a session over fixed data: one row for each person, two people in each of the cells."""
    columns: dict[str, object] = {
        "cell": {"type": "int64", "keys": list(range(CELLS))},
        "free": {"type": "int64"},
        "score": {"type": "int64", "lower": -20, "upper": 40},
        "cost": {"type": "float64", "lower": 0, "upper": 512},
        "rate": {"type": "decimal(8,2)", "lower": -5, "upper": 3},
        "even": {"type": "boolean"},
        "note": {"type": "text"},
    }
    if unit != "row":
        columns["person"] = {"type": "int64"}
    table = {"columns": columns, **({} if unit == "row" else {"unit": "person", "max_rows": most or 8})}
    catalog = dp.Catalog(
        dataset="d",
        privacy_unit=unit,
        neighbours=neighbours,
        budget=budget,
        tables={"visits": table},
        defaults={"least_charge": "1e-12"},
    )
    ledger = dp.Ledger.create(f"{shelf}/{next(_numbers)}", catalog.declarations, catalog.budget, catalog.analysts)
    data = {
        "person": list(PEOPLE),
        "cell": [p % CELLS for p in PEOPLE],
        "free": [p % 4 for p in PEOPLE],
        "score": [SCORE(p) for p in PEOPLE],
        "cost": [COST(p) for p in PEOPLE],
        "rate": pa.array([str(RATE(p)) for p in PEOPLE]),
        "even": [EVEN(p) for p in PEOPLE],
        "note": [f"note {p}" for p in PEOPLE],
    }
    return dp.connect(catalog, {"visits": pa.table(data)}, ledger=ledger, reuse=False)


def SCORE(p: int) -> int:
    return p % 7 + (-20 if EVEN(p) else 33)


def COST(p: int) -> float:
    return float(p % 11)


def RATE(p: int) -> float:
    return p % 5 / 2


def EVEN(p: int) -> bool:
    return p // CELLS == 0


def in_cells(value: Callable[[int], float]) -> Floats:
    """Returns the sum of a person's value over the people in each cell."""
    return np.array([sum(value(p) for p in PEOPLE if p % CELLS == cell) for cell in range(CELLS)])


ONE = in_cells(lambda p: 1.0)
EXACT = {
    "COUNT(*)": ONE,
    "COUNT(score)": ONE,
    "COUNT(DISTINCT person)": ONE,
    "COUNT(DISTINCT note)": ONE,
    "COUNT(*) FILTER (WHERE even)": in_cells(lambda p: float(EVEN(p))),
    "COUNT(*) FILTER (WHERE NOT even)": in_cells(lambda p: 1.0 - EVEN(p)),
    "SUM(CASE WHEN NOT even THEN score ELSE 0 END)": in_cells(lambda p: SCORE(p) * (not EVEN(p))),
    "SUM(score)": in_cells(SCORE),
    "SUM(score) FILTER (WHERE even)": in_cells(lambda p: SCORE(p) * EVEN(p)),
    "SUM(cost)": in_cells(COST),
    "SUM(rate)": in_cells(RATE),
}
STEP = {"SUM(cost)": 2.0**-12, "SUM(rate)": 0.01}
"""Lattice steps; of floats no more is known than that they are fine."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A query and the sensitivities of its measures, by hand: l1 and the square of l2, in the unit of the number.

    Rows of a person weigh `rows` together over all groups: M B and (M B)^2; in place of others 2 M B and
    M^2 max(2 B^2, W^2). `groups` limits what persons count where they are counted: g and g.
    """

    aggregates: dict[str, tuple[float, float]]
    groups: int = 1
    rows: int = 1
    unit: str = "person"
    neighbours: str = "add_remove"
    where: str = ""
    parallel: int = 1
    """How many of the aggregates are paid for at once."""
    most: int | None = None
    """Rows that a person is declared to have."""


CASES = {
    "count": Case(aggregates={"COUNT(*)": (1, 1)}),
    "count, m=3": Case(rows=3, aggregates={"COUNT(*)": (3, 9)}),
    "count, g=2 m=3": Case(groups=2, rows=3, aggregates={"COUNT(*)": (3, 9)}),
    "count, g=3 m=2": Case(groups=3, rows=2, aggregates={"COUNT(*)": (2, 4)}),
    "values": Case(groups=2, rows=2, aggregates={"COUNT(score)": (2, 4)}),
    "units, g=3": Case(groups=3, rows=5, aggregates={"COUNT(DISTINCT person)": (3, 3)}),
    "distinct, g=2 m=3": Case(groups=2, rows=3, aggregates={"COUNT(DISTINCT note)": (3, 9)}),
    "sum, g=2 m=2": Case(groups=2, rows=2, aggregates={"SUM(score)": (80, 6400)}),
    "sum of floats": Case(groups=2, rows=1, aggregates={"SUM(cost)": (512, 262_144)}),
    "sum of decimals": Case(groups=3, rows=2, aggregates={"SUM(rate)": (10, 100)}),
    "filtered": Case(
        groups=2, aggregates={"COUNT(*) FILTER (WHERE even)": (1, 1), "SUM(score) FILTER (WHERE even)": (40, 1600)}
    ),
    "disjoint rows": Case(
        unit="row",
        aggregates={"COUNT(*) FILTER (WHERE even)": (1, 1), "COUNT(*) FILTER (WHERE NOT even)": (1, 1)},
        parallel=2,
    ),
    "disjoint rows of persons, m=3 g=2": Case(
        rows=3,
        groups=2,
        most=3,
        aggregates={
            "SUM(score) FILTER (WHERE even)": (120, 14_400),
            "SUM(CASE WHEN NOT even THEN score ELSE 0 END)": (120, 14_400),
        },
        parallel=2,
    ),
    "disjoint rows of persons with more rows than count": Case(
        rows=2,
        most=3,
        aggregates={"COUNT(*) FILTER (WHERE even)": (2, 4), "COUNT(*) FILTER (WHERE NOT even)": (2, 4)},
        parallel=2,
    ),
    "disjoint rows, replaced": Case(
        unit="row",
        neighbours="replace_one",
        aggregates={"COUNT(*) FILTER (WHERE even)": (2, 2), "COUNT(*) FILTER (WHERE NOT even)": (2, 2)},
    ),
    "three share": Case(
        groups=2,
        rows=2,
        aggregates={"COUNT(*)": (2, 4), "SUM(cost)": (1024, 1_048_576), "COUNT(DISTINCT note)": (2, 4)},
    ),
    "four share": Case(
        aggregates={"COUNT(*)": (1, 1), "SUM(score)": (40, 1600), "SUM(cost)": (512, 262_144), "SUM(rate)": (5, 25)}
    ),
    "row": Case(unit="row", aggregates={"COUNT(*)": (1, 1), "SUM(score)": (40, 1600)}),
    "replaced": Case(neighbours="replace_one", aggregates={"COUNT(*)": (2, 2), "SUM(score)": (80, 3600)}),
    "replaced, g=3 m=2": Case(
        neighbours="replace_one", groups=3, rows=2, aggregates={"COUNT(*)": (4, 8), "SUM(score)": (160, 14_400)}
    ),
    "row, replaced": Case(
        unit="row", neighbours="replace_one", aggregates={"COUNT(*)": (2, 2), "SUM(cost)": (1024, 524_288)}
    ),
}


def answers(opened: dp.Session, text: str, **options: object) -> tuple[list[dp.Result], dp.PrivacyLoss]:
    """Returns many answers to a query, and what the ledger was charged for each."""
    ledger = opened._ledger
    before = ledger.spent(None)
    found = [opened.sql(text, **options) for _ in range(QUERIES)]  # type: ignore[arg-type]
    after = ledger.spent(None)
    return found, dp.PrivacyLoss(
        epsilon=(after.epsilon - before.epsilon) / QUERIES, rho=(after.rho - before.rho) / QUERIES
    )


def numbers(results: list[dp.Result], name: str) -> Floats:
    """Returns a column of all answers, shape (answers, cells)."""
    return np.array([[_float(value) for value in result.to_arrow()[name].to_pylist()] for result in results])


def _float(value: object) -> float:
    return float("nan") if value is None else float(value)  # type: ignore[arg-type]


def surprises(law: str, noise: Floats, parameter: float, rounded: bool = False) -> tuple[float, float]:
    """Returns how surprising noise of this law and scale (or variance) is, on both sides."""
    return (laplace_surprise if law == "laplace" else gaussian_surprise)(noise.ravel(), parameter, rounded)


def check(law: str, noise: Floats, parameter: float, rounded: bool = False) -> None:
    """Asserts that the noise has this scale (or variance), and no other."""
    low, high = surprises(law, noise, parameter, rounded)
    assert low > FALSE_ALARM, f"too little noise: chance {low}"
    assert high > FALSE_ALARM, f"too much noise: chance {high}"
    wrong = 1.5 if law == "laplace" else 1.5**2
    assert surprises(law, noise, parameter * wrong, rounded)[0] < FALSE_ALARM, "the test is blind to too little noise"
    assert surprises(law, noise, parameter / wrong, rounded)[1] < FALSE_ALARM, "the test is blind to too much noise"


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", CASES)
def test_noise_has_the_scale_that_the_charge_pays_for(name: str, law: str, shelf: str) -> None:
    case, laplace = CASES[name], law == "laplace"
    opened = session(
        shelf, PURE if laplace else CONCENTRATED, unit=case.unit, neighbours=case.neighbours, most=case.most
    )
    items = ", ".join(f"{aggregate} AS a{i}" for i, aggregate in enumerate(case.aggregates))
    loss = {"epsilon": EPSILON} if laplace else {"rho": RHO}
    text = f"SELECT cell, {items} FROM visits GROUP BY cell"
    bounds = {} if case.unit == "row" else {"max_groups": case.groups, "max_rows": case.rows}
    found, charge = answers(opened, text, **loss, **bounds)
    assert charge == (dp.PrivacyLoss(epsilon=EPSILON) if laplace else dp.PrivacyLoss(rho=RHO))
    measures = len(case.aggregates) / case.parallel
    for i, (aggregate, (l1, l2_squared)) in enumerate(case.aggregates.items()):
        step = STEP.get(aggregate, 1.0)
        noise = (numbers(found, f"a{i}") - EXACT[aggregate]) / step
        rounded = case.unit != "row" and aggregate != "COUNT(DISTINCT note)"  # rows of persons count in finer steps
        if laplace:
            check(law, noise, l1 / step * measures / float(charge.epsilon), rounded)
        else:
            check(law, noise, l2_squared / step**2 * measures / (2 * float(charge.rho)), rounded)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_loss_so_small_that_sums_are_rounded_to_many_lattice_steps(law: str, shelf: str) -> None:
    """Noise of this scale has no 64 bits in lattice steps; what it is paid for stays the same."""
    laplace, rows = law == "laplace", 1000
    opened = session(shelf, PURE if laplace else CONCENTRATED, most=rows)
    loss = Fraction(1, 2**16) if laplace else Fraction(1, 2**19)  # more than the least charge
    found, charge = answers(
        opened, "SELECT cell, SUM(cost) AS s FROM visits GROUP BY cell", **{"epsilon" if laplace else "rho": loss}
    )
    noise = numbers(found, "s") - EXACT["SUM(cost)"]
    if laplace:
        check(law, noise, 512 * rows / float(charge.epsilon))
    else:
        check(law, noise, (512 * rows) ** 2 / (2 * float(charge.rho)))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (3, 2)])
def test_the_parts_of_averages_and_variances_have_their_scales(law: str, groups: int, rows: int, shelf: str) -> None:
    """Deviations are from 10, the middle of [-20, 40], so at most 30; squared they lie in [0, 900], 450 around 450.

    COUNT, SUM and VAR_POP of the same values share three measures, which follow from the three numbers. The second loss
    is large, so that a variance is nowhere clamped to its range, and the squares can be told from it.
    """
    laplace = law == "laplace"
    opened = session(shelf, PURE if laplace else CONCENTRATED)
    bounds = {"max_groups": groups, "max_rows": rows}
    text = "SELECT cell, COUNT(*) AS n, SUM(score) AS s, VAR_POP(score) AS v FROM visits GROUP BY cell"

    def expect(noise: Floats, most: int, share: dp.PrivacyLoss) -> None:
        if laplace:
            check(law, noise, most / float(share.epsilon), rounded=True)
        else:
            check(law, noise, most**2 / (2 * float(share.rho)), rounded=True)

    found, charge = answers(opened, text, **({"epsilon": 20} if laplace else {"rho": 20}), **bounds)
    n, s = numbers(found, "n"), numbers(found, "s")
    shares = shares_of(found[0], charge)
    expect(s - 10 * n - in_cells(lambda p: SCORE(p) - 10), 30 * rows, shares[1])

    found, charge = answers(opened, text, **({"epsilon": 2000} if laplace else {"rho": 60_000}), **bounds)
    n, s, v = (numbers(found, name) for name in ("n", "s", "v"))
    assert ((v > 0) & (v < 900)).all()
    squares = (v - 450 + ((s - 10 * n) / n) ** 2) * n
    expect(squares - in_cells(lambda p: (SCORE(p) - 10) ** 2 - 450), 450 * rows, shares_of(found[0], charge)[2])


def shares_of(result: dp.Result, charge: dp.PrivacyLoss) -> list[dp.PrivacyLoss]:
    """Returns what each measure says it lost, after checking that together they lost what the ledger was charged."""
    shares = [measurement.loss for measurement in result.measurements]
    assert sum(shares, start=dp.PrivacyLoss()) == charge
    return shares


def test_an_average_is_the_quotient_of_its_noisy_parts(shelf: str) -> None:
    """AVG adds no measure to COUNT and SUM, and uses their noisy numbers: nothing exact is left in it."""
    opened = session(shelf, PURE)
    text = "SELECT cell, COUNT(*) AS n, SUM(score) AS s, AVG(score) AS m FROM visits GROUP BY cell"
    found, charge = answers(opened, text, epsilon=EPSILON, max_groups=1, max_rows=1)
    n, s, m = (numbers(found, name) for name in ("n", "s", "m"))
    there = n > 0
    assert 0.3 < there.mean() < 1
    assert np.isnan(m[~there]).all()
    expected = np.clip(s[there] / n[there], -20, 40)
    assert np.allclose(m[there], expected, atol=1e-9)
    of_count, of_sum = (float(share.epsilon) for share in shares_of(found[0], charge))
    check("laplace", n - ONE, 1 / of_count, rounded=True)
    check("laplace", s - 10 * n - in_cells(lambda p: SCORE(p) - 10), 30 / of_sum, rounded=True)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(4)])
def test_what_an_epsilon_buys_of_an_approximate_budget(epsilon: Fraction, shelf: str) -> None:
    """The ledger counts rho. Laplace noise of epsilon/2 each costs epsilon^2/8 each, two Gaussians share theirs."""
    opened = session(shelf, APPROXIMATE)
    text = "SELECT cell, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY cell"
    found, charge = answers(opened, text, epsilon=epsilon, delta="1e-6", max_groups=2, max_rows=1)
    assert charge.epsilon == 0
    share = float(charge.rho) / 2
    for name, exact, l1, l2_squared, step in (
        ("n", ONE, 1, 1, 1.0),
        ("s", EXACT["SUM(cost)"], 512, 262_144, 2.0**-12),
    ):
        noise = (numbers(found, name) - exact) / step
        if found[0].measurements[0].mechanism == "laplace":
            check("laplace", noise, l1 / step / (2 * share) ** 0.5, rounded=True)
        else:
            check("gaussian", noise, l2_squared / step**2 / (2 * share), rounded=True)
    # A Gaussian of this rho alone keeps the epsilon with delta: the simple conversion bounds the better one.
    assert float(charge.rho) <= max(float(epsilon) ** 2 / 2, float(epsilon) ** 2 / (4 * 13.8) * 1.5)


@pytest.mark.parametrize(("neighbours", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_selected_groups_have_the_noise_of_three_measures(neighbours: str, factor: int, shelf: str) -> None:
    """COUNT, SUM and the number of units that decides. Four groups of 250 people are far above any threshold."""
    opened = session(shelf, CONCENTRATED, neighbours=neighbours)
    text = "SELECT free, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY free"
    many = [opened.sql(text, rho=Fraction(3, 2), delta="1e-6", max_groups=2, max_rows=2) for _ in range(100)]
    assert all(result.to_arrow()["free"].to_pylist() == [0, 1, 2, 3] for result in many)
    n = numbers(many, "n") - len(PEOPLE) / 4
    s = numbers(many, "s") - np.array([sum(COST(p) for p in PEOPLE if p % 4 == free) for free in range(4)])
    # 400 draws each: off by a factor of two is found with certainty.
    for noise, l2_squared in ((n, 4), (s, 1024**2)):
        variance = factor * l2_squared * 3 / (2 * 1.5)
        low, high = surprises("gaussian", noise, variance)
        assert min(low, high) > FALSE_ALARM
        assert surprises("gaussian", noise, 4 * variance)[0] < FALSE_ALARM
        assert surprises("gaussian", noise, variance / 4)[1] < FALSE_ALARM
    assert opened._ledger.spent(None).rho == 150
    assert opened._ledger.spent(None).delta == 100 * Fraction(1, 10**6)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_two_draws_are_shared(law: str, shelf: str) -> None:
    """Between measures, between queries and between groups: never the same vector, and signs agree half the time."""
    opened = session(shelf, PURE if law == "laplace" else CONCENTRATED)
    loss = {"epsilon": Fraction(1)} if law == "laplace" else {"rho": Fraction(1, 10)}
    text = (
        "SELECT cell, COUNT(*) AS n, COUNT(DISTINCT note) AS d, COUNT(DISTINCT person) AS u FROM visits GROUP BY cell"
    )
    found, _ = answers(opened, text, **loss, max_groups=3, max_rows=1)
    noises = [numbers(found, name) - ONE for name in ("n", "d", "u")]
    by_query = [vector for noise in noises for vector in noise]
    assert len({vector.tobytes() for vector in by_query}) == len(by_query)
    shifted = [np.roll(vector, 1) for vector in by_query]
    assert len({vector.tobytes() for vector in by_query + shifted}) == 2 * len(by_query)
    assert all(len(set(vector.tolist())) > 5 for vector in by_query), "all groups share one draw"
    first = np.concatenate([noise.ravel() for noise in noises])
    for second in (
        np.concatenate([noises[i].ravel() for i in (1, 2, 0)]),  # another measure
        np.concatenate([np.roll(noise, 1, axis=0).ravel() for noise in noises]),  # another query
        np.concatenate([np.roll(noise, 1, axis=1).ravel() for noise in noises]),  # another group
    ):
        assert agree(first, second)
        copied = np.where(np.arange(first.size) % 5 == 0, first, second)  # the near miss: a fifth is shared
        assert not agree(first, copied)


def agree(first: Floats, second: Floats) -> bool:
    """Whether the signs of two vectors of symmetric noise agree about as often as chance says."""
    both = (first != 0) & (second != 0)
    equal = int((np.sign(first) == np.sign(second))[both].sum())
    return plausible(equal, int(both.sum()), 0.5, FALSE_ALARM)


def test_the_same_query_twice_is_charged_twice_and_drawn_twice(shelf: str) -> None:
    opened = session(shelf, PURE)
    text = "SELECT cell, COUNT(*) AS n FROM visits GROUP BY cell"
    first, second = opened.sql(text, epsilon=1), opened.sql(text, epsilon=1)
    assert first.to_arrow() != second.to_arrow()
    assert opened._ledger.spent(None).epsilon == 2
    assert first.to_arrow() == first.to_arrow(), "reading an answer draws nothing"
