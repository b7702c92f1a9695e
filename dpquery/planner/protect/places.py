"""MIN and MAX of texts and truth values: public keys have places in order, and a place is chosen as a number is."""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.errors import UnsupportedQueryError
from dpquery.plan.expr import Case, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.types import INT64, Type, Value

MOST_PLACES = 100
"""Public keys among which MIN and MAX choose."""


def places(
    column: AggregateColumn, type: Type, name: str, domain: tuple[Value, ...] | None
) -> tuple[list[Literal], list[Literal]]:
    """Returns the public values of an argument in order, and the number of each.

    Raises:
        UnsupportedQueryError: There are none, or too many.
    """
    known = public_keys(column, name, domain)
    if len(known) > MOST_PLACES:
        raise UnsupportedQueryError(
            f"{column.name.upper()} of a {type} chooses among at most {MOST_PLACES} public keys",
            advice="GROUP BY it, and sort the groups.",
            span=column.span,
        )
    keys = [Literal(value=one, type=type) for one in sorted(known, key=str)]
    return keys, [Literal(value=place, type=INT64) for place in range(len(keys))]


def public_keys(column: AggregateColumn, name: str, domain: tuple[Value, ...] | None) -> tuple[Value, ...]:
    """Returns the public values that an aggregate chooses among; raises UnsupportedQueryError where there are none."""
    if domain:
        return domain
    raise UnsupportedQueryError(
        f"{column.name.upper()}({name}) has no public keys to choose from",
        advice=f"Declare keys for the column in the catalog, write CASE {name} WHEN ... THEN ... END, or COUNT it.",
        span=column.span,
    )


def told(of: Expression, those: Sequence[Literal], means: Sequence[Literal]) -> Case:
    """Returns what a constant means that an expression equals, of several; NULL of others."""
    pairs = tuple((call("eq", (of, one)), meant) for one, meant in zip(those, means, strict=True))
    return Case(branches=pairs, otherwise=Literal(value=None, type=means[0].type), type=means[0].type)
