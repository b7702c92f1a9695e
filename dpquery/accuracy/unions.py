"""What the columns of a UNION ALL mean: those of its left side in some rows, those of its right side in the others.

Each row carries which side it came from, so that its intervals are those of its own side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpquery.plan.expr import Call, Case, Column, Expression, Literal, children, columns_of, rebuild, substitute
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Matched, Project, Relation, SetOperation, output
from dpquery.plan.types import INT64

Meanings = dict[str, Expression]
_SIDE = "_side"


def carry_union(
    operation: SetOperation, left: tuple[Relation, Meanings], right: tuple[Relation, Meanings]
) -> tuple[SetOperation, Meanings]:
    """Returns the union with the columns that both sides' meanings read kept, and what its own columns mean.

    Args:
        left, right: Each side with such columns kept already, and its meanings.
    """
    side = Column(id=operation.columns[-1].id + _SIDE, type=INT64)
    leaves = {leaf.id: leaf for _, known in (left, right) for meaning in known.values() for leaf in columns_of(meaning)}
    sides = [
        _side(relation, known, [getattr(column, name) for column in operation.columns], leaves, side, number)
        for number, (name, (relation, known)) in enumerate((("left", left), ("right", right)))
    ]
    carried = (*leaves.values(), side)
    kept = tuple(Matched(id=leaf.id, name="", type=leaf.type, left=leaf.id, right=leaf.id) for leaf in carried)
    meanings: Meanings = {leaf.id: leaf for leaf in carried}
    on_the_left = call("eq", (side, Literal(value=0, type=INT64)))
    for column in operation.columns:
        one, other = left[1].get(column.left), right[1].get(column.right)
        if one is not None and other is not None:
            both = Case(branches=((on_the_left, one),), otherwise=other, type=column.type)
            meanings[column.id] = one if one == other else both
    return replace(operation, left=sides[0], right=sides[1], columns=(*operation.columns, *kept)), meanings


def _side(
    relation: Relation, known: Meanings, given: list[str], leaves: Mapping[str, Column], side: Column, number: int
) -> Project:
    own = {leaf.id for meaning in known.values() for leaf in columns_of(meaning)}
    types = {column.id: column.type for column in output(relation)}
    columns = {id: Computed(id=id, name="", expression=Column(id=id, type=types[id])) for id in given}
    for id, leaf in leaves.items():
        expression = leaf if id in own else Literal(value=None, type=leaf.type)
        columns.setdefault(id, Computed(id=id, name="", expression=expression))
    columns[side.id] = Computed(id=side.id, name="", expression=Literal(value=number, type=INT64))
    return Project(source=relation, columns=tuple(columns.values()))


def side_of(expression: Expression) -> str | None:
    """Returns the first column read that says from which side of a union a row came, or None."""
    return next((column.id for column in columns_of(expression) if column.id.endswith(_SIDE)), None)


def on_side(expression: Expression, id: str, number: int) -> Expression:
    """Returns what an expression means in the rows of one side."""
    return _decided(substitute(expression, {id: Literal(value=number, type=INT64)}))


def _decided(expression: Expression) -> Expression:
    """Returns the expression without the choice between sides that are known."""
    if isinstance(expression, Case) and len(expression.branches) == 1:
        condition, taken = expression.branches[0]
        if isinstance(condition, Call) and condition.function == "eq":
            first, second = condition.arguments
            if isinstance(first, Literal) and isinstance(second, Literal):
                return _decided(taken if first.value == second.value else expression.otherwise)
    return rebuild(expression, tuple(_decided(part) for part in children(expression)))
