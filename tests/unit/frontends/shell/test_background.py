"""Something that is opened in a thread while somebody types."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from dpquery.cancelling import is_cancellable
from dpquery.errors import CatalogError
from dpquery.frontends.shell.background import Opening


@contextlib.contextmanager
def numbered(log: list[str]) -> Iterator[int]:
    log.append("opened" if is_cancellable() else "not cancellable")
    yield 7
    log.append("closed")


@contextlib.contextmanager
def failing() -> Iterator[int]:
    raise CatalogError(["no data"])
    yield 7


def test_it_is_closed_once_at_the_end() -> None:
    log: list[str] = []
    with Opening(lambda: numbered(log)) as opening:
        assert opening.opened is None
        opening.start(lambda: log.append("told"))
        assert opening.wait() == 7
        opening.start(lambda: log.append("told twice"))
    assert sorted(log) == ["closed", "opened", "told"]


def test_what_was_never_begun_needs_no_closing() -> None:
    log: list[str] = []
    with Opening(lambda: numbered(log)):
        pass
    assert not log


def test_an_error_is_told_and_raised_where_it_is_waited_for() -> None:
    told = threading.Event()
    with Opening(failing) as opening:
        opening.start(told.set)
        assert told.wait(60)
        assert isinstance(opening.error, CatalogError)
        with pytest.raises(CatalogError, match="no data"):
            opening.wait()


def test_leaving_early_cancels_and_closes() -> None:
    log: list[str] = []
    begun, goes_on = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def slow() -> Iterator[int]:
        begun.set()
        assert goes_on.wait(60)
        with numbered(log) as opened:
            yield opened

    with Opening(slow) as opening:
        opening.start(lambda: None)
        assert begun.wait(60)
        goes_on.set()
    assert log == ["opened", "closed"]


def test_no_engine_is_loaded_before_the_prompt() -> None:
    imported = (
        "import sys, dpquery.frontends.cli.main, dpquery.frontends.shell.prompt, dpquery.frontends.shell.background"
    )
    program = f"{imported}; print(*{{'duckdb', 'numpy', 'sqlglot', 'pandas', 'pyarrow'}} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "\n"
