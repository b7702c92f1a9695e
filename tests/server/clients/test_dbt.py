"""dbt over the study: it connects, tests sources by noisy numbers of failures, and is refused a model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server.clients.installing import python_with
from tests.server.clients.study import DATABASE, USER, Study
from tests.server.serving import PASSWORD
from tests.waiting import PATIENCE

pytestmark = pytest.mark.clients

PACKAGES = ("dbt-core==1.10.*", "dbt-postgres==1.9.*")
"""From 1.12 on dbt-core needs a package whose installation fetches a file that no registry has."""
PROJECT = """\
name: study
version: "1.0"
profile: study
flags: {send_anonymous_usage_stats: false}
"""
SOURCES = """\
sources:
  - name: study
    schema: public
    tables:
      - name: patients
        columns:
          - name: id
            data_tests: [{unique: {config: {error_if: ">1000", warn_if: ">1000"}}}]
          - name: sex
            data_tests: [not_null, {accepted_values: {arguments: {values: [F, M]}}}]
          - name: age
            data_tests: [not_null]
"""
MODEL = "SELECT sex, COUNT(*) AS n FROM {{ source('study', 'patients') }} GROUP BY sex\n"


@pytest.fixture
def project(study: Study, tmp_path: Path) -> Path:
    """Returns the folder of a project."""
    output = {"type": "postgres", "host": "127.0.0.1", "port": study.port, "user": USER, "password": PASSWORD}
    output |= {"dbname": DATABASE, "schema": "public", "threads": 1}
    (tmp_path / "profiles.yml").write_text(json.dumps({"study": {"target": "it", "outputs": {"it": output}}}))
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "sources.yml").write_text(SOURCES)
    (tmp_path / "models" / "by_sex.sql").write_text(MODEL)
    return tmp_path


def dbt(project: Path, *words: str, expected: int = 0) -> str:
    """Returns what dbt says."""
    program = python_with("dbt", *PACKAGES).with_name("dbt")
    environment = os.environ | {"DBT_PROFILES_DIR": str(project), "HOME": str(project)}
    environment.pop("PYTHONPATH", None)
    command = [str(program), "--no-use-colors", *words]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


def results(project: Path) -> dict[str, Any]:
    """Returns each node of the last run and what became of it."""
    made = json.loads((project / "target" / "run_results.json").read_text())
    return {result["unique_id"].split(".")[2]: result for result in made["results"]}


def test_it_connects_free(study: Study, project: Path) -> None:
    with study.charges(0):
        assert "Connection test: [OK connection ok]" in dbt(project, "debug")


def test_sources_are_tested(study: Study, project: Path) -> None:
    before = study.entries
    dbt(project, "test", "--select", "source:study")
    assert study.entries > before
    with study.charges(0):
        dbt(project, "test", "--select", "source:study")
    found = results(project)
    assert len(found) == 4 and {result["status"] for result in found.values()} == {"pass"}
    failures = {name: result["failures"] for name, result in found.items() if "unique" not in name}
    assert set(failures.values()) == {0}, "what is declared is known without noise"


def test_a_model_is_refused_in_words(study: Study, project: Path) -> None:
    with study.charges(0):
        dbt(project, "run", expected=1)
    model = results(project)["by_sex"]
    assert model["status"] == "error" and "nothing here can be changed" in model["message"]
