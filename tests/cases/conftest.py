"""`pytest tests/cases --complete` writes what follows each `----`; what it wrote is then to be reviewed."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--complete", action="store_true", help="write the golden sections of the SQL cases")


@pytest.fixture
def complete(request: pytest.FixtureRequest) -> bool:
    """Whether golden sections are written instead of compared."""
    return bool(request.config.getoption("--complete", default=False))
