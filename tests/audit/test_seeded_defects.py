"""The auditor finds each of the seeded defects, and nothing where there is none."""

from __future__ import annotations

import pytest

from tests.audit.seeded import DEFECTS, PATIENCE, named, seeded, written


def test_the_defects_are_mutants_of_the_list() -> None:
    assert len({named(name).name for name in DEFECTS}) == len(DEFECTS) >= 30


def test_the_table_in_the_docs_has_each_of_them() -> None:
    _, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in written().splitlines()]
    assert tuple(name for name, _, _ in rows) == DEFECTS
    assert all(box in ("gray box", "black box", "drills") and int(took) < PATIENCE for _, box, took in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", *DEFECTS])
def test_the_auditor_finds(name: str) -> None:
    told: list[str] = []
    assert not seeded([name], told.append), told
