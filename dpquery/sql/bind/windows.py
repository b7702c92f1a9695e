"""Window functions of one SELECT, QUALIFY and DISTINCT ON.

They are computed from what WHERE, GROUP BY and HAVING leave, before DISTINCT, ORDER BY and LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.plan.expr import Column, Expression, Literal, columns_of
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, Project, Relation, SortKey, Window, WindowColumn, is_private, output
from dpquery.plan.types import INT64, TEXT
from dpquery.plan.windows import is_positional
from dpquery.sql.bind.boundary import carried_units, with_unit
from dpquery.sql.bind.expressions import Binder, Subqueries
from dpquery.sql.bind.grouping import Grouping
from dpquery.sql.bind.people_windows import reads_released, with_released
from dpquery.sql.bind.scope import Context, Scope, Visible, with_names
from dpquery.sql.bind.window_calls import WindowCall, bind_call
from dpquery.sql.bind.window_frames import Specifications
from dpquery.sql.parse.parse import span_of
from dpquery.units.locality import NotUnitLocal

_RANKS = dict.fromkeys(
    ("ntile", "percent_rank", "cume_dist"),
    "Ranks among all people are private: ask for limits, as QUANTILE_CONT(x, 0.25), and count between them.",
)
"""What to write instead of a rank among all rows."""
MAX_WINDOWS = 50
"""Window functions of one SELECT."""


class Windows:
    """The window functions of one SELECT, each different one once, and the relation that they make in the end."""

    def __init__(
        self,
        select: exp.Select,
        source: Scope,
        grouped: Grouping | None,
        subqueries: Subqueries,
        context: Context,
    ) -> None:
        self._select, self._source, self._grouped, self._context = select, source, grouped, context
        self._subqueries = subqueries
        named = select.args.get("windows")
        self._specifications = Specifications(named or [], context) if named or select.find(exp.Window) else None
        self._columns: list[WindowColumn] = []
        self._places: dict[str, exp.Expression] = {}
        self._computed: dict[Expression, Column] = {}

    def bind(self, node: exp.Expression) -> Expression:
        """Returns an expression of the select list or of ORDER BY, in which window functions may stand."""
        if self._grouped is not None:
            return self._grouped.bind(node, self)
        return Binder(self._context, self._source, windows=self, subqueries=self._subqueries).bind(node)

    @property
    def are_used(self) -> bool:
        """Whether a window function was found."""
        return bool(self._columns)

    def collect(self, node: exp.Window) -> Column:
        """Returns the column that will hold a window function."""
        assert self._specifications is not None  # a window function was found
        asked = self._specifications.of(node)
        made = bind_call(node, self._bind_inside, self._condition_inside, self._context)
        order = tuple(self._sort_key(part) for part in asked.order)
        if made.framed and asked.frame is not None and asked.frame.mode == "groups" and not order:
            raise self._context.unsupported("a frame of GROUPS needs an ORDER BY", node)
        column = WindowColumn(
            id=self._context.fresh(),
            name=made.function,
            function=made.function,
            arguments=made.arguments,
            filter=made.filter,
            partition_by=tuple(dict.fromkeys(self._key(part) for part in asked.partition)),
            order_by=order,
            frame=asked.frame if made.framed else None,
            type=made.type,
            span=span_of(node, self._context.text),
        )
        return self._shared(column, made, node)

    def _shared(self, column: WindowColumn, made: WindowCall, node: exp.Window) -> Column:
        """Returns the column of an equal window function found before, or notes this one."""
        for known in self._columns:
            if replace(column, id=known.id) == known:
                return Column(id=known.id, type=known.type, span=column.span)
        if len(self._columns) >= MAX_WINDOWS:
            raise self._context.unsupported(f"a SELECT holds at most {MAX_WINDOWS} window functions", node)
        parts = [*made.arguments, *([made.filter] if made.filter else [])]
        keys = [Column(id=id, type=INT64) for id in (*column.partition_by, *(k.column for k in column.order_by))]
        self._context.measure(column.id, *parts, *keys)
        self._columns.append(column)
        self._places[column.id] = node
        if self._grouped is not None:
            self._grouped.made_above.add(column.id)
        return Column(id=column.id, type=column.type, span=column.span)

    def qualify(self, bound: Sequence[tuple[str, exp.Expression]]) -> Expression | None:
        """Returns the condition of QUALIFY; a name that is not a column of FROM means a column of the select list."""
        clause = self._select.args.get("qualify")
        if clause is None:
            return None
        self._context.only(clause, "this")
        node = with_names(clause, bound, self._source)
        if self._grouped is not None:
            condition = self._grouped.condition(node, "QUALIFY", self)
        else:
            condition = Binder(self._context, self._source, windows=self, subqueries=self._subqueries).condition(
                node, "QUALIFY"
            )
        if not self._columns:
            raise self._context.unsupported("QUALIFY without a window function", clause, "Filter with WHERE or HAVING.")
        return condition

    def finish(self, relation: Relation, above: Iterable[Expression]) -> Relation:
        """Returns the relation with the window functions' columns.

        Args:
            relation: What the window functions are over.
            above: What is read of them and of the relation afterwards; other columns are left out, lest rows be
                ordered by them.
        """
        if self._specifications is not None:
            self._specifications.check_used()
        if not self._columns:
            return relation
        above = tuple(above)
        relation = self._project(relation, above, self._columns)
        if is_private(relation):
            self._columns = [
                replace(c, partition_by=with_unit(c.partition_by, relation, self._context)) for c in self._columns
            ]
        of_people = self._of_people(relation)
        later = list(self._columns)
        for columns in _steps([c for c in self._columns if c not in of_people], relation):
            if len(later) < len(self._columns):
                relation = self._project(relation, above, later)
            relation = Window(source=relation, columns=tuple(columns))
            self._check(relation)
            later = [c for c in later if c not in columns]
        for column in of_people:
            relation = with_released(relation, column, self._places[column.id], self._context)
        return relation

    def _of_people(self, relation: Relation) -> list[WindowColumn]:
        """Returns the window functions over rows of different units that read what is released of them."""
        if not is_private(relation):
            return []
        units = cached_locality(relation, self._context.catalog.declarations).units
        return [c for c in self._columns if not units & set(c.partition_by) and reads_released(c, relation)]

    def _project(self, relation: Relation, above: Iterable[Expression], columns: Iterable[WindowColumn]) -> Relation:
        """Returns the columns that are read above or by window functions, computed keys, and the privacy unit."""
        parts = [part for c in columns for part in (*c.arguments, *([c.filter] if c.filter else []))]
        read = {column.id for part in (*above, *parts) for column in columns_of(part)}
        read |= {id for c in columns for id in (*c.partition_by, *(key.column for key in c.order_by))}
        given = output(relation)
        kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in given if c.id in read]
        units = [unit for unit in carried_units(relation, self._context) if unit.id not in read]
        here = {c.id for c in given}
        computed = [(key, c.id) for key, c in self._computed.items() if c.id in read and c.id not in here]
        made = [Computed(id=id, name="", expression=key) for key, id in computed]
        if not kept and not units and not made:
            kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in given[:1]]
        made_of = (*kept, *made, *units)
        return relation if len(made_of) == len(given) and not made else Project(source=relation, columns=made_of)

    def _check(self, window: Window) -> None:
        """Refuses, at its place, a window function over rows of different privacy units."""
        if not is_private(window.source):
            return
        for column in window.columns:
            try:
                cached_locality(replace(window, columns=(column,)), self._context.catalog.declarations)
            except NotUnitLocal as error:
                advice = advice_on_units(window.source, self._source.columns, self._context) or error.advice
                advice = _RANKS.get(column.function, advice) if not column.partition_by else advice
                raise self._context.unsupported(error.reason, self._places[column.id], advice) from None

    def _key(self, node: exp.Expression) -> str:
        key = self._bind_inside(node)
        if isinstance(key, Literal):
            raise self._context.unsupported("a constant cannot be used to partition or order", node)
        if isinstance(key, Column):
            return key.id
        if key not in self._computed:
            self._computed[key] = Column(id=self._context.fresh(), type=key.type)
            self._context.measure(self._computed[key].id, key)
        return self._computed[key].id

    def _sort_key(self, node: exp.Expression) -> SortKey:
        if not isinstance(node, exp.Ordered):
            return SortKey(column=self._key(node))
        self._context.only(node, "this", "desc", "nulls_first")
        descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        return SortKey(column=self._key(node.this), descending=descending, nulls_first=nulls_first)

    def _bind_inside(self, node: exp.Expression) -> Expression:
        """Returns an expression inside a window function, where no other one may stand."""
        if self._grouped is not None:
            return self._grouped.bind(node)
        return Binder(self._context, self._source, subqueries=self._subqueries).bind(node)

    def _condition_inside(self, node: exp.Expression) -> Expression:
        if self._grouped is not None:
            return self._grouped.condition(node, "FILTER")
        return Binder(self._context, self._source, subqueries=self._subqueries).condition(node, "FILTER")


def _steps(columns: Iterable[WindowColumn], relation: Relation) -> list[list[WindowColumn]]:
    """Returns the window functions in steps, each over one order of rows where places or texts are ordered.

    Steps that order texts come first: those after them are over rows without these texts, unless something reads them.
    """
    texts = {c.id for c in output(relation) if c.type == TEXT}
    steps: dict[tuple[object, bool], list[WindowColumn]] = {}
    for column in columns:
        of_texts = any(key.column in texts for key in column.order_by)
        order = (column.partition_by, column.order_by) if of_texts or is_positional(column) else None
        steps.setdefault((order, of_texts), []).append(column)
    return [steps[which] for which in sorted(steps, key=lambda which: not which[1])]


def advice_on_units(relation: Relation, columns: Sequence[Visible], context: Context) -> str:
    """Returns which visible column to add to PARTITION BY, or nothing where none holds the privacy unit."""
    units = cached_locality(relation, context.catalog.declarations).units
    names = [f"{c.table}.{c.name}" if c.table else c.name for c in columns if c.id in units]
    return f"Add {names[0]} to PARTITION BY, or aggregate first." if names else ""


def distinct_on(select: exp.Select) -> list[exp.Expression]:
    """Returns the expressions of DISTINCT ON, in order; none where there is no such clause."""
    distinct = select.args.get("distinct")
    given = None if distinct is None else distinct.args.get("on")
    if given is None:
        return []
    return list(given.expressions) if isinstance(given, exp.Tuple) else [given.unnest()]


def first_rows(
    relation: Relation, on: Sequence[str], keys: Sequence[SortKey], select: exp.Select, context: Context
) -> Relation:
    """Returns the first row, in the order of the keys, of those that agree in the columns `on`.

    Rows that are first together are ordered by all columns: which one stays is a function of the rows alone.
    """
    number = WindowColumn(
        id=context.fresh(),
        name="",
        function="row_number",
        arguments=(),
        filter=None,
        partition_by=tuple(dict.fromkeys(on)),
        order_by=tuple(keys),
        frame=None,
        type=INT64,
    )
    made = Window(source=relation, columns=(number,))
    try:
        if is_private(relation):
            cached_locality(made, context.catalog.declarations)
    except NotUnitLocal:
        unit = context.catalog.privacy_unit
        reason = f"DISTINCT ON without the privacy unit ({unit}) chooses among rows of different units"
        if context.catalog.declarations.unit_is_row:
            reason = "DISTINCT ON chooses among several rows, and each row is a privacy unit"
        advice = "" if context.catalog.declarations.unit_is_row else f"Add the {unit}'s column to DISTINCT ON."
        raise context.unsupported(reason, select.args["distinct"], advice) from None
    one = Literal(value=1, type=INT64)
    return Filter(source=made, condition=call("eq", (Column(id=number.id, type=INT64), one)))
