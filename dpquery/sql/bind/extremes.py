"""EXISTS with one comparison, as a comparison with the least or greatest value: the inner rows are read once.

`EXISTS (... WHERE i.key = o.key AND i.x > o.x)` holds where the greatest `i.x` of the key is greater. So a row meets
one row, however many the inner side has of its key, and a person's rows cause work that grows with their number.
"""

from __future__ import annotations

from dpquery.plan.aggregates import Function
from dpquery.plan.expr import Call, Column, Expression, columns_of, conjuncts
from dpquery.plan.functions import call
from dpquery.plan.logical import Aggregate, AggregateColumn, Relation, output
from dpquery.plan.types import BOOLEAN
from dpquery.sql.bind.scope import Context

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def with_extremes(
    right: Relation, keys: tuple[Expression, ...], units: frozenset[str], condition: Expression | None, context: Context
) -> tuple[Relation, Expression | None]:
    """Returns the inner side of a semi- or anti-join and its condition, so that one row of it decides if that can be.

    Args:
        right: The inner side.
        keys: What the join equates on that side.
        units: The columns of that side that tell the privacy unit.
        condition: The rest of the join's condition.
    """
    ids = {column.id for column in output(right)}
    named = [key.id for key in keys if isinstance(key, Column)]
    if condition is None or not units or len(named) < len(keys):
        return right, condition
    group_by = tuple(dict.fromkeys([*named, *sorted(units)]))
    parts = conjuncts(condition)
    deciding = [part for part in parts if not _reads(part) & ids <= set(group_by)]
    if len(deciding) != 1 or (found := _comparison(deciding[0], ids)) is None:
        return right, condition
    function, outer, inner = found
    least, most = (Function.MIN,), (Function.MAX,)
    wanted = {"lt": most, "le": most, "gt": least, "ge": least}.get(function, least + most)
    made = tuple(
        AggregateColumn(id=context.fresh(), name="", function=which, argument=inner, filter=None, type=inner.type)
        for which in wanted
    )
    tests = [call(function, (outer, Column(id=column.id, type=column.type))) for column in made]
    test = tests[0] if len(tests) == 1 else call("or", tests)
    whole = [test if part is deciding[0] else part for part in parts]
    grouped = Aggregate(source=right, group_by=group_by, aggregates=made)
    return grouped, whole[0] if len(whole) == 1 else call("and", whole)


def _comparison(condition: Expression, ids: set[str]) -> tuple[str, Expression, Expression] | None:
    """Returns a comparison of the outer query's expression with one over the inner side, in this order, or None."""
    if not isinstance(condition, Call) or condition.function not in _SWAPPED:
        return None
    function, (outer, inner) = condition.function, condition.arguments
    if _reads(outer) & ids:
        function, outer, inner = _SWAPPED[function], inner, outer
    apart = _reads(inner) and _reads(inner) <= ids and not _reads(outer) & ids
    return (function, outer, inner) if apart and inner.type != BOOLEAN else None


def _reads(expression: Expression) -> set[str]:
    return {column.id for column in columns_of(expression)}
