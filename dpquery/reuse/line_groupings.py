"""Private aggregates by places of a line: GROUP BY CASE WHEN v < 4 THEN 0 ... END over the rows that a query reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpquery.kernel.contributions import groups_per_unit
from dpquery.kernel.plan import Key, Measure, PrivateAggregate
from dpquery.plan.canonical import canonical, rename
from dpquery.plan.definitions import taken_apart
from dpquery.plan.expr import Case, Expression, Literal, conjuncts
from dpquery.plan.functions import call
from dpquery.plan.logical import Computed, Filter, Project, Relation
from dpquery.plan.show import names_of, show
from dpquery.plan.types import INT64
from dpquery.planner.protect.grouping_sets import DeclaredGrouping
from dpquery.reuse.cells import Row
from dpquery.reuse.families import Family, LineSum
from dpquery.reuse.frames import KeyText
from dpquery.reuse.lines import Line, before_next
from dpquery.reuse.partitions import Labels
from dpquery.reuse.text import text_of
from dpquery.units.declarations import Declarations
from dpquery.units.sizes import Sizes
from dpquery.units.weights import rows_in_group


def aggregate_by(
    family: Family, labels: Labels, prefix: str, whole: frozenset[str], declared: Declarations, sizes: Sizes
) -> tuple[PrivateAggregate, DeclaredGrouping]:
    """Returns the measure of a family's rows by groups of places of its line, and by all its further keys.

    Args:
        labels: The group of each place; -1 where no row may be.
        prefix: What new ids begin with.
        whole: The ids of sums of what is never NULL.
    """
    first = family.sums[0]
    given, measure = first.one.budgeted.aggregate, first.measure
    base, conditions, values = taken_apart(given.source)
    _, names = canonical(base)
    if measure.filter is not None:
        conditions = [*conditions, *conjuncts(values[measure.filter])]
    source: Relation = base
    for condition in conditions:
        if text_of(before_next(rename(condition, names))) not in family.conditions[0]:
            source = Filter(source=source, condition=condition)
    told = rename(family.line.value, {new: old for old, new in names.items()})
    place = _case(family.line, told, labels)
    key = Key(
        columns=(f"{prefix}_place",),
        types=(INT64,),
        domain=tuple((n,) for n in np.unique(labels[labels >= 0]).tolist()),
    )
    pairs = zip(given.keys, first.keys, first.one.facts.covering, strict=True)
    others = [(own, covers) for own, text, covers in pairs if text not in family.keys[0]]
    keys = (key, *(own for own, _ in others)) if isinstance(place, Case) else tuple(own for own, _ in others)
    total = measure.total
    read = [given.unit, given.weights.column, measure.value, *(id for own, _ in others for id in own.columns)]
    read += [] if total is None else [total.column]
    columns = [Computed(id=id, name="", expression=values[id]) for id in dict.fromkeys(read) if id is not None]
    columns += [Computed(id=key.columns[0], name="", expression=place)] if isinstance(place, Case) else []
    if columns:
        source = Project(source=source, columns=tuple(columns))
    made = replace(measure, id=f"{prefix}_sum", filter=None)
    covering = (*((True,) if isinstance(place, Case) else ()), *(covers for _, covers in others))
    never_null = frozenset({made.id}) if measure.id in whole else frozenset[str]()
    return grouped(given, source, keys, (made,), covering, never_null, declared, sizes)


def grouped(
    given: PrivateAggregate,
    source: Relation,
    keys: tuple[Key, ...],
    measures: tuple[Measure, ...],
    covering: tuple[bool, ...],
    whole: frozenset[str],
    declared: Declarations,
    sizes: Sizes,
) -> tuple[PrivateAggregate, DeclaredGrouping]:
    """Returns measures over an aggregate's rows by other groups, and what is known of these."""
    limit = rows_in_group(source, keys, declared, sizes, None if measures[0].total else given.weights.column)
    limit = None if given.unit is None or limit is None or limit >= given.weights.max_rows else limit
    weights = replace(given.weights, rows_in_group=limit)
    made = PrivateAggregate(source=source, unit=given.unit, keys=keys, weights=weights, measures=measures)
    one_group = given.unit is None or groups_per_unit(made) == 1
    return made, DeclaredGrouping(covering=covering, one_group=one_group, whole=whole)


def _case(line: Line, value: Expression, labels: Labels) -> Expression:
    """Returns an expression that tells the group of each place."""
    *numbers, of_null = [Literal(value=label, type=INT64) for label in labels.tolist()]
    branches = [
        (call("lt", (value, Literal(value=begin, type=value.type))), number)
        for number, following, begin in zip(numbers[:-1], numbers[1:], line.begins, strict=True)
        if number != following
    ]
    if of_null != numbers[-1]:
        branches.insert(0, (call("is_null", (value,)), of_null))
    return Case(branches=tuple(branches), otherwise=numbers[-1], type=INT64) if branches else numbers[-1]


def label_of(one: LineSum, keys: tuple[KeyText, ...], conditions: Row) -> str:
    """Returns what a sum is of, for people: its keys and conditions on the line."""
    given = one.one.budgeted.aggregate
    base, all_conditions, values = taken_apart(given.source)
    _, names = canonical(base)
    if one.measure.filter is not None:
        all_conditions = [*all_conditions, *conjuncts(values[one.measure.filter])]
    read = names_of(base)
    kept = [show(c, read) for c in all_conditions if text_of(before_next(rename(c, names))) in conditions]
    pairs = zip(given.keys, one.keys, strict=True)
    grouped = [show(values[id], read) for own, text in pairs if text in keys for id in own.columns]
    return " and ".join(kept + [f"each {key}" for key in grouped]) or "all rows"
