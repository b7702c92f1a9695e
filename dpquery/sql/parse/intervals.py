"""Intervals of several parts, as '2 days 03:00:00': in one unit, as the parser would read the first part alone."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

from sqlglot.tokenizer_core import Token, TokenType

from dpquery.errors import QuerySyntaxError, Span

_SECONDS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "day": 86_400, "week": 604_800}
_MONTHS = {"month": 1, "mon": 1, "year": 12, "yr": 12}
_PART = re.compile(r"\s*([-+]?)(?:(\d{1,9}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?|(\d{1,9}(?:\.\d{1,6})?)\s*([a-zA-Z]+))\s*")
_PLAIN = re.compile(r"\s*[-+]?[\d.]+\s*[a-zA-Z]+\s*|[^a-zA-Z]*")


def in_one_unit(text: str) -> str | None:
    """Returns an interval of months, or of days and seconds, in one unit; None for another text.

    Example:
        >>> in_one_unit("2 days 03:00:00"), in_one_unit("1 year 2 mons"), in_one_unit("1 month 1 day")
        ('183600 seconds', '14 months', None)
    """
    place, months, seconds = 0, Fraction(0), Fraction(0)
    while place < len(text):
        found = _PART.match(text, place)
        if found is None:
            return None
        minus, hours, minutes, rest, count, word = found.groups()
        sign = -1 if minus == "-" else 1
        unit = (word or "").lower()
        unit = unit if unit in _SECONDS or unit in _MONTHS else unit.removesuffix("s")
        if hours is not None:
            seconds += sign * (3600 * int(hours) + 60 * int(minutes) + Fraction(rest or 0))
        elif unit in _SECONDS:
            seconds += sign * Fraction(count) * _SECONDS[unit]
        elif unit in _MONTHS:
            months += sign * Fraction(count) * _MONTHS[unit]
        else:
            return None
        place = found.end()
    if (months and seconds) or months.denominator != 1 or seconds.denominator != 1:
        return None
    if months:
        return f"{months} months"
    return f"{seconds // 86_400} days" if seconds % 86_400 == 0 else f"{seconds} seconds"


def with_whole_intervals(tokens: list[Token]) -> list[Token]:
    """Returns the tokens with each interval of several parts in one unit.

    sqlglot 30 reads INTERVAL '2 days 03:00:00' as two days. Until it keeps the rest, or refuses it.
    Raises:
        QuerySyntaxError: Text behind INTERVAL that is not an interval of one unit.
    """
    made = list(tokens)
    for place, (before, token) in enumerate(itertools.pairwise(tokens), start=1):
        is_text = before.token_type is TokenType.INTERVAL and token.token_type is TokenType.STRING
        if not is_text or _PLAIN.fullmatch(token.text):
            continue
        one = in_one_unit(token.text)
        if one is None:
            raise QuerySyntaxError(
                "this interval cannot be read",
                advice="Add several: + INTERVAL '1 month' + INTERVAL '3 days'.",
                span=Span(token.start, token.end + 1),
            )
        made[place] = Token(TokenType.STRING, one, token.line, token.col, token.start, token.end)
    return made
