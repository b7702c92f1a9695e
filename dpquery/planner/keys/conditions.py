"""What every row of a relation fulfils, as far as the query says, over stored and literal columns.

And which constants it compares with a column whose declared keys do not hold them: often another spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from dpquery.catalog import Catalog
from dpquery.catalog.names import closest
from dpquery.kernel.plan import PrivateAggregate
from dpquery.plan.definitions import Leaves, definition
from dpquery.plan.expr import Call, Column, Expression, Literal, columns_of, conjuncts, parts_of, substitute
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
    sources,
)
from dpquery.plan.types import FLOAT64, TEXT

MOST_NAMED = 5
"""Sentences about constants of one query."""

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


def unlisted_constants(aggregates: tuple[PrivateAggregate, ...], catalog: Catalog) -> tuple[str, ...]:
    """Returns a sentence for each text that is compared with a column with declared keys and is none of them. It
    follows from the query and the catalog alone."""
    found: dict[str, None] = {}
    for aggregate in aggregates:
        pending: list[Relation] = [aggregate.source]
        while pending:
            relation = pending.pop()
            pending += sources(relation)
            for expression in _expressions(relation):
                found |= dict.fromkeys(_sentences(expression, relation, catalog))
    return tuple(found)[:MOST_NAMED]


def _expressions(relation: Relation) -> tuple[Expression, ...]:
    match relation:
        case Filter():
            return (relation.condition,)
        case Project():
            return tuple([column.expression for column in relation.columns])
        case _:
            return ()


def _sentences(expression: Expression, relation: Relation, catalog: Catalog) -> Iterator[str]:
    for part in parts_of(expression):
        if not isinstance(part, Call) or part.function not in ("eq", "in"):
            continue
        columns = [one for one in part.arguments if isinstance(one, Column) and one.type == TEXT]
        texts = [one.value for one in part.arguments if isinstance(one, Literal) and isinstance(one.value, str)]
        if len(columns) != 1 or len(texts) != len(part.arguments) - 1:
            continue
        name, keys = _declared(columns[0], relation, catalog)
        for text in texts:
            if keys and text not in keys:
                near = closest(text, [key for key in keys if isinstance(key, str)])
                meant = f"; did you mean {near!r}?" if near is not None else ""
                yield f"{text!r} is none of the declared keys of {name}{meant}"


def _declared(column: Column, relation: Relation, catalog: Catalog) -> tuple[str, tuple[object, ...]]:
    """Returns the table's column behind a column, and its declared keys; none where there are none."""
    source = relation.source if isinstance(relation, Filter | Project) else relation
    defined, leaves = definition(column.id, source)
    table = leaves.get(defined.id) if isinstance(defined, Column) else None
    if not isinstance(defined, Column) or not isinstance(table, Scan):
        return "", ()
    stored = next((one.name for one in table.columns if one.id == defined.id), None)
    declared = catalog.tables[table.table].columns.get(stored or "")
    return (f"{table.table}.{stored}", tuple(declared.keys)) if declared and declared.keys else ("", ())
