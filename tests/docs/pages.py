"""The pages of the documentation: their blocks of code, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]))

_FENCE = re.compile(r"^(\s*)```(.*)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the language, the words after it, its text, and the line of its text."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int


def name_of(page: Path) -> str:
    """Returns the page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """Yields the fenced blocks of a page, in order."""
    start, info, indent = 0, "", ""
    lines = page.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if not start:
            start, indent, info = number, fence[1], fence[2]
            continue
        text = "\n".join(part.removeprefix(indent) for part in lines[start : number - 1]) + "\n"
        language, *words = info.split() or [""]
        yield Block(language, tuple(words), text, start + 1)
        start = 0
    if start:
        raise ValueError(f"{name_of(page)}:{start}: a block is not closed")


def prose(page: Path) -> str:
    """Returns a page without its blocks and code in the line."""
    text = re.sub(r"^\s*```.*?^\s*```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "`", text)


def links(page: Path) -> Iterator[str]:
    """Yields the targets of links that lead to files of the repository or to headings."""
    for target in _LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in _HEADING.findall(text)}


def without_numbers(text: str) -> str:
    """Returns a text without what differs by run: numbers, widths of columns, the form of intervals, and whether a mean
    over few rows is NULL."""
    plain = re.sub(r"[ -]+", " ", re.sub(r"-?\d[\d,./e-]*", "#", text))
    return plain.replace("NULL", "# [# #]").replace("± #", "[# #]")
