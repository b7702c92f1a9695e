"""What prepared tables hold beside their declared columns, so that statements compute and compare less.

Bounded numbers as the integers of a lattice, and strings with public keys as the places of these. Both are functions of
the declared column, so a statement that finds no use for them reads that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpquery.kernel.plan import LARGEST_STEP, Lattice

MOST_KEYS = 2**16 - 1
"""Public keys of a column that get codes; columns with more have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """Which further columns a private table has, by the names of the declared ones.

    Attributes:
        lattices: The lattice of a column of numbers, without an offset; the column `step_of` holds the integers.
        keys: The keys of a column of strings, each once; the column `code_of` holds their places, NULL for NULL, and
            for each other string a larger number of its own, which may differ between shards.
    """

    lattices: Mapping[str, Lattice] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str]:
        """The names of the further columns."""
        return frozenset([*map(step_of, self.lattices), *map(code_of, self.keys)])

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_json` reads."""
        lattices = {column: [str(made.grid), made.lower, made.upper] for column, made in self.lattices.items()}
        return {"lattices": lattices, "keys": {column: list(keys) for column, keys in self.keys.items()}}

    @staticmethod
    def from_json(content: Any) -> Forms:
        """Returns the forms of a manifest; raises KeyError, TypeError or ValueError for anything else."""
        lattices = {
            str(column): Lattice(grid=Fraction(str(grid)), lower=_step(lower), upper=_step(upper))
            for column, (grid, lower, upper) in content["lattices"].items()
        }
        return Forms(lattices=lattices, keys={str(c): tuple(map(str, keys)) for c, keys in content["keys"].items()})


def step_of(column: str) -> str:
    """Returns the name of the column of lattice integers, which no declared column can have."""
    return f" step {column}"


def code_of(column: str) -> str:
    """Returns the name of the column of places among the public keys."""
    return f" code {column}"


def _step(number: Any) -> int:
    if type(number) is not int or abs(number) > LARGEST_STEP:
        raise ValueError("a bound of a lattice is an integer")
    return number
