"""What `df.dp` costs beyond `Session.sql`."""

from __future__ import annotations

import pytest

from benchmarks.frames import COPIED, OVERHEAD, copied, overheads


@pytest.mark.slow
def test_a_call_takes_little_more_than_its_query() -> None:
    assert max(overheads().values()) < OVERHEAD


@pytest.mark.slow
def test_numbers_are_not_copied() -> None:
    size, more = copied(10**7)
    assert more < COPIED * size
