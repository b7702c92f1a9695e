"""The page of a day with a messy frame: all that it types shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[4] / "docs/how-to/spend-a-day-with-a-messy-frame.md"


def test_the_diary_of_a_messy_frame() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    rows = re.findall(r"^\| `(.*)` \| (?:`(.*)` )?\|$", page.partition("## What confused")[0], re.MULTILINE)
    assert len(rows) > 40
    wrong = [(typed, shows, seen) for typed, shows in rows if shows not in (seen := _shown(typed, names))]
    assert not wrong


def _shown(typed: str, names: dict[str, Any]) -> str:
    """Returns what a notebook shows of a line: its value, or its error."""
    try:
        code = compile(typed, "<typed>", "eval")
    except SyntaxError:
        exec(typed, names)
        return ""
    try:
        return str(eval(code, names))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
