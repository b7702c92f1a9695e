"""The bit source under a script: how deterministic tests look behind the noise, or see the same noise at each run."""

from __future__ import annotations

from random import Random

import pytest

from dpquery.kernel import samplers


def zero_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every random byte zero for the rest of a test: every sampler then gives 0, and every key is 0."""
    monkeypatch.setattr(samplers, "random_bytes", bytes)


def same_noise(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Makes the random bytes of the rest of a test the same at each run."""
    monkeypatch.setattr(samplers, "random_bytes", Random(seed).randbytes)
