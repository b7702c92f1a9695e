"""The glossary names what the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.package import Module, for_each, modules, nodes
from tests.docs.pages import ROOT
from tests.mutants.places import defined

TERMS, AVOIDED = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8").split("\n## ")
LINES = TERMS.splitlines()
ROWS = [line.strip("| ").split(" | ") for line in LINES if line.startswith("| ")][1:]
WORDS = frozenset(re.findall(r"`(\w+)`", "".join(line.split(" | ")[0] for line in AVOIDED.splitlines())))
RIDDLES = re.compile(r"is no [a-z0-9]+[.,\"]|, for (?:it|they|there|nobody|each)\b|\b(?:whatever|nobody)\b")
"""What plain English says in other words."""

MOST_LINES = {"alone": 280, "another": 275, "stands": 105, "gives": 145}
"""Lines of the package with words that a plainer one says mostly: only, different, is, returns. They may only fall."""


def test_each_term_names_a_definition_of_the_package() -> None:
    names = {term: re.findall(r"`([^`]+)`", code) for term, _, code in ROWS}
    assert [term for term, meaning, _ in ROWS if not meaning.endswith(".") or not names[term]] == []
    assert [name for found in names.values() for name in found if not defined(name)] == []


def test_each_term_occurs_once() -> None:
    terms = [row[0] for row in ROWS]
    assert len(set(terms)) == len(terms) > 20


@for_each()
def test_names_have_no_word_that_the_glossary_avoids(module: Module) -> None:
    names = [*defined_in(module), *module.path.removesuffix(".py").split("/")]
    parts = {name: {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+", name)} for name in names}
    assert {name for name, words in parts.items() if words & WORDS} == set()


def defined_in(module: Module) -> Iterator[str]:
    """Yields what a module calls functions, classes, arguments and variables."""
    for node in nodes(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id


@for_each()
def test_sentences_of_the_code_are_plain(module: Module) -> None:
    assert RIDDLES.findall(module.text) == []


def test_words_that_plainer_ones_replace_become_fewer() -> None:
    lines = [line for module in modules() for line in module.text.splitlines()]
    counts = {word: sum(bool(re.search(rf"\b{word}\b", line)) for line in lines) for word in MOST_LINES}
    assert {
        word: count for word, count in counts.items() if not MOST_LINES[word] - 20 <= count <= MOST_LINES[word]
    } == {}


def test_sentences_of_the_pages_are_plain() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {page.name: RIDDLES.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {name for name, riddles in found.items() if riddles} == {"write-as-the-rest.md"}, "which shows poor examples"


def test_the_words_that_are_avoided_would_be_found() -> None:
    assert {"eps", "utils", "clip"} <= WORDS and not {"epsilon", "clamp"} & WORDS
    assert RIDDLES.search("this is no column.") and RIDDLES.search("it rises, for it is a sum")
