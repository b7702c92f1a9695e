"""`pytest tests/cases --complete` writes what follows each `----`; what it wrote is then to be reviewed."""

from __future__ import annotations

import pytest

from tests.cases import catalogs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--complete", action="store_true", help="write the golden sections of the SQL cases")
    parser.addoption("--shards", type=int, help="run the SQL cases over data prepared in so many shards")


def pytest_configure(config: pytest.Config) -> None:
    """Says how the data of the cases are opened."""
    catalogs.SHARDS = config.getoption("--shards", default=None)


@pytest.fixture
def complete(request: pytest.FixtureRequest) -> bool:
    """Whether golden sections are written instead of compared."""
    return bool(request.config.getoption("--complete", default=False))
