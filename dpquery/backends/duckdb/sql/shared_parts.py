"""Projections of many columns, with the parts of expressions that several of them have computed once.

The engine would find such parts by itself, but only after it has bound the text of each: for ninety sums of one column
and a constant that takes longer than to add up a million rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, children, columns_of, parts_of, rebuild
from dpquery.plan.logical import Computed, Project, output

MANY = 16
"""Columns from which shared parts are looked for."""


def shared(project: Project) -> Project:
    """Returns the same rows, with each part that comes twice a column of the projection's source.

    No expression raises on any row, so that one may be computed where a CASE would not have asked for it.
    """
    counts = Counter(part for column in project.columns for part in parts_of(column.expression) if _is_computed(part))
    names = dict[Expression, Column]()
    columns = tuple(replace(c, expression=_over(c.expression, counts, names)) for c in project.columns)
    if not names:
        return project
    given = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(project.source)]
    made = [Computed(id=column.id, name="", expression=part) for part, column in names.items()]
    return replace(project, source=Project(source=project.source, columns=(*given, *made)), columns=columns)


def _is_computed(part: Expression) -> bool:
    """Whether a part is worth a column of its own, and equal to no other part: 0.0 and -0.0 only compare so."""
    if not (isinstance(part, Call | Cast | Case) and columns_of(part)):
        return False
    return not any(
        isinstance(one, Literal) and isinstance(one.value, float) and not one.value for one in parts_of(part)
    )


def _over(expression: Expression, counts: Counter[Expression], names: dict[Expression, Column]) -> Expression:
    """Returns an expression over the columns of its largest shared parts, which it names."""
    if counts[expression] > 1:
        return names.setdefault(expression, Column(id=f"shared{len(names)}", type=expression.type))
    return rebuild(expression, tuple(_over(part, counts, names) for part in children(expression)))
