"""What the gate demands of a plan: nothing that the planner wrote is believed. docs/proofs/gate.md, step 1."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dpquery.errors import InternalError
from dpquery.kernel.choice_utilities import candidates
from dpquery.kernel.contributions import groups_per_unit
from dpquery.kernel.plan import (
    CHOICES,
    WHOLE_ROW,
    BudgetedAggregate,
    BudgetedPlan,
    Count,
    Key,
    Measure,
    Noise,
    PrivateAggregate,
    Weighing,
)
from dpquery.plan.logical import LARGEST_ROW_LIMIT, Relation, Scan, output, sources
from dpquery.plan.types import BOOLEAN, DATE, TIMESTAMP, Type, Value, are_values
from dpquery.units.blocks import NONE, Touched, touched
from dpquery.units.declarations import Declarations
from dpquery.units.locality import locality
from dpquery.units.row_counts import different_values
from dpquery.units.sizes import Sizes
from dpquery.units.weights import Weighed, pairs_of_unit, rows_in_group, weighed


def blocks_of(plan: BudgetedPlan, declared: Declarations) -> Touched:
    """Returns the blocks whose rows some measurement of a plan may depend on; `check` has accepted the plan.

    Source:
        docs/proofs/blocks.md.
    """
    found = NONE
    for budgeted in plan.aggregates:
        found |= touched(budgeted.aggregate.source, declared)
    return found


def check(budgeted: BudgetedAggregate, declared: Declarations, sizes: Sizes) -> None:
    """Raises InternalError unless the aggregate is a sentence of the kernel's language over the declared tables."""
    aggregate = budgeted.aggregate
    known = locality(aggregate.source, declared)
    _check_row_limits(aggregate.source, {})
    _check_weights(aggregate, declared, sizes)
    if known.private and (aggregate.unit is None) is not declared.unit_is_row:
        raise InternalError("the privacy unit of a plan is not the declared one")
    if aggregate.unit is not None and aggregate.unit not in known.units:
        raise InternalError("contributions are bounded for something that is not the privacy unit")
    given = {column.id: column.type for column in output(aggregate.source)}
    read = [id for key in aggregate.keys for id in key.columns]
    read += [m.value for m in aggregate.measures if m.value is not None]
    read += [m.second.value for m in aggregate.measures if m.second is not None]
    if not given.keys() >= set(read):
        raise InternalError("a key or a measure reads a column that its source does not have")
    for key in aggregate.keys:
        if key.types != tuple(given[id] for id in key.columns) or not all(map(are_values, _domains(key), key.types)):
            raise InternalError("a key is not of the types of its columns")
        if key.domain is not None and len(set(key.domain)) != len(key.domain):
            raise InternalError("a public key occurs twice in its domain")
    if any(measure.filter is not None and given.get(measure.filter) != BOOLEAN for measure in aggregate.measures):
        raise InternalError("a measure's filter is not a boolean column of its source")
    for measure in aggregate.measures:
        if measure.count in CHOICES:
            _check_choice(measure, given[measure.value or ""])
    deciding = {m.id for m in aggregate.measures if m.count is Count.DECIDING}
    if deciding - {aggregate.selection} or (deciding and aggregate.unit is None):
        raise InternalError("units decide in rounds about nothing but which groups are shown")
    if len({measure.id for measure in aggregate.measures}) != len(aggregate.measures):
        raise InternalError("two measures share an id")
    _check_vectors(budgeted)
    _check_selection(budgeted)


def _domains(key: Key) -> list[tuple[Value, ...]]:
    """Returns the public values of each of a key's columns."""
    return list(zip(*key.domain, strict=True)) if key.domain else [()] * len(key.columns)


def _check_row_limits(relation: Relation, limits: dict[str, int]) -> None:
    """Raises InternalError unless every scan reads a bounded number of a unit's rows: one number for one table, so that
    all scans of it read the same rows. Source: docs/proofs/row-limit.md."""
    if isinstance(relation, Scan) and relation.ownership is not None:
        limit = relation.row_limit
        if type(limit) is not int or not 1 <= limit <= LARGEST_ROW_LIMIT:
            raise InternalError("a scan reads any number of a unit's rows")
        if limits.setdefault(relation.table, limit) != limit:
            raise InternalError("two scans of one table read different numbers of a unit's rows")
    for source in sources(relation):
        _check_row_limits(source, limits)


def _check_weights(aggregate: PrivateAggregate, declared: Declarations, sizes: Sizes) -> None:
    """Raises InternalError unless the rows of a unit weigh at most what the plan says; docs/proofs/weights.md."""
    weights, proved = aggregate.weights, weighed(aggregate.source, declared, sizes)
    if aggregate.unit is None:
        if weights != WHOLE_ROW:
            raise InternalError("a row that is a privacy unit weighs more than 1")
        if any(measure.total is not None for measure in aggregate.measures):
            raise InternalError("a row that is a privacy unit has no total")
        return
    for measure in aggregate.measures:
        _check_total(measure, proved)
        if measure.count is Count.DISTINCT:
            _check_different(aggregate, measure, declared, sizes)
    if aggregate.is_selected and groups_per_unit(aggregate) is None:
        raise InternalError("a unit may decide about any number of groups")
    rows, most = weights.most_rows, proved.rows
    changed = proved.rows_in_all if weights.weighing is Weighing.COUNTED else most  # a row more moves all weights
    if rows is not None and (changed is None or rows < changed):
        raise InternalError("a unit may have more rows than a plan says")
    if weights.rows_in_group is not None:
        has_total = [
            measure for measure in aggregate.measures if measure.total is not None
        ]  # whose weights are other ones
        column = None if has_total else weights.column
        one = rows_in_group(aggregate.source, aggregate.keys, declared, sizes, column)
        if one is None or weights.rows_in_group < one:
            raise InternalError("the rows of a unit may weigh more in a group than a plan says")
    match weights.weighing:
        case Weighing.WHOLE:
            holds = most is not None and most <= weights.max_rows
        case Weighing.STORED:
            bound = proved.stored.get(weights.column or "")
            holds = bound is not None and bound <= weights.max_rows
        case Weighing.COUNTED:
            holds = True
        case _:
            assert_never(weights.weighing)
    if not holds:
        raise InternalError("the rows of a unit may weigh more than a plan says")


def _check_total(measure: Measure, proved: Weighed) -> None:
    """Raises InternalError unless what a sum adds up has the total that it says; docs/proofs/weights.md, Theorem 9."""
    total, lattice = measure.total, measure.lattice
    if total is None:
        return
    pair = proved.scaled.get(total.column)
    if pair is None or lattice is None or measure.value not in pair.values or pair.most > total.most:
        raise InternalError("the rows of a unit may have a larger total than a plan says")
    if pair.lattice != (lattice.grid, lattice.lower, lattice.upper):
        raise InternalError("a total is bounded on another lattice than that of its sum")


def _check_vectors(budgeted: BudgetedAggregate) -> None:
    """Raises InternalError unless the Bernstein terms of one vector, each once, get noise of one law: their sensitivity
    is that of the vector. Source: docs/proofs/weights.md, Theorem 10."""
    laws: dict[object, Noise] = {}
    places = [(m.family, m.powers) for m in budgeted.aggregate.measures if m.family is not None]
    if len(set(places)) < len(places):
        raise InternalError("one term of a vector is measured twice")
    for measure, noise in zip(budgeted.aggregate.measures, budgeted.noise, strict=True):
        if measure.family is not None and laws.setdefault(measure.family, noise) != noise:
            raise InternalError("the terms of one vector get noise of different laws")


def _check_different(aggregate: PrivateAggregate, measure: Measure, declared: Declarations, sizes: Sizes) -> None:
    """Raises InternalError unless there are as few different values as a plan says; docs/proofs/weights.md, Lemma 5."""
    value = measure.value or ""
    if measure.different is not None:
        most = different_values(aggregate.source, value, sizes)
        if most is None or measure.different < most:
            raise InternalError("there may be more different values than a plan says")
    if measure.pairs is not None:
        most = pairs_of_unit(aggregate.source, aggregate.keys, value, declared, sizes)
        if most is None or measure.pairs < most:
            raise InternalError("a unit may have more pairs of group and value than a plan says")


def _check_choice(measure: Measure, type: Type) -> None:
    candidates(measure)
    if measure.count is Count.QUANTILE and not (type.is_numeric or type in (DATE, TIMESTAMP)):
        raise InternalError("a quantile is chosen from numbers, dates or timestamps")
    if not are_values(measure.domain or (), type):
        raise InternalError("the domain of a mode is not of the type of its column")


def _check_selection(budgeted: BudgetedAggregate) -> None:
    aggregate = budgeted.aggregate
    if not aggregate.is_selected:
        if aggregate.selection is not None or budgeted.selection_delta:
            raise InternalError("public groups need no selection")
        return
    deciding = [m for m in aggregate.measures if m.id == aggregate.selection]
    if [m.filter for m in deciding if m.count in (Count.UNITS, Count.DECIDING)] != [None]:
        raise InternalError("groups can only be selected by their number of units")
    if not Fraction(0) < budgeted.selection_delta < 1:
        raise InternalError("selecting groups needs a delta between 0 and 1")
