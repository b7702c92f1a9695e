"""Statements that belong to the connection, recognised by their tokens; all others are for the engine."""

from __future__ import annotations

import re

from dpquery.catalog.names import quoted
from dpquery.frontends.postgres.commands import nodes
from dpquery.frontends.postgres.commands.nodes import Command, Transaction
from dpquery.frontends.postgres.commands.statements import Statement, TokenReader, split
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.postgres.wire.rows import CopyForm

_MODES = {"isolation", "level", "read", "write", "only", "serializable", "repeatable", "committed", "uncommitted"}
_MODES |= {"deferrable", "not", ","}
_ISOLATION = re.compile("isolation level (serializable|repeatable read|read committed|read uncommitted)")
_PHRASES = {
    "transaction isolation level": "transaction_isolation",
    "time zone": "timezone",
    "session authorization": "session_authorization",
}


def read(statement: Statement) -> Command:
    """Returns what a statement asks of the connection, or `Ask` where it is for the engine.

    Raises:
        Refusal: It begins like a statement of the connection and goes on in another way.
    """
    first = statement.tokens[0].word if statement.tokens else ""
    reader = TokenReader(statement, 1)
    command = _read(first, reader)
    if command is None:
        return nodes.Ask(statement)
    reader.end()
    return command


def _read(first: str, reader: TokenReader) -> Command | None:
    """Returns the statement that begins with a word, as far as it was read; None for those of the engine."""
    match first:
        case "begin" | "start":
            if first == "start":
                reader.need("transaction")
            else:
                reader.take("transaction", "work")
            return Transaction("BEGIN", _modes(reader))
        case "commit" | "end" | "rollback" | "abort":
            reader.take("transaction", "work")
            is_back = first in ("rollback", "abort")
            if is_back and reader.take("to"):
                reader.take("savepoint")
                return Transaction("ROLLBACK TO SAVEPOINT", reader.name())
            reader.take("and no chain")
            return Transaction("ROLLBACK" if is_back else "COMMIT")
        case "savepoint" | "release":
            if first == "release":
                reader.take("savepoint")
            return Transaction("SAVEPOINT" if first == "savepoint" else "RELEASE SAVEPOINT", reader.name())
        case "set":
            return _set(reader)
        case "show":
            return nodes.Show(None if reader.take("all") else _setting(reader))
        case "reset":
            if reader.take("all"):
                return nodes.SetSetting("all", None, False, is_reset=True)
            if reader.take("role", "session authorization"):
                return nodes.Act("RESET", lambda on: on.act_as(None))
            return nodes.SetSetting(_setting(reader), None, False, is_reset=True)
        case "discard":
            what = reader.need("all", "plans", "sequences", "temp", "temporary").replace("temporary", "temp")
            return nodes.Act(f"DISCARD {what.upper()}", lambda on: on.discard(what))
        case "prepare":
            if reader.peek() == "transaction":
                raise Refusal("0A000", "prepared transactions are not supported")
            name, types = reader.name(), reader.types() if reader.peek() == "(" else ()
            reader.need("as")
            query = reader.statement()
            return nodes.Act("PREPARE", lambda on: on.prepare(name, types, query))
        case "execute":
            return nodes.Invoke(reader.name(), reader.literals() if reader.peek() == "(" else ())
        case "deallocate":
            reader.take("prepare")
            dropped = None if reader.take("all") else reader.name()
            tag = "DEALLOCATE ALL" if dropped is None else "DEALLOCATE"
            return nodes.Act(tag, lambda on: on.store.forget_statement(dropped))
        case "explain":
            return _explain(reader)
        case "listen" | "unlisten" | "notify":
            if first != "unlisten" or not reader.take("*"):
                reader.name()
            if first == "notify" and reader.take(","):
                reader.text()
            return nodes.Act(first.upper())
        case "declare":
            return _declare(reader)
        case "fetch" | "move":
            direction, count = _direction(reader)
            reader.take("from", "in")
            return nodes.Fetch(reader.name(), direction, count, first == "move")
        case "close":
            closed = None if reader.take("all") else reader.name()
            return nodes.Act(
                "CLOSE CURSOR ALL" if closed is None else "CLOSE CURSOR", lambda on: on.store.close_cursor(closed)
            )
        case "copy":
            return _copy(reader)
    return None


def _modes(reader: TokenReader) -> str | None:
    """Reads the modes of a transaction, and returns its level of isolation, where one is given."""
    words: list[str] = []
    while reader.left:
        if reader.peek() not in _MODES:
            raise reader.unexpected()
        words.append(reader.token().text.lower())
    found = _ISOLATION.search(" ".join(words))
    return None if found is None else found[1]


def _setting(reader: TokenReader) -> str:
    return _PHRASES.get(reader.take(*_PHRASES)) or reader.dotted()


def _set(reader: TokenReader) -> Command:
    is_local, level = False, ""
    if reader.peek(1) not in ("=", "to"):
        is_local = bool(reader.take("local"))
        if not is_local and reader.take("session") and reader.take("characteristics"):
            reader.need("as transaction")
            level = "default_transaction_isolation"
    if not level and reader.take("transaction"):
        level, is_local = "transaction_isolation", True
    if level:
        value = _modes(reader)
        return nodes.Act("SET") if value is None else nodes.SetSetting(level, value, is_local)
    if reader.take("role", "authorization"):
        role = reader.values()
        return nodes.Act("SET", lambda on: on.act_as(None if role.lower() in ("none", "default") else role))
    fixed = {"time zone": "timezone", "names": "client_encoding"}.get(reader.take("time zone", "names"))
    name = fixed or reader.dotted()
    if not fixed:
        reader.need("to", "=")
    values = reader.values()
    return nodes.SetSetting(name, None if values.lower() == "default" else values, is_local)


def _explain(reader: TokenReader) -> Command:
    options = reader.options() if reader.peek() == "(" else {}
    words = {name: value.lower() for name, value in options.items()}
    while word := reader.take("analyze", "analyse", "verbose"):
        words[word] = "true"
    if any(words.get(word, "false") not in ("false", "off", "0") for word in ("analyze", "analyse")):
        raise Refusal("42501", "EXPLAIN ANALYZE is not allowed: it would run the query", hint="Use EXPLAIN.")
    if (form := words.get("format", "text")) not in ("text", "json"):
        raise Refusal("0A000", "EXPLAIN only supports the formats TEXT and JSON")
    return nodes.Explain(reader.statement(), form == "json")


# Cursors.


def _declare(reader: TokenReader) -> Command:
    """DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query."""
    name, words = reader.name(), list[str]()
    while not reader.take("cursor"):
        words.append(reader.need("no scroll", "binary", "asensitive", "insensitive", "scroll"))
    is_held = reader.take("with hold", "without hold") == "with hold"
    reader.need("for")
    return nodes.Declare(reader.statement(), name, "binary" in words, "no scroll" not in words, is_held)


_WORDS: dict[str, tuple[str, int | None]] = {
    "next": ("forward", 1),
    "prior": ("backward", 1),
    "first": ("absolute", 1),
    "last": ("absolute", -1),
    "all": ("forward", None),
}


def _direction(reader: TokenReader) -> tuple[str, int | None]:
    """FETCH or MOVE [direction] [FROM | IN] name."""
    if reader.left == 1:  # FETCH next: a cursor of that name
        return "forward", 1
    if word := reader.take(*_WORDS):
        return _WORDS[word]
    if word := reader.take("absolute", "relative"):
        return word, reader.count()
    direction = reader.take("backward", "forward") or "forward"
    if reader.take("all"):
        return direction, None
    return direction, reader.count() if reader.peek() in ("-", "+") or reader.kind == "number" else 1


# COPY ... TO STDOUT.

_HINT = "Write COPY (SELECT ...) TO STDOUT."
_OLD = ("binary", "csv", "header", "delimiter", "delimiters", "null", "quote", "escape", "encoding")


def _copy(reader: TokenReader) -> Command:
    """COPY (query) TO STDOUT [[WITH] (options)], also with the options of old clients."""
    statement = reader.inside() if reader.peek() == "(" else _of_table(reader)
    if reader.peek() != "from":
        reader.need("to")
    if not reader.take("stdout"):
        raise Refusal("42501", "COPY can only send the answer of a query to the client", hint=_HINT)
    reader.take("with")
    options = reader.options() if reader.peek() == "(" else _old_options(reader)
    reader.end()
    return nodes.Copy(statement, _form(options))


def _of_table(reader: TokenReader) -> Statement:
    """A table's rows are asked for like any others, and refused like any others."""
    names, columns = reader.separated(reader.name, "."), "*"
    if reader.take("("):
        columns = ", ".join(map(quoted, reader.separated(reader.name)))
        reader.need(")")
    return split(f"SELECT {columns} FROM {'.'.join(map(quoted, names))}")[0]


def _old_options(reader: TokenReader) -> dict[str, str]:
    options = {}
    while reader.left:
        word = reader.need(*_OLD)
        if word in ("binary", "csv"):
            options["format"] = word
        elif word == "header":
            options["header"] = "true"
        else:
            reader.take("as")
            options["delimiter" if word == "delimiters" else word] = reader.text()
    return options


def _form(options: dict[str, str]) -> CopyForm:
    known = {"format", "delimiter", "null", "header", "quote", "escape", "force_quote", "encoding"}
    kind = options.get("format", "text").lower()
    if unknown := sorted(options.keys() - known):
        raise Refusal("42601", f'option "{unknown[0][:60]}" not recognized')
    if kind not in ("text", "csv", "binary"):
        raise Refusal("22023", "the format of COPY is text, csv or binary")
    if options.get("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise Refusal("22023", "the encoding of COPY is UTF8")
    is_csv = kind == "csv"
    form = CopyForm(
        kind=kind,
        delimiter=options.get("delimiter", "," if is_csv else "\t"),
        null=options.get("null", "" if is_csv else "\\N"),
        header=options.get("header", "false").lower() not in ("false", "off", "0"),
        quote=options.get("quote", '"'),
        escape=options.get("escape", options.get("quote", '"')),
        force_quote="force_quote" in options,
    )
    if any(len(sign.encode()) != 1 or sign in "\r\n" for sign in (form.delimiter, form.quote, form.escape)):
        raise Refusal("22023", "delimiter, quote and escape of COPY are single characters")
    if (form.delimiter == form.quote and is_csv) or form.delimiter in form.null or set("\r\n") & set(form.null):
        raise Refusal("22023", "delimiter, quote and null of COPY have to differ")
    return form
