"""Grouping columns that lead to one privacy unit each: such groups can never be shown, and asking is a mistake."""

from __future__ import annotations

from dpquery.catalog import Catalog
from dpquery.catalog.owning import owning_columns
from dpquery.errors import UnsupportedQueryError
from dpquery.plan.logical import Aggregate


def refuse_owned(boundary: Aggregate, catalog: Catalog) -> None:
    """Raises where each group of a boundary whose groups must be selected belongs to one privacy unit alone: none would
    ever be shown."""
    found = owning_columns(boundary.group_by, boundary.source, catalog)
    if found is not None:
        name = ", ".join(sorted(found[1]))
        raise UnsupportedQueryError(
            f"each group of equal {name} belongs to a single {catalog.privacy_unit}, so no group can be shown",
            advice="Group by a value that many units share, or count the groups with COUNT(DISTINCT ...).",
            span=next(iter(boundary.spans), None),
        )
