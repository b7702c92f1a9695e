"""What an installed package must do: run by `wheel.py` and `versions.py` in environments of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import pandas as pd

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


def main() -> int:
    """Returns 0 after a query, a refusal and the command line did what they should."""
    visits = pd.DataFrame({"id": range(2000)})
    visits["region"] = visits["id"].mod(2).map({0: "north", 1: "south"})
    visits["spend"] = visits["id"].mod(50) * 1.0
    catalog = dp.Catalog(**CATALOG)
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.create_ledger(catalog, Path(folder) / "shop.ledger")
        with dp.connect(catalog, {"visits": visits}, ledger=ledger) as session:
            answer = session.sql(
                "SELECT region, COUNT(*) AS n, AVG(spend) AS mean FROM visits GROUP BY region", epsilon=1
            )
            rows = answer.to_pandas()
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
    print(f"dpquery {metadata.version('dpquery')} answers, on Python {sys.version.split()[0]}, from {dp.__file__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
