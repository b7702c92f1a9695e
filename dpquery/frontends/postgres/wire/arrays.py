"""PostgreSQL's arrays of one dimension, as text and in binary."""

from __future__ import annotations

import struct
from collections.abc import Sequence

MOST_ITEMS = 65_535
_SPACE = " \t\n\r\v\f"
_SPECIAL = frozenset('{}",\\ \t\n\r\v\f')


def read_array(text: str) -> list[str | None]:
    """Returns the items of `{a,"b c",NULL}`, with None for NULL; raises ValueError for other text."""
    text = text.strip(_SPACE)
    if not (text.startswith("{") and text.endswith("}")) or len(text) < 2:
        raise ValueError
    items: list[str | None] = []
    place, end = 1, len(text) - 1
    if not text[place:end].strip(_SPACE):
        return items
    while True:
        item, place = _item(text, place, end)
        items.append(item)
        if len(items) > MOST_ITEMS:
            raise ValueError
        if place == end:
            return items
        if text[place] != ",":
            raise ValueError
        place += 1


def _item(text: str, place: int, end: int) -> tuple[str | None, int]:
    while place < end and text[place] in _SPACE:
        place += 1
    if place < end and text[place] == '"':
        return _quoted(text, place + 1, end)
    letters = []
    while place < end and text[place] != ",":
        if text[place] in '{}"':
            raise ValueError
        if text[place] == "\\":
            place += 1
            if place >= end:
                raise ValueError
        letters.append(text[place])
        place += 1
    plain = "".join(letters).rstrip(_SPACE)
    if not plain:
        raise ValueError
    return (None if plain.upper() == "NULL" else plain), place


def _quoted(text: str, place: int, end: int) -> tuple[str, int]:
    letters = []
    while place < end and text[place] != '"':
        if text[place] == "\\":
            place += 1
            if place >= end:
                raise ValueError
        letters.append(text[place])
        place += 1
    if place >= end:
        raise ValueError
    place += 1
    while place < end and text[place] in _SPACE:
        place += 1
    return "".join(letters), place


def write_array(items: Sequence[str | None]) -> str:
    """Returns `{a,"b c",NULL}` for items."""
    return "{" + ",".join("NULL" if item is None else _written(item) for item in items) + "}"


def _written(item: str) -> str:
    if item and item.upper() != "NULL" and not _SPECIAL & set(item):
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
