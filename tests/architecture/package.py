"""The package's modules as syntax trees: what they import, name and document."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dpquery"
TRUSTED = ("units/", "kernel/", "ledger/")
"""The trusted base: what a promise of privacy rests on, beside backends and true declarations."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package, by its path below it, as `kernel/release.py`."""

    path: str
    text: str
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    """Returns every module of the package."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        found.append(Module(file.relative_to(PACKAGE).as_posix(), text, ast.parse(text)))
    return tuple(found)


def for_each(*places: str) -> Callable[[Callable[[Module], None]], Callable[[], None]]:
    """Returns what makes one test of a check of a module: it fails with all modules below these places, or of the whole
    package, that the check refuses."""

    def as_test(check: Callable[[Module], None]) -> Callable[[], None]:
        def test() -> None:
            refused, chosen = [], [m for m in modules() if m.path.startswith(places or "")]
            for module in chosen:
                try:
                    check(module)
                except AssertionError as error:
                    refused.append(f"{module.path}: {error}")
            assert chosen
            assert not refused, "\n".join(refused)

        return test

    return as_test


@cache
def nodes(module: Module) -> tuple[ast.AST, ...]:
    """Returns all of a module's syntax tree."""
    return tuple(ast.walk(module.tree))


@cache
def imported(module: Module) -> frozenset[str]:
    """Returns the full names that a module imports, also inside functions: `a.b` also for `from a import b`."""
    return frozenset(_imported(module))


@cache
def attributes(module: Module) -> frozenset[str]:
    """Returns the attributes that a module reads or sets, each with what stands before it, as `a.b.c`."""
    return frozenset(dotted(node) for node in nodes(module) if isinstance(node, ast.Attribute))


def _imported(module: Module) -> Iterator[str]:
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def code_lines(module: Module) -> int:
    """Returns the lines that hold code: without blank lines, comments and docstrings."""
    documented: set[int] = set()
    for holder in nodes(module):
        for node in holder.body if isinstance(holder, ast.Module | Definition) else []:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                documented |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in layout:
            found |= set(range(token.start[0], token.end[0] + 1))
    return len(found - documented)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def dotted(node: ast.expr) -> str:
    """Returns `a.b.c` for such an attribute, else ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        start = dotted(node.value)
        return f"{start}.{node.attr}" if start else ""
    return ""


def public_definitions(module: Module) -> Iterator[tuple[str, Definition]]:
    """Yields (name, tree) of each public function, class and method; protocols' and nested ones of classes included."""
    pending: list[tuple[str, ast.Module | ast.ClassDef]] = [("", module.tree)]
    while pending:
        prefix, holder = pending.pop()
        for node in holder.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield f"{prefix}{node.name}", node
                if isinstance(node, ast.ClassDef):
                    pending.append((f"{prefix}{node.name}.", node))
