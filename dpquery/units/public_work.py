"""How much work the public parts of a plan are: a private row may start them or end them. docs/proofs/work.md."""

from __future__ import annotations

from typing import assert_never

from dpquery.plan.expr import Column, Expression
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
from dpquery.units.costs import SORT, STEP, Lengths, cost, lengths, of_aggregate
from dpquery.units.join_multiplicity import Meeting, least, times
from dpquery.units.sizes import Unbounded

PUBLIC_PART = "what is computed of public tables alone"
"""The part of a plan's work, in words."""
EACH = 200 * STEP
"""Characters that a public part may read and make for each row of the tables that it reads."""


def beyond(relation: Relation, meeting: Meeting) -> int:
    """Returns how many characters a public relation reads and makes, beyond what its tables allow it.

    Privacy:
        An engine may leave a public relation out where no private row asks for it. So what one private row can start
        is at most this, and EACH for each row of the public tables that are read.
    Raises:
        Unbounded: No rule bounds an operator.
    Source:
        docs/proofs/work.md, Lemma 4.
    """
    return max(0, _all(relation, meeting) - EACH * _stored(relation, meeting))


def _all(relation: Relation, meeting: Meeting) -> int:
    return _own(relation, meeting) + sum(_all(source, meeting) for source in sources(relation))


def _stored(relation: Relation, meeting: Meeting) -> int:
    if isinstance(relation, Scan):
        return _rows(relation, meeting)
    return sum(_stored(source, meeting) for source in sources(relation))


def _rows(relation: Relation, meeting: Meeting) -> int:
    rows = meeting.most(relation, frozenset())
    if rows is None:
        raise Unbounded("no rule bounds the rows of a public relation")
    return rows


def _own(relation: Relation, meeting: Meeting) -> int:
    """Returns what one operator reads and makes; columns that are only handed on cost nothing."""
    given: dict[str, int] = {}
    for source in sources(relation):
        given |= lengths(source)
    rows = sum(_rows(source, meeting) for source in sources(relation))
    match relation:
        case Scan() | Values():
            return _rows(relation, meeting) * STEP
        case Filter():
            return rows * cost(relation.condition, given).characters
        case Project():
            made: list[Expression] = [c.expression for c in relation.columns if not isinstance(c.expression, Column)]
            return rows * _costs(made, given)
        case Join():
            keys = [expression for pair in relation.equalities for expression in pair]
            condition = [] if relation.condition is None else [relation.condition]
            return rows * _costs(keys, given) + _pairs(relation, meeting) * (STEP + _costs(condition, given))
        case Aggregate():
            spent = sum(of_aggregate(column, given).characters for column in relation.aggregates)
            return rows * (STEP * (1 + len(relation.group_by)) + spent)
        case Window():
            read = [part for c in relation.columns for part in (*c.arguments, *([c.filter] if c.filter else []))]
            return rows * (2 * SORT * len(relation.columns) + _costs(read, given))
        case SetOperation():
            return rows * STEP * (1 + len(output(relation)))
        case Sort() | Limit():
            return rows * SORT
        case Released():
            raise Unbounded("a released table cannot be joined with private rows")
        case _:
            assert_never(relation)


def _pairs(join: Join, meeting: Meeting) -> int:
    """Returns how many pairs of rows a join compares beside its equalities."""
    left, right = _rows(join.left, meeting), _rows(join.right, meeting)
    if join.kind in ("semi", "anti") and join.condition is None:
        return left + right
    counts = [times(left, meeting.met(join, left=True)), times(right, meeting.met(join, left=False))]
    return (least(*counts) or 0) + left + right


def _costs(expressions: list[Expression], given: Lengths) -> int:
    return sum(cost(expression, given).characters for expression in expressions)
