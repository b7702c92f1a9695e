"""Each point that was reported broken has tests that exist: the table REPORTED.md."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.cases.case_file import read_cases

TESTS = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("REPORTED.md").read_text(encoding="utf-8")
ROW = re.compile(r"\| (?P<point>[ABC]\d+a?) \| (?P<wrong>[^|]+) \| (?P<tests>[^|]+) \|")
ROWS = [match for match in map(ROW.fullmatch, PAGE.splitlines()) if match]
POINTS = ["A1", "A2", "A3", "A4", "A5", "A5a", *(f"B{n}" for n in range(6, 13)), *(f"C{n}" for n in range(13, 26))]


@cache
def named(file: str) -> frozenset[str]:
    """Returns the tests that a file below `tests/` has, or the titles of its cases."""
    path = TESTS / file
    if path.suffix == ".case":
        return frozenset(case.title for case in read_cases(path))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def exists(test: str) -> bool:
    """Whether a file has a test of this name, or a case whose title begins so."""
    file, _, name = test.partition("::")
    if not name or not (TESTS / file).is_file():
        return False
    return name in named(file) or (file.endswith(".case") and any(title.startswith(name) for title in named(file)))


def test_every_point_has_one_row() -> None:
    assert [row["point"] for row in ROWS] == POINTS
    assert len(ROWS) == sum(line.startswith("| ") and line[2] in "ABC" for line in PAGE.splitlines())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["point"])
def test_the_tests_of_a_point_exist(row: re.Match[str]) -> None:
    tests = re.findall(r"`([^`]+)`", row["tests"])
    assert tests and row["tests"] == ", ".join(f"`{test}`" for test in tests)
    assert not [test for test in tests if not exists(test)]


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert exists("attacks/test_reported.py::test_every_point_has_one_row")
    assert not exists("attacks/test_reported.py::test_that_is_missing")
    assert not exists("attacks/test_missing.py::test_every_point_has_one_row")
    assert not exists("cases/bi/metabase.case::A title that no case has")
    assert not exists("attacks/test_reported.py")
