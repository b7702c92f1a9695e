"""Statements that belong to the connection, recognised by their tokens; all others are for the engine."""

from __future__ import annotations

import re
from collections.abc import Callable

from dpquery.frontends.postgres.commands.copy_sql import read_copy
from dpquery.frontends.postgres.commands.cursors_sql import read_close, read_declare, read_fetch
from dpquery.frontends.postgres.commands.nodes import (
    Ask,
    Begin,
    Command,
    Commit,
    Deallocate,
    Discard,
    Explain,
    Invoke,
    Nothing,
    Prepare,
    Release,
    Rollback,
    Savepoint,
    SetRole,
    SetSetting,
    Show,
    ShowAll,
)
from dpquery.frontends.postgres.commands.reading import Reader
from dpquery.frontends.postgres.commands.statements import Statement
from dpquery.frontends.postgres.wire.answers import Refusal

_MODES = {"isolation", "level", "read", "write", "only", "serializable", "repeatable", "committed", "uncommitted"}
_MODES |= {"deferrable", "not", ","}


def read(statement: Statement) -> Command:
    """Returns what a statement asks of the connection, or `Ask` where it is for the engine.

    Raises:
        Refusal: It begins like a statement of the connection and goes on in another way.
    """
    first = statement.tokens[0].word if statement.tokens else ""
    reader = _READERS.get(first)
    if reader is None:
        return Ask(statement)
    return reader(Reader(statement))


def _begin(reader: Reader) -> Command:
    if reader.take("start"):
        reader.need("transaction")
    else:
        reader.need("begin")
        reader.take("transaction") or reader.take("work")
    return Begin(_modes(reader))


def _modes(reader: Reader) -> str | None:
    """Reads the modes of a transaction, and returns its level of isolation, where one is given."""
    words: list[str] = []
    while not reader.at_end:
        if reader.peek() not in _MODES:
            raise reader.unexpected()
        words.append(reader.peek())
        reader.skip()
    found = re.search("isolation level (serializable|repeatable read|read committed|read uncommitted)", " ".join(words))
    return None if found is None else found[1]


def _commit(reader: Reader) -> Command:
    reader.skip()
    reader.take("transaction") or reader.take("work")
    _no_chain(reader)
    return Commit()


def _no_chain(reader: Reader) -> None:
    if reader.take("and"):
        reader.need("no")
        reader.need("chain")
    reader.end()


def _rollback(reader: Reader) -> Command:
    reader.skip()
    reader.take("transaction") or reader.take("work")
    if reader.take("to"):
        reader.take("savepoint")
        name = reader.name()
        reader.end()
        return Rollback(name)
    _no_chain(reader)
    return Rollback(None)


def _savepoint(reader: Reader) -> Command:
    reader.skip()
    name = reader.name()
    reader.end()
    return Savepoint(name)


def _release(reader: Reader) -> Command:
    reader.skip()
    reader.take("savepoint")
    name = reader.name()
    reader.end()
    return Release(name)


def _set(reader: Reader) -> Command:
    reader.need("set")
    is_local = False
    if reader.peek(1) not in ("=", "to"):
        is_local = reader.take("local")
        if not is_local and reader.take("session") and reader.take("characteristics"):
            reader.need("as")
            reader.need("transaction")
            level = _modes(reader)
            return Nothing("SET") if level is None else SetSetting("default_transaction_isolation", level, False)
    if reader.take("transaction"):
        level = _modes(reader)
        return Nothing("SET") if level is None else SetSetting("transaction_isolation", level, True)
    if reader.take("role") or (reader.peek() == "authorization" and reader.take("authorization")):
        return _role(reader)
    if reader.take("time"):
        reader.need("zone")
        return SetSetting("timezone", _default_or(reader.values()), is_local)
    if reader.take("names"):
        return SetSetting("client_encoding", _default_or(reader.values()), is_local)
    name = reader.dotted()
    if not reader.take("to"):
        reader.need("=")
    return SetSetting(name, _default_or(reader.values()), is_local)


def _default_or(values: str) -> str | None:
    return None if values.lower() == "default" else values


def _role(reader: Reader) -> Command:
    value = reader.values()
    return SetRole(None if value.lower() in ("none", "default") else value)


def _show(reader: Reader) -> Command:
    reader.skip()
    if reader.take("all"):
        reader.end()
        return ShowAll()
    if reader.take("transaction"):
        reader.need("isolation")
        reader.need("level")
        reader.end()
        return Show("transaction_isolation")
    if reader.take("time"):
        reader.need("zone")
        reader.end()
        return Show("timezone")
    if reader.take("session"):
        reader.need("authorization")
        reader.end()
        return Show("session_authorization")
    name = reader.dotted()
    reader.end()
    return Show(name)


def _reset(reader: Reader) -> Command:
    reader.skip()
    if reader.take("all"):
        reader.end()
        return SetSetting("all", None, False, is_reset=True)
    if reader.take("role") or (reader.take("session") and reader.take("authorization")):
        reader.end()
        return SetRole(None, is_reset=True)
    if reader.take("time"):
        reader.need("zone")
        name = "timezone"
    else:
        name = reader.dotted()
    reader.end()
    return SetSetting(name, None, False, is_reset=True)


def _discard(reader: Reader) -> Command:
    reader.skip()
    what = reader.word(("all", "plans", "sequences", "temp", "temporary"))
    reader.end()
    return Discard(what)


def _prepare(reader: Reader) -> Command:
    reader.skip()
    if reader.peek() == "transaction":
        raise Refusal("0A000", "prepared transactions are not supported")
    name = reader.name()
    types = reader.types() if reader.peek() == "(" else ()
    reader.need("as")
    return Prepare(name, types, reader.statement())


def _invoke(reader: Reader) -> Command:
    reader.skip()
    name = reader.name()
    arguments = reader.literals() if reader.peek() == "(" else ()
    reader.end()
    return Invoke(name, arguments)


def _deallocate(reader: Reader) -> Command:
    reader.skip()
    reader.take("prepare")
    name = None if reader.take("all") else reader.name()
    reader.end()
    return Deallocate(name)


def _explain(reader: Reader) -> Command:
    reader.skip()
    options = reader.options() if reader.peek() == "(" else ()
    words = {name: value.lower() for name, value in options}
    for word in ("analyze", "analyse", "verbose"):
        if reader.take(word):
            words[word] = "true"
    if any(words.get(word, "false") not in ("false", "off", "0") for word in ("analyze", "analyse")):
        raise Refusal("42501", "EXPLAIN ANALYZE is not allowed: it would run the query", hint="Use EXPLAIN.")
    if words.get("format", "text") != "text":
        raise Refusal("0A000", "EXPLAIN only supports the format TEXT")
    return Explain(reader.statement())


def _listen(reader: Reader) -> Command:
    tag = reader.word(("listen", "unlisten", "notify"))
    if tag != "unlisten" or not reader.take("*"):
        reader.name()
    if tag == "notify" and reader.take(","):
        reader.text()
    reader.end()
    return Nothing(tag.upper())


_READERS: dict[str, Callable[[Reader], Command]] = {
    "begin": _begin,
    "start": _begin,
    "commit": _commit,
    "end": _commit,
    "rollback": _rollback,
    "abort": _rollback,
    "savepoint": _savepoint,
    "release": _release,
    "set": _set,
    "show": _show,
    "reset": _reset,
    "discard": _discard,
    "prepare": _prepare,
    "execute": _invoke,
    "deallocate": _deallocate,
    "explain": _explain,
    "listen": _listen,
    "unlisten": _listen,
    "notify": _listen,
    "declare": read_declare,
    "fetch": read_fetch,
    "move": read_fetch,
    "close": read_close,
    "copy": read_copy,
}
