"""Released numbers lie on a grid that the plan alone decides, and are never -0, NaN or infinite."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.planner import choose
from tests.properties.neighbours import Hall, folder
from tests.properties.queries import Query

CELLS = 200
LARGEST = 2**63 - 1
ODD = [0.1, math.pi, -0.0, 5e-324, 1e-9, 1 / 3, math.nan, math.inf, -math.inf, None, 1e300]


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    with folder() as name:
        yield name


def catalog() -> dp.Catalog:
    columns = {
        "person": {"type": "int64"},
        "cell": {"type": "int64", "keys": list(range(CELLS))},
        "whole": {"type": "int64", "lower": -20, "upper": 40},
        "wide": {"type": "int64", "lower": -(10**15), "upper": 10**15},
        "real": {"type": "float64", "lower": -1, "upper": 3},
        "vast": {"type": "float64", "lower": -1e100, "upper": 1e100},
        "tiny": {"type": "float64", "lower": 0, "upper": 1e-12},
        "money": {"type": "decimal(12,2)", "lower": 0, "upper": 1000},
    }
    tables = {"visits": {"unit": "person", "max_rows": 8, "columns": columns}}
    return dp.Catalog(dataset="d", privacy_unit="person", budget={"epsilon": 1_000_000}, tables=tables)


def visits(people: range) -> dict[str, pa.Table]:
    """Returns two rows for each person, with values that are on no grid."""
    rows = [(p, i) for p in people for i in range(2)]
    odd = [ODD[(p + i) % len(ODD)] for p, i in rows]
    data = {
        "person": pa.array([p for p, _ in rows], pa.int64()),
        "cell": pa.array([p % CELLS for p, _ in rows], pa.int64()),
        "whole": pa.array([(7 * p + i) % 61 - 20 for p, i in rows], pa.int64()),
        "wide": pa.array([(123_456_789_123_457 * p + i) % 10**18 for p, i in rows], pa.int64()),
        "real": pa.array(odd, pa.float64()),
        "vast": pa.array([None if x is None else x * 1e90 for x in odd], pa.float64()),
        "tiny": pa.array([None if x is None else x * 1e-12 for x in odd], pa.float64()),
        "money": pa.array([Decimal(p % 100000) / 100 for p, _ in rows], pa.decimal128(12, 2)),
    }
    return {"visits": pa.table(data)}


SUMS = ("whole", "wide", "real", "vast", "tiny", "money")


@pytest.mark.parametrize(
    "people", [range(0), range(1), range(1000), range(1, 1000)], ids=["none", "one", "many", "neighbour"]
)
@pytest.mark.parametrize("epsilon", ["100", "1", "1/20"])
def test_released_numbers_are_multiples_of_the_grid(
    epsilon: str, people: range, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sums that are measured by themselves; of vectors the terms are, and sums follow from them."""
    monkeypatch.setattr(choose, "_mean_error", lambda *_: 0.0)
    items = ", ".join(f"SUM({name}) AS {name}" for name in SUMS)
    query = Query(
        text=f"SELECT cell, COUNT(*) AS n, COUNT(real) AS k, {items} FROM visits GROUP BY cell",
        max_groups=2,
        max_rows=3,
    )
    opened = Hall(catalog(), shelf).open(visits(people))
    prepared = opened.prepare(query)
    steps = {measure.label: step for measure, step in zip(prepared.measures, prepared.steps, strict=True)}
    table = opened.session.sql(query.text, epsilon=epsilon, max_groups=2, max_rows=3).to_arrow()
    assert all(type(value) is int for name in ("n", "k") for value in table[name].to_pylist())
    for name in SUMS:
        step = steps[f"SUM({name})"]
        values = table[name].to_pylist()
        assert all(value is not None and math.isfinite(value) for value in values)
        assert all(math.copysign(1, value) == 1 for value in values if value == 0)
        # A float keeps 53 bits of the noisy integer; what it drops is far below the noise, and a fixed rounding of it.
        # Integers end at the largest one of 64 bits, whatever the data.
        exact = [Fraction(value) / step for value in values if abs(value) != LARGEST]
        assert all(steps_.denominator == 1 or abs(steps_) >= 2**53 for steps_ in exact), name
        assert len(set(values)) > CELLS // 4 or epsilon == "100"


def test_the_grid_is_the_same_for_neighbours_and_for_every_loss(shelf: str) -> None:
    hall = Hall(catalog(), shelf)
    opened = [hall.open(visits(people)) for people in (range(0), range(1), range(1000))]
    for name in SUMS:
        query = Query(text=f"SELECT cell, SUM({name}) AS s, VAR_POP({name}) AS v FROM visits GROUP BY cell")
        lattices = [[measure.lattice for measure in database.prepare(query).measures] for database in opened]
        assert lattices[0] == lattices[1] == lattices[2]
        assert all(lattice is None or _is_power(lattice.grid, 10 if name == "money" else 2) for lattice in lattices[0])


def _is_power(value: Fraction, base: int) -> bool:
    size = max(value.numerator, value.denominator)
    while size % base == 0:
        size //= base
    return size == 1 and 1 in (value.numerator, value.denominator)


def test_every_residue_occurs_whatever_the_exact_count(shelf: str) -> None:
    """The precision attack: with naive floats, digits below a half occur only if the exact number is 0."""
    found = []
    for people in (range(0), range(CELLS)):
        opened = Hall(catalog(), shelf).open(visits(people))
        values: set[float] = set()
        for _ in range(5):
            answer = opened.session.sql("SELECT cell, SUM(real) AS s FROM visits GROUP BY cell", epsilon=1)
            values |= {value * 2**53 % 1 for value in answer.to_arrow()["s"].to_pylist()}
        found.append(values)
    assert found == [{0.0}, {0.0}]


def test_derived_numbers_are_finite_or_null(shelf: str) -> None:
    functions = ("AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
    for people, (name, epsilon) in itertools.product((range(0), range(300)), itertools.product(SUMS, ("1", "50"))):
        opened = Hall(catalog(), shelf).open(visits(people))
        items = ", ".join(f"{function}({name}) AS {function.lower()}" for function in functions)
        table = opened.session.sql(f"SELECT cell, {items} FROM visits GROUP BY cell", epsilon=epsilon).to_arrow()
        for column in table.columns[1:]:
            values = [value for value in column.to_pylist() if value is not None]
            assert all(math.isfinite(value) for value in values)
            assert all(math.copysign(1, value) == 1 for value in values if value == 0)
