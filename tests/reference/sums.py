"""The three steps of `kernel/plan.py` over rows: weights, groups, and what measures add up; plain loops."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from dpquery.backends.lattice import lattice_value
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.measures import CONSIDERED, LOOKED_AT
from dpquery.kernel.plan import WEIGHT, Count, Key, Lattice, Measure, PrivateAggregate, Weighing
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.rounds import Pairs
from dpquery.plan.calendar import number_of as number_of_period
from dpquery.plan.scaled_weights import Scaled
from dpquery.plan.strata import Strata
from dpquery.plan.types import Value
from tests.reference.aggregates import Row

Values = tuple[Value, ...]
Group = tuple[Values, ...]
"""Values of the keys, one tuple for each."""
Weighted = list[tuple[Row, int]]
"""Rows of one unit and their weights."""


def added_up(aggregate: PrivateAggregate, rows: Sequence[Row], key: int) -> ExactAggregates:
    """Returns the exact integers of an aggregate over the rows of its source, under the release's key."""
    units = {unit: _groups_of(aggregate, own) for unit, own in _weighted(aggregate, rows).items()}
    public = {unit: _public(aggregate, groups) for unit, groups in units.items()}
    order: dict[Group, None] = {} if aggregate.keys else {(): None}
    for groups in public.values():
        order |= dict.fromkeys(groups)
    numbers: list[Counter[Group]] = []
    histograms: list[dict[Group, Counter[int]]] = []
    decided: list[list[Group]] | None = None
    for measure in aggregate.measures:
        match measure.count:
            case Count.UNITS:
                found = _units(aggregate, measure, units, public, key)
            case Count.DECIDING:
                decided = _deciding(aggregate, public, key)
                found = Counter(group for groups in decided for group in groups)
            case Count.DISTINCT:
                found = _distinct(aggregate, measure, public, key)
            case Count.ROWS | Count.VALUES | Count.SUM:
                found = _sums(measure, public)
            case Count.QUANTILE | Count.MODE:
                weights = _choices(measure, public)
                histograms.append(weights)
                found = Counter({group: sum(given.values()) for group, given in weights.items()})
            case _:
                assert_never(measure.count)
        numbers.append(found)
    if aggregate.selection is not None:
        deciding = numbers[[measure.id for measure in aggregate.measures].index(aggregate.selection)]
        order = {group: None for group in order if deciding[group]}
    shown = list(order)
    return ExactAggregates(
        keys=tuple(_key_column(each, [group[i] for group in shown]) for i, each in enumerate(aggregate.keys)),
        numbers=tuple(_integers([found[group] for group in shown]) for found in numbers),
        histograms=tuple(_histogram([weights.get(group, Counter()) for group in shown]) for weights in histograms),
        pairs=None if decided is None else _pairs(decided, shown),
    )


def weight_of_one(most: int, count: int) -> int:
    """Returns what one of `count` things weighs that may weigh `most` together, in steps of 1 / WEIGHT."""
    return math.floor(WEIGHT * min(Fraction(1), Fraction(most, count)))


def stratum_weights(strata: Strata, most: int, values: Mapping[int, Value]) -> dict[int, int]:
    """Returns what the rows of one unit weigh, each of which has a value of the strata's column."""
    by = strata.by
    told = {row: number_of_period(v, by) if by and isinstance(v, datetime.date) else v for row, v in values.items()}
    counts = Counter(told.values())
    held = sum(min(strata.max_rows, count) for count in counts.values())
    whole = min(Fraction(1), Fraction(most, held))
    return {
        row: math.floor(WEIGHT * whole * min(Fraction(1), Fraction(strata.max_rows, counts[told[row]]))) for row in told
    }


def scaled_weight(scaled: Scaled, values: Sequence[Value], count: int) -> int:
    """Returns what each row of a unit weighs under a total of a column.

    Args:
        values: What the column holds on all rows of the unit.
        count: How many of the rows are read at most.
    """
    lattice = Lattice(grid=scaled.grid, lower=scaled.lower, upper=scaled.upper)
    total = sum(abs(lattice_value(lattice, value)) for value in values if value is not None)
    return min(weight_of_one(scaled.max_rows, count), weight_of_one(scaled.most, total) if total else WEIGHT)


def keyed_hash(text: str, key: int) -> bytes:
    """Returns BLAKE2b of a text under a 128-bit key."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), key=key.to_bytes(16, "little")).digest()


def _weighted(aggregate: PrivateAggregate, rows: Sequence[Row]) -> dict[object, Weighted]:
    """Returns the rows of each unit and their weights; rows without a unit are dropped."""
    units: dict[object, list[Row]] = {}
    for number, row in enumerate(rows):
        unit = number if aggregate.unit is None else row[aggregate.unit]
        if unit is not None:
            units.setdefault(unit, []).append(row)
    weights = aggregate.weights
    match weights.weighing:
        case Weighing.WHOLE:
            return {unit: [(row, 1) for row in own] for unit, own in units.items()}
        case Weighing.STORED:
            column = weights.column
            assert column is not None
            return {unit: [(row, _weight(row[column])) for row in own] for unit, own in units.items()}
        case Weighing.COUNTED:
            return {
                unit: [(row, weight_of_one(weights.max_rows, len(own))) for row in own] for unit, own in units.items()
            }
        case _:
            assert_never(weights.weighing)


def _groups_of(aggregate: PrivateAggregate, rows: Weighted) -> dict[Group, Weighted]:
    """Returns one unit's rows by group, of all values of the keys."""
    groups: dict[Group, Weighted] = {}
    for row, weight in rows:
        group = tuple(tuple(row[id] for id in key.columns) for key in aggregate.keys)
        groups.setdefault(group, []).append((row, weight))
    return groups


def _public(aggregate: PrivateAggregate, groups: dict[Group, Weighted]) -> dict[Group, Weighted]:
    """Returns the groups of which no key is outside its public domain."""

    def is_inside(group: Group) -> bool:
        pairs = zip(aggregate.keys, group, strict=True)
        return all(key.domain is None or values in key.domain for key, values in pairs)

    return {group: rows for group, rows in groups.items() if is_inside(group)}


def _counted(measure: Measure, rows: Weighted) -> Weighted:
    """Returns the rows that count: those that pass the filter, and have a value where one is asked for."""
    return [
        (row, weight)
        for row, weight in rows
        if (measure.filter is None or row[measure.filter] is True)
        and (measure.value is None or row[measure.value or ""] is not None)
        and (measure.second is None or row[measure.second.value] is not None)
    ]


def _units(
    aggregate: PrivateAggregate,
    measure: Measure,
    units: dict[object, dict[Group, Weighted]],
    public: dict[object, dict[Group, Weighted]],
    key: int,
) -> Counter[Group]:
    """Returns what units weigh in each group; see `Count.UNITS`."""
    found: Counter[Group] = Counter()
    most = aggregate.weights.max_groups
    for unit, groups in public.items():
        kept: Iterable[Group] = groups
        weight = 1
        if most is not None and aggregate.is_selected:
            kept = _keep(groups, most, key, unit)
        elif most is not None and aggregate.divides_units:
            weight = weight_of_one(most, len(units[unit]))
        for group in kept:
            if _counted(measure, groups[group]):
                found[group] += weight
    return found


def _deciding(aggregate: PrivateAggregate, public: dict[object, dict[Group, Weighted]], key: int) -> list[list[Group]]:
    """Returns the groups about which each unit may decide, in its order; see `Count.DECIDING`."""
    most = max(CONSIDERED, aggregate.weights.max_groups or 0)
    return [_keep(groups, most, key, unit) for unit, groups in public.items()]


def _pairs(decided: list[list[Group]], shown: list[Group]) -> Pairs:
    index = {group: place for place, group in enumerate(shown)}
    found = [(index[g], unit, place) for unit, groups in enumerate(decided) for place, g in enumerate(groups, start=1)]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3)
    return Pairs(group=columns[:, 0], unit=columns[:, 1], place=columns[:, 2])


def _distinct(
    aggregate: PrivateAggregate, measure: Measure, public: dict[object, dict[Group, Weighted]], key: int
) -> Counter[Group]:
    """Returns how many different values units stand for in each group, one unit after another; see `Count.DISTINCT`."""
    pairs = {
        unit: {(group, row[measure.value or ""]) for group, rows in own.items() for row, _ in _counted(measure, rows)}
        for unit, own in public.items()
    }
    taken: set[tuple[Group, Value]] = set()
    for unit in sorted(pairs, key=lambda unit: (len(pairs[unit]), keyed_hash(repr(unit), key))):
        most = aggregate.weights.max_rows
        looked_at = sorted(pairs[unit], key=lambda pair: keyed_hash(repr(pair), key))[: LOOKED_AT * most]
        taken |= set([pair for pair in looked_at if pair not in taken][:most])
    return Counter(group for group, _ in taken)


def _sums(measure: Measure, public: dict[object, dict[Group, Weighted]]) -> Counter[Group]:
    """Returns the weights of the rows that count, for sums each times its lattice value, by group."""
    found: Counter[Group] = Counter()
    for groups in public.values():
        for group, rows in groups.items():
            for row, weight in _counted(measure, rows):
                times = 1
                if measure.total is not None:
                    weight = _weight(row[measure.total.column])
                if measure.lattice is not None:
                    times = lattice_value(measure.lattice, row[measure.value or ""])
                if measure.second is not None:
                    times *= lattice_value(measure.second.lattice, row[measure.second.value])
                found[group] += weight * times
    return found


def _choices(measure: Measure, public: dict[object, dict[Group, Weighted]]) -> dict[Group, Counter[int]]:
    """Returns the weights of the lattice values, or places in the domain, in each group."""
    found: dict[Group, Counter[int]] = {}
    for groups in public.values():
        for group, rows in groups.items():
            for row, weight in _counted(measure, rows):
                value = row[measure.value or ""]
                if measure.lattice is not None:
                    found.setdefault(group, Counter())[lattice_value(measure.lattice, value)] += weight
                elif measure.domain is not None and value in measure.domain:
                    found.setdefault(group, Counter())[measure.domain.index(value)] += weight
    return found


def _keep(things: Iterable[Any], most: int, key: int, owner: object) -> list[Any]:
    """Returns at most so many of the things: those with the least keyed hash of owner and thing."""
    return sorted(things, key=lambda thing: keyed_hash(repr((owner, thing)), key))[:most]


def _histogram(groups: list[Counter[int]]) -> Histogram:
    """Returns the weight of each value in each group."""
    found = [(index, value, weight) for index, total in enumerate(groups) for value, weight in total.items() if weight]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3)
    return Histogram(group=columns[:, 0], value=columns[:, 1], weight=columns[:, 2])


def _key_column(key: Key, groups: list[Values]) -> NDArray[Any]:
    if key.domain is not None:
        return np.array([key.domain.index(values) for values in groups], dtype=np.int64)
    return _objects([value for (value,) in groups])


def _integers(numbers: list[int]) -> NDArray[Any]:
    if all(-(2**63) <= number < 2**63 for number in numbers):
        return np.array(numbers, dtype=np.int64)
    return _objects(numbers)


def _objects(values: Sequence[object]) -> NDArray[Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _weight(stored: Value) -> int:
    """Returns a stored weight in steps; NULL weighs nothing."""
    return stored if isinstance(stored, int) else 0
