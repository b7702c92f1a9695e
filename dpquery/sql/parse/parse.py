"""Text to parsed tree: one SELECT, grammatical in its dialect, within limits; or an error with a position.

The limits are checked on the text and its tokens, before the parser runs: parsers recurse.
"""

from __future__ import annotations

import itertools
import logging
import re
import unicodedata
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, Dialects
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpquery.catalog.names import composed
from dpquery.errors import QueryError, QuerySyntaxError, Span, UnsupportedQueryError
from dpquery.sql.parse.intervals import with_whole_intervals
from dpquery.sql.parse.lists import as_select, with_lists_as_in, with_plain_forms
from dpquery.sql.parse.parameters import Given, Placeholder, fill, mark, present, with_dollars_marked

OTHERS = ("duckdb", "snowflake", "bigquery", "tsql", "mysql", "spark", "sqlite", "oracle", "clickhouse")
"""Dialects that a query may have been meant in, in the order in which they are looked through."""
DIALECTS = ("postgres", *sorted({one.value for one in Dialects} - {"", "postgres"}))
"""The dialects that queries may be in; the first where nothing is said."""
MAX_CHARACTERS = 64 * 1024
MAX_TOKENS = 10_000
MAX_DEPTH = 50
MAX_TREE_DEPTH = 150
MAX_STRING = 10_000
LONGEST_KEPT = 4096
"""Characters of a text whose tree is kept for the next who reads it."""
_READ_FIRST, _READ_NEXT = 4096, 4
"""Characters of a longer text that are checked first, and how many times as many are checked next."""
_MAY_CHANGE = 64
"""Characters before the end of a part whose tokens may be others in the whole text."""

Tree = exp.Expression
"""A parsed tree: SELECT, with or without WITH."""

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_ENDING = {
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.R_PAREN,
    TokenType.SEMICOLON,
}
_TRAILING = {"bigquery", "duckdb", "snowflake"}
"""Dialects in which a comma may end a list of SELECT."""
_CHAINING = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}

_QUERY = re.compile(r"(?:\bselect(?:\s+distinct|\s+all)?|\bwith(?:\s+recursive)?)\s+$", re.IGNORECASE)
_BRACKET = re.compile(r"\(\s*$")
_BEFORE: tuple[tuple[type[exp.Expression] | tuple[type[exp.Expression], ...], re.Pattern[str]], ...] = (
    ((exp.Select, exp.SetOperation, exp.Subquery, exp.Exists), _QUERY),
    (exp.Subquery, _BRACKET),
    (exp.Exists, re.compile(r"\bexists\s*\(\s*$", re.IGNORECASE)),
    (exp.Cast, re.compile(r"\b(?:try_)?cast\s*\(\s*$", re.IGNORECASE)),
    (exp.Extract, re.compile(r"\bextract\s*\(\s*\w+\s+from\s+$", re.IGNORECASE)),
    (exp.GroupConcat, re.compile(r"\b(?:string_agg|group_concat|listagg)\s*\(\s*$", re.IGNORECASE)),
    ((exp.ArgMin, exp.ArgMax), re.compile(r"\b(?:arg_?(?:min|max)|(?:min|max)_by)\s*\(\s*$", re.IGNORECASE)),
    (exp.JSONArrayAgg, re.compile(r"\b(?:json_agg|json_arrayagg)\s*\(\s*$", re.IGNORECASE)),
)
"""Words that begin a node, and of which the parser keeps no place.

sqlglot 30 keeps places of names and some literals, and plans no more (https://github.com/tobymao/sqlglot/issues/2947).
Until `meta` of each of these classes holds a start.
"""
_LOOK_BACK = 60

# sqlglot 30 logs each statement that it does not read as a warning with its text; all of them are refused here.
# Until it raises an error instead (https://github.com/tobymao/sqlglot/pull/2874).
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def read(text: str, dialect: str = "postgres") -> tuple[exp.Expr, list[Placeholder]]:
    """Returns the parsed tree of one statement of any kind, names standing for its parameters, and the parameters.

    The tree is the caller's own, to change as it likes.
    Raises:
        QuerySyntaxError: Not one grammatical statement, or beyond the limits.
    """
    if not (type(text) is type(dialect) is str and len(text) <= LONGEST_KEPT):
        return _read(text, dialect)
    tree, placeholders = _read_once(text, dialect)
    return tree.copy(), list(placeholders)


def _read(text: str, dialect: str) -> tuple[exp.Expr, list[Placeholder]]:
    try:
        grammar = Dialect.get_or_raise(dialect)
    except ValueError:
        raise QueryError(f"SQL dialect {dialect!r} is not known") from None
    _check_text(text)
    _check_parts(text, grammar)
    tokens, placeholders = mark(_tokens(text, grammar))
    _check_tokens(tokens, dialect)
    if "interval" in text.casefold():
        tokens = with_whole_intervals(tokens)
    try:
        trees = [tree for tree in grammar.parser().parse(tokens, text) if tree is not None]
    except ParseError as error:
        raise _syntax_error(error, text, dialect) from None
    except (
        SqlglotError,
        RecursionError,
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
    ):  # of calls that are wrong
        raise QuerySyntaxError("the query cannot be parsed").locate(text) from None
    if not trees:
        raise QuerySyntaxError("the query is empty").locate(text)
    if len(trees) > 1:
        raise QuerySyntaxError("write exactly one SELECT statement", span=_second(tokens)).locate(text)
    if not text.isascii():
        for identifier in trees[0].find_all(exp.Identifier):
            identifier.set("this", composed(identifier.name))
    return trees[0], placeholders


@lru_cache(maxsize=64)  # a statement is described, priced and answered, each from its text
def _read_once(text: str, dialect: str) -> tuple[exp.Expr, list[Placeholder]]:
    return _read(text, dialect)


def parse(text: str, dialect: str = "postgres", params: Given = None) -> Tree:
    """Returns the parsed tree of one SELECT statement, with constants in place of its parameters.

    Args:
        text: The query, at most 64 KiB, 10,000 tokens and 50 brackets deep.
        dialect: Any dialect that sqlglot reads.
        params: The values of its parameters.
    Raises:
        ParameterError: Parameters and values do not fit.
        QuerySyntaxError: Not one grammatical statement, or beyond the limits.
        UnsupportedQueryError: A statement other than SELECT.
    """
    found, placeholders = read(text, dialect)
    tree = with_plain_forms(with_lists_as_in(fill(found, placeholders, params)))
    while isinstance(tree, exp.Subquery) and set(present(tree)) <= {"this"}:
        tree = tree.this
    tree = as_select(tree)
    if not isinstance(tree, exp.Select | exp.SetOperation):
        tokens = _tokens(text, Dialect.get_or_raise(dialect))
        first = next((token for token in tokens if token.token_type is not TokenType.L_PAREN), tokens[0])
        reason, span = f"{first.text.upper()} is not a query", Span(first.start, first.end + 1)
        raise UnsupportedQueryError(reason, advice="Only SELECT is answered.", span=span).locate(text)
    _check_depth(tree)
    return tree


def span_of(node: exp.Expression, text: str) -> Span | None:
    """Returns the stretch of the text that a node was parsed from, as far as the parser kept it."""
    starts, ends = [], []
    parts: list[Any] = [node]
    while parts:  # quicker than `walk`, and each aggregate, key and condition is placed
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, exp.Expr):
            parts += part.args.values()
            start, end = part.meta.get("start"), part.meta.get("end")
            if isinstance(start, int) and isinstance(end, int):
                starts.append(start)
                ends.append(end + 1)
    if not starts:
        return None
    start, end = min(starts), max(ends)
    for classes, words in _BEFORE:
        if isinstance(node, classes) and (found := words.search(text[max(0, start - _LOOK_BACK) : start])):
            start = max(0, start - _LOOK_BACK) + found.start()
    return Span(start, _closed(text, start, end))


def _second(tokens: list[Token]) -> Span | None:
    """Returns the place of the first word of the second statement."""
    for before, token in itertools.pairwise(tokens):
        if before.token_type is TokenType.SEMICOLON and token.token_type is not TokenType.SEMICOLON:
            return Span(token.start, token.end + 1)
    return None


def _closed(text: str, start: int, end: int) -> int:
    """Returns `end` moved behind the brackets that the stretch leaves open."""
    after = end
    if after < len(text) and text[after] == "(":
        after += 1
    depth = text.count("(", start, after) - text.count(")", start, after)
    while depth > 0 and after < len(text) and after - end < 200:
        depth += {"(": 1, ")": -1}.get(text[after], 0)
        after += 1
    return after if depth <= 0 and after - end < 200 else end


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise QuerySyntaxError("the query must be a string")
    if len(text) > MAX_CHARACTERS or len(text.encode("utf-8", "surrogatepass")) > MAX_CHARACTERS:
        start = text[:MAX_CHARACTERS].encode("utf-8", "surrogatepass")
        place = len(start[:MAX_CHARACTERS].decode("utf-8", "ignore"))
        raise QuerySyntaxError(f"the query is longer than {MAX_CHARACTERS} bytes", span=Span(place, place + 1))
    if text.isascii() and text.isprintable():
        return
    for place, character in enumerate(text):
        if character.isascii():
            if not character.isprintable() and character not in "\n\r\t\f":
                raise QuerySyntaxError("the query contains a control character", span=Span(place, place + 1))
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn"):
            raise QuerySyntaxError("the query contains an invisible character", span=Span(place, place + 1))


def _check_parts(text: str, grammar: Dialect) -> None:
    """Refuses a long text that is beyond the limits in a part that it begins with, without reading the rest.

    Each part is several times as long as the one before and at most half of the text, so what is read twice is at most
    two thirds of the text.
    """
    end = _READ_FIRST
    while 2 * end <= len(text):
        try:
            tokens, _ = mark(_tokens(text[:end], grammar))
        except QuerySyntaxError:  # cut within a quote, or not grammatical: the whole text tells
            tokens = []
        _check_size([token for token in tokens if token.end < end - _MAY_CHANGE])
        end *= _READ_NEXT


def _tokens(text: str, grammar: Dialect) -> list[Token]:
    # By PostgreSQL's rules; sqlglot 30 takes $1,$ for the beginning of a quote, beside what was mended in
    # https://github.com/tobymao/sqlglot/pull/2935. Until `parse_one("SELECT $1,$2", read="postgres")` passes.
    if grammar.tokenizer_class.HEREDOC_TAG_IS_IDENTIFIER:
        text = with_dollars_marked(text)
    try:
        return list(grammar.tokenize(text))
    except TokenError:
        reason = "the query cannot be read: a quote or comment is not closed"
        raise QuerySyntaxError(reason, span=_open_quote(text)).locate(text) from None


def _open_quote(text: str) -> Span | None:
    """Returns the place of the first quote or comment that is not closed, as far as standard SQL tells."""
    place = 0
    while (found := re.compile(r"'|\"|--|/\*").search(text, place)) is not None:
        opening = found.group()
        closing = {"--": "\n", "/*": "*/"}.get(opening, opening)
        end = text.find(closing, found.end())
        if end < 0:
            return None if opening == "--" else Span(found.start(), found.end())
        place = end + len(closing)
    return None


def _check_size(tokens: list[Token]) -> None:
    """Refuses too deep brackets and chains of signs, and too many tokens."""
    depth = chain = 0
    for token in tokens[: MAX_TOKENS + 1]:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        chain = chain + 1 if token.token_type in _CHAINING else 0
        if depth > MAX_DEPTH or chain > MAX_DEPTH:
            reason = f"the query is nested more than {MAX_DEPTH} deep"
            raise QuerySyntaxError(reason, span=Span(token.start, token.end + 1))
    if len(tokens) > MAX_TOKENS:
        beyond = tokens[MAX_TOKENS]
        raise QuerySyntaxError(f"the query has more than {MAX_TOKENS} words", span=Span(beyond.start, beyond.end + 1))


def _check_tokens(tokens: list[Token], dialect: str) -> None:
    """Refuses what would make the parser recurse too deep, and characters that names may not have.

    Also commas that end a list and words that touch a number: sqlglot 30 takes `a, FROM` for `a FROM`, on purpose
    (https://github.com/tobymao/sqlglot/issues/1926), and `1abc` for `1 AS abc`. Until it refuses both for PostgreSQL.
    """
    if not tokens:
        raise QuerySyntaxError("the query is empty")
    _check_size(tokens)
    for comma, token in zip(tokens, [*tokens[1:], None], strict=True):
        if comma.token_type is TokenType.COMMA and (token is None or token.token_type in _ENDING):
            if token is not None and token.token_type is TokenType.FROM and dialect in _TRAILING:
                continue
            raise QuerySyntaxError("nothing follows the comma", span=Span(comma.start, comma.end + 1))
    digits_end = -1
    for token in tokens:
        span = Span(token.start, token.end + 1)
        if token.token_type is TokenType.VAR and token.start == digits_end:
            raise QuerySyntaxError("there is no space between a number and a word", span=span)
        digits_end = token.end + 1 if token.token_type is TokenType.NUMBER else -1
        if token.token_type in (TokenType.STRING, TokenType.NATIONAL_STRING):
            if len(token.text) > MAX_STRING:
                raise QuerySyntaxError(f"a text is longer than {MAX_STRING} characters", span=span)
        elif token.token_type is TokenType.PARAMETER:
            raise QuerySyntaxError(f"{token.text} has no meaning here", span=span)
        elif token.token_type is not TokenType.IDENTIFIER and not token.text.isascii() and _looks_like(token.text):
            reason = "a name has characters that look like others; write it in quotes, or the plain letters"
            raise QuerySyntaxError(reason, span=span)


def _looks_like(word: str) -> bool:
    """Whether a word has characters that look like others."""
    return unicodedata.normalize("NFKC", word) != composed(word)


def _check_depth(tree: exp.Expression) -> None:
    """Refuses trees that later stages could not walk; long chains of operators are deep without brackets."""
    level: list[exp.Expression] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_TREE_DEPTH:
            span = next((found for node in level if (found := _place(node)) is not None), None)
            raise QuerySyntaxError(f"the query is nested more than {MAX_TREE_DEPTH} deep", span=span)
        level = [part for node in level for part in node.iter_expressions()]


def _place(node: exp.Expression) -> Span | None:
    start, end = node.meta.get("start"), node.meta.get("end")
    return Span(start, end + 1) if isinstance(start, int) and isinstance(end, int) else None


def _grammatical_in(text: str) -> str:
    """Returns what to do with a query that another dialect reads, "" if none does."""
    for dialect in OTHERS if len(text) <= LONGEST_KEPT else ():
        with suppress(QueryError):
            _read(text, dialect)
            return f'It is grammatical in {dialect}: write it as PostgreSQL has it, or with dialect="{dialect}".'
    return ""


def _syntax_error(error: ParseError, text: str, dialect: str) -> QueryError:
    """Returns our error for the parser's, with its place but not its wording."""
    details = error.errors[0] if error.errors else {}
    line, column, found = details.get("line"), details.get("col"), details.get("highlight") or ""
    if not isinstance(line, int) or not isinstance(column, int):
        return QuerySyntaxError("the query has a syntax error").locate(text)
    end = sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column
    start = max(0, end - len(found))
    span, advice = Span(start, max(end, start + 1)), _grammatical_in(text) if dialect == "postgres" else ""
    return QuerySyntaxError("the query has a syntax error here", advice=advice, span=span).locate(text)


class Named(NamedTuple):
    """A table as it is written: its schema or "", its name, and whether the name is in quotes."""

    schema: str
    name: str
    quoted: bool


def tables_named(tree: Tree) -> list[Named]:
    """Returns the tables that a query names anywhere, but for its own common tables."""
    common = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    return [
        Named(table.db.casefold(), table.name, bool(table.this.args.get("quoted")))
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.casefold() not in common)
    ]
