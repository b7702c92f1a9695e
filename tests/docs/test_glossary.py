"""The glossary names what the code has."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT
from tests.mutants.places import defined

LINES = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8").splitlines()
ROWS = [line.strip("| ").split(" | ") for line in LINES if line.startswith("| ")][1:]


def test_each_term_names_a_definition_of_the_package() -> None:
    names = {term: re.findall(r"`([^`]+)`", code) for term, _, code in ROWS}
    assert [term for term, meaning, _ in ROWS if not meaning.endswith(".") or not names[term]] == []
    assert [name for found in names.values() for name in found if not defined(name)] == []


def test_each_term_occurs_once() -> None:
    terms = [row[0] for row in ROWS]
    assert len(set(terms)) == len(terms) > 20
