"""Privacy bugs, each a replacement of a piece of the package, with the tests that must find it.

Most were seen in a real system, the others are one edit away. They are listed in the text files of this folder, as
README.md says. The piece is found by the name of its definition and a pattern (`places.py`): a definition may move to
another file, and its layout may change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug.

    Attributes:
        name: What is wrong with it, in a few words.
        place: The definition in which it sits: the end of its dotted name, as `charge` or `Ledger.charge`.
        old, new: A pattern that matches once in the definitions of that name, and the text that replaces it.
        tests: A test file that must fail.
        only: An expression for pytest's `-k`; "" runs the whole file, slow tests apart.
    """

    name: str
    place: str
    old: str
    new: str
    tests: str
    only: str


def read(text: str) -> Iterator[Mutant]:
    """Yields the mutants of a text file.

    Raises:
        ValueError: A block is not a name, a line of place and tests, lines with "-" and then lines with "+".
    """
    for block in text.strip().split("\n\n"):
        name, *lines = block.splitlines()
        if name.startswith("#"):
            continue
        signs = "".join(line[:2].rstrip() for line in lines[1:])
        if not lines[0].startswith("  ") or not re.fullmatch(r"-+\+*", signs):
            raise ValueError(f"not a mutant: {name!r}")
        place, tests, *only = lines[0].split(maxsplit=2)
        old, new = ("\n".join(line[2:] for line in lines[1:] if line[0] == sign) for sign in "-+")
        yield Mutant(name=name, place=place, old=old, new=new, tests=f"tests/{tests}", only="".join(only))


MUTANTS = tuple(
    mutant for path in sorted(Path(__file__).parent.glob("*.txt")) for mutant in read(path.read_text(encoding="utf-8"))
)
