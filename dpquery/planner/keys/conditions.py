"""What every row of a relation fulfils, as far as the query says, over stored and literal columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from dpquery.plan.definitions import Leaves, definition
from dpquery.plan.expr import Call, Column, Expression, columns_of, conjuncts, substitute
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    is_private,
)
from dpquery.plan.types import FLOAT64

Meaning = tuple[Expression, Leaves]
"""An expression over columns that have no definition, and where the stored and literal ones come from."""


def conditions_of(relation: Relation) -> list[Expression]:
    """Returns what WHERE demands of every row, over the columns of scans."""
    return [condition for condition, _ in tests_of(relation)]


def tests_of(relation: Relation) -> list[Meaning]:
    """Returns what WHERE demands of every row, each with where the columns it reads come from."""
    match relation:
        case Filter():
            own = [_meaning(part, relation.source) for part in conjuncts(relation.condition)]
            return [*own, *tests_of(relation.source)]
        case Project() | Aggregate() | Window() | Sort():
            return tests_of(relation.source)
        case Join(kind="inner" | "cross"):
            return [*_met(relation), *tests_of(relation.left), *tests_of(relation.right)]
        case Join(kind="left" | "semi" | "anti"):
            return tests_of(relation.left)
        case Join() | SetOperation() | Scan() | Values() | Limit() | Released():
            return []
        case _:
            assert_never(relation)


def equated(relation: Relation) -> tuple[list[tuple[str, str]], Leaves]:
    """Returns pairs of stored or literal columns that are equal and not NULL in every row, and where they come from.

    Inner joins and WHERE say so. Both columns have one type, of which equal values are the same value.
    """
    pairs: list[tuple[str, str]] = []
    scans: Leaves = {}
    for left, right in _equalities(relation):
        (one, more), (other, others) = left, right
        if isinstance(one, Column) and isinstance(other, Column) and one.type == other.type != FLOAT64:
            found = more | others
            if one.id in found and other.id in found:
                pairs.append((one.id, other.id))
                scans |= found
    return pairs, scans


def _equalities(relation: Relation) -> Iterator[tuple[Meaning, Meaning]]:
    match relation:
        case Filter():
            for part in conjuncts(relation.condition):
                if isinstance(part, Call) and part.function == "eq":
                    one, other = (_meaning(side, relation.source) for side in part.arguments)
                    yield one, other
            yield from _equalities(relation.source)
        case Project() | Aggregate() | Window() | Sort():
            yield from _equalities(relation.source)
        case Join(kind="semi") if is_private(relation.right):
            yield from _equalities(relation.left)
        case Join(kind="inner" | "cross" | "semi"):  # IN: what is kept equals a column of a public row
            for left, right in relation.equalities:
                yield _meaning(left, relation.left), _meaning(right, relation.right)
            yield from _equalities(relation.left)
            yield from _equalities(relation.right)
        case Join(kind="left" | "anti"):
            yield from _equalities(relation.left)
        case Join() | SetOperation() | Scan() | Values() | Limit() | Released():
            return
        case _:
            assert_never(relation)


def _meaning(expression: Expression, relation: Relation) -> Meaning:
    """Returns an expression over stored and literal columns, and where these come from."""
    values: dict[str, Expression] = {}
    scans: Leaves = {}
    for column in columns_of(expression):
        values[column.id], more = definition(column.id, relation)
        scans |= more
    return substitute(expression, values), scans


def _met(join: Join) -> list[Meaning]:
    """Returns what an inner join demands of private rows that meet others: what is equated is not NULL.

    Nothing is demanded of public rows: where an outer join keeps them, they are keys without a private row.
    """
    private = [is_private(join.left), is_private(join.right)]
    found: list[Meaning] = []
    for pair in join.equalities:
        for expression, side, here in zip(pair, (join.left, join.right), private, strict=True):
            if here or not any(private):
                meaning, scans = _meaning(expression, side)
                found.append((call("is_not_null", (meaning,)), scans))
    return found
