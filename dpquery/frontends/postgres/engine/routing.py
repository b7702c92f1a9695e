"""Which way a statement goes: to the emulated catalogs, to the private engine, or back; previews of rows of single
units, which BI tools ask for, go to synthetic rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.catalog.names import SYNOPSES
from dpquery.errors import QueryError
from dpquery.frontends.postgres.wire.answers import FORBIDDEN, UNSUPPORTED, Refusal, refusal_of
from dpquery.session.synopses import Synopses
from dpquery.sql.parse.lists import as_select
from dpquery.sql.parse.parameters import Placeholder
from dpquery.sql.parse.parse import read, span_of

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
    tree: exp.Expr
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
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    tree = as_select(tree)
    if "current_timestamp" not in text.casefold():
        for clock in tree.find_all(exp.CurrentTimestamp):  # the parser makes one thing of both
            clock.meta["name"] = "now"
    if not isinstance(tree, exp.Select | exp.SetOperation) or tree.find(exp.Into, exp.Lock) is not None:
        raise Refusal(FORBIDDEN, READ_ONLY, None, "Write a SELECT.", 1)
    writes = tree.find(exp.Insert, exp.Update, exp.Delete, exp.Merge)
    if writes is not None:
        raise Refusal(FORBIDDEN, READ_ONLY, None, "Write a SELECT.", 1)
    tables = list(_tables(tree))
    systems = [table for table in tables if _is_system(table, catalog, system)]
    if tables and not systems:
        return RoutedStatement(text=text, tree=tree, placeholders=tuple(placeholders), route=Route.PRIVATE)
    if len(systems) < len(tables):
        raise Refusal(
            UNSUPPORTED,
            "one statement cannot read both system tables and tables of the dataset",
            None,
            "Ask two statements.",
            position_of(next(table for table in tables if table not in systems), text),
        )
    return RoutedStatement(text=text, tree=tree, placeholders=tuple(placeholders), route=Route.CATALOG)


def _read(text: str) -> tuple[exp.Expr, list[Placeholder]]:
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


def _tables(tree: exp.Expr) -> list[exp.Table]:
    """Returns the named tables that a statement reads, but for its own common tables."""
    common = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    return [
        table
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.casefold() not in common)
    ]


def _is_system(table: exp.Table, catalog: Catalog, system: Mapping[str, frozenset[str]]) -> bool:
    schema = table.db.lower()
    if schema in ("pg_catalog", "information_schema", "dp"):
        return True
    if schema or catalog.find_table(table.name, bool(table.this.args.get("quoted"))) is not None:
        return False
    return table.name.lower() in system["pg_catalog"]


def position_of(node: exp.Expr, text: str) -> int | None:
    """Returns where a node begins in the text, counted from 1."""
    span = span_of(node, text) if isinstance(node, exp.Expression) else None
    return None if span is None else span.start + 1


def over_synopses(tree: exp.Expr, catalog: Catalog, synopses: Synopses) -> str | None:
    """Returns a query with synthetic rows in place of each private table; None where one of them has no synopsis.

    Args:
        tree: The query, with constants for its parameters.
    """
    named = {one.table: name for name, one in synopses.items()}
    made = tree.copy()
    common = {cte.alias.casefold() for cte in made.find_all(exp.CTE)}
    for node in list(made.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier) or (not node.db and node.name.casefold() in common):
            continue
        table = catalog.find_table(node.name, bool(node.this.args.get("quoted")))
        if table is None or (not table.public and table.name not in named):
            return None
        if not table.public:
            columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in table.columns]
            synthetic = exp.Table(
                this=exp.to_identifier(named[table.name], quoted=True), db=exp.to_identifier(SYNOPSES, quoted=True)
            )
            alias = node.alias or node.name
            node.replace(exp.select(*columns).from_(synthetic).subquery(exp.to_identifier(alias, quoted=True)))
    for column in made.find_all(exp.Column):  # a table that was replaced has its name and no schema
        column.set("db", None)
        column.set("catalog", None)
    return made.sql(dialect="postgres")
