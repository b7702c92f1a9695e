"""Which columns of a relation over released tables carry noise: by the plan alone, so it is known before a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from dpquery.plan.expr import columns_of
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
    output,
    sources,
)

Keys = Callable[[int], frozenset[str]]
"""The number of a released table to the ids of its keys, which carry no noise."""
Synthetic = Callable[[str], bool]
"""Whether the rows of a public table, by its name, are synthetic."""


def noisy_columns(relation: Relation, keys: Keys, synthetic: Synthetic = lambda table: False) -> frozenset[str]:
    """Returns the ids of the columns whose values follow from noisy numbers.

    Which rows are there may follow from noise too (HAVING, LIMIT, synthetic rows): a key that is shown is exact all the
    same, but what is counted, added up or ranked over such rows is not.
    """
    match relation:
        case Released():
            return frozenset(column.id for column in relation.columns) - keys(relation.index)
        case Scan() | Values():
            return frozenset()
        case Filter() | Sort() | Limit():
            return noisy_columns(relation.source, keys, synthetic)
        case Project():
            below = noisy_columns(relation.source, keys, synthetic)
            return frozenset(
                column.id
                for column in relation.columns
                if any(read.id in below for read in columns_of(column.expression))
            )
        case Join(kind="semi" | "anti"):
            return noisy_columns(relation.left, keys, synthetic)
        case Join():
            return noisy_columns(relation.left, keys, synthetic) | noisy_columns(relation.right, keys, synthetic)
        case SetOperation():
            left, right = (noisy_columns(side, keys, synthetic) for side in (relation.left, relation.right))
            return frozenset(c.id for c in relation.columns if c.left in left or c.right in right)
        case Window() | Aggregate():
            made = {column.id for column in output(relation)} - {column.id for column in output(relation.source)}
            below = noisy_columns(relation.source, keys, synthetic) & {column.id for column in output(relation)}
            return below | (made if _is_noisy(relation, synthetic) else frozenset())
        case _:
            assert_never(relation)


def _is_noisy(relation: Relation, synthetic: Synthetic) -> bool:
    """Whether the rows of a relation may follow from noise."""
    is_made = isinstance(relation, Scan) and synthetic(relation.table)
    return is_made or isinstance(relation, Released) or any(_is_noisy(one, synthetic) for one in sources(relation))
