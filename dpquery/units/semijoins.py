"""The unit-local rule of semi- and anti-joins: IN, EXISTS, and their negations."""

from __future__ import annotations

from dpquery.plan.expr import Column
from dpquery.plan.logical import Join
from dpquery.units.declarations import Declarations
from dpquery.units.unit_local import Locality, NotUnitLocal


def of_semi_join(join: Join, left: Locality, right: Locality, declared: Declarations) -> Locality:
    """Returns what is known of a semi- or anti-join of which a side is private, neither is limited, and the expressions
    were checked.

    Privacy:
        Each row of the left is kept or not, once, and unchanged. With a public right side that is a function of the row
        and of public tables. With a private one an equality of units makes it a function of the row and of the right
        rows of the same unit, so the rows of u follow from D(u) and P.
    Source:
        docs/proofs/unit-local.md.
    """
    if not left.private:
        raise NotUnitLocal(
            "the rows of a public table that have a private counterpart would show who exists",
            "Aggregate the private rows first, for example by GROUP BY on the public column.",
        )
    if right.private:
        _require_same_unit(join, left, right, declared)
    return Locality(private=True, units=left.units, rows=left.rows, owner=left.owner)


def _require_same_unit(join: Join, left: Locality, right: Locality, declared: Declarations) -> None:
    if declared.unit_is_row:
        raise NotUnitLocal(
            "a subquery over private rows would let one row decide about another, but each row is a privacy unit",
            "Compare with a public table or with constants.",
        )
    for a, b in join.equalities:
        if isinstance(a, Column) and a.id in left.units and isinstance(b, Column) and b.id in right.units:
            return
    raise NotUnitLocal(
        f"a subquery over private rows must equate the privacy units ({declared.privacy_unit}); otherwise rows of "
        "different people decide about each other",
        f"Equate the {declared.privacy_unit} columns of both sides, by IN or in WHERE of the subquery.",
    )
