"""Each row of the catalogue of attacks has a test here, or a reason why not in README.md."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def rows() -> set[str]:
    """Returns the ids of all rows: those of the sections that the README lists."""
    found, text = set(), (HERE / "README.md").read_text()
    for prefix, first, last in re.findall(r"\| ([A-Z]{3})-(\d\d) to [A-Z]{3}-(\d\d) \|", text):
        found |= {f"{prefix}-{number:02}" for number in range(int(first), int(last) + 1)}
    return found


def listed() -> set[str]:
    """Returns the ids of the rows that the README lists as without a test."""
    return set(re.findall(r"^\| ([A-Z]{3}-\d\d) \| \S", (HERE / "README.md").read_text(), re.MULTILINE))


def named() -> set[str]:
    """Returns the ids that the tests name."""
    texts = (path.read_text() for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
    return {row for text in texts for row in re.findall(r"\b[A-Z]{3}-\d\d\b", text)}


def test_every_row_is_covered() -> None:
    assert len(rows()) == 164
    assert rows() - named() == listed() & rows() - named()


def test_what_is_listed_as_untested_is_a_row_and_is_unnamed() -> None:
    assert listed() <= rows()
    assert not listed() & named()
