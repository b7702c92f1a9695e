"""The glossary names what the code has."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT
from tests.mutants.places import defined

LINES = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8").splitlines()
ROWS = [line.strip("| ").split(" | ") for line in LINES if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_term_names_a_definition_of_the_package(row: list[str]) -> None:
    _, meaning, code = row
    assert meaning.endswith(".")
    names = re.findall(r"`([^`]+)`", code)
    assert names
    assert [name for name in names if not defined(name)] == []


def test_each_term_occurs_once() -> None:
    terms = [row[0] for row in ROWS]
    assert len(set(terms)) == len(terms) > 20
