"""Formats of TO_CHAR, as PostgreSQL and snowflake write them, to those of `strftime`, in which plans have them."""

from __future__ import annotations

import re

from sqlglot import exp

_NUMBERS = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "IW": "%V", "MM": "%m", "MI": "%M", "DDD": "%j", "DD": "%d", "ID": "%u",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "SS": "%S", "Q": "%q",
}  # fmt: skip
"""Patterns of numbers, in any case."""
_POSTGRES = {"FMMonth": "%B", "Mon": "%b", "FMDay": "%A", "Dy": "%a", "AM": "%p", "PM": "%p"}
_SNOWFLAKE = {"MMMM": "%B", "MON": "%b", "Mon": "%b", "DY": "%a", "Dy": "%a", "AM": "%p", "PM": "%p"}
_WORDS = dict.fromkeys(("postgres", "redshift", "materialize", "risingwave"), _POSTGRES) | {"snowflake": _SNOWFLAKE}
"""Patterns of words, by dialect."""
_LAST_TEXT = re.compile(r"'((?:[^']|'')*)'\s*\)\s*$")

FORMATS = "Known: YYYY YY IYYY Q MM Mon FMMonth IW DD DDD ID Dy FMDay HH24 HH12 AM MI SS, and texts in double quotes."


def is_to_char(node: exp.Expression, dialect: str) -> bool:
    """Whether a node is TO_CHAR of a dialect whose patterns are known here."""
    return isinstance(node, exp.TimeToStr | exp.ToChar) and dialect in _WORDS


def format_of(written: str, dialect: str) -> str | None:
    """Returns the format that ends a call of TO_CHAR in the query's text, or None where it is not a known one.

    It is read from the text, as the parser has its own translation of it, which does not come back.
    """
    found = _LAST_TEXT.search(written)
    return None if found is None else strftime(found[1].replace("''", "'"), dialect)


def strftime(pattern: str, dialect: str) -> str | None:
    """Returns a pattern as a format of `strftime`, or None.

    Example:
        >>> strftime('YYYY"Q"Q', "postgres"), strftime("FMDay, HH24:MI", "postgres"), strftime("Month", "postgres")
        ('%YQ%q', '%A, %H:%M', None)
    """
    known = _WORDS[dialect]
    words = sorted((*known, *_NUMBERS), key=len, reverse=True)
    made, rest = "", pattern
    while rest:
        word = next((w for w in words if rest.startswith(w) or (w in _NUMBERS and rest.upper().startswith(w))), None)
        if word is not None:
            made, rest = made + (known.get(word) or _NUMBERS[word]), rest[len(word) :]
        elif quoted := re.match(r'"([^"%]*)"', rest):
            made, rest = made + quoted[1], rest[quoted.end() :]
        elif rest[0] in "-/:., _" or (rest[0] == "T" and dialect == "snowflake"):
            made, rest = made + rest[0], rest[1:]
        else:
            return None
    return made
