"""Types and values as owners write them: the declared type says what a value means, and one that does not fit is
refused, never converted by guess.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import assert_never

from dpquery.catalog.names import shown, suggestion, text_fault
from dpquery.catalog.tree import FLAGS, Leaf, Word
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP, Kind, Type, Value, decimal

LARGEST_FLOAT = 1e300  # leaves room for arithmetic on bounds
SIMPLE_TYPES = {
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
    **dict.fromkeys(("int64", "int8", "int16", "int32", "integer", "bigint"), INT64),
    **dict.fromkeys(("float64", "float32", "double"), FLOAT64),
    **dict.fromkeys(("text", "string", "varchar"), TEXT),
    "date": DATE,
    "timestamp": TIMESTAMP,
}
DECIMAL_TYPE = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,18})")
NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]{0,399})(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")
NOT_FINITE = frozenset({".inf", ".nan", "inf", "nan", "infinity"})
ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
ISO_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")


def parse_type(text: str) -> Type:
    """Returns the type of this name; raises ValueError for any other name.

    Example:
        >>> str(parse_type("decimal(10, 2)")), str(parse_type("varchar"))
        ('decimal(10,2)', 'text')
    """
    name = text.strip().lower()
    if name in SIMPLE_TYPES:
        return SIMPLE_TYPES[name]
    if found := DECIMAL_TYPE.fullmatch(name):
        precision, scale = int(found[1]), int(found[2])
        if not (1 <= precision <= 38 and scale <= precision):
            raise ValueError(
                f"{name} is not a valid type; a decimal has 1 to 38 digits, and at most that many after the point"
            )
        return decimal(precision, scale)
    if name.startswith("decimal"):
        raise ValueError("a decimal is written decimal(10,2), in quotes inside { }")
    raise ValueError(f"unknown type {shown(text)}; {suggestion(name, (*SIMPLE_TYPES, 'decimal(10,2)'))}")


def parse_value(leaf: Leaf, type: Type) -> Value:
    """Returns the value of this type that was written; raises ValueError where it is none. NULL is not read here.

    Python values are read by their exact kind: True is not an integer, a text no number, a date no timestamp. Dates and
    timestamps may be ISO texts.
    """
    match type.kind:
        case Kind.BOOLEAN:
            return _parse_boolean(leaf)
        case Kind.INT64:
            return _parse_integer(leaf)
        case Kind.FLOAT64:
            return _parse_float(leaf)
        case Kind.DECIMAL:
            return _parse_decimal(leaf, type)
        case Kind.TEXT:
            return _parse_text(leaf)
        case Kind.DATE:
            return _parse_date(leaf)
        case Kind.TIMESTAMP:
            return _parse_timestamp(leaf)
        case Kind.INTERVAL:
            raise ValueError("no column is declared as an interval")
        case _:
            assert_never(type.kind)


def _parse_boolean(leaf: Leaf) -> bool:
    if isinstance(leaf, Word) and leaf.plain and leaf.text in FLAGS:
        return FLAGS[leaf.text]
    if isinstance(leaf, bool):
        return leaf
    raise ValueError(f"{_quote(leaf)} is not a boolean; write true or false")


def _parse_integer(leaf: Leaf) -> int:
    number: int | None = None
    if isinstance(leaf, Word) and leaf.plain and INTEGER.fullmatch(leaf.text):
        number = int(leaf.text)
    elif isinstance(leaf, int) and not isinstance(leaf, bool):
        number = leaf
    if number is None:
        raise ValueError(f"{_quote(leaf)} is not a valid int64; write it in plain digits, like 1000")
    if not -(2**63) <= number < 2**63:
        raise ValueError("the number does not fit into int64")
    return number


def _parse_float(leaf: Leaf) -> float:
    number = _number(leaf, FLOAT64)
    if number.adjusted() <= 301 and abs(value := float(number)) <= LARGEST_FLOAT:
        return value + 0.0  # no negative zero
    raise ValueError("the number is too large; the magnitude of a float64 is limited to 1e300 here")


def _parse_decimal(leaf: Leaf, type: Type) -> Decimal:
    number = _number(leaf, type)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).lstrip("0")
    significant = written.rstrip("0")
    if not significant:
        return Decimal((0, (0,), -type.scale))
    shift = exponent + len(written) - len(significant) + type.scale
    if shift < 0 or len(significant) + shift > type.precision:
        raise ValueError(f"{_quote(leaf)} cannot be represented exactly as {type}")
    return Decimal((sign, tuple(map(int, significant)) + (0,) * shift, -type.scale))


def _number(leaf: Leaf, type: Type) -> Decimal:
    """Returns the number as written (a float: in its shortest decimal form), without rounding."""
    number: Decimal | None = None
    if isinstance(leaf, Word) and leaf.plain and NUMBER.fullmatch(leaf.text):
        number = Decimal(leaf.text)
    elif isinstance(leaf, Word) and leaf.text.lstrip("+-").lower() in NOT_FINITE:
        number = Decimal("NaN")
    elif isinstance(leaf, Decimal | int | float) and not isinstance(leaf, bool):
        number = Decimal(repr(leaf)) if isinstance(leaf, float) else Decimal(leaf)
    if number is None:
        raise ValueError(f"{_quote(leaf)} is not a valid {type}; write a number without quotes or leading zeros")
    if not number.is_finite():
        raise ValueError("infinity and NaN are not accepted; write a finite number")
    return number


def _parse_text(leaf: Leaf) -> str:
    text = leaf.text if isinstance(leaf, Word) else leaf
    fault = text_fault(text) if isinstance(text, str) else f"{_quote(leaf)} is not a string"
    if isinstance(text, str) and fault is None:
        return text
    raise ValueError(fault)


def _parse_date(leaf: Leaf) -> datetime.date:
    if isinstance(leaf, datetime.date) and not isinstance(leaf, datetime.datetime):
        return leaf
    text = leaf.text if isinstance(leaf, Word) else leaf
    if isinstance(text, str) and ISO_DATE.fullmatch(text):
        return datetime.date.fromisoformat(text)  # a ValueError names the part that is out of range
    raise ValueError(f"{_quote(leaf)} is not a valid date; write it like 2019-12-31")


def _parse_timestamp(leaf: Leaf) -> datetime.datetime:
    if isinstance(leaf, datetime.datetime) and leaf.tzinfo is None:
        return leaf.replace(fold=0)
    text = leaf.text if isinstance(leaf, Word) else leaf
    if isinstance(text, str) and ISO_TIMESTAMP.fullmatch(text):
        return datetime.datetime.fromisoformat(text)
    raise ValueError(f"{_quote(leaf)} is not a valid timestamp; write it without a zone, like 2019-12-31 23:59:59")


def _quote(leaf: Leaf) -> str:
    """Returns what was written, for a message."""
    if isinstance(leaf, Word):
        return shown(leaf.text) + ("" if leaf.plain else " (a text, as it is in quotes)")
    if isinstance(leaf, int) and abs(leaf) >= 10**40:
        return "an integer of over 40 digits"
    return shown(leaf) if isinstance(leaf, str) else repr(leaf)[:60]
