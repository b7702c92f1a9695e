"""SQL's type names and literals to ours."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from dpquery.errors import QuerySyntaxError, UnsupportedQueryError
from dpquery.plan.expr import Literal
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Type, decimal
from dpquery.sql.bind.scope import Context
from dpquery.sql.parse.parse import span_of

_PLAIN = {
    exp.DataType.Type.BOOLEAN: BOOLEAN,
    exp.DataType.Type.TINYINT: INT64,
    exp.DataType.Type.SMALLINT: INT64,
    exp.DataType.Type.INT: INT64,
    exp.DataType.Type.BIGINT: INT64,
    exp.DataType.Type.FLOAT: FLOAT64,
    exp.DataType.Type.DOUBLE: FLOAT64,
    exp.DataType.Type.TEXT: TEXT,
    exp.DataType.Type.VARCHAR: TEXT,
    exp.DataType.Type.DATE: DATE,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP,
    exp.DataType.Type.DATETIME: TIMESTAMP,
}

_FLOATS = (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE)
_BITS = [[bits] for bits in range(1, 54)]
"""What may stand behind FLOAT; all floats have 64 bits here."""


def type_of(node: exp.DataType, context: Context) -> Type:
    """Returns the type that a type name means; unknown names and parameters are refused."""
    parameters = [int(part.name) for part in node.expressions if part.name.isdigit()]
    if len(parameters) == len(node.expressions):
        if node.this is exp.DataType.Type.DECIMAL and len(parameters) in (1, 2):
            precision, scale = parameters[0], parameters[1] if len(parameters) == 2 else 0
            if 1 <= precision <= 38 and scale <= precision:
                return decimal(precision, scale)
        elif node.this is exp.DataType.Type.DECIMAL and not parameters:
            return decimal(38, 9)
        elif node.this in _PLAIN and (not parameters or (node.this in _FLOATS and parameters in _BITS)):
            return _PLAIN[node.this]
    advice = "Types: boolean, bigint, double precision, decimal(p,s), text, date, timestamp."
    raise context.refuse(UnsupportedQueryError, f"type {node.sql()} is not supported", node, advice)


def literal_of(node: exp.Literal, context: Context) -> Literal:
    """Returns a constant: text, or a number in the narrowest of int64, decimal and float64 that holds it exactly."""
    span, text = span_of(node, context.text), node.name
    if node.is_string:
        return Literal(value=text, type=TEXT, span=span)
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise context.refuse(QuerySyntaxError, f"{text[:40]} is not a number", node) from None
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")) or (value == 0.0) is not (number == 0):
            raise context.refuse(QuerySyntaxError, "the number is too large or too small", node)
        return Literal(value=value, type=FLOAT64, span=span)
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    if scale <= 0 and abs(int(number)) < 2**63:
        return Literal(value=int(number), type=INT64, span=span)
    precision = max(len(digits), scale)
    if precision > 38 or scale < 0:
        raise context.refuse(QuerySyntaxError, "the number has more than 38 digits", node)
    return Literal(value=number, type=decimal(precision, scale), span=span)
