"""What `df.dp` costs in memory; what in time is in the benchmarks."""

from __future__ import annotations

import pytest

from benchmarks.frames import COPIED, copied


@pytest.mark.slow
def test_numbers_are_not_copied() -> None:
    size, more = copied(10**7)
    assert more < COPIED * size
