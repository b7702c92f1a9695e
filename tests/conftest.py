"""Hooks for all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Has the collector of garbage pass over what was imported and collected, which lives as long as the run."""
    gc.collect()
    gc.freeze()
