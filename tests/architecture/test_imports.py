"""Imports point one way, and the kernel knows no engine: the contracts of `pyproject.toml`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture.package import ROOT, imported, modules

LINTER = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
"""`importlinter.cli` prints its banner and returns an exit code; run apart, so that no logging of it stays."""

KERNEL_MAY = {
    *(
        "collections",
        "contextlib",
        "cryptography",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "functools",
    ),
    *("hashlib", "itertools", "json", "math", "numpy", "os", "pathlib", "re", "sqlite3", "stat", "statistics", "sys"),
    *("abc", "fcntl", "threading", "time", "typing", "__future__", "dpquery"),
}
"""Whatever the trusted core imports is part of it. To add a name here is to enlarge what must be trusted."""

KERNEL_MAY_IN = {"kernel/ledger_postgres.py": {"psycopg"}}
"""What one file alone may import: the driver of the ledger's store, which is an extra and loads when it is named."""

KERNEL_MAY_OF_DPQUERY = ("dpquery.errors", "dpquery.kernel", "dpquery.plan")


def test_the_contracts_are_kept() -> None:
    made = subprocess.run(
        [sys.executable, "-c", LINTER], cwd=ROOT, capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "0 broken" in made.stdout


@pytest.mark.parametrize("module", [m for m in modules() if m.path.startswith("kernel/")], ids=lambda m: m.path)
def test_the_kernel_imports_what_is_listed_and_nothing_else(module: object) -> None:
    names = set(imported(module))  # type: ignore[arg-type]
    assert {name.split(".")[0] for name in names} <= KERNEL_MAY | KERNEL_MAY_IN.get(module.path, set())  # type: ignore[attr-defined]
    own = {name for name in names if name.split(".")[0] == "dpquery"}
    assert all(name.startswith(KERNEL_MAY_OF_DPQUERY) for name in own), own


def test_the_kernel_reads_plans_and_nothing_that_computes_a_query() -> None:
    """Of `plan` the kernel takes types, nodes, names of operations and aggregates, and which windows need an order."""
    found = {name for m in modules() if m.path.startswith("kernel/") for name in imported(m)}
    plan = {name.rsplit(".", 1)[0] for name in found if name.startswith("dpquery.plan")}
    read = ("aggregates", "logical", "types", "expr", "functions", "windows")
    assert plan <= {f"dpquery.plan.{name}" for name in read}
