"""Where a mutant sits: found by the name of a definition and a pattern inside it, so that files may move.

A name is the end of a dotted path of definitions: `charge`, `Ledger.charge`, a constant `LEAST`, or a nested function
`unmutated.passes`. Several definitions may share it; the pattern must then match in only one of them.
The pattern is source text with any layout: white space, and a comma before a closing bracket, do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "dpquery"
LAYOUT = re.compile(r"\s+|,(?=\s*[)\]}])")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of characters in a file of the package (`file` is relative to `dpquery/`)."""

    file: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters themselves."""
        return source(self.file)[self.start : self.end]


@cache
def source(file: str) -> str:
    """Returns the text of a file of the package."""
    return (PACKAGE / file).read_text(encoding="utf-8")


@cache
def definitions() -> dict[str, list[tuple[str, Span]]]:
    """Returns every class, function and assigned name of the package as (dotted name, lines), by its last part."""
    found: dict[str, list[tuple[str, Span]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        text = source(file)
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        for name, node in _named(ast.parse(text), ""):
            decorators = [d.lineno for d in getattr(node, "decorator_list", [])]
            first, last = min([node.lineno, *decorators]), node.end_lineno or node.lineno
            end = starts[last] if last < len(starts) else len(text)
            found.setdefault(name.rpartition(".")[2], []).append((name, Span(file, starts[first - 1], end)))
    return found


def _named(holder: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(holder):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{prefix}{node.name}", node
            yield from _named(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.stmt):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = [part for target in targets for part in getattr(target, "elts", [target])]
                yield from ((f"{prefix}{part.id}", node) for part in parts if isinstance(part, ast.Name))
            yield from _named(node, prefix)


def defined(place: str) -> list[Span]:
    """Returns the lines of each definition whose dotted name ends with a name."""
    candidates = definitions().get(place.rpartition(".")[2], [])
    return [span for name, span in candidates if f".{name}".endswith(f".{place}")]


@cache
def matches(place: str, pattern: str) -> list[Span]:
    """Returns where a pattern occurs in the definitions of a name; each place once, also where these overlap."""
    wanted = LAYOUT.sub("", pattern)
    if not wanted:
        return []
    found: set[tuple[str, int, int]] = set()
    for span in defined(place):
        kept, places = _without_layout(span.text)
        at = kept.find(wanted)
        while at >= 0:
            found.add((span.file, span.start + places[at], span.start + places[at + len(wanted) - 1] + 1))
            at = kept.find(wanted, at + 1)
    return [Span(*each) for each in sorted(found)]


@cache
def _without_layout(text: str) -> tuple[str, list[int]]:
    """Returns a text without its layout, and the place of each character that is left."""
    dropped = {i for match in LAYOUT.finditer(text) for i in range(*match.span())}
    places = [i for i in range(len(text)) if i not in dropped]
    return "".join(text[i] for i in places), places


def replaced(place: str, old: str, new: str) -> tuple[str, str]:
    """Returns the file of the only match, and its text with the match replaced.

    Where nothing replaces it, the white space before it goes too.

    Raises:
        LookupError: The pattern does not match exactly once.
    """
    found = matches(place, old)
    if len(found) != 1:
        raise LookupError(f"{len(found)} matches in {len(defined(place))} definitions named {place}")
    (span,) = found
    text = source(span.file)
    before = text[: span.start] if new else text[: span.start].rstrip()
    return span.file, before + new + text[span.end :]
