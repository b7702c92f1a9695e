"""The bit source under a script: how deterministic tests look behind the noise."""

from __future__ import annotations

import pytest

from dpquery.kernel import samplers


def zero_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every random byte zero for the rest of a test: every sampler then gives 0, and every key is 0."""
    monkeypatch.setattr(samplers, "random_bytes", bytes)
