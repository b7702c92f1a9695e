"""Which way a statement goes: to the emulated catalogs, to the private engine, or back; previews of rows of single
units, which BI tools ask for, go to synthetic rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from dpquery.catalog import Catalog
from dpquery.errors import QueryError
from dpquery.frontends.postgres.wire.answers import FORBIDDEN, UNSUPPORTED, Refusal, refusal_of
from dpquery.sql.parse.parameters import Placeholder
from dpquery.sql.parse.parse import read
from dpquery.sql.statements.statement_trees import ReadTable, Tree, as_query, tables_of

READ_ONLY = "this server only answers SELECT; nothing here can be changed"


class Route(Enum):
    """Where a statement is answered."""

    CATALOG = "catalog"
    """In the emulated catalogs: system tables, virtual tables, expressions without a table. Free."""
    PRIVATE = "private"
    """In the engine, over declared tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedStatement:
    """One parsed statement.

    Attributes:
        text: As the analyst wrote it.
        tree: Its tree; names stand for its parameters.
        placeholders: Its parameters.
        route: Where it is answered.
    """

    text: str
    tree: Tree
    placeholders: tuple[Placeholder, ...]
    route: Route


def route(text: str, catalog: Catalog, system: Mapping[str, frozenset[str]]) -> RoutedStatement:
    """Returns a parsed statement and where it is answered.

    Args:
        system: The names of the emulated relations, by schema.
    Raises:
        Refusal: It is not a query, mixes system tables with declared ones, or is not grammatical.
    """
    tree, placeholders = _read(text)
    query = as_query(tree, text)
    if query is None:
        raise Refusal(FORBIDDEN, READ_ONLY, None, "Write a SELECT.", 1)
    tables = tables_of(query, text)
    systems = [table for table in tables if _is_system(table, catalog, system)]
    if tables and not systems:
        return RoutedStatement(text=text, tree=query, placeholders=tuple(placeholders), route=Route.PRIVATE)
    if len(systems) < len(tables):
        raise Refusal(
            UNSUPPORTED,
            "one statement cannot read both system tables and tables of the dataset",
            None,
            "Ask two statements.",
            next(table for table in tables if table not in systems).position,
        )
    return RoutedStatement(text=text, tree=query, placeholders=tuple(placeholders), route=Route.CATALOG)


def _read(text: str) -> tuple[Tree, list[Placeholder]]:
    try:
        return read(text)
    except QueryError as error:
        plain = _REGULAR_LISTS.sub(r"::ger\1[]", _OID_LISTS.sub("::int[]", text))
        if plain == text:
            raise refusal_of(error) from None
    try:
        return read(plain)
    except QueryError as error:
        raise refusal_of(error) from None


_OID_LISTS = re.compile(r"::oid\[\]", re.IGNORECASE)
_REGULAR_LISTS = re.compile(r"::reg(type|class|proc|role|namespace)\[\]", re.IGNORECASE)
"""Types that the parser does not know. What stands for them is as long, so that places stay: lists of integers, and
names that it takes for types of the user's own."""


def _is_system(table: ReadTable, catalog: Catalog, system: Mapping[str, frozenset[str]]) -> bool:
    schema = table.schema.lower()
    if schema in ("pg_catalog", "information_schema", "dp"):
        return True
    if schema or catalog.find_table(table.name, table.is_quoted) is not None:
        return False
    return table.name.lower() in system["pg_catalog"]
