"""What an analyst wants to know: the numbers that an answer shows, as expressions over what is measured.

The loss is split for their sake (planner/budget/budget_split.py). A number that is computed from several others above
the boundary, by an aggregate or a window, stands for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.accuracy.counting import Halved
from dpquery.errors import InvalidLossError
from dpquery.plan.expr import Column, Expression, columns_of, size_of, substitute
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

if TYPE_CHECKING:
    from dpquery.planner.protect.protect import PrivatePlan

LARGEST = 2000
"""Parts of an expression; a number of more parts stands for the columns that it is computed from."""
MOST = 100
"""Numbers that one column stands for."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What a column stands for, over columns of released and public tables.

    Attributes:
        numbers: These numbers.
        is_itself: Whether the column is one of them in each row, and not computed from several rows.
    """

    numbers: tuple[Expression, ...]
    is_itself: bool


Meanings = dict[str, Meant]
UNKNOWN = Meant((), False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One number whose error counts.

    Attributes:
        name: The answer's column, or "" for what is measured and not shown.
        expression: The number, over the ids of measures of released tables, and columns of public ones.
        weight: How much its error counts.
        is_itself: Whether the column is this number, in the rows that it is asked for.
        halved: Totals that are measured in two parts.
    """

    name: str
    expression: Expression
    weight: Fraction
    is_itself: bool = True
    halved: tuple[Halved, ...] = ()


def aims_of(private: PrivatePlan, weights: Mapping[str, Fraction]) -> tuple[Aim, ...]:
    """Returns the noisy numbers of an answer; those added up read the table they are added up from."""
    measured = {measure.id for aggregate in private.aggregates for measure in aggregate.measures}
    own = {
        mine.id: theirs.id
        for one in private.added
        for mine, theirs in zip(one.aggregate.measures, private.aggregates[one.leaf].measures, strict=True)
    }
    meanings = _meanings(private.result)
    halved = tuple(one for grouping in private.groupings for one in grouping.halved)
    found = []
    for column in output(private.result):
        meant = meanings.get(column.id, UNKNOWN)
        numbers = dict.fromkeys([_own(expression, own) if own else expression for expression in meant.numbers])
        noisy = [e for e in numbers if any(read.id in measured for read in columns_of(e))]
        weight = weights.get(column.name, Fraction(1))
        found += [
            Aim(name=column.name, expression=number, weight=weight, is_itself=meant.is_itself, halved=halved)
            for number in noisy
        ]
    return tuple(found)


def check_names(given: Iterable[str], noisy: set[str], what: str) -> None:
    """Raises InvalidLossError where a name is not that of a noisy column."""
    unknown = sorted(set(given) - noisy)
    if unknown:
        listed = ", ".join(sorted(noisy)) or "there are none"
        raise InvalidLossError(
            f"{unknown[0]!r} has a {what} and is not a noisy column of the answer",
            advice=f"Noisy columns of the answer: {listed}.",
        )


def _own(expression: Expression, ids: Mapping[str, str]) -> Expression:
    read = {column.id: column for column in columns_of(expression) if column.id in ids}
    replaced: dict[str, Expression] = {id: replace(column, id=ids[id]) for id, column in read.items()}
    return substitute(expression, replaced) if replaced else expression


def _meanings(relation: Relation) -> Meanings:
    match relation:
        case Released() | Scan() | Values():
            return {c.id: Meant((Column(id=c.id, type=c.type),), True) for c in output(relation)}
        case Filter() | Sort() | Limit():
            return _meanings(relation.source)
        case Project():
            known = _meanings(relation.source)
            return {column.id: _meant(column.expression, known) for column in relation.columns}
        case Window():
            known = _meanings(relation.source)
            return known | {w.id: _together(w.arguments, known) for w in relation.columns}
        case Aggregate():
            known = _meanings(relation.source)
            kept = {id: known[id] for id in relation.group_by if id in known}
            parts = ((a.id, [p for p in (a.argument, a.second) if p is not None]) for a in relation.aggregates)
            return kept | {id: _together(arguments, known) for id, arguments in parts}
        case SetOperation():
            left, right = _meanings(relation.left), _meanings(relation.right)
            by_row = relation.kind == "union_all"
            return {c.id: _either(left[c.left], right[c.right], by_row) for c in relation.columns}
        case Join():
            return {id: meant for side in sources(relation) for id, meant in _meanings(side).items()}


def _meant(expression: Expression, known: Meanings) -> Meant:
    if isinstance(expression, Column):
        return known.get(expression.id, UNKNOWN)
    read = {column.id: known.get(column.id, UNKNOWN) for column in columns_of(expression)}
    if all(len(meant.numbers) == 1 for meant in read.values()):
        numbers = {id: meant.numbers[0] for id, meant in read.items()}
        others = {id: n for id, n in numbers.items() if not isinstance(n, Column) or n.id != id}
        made = substitute(expression, others) if others else expression
        if size_of(made) <= LARGEST:
            return Meant((made,), all(meant.is_itself for meant in read.values()))
    return Meant(_distinct(number for meant in read.values() for number in meant.numbers), False)


def _together(arguments: Iterable[Expression], known: Meanings) -> Meant:
    return Meant(_distinct(n for argument in arguments for n in _meant(argument, known).numbers), False)


def _either(left: Meant, right: Meant, by_row: bool) -> Meant:
    return Meant(_distinct((*left.numbers, *right.numbers)), by_row and left.is_itself and right.is_itself)


def _distinct(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys(expressions))[:MOST]
