"""Linear algebra runs in one thread while queries are planned and answered, and as before afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from dpquery.session import pipeline

BLAS = pipeline._LIBRARIES.select(user_api="blas")
"""Those that the package uses: another one may have been loaded later."""


def threads() -> set[int]:
    return {library["num_threads"] for library in BLAS.info()}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    assert BLAS.info(), "numpy has a library that is known"
    with BLAS.limit(limits=2):
        assert threads() == {2}
        yield


def test_the_stages_of_a_query_are_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def looked(*_: object, **__: object) -> None:
        seen.append(threads())
        raise ZeroDivisionError

    for name in ("terms_of", "as_stored", "one_at_a_time"):
        monkeypatch.setattr(pipeline, name, looked)
    asked: tuple[object, ...] = (object(),)
    for stage in (
        lambda: pipeline.plan(asked, catalog=None, ledger=None, public=None),  # type: ignore[arg-type]
        lambda: pipeline.divide(asked, ledger=_Anything(), reuse=None),  # type: ignore[arg-type]
        lambda: pipeline.answer(asked, asked, None, (), _Anything()),  # type: ignore[arg-type]
    ):
        with pytest.raises(ZeroDivisionError):
            stage()
        assert threads() == {2}
    assert seen == [{1}] * 3


class _Anything:
    """Has every attribute that is asked for."""

    def __getattr__(self, name: str) -> _Anything:
        return self


def test_what_was_before_holds_again_when_queries_of_several_threads_overlap() -> None:
    inside, leave = threading.Event(), threading.Event()

    def stays() -> None:
        with pipeline.one_thread():
            inside.set()
            leave.wait(60)

    other = threading.Thread(target=stays)
    with pipeline.one_thread():
        assert threads() == {1}
        other.start()
        assert inside.wait(60)
    leave.set()
    other.join(60)
    assert threads() == {2}
    with pipeline.one_thread():
        assert threads() == {1}
