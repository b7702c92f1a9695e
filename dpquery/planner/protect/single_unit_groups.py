"""Groups that are refused: those of one privacy unit each can never be shown, and selecting any costs a delta."""

from __future__ import annotations

from dpquery.catalog import Catalog
from dpquery.catalog.owner_columns import owning_columns
from dpquery.errors import MissingDeltaError, QueryError, UnsupportedQueryError
from dpquery.kernel.plan import Key
from dpquery.plan.expr import Column
from dpquery.plan.logical import Aggregate
from dpquery.plan.show import names_of, show


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


def without_delta(boundary: Aggregate, keys: tuple[Key, ...]) -> QueryError:
    """Returns the refusal of groups that have to be selected, where the budget has no delta."""
    key = next(key for key in keys if key.domain is None)
    place = boundary.group_by.index(key.columns[0])
    name = show(Column(id=key.columns[0], type=key.types[0]), names_of(boundary.source))
    return MissingDeltaError(
        f"{name} has no public keys; selecting its groups costs a delta, which this budget does not have",
        advice="Declare keys in the catalog, name them in WHERE, or give the dataset a budget with delta.",
        span=boundary.spans[place] if place < len(boundary.spans) else None,
    )
