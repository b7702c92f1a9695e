"""Constant moments in the forms that tools write: TO_TIMESTAMP with a format, time zones of no offset.

Timestamps here have no time zone and are read as UTC, so that a constant in UTC is the constant without its zone.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpquery.plan.expr import Expression, Literal
from dpquery.plan.types import DATE, TEXT, TIMESTAMP

_UTC = re.compile(r"(?:\s*(?:[zZ]|[+-]00(?::?00)?)|\s+(?:UTC|GMT|utc|gmt))$")
_ZONES = ("utc", "gmt", "etc/utc", "etc/gmt", "z", "zulu", "+00", "+00:00")
_FORMAT = re.compile(r"(?:%[YmdHMSfjyIp]|[-/: .,T])*")


def constant_moment(node: exp.Expression) -> exp.Expression:
    """Returns a constant moment as a cast of its ISO form; other nodes as they are."""
    made = _constant(node)
    if made is None:
        return node
    for part in made.walk():
        part.meta.update(node.this.meta)
    made.parent = node.parent
    return made


def _constant(node: exp.Expression) -> exp.Expression | None:
    match node:
        case exp.StrToTime() | exp.StrToDate() if _carries(node, "this", "format", "safe"):
            text, form = node.this, node.args.get("format")
            if _is_text(text) and isinstance(form, exp.Literal) and _is_text(form):
                moment = _parsed(text.name, form.name)
                if moment is not None:
                    shown = moment.date().isoformat() if isinstance(node, exp.StrToDate) else moment.isoformat(sep=" ")
                    return _cast(exp.Literal.string(shown), "date" if isinstance(node, exp.StrToDate) else "timestamp")
        case exp.Cast() if _is_timestamptz(node.args["to"]) and _carries(node, "this", "to"):
            if not _is_text(node.this):
                return _cast(node.this.copy(), "timestamp")
            return _cast(exp.Literal.string(_UTC.sub("", node.this.name)), "timestamp")
        case exp.Cast() if node.args["to"].this is exp.DataType.Type.TIMESTAMP and _is_text(node.this):
            if _carries(node, "this", "to") and _UTC.search(node.this.name) and ":" in node.this.name:
                return _cast(exp.Literal.string(_UTC.sub("", node.this.name)), "timestamp")
        case exp.AtTimeZone() if _carries(node, "this", "zone") and node.args["zone"].name.lower() in _ZONES:
            return exp.Paren(this=node.this.copy()) if _is_text(node.args["zone"]) else None
    return None


def without_zones(arguments: Sequence[Expression]) -> list[Expression]:
    """Returns the arguments of a comparison with dates, text constants in UTC among them without their zone."""
    if not any(argument.type in (DATE, TIMESTAMP) for argument in arguments):
        return list(arguments)
    return [
        replace(one, value=_UTC.sub("", one.value))
        if isinstance(one, Literal) and one.type == TEXT and isinstance(one.value, str) and ":" in one.value
        else one
        for one in arguments
    ]


def _carries(node: exp.Expression, *keys: str) -> bool:
    return all(name in keys or value in (None, False, []) for name, value in node.args.items())


def _is_text(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _is_timestamptz(node: exp.Expression) -> bool:
    return node.this is exp.DataType.Type.TIMESTAMPTZ and not node.expressions


def _parsed(text: str, form: str) -> datetime.datetime | None:
    """Returns the moment that a text in a format names; formats of digits and signs alone."""
    if _FORMAT.fullmatch(form) is None:
        return None
    try:
        return datetime.datetime.strptime(text, form)
    except ValueError:
        return None


def _cast(node: exp.Expression, to: str) -> exp.Expression:
    return exp.Cast(this=node, to=exp.DataType.build(to))
