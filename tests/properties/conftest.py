"""Where the tests of a file keep their ledgers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.properties.neighbours import folder


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    """A directory for the ledgers of this file."""
    with folder() as name:
        yield name
