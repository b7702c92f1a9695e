"""In how many strata rows can be that agree in some columns, or pass a filter. docs/proofs/weights.md, Lemma 8."""

from __future__ import annotations

from dpquery.plan.logical import Filter, Project, Scan
from dpquery.plan.periods import Told, agreeing, most_periods
from dpquery.plan.strata import Strata
from dpquery.units.blocks import ALL, may_hold

Agreed = frozenset[tuple[str, Told]]
"""Columns, and in what rows agree of each."""


def below(project: Project, agreed: Agreed) -> Agreed:
    """Returns in what the rows of a projection's source agree, if its own rows agree in this."""
    made = {column.id: column.expression for column in project.columns}
    return frozenset(each for id, told in agreed if id in made for each in agreeing(made[id], told))


def strata_of(agreed: Agreed, scan: Scan, strata: Strata) -> int | None:
    """Returns in how many strata rows of a scan can be that agree in this; None where nothing limits them."""
    ids = {column.id for column in scan.columns if column.name == strata.column}
    told = {told for id, told in agreed if id in ids}
    if strata.by is None:
        return 1 if None in told else None
    return most_periods(strata.by, told)


def strata_read(filtered: Filter) -> tuple[Scan, int] | None:
    """Returns the scan under filters, and in how many strata the rows that pass can be at most; None where that is not
    known: what does not stand directly on a scan of calendar periods tells nothing."""
    conditions, relation = [filtered.condition], filtered.source
    while isinstance(relation, Filter):
        conditions.append(relation.condition)
        relation = relation.source
    if not isinstance(relation, Scan) or relation.strata is None or relation.strata.by is None:
        return None
    column = next((column for column in relation.columns if column.name == relation.strata.column), None)
    if column is None:
        return None
    found = ALL
    for condition in conditions:
        found &= may_hold(condition, frozenset({column.id}), column.type, relation.strata.by)
    return relation, sum(last - first + 1 for first, last in found.spans) + found.undated
