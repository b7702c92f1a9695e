"""What an installed package must do: run by `wheel.py` and `versions.py` in environments of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import dpquery as dp

CATALOG: dict[str, Any] = {
    "dataset": "shop",
    "privacy_unit": "customer",
    "budget": {"epsilon": 2},
    "tables": {
        "visits": {
            "unit": "id",
            "max_rows": 4,
            "columns": {
                "id": {"type": "int64"},
                "region": {"type": "text", "keys": ["north", "south"]},
                "spend": {"type": "float64", "lower": 0, "upper": 50},
            },
        }
    },
}


def sources(visits: pd.DataFrame, folder: Path) -> Iterator[object]:
    """Yields the same rows as a frame of pandas, and in the forms that installed extras read."""
    yield visits
    if find_spec("polars"):
        import polars

        yield polars.DataFrame({name: visits[name].tolist() for name in visits.columns})
    if find_spec("deltalake"):
        import deltalake

        deltalake.write_deltalake(str(folder / "visits"), pa.table({name: visits[name].tolist() for name in visits}))
        yield deltalake.DeltaTable(str(folder / "visits"))


def main() -> int:
    """Returns 0 after a query, a refusal and the command line did what they should."""
    visits = pd.DataFrame({"id": range(2000)})
    visits["region"] = visits["id"].mod(2).map({0: "north", 1: "south"})
    visits["spend"] = visits["id"].mod(50) * 1.0
    catalog = dp.Catalog(**CATALOG)
    with tempfile.TemporaryDirectory() as folder:
        tried = list(sources(visits, Path(folder)))
        for number, source in enumerate(tried):
            ledger = dp.create_ledger(catalog, Path(folder) / f"{number}.ledger")
            with dp.connect(catalog, {"visits": source}, ledger=ledger) as session:
                query = "SELECT region, COUNT(*) AS n, AVG(spend) AS mean FROM visits GROUP BY region"
                rows = session.sql(query, epsilon=1).to_pandas()
                assert list(rows["region"]) == ["north", "south"] and rows["n"].between(800, 1200).all(), rows
                try:
                    session.sql("SELECT id FROM visits", epsilon=1)
                except dp.QueryError:
                    pass
                else:
                    raise AssertionError("single rows were answered")
    assert resources.files("dpquery").joinpath("py.typed").is_file()
    told = subprocess.run([sys.executable, "-m", "dpquery", "--version"], capture_output=True, text=True, check=True)
    assert metadata.version("dpquery") in told.stdout, told.stdout
    forms = ", ".join(type(source).__module__.split(".")[0] for source in tried)
    where = f"on Python {sys.version.split()[0]}, from {dp.__file__}"
    print(f"dpquery {metadata.version('dpquery')} answers over {forms}, {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
