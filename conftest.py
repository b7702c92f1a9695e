"""What examples in docstrings may use: a session over a made-up clinic, its catalog, an unspent ledger, a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CLINIC = """
version: 2
dataset: clinic
privacy_unit: patient
budget: {epsilon: 1000}
tables:
  visits:
    unit: patient
    max_rows: 1
    columns:
      patient: {type: int64}
      region: {type: text, keys: [east, west]}
      cost: {type: float64, lower: 0, upper: 500}
"""


@pytest.fixture(scope="session")
def doctest_namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Made where the first example of a process is run. Nothing is reused, so that examples may run in any order."""
    import pyarrow as pa

    import dpquery as dp

    folder: Path = tmp_path_factory.mktemp("examples")
    (folder / "clinic.yaml").write_text(CLINIC, encoding="utf-8")
    catalog = dp.Catalog.from_yaml(CLINIC)
    rows = {"patient": [*range(200)], "region": ["east", "west"] * 100, "cost": [20.0, 80.0] * 100}
    ledger = dp.create_ledger(catalog, folder / "ledger")
    with dp.connect(catalog, {"visits": pa.table(rows)}, ledger=folder / "spent", create=True, reuse=False) as session:
        yield {"session": session, "catalog": catalog, "ledger": ledger, "folder": folder}
    ledger.close()
