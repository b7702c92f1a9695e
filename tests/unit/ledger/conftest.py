"""Both stores of the ledger, each test in a place of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import Cluster, cluster
from tests.unit.ledger.ledgers import MEMORY, Site, database_site, file_site


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    """A running PostgreSQL cluster."""
    with cluster() as running:
        yield running


@pytest.fixture(params=["file", "postgres"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A place for a ledger, in each of the stores."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        if request.param == "file":
            yield file_site(Path(name))
        else:
            yield database_site(Path(name), request.getfixturevalue("server").fresh())
