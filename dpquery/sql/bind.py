"""Parsed tree plus catalog to logical plan: names and types resolved, split at the privacy boundary.

Whatever is not known here is refused; after this stage the text is needed for error messages only.
"""

from __future__ import annotations

from dpquery.catalog import Catalog
from dpquery.errors import UnsupportedQueryError
from dpquery.plan.expr import Column
from dpquery.plan.logical import Computed, LogicalPlan, Project, Relation, is_private
from dpquery.sql.parse import Tree
from dpquery.sql.query import bind_query
from dpquery.sql.scope import Context, Scope
from dpquery.sql.select import MAX_COLUMNS


def bind(tree: Tree, catalog: Catalog, text: str, dialect: str = "postgres") -> LogicalPlan:
    """Returns the logical plan of a query.

    Args:
        tree: What `parse` gave for `text`.
        dialect: What the text is written in.
        catalog: The declared tables; nothing else can be named.
    Raises:
        QueryError: What is refused, with its place in the text.
    """
    context = Context(text=text, catalog=catalog, dialect=dialect.split(",")[0].strip().lower())
    scope = bind_query(tree, context, {})
    if is_private(scope.relation):
        raise context.refuse(
            UnsupportedQueryError,
            f"the result would hold rows of single privacy units ({catalog.privacy_unit})",
            tree,
            "Aggregate them, for example with COUNT(*), or AVG over a subquery that groups by the unit.",
        )
    if len(scope.columns) > MAX_COLUMNS:
        raise context.refuse(UnsupportedQueryError, f"a result has at most {MAX_COLUMNS} columns", tree)
    return LogicalPlan(
        boundaries=tuple(context.boundaries),
        result=_with_names(scope),
        families=tuple(context.families),
        reads_clock=context.reads_clock,
    )


def _with_names(scope: Scope) -> Relation:
    """Returns the relation with its visible columns only, each under a name of its own."""
    given, used = {visible.name for visible in scope.columns}, set[str]()
    columns = []
    for visible in scope.columns:
        name, number = visible.name, 1
        while name in used or (number > 1 and name in given):
            number += 1
            name = f"{visible.name}_{number}"
        used.add(name)
        columns.append(Computed(id=visible.id, name=name, expression=Column(id=visible.id, type=visible.type)))
    return Project(source=scope.relation, columns=tuple(columns))
