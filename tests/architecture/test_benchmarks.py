"""Benchmarks are run seldom: at least they can be loaded."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import benchmarks

NAMES = sorted(path.stem for path in Path(benchmarks.__file__ or "").parent.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_can_be_loaded(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")
