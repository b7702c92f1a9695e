"""Parsed tree plus catalog to logical plan: names and types resolved, split at the privacy boundary.

Whatever is not known here is refused; after this stage the text is needed for error messages only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpquery.catalog import Catalog
from dpquery.errors import QueryError, Span
from dpquery.plan.expr import Column
from dpquery.plan.logical import Computed, LogicalPlan, OutputColumn, Project, Relation, Values, is_private, output
from dpquery.plan.types import INTERVAL, Value
from dpquery.sql.bind.differences import timed
from dpquery.sql.bind.late_joins import CannotWaitError
from dpquery.sql.bind.query import bind_query
from dpquery.sql.bind.scope import Context, Scope
from dpquery.sql.bind.select import MAX_COLUMNS
from dpquery.sql.bind.shape import bind_columns, says_empty
from dpquery.sql.bind.steps import of_read_tables, step_plan
from dpquery.sql.parse.parse import Tree, span_of


def bind(tree: Tree, catalog: Catalog, text: str, dialect: str = "postgres") -> LogicalPlan:
    """Returns the logical plan of a query.

    Args:
        tree: What `parse` gave for `text`.
        dialect: What the text is written in.
        catalog: The declared tables; nothing else can be named.
    Raises:
        QueryError: What is refused, with its place in the text.
    """
    context = Context(text=text, catalog=catalog, dialect=_name(dialect))
    plan = _bind(tree, context)
    return of_read_tables(plan, context) if context.is_narrowed else plan


def bind_step(
    tree: Tree,
    catalog: Catalog,
    text: str,
    dialect: str,
    given: tuple[tuple[tuple[Value, ...], ...], ...],
    place: int | None,
) -> LogicalPlan:
    """Returns the plan of a query where the first steps are answered, or that of one of its steps; see `steps`.

    Args:
        given: The rows of the first steps.
        place: Which step, from 0; None for the query itself, whose plan says how many steps it has where it lacks some.
    """
    context = Context(text=text, catalog=catalog, dialect=_name(dialect), given=given)
    try:
        plan = _bind(tree, context)
    except CannotWaitError:
        context = replace(Context(text=text, catalog=catalog, dialect=_name(dialect), given=given), can_wait=False)
        plan = _bind(tree, context)
    if place is not None:
        return step_plan(context, place)
    if not context.steps:
        return of_read_tables(plan, context) if context.is_narrowed else plan
    return replace(of_read_tables(plan, context), steps=0 if len(given) == len(context.steps) else len(context.steps))


def bind_together(
    queries: Sequence[tuple[Tree, str]], catalog: Catalog, dialect: str = "postgres"
) -> tuple[LogicalPlan, ...]:
    """Returns the logical plans of several queries, each given as tree and text, over the same boundaries.

    What two of them ask is measured once, as within one query; no two columns of the plans share an id.
    Raises:
        QueryError: What is refused, knowing its text.
    """
    shared = Context(text="", catalog=catalog, dialect=_name(dialect), is_shared=True)
    plans = []
    for tree, text in queries:
        context = replace(shared, text=text, parts=0, total=0, tables=0, subqueries=0)
        try:
            plans.append(_bind(tree, context))
            if context.steps:
                raise _in_steps(context, tree, None)
        except CannotWaitError as error:
            raise _in_steps(context, tree, error.span).locate(text) from None
        except QueryError as error:
            raise error.locate(text) from None
    boundaries, families = tuple(shared.boundaries), tuple(shared.families)
    return tuple(replace(plan, boundaries=boundaries, families=families) for plan in plans)


def _in_steps(context: Context, tree: Tree, span: Span | None) -> QueryError:
    """Returns the refusal of a query of a batch that has steps."""
    reason = "a query that uses a released result to choose private rows is answered in steps, and not in a batch"
    error = context.unsupported(reason, tree, "Ask for it outside of the batch.")
    error.span = span or error.span
    return error


def _name(dialect: str) -> str:
    return dialect.split(",")[0].strip().lower()


def _bind(tree: Tree, context: Context) -> LogicalPlan:
    if says_empty(tree):
        return _without_rows(tree, context)
    scope = bind_query(tree, context, {})
    if is_private(scope.relation):
        raise context.rows_of_units(tree)
    if len(scope.columns) > MAX_COLUMNS:
        raise context.unsupported(f"a result has at most {MAX_COLUMNS} columns", tree)
    _refuse_intervals(scope, tree, context)
    return LogicalPlan(
        boundaries=tuple(context.boundaries),
        result=_with_names(scope),
        families=tuple(context.families),
        reads_clock=context.reads_clock,
    )


def _without_rows(tree: Tree, context: Context) -> LogicalPlan:
    """Returns the plan of a query whose text says that it has no row: its columns, and nothing to measure."""
    scope = bind_columns(tree, Context(text=context.text, catalog=context.catalog, dialect=context.dialect))
    _refuse_intervals(scope, tree, context)
    columns = tuple(OutputColumn(id=context.fresh(), name=c.name, type=c.type) for c in output(_with_names(scope)))
    return LogicalPlan(boundaries=(), result=Values(columns=columns, rows=()))


def _refuse_intervals(scope: Scope, tree: Tree, context: Context) -> None:
    """Raises if a column of the answer is an interval or a time of day."""
    place = next((place for place, column in enumerate(scope.columns) if column.type == INTERVAL), None)
    if place is None:
        return
    items = tree.expressions if isinstance(tree, exp.Select) else []
    item = items[place] if len(items) == len(scope.columns) else tree
    item = item.this if isinstance(item, exp.Alias) else item
    span = span_of(item, context.text)
    what = scope.columns[place].name if item is tree or span is None else context.text[span.start : span.end]
    advice = f"Write EXTRACT(EPOCH FROM {what}) / 86400 for its days, or / 3600 for its hours."
    if timed(item) is not None:
        advice = "Write TO_CHAR(x, 'HH24:MI'), or EXTRACT(HOUR FROM x)."
    raise context.unsupported("an answer holds no intervals or times of day", item, advice)


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
