"""Hooks for all tests."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Generator

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more of them wait for each other where workers share the cores
gc.disable()  # what is imported and collected stays: to look for garbage among it takes long
# What an example takes says something about the machine, and nothing about the code; and each run draws other examples.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Has no examples looked for in the docstrings of tests: only the package's are examples to run."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Makes all but one in n of the parameters of a sweep slow, where a test is marked `thinned(n)`.

    Of a table of parameters it is one in n of each line, each line beginning one place later, so that every value is
    met as long as there are n of the others. The choice is the same in every run and whatever else is collected.
    """
    sweeps = defaultdict[object, list[pytest.Function]](list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("thinned"):
            sweeps[item.parent, item.originalname].append(item)
    for sweep in sweeps.values():
        (one_in,) = next(sweep[0].iter_markers("thinned")).args
        places = [0] * len(sweep)
        for names in _axes(sweep[0]):
            seen = dict[tuple[int, ...], int]()
            for number, item in enumerate(sweep):
                value = tuple(id(item.callspec.params[name]) for name in names)
                places[number] += seen.setdefault(value, len(seen))
        for item, place in zip(sweep, places, strict=True):
            if place % one_in:
                item.add_marker(pytest.mark.slow)


def _axes(item: pytest.Function) -> list[list[str]]:
    """Returns the names of a test's parameters, those of one list together."""
    given = [mark.args[0] for mark in item.iter_markers("parametrize")]
    lists = [[name.strip() for name in names.split(",")] if isinstance(names, str) else [*names] for names in given]
    listed = {name for names in lists for name in names}
    return [*lists, *([name] for name in item.callspec.params if name not in listed)]


def pytest_collection_finish() -> None:
    """Has the collector of garbage pass over what was imported and collected, and look at the rest less often."""
    gc.freeze()
    gc.set_threshold(70_000, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    """Has the end of the run free what was set aside: the engine tells of what it still finds then."""
    gc.unfreeze()
