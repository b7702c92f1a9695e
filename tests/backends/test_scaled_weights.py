"""Weights that are scaled to the total of a column: counted over the stored rows, whatever these hold, and verified."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.row_weights import RowWeights
from dpquery.backends.duckdb.table_reading import scaled_of
from dpquery.catalog import Catalog
from dpquery.errors import BackendError
from dpquery.kernel.plan import WEIGHT, Count, Key, Lattice, Measure, PrivateAggregate, Total, Weighing, Weights
from dpquery.plan.logical import Scan, ScanColumn
from dpquery.plan.scaled_weights import Scaled
from dpquery.plan.types import INT64
from tests.backends.engines import KEY, Groups, catalog_of, run
from tests.reference.backend import ReferenceBackend

Rows = list[tuple[Any, Any, Any, Any]]
"""Owner, place, value, and day."""
DAY = datetime.date(2024, 1, 1)
MONTHS = [datetime.date(2024, month, 3) for month in (1, 2, 3)]
LARGE = 2**52


def catalog(type: str, *, blocks: bool = False, **more: Any) -> Catalog:
    """Returns the catalog of orders with values of a type."""
    table: dict[str, Any] = {
        "unit": "person",
        "max_rows": 1000,
        "columns": {
            "person": {"type": "int64"},
            "place": {"type": "int64"},
            "value": {"type": type, "nullable": True},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
        },
    }
    if blocks:
        table["blocks"] = {"column": "day", "by": "month"}
    return catalog_of({"orders": table | more}, **({"neighbours": "replace_one"} if blocks else {}))


def frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(
        {
            c: pd.Series([row[i] for row in rows], dtype=object)
            for i, c in enumerate(("person", "place", "value", "day"))
        }
    )


def scaled(most: int, *, lower: int = -10, upper: int = 100, grid: Fraction = Fraction(1), max_rows: int = 4) -> Scaled:
    return Scaled(id="tw", column="value", grid=grid, lower=lower, upper=upper, most=most, max_rows=max_rows)


def aggregate(declared: Catalog, weights: Scaled, *, most_read: int = 10**7, ordinary: bool = True) -> PrivateAggregate:
    """Returns the scaled sum by place, beside the plain one and a count of rows."""
    table = declared.tables["orders"]
    scan = Scan(
        table="orders",
        columns=tuple(ScanColumn(id=f"o_{c.name}", name=c.name, type=c.type) for c in table.columns.values()),
        public=False,
        ownership=table.ownership,
        unit="o_person",
        row_limit=most_read,
        weight="wt" if ordinary else None,
        max_rows=4 if ordinary else None,
        scaled=(weights, replace(weights, id="tw2", most=weights.most + 1)),
    )
    lattice = Lattice(grid=weights.grid, lower=weights.lower, upper=weights.upper)
    total = Measure(
        id="total",
        label="",
        count=Count.SUM,
        value="o_value",
        lattice=lattice,
        total=Total(column="tw", most=weights.most),
    )
    other = replace(total, id="other", total=Total(column="tw2", most=weights.most + 1))
    stored = Weights(weighing=Weighing.STORED, max_rows=4, column="wt")
    whole = Weights(weighing=Weighing.WHOLE, max_rows=most_read)
    plain = Measure(id="plain", label="", count=Count.SUM, value="o_value", lattice=lattice)
    return PrivateAggregate(
        source=scan,
        unit="o_person",
        keys=(Key.of("o_place", INT64, range(5)),),
        weights=stored if ordinary else whole,
        measures=(total, other, plain, Measure(id="n", label="", count=Count.ROWS)),
    )


def both(declared: Catalog, rows: Rows, made: PrivateAggregate) -> Groups:
    """Returns what both engines give, which is the same."""
    given = {"orders": frame(rows)}
    found = run(ReferenceBackend(declared, given), made)
    assert run(DuckDBBackend(declared, given), made) == found
    return found


VALUES: dict[str, list[Any]] = {
    "int64": [0, 3, -7, 50, None, 100, 10**18, -(10**18), 1],
    "float64": [0.0, -0.0, 2.5, -7.25, math.nan, math.inf, -math.inf, 1e300, None, 5e-324],
    "decimal(10,2)": [Decimal("0.00"), Decimal("2.50"), Decimal("-7.25"), Decimal("99999999.99"), None],
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("type", VALUES)
@pytest.mark.parametrize("most", [1, 7, 60, 100, 10**9])
@pytest.mark.parametrize("ordinary", [True, False])
def test_both_engines_add_up_what_the_rows_of_each_person_are_scaled_to(type: str, most: int, ordinary: bool) -> None:
    rows: Rows = [
        (None if i % 11 == 0 else i % 4, i % 5, VALUES[type][i * 7 % len(VALUES[type])], MONTHS[i % 3])
        for i in range(60)
    ]
    made = aggregate(catalog(type), scaled(most), ordinary=ordinary)
    found = both(catalog(type), rows, made)
    assert any(numbers[0] for numbers in found.values())


@pytest.mark.parametrize("value", [10**18, 100, 99])
def test_a_person_with_extreme_values_adds_the_total_and_no_more(value: int) -> None:
    """One step less at most: weights are rounded down."""
    rows: Rows = [(1, i % 5, value, DAY) for i in range(50)]
    found = both(catalog("int64"), rows, aggregate(catalog("int64"), scaled(150)))
    total = sum(numbers[0] for numbers in found.values())
    assert 150 * WEIGHT - 50 * 100 <= total <= 150 * WEIGHT


def test_values_of_both_signs_do_not_make_room_for_each_other() -> None:
    """Magnitudes are added up: else a person of a million and minus a million could add each of them in full."""
    rows: Rows = [(1, 0, 100, DAY), (1, 1, -(10**9), DAY)]
    declared = catalog("int64")
    found = both(declared, rows, aggregate(declared, scaled(100, lower=-100)))
    assert found[(0,)][0] == 50 * WEIGHT and found[(1,)][0] == -50 * WEIGHT


def test_sums_beyond_64_bits() -> None:
    """All weights, magnitudes and totals are as large as a lattice lets them be."""
    declared = catalog("int64")
    rows: Rows = [(i % 3, i % 5, 2**62, DAY) for i in range(40)]
    for most in (LARGE, 7 * LARGE, 2**61):
        made = aggregate(declared, scaled(most, lower=-LARGE, upper=LARGE, max_rows=1000))
        found = both(declared, rows, made)
        for person in range(3):
            assert sum(numbers[0] for numbers in found.values()) <= 3 * most * WEIGHT, person


def test_rows_that_are_not_read_are_counted_in_the_total() -> None:
    """The choice of rows depends on the release's key, the weight does not."""
    declared = catalog("int64")
    rows: Rows = [(1, i % 5, 10, DAY) for i in range(20)]
    for key in (KEY, KEY + 1):
        for engine in (ReferenceBackend, DuckDBBackend):
            backend = engine(declared, {"orders": frame(rows)})
            found = run(backend, aggregate(declared, scaled(50), most_read=6), key)
            assert sum(numbers[0] for numbers in found.values()) == 60 * (WEIGHT // 4)


def test_rows_of_another_block_change_no_integer() -> None:
    declared = catalog("int64", blocks=True)
    made = aggregate(declared, scaled(60))
    kept: Rows = [(p, 0, 30 + p, MONTHS[0]) for p in (1, 1, 2, 2, 3)]
    others: list[Rows] = [
        [],
        [(1, 1, 10**18, MONTHS[1])] * 40,
        [(p, 1, -5, MONTHS[2]) for p in range(4)] + [(2, 1, 100, None)] * 9,
    ]
    answers = [both(declared, kept + more, made)[(0,)] for more in others]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("kind", ["frame", "parquet", "duckdb"])
def test_rows_in_frames_and_files_weigh_the_same(kind: str, tmp_path: Path) -> None:
    declared = catalog("int64")
    rows: Rows = [(i % 4, i % 5, i, MONTHS[i % 3]) for i in range(60)]
    given = frame(rows).astype({"person": "int64", "place": "int64", "value": "int64"})
    source: Any = given
    if kind == "parquet":
        source = str(tmp_path / "orders.parquet")
        given.to_parquet(source)
    elif kind == "duckdb":
        source = str(tmp_path / "orders.duckdb")
        with duckdb.connect(source) as made:
            made.register("given", pa.Table.from_pandas(given, preserve_index=False))
            made.execute("CREATE TABLE orders AS SELECT * FROM given")
    made_of = aggregate(declared, scaled(100))
    assert run(DuckDBBackend(declared, {"orders": source}), made_of) == both(declared, rows, made_of)


def test_a_file_that_was_changed_is_added_up_again(tmp_path: Path) -> None:
    declared, path = catalog("int64"), tmp_path / "orders.parquet"
    made = aggregate(declared, scaled(100))
    types = {"person": "int64", "place": "int64", "value": "int64"}
    first, second = ([(1, 0, value, DAY)] * 3 for value in (20, 90))
    frame(first).astype(types).to_parquet(path)
    backend = DuckDBBackend(declared, {"orders": str(path)})
    old = backend.prepare(made)
    assert run(backend, made) == both(declared, first, made)
    frame(second).astype(types).to_parquet(path)
    assert int(backend.run(old, KEY).numbers[0][0]) == both(declared, second, made)[(0,)][0]


Change = Callable[[str], str]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda text: text.replace(f"{60 * WEIGHT}", f"{61 * WEIGHT}"),
        lambda text: text.replace("SELECT unit, COUNT(*)", "SELECT NULL::BIGINT AS unit, COUNT(*)"),
        lambda text: text.replace("GROUP BY unit", "GROUP BY unit, size"),
        lambda text: text.replace("CAST(LEAST", "CAST(-LEAST"),
    ],
)
def test_weights_that_were_not_written_as_they_were_meant_are_not_read(
    wrong: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = catalog("int64")
    rows: Rows = [(1, 0, 70, DAY), (1, 0, 90, DAY), (2, 0, 80, DAY)]
    made = aggregate(declared, scaled(60))
    backend = DuckDBBackend(declared, {"orders": frame(rows)})
    statement = backend.prepare(made)
    assert isinstance(made.source, Scan)
    each = scaled_of(made.source, made.source.scaled[0])
    right = backend._tables.crowded(each)
    assert wrong(right) != right
    real = RowWeights._verify

    def spoiled(self: RowWeights, asked: Any, name: str) -> None:
        if asked == each:
            self._run(f"CREATE OR REPLACE TABLE {name} AS {wrong(right)}")
        real(self, asked, name)

    monkeypatch.setattr(RowWeights, "_verify", spoiled)
    with pytest.raises(BackendError, match="failed their check after writing"):
        backend.run(statement, KEY)


def test_values_that_are_missing_add_nothing() -> None:
    declared = catalog("float64")
    rows: Rows = [(1, 0, None, DAY), (1, 0, math.nan, DAY), (2, 0, None, DAY)]
    found = both(declared, rows, aggregate(declared, scaled(10)))
    assert found[(0,)][:3] == (0, 0, 0)
