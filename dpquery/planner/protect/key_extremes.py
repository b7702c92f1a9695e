"""MIN and MAX of texts and truth values: public keys have places in order, and a place is chosen as a number is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpquery.errors import UnsupportedQueryError
from dpquery.plan.aggregates.choices import MAX, MIN
from dpquery.plan.expr import Case, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import AggregateColumn, Computed
from dpquery.plan.types import INT64, TEXT, Type, Value

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


def without_keys(
    columns: Sequence[AggregateColumn], domain: Callable[[Expression], tuple[Value, ...] | None], shown: str
) -> dict[str, Computed]:
    """Returns MIN and MAX of texts that have no public keys, by id, as the constant that the catalog has them show;
    no row decides anything of it.

    Args:
        domain: The public values of an expression.
        shown: The catalog's `texts_without_keys`, if it does not have them refused.
    """
    constant = Literal(value=None if shown == "null" else shown, type=TEXT)
    return {
        column.id: Computed(id=column.id, name=column.name, expression=constant)
        for column in columns
        if column.function in (MIN, MAX) and column.type == TEXT and column.argument and not domain(column.argument)
    }


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
