"""Constant patterns: LIKE, and regular expressions in the subset on which RE2 and Python agree.

Allowed: characters, `.`, `^`, `$`, `\\d \\w \\s` and their opposites, escaped punctuation, classes, groups, `|`, and
the quantifiers `* + ? {m} {m,} {m,n}` (counts up to 100; a `?` after them). Refused: back-references, lookaround,
possessive and atomic groups, flags, named groups and everything else.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dpquery.plan.expr import Call, Expression
from dpquery.plan.functions.promotion import Expressions, Types, signature
from dpquery.plan.functions.table import (
    TEXT_LIMIT,
    Constant,
    Lengths,
    Signature,
    SignatureError,
    Texts,
    constant,
    function,
    is_null_literal,
    text_literal,
)
from dpquery.plan.functions.text import lower, truth, unranged
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, TEXT

_TOKEN = re.compile(
    r"""(?P<quantifier>(?:[*+?]|\{(?:[0-9]{1,3})(?:,[0-9]{0,3})?\})\??)
      | (?P<class>\[\^?(?:[^\[\]\\&~|^]|\\[dws]|\\[nt]|\\[^\w\s])+\])
      | (?P<escape>\\(?:[dDwWsS]|[nt]|[!-/:-@\[-`{-~]))
      | (?P<open>\((?:\?:)?) | (?P<close>\)) | (?P<bar>\|) | (?P<anchor>[\^$]) | (?P<any>\.)
      | (?P<literal>[^\\\[\](){}*+?|^$.])""",
    re.VERBOSE | re.DOTALL,
)
_PERL = {"\\d": "0-9", "\\w": "0-9A-Za-z_", "\\s": "\\t\\n\\f\\r "}
MAX_COUNT = 100


def tokens(pattern: str) -> list[tuple[str, str]]:
    """Returns the pattern as (kind, text) pairs.

    Raises:
        SignatureError: The pattern is outside the subset.
    """
    found: list[tuple[str, str]] = []
    place, depth = 0, 0
    while place < len(pattern):
        match = _TOKEN.match(pattern, place)
        if match is None or match.lastgroup is None:
            raise SignatureError(f"the pattern uses an unsupported feature at character {place + 1}")
        kind, text = match.lastgroup, match.group()
        depth += (kind == "open") - (kind == "close")
        if depth < 0 or depth > 20:
            raise SignatureError("the groups of the pattern do not match, or nest too deeply")
        if kind == "class" and re.search(r"\\[dws]-|-\\[dws]|--", text):
            raise SignatureError("a range in the pattern is not closed")
        if kind == "quantifier":
            _check_quantifier(text, found[-1][0] if found else "open")
        found.append((kind, text))
        place = match.end()
    if depth:
        raise SignatureError("the groups of the pattern do not match")
    return found


def _check_quantifier(text: str, before: str) -> None:
    if before in ("quantifier", "open", "bar", "anchor"):
        raise SignatureError("a quantifier of the pattern has nothing to repeat")
    counts = [int(n) for n in re.findall("[0-9]+", text)]
    if any(n > MAX_COUNT for n in counts) or sorted(counts) != counts:
        raise SignatureError(f"counts in the pattern must ascend and be at most {MAX_COUNT}")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Returns the pattern in Python's words: classes spelled out, the end being the end.

    Raises:
        SignatureError: The pattern is outside the subset.
    """
    try:
        result = re.compile("".join(_python(kind, text) for kind, text in tokens(pattern)))
    except (re.error, OverflowError, RecursionError):
        raise SignatureError("the pattern is not a valid regular expression") from None
    repeated = 1
    for kind, text in tokens(pattern):
        if kind == "quantifier" and text[0] == "{":
            repeated *= max(max(int(n) for n in re.findall("[0-9]+", text)), 1)
    if repeated > 1000:
        raise SignatureError("the counts of the pattern multiply to more than 1000")
    return result


def _python(kind: str, text: str) -> str:
    if kind == "anchor":
        return r"\Z" if text == "$" else "^"
    if kind == "class":
        return re.sub(r"\\[dws]", lambda m: _PERL[m.group()], text)
    if kind == "escape" and text.lower() in _PERL:
        return f"[{'^' if text[1].isupper() else ''}{_PERL[text.lower()]}]"
    return text if kind != "literal" else re.escape(text)


def like_parts(pattern: str, escape: str) -> list[str]:
    """Returns a LIKE pattern as parts: "%", "_", or a text of one character behind "=".

    Raises:
        SignatureError: The escape character is not one character, or ends the pattern.
    """
    if len(escape) > 1 or escape in ("%", "_"):
        raise SignatureError("the escape of LIKE must be one character, neither % nor _")
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise SignatureError("the pattern of LIKE ends with its escape character")
            parts.append("=" + following)
        else:
            parts.append(character if character in "%_" else "=" + character)
    return parts


def matches(x: str, parts: list[str]) -> bool:
    """Whether a text is like the parts of a pattern; at most len(x) * len(parts) steps."""
    reached = {0}
    for part in parts:
        if part == "%":
            reached = set(range(min(reached), len(x) + 1)) if reached else reached
        else:
            reached = {i + 1 for i in reached if i < len(x) and part in ("_", "=" + x[i])}
    return len(x) in reached


def _like_resolve(types: Types, expressions: Expressions) -> Signature | None:
    if not 2 <= len(types) <= 3 or not (types[0] == TEXT or is_null_literal(expressions[0])):
        return None
    pattern = text_literal(expressions[1], "the pattern of LIKE")
    like_parts(pattern, text_literal(expressions[2], "the escape of LIKE") if len(types) == 3 else "\\")
    return (TEXT,) * len(types), BOOLEAN


def _weight(pattern: str) -> int:
    """Returns how many states a search for a pattern may be in: its parts, each as often as it is counted."""
    groups: list[list[int]] = [[]]
    for kind, text in tokens(pattern):
        if kind == "open":
            groups.append([])
        elif kind == "close":
            inner = groups.pop()
            groups[-1].append(1 + sum(inner))
        elif kind == "quantifier":
            groups[-1][-1] *= max([1, *(int(n) for n in re.findall("[0-9]+", text))])
        else:
            groups[-1].append(1)
    return sum(groups[0])


def _likened(call: Call, given: Lengths) -> int:
    """Each part of a pattern may be compared at each place of the text, 64 characters in one step."""
    return given[0] * (1 + len(str(constant(call, 1))) // 8)


def _matched(call: Call, given: Lengths) -> int:
    """A regular expression is in each of its states at each place of the text, at 16 characters in one step."""
    return 4 * given[0] * (1 + _weight(constant(call, 1)))


_LIKENED = Texts(makes=lambda _, __: 0, reads=_likened)
_REGEXP = Constant(TEXT, lambda given: compiled(text_literal(given, "a regular expression")))
_MATCHED = Texts(makes=lambda _, __: 0, reads=_matched)


@function(_like_resolve, truth, sql="a LIKE 'x%'", parsed="", engine="", texts=_LIKENED)
def like(x: str, pattern: str, escape: str = "\\") -> bool:
    """Whether it is like a constant pattern (% any text, _ any character); NULL if it is."""
    return matches(x, like_parts(pattern, escape))


@function(_like_resolve, truth, sql="a ILIKE 'x%'", parsed="", engine="", texts=_LIKENED)
def ilike(x: str, pattern: str, escape: str = "\\") -> bool:
    """LIKE between the texts in small letters; NULL if it is."""
    return matches(lower.meaning(x), [lower.meaning(part) for part in like_parts(pattern, escape)])


@function(
    signature(TEXT, _REGEXP, result=BOOLEAN),
    truth,
    sql="a ~ 'x+'",
    parsed="RegexpLike regexp_matches/2",
    texts=_MATCHED,
)
def regexp_matches(x: str, pattern: str) -> bool:
    """Whether a constant regular expression matches a part of it; NULL if it is."""
    return compiled(pattern).search(x) is not None


def _pattern_with_group(given: Expression) -> bool:
    if compiled(text_literal(given, "a regular expression")).groups > 1:
        raise SignatureError("a pattern of which a part is taken has one group at most")
    return True


def _pattern_of_something(given: Expression) -> bool:
    if compiled(text_literal(given, "a regular expression")).search("") is not None:
        raise SignatureError("a pattern that is replaced must not match an empty text")
    return True


def _replacement(given: Expression) -> bool:
    if "\\" in text_literal(given, "what REGEXP_REPLACE puts instead"):
        raise SignatureError("what REGEXP_REPLACE puts instead can hold no backslash")
    return True


def _flags(given: Expression) -> bool:
    if text_literal(given, "the flags") not in ("", "g"):
        raise SignatureError("of the flags of REGEXP_REPLACE only 'g' is known")
    return True


def replaces_all(call: Call) -> bool:
    """Whether a call of REGEXP_REPLACE replaces every match."""
    return len(call.arguments) > 3 and constant(call, 3) == "g"


def pattern_part(call: Call) -> int:
    """Returns how many characters of a text REGEXP_REPLACE reads, so that its result has no more than fit."""
    new = len(constant(call, 2))
    return TEXT_LIMIT // max(1, new) if replaces_all(call) else TEXT_LIMIT - new


def _after_replacing(call: Call, given: Lengths) -> int:
    read, new = min(given[0], pattern_part(call)), len(constant(call, 2))
    return read * max(1, new) if replaces_all(call) else read + new


_TAKEN = Texts(makes=lambda _, given: given[0], reads=lambda call, given: 2 * _matched(call, given) + given[0])
_REPLACED = Texts(
    makes=_after_replacing, reads=lambda call, given: _matched(call, given) + _after_replacing(call, given)
)


@function(
    signature(TEXT, Constant(TEXT, _pattern_with_group), result=TEXT),
    lambda _, __: Range(nullable=True),
    sql="SUBSTRING(a FROM 'x(y)')",
    parsed="regexp_substr/2",
    engine="",
    texts=_TAKEN,
)
def regexp_extract(x: str, pattern: str) -> str | None:
    """The first part that a constant regular expression matches, or its group; NULL if it is, or if nothing matches."""
    found = compiled(pattern).search(x)
    return None if found is None else found[compiled(pattern).groups] or ""


@function(
    signature(
        TEXT,
        Constant(TEXT, _pattern_of_something),
        Constant(TEXT, _replacement),
        Constant(TEXT, _flags),
        result=TEXT,
        optional=1,
    ),
    unranged,
    sql="REGEXP_REPLACE(a, 'x+', 'y', 'g')",
    parsed="",
    engine="",
    texts=_REPLACED,
)
def regexp_replace(x: str, pattern: str, new: str, flags: str = "") -> str:
    """The text with a constant instead of the first match of a constant regular expression, with 'g' of all; NULL if it
    is."""
    part = TEXT_LIMIT // max(1, len(new)) if flags == "g" else TEXT_LIMIT - len(new)
    return compiled(pattern).sub(lambda _: new, x[:part], count=0 if flags == "g" else 1)
