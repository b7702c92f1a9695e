"""Public keys that the query itself allows: WHERE names them, or rules others out."""

from __future__ import annotations

import datetime
from functools import lru_cache

from dpquery.kernel.selection import sort_key
from dpquery.plan.evaluate import evaluate, normal
from dpquery.plan.expr import Call, Column, Expression, Literal, children, columns_of, rebuild
from dpquery.plan.ranges import EPOCH, number_of, whole_values
from dpquery.plan.types import DATE, Type, Value
from dpquery.planner.keys.passing import comparison_of

MOST = 10_000
"""Values between two constants that make a domain."""


@lru_cache(maxsize=256)
def narrowed(
    key: Expression, domain: tuple[Value, ...] | None, conditions: tuple[Expression, ...]
) -> tuple[Value, ...] | None:
    """Returns the values of a key that can pass the conditions; without a domain, the ones that WHERE lists.

    Args:
        key: The grouping expression.
        domain: Its public values, or None.
        conditions: What every row fulfils, over the same columns as the key.
    """
    column = Column(id="key", type=key.type)
    over = [_replace(condition, key, column) for condition in conditions]
    alone = [condition for condition in over if {c.id for c in columns_of(condition)} == {"key"}]
    if domain is None:
        listed = [values for condition in alone if (values := _listed(condition)) is not None]
        between = _between(alone, key.type)
        listed += [] if between is None else [between]
        if not listed:
            return None
        shortest = min(listed, key=lambda values: len(values))
        domain = tuple(sorted(dict.fromkeys(shortest), key=sort_key))
    return tuple(value for value in domain if all(evaluate(condition, {"key": value}) is True for condition in alone))


def _replace(expression: Expression, key: Expression, column: Column) -> Expression:
    if expression == key:
        return column
    return rebuild(expression, tuple(_replace(part, key, column) for part in children(expression)))


def _listed(condition: Expression) -> list[Value] | None:
    """Returns the only values for which key = ..., key IN (...), key IS NULL or an OR of these can be true, or None."""
    if not isinstance(condition, Call):
        return None
    parts = list(condition.arguments)
    if condition.function == "or":
        sides = [_listed(part) for part in parts]
        return None if any(side is None for side in sides) else [v for side in sides if side is not None for v in side]
    if condition.function == "eq" and isinstance(parts[0], Literal):
        parts.reverse()
    if condition.function not in ("eq", "in", "is_null") or not isinstance(parts[0], Column):
        return None
    if condition.function == "is_null":
        return [None]
    if not all(isinstance(part, Literal) for part in parts[1:]):
        return None
    return [normal(part.value) for part in parts[1:] if isinstance(part, Literal) and part.value is not None]


def _between(conditions: list[Expression], type: Type) -> list[Value] | None:
    """Returns the whole numbers or days between the constants that bound the key on both sides, or None."""
    if not type.is_whole and type != DATE:
        return None
    lowers: list[int] = []
    uppers: list[int] = []
    for condition in conditions:
        compared = comparison_of(condition)
        if compared is None:
            continue
        function, first, second = compared
        bound = number_of(second.value) if isinstance(second, Literal) else None
        if bound is None or not isinstance(first, Column):
            continue
        if function in ("ge", "gt"):
            lowers.append(int(bound) + (function == "gt"))
        else:
            uppers.append(int(bound) - (function == "lt"))
    if not lowers or not uppers or min(uppers) - max(lowers) >= MOST:
        return None
    numbers = range(max(lowers), min(uppers) + 1)
    if type.is_whole:
        return whole_values(type, numbers)
    return [EPOCH.date() + datetime.timedelta(days=number) for number in numbers]
