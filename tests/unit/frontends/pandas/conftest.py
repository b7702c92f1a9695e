"""Each test begins as a fresh process does: no dataset is known."""

from __future__ import annotations

import pytest

from dpquery.frontends.pandas import datasets


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_known", {})
