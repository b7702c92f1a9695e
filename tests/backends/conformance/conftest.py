"""Each test that asks for an engine runs on every backend under test."""

from __future__ import annotations

import pytest

from tests.backends.engines import ENGINES, Engine, held


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    """A backend's constructor; what the backend lacks is an expected failure, once it was refused as it must be."""
    return held(ENGINES[request.param])
