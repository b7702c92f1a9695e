"""Totals as sums of parts: rows where a condition is true, and all others, which are paid for in parallel.

A share is a number of rows by that of all rows. Measured as such, each gets its part of the loss; measured as the rows
that have the property and those that have it not, each gets the whole, for no row is in both (docs/proofs/disjoint.md).
So the part has half the noise, and the total, which is their sum, less than before too. Of two properties the rows with
both, either and neither are cells: each has the whole loss, in place of a third of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpquery.kernel.plan import Count, Measure
from dpquery.plan.expr import Call, Expression, conjuncts
from dpquery.plan.functions import call
from dpquery.units.disjoint import disjoint

Inputs = Mapping[str, Expression]

ADDED_UP = (Count.ROWS, Count.VALUES, Count.SUM)
"""What is a plain sum over rows: that of all rows is that of the rows of two parts."""

_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A measure that is the sum of others: of the same as `like`, over each of these filters, of which no row passes
    two."""

    total: Measure
    like: Measure
    filters: tuple[Expression, ...]


def cells(
    measures: Sequence[Measure],
    inputs: Inputs,
    is_nullable: Callable[[Expression], bool],
    *,
    several: bool,
) -> list[Cells]:
    """Returns which measures are better measured in parts: a total as one part that is measured in any case, or two,
    and the rest; and a total and two parts of it, where they are all, as the cells that both make up.

    A total of which more parts are measured stays one number.

    Args:
        inputs: What each column is that measures read, over the source.
        is_nullable: Whether a condition may be NULL.
        several: Whether two parts make up cells, of which Laplace noise lets no number have more than before.
    """
    found: list[Cells] = []
    left = list(measures)
    for total in sorted(measures, key=lambda one: -len(_parts(one, inputs))):
        within = [(part, condition) for part in left if (condition := _within(part, total, inputs)) is not None]
        filters = {same_rows(inputs[part.filter]) for part, _ in within if part.filter is not None}
        made, rest_of = [], []
        for part, condition in within:
            is_counted = total.value is not None and repr(inputs[total.value]) == repr(condition)
            others = opposites(condition, nullable=is_nullable(condition) and not is_counted)
            rests = [all_of([*_parts(total, inputs), other]) for other in others]
            known = next((rest for rest in rests if same_rows(rest) in filters), None)
            halves = (inputs[part.filter or ""], known or rests[0])
            made.append((known is not None, Cells(total=total, like=part, filters=halves)))
            rest_of.append((condition, others[0]))
        both = [one for is_measured, one in made if is_measured]
        chosen: list[Cells] = []
        if both or len(made) == 1:
            chosen = [both[0] if both else made[0][1]]
        elif several and len(made) == 2 and len(measures) == 3:
            chosen = _of_two(total, [part for part, _ in within], rest_of, inputs)
        for one in chosen:
            found.append(one)
            left.remove(one.total)
    return found


def _of_two(
    total: Measure, parts: Sequence[Measure], rests: Sequence[tuple[Expression, Expression]], inputs: Inputs
) -> list[Cells]:
    """Returns a total as two parts that share no row and the rest; or it and both parts as four cells."""
    one, other = (inputs[part.filter or ""] for part in parts)
    (a, not_a), (b, not_b) = rests
    within = _parts(total, inputs)
    if any(part.count is not total.count for part in parts):
        return []
    if disjoint(one, other):
        return [Cells(total=total, like=parts[0], filters=(one, other, all_of([*within, not_a, not_b])))]
    each = tuple(all_of([*within, x, y]) for x in (a, not_a) for y in (b, not_b))
    ways = ((total, each), (parts[0], each[:2]), (parts[1], each[::2]))
    return [Cells(total=whole, like=parts[0], filters=filters) for whole, filters in ways]


def same_rows(condition: Expression) -> str:
    """Returns a text that only conditions of equal parts have; 0.0 and -0.0 are equal, and functions may tell them
    apart."""
    return repr(sorted(map(repr, conjuncts(condition))))


def _within(part: Measure, total: Measure, inputs: Inputs) -> Expression | None:
    """Returns what is true of the rows of a total that a part adds up; None where it is not a part of it."""
    if part.id == total.id or total.count not in ADDED_UP:
        return None
    of_all = {repr(condition) for condition in _parts(total, inputs)}
    more = [condition for condition in _parts(part, inputs) if repr(condition) not in of_all]
    if len(more) + len(of_all) != len(_parts(part, inputs)) or not more:
        return None
    if total.count is Count.VALUES and part.count is Count.ROWS:  # of a boolean: rows where it is true
        return more[0] if [*map(repr, more)] == [repr(inputs[total.value or ""])] else None
    one, other = ((m.count, m.value, m.lattice, m.total) for m in (part, total))
    return all_of(more) if one == other else None


def opposites(condition: Expression, *, nullable: bool) -> list[Expression]:
    """Returns conditions that are true of all rows of which another one is not true, each written otherwise.

    Args:
        nullable: Whether rows count in which that one is NULL.
    """
    if nullable:
        return [call("is_not_true", (condition,))]
    if isinstance(condition, Call) and condition.function == "not":
        return [condition.arguments[0]]
    found: list[Expression] = [call(by, (condition,)) for by in ("not", "is_false", "is_not_true")]
    if isinstance(condition, Call) and condition.function in _NEGATED:
        found.append(call(_NEGATED[condition.function], condition.arguments))
    return found


def _parts(measure: Measure, inputs: Inputs) -> list[Expression]:
    return [] if measure.filter is None else conjuncts(inputs[measure.filter])


def all_of(conditions: Sequence[Expression]) -> Expression:
    """Returns the condition that is true where all of some are, of which there is one at least."""
    return conditions[0] if len(conditions) == 1 else call("and", tuple(conditions))


def sum_of(parts: Sequence[Expression]) -> Expression:
    """Returns the sum of some expressions, of which there is one at least."""
    return parts[0] if len(parts) == 1 else call("add", (sum_of(parts[:-1]), parts[-1]))
