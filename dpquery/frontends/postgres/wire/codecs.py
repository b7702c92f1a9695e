"""Single values as PostgreSQL writes them, as text and in binary: parameters that come, and rare values that go.

Those of psycopg or asyncpg do not serve here: they trust a server, and read the bytes of clients without limits.
"""

from __future__ import annotations

import datetime
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import Refusal

EPOCH_DATE = datetime.date(2000, 1, 1)
EPOCH = datetime.datetime(2000, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
MOST_DIGITS = 1000
"""Digits of a number that is given as a parameter; the engine knows 38."""
RANGES = {oids.INT2: 1 << 15, oids.INT4: 1 << 31, oids.INT8: 1 << 63}
TRUE, FALSE = ("t", "true", "y", "yes", "on", "1"), ("f", "false", "n", "no", "off", "0")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\s*")
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,39}\s*")
_SPECIAL = {"nan": "nan", "infinity": "inf", "-infinity": "-inf", "inf": "inf", "-inf": "-inf", "+infinity": "inf"}
_ZONE = re.compile(r"(.*[0-9])\s*(z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?(?::?[0-9]{2})?)", re.IGNORECASE)


def decode(value: bytes | None, oid: int, is_binary: bool) -> object:
    """Returns a parameter's value.

    Raises:
        Refusal: It is not a value of the type; 22P02 as text, 22P03 in binary.
    """
    if value is None:
        return None
    try:
        if oid in oids.ELEMENTS:
            return _decode_array(value, oid, is_binary)
        return _decode_binary(value, oid) if is_binary else _decode_text(value.decode("utf-8"), oid)
    except (ValueError, OverflowError, struct.error, InvalidOperation):
        if is_binary:
            raise Refusal("22P03", "a parameter is not a valid value of its type in binary format") from None
        raise Refusal("22P02", "a parameter is not a valid value of its type") from None


def _decode_array(value: bytes, oid: int, is_binary: bool) -> list[object]:
    element = oids.ELEMENTS[oid]
    if not is_binary:
        return [None if item is None else _decode_text(item, element) for item in read_array(value.decode("utf-8"))]
    return [None if item is None else _decode_binary(item, element) for item in array_items(value)]


def _decode_text(text: str, oid: int) -> object:
    match oid:
        case oids.BOOL:
            word = text.strip().lower()
            if word not in TRUE + FALSE:
                raise ValueError
            return word in TRUE
        case oids.INT2 | oids.INT4 | oids.INT8 | oids.OID:
            return _ranged(_whole(text), oid)
        case oids.FLOAT4 | oids.FLOAT8:
            return float(_special_or_number(text))
        case oids.NUMERIC:
            return Decimal(_special_or_number(text))
        case oids.DATE:
            return _day(text.strip())
        case oids.TIME:
            return datetime.time.fromisoformat(text.strip())
        case oids.TIMESTAMP | oids.TIMESTAMPTZ:
            return _moment(text, with_zone=oid == oids.TIMESTAMPTZ)
        case oids.UUID:
            return uuid.UUID(text.strip())
        case oids.BYTEA:
            if not text.startswith("\\x"):
                raise ValueError
            return bytes.fromhex(text[2:])
        case _:
            if "\0" in text:
                raise ValueError
            return text


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)


def _ranged(number: int, oid: int) -> int:
    low, high = (0, 1 << 32) if oid == oids.OID else (-RANGES[oid], RANGES[oid])
    if not low <= number < high:
        raise Refusal("22003", "a parameter is out of the range of its type")
    return number


def _special_or_number(text: str) -> str:
    """Returns a number as Python reads it, special ones by its own names."""
    word = text.strip().lower()
    if word not in _SPECIAL and (len(text) > MOST_DIGITS or not _NUMBER.fullmatch(text)):
        raise ValueError
    return _SPECIAL.get(word, word)


def _day(text: str) -> datetime.date:
    """Returns a date; a zone, as JDBC writes it behind, and a time mean nothing."""
    zoned = _ZONE.fullmatch(text)
    plain = zoned[1].strip() if zoned and len(zoned[1].strip()) == 10 else text
    return datetime.date.fromisoformat(plain) if len(plain) == 10 else _moment(text).date()


def _moment(text: str, with_zone: bool = False) -> datetime.datetime:
    """Returns a timestamp, in UTC where it has a zone; one without zone ignores the zone that is given."""
    plain, zone = text.strip(), None
    if (found := _ZONE.fullmatch(plain)) and ":" in found[1]:
        plain, zone = found[1], found[2]
    moment = datetime.datetime.fromisoformat(plain)
    if moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None)
    if not with_zone:
        return moment
    if zone is not None and zone[0] in "+-":
        digits = re.sub("[^0-9]", "", zone).ljust(6, "0")
        offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:6]))
        moment = moment - offset if zone[0] == "+" else moment + offset
    return moment.replace(tzinfo=datetime.UTC)


def _decode_binary(value: bytes, oid: int) -> object:
    match oid:
        case oids.BOOL:
            return bool(_unpack("b", value))
        case _ if oid in _FORMS:
            return _unpack(_FORMS[oid], value)
        case oids.NUMERIC:
            return _numeric_from(value)
        case oids.DATE:
            return EPOCH_DATE + datetime.timedelta(days=_unpack("i", value))
        case oids.TIME:
            return (EPOCH + _since(value)).time()
        case oids.TIMESTAMP:
            return EPOCH + _since(value)
        case oids.TIMESTAMPTZ:
            return (EPOCH + _since(value)).replace(tzinfo=datetime.UTC)
        case oids.UUID:
            return uuid.UUID(bytes=value)
        case oids.BYTEA:
            return value
        case oids.INTERVAL:
            micros, days, months = struct.unpack(">qii", value)
            return _interval_text(months, days, micros)
        case oids.TEXT | oids.VARCHAR | oids.BPCHAR | oids.NAME | oids.CHAR | oids.UNKNOWN | 0 | oids.JSON:
            text = value.decode("utf-8")
            if "\0" in text:
                raise ValueError
            return text
        case _:
            raise ValueError


_FORMS = {oids.INT2: "h", oids.INT4: "i", oids.INT8: "q", oids.OID: "I", oids.FLOAT4: "f", oids.FLOAT8: "d"}
"""Of `struct`, for numbers of a fixed length."""


def _unpack(form: str, value: bytes) -> Any:
    """Returns a number; raises struct.error for bytes of another length."""
    return struct.unpack(f">{form}", value)[0]


def _since(value: bytes) -> datetime.timedelta:
    return MICROSECOND * int(_unpack("q", value))


def _numeric_from(value: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from(">hhHh", value)
    digits = struct.unpack(f">{max(count, 0)}h", value[8:])
    if sign in (0xC000, 0xD000, 0xF000):
        return Decimal({0xC000: "nan", 0xD000: "inf", 0xF000: "-inf"}[sign])
    if sign not in (0, 0x4000) or scale < 0 or any(not 0 <= d < 10_000 for d in digits):
        raise ValueError
    if count < 0 or count * 4 > MOST_DIGITS or abs(weight) * 4 > MOST_DIGITS or scale > MOST_DIGITS:
        raise ValueError
    whole = int("".join(f"{d:04}" for d in digits) or "0")
    power = 4 * (weight + 1 - count)
    number = Decimal((sign >> 14, tuple(map(int, str(whole))), power))
    plain = f"{number:f}"
    point = plain.partition(".")[2]
    if len(point) < scale:
        plain = f"{plain if point else plain + '.'}{'0' * (scale - len(point))}"
    elif len(point) > scale:
        plain = plain[: len(plain) - (len(point) - scale)]
    return Decimal(plain.rstrip("."))


def encode_text(value: object, oid: int) -> bytes:
    """Returns a value that is not None as text; for types that are rare in results."""
    if isinstance(value, list) or oid in oids.ELEMENTS:
        items = value if isinstance(value, list) else [value]
        element = oids.ELEMENTS.get(oid, oids.TEXT)
        texts = [None if item is None else encode_text(item, element).decode("utf-8") for item in items]
        if oid in (oids.INT2VECTOR, oids.OIDVECTOR):
            return " ".join(text or "" for text in texts).encode()
        return write_array(texts).encode("utf-8")
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}".encode() if value.is_finite() else _float_text(float(value))
    if oid == oids.INTERVAL:
        return _interval_text(*interval_parts(value)).encode()
    return str(value).encode("utf-8", errors="replace")


def _float_text(value: float) -> bytes:
    if value != value:
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"Infinity" if value > 0 else b"-Infinity"
    return repr(value).removesuffix(".0").encode()


def interval_parts(value: object) -> tuple[int, int, int]:
    """Returns months, days and microseconds of an interval."""
    if isinstance(value, datetime.timedelta):
        return 0, value.days, value // MICROSECOND - value.days * 86_400_000_000
    if isinstance(value, tuple) and len(value) == 3:  # Arrow's months, days, nanoseconds
        return int(value[0]), int(value[1]), int(value[2]) // 1000
    raise Refusal("XX000", "the engine returned an interval of an unexpected form")


def _interval_text(months: int, days: int, micros: int) -> str:
    years, rest = divmod(abs(months), 12)
    sign = "-" if months < 0 else ""
    parts = [f"{sign}{years} year{'s' * (years != 1)}"] if years else []
    parts += [f"{sign}{rest} mon{'s' * (rest != 1)}"] if rest else []
    parts += [f"{days} day{'s' * (days != 1)}"] if days else []
    if micros or not parts:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(("-" if micros < 0 else "") + clock + (f".{fraction:06}".rstrip("0") if fraction else ""))
    return " ".join(parts)


def encode_binary(value: object, oid: int) -> bytes:
    """Returns a value that is not None in binary; for types that are rare in results, and elements of arrays."""
    if oid in oids.ELEMENTS:
        element = oids.ELEMENTS[oid]
        items = value if isinstance(value, list) else [value]
        encoded = [None if item is None else encode_binary(item, element) for item in items]
        start = 0 if oid in (oids.INT2VECTOR, oids.OIDVECTOR) else 1
        dimensions = struct.pack(">ii", len(items), start) if items else b""
        head = struct.pack(">iiI", 1 if items else 0, any(item is None for item in encoded), element)
        cells = (b"\xff\xff\xff\xff" if e is None else struct.pack(">i", len(e)) + e for e in encoded)
        return head + dimensions + b"".join(cells)
    if oid == oids.INTERVAL:
        months, days, micros = interval_parts(value)
        return struct.pack(">qii", micros, days, months)
    if oid in _FORMS:
        return struct.pack(f">{_FORMS[oid]}", value)
    writer = _BINARY.get(oid)
    return encode_text(value, oid) if writer is None else writer(value)


def numeric_binary(value: Decimal) -> bytes:
    """Returns a number in base 10,000."""
    if not value.is_finite():
        sign = 0xC000 if value.is_nan() else 0xD000 if value > 0 else 0xF000
        return struct.pack(">hhHh", 0, 0, sign, 0)
    whole, _, point = f"{abs(value):f}".partition(".")
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    padded = whole + point.ljust(-(-len(point) // 4) * 4, "0")
    digits = [int(padded[i : i + 4]) for i in range(0, len(padded), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        digits, weight = digits[1:], weight - 1
    while digits and digits[-1] == 0:
        digits.pop()
    sign = 0x4000 if value < 0 else 0
    head = struct.pack(">hhHh", len(digits), weight if digits else 0, sign, len(point))
    return head + struct.pack(f">{len(digits)}h", *digits)


def _micros(value: object) -> bytes:
    """Returns a timestamp, or a time of the first day."""
    moment = datetime.datetime.combine(EPOCH_DATE, value) if isinstance(value, datetime.time) else value
    if not isinstance(moment, datetime.datetime):
        raise Refusal("XX000", "the engine returned a value of an unexpected type")
    return struct.pack(">q", (moment.replace(tzinfo=None) - EPOCH) // MICROSECOND)


_BINARY: dict[int, Callable[..., bytes]] = {
    oids.BOOL: lambda v: b"\1" if v else b"\0",
    oids.NUMERIC: lambda v: numeric_binary(Decimal(v)),
    oids.DATE: lambda v: struct.pack(">i", (v - EPOCH_DATE).days),
    **dict.fromkeys((oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ), _micros),
    oids.UUID: lambda v: v.bytes if isinstance(v, uuid.UUID) else uuid.UUID(v).bytes,
    oids.BYTEA: bytes,
}


# Arrays of one dimension.

MOST_ITEMS = 65_535
_SPACE = " \t\n\r\v\f"
_IN_QUOTES = frozenset('{}",\\' + _SPACE)
_ITEM = re.compile(rf'[{_SPACE}]*+(?:"((?:[^"\\]|\\.)*+)"[{_SPACE}]*+|((?:[^{{}}",\\]|\\.)++))', re.DOTALL)
"""An item in quotes, or one without."""


def read_array(text: str) -> list[str | None]:
    """Returns the items of `{a,"b c",NULL}`, with None for NULL; raises ValueError for other text."""
    text, items, place = text.strip(_SPACE), list[str | None](), 1
    if not (text.startswith("{") and text.endswith("}")) or len(text) < 2:
        raise ValueError
    if not text[1:-1].strip(_SPACE):
        return items
    while (found := _ITEM.match(text, place, len(text) - 1)) is not None and len(items) < MOST_ITEMS:
        item = re.sub(r"\\(.)", r"\1", found[1] or found[2] or "", flags=re.DOTALL)
        if found[1] is None:
            item = item.rstrip(_SPACE)
            if not item:
                break
        items.append(None if found[1] is None and item.upper() == "NULL" else item)
        place = found.end() + 1
        if text[place - 1] != ",":
            if place == len(text):
                return items
            break
    raise ValueError


def write_array(items: Sequence[str | None]) -> str:
    """Returns `{a,"b c",NULL}` for items."""
    return "{" + ",".join("NULL" if item is None else _written(item) for item in items) + "}"


def _written(item: str) -> str:
    if item and item.upper() != "NULL" and not _IN_QUOTES & set(item):
        return item
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array_items(value: bytes) -> list[bytes | None]:
    """Returns the items of an array in binary; raises ValueError or struct.error for other bytes."""
    dimensions, _, _ = struct.unpack_from(">iiI", value)
    if dimensions == 0 and len(value) == 12:
        return []
    if dimensions != 1:
        raise ValueError
    count, _ = struct.unpack_from(">ii", value, 12)
    if not 0 <= count <= MOST_ITEMS:
        raise ValueError
    items: list[bytes | None] = []
    place = 20
    for _ in range(count):
        (length,) = struct.unpack_from(">i", value, place)
        place += 4
        if length < -1 or length > len(value) - place:
            raise ValueError
        items.append(None if length == -1 else value[place : place + length])
        place += max(length, 0)
    if place != len(value):
        raise ValueError
    return items
