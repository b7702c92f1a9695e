"""Types of a statement's parameters, from what stands beside them; and their values as the engine takes them."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence

from sqlglot import exp

from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.postgres.wire.names import (
    ARRAYS,
    BOOL,
    DATE_OID,
    FLOAT8,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT_OID,
    TIMESTAMP_OID,
)
from dpquery.frontends.postgres.wire.states import INVALID_VALUE, SYNTAX
from dpquery.sql.parse.lists import is_list_place
from dpquery.sql.parse.parameters import MAX_PARAMETERS, Placeholder, number_of

ColumnOid = Callable[[exp.Column], int | None]
"""The OID of a column's type, as far as its name tells."""

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Case)
_TEXTS = (exp.Lower, exp.Upper, exp.Substring, exp.Trim, exp.Concat, exp.DPipe, exp.Replace, exp.TimeToStr)
_TEXT_BESIDE = (exp.Like, exp.ILike, exp.RegexpLike, exp.DPipe, exp.Concat)
_MOMENTS = (exp.DateTrunc, exp.TimestampTrunc, exp.CurrentTimestamp, exp.StrToTime)
_LOGIC = (exp.And, exp.Or, exp.Not, exp.Where, exp.Having)
_SAME = (exp.Paren, exp.Neg, exp.Abs, exp.Min, exp.Max, exp.Sum, exp.Round)

_WORDS = {
    exp.DataType.Type.BOOLEAN: BOOL,
    exp.DataType.Type.SMALLINT: 21,
    exp.DataType.Type.INT: INT4,
    exp.DataType.Type.BIGINT: INT8,
    exp.DataType.Type.FLOAT: 700,
    exp.DataType.Type.DOUBLE: FLOAT8,
    exp.DataType.Type.DECIMAL: NUMERIC,
    exp.DataType.Type.TEXT: TEXT_OID,
    exp.DataType.Type.VARCHAR: 1043,
    exp.DataType.Type.NAME: 19,
    exp.DataType.Type.DATE: DATE_OID,
    exp.DataType.Type.TIME: 1083,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP_OID,
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP_OID,
    exp.DataType.Type.TIMESTAMPTZ: 1184,
    exp.DataType.Type.UUID: 2950,
}

_SYSTEM = {
    "bool": BOOL,
    "int2": 21,
    "int4": INT4,
    "int8": INT8,
    "oid": OID,
    "float4": 700,
    "float8": FLOAT8,
    "numeric": NUMERIC,
    "text": TEXT_OID,
    "varchar": 1043,
    "date": DATE_OID,
    "time": 1083,
    "timestamp": TIMESTAMP_OID,
    "timestamptz": 1184,
    "uuid": 2950,
}
"""Types that are written with their schema."""


def infer(
    tree: exp.Expr, placeholders: Sequence[Placeholder], given: Sequence[int], column_oid: ColumnOid
) -> tuple[int, ...]:
    """Returns the OIDs of the parameters $1, $2, ...: as the client says, else by what they stand beside, else text."""
    numbers = [placeholder.key for placeholder in placeholders]
    for placeholder in placeholders:
        if not isinstance(placeholder.key, int) or not 1 <= placeholder.key <= MAX_PARAMETERS:
            raise Refusal(SYNTAX, "parameters are written $1, $2, ...", position=placeholder.span.start + 1)
    count = max([*(n for n in numbers if isinstance(n, int)), len(given)], default=0)
    found = list(given) + [0] * (count - len(given))
    for node in tree.find_all(exp.Column):
        place = number_of(node)
        key = None if place is None else placeholders[place].key
        if isinstance(key, int) and not found[key - 1]:
            found[key - 1] = _beside(node, tree, column_oid) or 0
    return tuple(oid or TEXT_OID for oid in found)


def _beside(node: exp.Expr, tree: exp.Expr, column_oid: ColumnOid) -> int | None:
    """Returns the OID that the place of a parameter asks for."""
    inside, around = node, node.parent
    while isinstance(around, exp.Paren | exp.Neg | exp.Tuple):
        inside, around = around, around.parent
    match around:
        case exp.Cast():
            return _of_cast(around, tree, column_oid)
        case exp.Limit() | exp.Offset() | exp.Fetch():
            return INT8
        case exp.Any() | exp.All() | exp.Anonymous() if is_list_place(node) and isinstance(around.parent, exp.Binary):
            return ARRAYS.get(_of(around.parent.this, tree, column_oid) or TEXT_OID, ARRAYS[TEXT_OID])
        case None:
            return None
    if isinstance(around, _TEXT_BESIDE):
        return TEXT_OID
    if isinstance(around, (*_COMPARED, *_COMPUTED)):
        others = [part for part in around.iter_expressions() if part is not inside]
        oids = (_of(part, tree, column_oid) for part in others)
        oid = next((oid for oid in oids if oid is not None), None)
        is_moved = isinstance(around, exp.Add | exp.Sub) and oid in (DATE_OID, TIMESTAMP_OID)
        return INT8 if is_moved else oid
    return BOOL if isinstance(around, _LOGIC) else None


def _of(node: exp.Expr, tree: exp.Expr, column_oid: ColumnOid, depth: int = 0) -> int | None:
    """Returns the OID of an expression's type, as far as its form tells."""
    if depth > 20:
        return None
    match node:
        case exp.Column():
            if number_of(node) is not None:
                return None
            return column_oid(node) or _of_alias(node, tree, column_oid, depth)
        case exp.Cast():
            return _of_type(node.args["to"])
        case exp.Literal():
            return TEXT_OID if node.is_string else INT8 if node.name.isdigit() else NUMERIC
        case exp.Boolean():
            return BOOL
        case exp.Count() | exp.CountIf() | exp.Extract() | exp.Length():
            return INT8
        case exp.Avg() | exp.Stddev() | exp.Variance():
            return FLOAT8
        case exp.CurrentDate() | exp.StrToDate():
            return DATE_OID
        case exp.Case():
            return next(
                (oid for part in node.args["ifs"] if (oid := _of(part.args["true"], tree, column_oid, depth + 1))), None
            )
    if isinstance(node, _MOMENTS):
        return TIMESTAMP_OID
    if isinstance(node, _TEXTS):
        return TEXT_OID
    if isinstance(node, (*_COMPUTED, *_SAME)):
        oids = (_of(part, tree, column_oid, depth + 1) for part in node.iter_expressions())
        return next((oid for oid in oids if oid is not None), None)
    return None


def _of_alias(node: exp.Column, tree: exp.Expr, column_oid: ColumnOid, depth: int) -> int | None:
    """Returns the OID of what stands under a name that the query itself gives."""
    for alias in tree.find_all(exp.Alias):
        if alias.alias.casefold() == node.name.casefold():
            inner = alias.this
            if not (isinstance(inner, exp.Column) and inner.name.casefold() == node.name.casefold()):
                return _of(inner, tree, column_oid, depth + 1)
    return None


def _of_cast(cast: exp.Cast, tree: exp.Expr, column_oid: ColumnOid) -> int | None:
    """Returns the OID of what is cast; a list of OIDs is parsed as one of integers, what it is held against tells."""
    oid, around = _of_type(cast.args["to"]), cast.parent
    while isinstance(around, exp.Paren | exp.Any | exp.All):
        around = around.parent
    if oid == ARRAYS[INT4] and isinstance(around, exp.Binary) and _of(around.this, tree, column_oid) == OID:
        return ARRAYS[OID]
    return oid


def _of_type(node: exp.Expr) -> int | None:
    if isinstance(node, exp.ObjectIdentifier):
        return OID if node.name.upper() == "OID" else None
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and isinstance(kind.this, exp.Identifier) and kind.this.name == "pg_catalog":
        return _SYSTEM.get(kind.expression.name)
    if node.this is exp.DataType.Type.ARRAY:
        inner = node.expressions[0] if node.expressions else None
        element = _of_type(inner) if isinstance(inner, exp.DataType) else None
        return ARRAYS.get(element or TEXT_OID)
    return _WORDS.get(node.this)


def values_of(given: Sequence[object]) -> list[object]:
    """Returns parameters as the engine takes them: times with a zone in UTC, identifiers as texts."""
    return [_value(value) for value in given]


def _value(value: object) -> object:
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC)
        case datetime.time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case list() | tuple():
            return [_value(part) for part in value]
        case bytes() | bytearray() | memoryview():
            raise Refusal(INVALID_VALUE, "values of type bytea are not supported")
    return value
