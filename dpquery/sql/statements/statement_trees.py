"""What a parsed statement is, as far as a server asks: a query or not, over which tables, and where it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.catalog.names import SYNOPSES
from dpquery.sql.parse.lists import as_select
from dpquery.sql.parse.parse import span_of

Tree = exp.Expr
"""A parsed statement, which only `sql` looks into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """A table that a statement names.

    Attributes:
        schema: As it is written; empty where it is not.
        position: Where the table begins in the text, counted from 1, if that is known.
    """

    name: str
    schema: str
    is_quoted: bool
    position: int | None


def as_query(tree: Tree, text: str) -> Tree | None:
    """Returns a statement without brackets around it and with its clocks as they are written.

    None where it is no SELECT, or locks or writes anything.
    """
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    tree = as_select(tree)
    if "current_timestamp" not in text.casefold():
        for clock in tree.find_all(exp.CurrentTimestamp):  # the parser makes one thing of both
            clock.meta["name"] = "now"
    if not isinstance(tree, exp.Select | exp.SetOperation) or tree.find(exp.Into, exp.Lock) is not None:
        return None
    return None if tree.find(exp.Insert, exp.Update, exp.Delete, exp.Merge) is not None else tree


def tables_of(tree: Tree, text: str) -> list[ReadTable]:
    """Returns the named tables that a statement reads, but for its own common tables."""
    common = _common(tree)
    return [
        ReadTable(
            name=table.name,
            schema=table.db,
            is_quoted=bool(table.this.args.get("quoted")),
            position=position_of(table, text),
        )
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.casefold() not in common)
    ]


def _common(tree: Tree) -> set[str]:
    return {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}


def position_of(node: Tree, text: str) -> int | None:
    """Returns where a node begins in the text, counted from 1."""
    span = span_of(node, text) if isinstance(node, exp.Expression) else None
    return None if span is None else span.start + 1


def over_synopses(tree: Tree, catalog: Catalog, named: Mapping[str, str]) -> str | None:
    """Returns a query with synthetic rows in place of each private table; None where one of them has no synopsis.

    Args:
        tree: The query, with constants for its parameters.
        named: The synopsis of each table that has one.
    """
    made = tree.copy()
    common = _common(made)
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
