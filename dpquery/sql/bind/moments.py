"""Constant moments in the forms that tools write: TO_TIMESTAMP with a format, time zones of no offset.

Timestamps here are what the wall clock of a zone shows: of the one that the catalog declares for all its columns. A
constant with a zone is an instant, and becomes what that clock shows then. Where the clock shows it twice, comparisons
with it would be wrong, and it is left as it is: the cast to a timestamp refuses it. Where no column declares a zone,
constants in UTC lose theirs, and where columns differ in it no constant with a zone is read.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from dpquery.errors import QueryError
from dpquery.plan import functions
from dpquery.plan.expr import Expression, Literal
from dpquery.plan.types import DATE, INT64, TEXT, TIMESTAMP
from dpquery.plan.zones import UTC, is_shown_twice, wall_clock
from dpquery.sql.bind.scope import Context
from dpquery.sql.names.date_formats import FORMATS, Made, format_of, is_to_char
from dpquery.sql.parse.lists import is_text
from dpquery.sql.parse.parse import span_of

_UTC = re.compile(r"(?:\s*(?:[zZ]|[+-]00(?::?00)?)|\s+(?:UTC|GMT|utc|gmt))$")
_OFFSET = re.compile(r"\s*([+-])([01][0-9])(?::?([0-5][0-9]))?$")
_ZONES = ("utc", "gmt", "etc/utc", "etc/gmt", "z", "zulu", "+00", "+00:00")
_LONGEST_NAME = len("September")
_FORMAT = re.compile(r"(?:%[YmdHMSfjyIp]|[-/: .,T])*")


def constant_moment(node: exp.Expression, zone: str | None) -> exp.Expression:
    """Returns a constant moment as a cast of its ISO form; other nodes as they are.

    Args:
        zone: That of the catalog: "" where no column declares one, None where they differ.
    """
    made = _constant(node, zone)
    if made is None:
        return node
    for part in made.walk():
        part.meta.update(node.this.meta)
    made.parent = node.parent
    return made


def _constant(node: exp.Expression, zone: str | None) -> exp.Expression | None:
    match node:
        case exp.StrToTime() | exp.StrToDate() if _carries(node, "this", "format", "safe"):
            text, form = node.this, node.args.get("format")
            if is_text(text) and isinstance(form, exp.Literal) and is_text(form):
                moment = _parsed(text.name, form.name)
                if moment is not None:
                    shown = moment.date().isoformat() if isinstance(node, exp.StrToDate) else moment.isoformat(sep=" ")
                    return _cast(exp.Literal.string(shown), "date" if isinstance(node, exp.StrToDate) else "timestamp")
        case exp.Cast() if _is_timestamptz(node.args["to"]) and _carries(node, "this", "to"):
            if not is_text(node.this):
                return _cast(node.this.copy(), "timestamp")
            return _cast(exp.Literal.string(_on_the_clock(node.this.name, zone)), "timestamp")
        case exp.Cast() if node.args["to"].this is exp.DataType.Type.TIMESTAMP and is_text(node.this):
            in_utc = zone in ("", UTC) and _UTC.search(node.this.name)
            if _carries(node, "this", "to") and in_utc and ":" in node.this.name:
                return _cast(exp.Literal.string(_UTC.sub("", node.this.name)), "timestamp")
        case exp.AtTimeZone() if _carries(node, "this", "zone") and is_text(node.args["zone"]):
            said = node.args["zone"].name
            if said == zone or (zone in ("", UTC) and said.lower() in _ZONES):
                return exp.Paren(this=node.this.copy())  # between instants and this very clock nothing changes
    return None


def _on_the_clock(text: str, zone: str | None) -> str:
    """Returns the text of a moment without its zone, as the clock of the catalog's zone shows it; as it is if it has
    none, or cannot be shown."""
    in_utc, offset = _UTC.search(text), _OFFSET.search(text)
    if ":" not in text or zone is None or not (in_utc or (offset and zone)):
        return text
    if zone in ("", UTC) and in_utc:
        return _UTC.sub("", text)
    try:
        moment = datetime.datetime.fromisoformat((_UTC if in_utc else _OFFSET).sub("", text))
    except ValueError:
        return text
    ahead = datetime.timedelta()
    if offset and not in_utc:
        ahead = int(f"{offset[1]}1") * datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
    local = wall_clock(moment.replace(tzinfo=datetime.timezone(ahead)), zone)
    return text if local is None or is_shown_twice(local, zone) else local.isoformat(sep=" ")


def without_zones(arguments: Sequence[Expression], zone: str | None) -> list[Expression]:
    """Returns the arguments of a comparison with dates or timestamps: text constants with a zone among them become what
    the clock of the catalog's zone shows."""
    if not any(argument.type in (DATE, TIMESTAMP) for argument in arguments):
        return list(arguments)
    return [
        replace(one, value=_on_the_clock(one.value, zone))
        if isinstance(one, Literal) and one.type == TEXT and isinstance(one.value, str) and ":" in one.value
        else one
        for one in arguments
    ]


def _carries(node: exp.Expression, *keys: str) -> bool:
    return all(name in keys or value in (None, False, []) for name, value in node.args.items())


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


def zone_refused(node: exp.Expression, context: Context) -> QueryError:
    """Returns the refusal of AT TIME ZONE with another zone than that of the catalog."""
    zone = context.catalog.zone
    if zone is None:
        advice = "Each column is already read in the zone that the catalog declares for it: leave it out."
    elif zone:
        advice = f"Timestamps are read in the zone {zone}: leave it out, or write AT TIME ZONE '{zone}'."
    else:
        advice = "The owner declares it in the catalog, as in {type: timestamp, zone: Europe/Berlin}."
    reason = "a stored timestamp is read in the zone that the catalog declares, and in no other one"
    return context.unsupported(reason, node, advice)


def epoch_refused(node: exp.Expression, context: Context) -> QueryError:
    """Returns the refusal of seconds since 1970, which the wall clock of a zone does not tell."""
    advice = "Declare zone: UTC for the column, or take the difference of two timestamps."
    return context.unsupported("a clock that is set back does not tell the instant", node, advice)


def formatted(
    node: exp.Expression, context: Context, bind: Callable[[exp.Expression], Expression]
) -> Expression | None:
    """Returns TO_CHAR of a date; None for anything else."""
    span = span_of(node, context.text) if is_to_char(node, context.dialect) else None
    if span is None or "'" not in (written := context.text[span.start : span.end]):
        return None
    pieces = format_of(written, context.dialect)
    if not pieces:
        if set("09") & set(written.split("'")[-2]):
            raise context.unsupported("TO_CHAR of a number is not supported", node, "Write ROUND(x, 2).")
        raise context.unsupported("this format of a date is not known", node, FORMATS)
    given = bind(node.this)
    texts = [
        _made(functions.call("format_date", (given, Literal(value=form, type=TEXT))), made) for form, made in pieces
    ]
    whole = texts[0] if len(texts) == 1 else functions.call("concat", texts)
    return replace(whole, span=span)


def _made(text: Expression, made: Made) -> Expression:
    match made:
        case Made.AS_IT_IS:
            return text
        case Made.UPPER | Made.LOWER:
            return functions.call(made.name.lower(), (text,))
        case Made.PADDED:
            return functions.call("rpad", (text, Literal(value=_LONGEST_NAME, type=INT64)))
        case Made.UPPER_PADDED:
            return _made(_made(text, Made.UPPER), Made.PADDED)
        case Made.LOWER_PADDED:
            return _made(_made(text, Made.LOWER), Made.PADDED)
        case Made.WITHOUT_ZEROS:
            return functions.cast(functions.cast(text, INT64), TEXT)
        case _:
            assert_never(made)
