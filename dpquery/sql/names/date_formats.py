"""Formats of TO_CHAR, as PostgreSQL and snowflake write them, in pieces: formats of `strftime`, in which plans have
them, and what is done with the text of each."""

from __future__ import annotations

import re
from enum import Enum, auto

from sqlglot import exp


class Made(Enum):
    """What is made of the text of a format."""

    AS_IT_IS = auto()
    UPPER = auto()
    LOWER = auto()
    PADDED = auto()
    """Followed by spaces up to the length of September and Wednesday."""
    UPPER_PADDED = auto()
    LOWER_PADDED = auto()
    WITHOUT_ZEROS = auto()


Piece = tuple[str, Made]
"""A format of `strftime`, and what is made of its text."""

_NUMBERS = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "IW": "%V", "MM": "%m", "MI": "%M", "DDD": "%j", "DD": "%d", "ID": "%u",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "SS": "%S", "Q": "%q",
}  # fmt: skip
"""Patterns of numbers, in any case."""
_PLAIN = (("", Made.AS_IT_IS), ("upper", Made.UPPER), ("lower", Made.LOWER))
_BROAD = (("", Made.PADDED), ("upper", Made.UPPER_PADDED), ("lower", Made.LOWER_PADDED))


def _cased(word: str, form: str, kinds: tuple[tuple[str, Made], ...], prefix: str = "") -> dict[str, Piece]:
    return {prefix + (getattr(word, case)() if case else word): (form, made) for case, made in kinds}


_POSTGRES: dict[str, Piece] = {
    **_cased("Mon", "%b", _PLAIN),
    **_cased("Dy", "%a", _PLAIN),
    **_cased("Month", "%B", _BROAD),
    **_cased("Day", "%A", _BROAD),
    **_cased("Month", "%B", _PLAIN, "FM"),
    **_cased("Day", "%A", _PLAIN, "FM"),
    **dict.fromkeys(("AM", "PM"), ("%p", Made.AS_IT_IS)),
    **dict.fromkeys(("am", "pm"), ("%p", Made.LOWER)),
    **{f"FM{word}": (form, Made.WITHOUT_ZEROS) for word, form in _NUMBERS.items()},
}
_SNOWFLAKE = {
    word: (form, Made.AS_IT_IS)
    for word, form in {"MMMM": "%B", "MON": "%b", "Mon": "%b", "DY": "%a", "Dy": "%a", "AM": "%p", "PM": "%p"}.items()
}
_WORDS = dict.fromkeys(("postgres", "redshift", "materialize", "risingwave"), _POSTGRES) | {"snowflake": _SNOWFLAKE}
"""Patterns of words, by dialect."""
_LAST_TEXT = re.compile(r"'((?:[^']|'')*)'\s*\)\s*$")

FORMATS = (
    "Known: YYYY YY IYYY Q MM Mon Month IW DD DDD ID Dy Day HH24 HH12 AM MI SS, with FM before them without padding, "
    "and texts in double quotes."
)


def is_to_char(node: exp.Expression, dialect: str) -> bool:
    """Whether a node is TO_CHAR of a dialect whose patterns are known here."""
    return isinstance(node, exp.TimeToStr | exp.ToChar) and dialect in _WORDS


def format_of(written: str, dialect: str) -> list[Piece] | None:
    """Returns the format that ends a call of TO_CHAR in the query's text, or None where it is not a known one.

    It is read from the text, as the parser has its own translation of it, which does not come back.
    """
    found = _LAST_TEXT.search(written)
    return None if found is None else pieces(found[1].replace("''", "'"), dialect)


def pieces(pattern: str, dialect: str) -> list[Piece] | None:
    """Returns a pattern in pieces, or None where it holds an unknown one.

    Example:
        >>> [form for form, _ in pieces('YYYY"Q"Q', "postgres") or ()]
        ['%YQ%q']
        >>> [(form, made.name) for form, made in pieces("Day, FMDD.MM.", "postgres") or ()]
        [('%A', 'PADDED'), (', ', 'AS_IT_IS'), ('%d', 'WITHOUT_ZEROS'), ('.%m.', 'AS_IT_IS')]
    """
    known = _WORDS[dialect]
    words = sorted((*known, *_NUMBERS), key=len, reverse=True)
    made: list[Piece] = []
    rest = pattern
    while rest:
        word = next((w for w in words if rest.startswith(w) or (w in _NUMBERS and rest.upper().startswith(w))), None)
        if word is not None:
            piece, rest = known.get(word) or (_NUMBERS[word], Made.AS_IT_IS), rest[len(word) :]
        elif quoted := re.match(r'"([^"%]*)"', rest):
            piece, rest = (quoted[1], Made.AS_IT_IS), rest[quoted.end() :]
        elif rest[0] in "-/:., _" or (rest[0] == "T" and dialect == "snowflake"):
            piece, rest = (rest[0], Made.AS_IT_IS), rest[1:]
        else:
            return None
        if made and made[-1][1] is piece[1] is Made.AS_IT_IS:
            made[-1] = (made[-1][0] + piece[0], Made.AS_IT_IS)
        else:
            made.append(piece)
    return made
