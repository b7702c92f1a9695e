"""The table of the textbook: each of its functions can be imported, and each of its tests is there."""

from __future__ import annotations

import ast
import re

import pytest

import dpquery
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "concepts" / "textbook.md"
ROWS = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
COURSE = (
    *(
        "both adjacencies",
        "Laplace mechanism",
        "d cells",
        "Gaussian mechanism, by zCDP and exact",
        "exponential mechanism",
    ),
    *(
        "utility theorem, on nationalities",
        "on bits",
        "grid of 100 cells",
        "post-processing",
        "sequential and parallel",
    ),
    *("advanced composition, the formula", "advanced composition, the optimum", "advanced composition, numerically"),
    *("zCDP", "Rényi", "group privacy", "ROC curve of randomised response", "leaky input", "leaky response"),
    *("ROC curve of Laplace", "4E", "fixed questions and a budget: the least error"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_names_functions_and_a_test_that_are_there(row: list[str]) -> None:
    _, functions, source, test = row
    names = re.findall(r"`([^`]+)`", functions)
    assert names and source
    for name in names:
        found: object = dpquery
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)
    path, _, function = test.strip(" |`").partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("topic", COURSE)
def test_each_topic_of_the_course_has_a_row(topic: str) -> None:
    assert any(topic in row[0] for row in ROWS)
