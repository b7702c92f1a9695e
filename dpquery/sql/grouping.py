"""GROUP BY: keys, aggregates, and the relation that they make."""

from __future__ import annotations

from sqlglot import exp

from dpquery.errors import UnsupportedQueryError
from dpquery.plan import functions
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Column, Expression, Literal, children, columns_of, rebuild
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, output
from dpquery.plan.types import Value
from dpquery.sql.aggregates import Collector, has_aggregate
from dpquery.sql.boundary import at_boundary
from dpquery.sql.expressions import Binder, WindowFunctions, conjunct_trees
from dpquery.sql.joins import equality
from dpquery.sql.public_side import check_groups, with_all_keys
from dpquery.sql.scope import Context, Scope
from dpquery.sql.subqueries import JoinedSubqueries


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

    def __init__(self, select: exp.Select, source: Scope, context: Context, below: JoinedSubqueries) -> None:
        self._select, self._source, self._context, self._below = select, source, context, below
        self._collector = Collector(context=context, scope=source, subqueries=below)
        self._keys: dict[Expression, Column] = {}
        self.made_above: set[str] = set()  # ids of columns that are made from the groups
        self.correlated = tuple(self._correlate(condition) for condition in source.correlated)
        group = select.args.get("group")
        if group is not None:
            context.only(group, "expressions")
            for node in group.expressions:
                self._add_key(self._key_tree(node))
        self._subqueries = below.over_groups(self._over_groups)

    def bind(self, node: exp.Expression, windows: WindowFunctions | None = None) -> Expression:
        """Returns an expression over the keys and the aggregates and, where they are allowed, window functions."""
        return self._over_groups(self._binder(windows).bind(node), node)

    def condition(self, node: exp.Expression, clause: str, windows: WindowFunctions | None = None) -> Expression:
        """Returns a condition over the keys and the aggregates."""
        return self._over_groups(self._binder(windows).condition(node, clause), node)

    def conditions(self, tree: exp.Expression) -> list[Expression]:
        """Returns HAVING's conjuncts over the keys and the aggregates, but for those that subqueries are."""
        rest = [part for part in conjunct_trees(tree) if not self._subqueries.takes(part, self)]
        whole = [tree] if len(rest) == len(conjunct_trees(tree)) else rest
        return [self.condition(part, "HAVING") for part in whole]

    def _binder(self, windows: WindowFunctions | None) -> Binder:
        return Binder(self._context, self._source, self._collector, windows, self._subqueries)

    def over_nothing(self, expressions: list[Expression]) -> tuple[Value, ...] | None:
        """Returns the values over no rows, where correlation alone made the groups; else None."""
        if not self.correlated or self._select.args.get("group") is not None:
            return None
        counts = {a.id for a in self._collector.columns if a.function.startswith("count")}
        values = []
        for expression in expressions:
            read = {column.id: column for column in columns_of(expression)}
            if any(map(self._subqueries.gives, read)) or self._select.args.get("having") is not None:
                reason = "a subquery that reads the query around and aggregates can hold no HAVING and no subquery"
                raise self._context.refuse(UnsupportedQueryError, reason, self._select)
            values.append(evaluate(expression, {id: 0 if id in counts else None for id in read}))
        return tuple(values)

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
        aggregate = Aggregate(
            source=source,
            group_by=keys,
            aggregates=tuple(self._collector.columns),
            spans=tuple(spans[key] for key in keys),
        )
        side = self._source.public_side
        if side is not None:
            check_groups(self._keys, aggregate, self._source, self._context)
        groups = at_boundary(aggregate, self._select, self._context)
        if side is not None:
            groups = with_all_keys(groups, self._keys, side, self._context)
        return self._subqueries.apply(groups)

    def _correlate(self, condition: Expression) -> Expression:
        """Returns a condition that reads the query around over a key: its own side of the equality becomes one."""
        own = {column.id for column in output(self._source.relation)}
        read = {column.id for column in columns_of(condition)}
        pair = equality(condition, own, read - own)
        if pair is None:
            raise self._context.refuse(
                UnsupportedQueryError,
                "a subquery that aggregates can be tied to the query around by equality alone",
                self._select.args.get("where") or self._select,
                "Join in FROM, and aggregate there.",
            )
        return functions.call("eq", (self._as_key(pair[0]), pair[1]))

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

    def _add_key(self, node: exp.Expression) -> None:
        key = Binder(self._context, self._source, subqueries=self._below).bind(node)
        if isinstance(key, Literal):
            raise self._context.refuse(UnsupportedQueryError, "GROUP BY a constant has no meaning", node)
        self._as_key(key)

    def _as_key(self, key: Expression) -> Column:
        """Returns the column that holds a grouping key."""
        id = key.id if isinstance(key, Column) else self._context.fresh()
        if not isinstance(key, Column):
            self._context.measure(id, key)
        return self._keys.setdefault(key, Column(id=id, type=key.type))

    def _over_groups(self, bound: Expression, node: exp.Expression) -> Expression:
        """Returns the expression with keys replaced by their columns; nothing else of the source may remain."""
        if bound in self._keys:
            return self._keys[bound]
        known = {a.id for a in self._collector.columns} | {column.id for column in self._keys.values()}
        if isinstance(bound, Column) and not (bound.id in known | self.made_above or self._subqueries.gives(bound.id)):
            name = next((c.name for c in self._source.columns if c.id == bound.id), "of a subquery")
            error = self._context.refuse(
                UnsupportedQueryError,
                f"column {name} stands neither in GROUP BY nor in an aggregate",
                node,
                "Add it to GROUP BY, or aggregate it.",
            )
            error.span = bound.span or error.span
            raise error
        return rebuild(bound, tuple(self._over_groups(part, node) for part in children(bound)))
