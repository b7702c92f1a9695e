"""Joins of which nothing is asked but whether a row meets any: COUNT(DISTINCT unit) over rows of the other side.

The join is a semi-join then: it multiplies no rows, so that neither side is cut. Units that have a row are the same.
The gate looks at what this made, and believes nothing of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dpquery.plan.definitions import taken_apart
from dpquery.plan.expr import Column, Expression, Literal, columns_of, substitute
from dpquery.plan.logical import Computed, Filter, Join, Project, Relation, is_private, output
from dpquery.plan.types import FLOAT64
from dpquery.planner.protect.equivalent_relations import all_of


def asking_existence(source: Relation, read: Collection[str]) -> Relation:
    """Returns a relation with a row for each that differs in the columns read, and perhaps fewer equal ones.

    Args:
        read: Ids of the columns that anything reads; others may be NULL in what is returned.
    """
    relation, conditions, values = taken_apart(source)
    if not isinstance(relation, Join) or relation.kind != "inner":
        return source
    if not (is_private(relation.left) and is_private(relation.right)):
        return source
    other = replace(
        relation,
        left=relation.right,
        right=relation.left,
        equalities=tuple((b, a) for a, b in relation.equalities),
    )
    kept = (_kept(join, values, conditions, read) for join in (relation, other))
    found = next((one for one in kept if one is not None), None)
    if found is None:
        return source
    names = {column.id: column.name for column in output(source)}
    return Project(
        source=found[0], columns=tuple(Computed(id=id, name=names[id], expression=found[1][id]) for id in names)
    )


def _kept(
    join: Join, values: dict[str, Expression], conditions: list[Expression], read: Collection[str]
) -> tuple[Relation, dict[str, Expression]] | None:
    """Returns the rows of the left that meet any, and the columns over them; None where something reads the right."""
    left, right = ({column.id for column in output(side)} for side in (join.left, join.right))
    equal: dict[str, Expression] = {
        b.id: a
        for a, b in join.equalities
        if isinstance(a, Column) and isinstance(b, Column) and a.type == b.type != FLOAT64
    }
    tests: list[Expression] = []
    rest: list[Expression] = []
    for condition in conditions:
        (tests if _ids(condition) <= right else rest).append(condition)
    over = {id: substitute(value, equal) for id, value in values.items()}
    rest = [substitute(condition, equal) for condition in rest]
    if not all(_ids(part) <= left for part in (*rest, *(over[id] for id in read))):
        return None
    tested = Filter(source=join.right, condition=all_of(tests)) if tests else join.right
    made: Relation = replace(join, kind="semi", right=tested)
    columns = {id: value if _ids(value) <= left else Literal(value=None, type=value.type) for id, value in over.items()}
    return (Filter(source=made, condition=all_of(rest)) if rest else made), columns


def _ids(expression: Expression) -> set[str]:
    return {column.id for column in columns_of(expression)}
