"""What rows weigh in a scan: counted once over the stored rows, and never taken from another state of them."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.backends.duckdb.row_weights import RowWeights
from dpquery.backends.duckdb.table_reading import StoredWeighing
from dpquery.catalog import Catalog
from dpquery.errors import BackendError
from dpquery.kernel.plan import WEIGHT, Count, Key, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.expr import Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Filter, Join, Relation, Scan, ScanColumn, column
from dpquery.plan.types import INT64, TEXT
from tests.backends.engines import KEY, catalog_of, groups_of

Opener = Callable[[Catalog], DuckDBBackend]
START = datetime.date(2024, 1, 1)
VISITS: dict[str, Any] = {
    "unit": "person",
    "max_rows": 1000,
    "columns": {
        "person": {"type": "int64"},
        "number": {"type": "int64", "lower": 0, "upper": 1000},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    },
}
ZERO = Literal(value=0, type=INT64)
ITEMS: dict[str, Any] = {
    "unit": {"via": "visits", "on": {"visit": "number"}},
    "max_rows": 1000,
    "columns": {"visit": {"type": "int64"}, "label": {"type": "text"}},
}
ROWS = {1: 40, 2: 5, 3: 1, 4: 6, None: 50}
"""Rows of each person; of nobody there may be any number."""
PEOPLE = [person for person, count in ROWS.items() for _ in range(count)]
DAYS = [None if i % 9 == 0 else START + datetime.timedelta(days=i % 60) for i in range(len(PEOPLE))]


def visits() -> pd.DataFrame:
    people = pd.Series(PEOPLE, dtype="Int64")
    return pd.DataFrame({"person": people, "number": range(len(PEOPLE)), "day": DAYS})


def items() -> pd.DataFrame:
    """Items of visits, of which some lead to nobody and some nowhere."""
    return pd.DataFrame({"visit": [i % 120 for i in range(300)], "label": [f"i{i}" for i in range(300)]})


def made(**more: Any) -> Catalog:
    return catalog_of({"visits": VISITS | more, "items": ITEMS})


def weighed(catalog: Catalog, table: str, max_rows: int, *, unit: bool = True) -> Scan:
    declared = catalog.tables[table]
    assert declared.ownership is not None
    columns = tuple(ScanColumn(id=f"{table}_{c.name}", name=c.name, type=c.type) for c in declared.columns.values())
    own = f"{table}_unit" if declared.ownership.path else f"{table}_person"
    return Scan(
        table=table,
        columns=columns,
        public=False,
        ownership=declared.ownership,
        unit=own if unit else None,
        row_limit=declared.row_limit or 10**7,
        weight=f"{table}_weight",
        max_rows=max_rows,
    )


def counted(source: Relation, unit: str, weight: str, by: str, max_rows: int = 10**6) -> PrivateAggregate:
    """Returns what the rows weigh, by a key of their own, and how many there are."""
    types = {"visits_number": INT64, "items_label": TEXT}
    return PrivateAggregate(
        source=source,
        unit=unit,
        keys=(Key.of(by, types[by], None),),
        weights=Weights(weighing=Weighing.STORED, max_rows=max_rows, column=weight),
        measures=(Measure(id="units", label="", count=Count.UNITS), Measure(id="n", label="", count=Count.ROWS)),
        selection="units",
    )


def asked(backend: DuckDBBackend, aggregate: PrivateAggregate) -> dict[Any, int]:
    """Returns what the rows with each key weigh."""
    found = groups_of(aggregate, backend.run(backend.prepare(aggregate), KEY))
    return {group[0]: numbers[1] for group, numbers in found.items()}


def of_visits(backend: DuckDBBackend, catalog: Catalog, max_rows: int) -> dict[Any, int]:
    source = weighed(catalog, "visits", max_rows)
    return asked(backend, counted(source, "visits_person", "visits_weight", "visits_number"))


def backend_of(catalog: Catalog) -> DuckDBBackend:
    return DuckDBBackend(catalog, {"visits": visits(), "items": items()})


@pytest.fixture(params=["frame", "parquet", "duckdb"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the tables of a catalog as frames, whose weights are kept by row, or as files, by unit."""
    frames = {"visits": visits(), "items": items()}
    sources: dict[str, Any] = dict(frames)
    for name, frame in frames.items():
        if request.param == "parquet":
            sources[name] = str(tmp_path / f"{name}.parquet")
            frame.to_parquet(sources[name])
        elif request.param == "duckdb":
            sources[name] = str(tmp_path / f"{name}.duckdb")
            with duckdb.connect(sources[name]) as made:
                made.register("given", pa.Table.from_pandas(frame, preserve_index=False))
                made.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return lambda catalog: DuckDBBackend(catalog, {name: sources[name] for name in catalog.tables})


def expected(owners: list[Any], max_rows: int, limit: int = 10**7) -> dict[int, int]:
    """Returns the weight of each row by its place, of rows that belong to somebody."""
    counts = Counter(owners)
    steps = {owner: max_rows * WEIGHT // min(count, limit) for owner, count in counts.items()}
    return {i: min(WEIGHT, steps[owner]) for i, owner in enumerate(owners) if owner is not None}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("max_rows", [1, 3, 5, 6, 39, 40, 41, 10**7, 10**12])
def test_a_row_weighs_less_where_its_owner_has_too_many(
    max_rows: int, stored: Callable[[Catalog], DuckDBBackend]
) -> None:
    assert of_visits(stored(made()), made(), max_rows) == expected(PEOPLE, max_rows)


def test_where_nobody_has_too_many_rows_nothing_is_joined() -> None:
    catalog = made()
    backend = backend_of(catalog)
    for max_rows, is_joined in ((39, True), (40, False), (1000, False)):
        aggregate = counted(weighed(catalog, "visits", max_rows), "visits_person", "visits_weight", "visits_number")
        backend.run(backend.prepare(aggregate), KEY)
        assert ("weights" in backend.prepare(aggregate).text) is is_joined


def owners_of_items() -> list[Any]:
    return [PEOPLE[i % 120] if i % 120 < len(PEOPLE) else None for i in range(300)]


@pytest.mark.parametrize("max_rows", [1, 10, 100, 1000])
def test_rows_that_are_owned_by_foreign_key_are_counted_by_their_owner(
    max_rows: int, stored: Callable[[Catalog], DuckDBBackend]
) -> None:
    catalog = made()
    aggregate = counted(weighed(catalog, "items", max_rows), "items_unit", "items_weight", "items_label")
    found = asked(stored(catalog), aggregate)
    assert found == {f"i{i}": weight for i, weight in expected(owners_of_items(), max_rows).items()}


@pytest.mark.parametrize("max_rows", [1, 10, 1000])
def test_rows_have_weights_where_a_join_tells_the_owner(
    max_rows: int, stored: Callable[[Catalog], DuckDBBackend]
) -> None:
    catalog = made()
    source, orders = weighed(catalog, "items", max_rows, unit=False), weighed(catalog, "visits", 1)
    same = (column(source, "items_visit"), column(orders, "visits_number"))
    for kind in ("inner", "left"):
        joined = Join(left=source, right=orders, kind=kind, equalities=(same,))
        found = asked(stored(catalog), counted(joined, "visits_person", "items_weight", "items_label"))
        assert found == {f"i{i}": weight for i, weight in expected(owners_of_items(), max_rows).items()}


def test_rows_of_nobody_have_no_weight_where_weights_are_kept_by_row() -> None:
    backend, owners = backend_of(made()), {"visits": PEOPLE, "items": owners_of_items()}
    for table, by in (("visits", "number"), ("items", "CAST(substr(label, 2) AS BIGINT)")):
        each = StoredWeighing(table, 3, 10**7)
        kept = backend._weights.made([each])[each]
        assert kept is not None and kept.column is not None
        read = dict(backend._rows_of(f"SELECT {by}, {kept.column} FROM {kept.name}"))
        assert {i: weight for i, weight in read.items() if weight is not None} == expected(owners[table], 3)
        assert read.keys() == set(range(len(owners[table])))


@pytest.mark.parametrize("max_rows", [1, 4, 1000])
def test_rows_in_blocks_are_counted_in_each_block(max_rows: int, stored: Opener) -> None:
    blocks = {"blocks": {"column": "day", "by": "month"}}
    catalog = catalog_of({"visits": VISITS | blocks}, neighbours="replace_one")
    months = [None if day is None else day.month for day in DAYS]
    owners = [None if person is None else (person, month) for person, month in zip(PEOPLE, months, strict=True)]
    assert of_visits(stored(catalog), catalog, max_rows) == expected(owners, max_rows)


def test_rows_weigh_the_same_whatever_is_asked_of_them() -> None:
    """A filter leaves rows out, and changes no weight."""
    catalog = made()
    backend, source = backend_of(catalog), weighed(made(), "visits", 3)
    above = call("ge", (column(source, "visits_number"), replace(ZERO, value=20)))
    few = Filter(source=source, condition=above)
    found = asked(backend, counted(few, "visits_person", "visits_weight", "visits_number"))
    assert found == {i: weight for i, weight in expected(PEOPLE, 3).items() if i >= 20}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("max_rows", [1, 3, 5, 8, 9, 100])
def test_rows_that_are_not_read_weigh_nothing(max_rows: int, stored: Opener) -> None:
    """Of a unit with more rows than are read, those that are read share what it weighs."""
    limit = 8
    catalog = made(row_limit=limit)
    found = of_visits(stored(catalog), catalog, max_rows)
    steps = expected(PEOPLE, max_rows, limit)
    assert Counter(PEOPLE[i] for i in found) == {1: limit, 2: 5, 3: 1, 4: 6}
    assert all(weight == steps[i] for i, weight in found.items())
    assert sum(weight for i, weight in found.items() if PEOPLE[i] == 1) <= max_rows * WEIGHT


@pytest.mark.parametrize("max_rows", [1, 10**6 - 1, 2**39, 10**12 - 1])
def test_weights_of_a_unit_with_very_many_rows(max_rows: int) -> None:
    """What is multiplied is beyond 64 bits where `max_rows` is near the largest limit."""
    backend = backend_of(made())
    text = backend._tables.crowded(StoredWeighing("visits", max_rows, 10**12))
    for owner, rows, weight in backend._rows_of(text.replace("COUNT(*)", f"(COUNT(*) + {10**12})")):
        assert rows == ROWS[owner] + 10**12 and weight == max_rows * WEIGHT // 10**12


# States of the data.


def file_of(folder: Path, frame: pd.DataFrame) -> Path:
    path = folder / "visits.parquet"
    frame.to_parquet(path)
    return path


def replaced(path: Path, frame: pd.DataFrame) -> None:
    frame.to_parquet(path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def written(path: Path, frame: pd.DataFrame) -> None:
    frame.to_parquet(path)


@pytest.mark.parametrize("change", [replaced, written])
def test_rows_of_a_file_that_was_changed_are_counted_again(
    change: Callable[[Path, pd.DataFrame], None], tmp_path: Path
) -> None:
    catalog = catalog_of({"visits": VISITS})
    path = file_of(tmp_path, visits().iloc[:3])
    backend = DuckDBBackend(catalog, {"visits": str(path)})
    assert of_visits(backend, catalog, 3) == expected(PEOPLE[:3], 3)
    source = weighed(catalog, "visits", 3)
    old = backend.prepare(counted(source, "visits_person", "visits_weight", "visits_number"))
    change(path, visits())
    assert groups_of(old.aggregate, backend.run(old, KEY)) == {
        (i,): (1, weight) for i, weight in expected(PEOPLE, 3).items()
    }
    fewer = visits().iloc[30:]
    change(path, fewer)
    assert of_visits(backend, catalog, 3) == {i + 30: w for i, w in expected(PEOPLE[30:], 3).items()}
    change(path, visits().iloc[:3])
    assert of_visits(backend, catalog, 3) == expected(PEOPLE[:3], 3)


@pytest.mark.parametrize("change", [replaced, written])
def test_no_stale_rows_of_a_dataset_are_weighed(change: Callable[[Path, pd.DataFrame], None], tmp_path: Path) -> None:
    """A dataset keeps what it knows of its files, so that others in their place cannot be read."""
    catalog = catalog_of({"visits": VISITS})
    path = file_of(tmp_path, visits().iloc[:3])
    backend = DuckDBBackend(catalog, {"visits": pads.dataset(str(path))})
    assert of_visits(backend, catalog, 3) == expected(PEOPLE[:3], 3)
    change(path, visits())
    with pytest.raises(duckdb.Error):
        of_visits(backend, catalog, 3)


def test_what_was_counted_once_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, asked_for = made(), list[StoredWeighing]()
    backend = backend_of(catalog)
    verify = RowWeights._verify

    def verified(self: RowWeights, each: StoredWeighing, made: str) -> None:
        asked_for.append(each)
        verify(self, each, made)

    monkeypatch.setattr(RowWeights, "_verify", verified)
    for max_rows in (3, 3, 40, 40, 3, 1000):
        of_visits(backend, catalog, max_rows)
    assert [each.max_rows for each in asked_for] == [3, 40, 1000]


def test_nothing_is_read_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = made()
    backend = backend_of(catalog)
    aggregate = counted(weighed(catalog, "visits", 3), "visits_person", "visits_weight", "visits_number")
    with monkeypatch.context() as closed:
        closed.setattr(backend._weights, "_run", lambda _: pytest.fail("private rows were read"))
        statement = backend.prepare(aggregate)
    assert groups_of(aggregate, backend.run(statement, KEY)) == {
        (i,): (1, weight) for i, weight in expected(PEOPLE, 3).items()
    }


@pytest.mark.parametrize("moment", ["while rows are counted", "before rows are read", "after rows were read"])
def test_a_file_that_is_changed_while_it_is_read_gives_no_answer(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalog_of({"visits": VISITS})
    path = file_of(tmp_path, visits())
    backend = DuckDBBackend(catalog, {"visits": str(path)})
    aggregate = counted(weighed(catalog, "visits", 3), "visits_person", "visits_weight", "visits_number")
    statement = backend.prepare(aggregate)
    holder, step = {
        "while rows are counted": (backend._weights, "_verify"),
        "before rows are read": (backend, "_read"),
        "after rows were read": (backend, "_read"),
    }[moment]
    real = getattr(holder, step)

    def changing(*given: Any) -> Any:
        if moment == "after rows were read":
            found = real(*given)
            replaced(path, visits().iloc[:50])
            return found
        replaced(path, visits().iloc[:50])
        return real(*given)

    with monkeypatch.context() as changed:
        changed.setattr(holder, step, changing)
        told = "its rows were counted" if moment == "while rows are counted" else "changed while"
        with pytest.raises(BackendError, match=told):
            backend.run(statement, KEY)
    assert of_visits(backend, catalog, 3) == expected(PEOPLE[:50], 3)


@pytest.mark.parametrize("kind", ["frame", "arrow"])
def test_a_frame_that_is_changed_in_place_weighs_what_it_did(kind: str) -> None:
    frame = pd.DataFrame({"person": [1, 2, 2, 2, 3], "number": range(5), "day": [START] * 5})
    memory = frame["person"].array._ndarray
    source: Any = frame
    if kind == "arrow":
        source = pa.table({"person": pa.array(memory), "number": pa.array(frame["number"].array), "day": frame["day"]})
    catalog = catalog_of({"visits": VISITS})
    backend = DuckDBBackend(catalog, {"visits": source})
    assert of_visits(backend, catalog, 1) == expected([1, 2, 2, 2, 3], 1)
    memory.flags.writeable = True
    memory[:] = 1
    assert of_visits(backend, catalog, 1) == expected([1, 2, 2, 2, 3], 1)
    assert of_visits(backend, catalog, 2) == expected([1, 2, 2, 2, 3], 2)


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: f"{text} UNION ALL {text}",
        lambda text: text.replace("// LEAST", f"+ {WEIGHT} // LEAST"),
        lambda text: text.replace("SELECT unit,", "SELECT nullif(unit, 1) AS unit,", 1),
    ],
)
def test_weights_that_were_not_written_as_they_were_meant_are_refused(
    broken: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = made()
    backend = backend_of(catalog)
    kind = type(backend._tables)
    right = kind.crowded
    monkeypatch.setattr(kind, "crowded", lambda self, each: broken(right(self, each)))
    with pytest.raises(BackendError, match="failed their check"):
        of_visits(backend, catalog, 3)
