"""One server over the fake answerer, and one study with an engine, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.orders import Study
from tests.server.raw import Client
from tests.server.running import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(Path(tmp_path_factory.mktemp("server"))) as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.host, server.port) as found:
        found.log_in()
        yield found


@pytest.fixture(scope="module")
def study() -> Iterator[Study]:
    made = Study()
    yield made
    made.close()
