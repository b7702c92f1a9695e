"""Expressions that are one-to-one: different values of the column they read give different results."""

from __future__ import annotations

from dpquery.plan.definitions import definition
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal, columns_of, substitute
from dpquery.plan.logical import Relation
from dpquery.plan.types import Kind

_CASTS = {
    Kind.INT64: (Kind.TEXT, Kind.DECIMAL, Kind.FLOAT64),
    Kind.DECIMAL: (Kind.TEXT,),
    Kind.DATE: (Kind.TEXT, Kind.TIMESTAMP),
    Kind.TIMESTAMP: (Kind.TEXT,),
    Kind.BOOLEAN: (Kind.TEXT, Kind.INT64),
}
_WITH_CONSTANTS = ("add", "subtract", "concat", "concat_without_nulls", "coalesce", "add_days", "add_microseconds")
"""One-to-one in the only argument that is not a constant."""


def column_behind(expression: Expression) -> Column | None:
    """Returns the column of which the expression is a one-to-one function, as CAST(id AS text), id + 1 and -id are.

    Results of overflows and of a constant that stands for NULL are not looked at: COALESCE(id, -1) is one-to-one.
    """
    match expression:
        case Column():
            return expression
        case Cast():
            fits = expression.type.kind in _CASTS.get(expression.argument.type.kind, ())
            return column_behind(expression.argument) if fits else None
        case Call():
            varying = [part for part in expression.arguments if any(True for _ in columns_of(part))]
            if len(varying) != 1 or not _keeps_apart(expression, varying[0]):
                return None
            return column_behind(varying[0])
        case _:
            return None


def _keeps_apart(call: Call, varying: Expression) -> bool:
    """Whether different values of the one argument that varies give different results."""
    constants = [part.value for part in call.arguments if isinstance(part, Literal)]
    if len(constants) != len(call.arguments) - 1:
        return False
    if call.function == "coalesce":
        return call.arguments[0] is varying
    if call.function == "multiply":
        return constants[0] not in (None, 0)
    return call.function == "negate" or (call.function in _WITH_CONSTANTS and None not in constants)


def unit_behind(id: str, relation: Relation, units: frozenset[str]) -> tuple[str, Expression] | None:
    """Returns the unit's column of a relation that a column of it is a one-to-one function of, and that function.

    Args:
        units: The columns of the relation that hold the privacy unit.
    Returns:
        (the unit's column, the column as an expression over it), or None.
    """
    meaning, _ = definition(id, relation)
    behind = column_behind(meaning)
    if behind is None:
        return None
    for unit in sorted(units):
        if definition(unit, relation)[0] == behind:
            return unit, substitute(meaning, {behind.id: Column(id=unit, type=behind.type)})
    return None
