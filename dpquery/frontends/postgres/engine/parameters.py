"""Types of a statement's parameters, from what stands beside them; and their values as the engine takes them."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence

from sqlglot import exp

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import INVALID_VALUE, SYNTAX, Refusal
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

_PLAIN = ("boolean", "smallint", "int", "bigint", "decimal", "text", "varchar", "name", "date", "time")
_WORDS = {exp.DataType.Type[word.upper()]: oids.TYPES[word] for word in (*_PLAIN, "timestamp", "timestamptz", "uuid")}
_WORDS[exp.DataType.Type.FLOAT], _WORDS[exp.DataType.Type.DOUBLE] = oids.FLOAT4, oids.FLOAT8
_WORDS[exp.DataType.Type.TIMESTAMPNTZ] = oids.TIMESTAMP
"""By the parser's name of a type."""

_SYSTEM = frozenset(
    {
        *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar"),
        *("date", "time", "timestamp", "timestamptz", "uuid"),
    }
)
"""Types that may be written with their schema."""


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
    return tuple(oid or oids.TEXT for oid in found)


def _beside(node: exp.Expr, tree: exp.Expr, column_oid: ColumnOid) -> int | None:
    """Returns the OID that the place of a parameter asks for."""
    inside, around = node, node.parent
    while isinstance(around, exp.Paren | exp.Neg | exp.Tuple):
        inside, around = around, around.parent
    match around:
        case exp.Cast():
            return _of_cast(around, tree, column_oid)
        case exp.Limit() | exp.Offset() | exp.Fetch():
            return oids.INT8
        case exp.Any() | exp.All() | exp.Anonymous() if is_list_place(node) and isinstance(around.parent, exp.Binary):
            return oids.ARRAYS.get(_of(around.parent.this, tree, column_oid) or oids.TEXT, oids.ARRAYS[oids.TEXT])
        case None:
            return None
    if isinstance(around, _TEXT_BESIDE):
        return oids.TEXT
    if isinstance(around, (*_COMPARED, *_COMPUTED)):
        others = [part for part in around.iter_expressions() if part is not inside]
        oid = next((oid for part in others if (oid := _of(part, tree, column_oid)) is not None), None)
        is_moved = isinstance(around, exp.Add | exp.Sub) and oid in (oids.DATE, oids.TIMESTAMP)
        return oids.INT8 if is_moved else oid
    return oids.BOOL if isinstance(around, _LOGIC) else None


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
            return oids.TEXT if node.is_string else oids.INT8 if node.name.isdigit() else oids.NUMERIC
        case exp.Boolean():
            return oids.BOOL
        case exp.Count() | exp.CountIf() | exp.Extract() | exp.Length():
            return oids.INT8
        case exp.Avg() | exp.Stddev() | exp.Variance():
            return oids.FLOAT8
        case exp.CurrentDate() | exp.StrToDate():
            return oids.DATE
        case exp.Case():
            return next(
                (oid for part in node.args["ifs"] if (oid := _of(part.args["true"], tree, column_oid, depth + 1))), None
            )
    if isinstance(node, _MOMENTS):
        return oids.TIMESTAMP
    if isinstance(node, _TEXTS):
        return oids.TEXT
    if isinstance(node, (*_COMPUTED, *_SAME)):
        found = (_of(part, tree, column_oid, depth + 1) for part in node.iter_expressions())
        return next((oid for oid in found if oid is not None), None)
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
    if (
        oid == oids.ARRAYS[oids.INT4]
        and isinstance(around, exp.Binary)
        and _of(around.this, tree, column_oid) == oids.OID
    ):
        return oids.ARRAYS[oids.OID]
    return oid


def _of_type(node: exp.Expr) -> int | None:
    if isinstance(node, exp.ObjectIdentifier):
        return oids.OID if node.name.upper() == "OID" else None
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and isinstance(kind.this, exp.Identifier) and kind.this.name == "pg_catalog":
        return oids.TYPES.get(kind.expression.name) if kind.expression.name in _SYSTEM else None
    if node.this is exp.DataType.Type.ARRAY:
        inner = node.expressions[0] if node.expressions else None
        element = _of_type(inner) if isinstance(inner, exp.DataType) else None
        return oids.ARRAYS.get(element or oids.TEXT)
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
