"""What computing expressions costs, and how long texts can become: by induction. docs/proofs/work.md, Lemma 1.

Costs are in characters: a step is 64 of them. So sums are exact, and only what is shown is divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, children
from dpquery.plan.functions import FUNCTIONS, TEXT_LIMIT
from dpquery.plan.logical import (
    LONGEST_OWNER,
    Aggregate,
    AggregateColumn,
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
    sources,
)
from dpquery.plan.types import TEXT
from dpquery.units.sizes import Unbounded

STEP = 64
"""Characters that are read or made in one step."""
LONGEST_CAST = 100
"""No number, date or timestamp is printed with more characters."""
SORT = 24 * STEP
"""Comparisons that a row takes part in while 10 million rows are sorted."""

Lengths = Mapping[str, int]
"""For each column the most characters that its texts have; 0 for what is not a text."""


@dataclass(frozen=True, slots=True)
class ExpressionCost:
    """What an expression costs on one row.

    Attributes:
        characters: Read and made, and 64 for each of its operations.
        made: Characters of the texts that it makes, intermediates included.
        longest: Of its value; 0 if that is not a text.
    """

    characters: int
    made: int
    longest: int


def cost(expression: Expression, given: Lengths, known: dict[int, ExpressionCost] | None = None) -> ExpressionCost:
    """Returns what an expression costs on each row, all branches of CASE together.

    Args:
        given: The longest texts of the columns that it reads.
        known: What parts of it cost, by identity; a part that is used twice is worked out once and counted twice.
    Raises:
        Unbounded: An operation does not say what it does with texts.
    Source:
        docs/proofs/work.md, Lemma 1.
    """
    known = {} if known is None else known
    found = known.get(id(expression))
    if found is None:
        found = known[id(expression)] = _cost(expression, given, [cost(p, given, known) for p in children(expression)])
    return found


def _cost(expression: Expression, given: Lengths, parts: list[ExpressionCost]) -> ExpressionCost:
    inner = sum(part.characters for part in parts)
    made = sum(part.made for part in parts)
    match expression:
        case Column():
            longest = given[expression.id]
            return ExpressionCost(STEP + longest, 0, longest)
        case Literal():
            longest = len(expression.value) if isinstance(expression.value, str) else 0
            return ExpressionCost(longest, 0, longest)
        case Cast():
            longest = LONGEST_CAST if expression.type == TEXT else 0
            return ExpressionCost(inner + STEP + parts[0].longest + longest, made + longest, longest)
        case Case():
            longest = max(part.longest for part in (*parts[1::2], parts[-1]))
            return ExpressionCost(inner + STEP, made, longest)
        case Call():
            read, longest = _of_call(expression, tuple(part.longest for part in parts))
            return ExpressionCost(inner + STEP + read + longest, made + longest + (read if longest else 0), longest)
        case _:
            assert_never(expression)


def _of_call(call: Call, lengths: tuple[int, ...]) -> tuple[int, int]:
    """Returns how many characters an operation reads, and how many its result may have."""
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise Unbounded(f"function {call.function} is not known")
    if function.texts is None:
        if call.type == TEXT or any(argument.type == TEXT for argument in call.arguments):
            raise Unbounded(f"function {call.function} does not say how long its texts become")
        return 0, 0
    longest = function.texts.makes(call, lengths)
    if longest > TEXT_LIMIT:
        raise Unbounded(f"function {call.function} may make a text of {longest:,} characters", span=call.span)
    return function.texts.reads(call, lengths), longest if call.type == TEXT else 0


def of_aggregate(column: AggregateColumn, given: Lengths) -> ExpressionCost:
    """Returns what an aggregate costs for each row of its source."""
    parts = [cost(part, given) for part in (column.argument, column.second, column.filter) if part is not None]
    read = sum(part.characters for part in parts)
    kept = 0 if column.function.in_any_order else sum(part.longest for part in parts)
    sorting = 0 if column.function.in_any_order else SORT + kept
    longest = 0
    if column.type == TEXT:
        longest = column.function.text_limit or parts[0].longest
    return ExpressionCost(STEP + read + sorting, sum(part.made for part in parts) + kept + longest, longest)


@cached
def lengths(relation: Relation) -> dict[str, int]:
    """Returns for each column of a relation the most characters that its texts have.

    Raises:
        Unbounded: No rule says so.
    Source:
        docs/proofs/work.md, Lemma 1.
    """
    given: dict[str, int] = {}
    for source in sources(relation):
        given |= lengths(source)
    match relation:
        case Scan():
            made = {column.id: column.max_length if column.type == TEXT else 0 for column in relation.columns}
            if relation.unit is not None and relation.ownership is not None and relation.unit not in made:
                made[relation.unit] = LONGEST_OWNER if relation.ownership.type == TEXT else 0
            made |= {scaled.id: 0 for scaled in relation.scaled}
            return made if relation.weight is None else made | {relation.weight: 0}
        case Values():
            columns = zip(*relation.rows, strict=True) if relation.rows else [() for _ in relation.columns]
            return {
                column.id: max((len(value) for value in values if isinstance(value, str)), default=0)
                for column, values in zip(relation.columns, columns, strict=True)
            }
        case Project():
            return {column.id: cost(column.expression, given).longest for column in relation.columns}
        case Aggregate():
            keys = {id: given[id] for id in relation.group_by}
            return keys | {column.id: of_aggregate(column, given).longest for column in relation.aggregates}
        case Window():
            return given | {
                column.id: max((cost(part, given).longest for part in column.arguments), default=0)
                if column.type == TEXT
                else 0
                for column in relation.columns
            }
        case SetOperation():
            return {column.id: max(given[column.left], given[column.right]) for column in relation.columns}
        case Filter() | Join() | Sort() | Limit():
            return given
        case Released():
            raise Unbounded("a released table cannot be joined with private rows")
        case _:
            assert_never(relation)
