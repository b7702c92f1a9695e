"""Totals as sums of two parts: rows where a condition is true, and all others, which are paid for in parallel.

A share is a number of rows by that of all rows. Measured as such, each gets its part of the loss; measured as the rows
that have the property and those that have it not, each gets the whole, for no row is in both (docs/proofs/disjoint.md).
So the part has half the noise, and the total, which is their sum, less than before too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpquery.kernel.plan import Count, Measure
from dpquery.plan.expr import Call, Expression, conjuncts
from dpquery.plan.functions import call

ADDED_UP = (Count.ROWS, Count.VALUES, Count.SUM)
"""What is a plain sum over rows: that of all rows is that of the rows of two parts."""

_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """A measure that is the sum of two others: `part`, and the same over the rows that pass `rest`."""

    total: Measure
    part: Measure
    rest: Expression


def halves(
    measures: Sequence[Measure], inputs: Mapping[str, Expression], is_nullable: Callable[[Expression], bool]
) -> list[Halves]:
    """Returns which measures are better measured in two parts, of which one is measured in any case, or both.

    A total of which several other parts are measured stays one number.

    Args:
        inputs: What each column is that measures read, over the source.
        is_nullable: Whether a condition may be NULL.
    """
    found: list[Halves] = []
    left = list(measures)
    for total in sorted(measures, key=lambda one: -len(_parts(one, inputs))):
        within = [(part, condition) for part in left if (condition := _within(part, total, inputs)) is not None]
        filters = {same_rows(inputs[part.filter]) for part, _ in within if part.filter is not None}
        made = []
        for part, condition in within:
            is_counted = total.value is not None and repr(inputs[total.value]) == repr(condition)
            others = opposites(condition, nullable=is_nullable(condition) and not is_counted)
            rests = [all_of([*_parts(total, inputs), other]) for other in others]
            known = next((rest for rest in rests if same_rows(rest) in filters), None)
            made.append((known is not None, Halves(total=total, part=part, rest=known or rests[0])))
        both = [one for is_measured, one in made if is_measured]
        if both or len(made) == 1:
            found.append(both[0] if both else made[0][1])
            left.remove(total)
    return found


def same_rows(condition: Expression) -> str:
    """Returns a text that only conditions of equal parts have; 0.0 and -0.0 are equal, and functions may tell them
    apart."""
    return repr(sorted(map(repr, conjuncts(condition))))


def _within(part: Measure, total: Measure, inputs: Mapping[str, Expression]) -> Expression | None:
    """Returns what is true of the rows of a total that a part adds up; None where it is no part."""
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


def _parts(measure: Measure, inputs: Mapping[str, Expression]) -> list[Expression]:
    return [] if measure.filter is None else conjuncts(inputs[measure.filter])


def all_of(conditions: Sequence[Expression]) -> Expression:
    """Returns the condition that is true where all of some are, of which there is one at least."""
    return conditions[0] if len(conditions) == 1 else call("and", tuple(conditions))
