"""Rows of single units, which previews and samples of BI tools ask for, answered with synthetic rows."""

from __future__ import annotations

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.catalog.names import SYNOPSES
from dpquery.session.synopses import Synopses


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
