"""Names of columns as SQL: the one place where a name becomes a part of a query."""

from __future__ import annotations

from collections.abc import Iterable

from dpquery.catalog.names import name_fault, shown, suggestion
from dpquery.catalog.names import quoted as identifier
from dpquery.errors import UnknownNameError, UnsupportedQueryError
from dpquery.session.options import NAMES

TABLE = "this"
"""How queries call the protected frame."""


ASKED = tuple(name for name in NAMES if name not in ("dialect", "fresh"))
"""The options of `Session.sql` that every call takes."""


def quoted(name: str) -> str:
    """Returns a name as a quoted identifier; refuses invisible characters."""
    fault = name_fault(name) if isinstance(name, str) else f"a {type(name).__name__} is not a name"
    if fault is not None:
        raise UnsupportedQueryError(fault, advice="Rename the column.")
    return identifier(name)


def known(name: object, names: Iterable[str], why_not: dict[str, str] | None = None) -> str:
    """Returns the name of a column that exists; raises UnknownNameError where there is none.

    Args:
        why_not: Columns of the frame that queries cannot name, with the reason.
    """
    names = list(names)
    if isinstance(name, str) and name in names:
        return name
    if isinstance(name, str) and why_not and name in why_not:
        raise UnknownNameError(f"column {shown(name)} cannot be used: {why_not[name]}")
    if not isinstance(name, str):
        raise UnknownNameError(f"a column name must be a string, not {type(name).__name__}")
    raise UnknownNameError(f"there is no column {shown(name)}; {suggestion(name, names)}")
