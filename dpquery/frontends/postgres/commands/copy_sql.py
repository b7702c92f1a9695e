"""COPY ... TO STDOUT, read from its tokens."""

from __future__ import annotations

from dpquery.catalog.names import quoted
from dpquery.frontends.postgres.commands.nodes import Command, Copy
from dpquery.frontends.postgres.commands.reading import Reader
from dpquery.frontends.postgres.commands.statements import Statement, split
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.postgres.wire.rows import CopyForm

_DENIED = "COPY can only send the answer of a query to the client"
_HINT = "Write COPY (SELECT ...) TO STDOUT."


def read_copy(reader: Reader) -> Command:
    """COPY (query) TO STDOUT [[WITH] (options)], also with the options of old clients."""
    reader.need("copy")
    statement = reader.inside() if reader.peek() == "(" else _of_table(reader)
    if reader.peek() == "from":
        raise Refusal("42501", _DENIED, hint=_HINT)
    reader.need("to")
    if not reader.take("stdout"):
        raise Refusal("42501", _DENIED, hint=_HINT)
    reader.take("with")
    options = dict(reader.options()) if reader.peek() == "(" else _old_options(reader)
    reader.end()
    return Copy(statement, _form(options))


def _of_table(reader: Reader) -> Statement:
    """A table's rows are asked for like any others, and refused like any others."""
    names = [reader.name()]
    while reader.take("."):
        names.append(reader.name())
    columns = "*"
    if reader.take("("):
        found = [reader.name()]
        while reader.take(","):
            found.append(reader.name())
        reader.need(")")
        columns = ", ".join(map(quoted, found))
    return split(f"SELECT {columns} FROM {'.'.join(map(quoted, names))}")[0]


def _old_options(reader: Reader) -> dict[str, str]:
    options = {}
    while not reader.at_end:
        word = reader.word(
            ("binary", "csv", "header", "delimiter", "delimiters", "null", "quote", "escape", "encoding")
        )
        if word in ("binary", "csv"):
            options["format"] = word
        elif word == "header":
            options["header"] = "true"
        else:
            reader.take("as")
            options[word.removesuffix("s") if word == "delimiters" else word] = reader.text()
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
