"""The bound that a profile suggests, bought as an owner would: for many people a twentieth of what a question loses."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

import dpquery as dp
from dpquery.session.profile import Profile

PART = Fraction(1, 20)
"""Of a question's epsilon, paid for the profile."""


def profile(declared: dp.Catalog, sources: Mapping[str, pa.Table], folder: Path, epsilon: Fraction) -> Profile:
    """Returns a fresh profile of all private tables.

    Args:
        folder: Where its ledger is made; there is none yet.
        epsilon: What it may lose.
    """
    folder.mkdir(parents=True)
    ledger = dp.create_ledger(declared, folder / "profile.ledger")
    with dp.connect(declared, sources, ledger=ledger, reuse=False) as session:
        return session.profile(epsilon=epsilon)
