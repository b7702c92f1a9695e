"""What the owner wrote, as one tree for YAML and Python; its reading keeps every mistake, each with its place.

The tree holds plain immutable values alone. Nothing that a caller could change later, and no object with behaviour
of its own, gets past `tree_of_python`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction

from dpquery.catalog.names import shown, suggestion, text_fault
from dpquery.errors import CatalogError

DEEPEST = 24  # far more than any declaration needs
NULL_WORDS = frozenset({"", "~", "null", "Null", "NULL"})
FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
PLAIN_TYPES = (bool, int, float, str, Decimal, Fraction, datetime.date, datetime.datetime)


@dataclass(frozen=True, slots=True)
class Word:
    """A YAML scalar as written; its declared type decides what it means. `plain` means without quotes."""

    text: str
    plain: bool = True


class Broken(Enum):
    """In place of a value that was already refused."""

    BROKEN = "broken"


Leaf = Word | None | bool | int | float | str | Decimal | Fraction | datetime.date | datetime.datetime


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: the path of fields that leads to it, and its line (0 in Python)."""

    content: Leaf | tuple[Node, ...] | Mapping[str, Node] | Broken
    path: str
    line: int = 0

    @property
    def is_null(self) -> bool:
        """Whether nothing is written here, or `null`."""
        word = self.content
        return word is None or (isinstance(word, Word) and word.plain and word.text in NULL_WORDS)


def inside(path: str, name: str) -> str:
    """Returns the path of a field."""
    if name.isidentifier() and len(name) <= 60:
        return f"{path}.{name}" if path else name
    return f"{path}[{shown(name)}]"


@dataclass(slots=True)
class TreeReading:
    """The mistakes found so far. Its methods read a node as what is expected there, or note a mistake and return
    None; what is broken already is passed over in silence.

    Attributes:
        source: Name of the file, or "" for text and Python.
    """

    source: str = ""
    problems: list[tuple[int, str]] = field(default_factory=list)

    def refuse(self, node: Node, message: str) -> None:
        """Notes a mistake at a node."""
        self.refuse_at(node.line, node.path, message)

    def refuse_at(self, line: int, path: str, message: str) -> None:
        """Notes a mistake at a line (0 for none) and a path ("" for the whole)."""
        place = f"{self.source}:{line}: " if self.source and line else f"line {line}: " if line else ""
        self.problems.append((line, place + (f"{path}: " if path else "") + message))

    def finish(self) -> None:
        """Raises all mistakes together, in the order of their lines, if there are any."""
        if self.problems:
            raise self.error()

    def error(self) -> CatalogError:
        """Returns all mistakes as one error."""
        return CatalogError([text for _, text in sorted(self.problems, key=lambda problem: problem[0])])

    def is_broken(self, node: Node) -> bool:
        """Whether the value was refused already."""
        return node.content is Broken.BROKEN

    def mapping(self, node: Node) -> Mapping[str, Node]:
        """Returns the entries of a mapping; empty where it is none."""
        if isinstance(node.content, Mapping):
            return node.content
        if node.content is not Broken.BROKEN:
            self.refuse(node, "expected a mapping (name: value, ...)")
        return {}

    def fields(self, node: Node, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Node]:
        """Returns the fields of a mapping that are known and have a value; reports the others."""
        found = {}
        known = required + optional
        for name, value in self.mapping(node).items():
            if name not in known:
                self.refuse(value, f"unknown field {shown(name)}; {suggestion(name, known)}")
            elif value.is_null:
                self.refuse(value, "has no value; write one, or leave the field out")
            elif value.content is not Broken.BROKEN:
                found[name] = value
        if isinstance(node.content, Mapping):
            for name in required:
                if name not in node.content:
                    self.refuse(node, f"the field {shown(name)} is missing")
        return found

    def items(self, node: Node) -> tuple[Node, ...] | None:
        """Returns the items of a list."""
        if isinstance(node.content, tuple):
            return node.content
        self._expected(node, "a list [..., ...]")
        return None

    def text(self, node: Node) -> str | None:
        """Returns a text, exactly as written."""
        text = node.content.text if isinstance(node.content, Word) and not node.is_null else node.content
        if not isinstance(text, str):
            self._expected(node, "a text")
            return None
        if fault := text_fault(text):
            self.refuse(node, fault)
            return None
        return text

    def flag(self, node: Node) -> bool | None:
        """Returns true or false."""
        content = node.content
        if isinstance(content, Word) and content.plain and content.text in FLAGS:
            return FLAGS[content.text]
        if isinstance(content, bool):
            return content
        self._expected(node, "true or false")
        return None

    def count(self, node: Node, other: str = "") -> int | None:
        """Returns an integer from 1 to 2^31 - 1; `other` names what else may be written here."""
        content = node.content
        number: int | None = None
        if isinstance(content, Word) and content.plain and content.text.isascii() and content.text.isdigit():
            number = int(content.text) if content.text[0] != "0" and len(content.text) <= 10 else None
        elif isinstance(content, int) and not isinstance(content, bool):
            number = content
        if number is not None and 1 <= number < 2**31:
            return number
        self._expected(node, f"{other}an integer of at least 1 (and below 2^31)")
        return None

    def _expected(self, node: Node, what: str) -> None:
        if node.content is not Broken.BROKEN:
            self.refuse(node, f"expected {what}")


def tree_of_python(value: object, path: str, reading: TreeReading, depth: int = 0) -> Node:
    """Returns a Python value as a tree, deeply copied. Exact types alone: subclasses are refused."""
    if depth > DEEPEST:
        reading.refuse_at(0, path, "nested too deeply")
        return Node(Broken.BROKEN, path)
    if type(value) is dict:
        entries: dict[str, Node] = {}
        for name, inner in list(value.items()):
            if type(name) is str:
                entries[name] = tree_of_python(inner, inside(path, name), reading, depth + 1)
            elif name is True:
                reading.refuse_at(0, path, "the name True must be a text (YAML 1.1 reads `on` and `yes` as True)")
            else:
                reading.refuse_at(0, path, f"names must be strings, not {type(name).__name__}")
        return Node(entries, path)
    if type(value) in (list, tuple):
        copied = list(value)  # type: ignore[call-overload]
        return Node(tuple(tree_of_python(v, f"{path}[{i}]", reading, depth + 1) for i, v in enumerate(copied)), path)
    if value is None or type(value) in PLAIN_TYPES:
        return Node(value, path)  # type: ignore[arg-type]
    reading.refuse_at(0, path, f"a value of type {type(value).__name__} is not accepted; use plain Python values")
    return Node(Broken.BROKEN, path)
