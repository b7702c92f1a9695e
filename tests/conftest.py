"""Hooks for all tests."""

from __future__ import annotations

import gc

from hypothesis import settings

gc.set_threshold(100_000, 20, 20)  # what is imported and collected stays: to look for garbage among it takes long
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # what an example takes says something about the machine, and nothing about the code


def pytest_collection_finish() -> None:
    """Has the collector of garbage pass over what was imported and collected, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 50)


def pytest_unconfigure() -> None:
    """Has the end of the run free what was set aside: the engine tells of what it still finds then."""
    gc.unfreeze()
