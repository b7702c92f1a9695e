"""The study for the tests of the clients, served once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.clients.study import Study, studying


@pytest.fixture(scope="package")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    with studying(Path(tmp_path_factory.mktemp("study")) / "nafld") as found:
        yield found
