"""Each mutant finds its one place, makes valid Python, and names tests that exist."""

from __future__ import annotations

import ast
import textwrap
from collections import Counter

import pytest

from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.places import PACKAGE, defined, matches, replaced, source
from tests.mutants.run import README, listing

ROOT = PACKAGE.parent
EACH = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@EACH
def test_a_mutant_matches_once(mutant: Mutant) -> None:
    assert [span.file for span in matches(mutant.place, mutant.old)] == [replaced(mutant.place, mutant.old, "")[0]]
    assert mutant.old != mutant.new


@EACH
def test_a_mutant_is_valid_python(mutant: Mutant) -> None:
    (match,) = matches(mutant.place, mutant.old)
    (around,) = [
        s for s in defined(mutant.place) if s.file == match.file and s.start <= match.start < match.end <= s.end
    ]
    _, mutated = replaced(mutant.place, mutant.old, mutant.new)
    after = len(source(around.file)) - around.end
    definition = textwrap.indent(textwrap.dedent(mutated[around.start : len(mutated) - after]), "    ")
    ast.parse(f"def around():\n  for each in ():\n{definition}\n    pass\n")


@EACH
def test_a_mutants_tests_exist(mutant: Mutant) -> None:
    assert (ROOT / mutant.tests).is_file()


def test_each_name_of_a_mutant_occurs_once() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


def test_the_list_of_mutants_is_current() -> None:
    assert README.read_text(encoding="utf-8") == listing()


# The search itself.


def test_layout_does_not_count() -> None:
    (span,) = matches("fold", 'return unicodedata.normalize("NFC", unicodedata')
    assert matches("fold", 'return unicodedata.normalize(\n    "NFC",\n    unicodedata') == [span]


def test_what_is_outside_the_definition_does_not_match() -> None:
    assert matches("fold", "def composed(name: str)") == []
    assert len(matches("composed", "def composed(name: str)")) == 1


def test_a_longer_name_narrows_the_search() -> None:
    assert len(defined("__init__")) > len(defined("EmptyTables.__init__")) == 1


def test_a_pattern_without_a_place_is_refused() -> None:
    with pytest.raises(LookupError, match="0 matches"):
        replaced("fold", "no such text", "")
