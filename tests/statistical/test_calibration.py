"""The noise of whole queries, measured through Session.sql against scales that are worked out here by hand.

Each error is an answer less the exact value of fixed data. Its scale follows from what the ledger was charged and from
the sensitivity written beside the query, not from what the plan says of itself. Both tails are tested: too little noise
breaks the promise, too much wastes accuracy; and each test must also reject a scale that is off by a half.

A correct engine fails one check with a chance of at most FALSE_ALARM.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.planner import choose
from tests.properties.neighbours import folder
from tests.statistical.laws import Floats, plausible
from tests.statistical.tails_of_sums import FALSE_ALARM, gaussian_surprise, laplace_surprise, laplaces_surprise

CELLS = 500
QUERIES = 4  # 2000 draws of each kind: a scale that is off by a half has a chance below 1e-15 to pass
PEOPLE = range(2 * CELLS)  # two in each cell
GROUPS = 20  # that are selected, of 50 people each

PURE = {"epsilon": 1_000_000}
CONCENTRATED = {"rho": 1_000_000, "delta": "1/10"}
APPROXIMATE = {"epsilon": 1_000_000, "delta": "1/10"}
EPSILON, RHO = Fraction(2), Fraction(1, 2)


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


@pytest.fixture(scope="module")
def opened_once(shelf: str) -> Callable[..., dp.Session]:
    """Sessions that tests share: none reads what was released before, and charges are told apart by differences."""
    opened: dict[tuple[object, ...], dp.Session] = {}

    def once(law: str, **of: object) -> dp.Session:
        told = (law, *of.items())
        if told not in opened:
            opened[told] = session(shelf, PURE if law == "laplace" else CONCENTRATED, **of)  # type: ignore[arg-type]
        return opened[told]

    return once


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
        "free": [p % GROUPS for p in PEOPLE],
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
class Vector:
    """A count and a sum of one value, measured as the sums of what it is above `lower` and of what it is below `upper`.

    With B = upper - lower both move, in all groups together, by M B in L1 and (M B)^2 in L2 squared; in place of others
    by 2 M B and 2 (M B)^2. Each has noise of the vector's loss, which is charged once.
    """

    counted: str
    summed: str
    lower: int
    upper: int
    l1: float
    l2_squared: float
    share: Fraction = Fraction(1)
    """Of the loss."""

    @property
    def factors(self) -> dict[str, tuple[float, float]]:
        """With which factors the two sums, above and below, add up to the count, and to the sum: by hand
        n = (above + below) / B, and s = above + lower n."""
        width = self.upper - self.lower
        of_sum = self.upper / width, self.lower / width
        return {name: of for name, of in ((self.counted, (1 / width,) * 2), (self.summed, of_sum)) if name}


def check_vector(law: str, noise: Floats, scale: float, factors: tuple[float, ...], rounded: bool = True) -> None:
    """Asserts that noise is that of several numbers times these factors, each of this scale (or variance)."""

    def surprise(by: float) -> tuple[float, float]:
        if law == "gaussian":
            return gaussian_surprise(noise.ravel(), by * scale * sum(f * f for f in factors), rounded)
        return laplaces_surprise(noise.ravel(), [by * scale * abs(f) for f in factors], rounded)

    low, high = surprise(1)
    assert low > FALSE_ALARM, f"too little noise: chance {low}"
    assert high > FALSE_ALARM, f"too much noise: chance {high}"
    wrong = 1.5 if law == "laplace" else 1.5**2
    assert surprise(wrong)[0] < FALSE_ALARM, "the test is blind to too little noise"
    assert surprise(1 / wrong)[1] < FALSE_ALARM, "the test is blind to too much noise"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A query and the sensitivities of its measures, by hand: l1 and the square of l2, in the unit of the number.

    Rows of a person weigh `rows` together over all groups: M B and (M B)^2; in place of others 2 M B and
    M^2 max(2 B^2, W^2). `groups` limits what persons count where they are counted: g and g.
    """

    aggregates: dict[str, tuple[float, float]] = field(default_factory=dict)
    vectors: tuple[Vector, ...] = ()
    """Of the other aggregates."""
    laws: tuple[str, ...] = ("laplace", "gaussian")
    groups: int = 1
    rows: int = 1
    unit: str = "person"
    neighbours: str = "add_remove"
    where: str = ""
    parallel: int = 1
    """How many of the aggregates are paid for at once."""
    most: int | None = None
    """Rows that a person is declared to have."""

    @property
    def share(self) -> Fraction:
        """Of the loss, for each aggregate that is measured as such; all shares that are charged add up to 1."""
        left = 1 - sum((vector.share for vector in self.vectors), start=Fraction(0))
        return left * self.parallel / max(1, len(self.aggregates))


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
        groups=2,
        vectors=(
            Vector(
                counted="COUNT(*) FILTER (WHERE even)",
                summed="SUM(score) FILTER (WHERE even)",
                lower=-20,
                upper=40,
                l1=60,
                l2_squared=3600,
            ),
        ),
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
        aggregates={"COUNT(DISTINCT note)": (2, 4)},
        vectors=(
            Vector(
                counted="COUNT(*)",
                summed="SUM(cost)",
                lower=0,
                upper=512,
                l1=1024,
                l2_squared=1_048_576,
                share=Fraction(2, 3),
            ),
        ),
    ),
    "four share": Case(
        laws=("gaussian",),
        aggregates={"COUNT(*)": (1, 1), "SUM(score)": (40, 1600), "SUM(cost)": (512, 262_144), "SUM(rate)": (5, 25)},
    ),
    "four share, in vectors": Case(
        laws=("laplace",),
        vectors=(
            Vector(
                counted="COUNT(*)",
                summed="SUM(score)",
                lower=-20,
                upper=40,
                l1=60,
                l2_squared=3600,
                share=Fraction(2, 5),
            ),
            Vector(
                counted="", summed="SUM(cost)", lower=0, upper=512, l1=512, l2_squared=262_144, share=Fraction(2, 5)
            ),
            Vector(counted="", summed="SUM(rate)", lower=-5, upper=3, l1=8, l2_squared=64, share=Fraction(1, 5)),
        ),
    ),
    "row": Case(
        unit="row",
        vectors=(Vector(counted="COUNT(*)", summed="SUM(score)", lower=-20, upper=40, l1=60, l2_squared=3600),),
    ),
    "replaced": Case(
        neighbours="replace_one",
        vectors=(Vector(counted="COUNT(*)", summed="SUM(score)", lower=-20, upper=40, l1=120, l2_squared=7200),),
    ),
    "replaced, g=3 m=2": Case(
        neighbours="replace_one",
        groups=3,
        rows=2,
        vectors=(Vector(counted="COUNT(*)", summed="SUM(score)", lower=-20, upper=40, l1=240, l2_squared=28_800),),
    ),
    "row, replaced": Case(
        unit="row",
        neighbours="replace_one",
        vectors=(Vector(counted="COUNT(*)", summed="SUM(cost)", lower=0, upper=512, l1=1024, l2_squared=524_288),),
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


@pytest.mark.parametrize(("name", "law"), [(name, law) for name, case in CASES.items() for law in case.laws])
def test_noise_has_the_scale_that_the_charge_pays_for(
    name: str, law: str, opened_once: Callable[..., dp.Session]
) -> None:
    case, laplace = CASES[name], law == "laplace"
    opened = opened_once(law, unit=case.unit, neighbours=case.neighbours, most=case.most)
    names = [*(name for vector in case.vectors for name in vector.factors), *case.aggregates]
    items = ", ".join(f"{aggregate} AS a{i}" for i, aggregate in enumerate(names))
    loss = {"epsilon": EPSILON} if laplace else {"rho": RHO}
    text = f"SELECT cell, {items} FROM visits GROUP BY cell"
    bounds = {} if case.unit == "row" else {"max_groups": case.groups, "max_rows": case.rows}
    found, charge = answers(opened, text, **loss, **bounds)
    assert charge == (dp.PrivacyLoss(epsilon=EPSILON) if laplace else dp.PrivacyLoss(rho=RHO))
    noises = {name: numbers(found, f"a{i}") - EXACT[name] for i, name in enumerate(names)}
    for vector in case.vectors:
        lost = float(vector.share * (charge.epsilon if laplace else charge.rho))
        scale = vector.l1 / lost if laplace else vector.l2_squared / (2 * lost)
        for aggregate, factors in vector.factors.items():
            step = STEP.get(aggregate, 1.0)
            check_vector(law, noises[aggregate] / step, scale / (step if laplace else step**2), factors)
    for aggregate, (l1, l2_squared) in case.aggregates.items():
        step = STEP.get(aggregate, 1.0)
        noise, measures = noises[aggregate] / step, 1 / float(case.share)
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
def test_the_parts_of_averages_and_variances_have_their_scales(
    law: str, groups: int, rows: int, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deviations are from 10, the middle of [-20, 40], so at most 30; squared they lie in [0, 900], 450 around 450.

    COUNT, SUM and VAR_POP of the same values share three measures, which follow from the three numbers. The second loss
    is large, so that a variance is nowhere clamped to its range, and the squares can be told from it.
    """
    keep_centred_forms(monkeypatch)
    laplace = law == "laplace"
    opened = session(shelf, PURE if laplace else CONCENTRATED)
    bounds = {"max_groups": groups, "max_rows": rows}
    text = "SELECT cell, COUNT(*) AS n, SUM(score) AS s, VAR_POP(score) AS v FROM visits GROUP BY cell"

    def expect(noise: Floats, most: int, share: dp.PrivacyLoss) -> None:
        if laplace:
            check(law, noise, most / float(share.epsilon), rounded=True)
        else:
            check(law, noise, most**2 / (2 * float(share.rho)), rounded=True)

    found, charge = answers(opened, text, **({"epsilon": 50} if laplace else {"rho": 20}), **bounds)
    n, s = numbers(found, "n"), numbers(found, "s")
    shares = shares_of(found[0], charge)
    expect(s - 10 * n - in_cells(lambda p: SCORE(p) - 10), 30 * rows, shares[1])

    found, charge = answers(opened, text, **({"epsilon": 2000} if laplace else {"rho": 60_000}), **bounds)
    n, s, v = (numbers(found, name) for name in ("n", "s", "v"))
    assert ((v > 0) & (v < 900)).all()
    squares = (v - 450 + ((s - 10 * n) / n) ** 2) * n
    expect(squares - in_cells(lambda p: (SCORE(p) - 10) ** 2 - 450), 450 * rows, shares_of(found[0], charge)[2])


@pytest.mark.parametrize(("neighbours", "factor"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize(("groups", "rows"), [(3, 2), (1, 4)])
def test_three_terms_of_squares_lose_their_epsilon_once(
    groups: int, rows: int, neighbours: str, factor: int, shelf: str
) -> None:
    """With z from 0 to 1 between -20 and 40, the terms (1 - z)^2, 2 z (1 - z) and z^2 add up to 1 in each row, so
    together they move by `rows` of them, twice that in place of others. The count is their sum, and SUM(score) that of
    -20, 10 and 40 times each of them."""
    opened = session(shelf, PURE, neighbours=neighbours)
    text = "SELECT cell, COUNT(*) AS n, SUM(score) AS s, VAR_POP(score) AS v FROM visits GROUP BY cell"
    found, charge = answers(opened, text, epsilon=EPSILON, max_groups=groups, max_rows=rows)
    assert charge == dp.PrivacyLoss(epsilon=EPSILON)
    scale = factor * rows / float(charge.epsilon)
    check_vector("laplace", numbers(found, "n") - ONE, scale, (1, 1, 1))
    check_vector("laplace", numbers(found, "s") - EXACT["SUM(score)"], scale, (-20, 10, 40))


def keep_centred_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the planner take the first form of moments, whatever it errs."""
    monkeypatch.setattr(choose, "_mean_error", lambda *_: 0.0)


def shares_of(result: dp.Result, charge: dp.PrivacyLoss) -> list[dp.PrivacyLoss]:
    """Returns what each measure says it lost, after checking that together they lost what the ledger was charged."""
    shares = [measurement.loss for measurement in result.measurements]
    assert sum(shares, start=dp.PrivacyLoss()) == charge
    return shares


@pytest.mark.parametrize("form", ["vector", "centred"])
def test_an_average_is_the_quotient_of_its_noisy_parts(form: str, shelf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AVG adds no measure to COUNT and SUM, and uses their noisy numbers: nothing exact is left in it.

    In a vector the count is rounded after the quotient was taken: where the average is within its bounds, the sum over
    it is a number that rounds to the count. What is above 0 was measured by itself, what is below 512 follows.
    """
    if form == "centred":
        keep_centred_forms(monkeypatch)
    law = "laplace" if form == "vector" else "gaussian"
    opened = session(shelf, PURE if form == "vector" else CONCENTRATED)
    text = "SELECT cell, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS m FROM visits GROUP BY cell"
    loss = {"epsilon": EPSILON} if form == "vector" else {"rho": RHO}
    found, charge = answers(opened, text, **loss, max_groups=1, max_rows=1)
    n, s, m = (numbers(found, name) for name in ("n", "s", "m"))
    assert np.isnan(m[n < 0]).all()
    assert not np.isnan(m[n > 0]).any()
    assert 0.3 < (n > 0).mean() < 1
    assert (m[(n > 0) & (s <= 0)] == 0).all()
    within = (n > 0) & (m > 0) & (m < 512)
    assert 0.2 < within.mean() < 0.8
    of_count = s[within] / m[within]
    assert np.abs(of_count - n[within]).max() <= (0.5 if form == "vector" else 0) + 1e-9
    if form == "vector":
        lost = float(charge.epsilon)
        check_vector(law, n - ONE, 512 / lost, (1 / 512, 1 / 512))
        check(law, s - EXACT["SUM(cost)"], 512 / lost)
        assert np.abs(of_count - n[within]).max() > 0.4, "the count was rounded first"
        return
    shares = shares_of(found[0], charge)
    check(law, n - ONE, 1 / (2 * float(shares[0].rho)), rounded=True)
    check(law, s - 256 * n - in_cells(lambda p: COST(p) - 256), 256**2 / (2 * float(shares[1].rho)))


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(4)])
def test_what_an_epsilon_buys_of_an_approximate_budget(epsilon: Fraction, shelf: str) -> None:
    """The ledger counts rho. Count and sum are one vector: Laplace noise of epsilon costs epsilon^2 / 2 once."""
    opened = session(shelf, APPROXIMATE)
    text = "SELECT cell, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY cell"
    found, charge = answers(opened, text, epsilon=epsilon, delta="1e-6", max_groups=2, max_rows=1)
    assert charge.epsilon == 0
    lost = float(charge.rho)
    vector = Vector(counted="n", summed="s", lower=0, upper=512, l1=512, l2_squared=262_144)
    for name, exact, step in (("n", ONE, 1.0), ("s", EXACT["SUM(cost)"], 2.0**-12)):
        noise, factors = (numbers(found, name) - exact) / step, vector.factors[name]
        if found[0].measurements[0].mechanism == "laplace":
            check_vector("laplace", noise, vector.l1 / step / (2 * lost) ** 0.5, factors)
        else:
            check_vector("gaussian", noise, vector.l2_squared / step**2 / (2 * lost), factors)
    # A Gaussian of this rho alone keeps the epsilon with delta: the simple conversion bounds the better one.
    assert float(charge.rho) <= max(float(epsilon) ** 2 / 2, float(epsilon) ** 2 / (4 * 13.8) * 1.5)


@pytest.mark.parametrize(("neighbours", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_selected_groups_have_the_noise_of_a_vector_and_the_rest_decides(
    neighbours: str, factor: int, shelf: str
) -> None:
    """COUNT and SUM are a vector with two thirds of the loss; a third is for the units that decide, in rounds.
    Groups of 50 people are far above any threshold."""
    opened = session(shelf, CONCENTRATED, neighbours=neighbours)
    asked = 400 // GROUPS
    text = "SELECT free, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY free"
    many = [opened.sql(text, rho=Fraction(3, 2), delta="1e-6", max_groups=2, max_rows=2) for _ in range(asked)]
    assert all(result.to_arrow()["free"].to_pylist() == [*range(GROUPS)] for result in many)
    n = numbers(many, "n") - len(PEOPLE) / GROUPS
    s = numbers(many, "s") - np.array([sum(COST(p) for p in PEOPLE if p % GROUPS == free) for free in range(GROUPS)])
    # 400 draws each: off by a factor of two is found with certainty.
    for noise, of_terms in ((n, 2 / 512**2), (s, 1)):
        variance = of_terms * factor * 1024**2 / (2 * 1.5 * 2 / 3)
        low, high = surprises("gaussian", noise, variance)
        assert min(low, high) > FALSE_ALARM
        assert surprises("gaussian", noise, 4 * variance)[0] < FALSE_ALARM
        assert surprises("gaussian", noise, variance / 4)[1] < FALSE_ALARM
    assert opened._ledger.spent(None).rho == asked * Fraction(3, 2)
    assert opened._ledger.spent(None).delta == asked * Fraction(1, 10**6)


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
