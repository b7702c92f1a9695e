"""Hooks for all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Has the collector of garbage pass over what was imported and collected, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 50)
