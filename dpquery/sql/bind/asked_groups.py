"""Groups of a subquery for which the query around can ask: those of public rows that it reads.

    SELECT SUM(price) FROM items, parts p WHERE part = p.id AND p.brand = 'x'
        AND quantity < (SELECT AVG(quantity) FROM items WHERE part = p.id)

The subquery is decorrelated to an aggregation of all items by part, of which the join reads the groups of parts of one
brand. So items of other parts need not be measured: the aggregation is made of the items that a semi-join with these
public rows keeps. Then the public table lists the keys, where it has not too many; each person counts in fewer groups,
and the engine has fewer rows to group. Groups of keys that are public by themselves are measured all: they cost the
same, and what was released of them answers other queries too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpquery.plan.definitions import definition
from dpquery.plan.expr import Column, Expression, columns_of, conjuncts
from dpquery.plan.logical import (
    Computed,
    Filter,
    Join,
    Project,
    Relation,
    Released,
    Scan,
    is_private,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import BOOLEAN
from dpquery.sql.bind.boundary import released
from dpquery.sql.bind.scope import Context

_READS_LEFT = ("inner", "cross", "left", "semi", "anti")
_READS_RIGHT = ("inner", "cross")


def of_asked_groups(
    relation: Relation, subquery: Relation, pairs: Sequence[tuple[Expression, Expression]], context: Context
) -> Relation:
    """Returns a subquery above the boundary, over the groups for which a query can ask; as it is, where no public rows
    say which these are.

    Args:
        relation: What the query reads, with its other conditions.
        pairs: (expression of the query, of the subquery) that must be equal.
    """
    leaf = _only_table(subquery)
    if leaf is None or context.is_shared or context.catalog.has_reports:
        return subquery
    if any(leaf.index in family for family in context.families):
        return subquery
    boundary, keys = context.boundaries[leaf.index], _keys(subquery)
    tied = [(outer, keys[inner.id]) for outer, inner in pairs if isinstance(inner, Column) and inner.id in keys]
    tied = [(outer, key) for outer, key in tied if key in boundary.group_by]
    for public in _public_rows(relation):
        given = {column.id for column in output(public)}
        asked = [(outer, key) for outer, key in tied if {c.id for c in columns_of(outer)} <= given]
        if any(_is_selected(key, boundary.source, context) for _, key in asked):
            types = {column.id: column.type for column in output(boundary.source)}
            kept = _kept(boundary.source, public, [(Column(id=k, type=types[k]), outer) for outer, k in asked], context)
            context.is_narrowed = True
            made = _over(subquery, released(replace(boundary, source=kept), context))
            if not is_private(relation):
                return made
            # A step releases few rows at most, and public keys may be more than those that are asked for.
            shown = [(inner, outer) for outer, inner in pairs if {c.id for c in columns_of(outer)} <= given]
            return _kept(made, public, shown, context)
    return subquery


def _kept(
    relation: Relation, public: Relation, pairs: Sequence[tuple[Expression, Expression]], context: Context
) -> Relation:
    """Returns the rows of a relation that meet public rows, where pairs of expressions of both are equal."""
    copies = tuple(Computed(id=context.fresh(), name="", expression=theirs) for _, theirs in pairs)
    equalities = tuple(
        (own, Column(id=copy.id, type=copy.expression.type)) for (own, _), copy in zip(pairs, copies, strict=True)
    )
    rows = Project(source=public, columns=copies)
    return Join(left=relation, right=rows, kind="semi", equalities=equalities, condition=None)


def _only_table(relation: Relation) -> Released | None:
    """Returns the released table of which each row of a relation is computed by itself."""
    while isinstance(relation, Filter | Project):
        relation = relation.source
    return relation if isinstance(relation, Released) else None


def _is_selected(key: str, source: Relation, context: Context) -> bool:
    """Whether a key is a stored column whose values nothing lists."""
    meaning, leaves = definition(key, source)
    if not isinstance(meaning, Column):
        return False
    scan = leaves.get(meaning.id)
    if not isinstance(scan, Scan) or scan.public:
        return False
    name = next(column.name for column in scan.columns if column.id == meaning.id)
    said = context.catalog.tables[scan.table].columns[name]
    return meaning.type != BOOLEAN and said.keys is None and said.keys_from is None and said.lower is None


def _keys(relation: Relation) -> dict[str, str]:
    """Returns the columns of the released table that columns of such a relation are, by their ids."""
    if isinstance(relation, Project):
        below = _keys(relation.source)
        made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
        return {id: below[source] for id, source in made.items() if source in below}
    if isinstance(relation, Filter):
        return _keys(relation.source)
    return {column.id: column.id for column in output(relation)}


def _over(relation: Relation, table: Relation) -> Relation:
    """Returns such a relation over another released table."""
    if isinstance(relation, Released):
        return table
    return with_sources(relation, tuple(_over(source, table) for source in sources(relation)))


def _public_rows(relation: Relation, conditions: Sequence[Expression] = ()) -> list[Relation]:
    """Returns the public parts of a relation, with those of its conditions that speak of one: all rows that it reads of
    them are among these.

    Args:
        conditions: Those above the relation.
    """
    match relation:
        case Scan() if not is_private(relation):
            return [_filtered(relation, conditions)]
        case Filter():
            return _public_rows(relation.source, [*conditions, *conjuncts(relation.condition)])
        case Join() if relation.kind in ("semi", "anti") and not is_private(relation) and _is_stored(relation):
            return [_filtered(relation, conditions)]
        case Join():
            own = [] if relation.condition is None else conjuncts(relation.condition)
            of_left = [*conditions, *(own if relation.kind in _READS_RIGHT else [])]
            left = _public_rows(relation.left, of_left) if relation.kind in _READS_LEFT else []
            right = _public_rows(relation.right, [*conditions, *own]) if relation.kind in _READS_RIGHT else []
            return [*left, *right]
        case _:
            return []


def _is_stored(relation: Relation) -> bool:
    """Whether a relation is made of stored tables by filters and semi- and anti-joins."""
    if isinstance(relation, Join) and relation.kind not in ("semi", "anti"):
        return False
    is_known = isinstance(relation, Scan | Filter | Join | Project)
    return is_known and all(_is_stored(source) for source in sources(relation))


def _filtered(relation: Relation, conditions: Sequence[Expression]) -> Relation:
    ids = {column.id for column in output(relation)}
    for condition in conditions:
        read = {column.id for column in columns_of(condition)}
        if read and read <= ids:
            relation = Filter(source=relation, condition=condition)
    return relation
