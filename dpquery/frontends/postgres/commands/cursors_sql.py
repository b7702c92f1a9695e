"""DECLARE, FETCH, MOVE and CLOSE, read from their tokens."""

from __future__ import annotations

from dpquery.frontends.postgres.commands.nodes import CloseCursor, Command, Declare, Fetch
from dpquery.frontends.postgres.commands.reading import Reader


def read_declare(reader: Reader) -> Command:
    """DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query."""
    reader.need("declare")
    name = reader.name()
    is_binary, can_scroll, is_held = False, True, False
    while not reader.take("cursor"):
        if reader.take_phrase("no scroll"):
            can_scroll = False
        elif reader.word(("binary", "asensitive", "insensitive", "scroll")) == "binary":
            is_binary = True
    if reader.take_phrase("with hold"):
        is_held = True
    else:
        reader.take_phrase("without hold")
    reader.need("for")
    return Declare(name, is_binary, can_scroll, is_held, reader.statement())


def read_fetch(reader: Reader) -> Command:
    """FETCH or MOVE [direction] [FROM | IN] name."""
    is_move = reader.word(("fetch", "move")) == "move"
    direction, count = _direction(reader)
    reader.take("from") or reader.take("in")
    name = reader.name()
    reader.end()
    return Fetch(name, direction, count, is_move)


def _direction(reader: Reader) -> tuple[str, int | None]:
    if reader.is_last():  # FETCH next: a cursor of that name
        return "forward", 1
    for word, found in _WORDS.items():
        if reader.take(word):
            return found
    for word in ("absolute", "relative"):
        if reader.take(word):
            return word, reader.count()
    if reader.take("all"):
        return "forward", None
    direction = "backward" if reader.take("backward") else "forward"
    reader.take("forward")
    if reader.take("all"):
        return direction, None
    has_count = reader.peek() in ("-", "+") or reader.is_number()
    return direction, reader.count() if has_count else 1


_WORDS: dict[str, tuple[str, int | None]] = {
    "next": ("forward", 1),
    "prior": ("backward", 1),
    "first": ("absolute", 1),
    "last": ("absolute", -1),
}


def read_close(reader: Reader) -> Command:
    """CLOSE name or ALL."""
    reader.need("close")
    name = None if reader.take("all") else reader.name()
    reader.end()
    return CloseCursor(name)
