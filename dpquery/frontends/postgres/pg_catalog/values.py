"""Values that PostgreSQL shows in another way than the engine that emulates it: names of functions, numbers, bytes."""

from __future__ import annotations

import re

from sqlglot import exp

MOST_DIGITS = 38
USUAL_SCALE = 10
_PROCEDURES = {"typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze", "typsubscript"}
_NUMBER = re.compile(r"\s*[+-]?(\d*)(?:\.(\d*))?\s*")
_BYTES = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")


def is_procedure(node: exp.Expr) -> bool:
    """Whether a node is a column of the type regproc, which holds OIDs and is shown as names."""
    return isinstance(node, exp.Column) and node.name.lower() in _PROCEDURES


def is_shown(node: exp.Expr) -> bool:
    """Whether a node is an item of the outermost SELECT."""
    around = node.parent
    if isinstance(around, exp.Alias):
        around = around.parent
    return isinstance(around, exp.Select) and around.parent is None and node.arg_key in ("this", "expressions")


def number_cast(node: exp.Cast) -> exp.Expr | None:
    """Gives a cast to NUMERIC without digits enough of them for what it casts: the engine's own default has three."""
    if node.args["to"].expressions:
        return None
    inner, scale = node.this, USUAL_SCALE
    while isinstance(inner, exp.Neg | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Cast) and str(inner.args["to"].this.value).upper() == "DECIMAL":
        return node.this if inner is node.this else None
    if isinstance(inner, exp.Literal) and (digits := _NUMBER.fullmatch(inner.name)) is not None:
        scale = min(len(digits[2] or ""), MOST_DIGITS - 1)
    node.set("to", exp.DataType.build(f"DECIMAL({MOST_DIGITS}, {scale})", dialect="duckdb"))
    return None


def bytes_cast(node: exp.Cast) -> exp.Expr | None:
    """Returns the bytes that stand in PostgreSQL's hexadecimal form."""
    if isinstance(node.this, exp.Literal) and node.this.is_string and (found := _BYTES.fullmatch(node.this.name)):
        return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(found[1])])
    return None


VALUE_CASTS = {"decimal": number_cast, "varbinary": bytes_cast}
"""By the word for a type."""


def name_columns(tree: exp.Expr) -> None:
    """Gives each item of each SELECT, and each column of VALUES, the name that PostgreSQL gives it."""
    for values in tree.find_all(exp.Values):
        alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("*VALUES*", quoted=True))
        if not alias.args.get("columns") and isinstance(values.parent, exp.From | exp.Join):
            width = len(values.expressions[0].expressions) if values.expressions else 0
            alias.set("columns", [exp.to_identifier(f"column{i}") for i in range(1, width + 1)])
            values.set("alias", alias)
    for select in list(tree.find_all(exp.Select)):
        select.set("expressions", [_as_named(item) for item in select.expressions])


def _as_named(item: exp.Expr) -> exp.Expr:
    is_star = isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star)
    is_named = is_star or isinstance(item, exp.Alias | exp.Column | exp.Star)
    return item if is_named else exp.alias_(item, default_name(item), quoted=True, copy=False)


def default_name(node: exp.Expr) -> str:
    """Returns the name that PostgreSQL gives to an unnamed item of a SELECT."""
    return _figured(node)[0]


def _figured(node: exp.Expr) -> tuple[str, int]:
    """Returns a name and how good it is: 2 for names of columns and functions, 1 for names of types, 0 for none."""
    match node:
        case exp.Column() | exp.Identifier():
            return node.name, 2
        case exp.Paren() | exp.Filter() | exp.Window() | exp.Collate():
            return _figured(node.this)
        case exp.Dot():
            return _figured(node.expression)
        case exp.Subquery() if isinstance(node.this, exp.Select) and len(node.this.expressions) == 1:
            (only,) = node.this.expressions
            return (only.alias, 2) if isinstance(only, exp.Alias) else _figured(only)
        case exp.Cast():
            name, strength = _figured(node.this)
            return (name, strength) if strength > 1 else (_type_name(node.args["to"]), 1)
        case exp.Case():
            default = node.args.get("default")
            name, strength = ("", 0) if default is None else _figured(default)
            return (name, strength) if strength > 1 else ("case", 1)
        case exp.Boolean():
            return "bool", 1
        case exp.Array():
            return "array", 2
        case exp.Exists():
            return "exists", 2
        case exp.Anonymous():
            return str(node.this).lower(), 2
        case exp.CurrentTimestamp():
            return str(node.meta.get("name", "current_timestamp")), 2
        case exp.Func() if not isinstance(node, exp.Connector | exp.Binary):
            name = node.sql_name().lower()
            return _FUNCTION_NAMES.get(name, name), 2
    return "?column?", 0


_FUNCTION_NAMES = {"str_position": "strpos", "group_concat": "string_agg", "current_version": "version"}
_TYPE_NAMES = {"int": "int4", "bigint": "int8", "smallint": "int2", "boolean": "bool", "decimal": "numeric"}


def _type_name(node: exp.Expr) -> str:
    is_list = isinstance(node, exp.DataType) and node.this is exp.DataType.Type.ARRAY and node.expressions
    name = type_word(node.expressions[0] if is_list else node)
    return _TYPE_NAMES.get(name, name)


def type_word(node: exp.Expr) -> str:
    """Returns a type's name in small letters, without its schema."""
    if isinstance(node, exp.DataType) and node.this is exp.DataType.Type.USERDEFINED:
        kind = node.args.get("kind")
        return str(kind.name if isinstance(kind, exp.Expression) else kind or "").lower().split(".")[-1]
    this = node.this
    return str(getattr(this, "value", this)).lower()
