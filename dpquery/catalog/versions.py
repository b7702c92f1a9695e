"""The version of the language that a catalog's file is written in: a word whose meaning changed is never guessed."""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.catalog.tree import Node, Reading, Word

VERSION = 2
MOVED = (
    "max_rows was, in version 1, how many rows of one unit count in each group of a query, 8 where nobody said; it is "
    "now how many rows one unit has in the whole table (in each block of it), and each table of people must say it. "
    "Read max_rows over, then write version: 2 at the top"
)


def require_version(root: Node, said: Node | None, reading: Reading) -> None:
    """Notes a file that says no version, or another one than this.

    Args:
        said: What it says; None where it says nothing or was refused already.
    """
    if said is None:
        if isinstance(root.content, Mapping) and "version" not in root.content:
            reading.refuse(root, f"the file says no version, which means version 1, and that is read no more: {MOVED}")
        return
    word = said.content.text if isinstance(said.content, Word) and said.content.plain else None
    if word == "1":
        reading.refuse(said, f"version 1 is read no more: {MOVED}")
    elif word != str(VERSION):
        reading.refuse(said, f"write version: {VERSION}, the one that is read here")
