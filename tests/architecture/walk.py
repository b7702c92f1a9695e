"""The walk of one query through the package: files entered and Python calls, counted and printed.

Usage: python -m tests.architecture.walk
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import pandas as pd

import dpquery
from tests.architecture.package import PACKAGE

CATALOG = """
version: 2
dataset: walked
privacy_unit: customer
budget: {epsilon: 100, delta: 1e-6}
defaults: {epsilon: 0.5}
tables:
  purchases:
    unit: customer
    max_rows: 3
    columns:
      customer: {type: int64}
      region: {type: text, keys: [north, south, west]}
      item: {type: text, keys: [bread, tea]}
      spend: {type: float64, lower: 0, upper: 100}
"""
FIRST = "SELECT item, COUNT(*) AS n FROM purchases GROUP BY item"
WALKED = "SELECT region, COUNT(*) AS n, AVG(spend) AS mean FROM purchases GROUP BY region"


@dataclass(frozen=True, slots=True)
class Walk:
    """What one query entered.

    Attributes:
        calls: How often each function of the package was entered, by (file below the package, name and line); a
            generator counts each time that it goes on.
    """

    calls: Counter[tuple[str, str]]

    @property
    def files(self) -> Counter[str]:
        """The calls of each file."""
        found: Counter[str] = Counter()
        for (file, _), count in self.calls.items():
            found[file] += count
        return found


def walk(query: str = WALKED) -> Walk:
    """Returns the walk of a query that is the second of a session, and not stored."""
    folder = f"{PACKAGE}/"
    seen: Counter[CodeType] = Counter()

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen[frame.f_code] += 1

    table = pd.DataFrame(
        {
            "customer": [number // 2 for number in range(90)],
            "region": ["north", "south", "west"] * 30,
            "item": ["bread", "tea"] * 45,
            "spend": [number + 0.5 for number in range(90)],
        }
    )
    with tempfile.TemporaryDirectory() as place:
        declared = Path(place, "catalog.yaml")
        declared.write_text(CATALOG, encoding="utf-8")
        with dpquery.connect(declared, {"purchases": table}, ledger=f"{place}/walked.ledger", create=True) as session:
            session.sql(FIRST)
            sys.setprofile(enter)
            try:
                session.sql(query)
            finally:
                sys.setprofile(None)
    calls: Counter[tuple[str, str]] = Counter()
    for code, count in seen.items():
        if code.co_filename.startswith(folder):
            place = code.co_filename.removeprefix(folder)
            calls[place, f"{code.co_qualname}:{code.co_firstlineno}"] += count
    return Walk(calls)


def main() -> None:
    """Prints each file that the query enters, with its calls, and the functions that are called most."""
    made = walk()
    for file, count in sorted(made.files.items()):
        print(f"{count:5} {file}")
    print(f"\n{len(made.files)} files, {made.calls.total()} calls; most often:")
    for (file, name), count in made.calls.most_common(60):
        print(f"{count:5} {file} {name}")


if __name__ == "__main__":
    main()
