"""Names of datasets, tables, columns and analysts: which are allowed, and when two are the same."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

LONGEST_NAME = 128
SYNOPSES = "synopsis"
"""The schema of synopses: tables of synthetic rows."""
BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # printable, yet nothing is seen


def fold(name: str) -> str:
    """Returns the form in which unquoted names are compared: case-folded, composed.

    Example:
        >>> fold("Age") == fold("AGE") == "age"
        True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def composed(name: str) -> str:
    """Returns the form in which names are compared: letters and their marks in one, as they are seen.

    Example:
        >>> composed("e\u0301") == "\u00e9"
        True
    """
    return unicodedata.normalize("NFC", name)


def is_synopsis(table: str) -> bool:
    """Whether a table of the catalog with synopses is one of synthetic rows, by its name."""
    return table.startswith(f"{SYNOPSES}.")


def name_fault(name: str) -> str | None:
    """Returns what is wrong with a name, or None: a name is seen as it is, so that two names never look the same.

    Control, bidirectional and zero-width characters, and blanks other than the space, are refused.
    """
    if not name:
        return "a name cannot be empty"
    if len(name) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters; this one has {len(name)}"
    hidden = next((c for c in name if not c.isprintable() or c in BLANK_LETTERS), None)
    if hidden is not None:
        return f"the name {shown(name)} has a control or invisible character (U+{ord(hidden):04X})"
    if name != name.strip():
        return f"the name {shown(name)} begins or ends with a blank; rename it in the data"
    return None


def text_fault(text: str) -> str | None:
    """Returns why no engine can store a text, or None."""
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
        return "the text contains NUL or half of a surrogate pair, which cannot be stored"
    return None


def shown(text: str) -> str:
    """Returns a text in quotes for a message, with invisible characters escaped and a long text cut."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def quoted(name: str) -> str:
    """Returns a name as a quoted identifier of SQL; it may contain any character.

    Example:
        >>> quoted('x" FROM secrets --')
        '"x"" FROM secrets --"'
    """
    return '"' + name.replace('"', '""') + '"'


def plain(text: str) -> str:
    """Returns a text on one line for a terminal, with invisible characters escaped."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most like a name, if one is near."""
    by_fold = {fold(n): n for n in known}
    near = difflib.get_close_matches(fold(name[:LONGEST_NAME]), by_fold, n=1)
    return by_fold[near[0]] if near else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns "did you mean ...?" where a known name is near, or else the known names, as the end of a sentence."""
    names = list(known)
    near = closest(name, names)
    if near is not None:
        return f"did you mean {shown(near)}?"
    listed = ", ".join(shown(n) for n in names[:12]) + (", ..." if len(names) > 12 else "")
    return f"known: {listed}" if names else "none is declared"
