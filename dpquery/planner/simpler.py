"""Joins in the form of which most is proved: an outer join whose matches are thrown away is an anti-join, and what
compares both sides of an inner join stands in the join.

The rows stay the same. The gate looks at what these rules made, and believes nothing of it.
"""

from __future__ import annotations

from dataclasses import replace

from dpquery.plan.expr import Call, Column, Expression, Literal, columns_of, conjuncts, substitute
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, Join, Project, Relation, is_private, output, sources, with_sources

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq"})


def simpler(relation: Relation) -> Relation:
    """Returns a relation with the same columns and rows."""
    relation = with_sources(relation, tuple(simpler(source) for source in sources(relation)))
    if not isinstance(relation, Filter) or not is_private(relation):
        return relation
    join, names = _join_below(relation.source)
    if join is None:
        return relation
    if join.kind == "left":
        return _anti(relation, join, names)
    return _compared(relation, join, names) if join.kind in ("inner", "cross") else relation


def _join_below(relation: Relation) -> tuple[Join | None, dict[str, str]]:
    """Returns the join that a relation passes on, and of its columns what they are in the join."""
    names = {column.id: column.id for column in output(relation)}
    while isinstance(relation, Project):
        made = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
        names = {id: made[held] for id, held in names.items() if held in made}
        relation = relation.source
    return (relation, names) if isinstance(relation, Join) else (None, {})


def _anti(filtered: Filter, join: Join, names: dict[str, str]) -> Relation:
    """A row whose match must be NULL in what equals a column of the left has met none: NULL equals nothing."""
    equated = {b.id for _, b in join.equalities if isinstance(b, Column)}
    parts = conjuncts(filtered.condition)
    unmatched = [part for part in parts if _is_null(part, names, equated)]
    if not unmatched:
        return filtered
    anti = replace(join, kind="anti")
    columns = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(join.left)]
    columns += [Computed(id=c.id, name=c.name, expression=Literal(value=None, type=c.type)) for c in output(join.right)]
    below = _instead(filtered.source, Project(source=anti, columns=tuple(columns)))
    return _filtered(below, [part for part in parts if part not in unmatched])


def _is_null(part: Expression, names: dict[str, str], equated: set[str]) -> bool:
    match part:
        case Call(function="is_null", arguments=(Column(id=id),)):
            return names.get(id) in equated
        case _:
            return False


def _compared(filtered: Filter, join: Join, names: dict[str, str]) -> Relation:
    """Moves comparisons of a private with a public side into the join, where they bound how many rows meet."""
    if is_private(join.left) and is_private(join.right):
        return filtered
    sides = [{column.id for column in output(side)} for side in (join.left, join.right)]
    moved: list[Expression] = []
    kept: list[Expression] = []
    for part in conjuncts(filtered.condition):
        held = {names.get(column.id) for column in columns_of(part)}
        both = None not in held and all(held & side for side in sides)
        if both and isinstance(part, Call) and part.function in COMPARISONS:
            moved.append(_renamed(part, names))
        else:
            kept.append(part)
    if not moved:
        return filtered
    given = [] if join.condition is None else [join.condition]
    kind = "inner" if join.kind == "cross" else join.kind
    made = replace(join, kind=kind, condition=_all([*given, *moved]))
    return _filtered(_instead(filtered.source, made), kept)


def _renamed(part: Expression, names: dict[str, str]) -> Expression:
    return substitute(part, {c.id: replace(c, id=names[c.id]) for c in columns_of(part)})


def _instead(relation: Relation, join: Relation) -> Relation:
    """Returns the projections of a relation over another join."""
    if isinstance(relation, Project):
        return replace(relation, source=_instead(relation.source, join))
    return join


def _filtered(relation: Relation, parts: list[Expression]) -> Relation:
    return Filter(source=relation, condition=_all(parts)) if parts else relation


def _all(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else call("and", tuple(parts))
