"""GROUP BY: keys, aggregates, and the relation that they make."""

from __future__ import annotations

from sqlglot import exp

from dpquery.errors import UnsupportedQueryError
from dpquery.plan.expr import Column, Expression, Literal, children, rebuild
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, output
from dpquery.sql.aggregates import Collector, has_aggregate
from dpquery.sql.boundary import at_boundary
from dpquery.sql.expressions import Binder
from dpquery.sql.public_side import check_groups, with_all_keys
from dpquery.sql.scope import Context, Scope


def is_grouped(select: exp.Select, sorted_by: list[exp.Expression]) -> bool:
    """Whether a SELECT aggregates: by GROUP BY, HAVING or an aggregate in its list or its order."""
    trees = [*select.expressions, *sorted_by]
    return bool(select.args.get("group") or select.args.get("having") or any(has_aggregate(tree) for tree in trees))


class Grouping:
    """One SELECT's GROUP BY: its keys, the aggregates found so far, and the relation they make in the end."""

    def __init__(self, select: exp.Select, source: Scope, context: Context) -> None:
        self._select, self._source, self._context = select, source, context
        self._collector = Collector(context=context, scope=source)
        self._keys: dict[Expression, Column] = {}
        group = select.args.get("group")
        if group is not None:
            context.only(group, "expressions")
            for node in group.expressions:
                self._add_key(self._key_tree(node))

    def bind(self, node: exp.Expression) -> Expression:
        """Returns an expression over the keys and the aggregates."""
        return self._over_groups(Binder(self._context, self._source, self._collector).bind(node), node)

    def condition(self, node: exp.Expression) -> Expression:
        """Returns HAVING's condition over the keys and the aggregates."""
        bound = Binder(self._context, self._source, self._collector).condition(node, "HAVING")
        return self._over_groups(bound, node)

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
        aggregate = Aggregate(
            source=source,
            group_by=keys,
            aggregates=tuple(self._collector.columns),
            spans=tuple(spans[key] for key in keys),
        )
        side = self._source.public_side
        if side is None:
            return at_boundary(aggregate, self._select, self._context)
        check_groups(self._keys, aggregate, self._source, self._context)
        return with_all_keys(at_boundary(aggregate, self._select, self._context), self._keys, side, self._context)

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
        key = Binder(self._context, self._source).bind(node)
        if isinstance(key, Literal):
            raise self._context.refuse(UnsupportedQueryError, "GROUP BY a constant has no meaning", node)
        id = key.id if isinstance(key, Column) else self._context.fresh()
        if not isinstance(key, Column):
            self._context.measure(id, key)
        self._keys.setdefault(key, Column(id=id, type=key.type))

    def _over_groups(self, bound: Expression, node: exp.Expression) -> Expression:
        """Returns the expression with keys replaced by their columns; nothing else of the source may remain."""
        if bound in self._keys:
            return self._keys[bound]
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
