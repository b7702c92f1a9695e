"""The auditor finds each of the seeded defects, and nothing where there is none."""

from __future__ import annotations

import pytest

from tests.audit.seeded import DEFECTS, named, seeded


def test_the_defects_are_mutants_of_the_list() -> None:
    assert len({named(name).name for name in DEFECTS}) == len(DEFECTS) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", *DEFECTS])
def test_the_auditor_finds(name: str) -> None:
    told: list[str] = []
    assert not seeded([name], told.append), told
