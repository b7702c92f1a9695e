"""Public keys that the query itself allows: WHERE names them, or rules others out."""

from __future__ import annotations

from functools import lru_cache

from dpquery.kernel.selection import sort_key
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Column, Expression, Literal, children, columns_of, rebuild
from dpquery.plan.types import Value


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
    """Returns the constants that key = ... or key IN (...) names, or None for any other condition."""
    if not isinstance(condition, Call) or condition.function not in ("eq", "in"):
        return None
    parts = list(condition.arguments)
    if condition.function == "eq" and isinstance(parts[0], Literal):
        parts.reverse()
    if not isinstance(parts[0], Column) or not all(isinstance(part, Literal) for part in parts[1:]):
        return None
    return [part.value for part in parts[1:] if isinstance(part, Literal) and part.value is not None]
