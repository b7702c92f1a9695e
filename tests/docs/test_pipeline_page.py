"""The page on the pipeline says where each part of the package stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from dpquery.planner.passes import PASSES
from dpquery.planner.protect.weighing import REWRITES
from dpquery.session.workloads import SHARING
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "concepts" / "pipeline.md").read_text()
ROW = re.compile(r"^\| `([a-z_ ]+)` \| (.+) \|$", re.MULTILINE)
STEPS = {
    "planner/protect/measurements.py": ("MeasurementSet.express", 5),
    "backends/duckdb/backend.py": ("DuckDBBackend.prepare", 3),
    "backends/duckdb/sql/relations.py": ("RelationWriter.select", 2),
}
"""Modules whose rewrites are steps of one function, and how many the page has of them."""


def test_every_pass_and_every_rewrite_in_a_list_is_listed_in_order_with_its_reason() -> None:
    for word, listed in (("pass", PASSES), ("rewrite", REWRITES), ("step", SHARING)):
        rows = [f"| `{one.name}` | {one.reason} |" for one in listed]
        assert "\n".join(["", f"| {word} | why it is there |", "|---|---|", *rows, "", ""]) in PAGE


@pytest.mark.parametrize("module", STEPS)
def test_steps_that_are_listed_are_taken_in_that_order(module: str) -> None:
    name, count = STEPS[module]
    before, after = PAGE.split(f"`{module}`", 1)
    assert name.removesuffix(".select") in before[-120:]
    table = after.split("|---|---|\n")[1].split("\n\n")[0]
    listed = [step for step, _ in ROW.findall(table)]
    assert len(listed) == count == table.count("\n") + 1
    taken = iter([*calls(ast.parse((ROOT / "dpquery" / module).read_text()), name, set())])
    assert [step for step in listed if step in taken] == listed, "each is called after the one before"


def calls(tree: ast.Module, name: str, entered: set[str]) -> Iterator[str]:
    """Yields the names of what a function of a module calls, in order; of functions of the module what they call."""
    known = {
        f"{outer.name}.{one.name}" if isinstance(outer, ast.ClassDef) else one.name: one
        for outer in [tree, *tree.body]
        for one in getattr(outer, "body", [])
        if isinstance(one, ast.FunctionDef)
    }
    if name in entered or name not in known:
        return
    entered = entered | {name}
    for node in in_order(known[name]):
        called = node.func
        word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        yield from calls(tree, f"{name.partition('.')[0]}.{word}" if "." in name else word, entered)
        yield word


def in_order(node: ast.AST) -> Iterator[ast.Call]:
    """Yields the calls in a node, arguments before what is called with them."""
    for child in ast.iter_child_nodes(node):
        yield from in_order(child)
    if isinstance(node, ast.Call):
        yield node


def test_every_module_and_folder_of_the_package_is_listed() -> None:
    page = PAGE.split("## Where things stand")[1]
    package = ROOT / "dpquery"
    modules = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert sorted(name for name in modules | folders if f"`{name}`" not in page) == []
