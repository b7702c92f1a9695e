"""Which tables a query names, by its text alone."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from dpquery.sql.parse.parse import Tree


class Named(NamedTuple):
    """A table as it is written: its schema or "", its name, and whether the name is in quotes."""

    schema: str
    name: str
    quoted: bool


def tables_named(tree: Tree) -> list[Named]:
    """Returns the tables that a query names anywhere, but for its own common tables."""
    common = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    return [
        Named(table.db.casefold(), table.name, bool(table.this.args.get("quoted")))
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.casefold() not in common)
    ]
