"""Text to parsed tree: one SELECT, grammatical in its dialect, within limits; or an error with a position.

The limits are checked on the text and its tokens, before the parser runs: parsers recurse.
"""

from __future__ import annotations

import logging
import unicodedata

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpquery.errors import QueryError, QuerySyntaxError, Span, UnsupportedQueryError

MAX_CHARACTERS = 64 * 1024
MAX_TOKENS = 10_000
MAX_DEPTH = 50
MAX_TREE_DEPTH = 150
MAX_STRING = 10_000

Tree = exp.Expression
"""A parsed tree: SELECT, with or without WITH."""

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_CHAINING = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}

logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse(text: str, dialect: str = "postgres") -> Tree:
    """Returns the parsed tree of one SELECT statement.

    Args:
        text: The query, at most 64 KiB, 10,000 tokens and 50 brackets deep.
        dialect: Any dialect that sqlglot reads.
    Raises:
        QuerySyntaxError: Not one grammatical statement, or beyond the limits.
        UnsupportedQueryError: A statement other than SELECT.
    """
    try:
        grammar = Dialect.get_or_raise(dialect)
    except ValueError:
        raise QueryError(f"SQL dialect {dialect!r} is not known") from None
    _check_text(text)
    _check_tokens(_tokens(text, grammar))
    try:
        trees = [tree for tree in sqlglot.parse(text, read=grammar) if tree is not None]
    except ParseError as error:
        raise _syntax_error(error, text) from None
    except (SqlglotError, RecursionError, ValueError):
        raise QuerySyntaxError("the query cannot be parsed").locate(text) from None
    if len(trees) != 1:
        raise QuerySyntaxError("write exactly one SELECT statement").locate(text)
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and set(_present(tree)) <= {"this"}:
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.SetOperation):
        kind = type(tree).__name__.upper()
        raise UnsupportedQueryError(f"{kind} is not a query", advice="Only SELECT is answered.").locate(text)
    _check_depth(tree)
    return tree


def span_of(node: exp.Expression, text: str) -> Span | None:
    """Returns the stretch of the text that a node was parsed from, as far as the parser kept it."""
    starts, ends = [], []
    for part in node.walk():
        start, end = part.meta.get("start"), part.meta.get("end")
        if isinstance(start, int) and isinstance(end, int):
            starts.append(start)
            ends.append(end + 1)
    if not starts:
        return None
    start, end = min(starts), max(ends)
    return Span(start, _closed(text, start, end))


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


def _present(node: exp.Expression) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, False, [], ())]


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise QuerySyntaxError("a query is a text")
    if len(text) > MAX_CHARACTERS or len(text.encode("utf-8", "surrogatepass")) > MAX_CHARACTERS:
        raise QuerySyntaxError(f"the query is longer than {MAX_CHARACTERS} bytes")
    for place, character in enumerate(text):
        if character.isascii():
            if not character.isprintable() and character not in "\n\r\t\f":
                raise QuerySyntaxError("a control character stands in the query", span=Span(place, place + 1))
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn"):
            raise QuerySyntaxError("an invisible character stands in the query", span=Span(place, place + 1))


def _tokens(text: str, grammar: Dialect) -> list[Token]:
    try:
        return list(grammar.tokenize(text))
    except TokenError:
        raise QuerySyntaxError("the query cannot be read: a quote or comment is not closed").locate(text) from None


def _check_tokens(tokens: list[Token]) -> None:
    """Refuses what would make the parser recurse too deep, and characters that names may not have."""
    if not tokens:
        raise QuerySyntaxError("the query is empty")
    if len(tokens) > MAX_TOKENS:
        raise QuerySyntaxError(f"the query has more than {MAX_TOKENS} words")
    depth = chain = 0
    for token in tokens:
        span = Span(token.start, token.end + 1)
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        chain = chain + 1 if token.token_type in _CHAINING else 0
        if depth > MAX_DEPTH or chain > MAX_DEPTH:
            raise QuerySyntaxError(f"the query is nested more than {MAX_DEPTH} deep", span=span)
        if token.token_type in (TokenType.STRING, TokenType.NATIONAL_STRING):
            if len(token.text) > MAX_STRING:
                raise QuerySyntaxError(f"a text is longer than {MAX_STRING} characters", span=span)
        elif token.token_type is TokenType.PARAMETER:
            raise QuerySyntaxError("@ has no meaning here", span=span)
        elif not token.text.isascii() and unicodedata.normalize("NFKC", token.text) != token.text:
            raise QuerySyntaxError("a name has characters with a second form; write the plain letters", span=span)


def _check_depth(tree: exp.Expression) -> None:
    """Refuses trees that later stages could not walk; long chains of operators are deep without brackets."""
    level: list[exp.Expression] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_TREE_DEPTH:
            raise QuerySyntaxError(f"the query is nested more than {MAX_TREE_DEPTH} deep")
        level = [part for node in level for part in node.iter_expressions()]


def _syntax_error(error: ParseError, text: str) -> QueryError:
    """Returns our error for the parser's, with its place but not its wording."""
    details = error.errors[0] if error.errors else {}
    line, column, found = details.get("line"), details.get("col"), details.get("highlight") or ""
    if not isinstance(line, int) or not isinstance(column, int):
        return QuerySyntaxError("the query is not grammatical").locate(text)
    end = sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column
    start = max(0, end - len(found))
    return QuerySyntaxError("the query is not grammatical here", span=Span(start, max(end, start + 1))).locate(text)
