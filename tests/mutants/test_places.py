"""Each mutant finds its one place, makes valid Python, and names tests that exist."""

from __future__ import annotations

import ast
import textwrap
from collections import Counter

import pytest

from tests.mutants.mutants import MUTANTS, Mutant, read
from tests.mutants.places import PACKAGE, defined, matches, replaced, source

ROOT = PACKAGE.parent


def test_there_are_as_many_mutants_as_promised() -> None:
    assert len(MUTANTS) >= 500


def test_each_mutant_matches_once() -> None:
    found = {each.name: len(matches(each.place, each.old)) for each in MUTANTS}
    assert {name: count for name, count in found.items() if count != 1} == {}
    assert [each.name for each in MUTANTS if each.old == each.new] == []


def test_each_mutant_is_valid_python() -> None:
    assert [each.name for each in MUTANTS if not is_valid(each)] == []


def is_valid(mutant: Mutant) -> bool:
    """Tells whether the definition is valid Python after the replacement."""
    (match,) = matches(mutant.place, mutant.old)
    (around,) = [
        s for s in defined(mutant.place) if s.file == match.file and s.start <= match.start < match.end <= s.end
    ]
    _, mutated = replaced(mutant.place, mutant.old, mutant.new)
    after = len(source(around.file)) - around.end
    definition = textwrap.indent(textwrap.dedent(mutated[around.start : len(mutated) - after]), "    ")
    try:
        ast.parse(f"def around():\n  for each in ():\n{definition}\n    pass\n")
    except SyntaxError:
        return False
    return True


def test_the_tests_of_each_mutant_exist() -> None:
    assert [each.name for each in MUTANTS if not (ROOT / each.tests).is_file()] == []


def test_each_name_of_a_mutant_occurs_once() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


# The list.


def test_a_block_is_a_mutant() -> None:
    text = "# A subject.\n\na bug\n  C.f  unit/test_f.py  a or b\n- x\n-     y\n+ z\n\nnothing\n  g  test_g.py\n- all\n"
    assert list(read(text)) == [
        Mutant(name="a bug", place="C.f", old="x\n    y", new="z", tests="tests/unit/test_f.py", only="a or b"),
        Mutant(name="nothing", place="g", old="all", new="", tests="tests/test_g.py", only=""),
    ]


@pytest.mark.parametrize("lines", ["- x", "  f  t.py", "  f  t.py\n+ x\n- y", "  f  t.py\n+ x", "  f  t.py\nx"])
def test_another_block_is_refused(lines: str) -> None:
    with pytest.raises(ValueError, match="not a mutant: 'a bug'"):
        list(read(f"a bug\n{lines}\n"))


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
