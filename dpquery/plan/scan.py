"""The rows of a stored table as a plan reads them: their columns, their owners, their limit and their weights."""

from __future__ import annotations

from dataclasses import dataclass

from dpquery.plan.scaled_weights import Scaled
from dpquery.plan.strata import Strata
from dpquery.plan.types import TEXT, Type

ROW_LIMIT = 10_000_000
"""Rows of one unit and table that are read by default."""
LARGEST_ROW_LIMIT = 10**12
LONGEST_TEXT = 1_000
"""Characters that a stored text is read with where the catalog says nothing; what is beyond is cut off."""
LONGEST_OWNER = 1_000
"""Characters of a privacy unit or of a key that leads to one; a longer one is NULL, as its part may be another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanColumn:
    """A declared column of a stored table under the id that this scan gives it.

    Of a text are read the first `max_length` characters, which are those that the catalog declares.
    """

    id: str
    name: str
    type: Type
    max_length: int = LONGEST_TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerStep:
    """One step of ownership by foreign key: equal columns lead from a table to its parent."""

    parent: str
    on: tuple[tuple[str, str, Type], ...]
    """(column of the child, column of the parent, type of both)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """How a row of a private table finds its privacy unit: foreign keys to follow, then a column, or several.

    Several columns are one unit: a text that no stored column holds, made of all of them so that different tuples make
    different texts. Each of `parts` in turn is written in its type's one form (an integer in digits, a decimal with all
    its places, a text as it is), with its number of bytes in UTF-8 and a colon in front: ("ab", 7) is 2:ab1:7. It is
    NULL where a part is NULL, or where it has more than LONGEST_OWNER characters. Backends owe the kernel this
    sentence, and docs/proofs/unit-local.md says why no two units meet.

    Attributes:
        column: The column that holds the unit, or what people call that of `parts`.
        type: Of the unit.
        parts: Several columns with their types, or none.
    """

    path: tuple[OwnerStep, ...]
    column: str
    type: Type
    parts: tuple[tuple[str, Type], ...] = ()

    def __post_init__(self) -> None:
        if self.parts and (len(self.parts) < 2 or self.type != TEXT):
            raise ValueError("a unit of parts has several, and is a text")

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that tell the unit, where the path ends."""
        return tuple(name for name, _ in self.parts) or (self.column,)

    @property
    def types(self) -> tuple[Type, ...]:
        """Those of `columns`."""
        return tuple(type for _, type in self.parts) or (self.type,)

    @property
    def is_stored(self) -> bool:
        """Whether the table itself has a column that is the unit."""
        return not self.path and not self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The rows of a stored table, read as declared; what does not fit is NULL.

    `unit` is the id under which a private table's privacy unit is given (None for public tables, and where the unit
    is the row). It may be the id of one of `columns`, when the query may read the unit's own column. Rows owned by
    foreign key may be read without it: then a join with the parent has to tell whose they are.

    Of a privacy unit with more than `row_limit` rows in the table (or in a block of it) so many are read, chosen by a
    hash under the release's key of what is declared of a row. Backends owe the kernel this sentence. Where the unit is
    the row, and of public tables, all are.

    `weight`, if asked for, is the id of each row's weight, an int64 in steps of 1 / 2^24 and NULL without an owner:
    floor(2^24 * min(1, max_rows / T)), with T the number of the unit's stored rows in the table (in the row's block of
    it, where rows are in blocks), or `row_limit` if that is less; with `strata` what `Strata` says. `scaled` are more.
    """

    table: str
    columns: tuple[ScanColumn, ...]
    public: bool
    ownership: Ownership | None = None
    unit: str | None = None
    row_limit: int = ROW_LIMIT
    weight: str | None = None
    max_rows: int | None = None
    scaled: tuple[Scaled, ...] = ()
    strata: Strata | None = None

    def __post_init__(self) -> None:
        if self.row_limit < 1 or (self.max_rows is not None and self.max_rows < 1):
            raise ValueError("a scan reads at least one row of a unit")
        owner, is_weighed = self.ownership, self.weight is not None or bool(self.scaled)
        if (self.weight is None) is not (self.max_rows is None) or (is_weighed and owner is None):
            raise ValueError("rows that have owners have weights, and these a limit")
        fits = self.unit is None if owner is None else not self.public and (self.unit is not None or bool(owner.path))
        if not fits:
            raise ValueError("a scan has a unit exactly where rows have owners")
