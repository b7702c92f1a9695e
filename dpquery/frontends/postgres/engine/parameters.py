"""Parameters of a statement: their OIDs, and their values as the engine takes them."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence

from dpquery.frontends.postgres.wire import oids
from dpquery.frontends.postgres.wire.answers import INVALID_VALUE, SYNTAX, Refusal
from dpquery.sql.parse.parameters import MAX_PARAMETERS, Placeholder
from dpquery.sql.statements.parameter_types import ColumnType, TypeNumbers, inferred
from dpquery.sql.statements.statement_trees import Tree

NUMBERS = TypeNumbers(words=oids.TYPES, arrays=oids.ARRAYS)


def infer(
    tree: Tree, placeholders: Sequence[Placeholder], given: Sequence[int], column_oid: ColumnType
) -> tuple[int, ...]:
    """Returns the OIDs of the parameters $1, $2, ...: as the client says, else by what they stand beside, else text.

    Raises:
        Refusal: A parameter is written in another way.
    """
    for placeholder in placeholders:
        if not isinstance(placeholder.key, int) or not 1 <= placeholder.key <= MAX_PARAMETERS:
            raise Refusal(SYNTAX, "parameters are written $1, $2, ...", position=placeholder.span.start + 1)
    keys = [placeholder.key for placeholder in placeholders if isinstance(placeholder.key, int)]
    found = list(given) + [0] * (max([*keys, len(given)], default=0) - len(given))
    for key, oid in inferred(tree, placeholders, NUMBERS, column_oid):
        found[key - 1] = found[key - 1] or oid
    return tuple(oid or oids.TEXT for oid in found)


def values_of(given: Sequence[object]) -> list[object]:
    """Returns parameters as the engine takes them: times with a zone in UTC, identifiers as texts."""
    return [_value(value) for value in given]


def _value(value: object) -> object:
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC)
        case datetime.time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case list() | tuple():
            return [_value(part) for part in value]
        case bytes() | bytearray() | memoryview():
            raise Refusal(INVALID_VALUE, "values of type bytea are not supported")
    return value
