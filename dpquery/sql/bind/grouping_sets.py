"""ROLLUP, CUBE and GROUPING SETS: to sets of keys, and to one aggregation for each set, put together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dpquery.catalog.cached_locality import cached_locality
from dpquery.errors import Span
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Matched,
    Project,
    Relation,
    Released,
    SetOperation,
    Sort,
    SortKey,
    is_private,
    output,
    sources,
)
from dpquery.plan.types import INT64
from dpquery.sql.bind.boundary import at_boundary
from dpquery.sql.bind.scope import Context
from dpquery.units.locality import NotUnitLocal

MAX_SETS = 64
"""Grouping sets of one SELECT, those that stand twice counted twice."""

MAX_CELLS = 640
"""Grouping sets times aggregates of one SELECT."""

KeySet = tuple[str, ...]
"""The ids of the keys that one grouping set groups by."""

_FORMS = exp.Rollup | exp.Cube | exp.GroupingSets


def has_sets(group: exp.Group | None) -> bool:
    """Whether a GROUP BY clause asks for several groupings at once."""
    if group is None:
        return False
    written = any(isinstance(node, _FORMS) for node in group.args.get("expressions") or ())
    return written or any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))


def key_sets(group: exp.Group, key_of: Callable[[exp.Expression], str], context: Context) -> tuple[KeySet, ...]:
    """Returns the grouping sets of a GROUP BY clause: the cross product of those of its items.

    Args:
        key_of: Binds a key, and returns the id of its column.
    Raises:
        UnsupportedQueryError: More than MAX_SETS sets, or a form that is not known.
    """
    context.only(group, "expressions", "all", "rollup", "cube")
    items = list(group.args.get("expressions") or ())
    for name, form in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        for after in group.args.get(name) or ():  # GROUP BY a, b WITH ROLLUP
            if after is True or not after.expressions:
                items = [form(expressions=items)]
            else:
                items.append(after)
    reader = _Reader(key_of=key_of, context=context, group=group)
    sets = reader.product([reader.sets(item) for item in items])
    if group.args.get("all") is False:  # GROUP BY DISTINCT
        sets = tuple({frozenset(keys): keys for keys in reversed(sets)}.values())[::-1]
    return sets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    key_of: Callable[[exp.Expression], str]
    context: Context
    group: exp.Group

    def sets(self, node: exp.Expression) -> tuple[KeySet, ...]:
        """Returns the sets of one item of GROUP BY or GROUPING SETS."""
        match node:
            case exp.Rollup():
                self.context.only(node, "expressions")
                parts = [self._composite(part) for part in node.expressions]
                return self._limited(_joined(parts[:length]) for length in range(len(parts), -1, -1))
            case exp.Cube():
                self.context.only(node, "expressions")
                parts = [self._composite(part) for part in node.expressions]
                kept = itertools.product((True, False), repeat=len(parts))
                return self._limited(_joined(itertools.compress(parts, some)) for some in kept)
            case exp.GroupingSets():
                self.context.only(node, "expressions")
                return self._limited(keys for part in node.expressions for keys in self.sets(part))
            case _:
                return (self._composite(node),)

    def product(self, items: Iterable[tuple[KeySet, ...]]) -> tuple[KeySet, ...]:
        """Returns every way to take one set of each item."""
        return self._limited(_joined(taken) for taken in itertools.product(*items))

    def _composite(self, node: exp.Expression) -> KeySet:
        """Returns the keys of an element, which stand together: (a, b) is one of them, and () has none."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Tuple):
            self.context.only(node, "expressions")
            return _joined((self.key_of(part),) for part in node.expressions)
        return (self.key_of(node),)

    def _limited(self, sets: Iterable[KeySet]) -> tuple[KeySet, ...]:
        found = tuple(itertools.islice(sets, MAX_SETS + 1))
        if len(found) > MAX_SETS:
            raise self.context.unsupported(
                f"a GROUP BY makes at most {MAX_SETS} grouping sets",
                self.group,
                "Name the sets that you need in GROUPING SETS.",
            )
        return found


def _joined(parts: Iterable[KeySet]) -> KeySet:
    return tuple(dict.fromkeys(id for part in parts for id in part))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingSets:
    """One SELECT's grouping sets, ready to be put together.

    Attributes:
        sets: The sets, in the order of the result's ties.
        keys: The keys' columns in the source, by id, in the order in which the query names them.
        rolled: For each key's id the column that holds it in the result: NULL in sets that do not group by it.
        indicators: For the keys of each GROUPING(...) the column that holds its value.
        spans: The places of the keys.
        names: The keys as people write them.
    """

    sets: tuple[KeySet, ...]
    keys: Mapping[str, Column]
    rolled: Mapping[str, Column]
    indicators: Mapping[KeySet, Column]
    spans: Mapping[str, Span | None]
    names: Mapping[str, str]

    def combine(
        self, source: Relation, aggregates: tuple[AggregateColumn, ...], node: exp.Expression, context: Context
    ) -> Relation:
        """Returns the rows of all sets: each an aggregation of its own, or the released table that stands for it.

        Sets of the same keys are one aggregation, read twice. Rows above the boundary are ordered by key.
        """
        if len(self.sets) * len(aggregates) > MAX_CELLS:
            reason = f"grouping sets times aggregates are {len(self.sets) * len(aggregates)}, and at most {MAX_CELLS}"
            raise context.unsupported(reason, node, "Ask for fewer of either.")
        context.count_parts(len(self.sets) * (1 + len(aggregates) + len(self.keys)))
        made: dict[frozenset[str], tuple[Relation, tuple[AggregateColumn, ...]]] = {}
        for keys in self.sets:
            if frozenset(keys) not in made:
                made[frozenset(keys)] = self._aggregation(source, keys, aggregates, node, context)
        family = tuple(dict.fromkeys(index for relation, _ in made.values() for index in _releases(relation)))
        if len(family) > 1:
            context.families.append(family)
        order = Column(id=context.fresh(), type=INT64)
        arms = [
            self._arm(number, frozenset(keys), *made[frozenset(keys)], order, aggregates)
            for number, keys in enumerate(self.sets)
        ]
        relation = self._union(arms, context)
        if is_private(relation):
            return _judged(relation, arms, node, context)
        ordered = [*(self.rolled[id].id for id in self.keys), order.id]
        return Sort(source=relation, keys=tuple(SortKey(column=id) for id in ordered))

    def _aggregation(
        self,
        source: Relation,
        keys: KeySet,
        aggregates: tuple[AggregateColumn, ...],
        node: exp.Expression,
        context: Context,
    ) -> tuple[Relation, tuple[AggregateColumn, ...]]:
        """Returns the aggregation by one set, its aggregates under fresh ids."""
        own = tuple(replace(column, id=context.fresh()) for column in aggregates)
        grouped = tuple(id for id in self.keys if id in keys)
        spans = tuple(self.spans.get(id) for id in grouped)
        aggregate = Aggregate(source=source, group_by=grouped, aggregates=own, spans=spans)
        return at_boundary(aggregate, node, context), own

    def _arm(
        self,
        number: int,
        keys: frozenset[str],
        relation: Relation,
        own: tuple[AggregateColumn, ...],
        order: Column,
        aggregates: tuple[AggregateColumn, ...],
    ) -> Project:
        """Returns the rows of one set under the result's ids: keys that it does not group by are NULL."""
        columns = [
            Computed(
                id=rolled.id, name=self.names[id], expression=key if id in keys else Literal(value=None, type=key.type)
            )
            for (id, key), rolled in zip(self.keys.items(), self.rolled.values(), strict=True)
        ]
        for column, made in zip(aggregates, own, strict=True):
            columns.append(Computed(id=column.id, name=column.name, expression=Column(id=made.id, type=made.type)))
        for asked, indicator in self.indicators.items():
            columns.append(Computed(id=indicator.id, name="", expression=_bits(asked, keys)))
        columns.append(Computed(id=order.id, name="set", expression=Literal(value=number, type=INT64)))
        return Project(source=relation, columns=tuple(columns))

    def _union(self, arms: list[Project], context: Context, whole: bool = True) -> Relation:
        """Returns all arms under one another, as a balanced tree; inner columns have fresh ids, the whole's its own."""
        if len(arms) == 1:
            return arms[0] if whole else _renamed(arms[0], context)
        middle = (len(arms) + 1) // 2
        left, right = (self._union(part, context, whole=False) for part in (arms[:middle], arms[middle:]))
        columns = tuple(
            Matched(
                id=column.id if whole else context.fresh(),
                name=column.name,
                type=column.expression.type,
                left=one.id,
                right=other.id,
            )
            for column, one, other in zip(arms[0].columns, output(left), output(right), strict=True)
        )
        return SetOperation(kind="union_all", left=left, right=right, columns=columns)


def _renamed(arm: Project, context: Context) -> Project:
    return replace(arm, columns=tuple(replace(column, id=context.fresh()) for column in arm.columns))


def _bits(asked: KeySet, keys: frozenset[str]) -> Expression:
    """Returns GROUPING's value: one bit for each argument, the last the least; 1 where the key is rolled up."""
    return Literal(value=sum(1 << place for place, id in enumerate(reversed(asked)) if id not in keys), type=INT64)


def _judged(relation: Relation, arms: list[Project], node: exp.Expression, context: Context) -> Relation:
    """Returns rows of single units put together, where a rule shows that they stay those of single units."""
    if any(isinstance(arm.source, Released) for arm in arms):
        raise context.unsupported(
            "some grouping sets hold the privacy unit and others do not: rows of single units and totals over all of "
            "them cannot be in one table",
            node,
            "Let every set hold the unit, or none.",
        )
    try:
        cached_locality(relation, context.catalog.declarations)
    except NotUnitLocal as error:
        raise context.unsupported(error.reason, node, error.advice) from None
    return relation


def _releases(relation: Relation) -> list[int]:
    if isinstance(relation, Released):
        return [relation.index]
    return [index for source in sources(relation) for index in _releases(source)]
