"""Holds a backend to what it owes: `python -m tests.backends.conformance --backend NAME`.

The backend is found by its name, as `dpquery.connect` finds it. What it lacks, by its `gaps`, it must refuse; all else
is compared with the reference interpreter, bit for bit. Further arguments are pytest's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dpquery.backends.base import Backend
from dpquery.backends.opening import SPARK, open_backend
from dpquery.catalog import Catalog
from tests.backends.engines import ENGINES
from tests.backends.prepared import prepared

FAST = "not slow or thinned"
"""All of the suite but its longest random tests; its sweeps are thinned in this project's own run only."""


def main(arguments: Sequence[str]) -> int:
    """Returns pytest's exit code for one backend."""
    parser = argparse.ArgumentParser(prog="python -m tests.backends.conformance", description=__doc__)
    parser.add_argument("--backend", required=True, help="the name of the backend")
    parser.add_argument("--shards", type=int, help="of duckdb and spark: over data prepared in so many shards")
    given, more = parser.parse_known_args(arguments)
    name: str = given.backend

    def opened(catalog: Catalog, sources: Mapping[str, object]) -> Backend:
        return open_backend(catalog, sources, name=name)

    ENGINES.clear()
    ENGINES[name] = opened if given.shards is None else prepared(given.shards, opened)
    if name == SPARK:
        from tests.spark import engines  # here, as it needs Spark

        engines.session()
        ENGINES[name] = ENGINES[name] if given.shards else engines.backend
    return int(pytest.main([str(Path(__file__).parent), "-m", FAST, "-rx", *more]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
