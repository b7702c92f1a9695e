"""Values and groups that the query's own conditions leave: what WHERE rules out needs no key."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Column, Expression, Literal, children, columns_of, rebuild
from dpquery.plan.ranges import Range, number_of
from dpquery.plan.types import DATE, TIMESTAMP, Value

_MIRRORED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}

MAX_EVALUATIONS = 200_000
"""Values times conditions that are tried for one stored column; more leave its values as they are declared."""


def passing(leaf: str, values: tuple[Value, ...], conditions: Iterable[Expression]) -> tuple[Value, ...]:
    """Returns the values of a stored column with which a row can fulfil the conditions that read this column alone."""
    alone = tuple(c for c in conditions if {column.id for column in columns_of(c)} == {leaf})
    if not alone or len(values) * len(alone) > MAX_EVALUATIONS:
        return values
    return _passing(leaf, values, alone)


@lru_cache(maxsize=256)
def _passing(leaf: str, values: tuple[Value, ...], conditions: tuple[Expression, ...]) -> tuple[Value, ...]:
    return tuple(value for value in values if all(evaluate(c, {leaf: value}) is True for c in conditions))


def comparison_of(condition: Expression) -> tuple[str, Expression, Expression] | None:
    """Returns ge, gt, le or lt with its sides, a constant on the right if there is one; None for others."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    function, (first, second) = condition.function, condition.arguments
    if isinstance(first, Literal):
        return _MIRRORED[function], second, first
    return function, first, second


def within(leaf: str, known: Range, conditions: Iterable[Expression]) -> Range:
    """Returns the range of a stored column in rows that fulfil the conditions which compare it with constants.

    It only lists values that keys may take: rows outside have no key among them and are dropped in any case.
    """
    lowers = [known.lower] if known.lower is not None else []
    uppers = [known.upper] if known.upper is not None else []
    is_tested = False
    for condition in conditions:
        compared = comparison_of(condition)
        if compared is None:
            continue
        function, first, second = compared
        bound = number_of(second.value) if isinstance(second, Literal) and second.type == first.type else None
        if bound is None or not isinstance(first, Column) or first.id != leaf:
            continue
        is_tested = True
        step = 1 if first.type.is_whole or first.type in (DATE, TIMESTAMP) else 0  # these are whole numbers
        if function in ("ge", "gt"):
            lowers.append(bound + step * (function == "gt"))
        else:
            uppers.append(bound - step * (function == "lt"))
    lower, upper = max(lowers, default=None), min(uppers, default=None)
    if not is_tested or (lower is not None and upper is not None and lower > upper):
        return known
    return Range(lower=lower, upper=upper, nullable=False)


def between_keys(keys: dict[str, Expression], conditions: Iterable[Expression]) -> list[Expression]:
    """Returns the conditions that speak of several grouping columns and nothing else, over these columns.

    Args:
        keys: Each grouping column's id and what it is over stored columns.
        conditions: What every row fulfils, over stored columns.
    """
    columns = {meaning: Column(id=id, type=meaning.type) for id, meaning in keys.items()}
    over = [_over(condition, columns) for condition in conditions]
    read = [{column.id for column in columns_of(condition)} for condition in over]
    return [condition for condition, ids in zip(over, read, strict=True) if len(ids) > 1 and ids <= keys.keys()]


def _over(expression: Expression, columns: dict[Expression, Column]) -> Expression:
    known = columns.get(expression)
    if known is not None:
        return known
    return rebuild(expression, tuple(_over(part, columns) for part in children(expression)))
