"""The version of the language that a catalog's file is written in: a word whose meaning changed is never guessed."""

from __future__ import annotations

from collections.abc import Mapping

from dpquery.catalog.tree import Node, TreeReading, Word

VERSION = 2
MOVED = (
    "in version 1, max_rows was the number of rows of one unit that count in each group of a query, by default 8; "
    "now it is the number of rows that one unit has in the whole table (or in each block), and each private table "
    "with a unit must declare it. Check every max_rows, then write version: 2 at the top"
)


def require_version(root: Node, said: Node | None, reading: TreeReading) -> None:
    """Notes a file that says no version, or another one than this.

    Args:
        said: What it says; None where it says nothing or was refused already.
    """
    if said is None:
        if isinstance(root.content, Mapping) and "version" not in root.content:
            reading.refuse(
                root, f"the file has no version, which means version 1, and that is no longer supported: {MOVED}"
            )
        return
    word = said.content.text if isinstance(said.content, Word) and said.content.plain else None
    if word == "1":
        reading.refuse(said, f"version 1 is no longer supported: {MOVED}")
    elif word != str(VERSION):
        reading.refuse(said, f"write version: {VERSION}, the supported version")
