"""YAML text → tree. Scalars keep their exact text; nothing is resolved, constructed or shared.

Only the parser of PyYAML is used. Its events become nodes here, so `NO`, `010`, `1:30` and `1e3` are what was written,
and tags, anchors, aliases and repeated names have no meaning to abuse: they are mistakes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from dpquery.catalog.names import shown
from dpquery.catalog.tree import DEEPEST, Broken, Node, TreeReading, Word, inside
from dpquery.errors import CatalogError

LARGEST_FILE = 4 * 1024 * 1024  # bytes


def read_file(path: str | os.PathLike[str]) -> str:
    """Returns the text of a catalog file: UTF-8, at most 4 MiB."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CatalogError(f"{file.name}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise CatalogError("the catalog's path is not a valid path") from None
    if len(content) > LARGEST_FILE:
        raise CatalogError(f"{file.name}: a catalog has at most 4 MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CatalogError(f"{file.name}:{line}: is not UTF-8; save the file in that encoding") from None


def tree_of_yaml(text: str, reading: TreeReading) -> Node:
    """Returns the one document of a YAML text as a tree. A text that is no YAML at all raises CatalogError."""
    prefix = f"{reading.source}: " if reading.source else ""
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE:
        raise CatalogError(f"{prefix}a catalog has at most 4 MiB")
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        return _document(_events(loader), reading)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reading.refuse_at(mark.line + 1 if mark else 0, "", f"not YAML: {error.problem or error.context}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 0
        reading.refuse_at(line, "", "not YAML: it contains a character that YAML forbids")
    except (ValueError, OverflowError):  # a number of the file that Python has no character or version for
        reading.refuse_at(loader.line + 1 if loader else 0, "", "not YAML: an escape or a directive is out of range")
    finally:
        if loader is not None:
            loader.dispose()
    raise reading.error()


def _events(loader: yaml.SafeLoader) -> Iterator[yaml.Event]:
    while loader.check_event():
        yield loader.get_event()  # type: ignore[no-untyped-call]


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return mark.line + 1 if mark else 0


def _document(events: Iterator[yaml.Event], reading: TreeReading) -> Node:
    next(events)  # start of the stream
    if isinstance(next(events), yaml.StreamEndEvent):
        raise CatalogError(f"{reading.source}: the catalog is empty" if reading.source else "the catalog is empty")
    root = _node(next(events), events, reading, "", 1, 0)
    next(events)  # end of the document
    following = next(events)
    if not isinstance(following, yaml.StreamEndEvent):
        reading.refuse_at(_line(following), "", "a second YAML document; a catalog is one")
    return root


def _node(
    event: yaml.Event, events: Iterator[yaml.Event], reading: TreeReading, path: str, line: int, depth: int
) -> Node:
    """Returns the node that begins with this event; `line` is that of its name, or its own."""
    if depth > DEEPEST:
        reading.refuse_at(line, path[:200], "nested too deeply")
        raise reading.error()
    if isinstance(event, yaml.AliasEvent):
        reading.refuse_at(line, path, f"the alias *{event.anchor} is not accepted; write the value again")
        return Node(Broken.BROKEN, path, line)
    assert isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent)
    if event.anchor is not None:
        reading.refuse_at(line, path, f"the anchor &{event.anchor} is not accepted; write each value out")
    if event.tag is not None:
        reading.refuse_at(line, path, f"the tag {shown(event.tag)} is not accepted; declared types decide")
    if isinstance(event, yaml.ScalarEvent):
        return Node(Word(event.value, plain=event.style is None), path, line)
    if isinstance(event, yaml.SequenceStartEvent):
        return Node(_sequence(events, reading, path, depth + 1), path, line)
    return Node(_mapping(events, reading, path, depth + 1), path, line)


def _sequence(events: Iterator[yaml.Event], reading: TreeReading, path: str, depth: int) -> tuple[Node, ...]:
    items: list[Node] = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        items.append(_node(event, events, reading, f"{path}[{len(items)}]", _line(event), depth))
    return tuple(items)


def _mapping(events: Iterator[yaml.Event], reading: TreeReading, path: str, depth: int) -> dict[str, Node]:
    entries: dict[str, Node] = {}
    lines: dict[str, int] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        line = _line(event)
        name = _node(event, events, reading, path, line, depth).content
        if not isinstance(name, Word):
            reading.refuse_at(line, path, "a name must be a text")
            _node(next(events), events, reading, path, line, depth)
            continue
        value = _node(next(events), events, reading, inside(path, name.text), line, depth)
        if name.text in entries:
            reading.refuse(value, f"is declared twice; first in line {lines[name.text]}")
        else:
            entries[name.text], lines[name.text] = value, line
    return entries
