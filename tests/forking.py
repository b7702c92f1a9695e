"""Children of a process that holds engines of other tests."""

from __future__ import annotations

import gc
import os

import pytest

# Python warns of a fork beside threads, such as DuckDB's (https://github.com/python/cpython/issues/100228); tests of
# forked children are about just that. Until a process of DuckDB can be forked without its threads.
FORK = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def fork() -> int:
    """Returns what `os.fork` does. The child never collects what the parent had: to end an engine there would wait for
    threads that it does not have, which ended children of the suite with a segmentation fault."""
    gc.freeze()
    child = os.fork()
    if child:
        gc.unfreeze()
    return child
