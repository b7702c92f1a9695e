"""GROUP BY: keys, aggregates, and the relation that they make."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpquery.plan import functions
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column, Expression, Literal, children, columns_of, rebuild
from dpquery.plan.logical import Aggregate, AggregateColumn, Computed, Project, Relation, Sort, is_private, output
from dpquery.plan.show import names_of, show
from dpquery.plan.types import INT64, Value
from dpquery.sql.bind.aggregates import Collector, has_aggregate
from dpquery.sql.bind.boundary import at_boundary
from dpquery.sql.bind.dependent_columns import led_by, with_looked_up, without_looked_up
from dpquery.sql.bind.expressions import Binder, WindowFunctions, conjunct_trees
from dpquery.sql.bind.grouping_sets import GroupingSets, KeySet, has_sets, key_sets
from dpquery.sql.bind.joins import equality
from dpquery.sql.bind.late_joins import check_unread, refusal, with_late
from dpquery.sql.bind.public_side import check_groups, rows_counted, with_all_keys, with_unmatched
from dpquery.sql.bind.scope import Context, PublicSide, Scope
from dpquery.sql.bind.subqueries import JoinedSubqueries
from dpquery.sql.parse.lists import is_text
from dpquery.sql.parse.parse import span_of

MAX_GROUPING = 62
"""Arguments of GROUPING: its value is one bit for each."""


def is_grouped(select: exp.Select, sorted_by: list[exp.Expression]) -> bool:
    """Whether a SELECT aggregates: by GROUP BY, HAVING or an aggregate in its list, QUALIFY, windows or order."""
    qualify = select.args.get("qualify")
    trees = [*select.expressions, *sorted_by, *(select.args.get("windows") or ()), *([qualify] if qualify else [])]
    return bool(select.args.get("group") or select.args.get("having") or any(has_aggregate(tree) for tree in trees))


class Grouping:
    """One SELECT's GROUP BY: its keys, the aggregates found so far, and the relation they make in the end.

    Attributes:
        correlated: Conditions that read the query around, over the groups.
    """

    def __init__(
        self,
        select: exp.Select,
        source: Scope,
        context: Context,
        below: JoinedSubqueries,
        items: list[tuple[str, exp.Expression]],
    ) -> None:
        self._select, self._source, self._context, self._below = select, source, context, below
        self._collector = Collector(context=context, scope=source, subqueries=below)
        self._keys: dict[Expression, Column] = {}
        self._indicators: dict[KeySet, Column] = {}
        self._sets: tuple[KeySet, ...] | None = None
        self._rolled: dict[str, Column] = {}
        self.made_above: set[str] = set()  # ids of columns that are made from the groups
        self.correlated = tuple(self._correlate(condition) for condition in source.correlated)
        group = select.args.get("group")
        if group is not None:
            self._read(self._without_constants(group), items)
        self._subqueries = below.over_groups(self._over_groups)

    def _read(self, group: exp.Group, items: list[tuple[str, exp.Expression]]) -> None:
        """Finds the keys of GROUP BY, and its sets where it has several."""
        if group.args.get("all") and not group.args.get("expressions"):
            self._context.only(group, "all")
            for _, node in items:
                if not (has_aggregate(node) or node.find(exp.Window) or _is_constant(node)):
                    self._add_key(node)
            return
        sets = key_sets(group, lambda node: self._add_key(self._key_tree(node)), self._context)
        if not has_sets(group):
            return
        if self.correlated or self._source.public_side is not None:
            where = (
                "in a subquery that reads the query around" if self.correlated else "over a join that keeps public rows"
            )
            reason = f"several groupings at once {where} are not supported"
            raise self._context.unsupported(reason, group, "Group by one list of keys.")
        if len(sets) > 1 or len(sets[0]) < len({column.id for column in self._keys.values()}):
            self._sets = sets
            for column in self._keys.values():
                self._rolled.setdefault(column.id, Column(id=self._context.fresh(), type=column.type))

    def _without_constants(self, group: exp.Group) -> exp.Group:
        """Returns GROUP BY without constants, which make no groups. (Of public rows a constant alone makes one group,
        or none where there are no rows.)"""
        if has_sets(group) or group.args.get("all"):
            return group
        names = {column.name for column in self._source.columns} | {item.alias for item in self._select.expressions}
        kept = [
            node
            for node in group.expressions
            if (is_text(node) and node.name in names) or not _is_constant(self._key_tree(node))
        ]
        if len(kept) == len(group.expressions) or not (kept or is_private(self._source.relation)):
            return group
        made = group.copy()
        made.set("expressions", kept)
        made.parent = group.parent
        return made

    def bind(self, node: exp.Expression, windows: WindowFunctions | None = None) -> Expression:
        """Returns an expression over the keys and the aggregates and, where they are allowed, window functions."""
        return self._over_groups(self._binder(windows).bind(node), node)

    def condition(self, node: exp.Expression, clause: str, windows: WindowFunctions | None = None) -> Expression:
        """Returns a condition over the keys and the aggregates."""
        return self._over_groups(self._binder(windows).condition(node, clause), node)

    def conditions(self, tree: exp.Expression) -> list[Expression]:
        """Returns HAVING's conjuncts over the keys and the aggregates, but for those that subqueries are.

        COUNT(1) > 0, which tools add to every query, holds of every group and is not measured.
        """
        parts = conjunct_trees(tree)
        rest = [part for part in parts if not (_holds_always(part) or self._subqueries.takes(part, self))]
        whole = [tree] if len(rest) == len(parts) else rest
        return [self.condition(part, "HAVING") for part in whole]

    def _binder(self, windows: WindowFunctions | None) -> Binder:
        return Binder(self._context, self._source, self, windows, self._subqueries)

    def over_nothing(self, expressions: list[Expression]) -> tuple[Value, ...] | None:
        """Returns the values over no rows, where correlation alone made the groups; else None."""
        if not self.correlated or self._select.args.get("group") is not None:
            return None
        counts = {a.id for a in self._collector.columns if a.function.counts}
        values = []
        for expression in expressions:
            read = {column.id: column for column in columns_of(expression)}
            if any(map(self._subqueries.gives, read)) or self._select.args.get("having") is not None:
                reason = "a subquery that reads the query around and aggregates can hold no HAVING and no subquery"
                raise self._context.unsupported(reason, self._select)
            values.append(evaluate(expression, {id: 0 if id in counts else None for id in read}))
        return tuple(values)

    def collect(self, node: exp.Expression) -> Expression | None:
        """Returns the column that will hold an aggregate or GROUPING(...), or None if the node is neither."""
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._indicator(node)
        return self._collector.collect(node, {} if self._sets is not None else self._keys)

    def _indicator(self, node: exp.Expression) -> Column:
        """Returns the column of GROUPING(...): for each argument a bit, 1 where the row's set does not group by it."""
        self._context.only(node, "expressions")
        known = {column.id: column for column in self._keys.values()}
        bound = [Binder(self._context, self._source).bind(part) for part in node.expressions]
        asked = tuple(self._keys[key].id if key in self._keys else "" for key in bound)
        if "" in asked or not known:
            part = node.expressions[asked.index("")] if "" in asked else node
            reason = "GROUPING takes keys of this query's GROUP BY"
            raise self._context.unsupported(reason, part, "Name keys as GROUP BY does.")
        asked = asked or tuple(known)
        if len(asked) > MAX_GROUPING:
            raise self._context.unsupported(f"GROUPING takes at most {MAX_GROUPING} arguments", node)
        made = self._indicators.setdefault(asked, Column(id=self._context.fresh(), type=INT64))
        return Column(id=made.id, type=INT64, span=span_of(node, self._context.text))

    def finish(self) -> Relation:
        """Returns the aggregation, or the released table where it is a privacy boundary."""
        source = self._below.apply(self._source.relation)
        computed = {key: column for key, column in self._keys.items() if not isinstance(key, Column)}
        if computed:
            kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(source)]
            made = [Computed(id=column.id, name="", expression=key) for key, column in computed.items()]
            source = Project(source=source, columns=(*kept, *made))
        spans = {column.id: key.span for key, column in reversed(self._keys.items())}
        keys = tuple(dict.fromkeys(column.id for column in self._keys.values()))
        late = self._source.late
        if late:
            read = [*self._keys, *(part for a in self._collector.columns for part in _parts(a))]
            check_unread(late, read, self._context)
        if late and (self._sets is not None or self._source.public_side is not None or self.correlated):
            raise refusal(late[0], self._context)
        if self._sets is not None:
            named = names_of(self._source.relation)
            combined = GroupingSets(
                sets=self._sets,
                keys={column.id: column for column in self._keys.values()},
                rolled=self._rolled,
                indicators=self._indicators,
                spans=spans,
                names={column.id: show(key, named) for key, column in reversed(self._keys.items())},
            )
            rows = combined.combine(source, self._collector.columns, self._select, self._context)
            if isinstance(rows, Sort):
                return replace(rows, source=self._subqueries.apply(rows.source))
            return self._subqueries.apply(rows)
        aggregate = Aggregate(
            source=source,
            group_by=keys,
            aggregates=self._collector.columns,
            spans=tuple(spans[key] for key in keys),
        )
        if self._source.public_side is None:
            groups = at_boundary(aggregate, self._select, self._context)
        else:
            groups = self._groups_of(aggregate, self._source.public_side)
        if late:
            groups = with_late(groups, self._source, self._keys, self._context)
        return self._subqueries.apply(groups)

    def _groups_of(self, aggregate: Aggregate, side: PublicSide) -> Relation:
        """Returns the groups of an aggregation over an outer join that keeps public rows: those of all of them."""
        measured, following = without_looked_up(aggregate, self._context)
        check_groups(self._keys, measured, self._source, self._context)
        counted = rows_counted(self._keys, measured.aggregates, self._source, self._context)
        given = {id: self._context.fresh() for id in counted}
        columns = tuple(replace(a, id=given.get(a.id, a.id)) for a in measured.aggregates)
        groups = at_boundary(replace(measured, aggregates=columns), self._select, self._context)
        groups = with_all_keys(groups, self._keys, side, self._context)
        groups = with_unmatched(groups, {new: old for old, new in given.items()}) if given else groups
        return with_looked_up(groups, aggregate, following, self._context) if following else groups

    def _correlate(self, condition: Expression) -> Expression:
        """Returns a condition that reads the query around over a key: its own side of the equality becomes one."""
        own = {column.id for column in output(self._source.relation)}
        read = {column.id for column in columns_of(condition)}
        pair = equality(condition, own, read - own)
        if pair is None:
            raise self._context.unsupported(
                "a subquery that aggregates can be tied to the outer query only by equality",
                self._select.args.get("where") or self._select,
                "Join in FROM, and aggregate there.",
            )
        return functions.call("eq", (self._as_key(pair[0]), pair[1]))

    def _key_tree(self, node: exp.Expression) -> exp.Expression:
        """Returns the tree of a GROUP BY item: an ordinal, an output name that is not a column, or an expression."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            position = int(node.name)
            if not 1 <= position <= len(self._select.expressions):
                raise self._context.unsupported(f"GROUP BY position {position} does not exist", node)
            item: exp.Expression = self._select.expressions[position - 1]
            return item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Column) and not node.args.get("table"):
            visible = {column.name.casefold() for column in self._source.columns}
            if node.name.casefold() not in visible:
                for item in self._select.expressions:
                    if isinstance(item, exp.Alias) and item.alias.casefold() == node.name.casefold():
                        named: exp.Expression = item.this
                        return named
        return node

    def _add_key(self, node: exp.Expression) -> str:
        """Returns the id of a key's column."""
        key = Binder(self._context, self._source, subqueries=self._below).bind(node)
        if isinstance(key, Literal):
            advice = "Names stand in double quotes, or in none." if is_text(node) else ""
            raise self._context.unsupported("GROUP BY a constant is not supported", node, advice)
        return self._as_key(key).id

    def _as_key(self, key: Expression) -> Column:
        """Returns the column that holds a grouping key."""
        id = key.id if isinstance(key, Column) else self._context.fresh()
        if not isinstance(key, Column):
            self._context.measure(id, key)
        return self._keys.setdefault(key, Column(id=id, type=key.type))

    def _over_groups(self, bound: Expression, node: exp.Expression) -> Expression:
        """Returns the expression with keys replaced by their columns; nothing else of the source may remain."""
        if bound in self._keys:
            column = self._keys[bound]
            return self._rolled.get(column.id, column)
        if isinstance(bound, Column) and bound in self._indicators.values():
            return bound if self._sets is not None else Literal(value=0, type=INT64)
        known = {a.id for a in self._collector.columns} | {column.id for column in self._keys.values()}
        if isinstance(bound, Column) and not (bound.id in known | self.made_above or self._subqueries.gives(bound.id)):
            keys = [] if self._sets is not None else [key.id for key in self._keys if isinstance(key, Column)]
            led = led_by(bound.id, keys, self._source.relation, self._context)
            if led is not None:
                return self._collector.same_in_group(bound, node) if led[1].scan.public else self._as_key(bound)
            name = next((c.name for c in self._source.columns if c.id == bound.id), "of a subquery")
            error = self._context.unsupported(
                f"column {name} is neither in GROUP BY nor inside an aggregate",
                node,
                "Add it to GROUP BY, or aggregate it.",
            )
            error.span = bound.span or error.span
            raise error
        return rebuild(bound, tuple(self._over_groups(part, node) for part in children(bound)))


def _holds_always(node: exp.Expression) -> bool:
    """Whether a condition says COUNT(1) > 0, with any number for 1."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.GT) or type(node.this) is not exp.Count or node.this.expressions:
        return False
    counted, zero = node.this.this, node.expression
    literals = isinstance(counted, exp.Literal) and isinstance(zero, exp.Literal)
    return literals and not (counted.is_string or zero.is_string) and zero.name == "0"


def _parts(column: AggregateColumn) -> list[Expression]:
    return [part for part in (column.argument, column.second, column.filter) if part is not None]


def _is_constant(node: exp.Expression) -> bool:
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        node = node.this
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)
