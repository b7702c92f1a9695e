"""What a backend says of stored tables, so that the work of one stored row can be bounded; and how that is refused."""

from __future__ import annotations

from typing import Protocol

from dpquery.errors import InternalError, Span
from dpquery.plan.types import Value


class Sizes(Protocol):
    """Facts of stored tables that anybody may know: measured of public tables, and checked when tables were opened.

    Privacy:
        Nothing here depends on a private row: of private tables only what opening them would have refused otherwise.
    Source:
        docs/proofs/work.md.
    """

    def rows(self, table: str) -> int:
        """Returns how many rows a public table has."""
        ...

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        """Returns the most rows of a public table that agree in these columns, of which none is NULL."""
        ...

    def public_rows(self, table: str, columns: tuple[str, ...]) -> tuple[tuple[Value, ...], ...]:
        """Returns the different rows of a public table in some of its columns, in any order."""
        ...

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        """Returns sets of columns of which no two rows of a private table agree, NULL agreeing with nothing: those
        that were checked when it was opened."""
        ...


class Unbounded(InternalError):
    """A plan in which one stored row may cause more work than is allowed, or for which no rule says how much.

    Attributes:
        reason: What is refused and why.
        advice: What to write instead.
        span: Where in the query's text, or None.
    """

    def __init__(self, reason: str, advice: str = "", span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
        self.span = span
