"""Each test that asks for an engine runs on every backend."""

from __future__ import annotations

import pytest

from tests.backends.engines import ENGINES, Engine


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """A backend's constructor."""
    return ENGINES[request.param]
