"""Great Expectations over the study: which expectations are answered, and which are refused in words."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.clients.installing import python_with
from tests.server.clients.study import DATABASE, STUDY_COLUMNS, USER, Study
from tests.server.serving import PASSWORD
from tests.waiting import PATIENCE

pytestmark = pytest.mark.clients

PACKAGES = ("great_expectations==1.24.1", "sqlalchemy", "psycopg2-binary")
PROGRAM = r"""
import json, os
import great_expectations as gx
import great_expectations.expectations as gxe
context = gx.get_context(mode="ephemeral")
context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
source = context.data_sources.add_postgres("study", connection_string=os.environ["URL"])
asset = source.add_table_asset("patients", table_name="patients", schema_name="public")
batch = asset.add_batch_definition_whole_table("all").get_batch()
ask = {
    "rows": gxe.ExpectTableRowCountToBeBetween(min_value=10_000, max_value=30_000),
    "columns": gxe.ExpectTableColumnsToMatchSet(column_set=json.loads(os.environ["COLUMNS"])),
    "exists": gxe.ExpectColumnToExist(column="age"),
    "mean": gxe.ExpectColumnMeanToBeBetween(column="age", min_value=20, max_value=90),
    "min": gxe.ExpectColumnMinToBeBetween(column="age", min_value=0, max_value=60),
    "max": gxe.ExpectColumnMaxToBeBetween(column="age", min_value=60, max_value=120),
    "sum": gxe.ExpectColumnSumToBeBetween(column="age", min_value=100_000, max_value=2_000_000),
    "median": gxe.ExpectColumnMedianToBeBetween(column="age", min_value=20, max_value=90),
    "stdev": gxe.ExpectColumnStdevToBeBetween(column="age", min_value=1, max_value=60),
    "values": gxe.ExpectColumnDistinctValuesToEqualSet(column="sex", value_set=["F", "M"]),
    "not null": gxe.ExpectColumnValuesToNotBeNull(column="sex", mostly=0.9),
    "in set": gxe.ExpectColumnValuesToBeInSet(column="sex", value_set=["F", "M"], mostly=0.9),
    "between": gxe.ExpectColumnValuesToBeBetween(column="age", min_value=0, max_value=120, mostly=0.9),
    "unique": gxe.ExpectColumnValuesToBeUnique(column="id", mostly=0.9),
    "examples": gxe.ExpectColumnValuesToBeBetween(column="age", min_value=40, max_value=50),
}
seen = {}
for name, expectation in ask.items():
    result = batch.validate(expectation, result_format="BASIC" if name == "examples" else "BOOLEAN_ONLY")
    said = " ".join(value["exception_message"] for value in (result.exception_info or {}).values()
                    if isinstance(value, dict) and value.get("exception_message"))
    said = said or (result.exception_info or {}).get("exception_message") or ""
    seen[name] = {"success": result.success, "said": said, "result": str(result.result)[:300]}
print(json.dumps(seen))
"""


def expected(study: Study, folder: Path, columns: list[str]) -> dict[str, Any]:
    """Returns what became of each expectation: whether it was met, and the words of a refusal."""
    url = f"postgresql+psycopg2://{USER}:{quote(PASSWORD)}@127.0.0.1:{study.port}/{DATABASE}"
    environment = os.environ | {"URL": url, "COLUMNS": json.dumps(columns), "GX_ANALYTICS_ENABLED": "false"}
    environment.pop("PYTHONPATH", None)
    path = folder / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    python = python_with("great-expectations", *PACKAGES)
    done = subprocess.run(
        [python, path], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


def test_expectations_are_answered_or_refused_in_words(study: Study, tmp_path: Path) -> None:
    columns = STUDY_COLUMNS["patients"]
    before = study.entries
    seen = expected(study, tmp_path, columns)
    assert study.entries > before
    with study.charges(0):  # whatever order its sets have in another process
        assert expected(study, tmp_path, columns).keys() == seen.keys()
    assert not seen.pop("values")["said"], "answered, but the number of other values is noisy, and may not be 0"
    refused = {name: found["said"] for name, found in seen.items() if not found["success"]}
    assert set(refused) == {"median", "examples"}, refused
    assert all("rows of a single patient are not shown" in said for said in refused.values())
