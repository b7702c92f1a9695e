"""Whole queries: SELECT, set operations, brackets, WITH; to a scope."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpquery.sql.bind.scope import CommonTable, Context, Reach, Scope
from dpquery.sql.bind.select import bind_select
from dpquery.sql.bind.set_operations import bind_set_operation
from dpquery.sql.bind.values import bind_values
from dpquery.sql.bind.wording import form_of


def bind_query(node: exp.Expression, context: Context, reach: Reach) -> Scope:
    """Returns the scope of a query that stands alone, in brackets, in FROM or in WITH."""
    match node:
        case exp.Subquery():
            context.only(node, "this")
            return bind_query(node.this, context, reach)
        case exp.Select():
            return bind_select(node, context, _with(node, context, reach), bind_query)
        case exp.SetOperation():
            return bind_set_operation(node, context, _with(node, context, reach), bind_query)
        case exp.Values():
            context.only(node, "expressions")
            return bind_values(node, context)
        case _:
            raise context.unsupported(f"{form_of(node)} is not supported", node, "Write a SELECT.")


def _with(select: exp.Query, context: Context, reach: Reach) -> Reach:
    clause = select.args.get("with_")
    if clause is None:
        return reach
    context.only(clause, "expressions")
    extended: Mapping[str, CommonTable] = dict(reach)
    for part in clause.expressions:
        context.only(part, "this", "alias")
        alias = part.args["alias"]
        context.only(alias, "this", "columns")
        names = tuple(column.name for column in alias.args.get("columns") or ())
        common = CommonTable(tree=part.this, names=names, reach=extended)
        extended = {**extended, alias.name.casefold(): common}
    return extended
