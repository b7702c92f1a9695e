"""GROUP BY: keys, aggregates, and the relation that they make."""

from __future__ import annotations

from sqlglot import exp

from dpquery.errors import UnsupportedQueryError
from dpquery.plan.expr import Column, Expression, Literal, children, rebuild
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, output
from dpquery.plan.show import names_of, show
from dpquery.plan.types import INT64
from dpquery.sql.aggregates import Collector, has_aggregate
from dpquery.sql.boundary import at_boundary
from dpquery.sql.expressions import Binder
from dpquery.sql.grouping_sets import GroupingSets, KeySet, has_sets, key_sets
from dpquery.sql.parse import span_of
from dpquery.sql.scope import Context, Scope

MAX_GROUPING = 62
"""Arguments of GROUPING: its value is one bit for each."""


def is_grouped(select: exp.Select, sorted_by: list[exp.Expression]) -> bool:
    """Whether a SELECT aggregates: by GROUP BY, HAVING or an aggregate in its list or its order."""
    trees = [*select.expressions, *sorted_by]
    return bool(select.args.get("group") or select.args.get("having") or any(has_aggregate(tree) for tree in trees))


class Grouping:
    """One SELECT's GROUP BY: its keys, the aggregates found so far, and the relation they make in the end."""

    def __init__(
        self, select: exp.Select, source: Scope, context: Context, items: list[tuple[str, exp.Expression]]
    ) -> None:
        self._select, self._source, self._context = select, source, context
        self._collector = Collector(context=context, scope=source)
        self._keys: dict[Expression, Column] = {}
        self._indicators: dict[KeySet, Column] = {}
        self._sets: tuple[KeySet, ...] | None = None
        self._rolled: dict[str, Column] = {}
        group = select.args.get("group")
        if group is not None:
            self._read(group, items)

    def _read(self, group: exp.Group, items: list[tuple[str, exp.Expression]]) -> None:
        """Finds the keys of GROUP BY, and its sets where it has several."""
        if group.args.get("all") and not group.args.get("expressions"):
            self._context.only(group, "all")
            for _, node in items:
                if not (has_aggregate(node) or node.find(exp.Window) or _is_constant(node)):
                    self._add_key(node)
            return
        sets = key_sets(group, lambda node: self._add_key(self._key_tree(node)), self._context)
        if has_sets(group) and (len(sets) > 1 or len(sets[0]) < len({column.id for column in self._keys.values()})):
            self._sets = sets
            for column in self._keys.values():
                self._rolled.setdefault(column.id, Column(id=self._context.fresh(), type=column.type))

    def bind(self, node: exp.Expression) -> Expression:
        """Returns an expression over the keys and the aggregates."""
        return self._over_groups(Binder(self._context, self._source, self).bind(node), node)

    def condition(self, node: exp.Expression) -> Expression:
        """Returns HAVING's condition over the keys and the aggregates."""
        bound = Binder(self._context, self._source, self).condition(node, "HAVING")
        return self._over_groups(bound, node)

    def collect(self, node: exp.Expression) -> Column | None:
        """Returns the column that will hold an aggregate or GROUPING(...), or None if the node is neither."""
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._indicator(node)
        return self._collector.collect(node)

    def _indicator(self, node: exp.Expression) -> Column:
        """Returns the column of GROUPING(...): for each argument a bit, 1 where the row's set does not group by it."""
        self._context.only(node, "expressions")
        known = {column.id: column for column in self._keys.values()}
        bound = [Binder(self._context, self._source).bind(part) for part in node.expressions]
        asked = tuple(self._keys[key].id if key in self._keys else "" for key in bound)
        if "" in asked or not known:
            part = node.expressions[asked.index("")] if "" in asked else node
            reason = "GROUPING takes keys of this query's GROUP BY"
            raise self._context.refuse(UnsupportedQueryError, reason, part, "Name keys as GROUP BY does.")
        asked = asked or tuple(known)
        if len(asked) > MAX_GROUPING:
            reason = f"GROUPING takes at most {MAX_GROUPING} arguments"
            raise self._context.refuse(UnsupportedQueryError, reason, node)
        made = self._indicators.setdefault(asked, Column(id=self._context.fresh(), type=INT64))
        return Column(id=made.id, type=INT64, span=span_of(node, self._context.text))

    def finish(self) -> Relation:
        """Returns the aggregation, or the released table where it is a privacy boundary."""
        source = self._source.relation
        computed = {key: column for key, column in self._keys.items() if not isinstance(key, Column)}
        if computed:
            kept = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(source)]
            made = [Computed(id=column.id, name="", expression=key) for key, column in computed.items()]
            source = Project(source=source, columns=(*kept, *made))
        spans = {column.id: key.span for key, column in reversed(self._keys.items())}
        keys = tuple(dict.fromkeys(column.id for column in self._keys.values()))
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
            return combined.combine(source, tuple(self._collector.columns), self._select, self._context)
        aggregate = Aggregate(
            source=source,
            group_by=keys,
            aggregates=tuple(self._collector.columns),
            spans=tuple(spans[key] for key in keys),
        )
        return at_boundary(aggregate, self._select, self._context)

    def _key_tree(self, node: exp.Expression) -> exp.Expression:
        """Returns the tree of a GROUP BY item: an ordinal, an output name that is no column, or an expression."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            position = int(node.name)
            if not 1 <= position <= len(self._select.expressions):
                raise self._context.refuse(UnsupportedQueryError, f"GROUP BY position {position} does not exist", node)
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
        key = Binder(self._context, self._source).bind(node)
        if isinstance(key, Literal):
            raise self._context.refuse(UnsupportedQueryError, "GROUP BY a constant has no meaning", node)
        id = key.id if isinstance(key, Column) else self._context.fresh()
        if not isinstance(key, Column):
            self._context.measure(id, key)
        return self._keys.setdefault(key, Column(id=id, type=key.type)).id

    def _over_groups(self, bound: Expression, node: exp.Expression) -> Expression:
        """Returns the expression with keys replaced by their columns; nothing else of the source may remain."""
        if bound in self._keys:
            column = self._keys[bound]
            return self._rolled.get(column.id, column)
        if isinstance(bound, Column) and bound in self._indicators.values():
            return bound if self._sets is not None else Literal(value=0, type=INT64)
        if isinstance(bound, Column) and bound.id not in {a.id for a in self._collector.columns}:
            name = next(c.name for c in self._source.columns if c.id == bound.id)
            error = self._context.refuse(
                UnsupportedQueryError,
                f"column {name} stands neither in GROUP BY nor in an aggregate",
                node,
                "Add it to GROUP BY, or aggregate it.",
            )
            error.span = bound.span or error.span
            raise error
        return rebuild(bound, tuple(self._over_groups(part, node) for part in children(bound)))


def _is_constant(node: exp.Expression) -> bool:
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        node = node.this
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)
