"""`dpquery help`, the page of errors, and what messages may not say."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache

import pytest
from sqlglot import exp

from dpquery import errors
from dpquery.frontends.cli import main as cli
from dpquery.frontends.cli.help import HELP, help_of
from tests.architecture.package import ROOT, modules

CLASSES = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, errors.DPQueryError)]
PARSERS = {cls.__name__ for _, cls in inspect.getmembers(exp, inspect.isclass) if re.search("[a-z][A-Z]", cls.__name__)}
"""Names of the parser's classes that are no words: SimilarTo, JSONExtract."""
ODDITIES = (
    *("of the query around", "cannot stand", "stands neither", "stands in the query", "is not grammatical"),
    *("names another number of", "lets rows decide", "has no form as a window"),
)
"""Phrases that people had to read twice."""


@cache
def _texts() -> list[tuple[str, str]]:
    """Returns the texts within calls and what is raised, each with its module."""
    return [(module.path, text) for module in modules() for text in _said(module.tree, is_within=False)]


def _said(node: ast.AST, *, is_within: bool) -> Iterator[str]:
    is_within |= isinstance(node, ast.Call | ast.Raise)
    if is_within and isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for part in ast.iter_child_nodes(node):
        yield from _said(part, is_within=is_within)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_each_class_is_explained_alike_on_the_page_and_on_the_command_line(
    error: type[errors.DPQueryError], capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert help_of(error) in page
    assert cli.run(["help", error.__name__.lower()]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(error.__name__) and HELP[error].cause in shown and HELP[error].remedy in shown


def test_without_a_class_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help"]) == 0
    assert capsys.readouterr().out.count("\n") == len(HELP) == len(CLASSES)


def test_an_unknown_class_is_refused_with_the_one_that_may_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "MisingBoundsError"]) == 2
    assert "did you mean 'MissingBoundsError'?" in capsys.readouterr().err


def test_an_error_on_the_command_line_names_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "no such catalog.yaml"]) == 2
    assert capsys.readouterr().err.endswith("  More: dpquery help CatalogError\n")


def test_no_message_names_a_class_of_the_parser() -> None:
    assert len(PARSERS) > 100
    texts = [one for one in _texts() if not one[0].startswith("plan/functions/")]  # rows list what the parser makes
    said = [(path, text) for path, text in texts if " " in text and PARSERS & set(re.findall(r"\w+", text))]
    assert said == []
    shown = [
        module.path
        for module in modules()
        if module.path.startswith(("sql/", "planner/")) and re.search(r"type\(node\)\.__name__", module.text)
    ]
    assert shown == []


def test_no_message_has_a_phrase_that_must_be_read_twice() -> None:
    assert [(path, text) for path, text in _texts() if any(phrase in text for phrase in ODDITIES)] == []
