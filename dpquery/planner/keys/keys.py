"""Group keys: for each, the public values that follow from the declarations and the query, or none.

Keys whose values follow from each other, as the columns of one public table do, are one key of the kernel. A key
without public values makes its groups selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpquery.kernel.plan import Key
from dpquery.plan.definitions import definition
from dpquery.plan.logical import Relation, output, sources
from dpquery.plan.ranges import Range
from dpquery.plan.types import Value
from dpquery.planner.keys.atoms import Known
from dpquery.planner.keys.conditions import conditions_of
from dpquery.planner.keys.narrowing import narrowed
from dpquery.planner.keys.possible import factors


def keys_of(ids: Sequence[str], relation: Relation, known: Known) -> tuple[Key, ...]:
    """Returns the keys of grouping columns, with their public values in the order of the result, NULL last."""
    types = {column.id: column.type for column in output(relation)}
    return tuple(
        Key(columns=factor.ids, types=tuple(types[id] for id in factor.ids), domain=factor.rows)
        for factor in factors(ids, relation, known)
    )


def domain_of(id: str, relation: Relation, known: Known) -> tuple[Value, ...] | None:
    """Returns the public values of one column in the order of the result, NULL last; None if none follow."""
    (factor,) = factors((id,), relation, known)
    return None if factor.rows is None else tuple(value for (value,) in factor.rows)


def covers_all_rows(key: Key, relation: Relation, ranges: dict[str, Range]) -> bool:
    """Whether every row has one of a key's public values, as far as the declarations say.

    NULL is the value that declarations allow and domains may lack.
    """
    if key.domain is None:
        return False
    return all(_has_null(id, values, relation, ranges) for id, values in zip(key.columns, _columns(key), strict=True))


def _columns(key: Key) -> list[tuple[Value, ...]]:
    return list(zip(*key.domain, strict=True)) if key.domain else [()] * len(key.columns)


def _has_null(id: str, values: tuple[Value, ...], relation: Relation, ranges: dict[str, Range]) -> bool:
    """Whether NULL is among a column's public values, or impossible."""
    if None in values or not ranges[id].nullable:
        return True
    return narrowed(definition(id, relation)[0], (None,), tuple(conditions_of(relation))) == ()


def leaf_ranges(relation: Relation, ranges_of: Callable[[Relation], dict[str, Range]]) -> dict[str, Range]:
    """Returns the ranges of every column given anywhere below, by id."""
    found = ranges_of(relation)
    for source in sources(relation):
        found = leaf_ranges(source, ranges_of) | found
    return found
