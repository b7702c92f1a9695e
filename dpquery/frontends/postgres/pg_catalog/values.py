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
