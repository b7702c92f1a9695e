"""Aggregates whose value the declarations tell, so that nothing is measured for them."""

from __future__ import annotations

from dpquery.plan.aggregates.aggregate import AggregateFunction
from dpquery.plan.aggregates.choices import MAX
from dpquery.plan.expr import Call, Case, Column, Expression, Literal
from dpquery.plan.logical import Filter, Join, Project, Relation, Scan
from dpquery.plan.types import INT64
from dpquery.sql.bind.scope import Context, Scope


def certain_value(
    function: AggregateFunction, argument: Expression | None, scope: Scope, context: Context
) -> Literal | None:
    """Returns 0 for `MAX(CASE WHEN x IS NULL THEN 1 ELSE 0 END)` where x is declared to hold no NULL, else None.

    Tools add it to COUNT(DISTINCT x), to count NULL as one more value.
    """
    if function is not MAX or not isinstance(argument, Case) or len(argument.branches) != 1:
        return None
    ((condition, found),) = argument.branches
    is_flag = _is(found, 1) and _is(argument.otherwise, 0)
    if not is_flag or not isinstance(condition, Call) or condition.function != "is_null":
        return None
    (tested,) = condition.arguments
    if isinstance(tested, Column) and _is_never_null(tested.id, scope.relation, context):
        return Literal(value=0, type=INT64, span=argument.span)
    return None


def _is(node: Expression, number: int) -> bool:
    return isinstance(node, Literal) and type(node.value) is int and node.value == number


def _is_never_null(id: str, relation: Relation, context: Context) -> bool:
    """Whether a column is a stored one that is declared to hold no NULL, or the unit's; outer joins make NULLs."""
    match relation:
        case Scan():
            names = [column.name for column in relation.columns if column.id == id]
            declared = context.catalog.tables[relation.table].columns
            return bool(names) and (relation.unit == id or not declared[names[0]].nullable)
        case Filter():
            return _is_never_null(id, relation.source, context)
        case Project():
            made = next((column.expression for column in relation.columns if column.id == id), None)
            return isinstance(made, Column) and _is_never_null(made.id, relation.source, context)
        case Join(kind="inner" | "cross" | "semi" | "anti"):
            return any(_is_never_null(id, side, context) for side in (relation.left, relation.right))
        case _:
            return False
