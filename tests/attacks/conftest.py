"""What the attacks share: a clinic, and answers without noise."""

from __future__ import annotations

import pytest

from tests.attacks.clinic import Clinic
from tests.scripted import zero_noise


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """A clinic with a budget that tests do not exhaust."""
    return Clinic(tmp_path_factory.mktemp("clinic"))


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are exact for one test."""
    zero_noise(monkeypatch)
