"""Statements that belong to the connection, recognised by their tokens; all others are for the engine."""

from __future__ import annotations

import re
from collections.abc import Callable

from dpquery.frontends.postgres.commands import nodes
from dpquery.frontends.postgres.commands.copy_sql import read_copy
from dpquery.frontends.postgres.commands.cursors_sql import read_close, read_declare, read_fetch
from dpquery.frontends.postgres.commands.reading import Reader
from dpquery.frontends.postgres.commands.statements import Statement
from dpquery.frontends.postgres.wire.answers import Refusal

_MODES = {"isolation", "level", "read", "write", "only", "serializable", "repeatable", "committed", "uncommitted"}
_MODES |= {"deferrable", "not", ","}


def read(statement: Statement) -> nodes.Command:
    """Returns what a statement asks of the connection, or `Ask` where it is for the engine.

    Raises:
        Refusal: It begins like a statement of the connection and goes on in another way.
    """
    first = statement.tokens[0].word if statement.tokens else ""
    reader = _READERS.get(first)
    if reader is None:
        return nodes.Ask(statement)
    return reader(Reader(statement))


def _begin(reader: Reader) -> nodes.Command:
    if reader.take("start"):
        reader.need("transaction")
    else:
        reader.need("begin")
        reader.take("transaction") or reader.take("work")
    return nodes.Begin(_modes(reader))


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


def _commit(reader: Reader) -> nodes.Command:
    reader.skip()
    reader.take("transaction") or reader.take("work")
    _no_chain(reader)
    return nodes.Commit()


def _no_chain(reader: Reader) -> None:
    reader.take_phrase("and no chain")
    reader.end()


def _rollback(reader: Reader) -> nodes.Command:
    reader.skip()
    reader.take("transaction") or reader.take("work")
    if reader.take("to"):
        reader.take("savepoint")
        name = reader.name()
        reader.end()
        return nodes.Rollback(name)
    _no_chain(reader)
    return nodes.Rollback(None)


def _savepoint(reader: Reader) -> nodes.Command:
    reader.skip()
    name = reader.name()
    reader.end()
    return nodes.Savepoint(name)


def _release(reader: Reader) -> nodes.Command:
    reader.skip()
    reader.take("savepoint")
    name = reader.name()
    reader.end()
    return nodes.Release(name)


def _set(reader: Reader) -> nodes.Command:
    reader.need("set")
    is_local = False
    if reader.peek(1) not in ("=", "to"):
        is_local = reader.take("local")
        if not is_local and reader.take("session") and reader.take("characteristics"):
            reader.need("as")
            reader.need("transaction")
            level = _modes(reader)
            return (
                nodes.Nothing("SET")
                if level is None
                else nodes.SetSetting("default_transaction_isolation", level, False)
            )
    if reader.take("transaction"):
        level = _modes(reader)
        return nodes.Nothing("SET") if level is None else nodes.SetSetting("transaction_isolation", level, True)
    if reader.take("role") or (reader.peek() == "authorization" and reader.take("authorization")):
        return _role(reader)
    if reader.take_phrase("time zone"):
        return nodes.SetSetting("timezone", _default_or(reader.values()), is_local)
    if reader.take("names"):
        return nodes.SetSetting("client_encoding", _default_or(reader.values()), is_local)
    name = reader.dotted()
    if not reader.take("to"):
        reader.need("=")
    return nodes.SetSetting(name, _default_or(reader.values()), is_local)


def _default_or(values: str) -> str | None:
    return None if values.lower() == "default" else values


def _role(reader: Reader) -> nodes.Command:
    value = reader.values()
    return nodes.SetRole(None if value.lower() in ("none", "default") else value)


def _show(reader: Reader) -> nodes.Command:
    reader.skip()
    if reader.take("all"):
        reader.end()
        return nodes.ShowAll()
    name = next((name for phrase, name in _PHRASES.items() if reader.take_phrase(phrase)), None) or reader.dotted()
    reader.end()
    return nodes.Show(name)


_PHRASES = {
    "transaction isolation level": "transaction_isolation",
    "time zone": "timezone",
    "session authorization": "session_authorization",
}


def _reset(reader: Reader) -> nodes.Command:
    reader.skip()
    if reader.take("all"):
        reader.end()
        return nodes.SetSetting("all", None, False, is_reset=True)
    if reader.take("role") or (reader.take("session") and reader.take("authorization")):
        reader.end()
        return nodes.SetRole(None, is_reset=True)
    name = "timezone" if reader.take_phrase("time zone") else reader.dotted()
    reader.end()
    return nodes.SetSetting(name, None, False, is_reset=True)


def _discard(reader: Reader) -> nodes.Command:
    reader.skip()
    what = reader.word(("all", "plans", "sequences", "temp", "temporary"))
    reader.end()
    return nodes.Discard(what)


def _prepare(reader: Reader) -> nodes.Command:
    reader.skip()
    if reader.peek() == "transaction":
        raise Refusal("0A000", "prepared transactions are not supported")
    name = reader.name()
    types = reader.types() if reader.peek() == "(" else ()
    reader.need("as")
    return nodes.Prepare(name, types, reader.statement())


def _invoke(reader: Reader) -> nodes.Command:
    reader.skip()
    name = reader.name()
    arguments = reader.literals() if reader.peek() == "(" else ()
    reader.end()
    return nodes.Invoke(name, arguments)


def _deallocate(reader: Reader) -> nodes.Command:
    reader.skip()
    reader.take("prepare")
    name = None if reader.take("all") else reader.name()
    reader.end()
    return nodes.Deallocate(name)


def _explain(reader: Reader) -> nodes.Command:
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
    return nodes.Explain(reader.statement())


def _listen(reader: Reader) -> nodes.Command:
    tag = reader.word(("listen", "unlisten", "notify"))
    if tag != "unlisten" or not reader.take("*"):
        reader.name()
    if tag == "notify" and reader.take(","):
        reader.text()
    reader.end()
    return nodes.Nothing(tag.upper())


_READERS: dict[str, Callable[[Reader], nodes.Command]] = {
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
