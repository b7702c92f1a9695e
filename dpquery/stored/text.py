"""Plans as texts: two have the same text only if they are equal.

Every value is written with its type, every node with its class and the names of its fields, as JSON; so a text can be
read in one way alone. Places in the query's text are left out, as they are from comparisons.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from dpquery.catalog import Catalog
from dpquery.errors import InternalError
from dpquery.plan.types import Value

_REFERENCES = {
    "Column": ("id",),
    "Computed": ("id",),
    "ScanColumn": ("id",),
    "OutputColumn": ("id",),
    "AggregateColumn": ("id",),
    "WindowColumn": ("id", "partition_by"),
    "Matched": ("id", "left", "right"),
    "SortKey": ("column",),
    "Scan": ("unit",),
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
    return json.dumps(_written(value), separators=(",", ":"), ensure_ascii=True)


def digest(*texts: str) -> str:
    """Returns the SHA-256 of texts, in hexadecimal; different sequences have different ones."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _written(value: object) -> Any:
    match value:
        case None | bool() | str():
            return value
        case Enum():
            return ["enum", type(value).__name__, value.name]
        case int():
            return ["int", str(value)]
        case float():
            return ["float", value.hex()]
        case Fraction():
            return ["fraction", str(value.numerator), str(value.denominator)]
        case Decimal():
            return ["decimal", str(value)]
        case datetime.datetime():
            return ["timestamp", value.isoformat()]
        case datetime.date():
            return ["date", value.isoformat()]
        case tuple():
            return ["tuple", *(_written(part) for part in value)]
        case frozenset():
            return ["set", *sorted((_written(part) for part in value), key=json.dumps)]
        case Mapping():
            return ["mapping", *([_written(key), _written(part)] for key, part in value.items())]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _node(value)
        case _:
            raise InternalError(f"a plan holds a {type(value).__name__}")


def _node(node: Any) -> Any:
    kind = type(node).__name__
    for name in _REFERENCES.get(kind, ()):
        held = getattr(node, name)
        ids = held if isinstance(held, tuple) else () if held is None else (held,)
        if not all(id.startswith("#") for id in ids):
            raise NotCanonical
    return [f"node {kind}", *([name, _written(getattr(node, name))] for name in _fields(type(node)))]


def fingerprint(catalog: Catalog) -> str:
    """Returns the hash of what a catalog says of tables and contributions; budgets and analysts are the ledger's."""
    return digest(text_of((catalog.tables, catalog.defaults)))


_KNOWN: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    if kind not in _KNOWN:
        _KNOWN[kind] = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
    return _KNOWN[kind]


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
