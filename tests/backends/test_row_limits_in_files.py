"""Where no unit has too many rows DuckDB's statements say nothing of limits, until a file grows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpquery.backends.duckdb.backend import DuckDBBackend
from tests.backends.conformance.test_row_limits import LIMIT, TABLES, counted, frames, limited, made
from tests.backends.engines import KEY, groups_of


def test_where_nobody_has_too_many_rows_nothing_is_written_for_it() -> None:
    catalog = made(visits=TABLES["visits"] | {"row_limit": 40})
    backend = DuckDBBackend(catalog, frames())
    plain = backend.prepare(counted(limited(catalog, "visits"), "visits_person")).text
    assert "heavy" not in plain
    assert "heavy" in DuckDBBackend(made(), frames()).prepare(counted(limited(made(), "visits"), "visits_person")).text


def test_a_file_that_grew_is_counted_again(tmp_path: Path) -> None:
    catalog = made(
        items={"unit": "person", "max_rows": 8, "columns": {"person": {"type": "int64"}, "label": {"type": "text"}}}
    )
    tables: dict[str, object] = dict(frames())
    tables["items"] = pd.DataFrame({"person": [1], "label": ["x"]})
    path = tmp_path / "visits.parquet"
    few = frames()["visits"].iloc[:3]
    few.to_parquet(path)
    backend = DuckDBBackend(catalog, tables | {"visits": str(path)})
    aggregate = counted(limited(catalog, "visits"), "visits_person", "visits_person")
    statement = backend.prepare(aggregate)
    assert groups_of(aggregate, backend.run(statement, KEY)) == {(1,): (3,)}
    frames()["visits"].to_parquet(path)
    found = groups_of(aggregate, backend.run(statement, KEY))
    assert found == {(1,): (LIMIT,), (2,): (LIMIT,), (3,): (1,), (4,): (LIMIT,)}
