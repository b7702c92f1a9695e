"""The catalogue of threats, THREATS.md: its rows, and the tests that name their ids.

`python -m tests.attacks.threats` writes the last column anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("THREATS.md")
SECTIONS = ("PAR", "SEN", "BND", "GRP", "MEC", "ACC", "LED", "BAK", "OUT", "WIR", "API", "WRK")
ID = re.compile(rf"\b(?:{'|'.join(SECTIONS)})-\d\d\b")
ROW = re.compile(r"\| (?P<id>[A-Z]{3}-\d\d) \| (?P<attempt>[^|]+) \| (?P<answer>[^|]+) \| (?P<tests>[^|]+) \|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Threat:
    """One row: what somebody tries, what holds against it, and the tests, or "none: " and the reason."""

    id: str
    attempt: str
    answer: str
    tests: str

    @property
    def line(self) -> str:
        """The row as it is written."""
        return f"| {self.id} | {self.attempt} | {self.answer} | {self.tests} |"


def threats(page: str) -> list[Threat]:
    """Returns the rows of a page."""
    return [Threat(**match.groupdict()) for match in map(ROW.fullmatch, page.splitlines()) if match]


@cache
def files_by_id() -> dict[str, list[str]]:
    """Returns the test files in which each id occurs, below `tests/`."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for id in sorted(set(ID.findall(path.read_text(encoding="utf-8")))):
            found.setdefault(id, []).append(path.relative_to(TESTS).as_posix())
    return found


def written(page: str) -> str:
    """Returns a page with the tests of now; rows that no test names stay as they are."""
    files = files_by_id()
    for row in threats(page):
        if row.id in files:
            tests = ", ".join(f"`{file}`" for file in files[row.id])
            page = page.replace(row.line, replace(row, tests=tests).line)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
