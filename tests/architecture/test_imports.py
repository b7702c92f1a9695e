"""Imports point one way, and the trusted base knows no engine: the contracts of `pyproject.toml`."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.architecture.package import ROOT, TRUSTED, Module, for_each, imported, modules

LINTER = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
"""`importlinter.cli` prints its banner and returns an exit code; run apart, so that no logging of it stays."""

PLAIN = {"__future__", "collections", "dataclasses", "datetime", "enum", "re", "typing", "dpquery"}
NUMBERS = {"decimal", "fractions", "functools", "itertools", "math", "statistics", "numpy"}
FILES = {"errno", "fcntl", "os", "pathlib", "stat"}
TEXTS = {"hashlib", "json"}
MAY = {
    "units/": PLAIN | TEXTS | {"functools", "itertools", "math"},
    "kernel/": PLAIN | NUMBERS | {"concurrent", "contextlib", "cryptography", "logging", "os", "sys"},
    "ledger/": PLAIN
    | TEXTS
    | FILES
    | {"abc", "contextlib", "fractions", "functools", "itertools", "sys", "threading", "time"},
}
"""Whatever the trusted base imports is part of it. To add a name here is to enlarge what must be trusted."""

MAY_IN = {"ledger/postgres.py": {"psycopg"}}
"""What one file alone may import: the driver of the ledger's store, which is an extra and loads when it is named."""

MAY_EVALUATE = {"units/band_joins.py": {"evaluate"}}
"""What one file alone may read of how expressions are computed: it sweeps over rows of public tables."""

MAY_OF_DPQUERY = {
    "units/": ("dpquery.errors", "dpquery.units", "dpquery.plan"),
    "kernel/": (
        *("dpquery.errors", "dpquery.kernel", "dpquery.units"),
        *("dpquery.plan.logical", "dpquery.plan.keys", "dpquery.plan.cached", "dpquery.plan.types"),
    ),
    "ledger/": (
        *("dpquery.errors", "dpquery.ledger", "dpquery.units.blocks", "dpquery.units.declarations"),
        *("dpquery.plan.calendar", "dpquery.kernel.accountant", "dpquery.kernel.loss"),
    ),
}
"""Of plans the kernel takes nodes, keys, types and a memory of what follows from a node; the ledger takes names of
blocks, and of the kernel losses and how they are counted."""


def test_the_contracts_are_kept() -> None:
    made = subprocess.run(
        [sys.executable, "-c", LINTER], cwd=ROOT, capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "0 broken" in made.stdout


@for_each(*TRUSTED)
def test_the_trusted_base_imports_what_is_listed_and_nothing_else(module: Module) -> None:
    package = f"{module.path.split('/')[0]}/"
    names = imported(module)
    assert {name.split(".")[0] for name in names} <= MAY[package] | MAY_IN.get(module.path, set())
    own = {name for name in names if name.split(".")[0] == "dpquery"}
    assert all(f"{name}.".startswith(tuple(f"{part}." for part in MAY_OF_DPQUERY[package])) for name in own), own


MAY_LOOK_UP = {"units/costs.py", "units/band_joins.py", "units/unit_local.py"}
"""How long texts become, and which functions are known: nothing else of the base sees a function's row."""


def test_the_trusted_base_reads_plans_and_nothing_that_computes_a_query() -> None:
    """Of `plan` it takes types, nodes, keys, names of operations, the calendar, windows with an order, and a memory."""
    read = {
        "aggregates",
        "logical",
        "types",
        "expr",
        "windows",
        "cached",
        "keys",
        "calendar",
        "periods",
        "strata",
        "scaled_weights",
    }
    for module in (m for m in modules() if m.path.startswith(TRUSTED)):
        plan = {name.rsplit(".", 1)[0] for name in imported(module) if f"{name}.".startswith("dpquery.plan.")}
        more = MAY_EVALUATE.get(module.path, set()) | ({"functions"} if module.path in MAY_LOOK_UP else set())
        assert plan <= {f"dpquery.plan.{name}" for name in read | more}, module.path


def test_the_gate_knows_no_particular_ledger() -> None:
    """It demands sentences of one, written in `kernel/ledger_interface.py`, as it does of a backend."""
    below = [m for m in modules() if m.path.startswith(("units/", "kernel/"))]
    assert not [name for m in below for name in imported(m) if f"{name}.".startswith("dpquery.ledger.")]
