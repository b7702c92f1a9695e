# mypy: disable-error-code="arg-type"
"""The law of choices: the sampler against probabilities worked out in decimals, and whole queries through Session.sql.

A correct engine fails one check with a chance of at most FALSE_ALARM (Massart 1990, for distributions on a line), and
each check must reject a law whose coefficient is off by a factor.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.kernel.exponential import Histogram, choose
from dpquery.kernel.plan import Count, Lattice, Measure
from tests.flipped import flipped
from tests.properties.neighbours import folder

FALSE_ALARM = 1e-9


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


_numbers = itertools.count()


def law(utilities: Sequence[Fraction], coefficient: Fraction) -> list[float]:
    """Returns the probabilities proportional to exp(coefficient * utility)."""
    with localcontext(prec=60):
        best = max(utilities)
        powers = [coefficient * (u - best) for u in utilities]
        masses = [(Decimal(p.numerator) / Decimal(p.denominator)).exp() for p in powers]
        return [float(mass / sum(masses)) for mass in masses]


def flips(utilities: Sequence[Fraction], coefficient: Fraction | float) -> list[float]:
    """Returns the probabilities by permute-and-flip, which is what a pure budget pays for."""
    best = max(utilities)
    return flipped([math.exp(float(coefficient) * float(u - best)) for u in utilities])


def gap(drawn: Sequence[int], probabilities: Sequence[float]) -> float:
    """Returns the largest distance between the distribution functions, over candidates 0, 1, ..."""
    counts = Counter(drawn)
    empirical = itertools.accumulate(counts[i] / len(drawn) for i in range(len(probabilities)))
    return max(abs(a - b) for a, b in zip(empirical, itertools.accumulate(probabilities), strict=True))


def allowed(samples: int) -> float:
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * samples))


def distances(values: Sequence[int], target: Fraction, size: int) -> list[Fraction]:
    """Returns minus the rank distance of each candidate 0, 1, ... to the target."""
    found = []
    for t in range(size):
        below, upto = sum(v < t for v in values), sum(v <= t for v in values)
        found.append(-max(Fraction(0), below - target * len(values), target * len(values) - upto))
    return found


VALUES = [2, 2, 3, 7, 7, 7, 8, 30, 31, 39]
SAMPLES = 200_000


@pytest.mark.parametrize("target", [Fraction(1, 2), Fraction(1, 10), Fraction(7, 8)])
def test_a_choice_has_its_law_and_no_other(target: Fraction) -> None:
    on = Lattice(grid=Fraction(1), lower=0, upper=49)
    measure = Measure(id="q", label="", count=Count.QUANTILE, value="x", lattice=on, target=target)
    counts = Counter(VALUES)
    columns = [np.tile(np.array(list(part), dtype=np.int64), SAMPLES) for part in (counts.keys(), counts.values())]
    given = Histogram(group=np.repeat(np.arange(SAMPLES), len(counts)), value=columns[0], weight=columns[1])
    coefficient = Fraction(2, 3) / target.denominator
    drawn = choose(measure, coefficient, given, SAMPLES).tolist()
    ranks = distances(VALUES, target, 50)
    for factor in ("0.9", "1", "1.1", "2"):
        fits = gap(drawn, law(ranks, Fraction(2, 3) * Fraction(factor))) <= allowed(SAMPLES)
        assert fits is (factor == "1"), factor


# Whole queries: the coefficient follows from what was charged and from the bounds, by hand.

CELLS, QUERIES = 1000, 12
PURE, CONCENTRATED = {"epsilon": 1_000_000}, {"rho": 1_000_000, "delta": "1/10"}


def session(shelf: str, budget: dict[str, object], unit: str, neighbours: str) -> dp.Session:
    """Returns a session over cells with the same ten values, each of a person of its own."""
    columns: dict[str, object] = {
        "cell": {"type": "int64", "keys": list(range(CELLS))},
        "score": {"type": "int64", "lower": 0, "upper": 49},
        "kind": {"type": "int64", "keys": [0, 1, 2, 3]},
    }
    if unit == "person":
        columns["person"] = {"type": "int64"}
    table = {"columns": columns, **({"unit": "person", "max_rows": 8} if unit == "person" else {})}
    catalog = dp.Catalog(
        dataset="d",
        privacy_unit=unit,
        neighbours=neighbours,
        budget=budget,
        tables={"visits": table},
        defaults={"least_charge": "1e-12"},
    )
    ledger = dp.Ledger.create(f"{shelf}/{next(_numbers)}", catalog.declarations, catalog.budget, catalog.analysts)
    rows = [(cell, value, value % 3) for cell in range(CELLS) for value in VALUES]
    data = {name: [row[i] for row in rows] for i, name in enumerate(("cell", "score", "kind"))}
    return dp.connect(
        catalog, {"visits": pa.table(data | {"person": list(range(len(rows)))})}, ledger=ledger, reuse=False
    )


# (aggregate, utilities in ranks, how far a unit with one row moves them apart, and where one is replaced)
KINDS = [-Fraction(0) + Fraction([v % 3 for v in VALUES].count(k)) for k in range(4)]
CASES = {
    "median": ("MEDIAN(score)", distances(VALUES, Fraction(1, 2), 50), Fraction(1), Fraction(2)),
    "quartile": ("QUANTILE_DISC(score, 0.25)", distances(VALUES, Fraction(1, 4), 50), Fraction(3, 2), Fraction(2)),
    "mode": ("MODE(kind)", KINDS, Fraction(1), Fraction(2)),
}


ASKED = {"median": 4, "quartile": 8, "mode": QUERIES}
"""How often each is asked: the law of half or twice the loss is the further off, the more candidates there are."""


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize(
    ("unit", "neighbours", "groups", "rows"),
    [
        ("row", "add_remove", 1, 1),
        ("person", "add_remove", 1, 1),
        ("person", "add_remove", 3, 2),
        ("row", "replace_one", 1, 1),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_choices_have_the_law_that_the_charge_pays_for(
    name: str, unit: str, neighbours: str, groups: int, rows: int, currency: str, shelf: str
) -> None:
    aggregate, ranks, apart, replaced = CASES[name]
    opened = session(shelf, PURE if currency == "epsilon" else CONCENTRATED, unit, neighbours)
    text = f"SELECT cell, {aggregate} AS q FROM visits GROUP BY cell"
    bounds = {} if unit == "row" else {"max_groups": groups, "max_rows": rows}
    asked = Fraction(2) if currency == "epsilon" else Fraction(1, 2)
    drawn: list[int] = []
    queries = ASKED[name]
    for _ in range(queries):
        answer = opened.sql(text, **{currency: asked}, **bounds)
        drawn += [int(value) for value in answer.to_arrow()["q"].to_pylist()]
    charged = getattr(opened._ledger.spent(None), currency) / queries
    assert charged == asked
    # the rows of one unit weigh `rows` over all cells, each `apart`; a replaced row moves two by `apart` or one by
    # `replaced`, and squares add up
    is_replaced = neighbours == "replace_one"
    moved = max(2 * apart, replaced) if is_replaced else rows * apart
    squares = max(2 * apart**2, replaced**2) if is_replaced else moved**2
    coefficient = charged / moved if currency == "epsilon" else Fraction(math.sqrt(8 * charged / squares))
    for factor in (Fraction(1, 2), Fraction(1), Fraction(2)):
        of = flips if currency == "epsilon" else law
        assert (gap(drawn, of(ranks, coefficient * factor)) <= allowed(len(drawn))) is (factor == 1), factor


def test_two_choices_share_the_loss(shelf: str) -> None:
    """MEDIAN and COUNT get half of it each."""
    opened = session(shelf, PURE, "person", "add_remove")
    drawn: list[int] = []
    for _ in range(QUERIES):
        answer = opened.sql(
            "SELECT cell, MEDIAN(score) AS q, COUNT(*) AS n FROM visits GROUP BY cell",
            epsilon=4,
            max_groups=1,
            max_rows=1,
        )
        drawn += [int(value) for value in answer.to_arrow()["q"].to_pylist()]
    for factor in (1, 2, 4):
        assert (gap(drawn, flips(CASES["median"][1], Fraction(factor))) <= allowed(len(drawn))) is (factor == 2)


def test_quantiles_come_in_the_order_of_their_fractions(shelf: str) -> None:
    opened = session(shelf, PURE, "person", "add_remove")
    fractions = ("0.1", "0.25", "0.5", "0.75", "0.9")
    items = ", ".join(f"QUANTILE_DISC(score, {p}) AS q{i}" for i, p in enumerate(fractions))
    table = opened.sql(f"SELECT cell, MAX(score) AS b, MIN(score) AS a, {items} FROM visits GROUP BY cell", epsilon=1)
    columns = [table.to_arrow()[name].to_pylist() for name in ("a", "q0", "q1", "q2", "q3", "q4", "b")]
    assert all(list(row) == sorted(row) for row in zip(*columns, strict=True))


def together_law(steps: int) -> tuple[list[float], list[float]]:
    """Returns the laws of the median and of the quartile 0.25 of VALUES, of three quartiles at epsilon 3, by hand.

    Two levels of 3/2 each; the median takes 7/8 of its level, Laplace noise of one rank's scale 1 / (3/16) divides
    the values that equal it. The quartile is the median of those below, over the candidates up to it: its coefficient
    is that of 3/2. Its law is averaged over the noise, in so many steps for each rank.
    """
    middle = flips(distances(VALUES, Fraction(1, 2), 50), Fraction(7, 8) * Fraction(3, 2))
    quartile, counts = [0.0] * 50, Counter(VALUES)
    scale = 1 / (Fraction(1, 8) * Fraction(3, 2)) / 2
    for t, chance in enumerate(middle):
        below, equal = [v for v in VALUES if v < t], counts[t]
        missing = len(VALUES) / 2 - len(below)
        ends = [i / steps for i in range(equal * steps + 1)]
        cuts = [_laplace((end - missing) / float(scale)) for end in ends]
        parts = [(0.0, cuts[0]), (float(equal), 1 - cuts[-1])]
        parts += [((a + b) / 2, y - x) for a, b, x, y in zip(ends, ends[1:], cuts, cuts[1:], strict=False)]
        for share, part in parts:
            for candidate, mass in enumerate(_median_law(below, t, share)):
                quartile[candidate] += chance * part * mass
    return middle, quartile


def _laplace(x: float) -> float:
    return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2


def _median_law(below: Sequence[int], t: int, share: float) -> list[float]:
    """Returns the law of the median of values and of a part of one that equals t, among 0 to t, at epsilon 3/2."""
    total = len(below) + share
    masses = []
    for candidate in range(t + 1):
        less, equal = sum(v < candidate for v in below), sum(v == candidate for v in below)
        upto = less + equal + (share if candidate == t else 0)
        masses.append(math.exp(-1.5 * max(0.0, less - total / 2, total / 2 - upto)))
    return flipped([mass / max(masses) for mass in masses])


def test_three_quantiles_have_the_laws_of_two_levels(shelf: str) -> None:
    """Together they lose 3, as the ledger says; with a wrong loss, or noise on the division, other laws result."""
    opened = session(shelf, PURE, "row", "add_remove")
    quartiles = ", ".join(f"QUANTILE_DISC(score, {p}) AS q{p[2:]}" for p in ("0.25", "0.5", "0.75"))
    drawn: dict[str, list[int]] = {"q25": [], "q5": []}
    for _ in range(QUERIES):
        table = opened.sql(f"SELECT cell, {quartiles} FROM visits GROUP BY cell", epsilon=3).to_arrow()
        for name, values in drawn.items():
            values += [int(value) for value in table[name].to_pylist()]
    assert opened._ledger.spent(None).epsilon == 3 * QUERIES
    middle, quartile = together_law(16)
    assert gap(drawn["q5"], middle) <= allowed(len(drawn["q5"]))
    assert gap(drawn["q25"], quartile) <= allowed(len(drawn["q25"])) - 0.001  # what steps of 1/16 rank may be off
    for factor in (Fraction(1, 2), Fraction(2, 3), Fraction(3, 2), Fraction(2)):
        other = flips(distances(VALUES, Fraction(1, 2), 50), factor * Fraction(7, 8) * Fraction(3, 2))
        assert gap(drawn["q5"], other) > allowed(len(drawn["q5"])), factor
