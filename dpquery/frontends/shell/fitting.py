"""Text as wide as the terminal: tables, prose, and refusals with the place in a statement that they are about."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dpquery.frontends.text import grid

if TYPE_CHECKING:
    from dpquery.result.table import Result

NARROWEST = 20
"""A last column of fewer characters is not wrapped."""
MOST_ROWS = 1_000
"""Of an answer so many rows are shown."""
BEFORE = 20
"""Characters of a statement before the place that a refusal marks, where the whole does not fit."""


def table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Returns a table of texts; where it is wider than the terminal, its last column goes on in the next line.

    Example:
        >>> print(table(["name", "what"], [["a", "a column of numbers that are clamped"]], 30), end="")
        name  what
        ----  ------------------------
        a     a column of numbers that
              are clamped
    """
    before = sum(2 + max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(names[:-1]))
    if width is not None and width - before >= NARROWEST:
        rows = [
            [*(row[:-1] if number == 0 else [""] * (len(row) - 1)), part]
            for row in rows
            for number, part in enumerate(textwrap.wrap(row[-1], width - before) or [""])
        ]
    return "\n".join(grid(names, rows, [False] * len(names))) + "\n"


def prose(text: str, width: int | None) -> str:
    """Returns a text whose lines break between words. A line with a mark of carets below is cut around the mark.

    Example:
        >>> print(prose("Refused: column y does not exist\\n  SELECT y FROM t\\n         ^\\n  at line 1.", 24))
        Refused: column y does
        not exist
          SELECT y FROM t
                 ^
          at line 1.
    """
    lines = text.split("\n")
    if width is None or max(map(len, lines)) <= width:
        return text
    marked = {number for number, line in enumerate(lines) if line.strip() and not line.strip(" ^")}
    made = list[str]()
    for number, line in enumerate(lines):
        if number + 1 in marked:
            made += _around(line, lines[number + 1], width)
        elif number not in marked:
            indent = " " * (len(line) - len(line.lstrip()))
            made += textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False) or [""]
    return "\n".join(made)


def _around(line: str, mark: str, width: int) -> Iterator[str]:
    """Yields what fits of a line and of the carets below it."""
    indent = "  "
    start = max(0, len(mark) - len(mark.lstrip()) - BEFORE) if len(line) > width else 0
    room = width - len(indent) - 3
    cut = line[start:] if start else line[len(indent) :]
    shown = cut if len(cut) <= room else cut[:room] + "..."
    carets = mark[start or len(indent) :].rstrip()[:room]
    yield indent + (f"...{shown[3:]}" if start else shown)
    yield indent + carets


def fitted(answer: Result, width: int | None) -> str:
    """Returns an answer as a table, or where that is wider than the terminal, row by row."""
    text = answer.to_text(MOST_ROWS)
    if width is None or not len(answer) or max(map(len, text.splitlines())) <= width:
        return text + "\n"
    widest = max(map(len, answer.columns))
    lines = []
    for number, row in enumerate(answer.cells(MOST_ROWS), 1):
        lines.append(f"-- row {number}")
        lines += [f"{name:{widest}}  {cell.strip()}" for name, cell in zip(answer.columns, row, strict=True)]
    if len(answer) > MOST_ROWS:
        lines.append(f"... {len(answer) - MOST_ROWS} more rows")
    return "\n".join(lines) + "\n"
