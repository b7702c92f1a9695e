"""Keys: columns by which rows are put into groups, and their public values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpquery.plan.types import Type, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One grouping column of the source, or several whose public values belong together, as the rows of a public table.

    Attributes:
        columns, types: Their ids, and the type of each.
        domain: The public values of the columns as tuples, each once, in the order of the result; None where groups are
            selected, of one column alone. NULL is a value like others: rows with it are dropped if no tuple has it.
    """

    columns: tuple[str, ...]
    types: tuple[Type, ...]
    domain: tuple[tuple[Value, ...], ...] | None

    def __post_init__(self) -> None:
        width, rows = len(self.columns), self.domain or ()
        if not width or len(set(self.columns)) != width or len(self.types) != width:
            raise ValueError("a key has columns, each once, and each with its type")
        if self.domain is None and width > 1:
            raise ValueError("groups are selected by one column each")
        if len(set(rows)) != len(rows) or any(len(values) != width for values in rows):
            raise ValueError("a public key occurs twice in its domain, or does not have one value for each column")

    @classmethod
    def of(cls, column: str, type: Type, domain: Iterable[Value] | None) -> Key:
        """Returns the key of one column; the domain holds its values."""
        return cls(columns=(column,), types=(type,), domain=None if domain is None else tuple((v,) for v in domain))
