"""Plans as texts: two have the same text only if they are equal.

Every value is written with its type, every node with its class and the names of its fields, as JSON; so a text can be
read in one way alone. Places in the query's text are left out, as they are from comparisons.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpquery.catalog import Catalog
from dpquery.errors import InternalError
from dpquery.kernel.measures import Count, Lattice, Measure, Second, Total
from dpquery.plan.aggregates.aggregate import AggregateFunction
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal
from dpquery.plan.logical import Relation, Scan, sources
from dpquery.plan.types import Kind, Type, Value

_REFERENCES = {
    "Column": ("id",),
    "Computed": ("id",),
    "ScanColumn": ("id",),
    "OutputColumn": ("id",),
    "AggregateColumn": ("id",),
    "WindowColumn": ("id", "partition_by"),
    "Matched": ("id", "left", "right"),
    "SortKey": ("column",),
    "Scan": ("unit", "weight"),
    "Scaled": ("id",),
    "Aggregate": ("group_by",),
}
"""The fields that hold ids of columns."""


class NotCanonical(Exception):
    """A plan holds an id that is not of the canonical form, and may mean something else in another query."""


def text_of(value: object) -> str:
    """Returns the text of a plan or of a part of it, with ids in canonical form.

    Raises:
        NotCanonical: Some id is another.
    """
    return f'["int","{value}"]' if type(value) is int else _encode(_written(value))  # of keys there are thousands


def digest(*texts: str) -> str:
    """Returns the SHA-256 of texts, in hexadecimal; different sequences have different ones."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def _written(value: object) -> Any:
    """Returns a value as JSON; of which type it is, exactly, says how."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return ["int", str(value)]
    return _of_type(value) if isinstance(value, Type) else _node(value, kind)


@lru_cache(maxsize=256)
def _of_type(type: Type) -> Any:
    return _node(type, Type)


def _node(value: Any, kind: type) -> Any:
    fields = _KNOWN.get(kind)
    if fields is None:
        write = _WRITERS.get(kind)
        if write is not None:
            return write(value)
        if not dataclasses.is_dataclass(kind) or isinstance(value, _VALUES):
            return _written_rarely(value)
        compared = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
        # Of an aggregate function its name: no two have one, and its documentation may be written better.
        fields = _KNOWN[kind] = ("name",) if isinstance(value, AggregateFunction) else compared
    for name in _REFERENCES.get(kind.__name__, ()):
        held = getattr(value, name)
        for id in held if isinstance(held, tuple) else () if held is None else (held,):
            if not id.startswith("#"):
                raise NotCanonical
    found: list[Any] = [f"node {kind.__name__}"]
    for name in fields:
        part = getattr(value, name)
        form = type(part)
        if form is Type:
            found.append([name, _of_type(part)])
        else:
            found.append([name, part if form in _PLAIN else ["tuple"] if part == () else _written(part)])
    return found


_PLAIN = {str, bool, type(None)}
"""Types whose values are JSON as they are."""
_WRITERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    int: lambda value: ["int", str(value)],
    float: lambda value: ["float", value.hex()],
    Fraction: lambda value: ["fraction", str(value.numerator), str(value.denominator)],
    Decimal: lambda value: ["decimal", str(value)],
    datetime.datetime: lambda value: ["timestamp", value.isoformat()],
    datetime.date: lambda value: ["date", value.isoformat()],
    tuple: lambda value: ["tuple", *[part if type(part) in _PLAIN else _written(part) for part in value]],
    frozenset: lambda value: ["set", *sorted(map(_written, value), key=json.dumps)],
}
_VALUES = (str, Enum, Mapping)


def _written_rarely(value: object) -> Any:
    match value:
        case str():
            return value
        case Enum():
            return ["enum", type(value).__name__, value.name]
        case Mapping():
            return ["mapping", *([_written(key), _written(part)] for key, part in value.items())]
    for kind, write in _WRITERS.items():  # of a class below one of these
        if isinstance(value, kind):
            return write(value)
    raise InternalError(f"a plan holds a {type(value).__name__}")


_KNOWN: dict[type, tuple[str, ...]] = {}
"""The fields of classes of nodes that were written."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprints:
    """Hashes of what a catalog says of tables and weights; budgets and analysts are the ledger's."""

    catalog: Catalog
    known: dict[frozenset[str], str] = dataclasses.field(default_factory=dict)

    def of(self, relation: Relation) -> str:
        """Returns the hash of what is declared of the tables that a relation reads, and of all those that tell of them:
        parents of their rows, and tables of their keys."""
        return self.of_tables(frozenset(_tables(relation)))

    def of_tables(self, tables: frozenset[str]) -> str:
        """Returns the same of tables by their names."""
        if tables not in self.known:
            reached, left = set[str](), set(tables)
            while left:
                table = self.catalog.tables[left.pop()]
                reached.add(table.name)
                parents = () if table.ownership is None else (step.parent for step in table.ownership.path)
                keys = (column.keys_from[0] for column in table.columns.values() if column.keys_from is not None)
                left |= {*parents, *keys} - reached
            declared = {name: self.catalog.tables[name] for name in sorted(reached)}
            self.known[tables] = digest(text_of((declared, self.catalog.defaults)))
        return self.known[tables]


def _tables(relation: Relation) -> Iterator[str]:
    if isinstance(relation, Scan):
        yield relation.table
    for source in sources(relation):
        yield from _tables(source)


_READERS: dict[str, Any] = {
    "int": int,
    "float": float.fromhex,
    "decimal": Decimal,
    "timestamp": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
}


def value_of(text: str) -> Value:
    """Returns the SQL value that `text_of` wrote; raises ValueError for any other text."""
    read = json.loads(text)
    if read is None or isinstance(read, bool | str):
        return read
    if not (isinstance(read, list) and len(read) == 2 and read[0] in _READERS and isinstance(read[1], str)):
        raise ValueError("no SQL value")
    try:
        value: Value = _READERS[read[0]](read[1])
    except ArithmeticError as error:
        raise ValueError("no SQL value") from error
    return value


_EXPRESSIONS = (Call, Case, Cast, Column, Literal)
_NODES: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (*_EXPRESSIONS, Type, Measure, Lattice, Second, Total)
}
_ALL_READERS: dict[str, Callable[..., Any]] = {
    **_READERS,
    "fraction": lambda over, under: Fraction(int(over), int(under)),
}
_ENUMS: dict[str, type[Enum]] = {kind.__name__: kind for kind in (Kind, Count)}


@lru_cache(maxsize=4096)
def expression_of(text: str) -> Expression:
    """Returns the expression that `text_of` wrote; raises ValueError for any other text."""
    try:
        found = _read(json.loads(text))
    except (LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError("no expression") from error
    if not isinstance(found, _EXPRESSIONS):
        raise ValueError("no expression")
    return found


def measure_of(text: str) -> Measure:
    """Returns the measure of a text, with one id for all that its value and its filter are."""
    _, bare, *others = json.loads(text)
    made = _read(bare)
    assert isinstance(made, Measure)
    name = digest(_encode(others))
    return dataclasses.replace(made, id=text, value=None if made.value is None else name)


def _read(written: Any) -> Any:
    if written is None or isinstance(written, bool | str):
        return written
    tag, *rest = written
    if tag.startswith("node "):
        return _NODES[tag[5:]](**{name: _read(part) for name, part in rest})
    if tag == "tuple":
        return tuple(map(_read, rest))
    if tag == "enum":
        return _ENUMS[rest[0]][rest[1]]
    return _ALL_READERS[tag](*rest)
