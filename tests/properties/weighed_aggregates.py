"""Aggregates over a relation, with each way to weigh rows; keys and ends of lattices among what its rows may hold."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

from dpquery.backends.lattice import lattice_value
from dpquery.kernel.contributions import in_groups, moved_by_row
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import (
    BudgetedAggregate,
    Count,
    Key,
    Lattice,
    Measure,
    Mechanism,
    Noise,
    PrivateAggregate,
    Second,
    Total,
    Weighing,
    Weights,
)
from dpquery.plan.expr import Column
from dpquery.plan.logical import Relation, Scan, sources
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TIMESTAMP, Type, Value
from dpquery.units.declarations import Declarations
from dpquery.units.row_counts import different_values
from dpquery.units.sizes import Sizes
from dpquery.units.weights import Weighed, distinct_groups, pairs_of_unit, rows_in_group, weighed
from tests.properties.weighed_plans import DAYS, Maker
from tests.reference.relations import Row

Grouped = Callable[[Row], Value]
FINEST = 2**24
"""Steps of a lattice so fine that exact integers are released in coarser ones."""


def aggregates_of(
    random: Random, source: Relation, maker: Maker, sizes: Sizes, shown: Sequence[Row] = ()
) -> list[PrivateAggregate]:
    """Returns aggregates over a relation: with each way to weigh rows that its proofs allow, and the least bounds.

    Args:
        shown: Rows that the relation may have, from which keys, filters and ends are mostly chosen.
    """
    declared, unit = maker.declared, maker.units(source)[0]
    proved = weighed(source, declared, sizes)
    offered = [Weights(weighing=Weighing.COUNTED, max_rows=random.randint(1, 3), most_rows=proved.rows_in_all)]
    if proved.rows is not None:
        offered.append(Weights(weighing=Weighing.WHOLE, max_rows=proved.rows))
    offered += [
        Weights(weighing=Weighing.STORED, max_rows=bound, column=id, most_rows=proved.rows)
        for id, bound in list(proved.stored.items())[:2]
    ]
    keys, inside = _keys(random, source, maker, shown)
    grouped = frozenset(id for key in keys for id in key.columns)
    possible = distinct_groups(source, grouped, declared, sizes)
    most = min((limit for limit in (random.choice([None, 1, 2]), possible) if limit is not None), default=None)

    def group(row: Row) -> Value:
        return row[keys[0].columns[0]] if keys else None

    passes = _passing(random, maker.columns(source, BOOLEAN), inside, group)
    inside = [row for row in inside if passes is None or row[passes] is True]
    selection = "units" if any(key.domain is None for key in keys) else None
    in_rounds = selection is not None and random.random() < 0.5
    units = Measure(id="units", label="", count=Count.DECIDING if in_rounds else Count.UNITS)
    made = []
    for weights in offered:
        columns = [c for c in maker.columns(source, INT64, FLOAT64) if c.id not in maker.units(source)]
        columns = [c for c in columns if c.id not in grouped and c.id[0] != "k"] or columns
        counted = _limited(_measures(random, columns, passes, inside, group), source, keys, declared, sizes)
        for measures in (counted, _totals(random, proved, passes, grouped)):
            column = weights.column if measures is counted else None  # weights of a total are other ones
            one = rows_in_group(source, keys, declared, sizes, column)
            aggregate = PrivateAggregate(
                source=source,
                unit=unit,
                keys=keys,
                weights=replace(weights, max_groups=_positive(most), rows_in_group=_positive(one)),
                measures=(units, *measures),
                selection=selection,
            )
            if measures:
                made.append(aggregate)
    return made


def _limited(
    measures: Sequence[Measure], source: Relation, keys: tuple[Key, ...], declared: Declarations, sizes: Sizes
) -> list[Measure]:
    """Returns the measures, those of different values with the least bounds on these."""
    return [
        replace(
            one,
            different=_positive(different_values(source, one.value or "", sizes)),
            pairs=_positive(pairs_of_unit(source, keys, one.value or "", declared, sizes)),
        )
        if one.count is Count.DISTINCT
        else one
        for one in measures
    ]


def _positive(limit: int | None) -> int | None:
    return None if limit is None else max(1, limit)


def _keys(
    random: Random, source: Relation, maker: Maker, shown: Sequence[Row]
) -> tuple[tuple[Key, ...], Sequence[Row]]:
    """Returns a key or none, and the rows that are in its groups."""
    columns = maker.columns(source, INT64, BOOLEAN)
    dates = maker.columns(source, DATE, TIMESTAMP)
    columns = dates if dates and random.random() < 0.4 else columns
    if not columns or random.random() < 0.2:
        return (), shown
    seen = {c.id: sorted({row[c.id] for row in shown}, key=repr) for c in columns}
    several = [c for c in columns if len(seen[c.id]) > 1]
    chosen = random.choice(several or columns)
    domains: list[list[Value] | None] = [[-1, 0, 1, 2, 3], [0, 1], [None, 1], None]
    months = [datetime.datetime(2024, month, 1) for month in (1, 2, 3)]
    others: dict[Type, list[list[Value] | None]] = {
        BOOLEAN: [[True, False, None]],
        DATE: [[*DAYS, None], [*DAYS], [month.date() for month in months], None],
        TIMESTAMP: [[*months, None], [*months], [datetime.datetime(2024, 1, 15), *months], None],
    }
    domain = random.choice(others.get(chosen.type, domains))
    if several and domain is not None and random.random() < 0.9:
        domain = random.sample(seen[chosen.id], random.randint(1, min(5, len(seen[chosen.id]))))
    known = None if domain is None else {*domain}
    return (Key.of(chosen.id, chosen.type, domain),), [r for r in shown if known is None or r[chosen.id] in known]


def _passing(random: Random, columns: Sequence[Column], inside: Sequence[Row], group: Grouped) -> str | None:
    """Returns the column of a filter, mostly one that rows of several groups pass."""
    if not columns or random.random() < 0.5:
        return None
    most = min(2, len({group(row) for row in inside}))
    passed = [c for c in columns if len({group(row) for row in inside if row[c.id] is True}) >= most]
    return random.choice(passed or columns).id


def _measures(
    random: Random, columns: Sequence[Column], filter: str | None, inside: Sequence[Row], group: Grouped
) -> list[Measure]:
    found = [
        Measure(id="rows", label="", count=Count.ROWS, filter=filter),
        Measure(id="some", label="", count=Count.UNITS, filter=filter),
    ]
    if not columns:
        return found
    value, lower, upper = _value(random, columns, inside, group)
    many = max(columns, key=lambda c: len({row[c.id] for row in inside})).id
    small = Lattice(grid=Fraction(1), lower=lower, upper=upper, squared=random.random() < 0.5)
    fine = Lattice(grid=Fraction(1, FINEST), lower=lower * FINEST, upper=upper * FINEST)
    plain = Lattice(grid=Fraction(1), lower=-3, upper=5)
    ways: list[tuple[str, Count, str, Lattice | None, Fraction | None]] = [
        ("values", Count.VALUES, value, None, None),
        ("different", Count.DISTINCT, random.choice([many, value]), None, None),
        ("sum", Count.SUM, value, small, None),
        ("fine", Count.SUM, value, fine, None),
        ("least", Count.QUANTILE, value, plain, Fraction(0)),
        ("third", Count.QUANTILE, value, plain, Fraction(1, 3)),
    ]
    return (
        found
        + [
            Measure(id=id, label="", count=count, value=column, filter=filter, lattice=lattice, target=target)
            for id, count, column, lattice, target in ways
        ]
        + _terms(random, value, many, lower, upper, filter)
    )


def _terms(random: Random, value: str, other: str, lower: int, upper: int, filter: str | None) -> list[Measure]:
    """Returns the Bernstein terms of a value, or of a pair of values: what one row adds to all of them is one number,
    which only the term of an end reaches by itself."""
    degree, is_pair = random.choice([1, 2]), random.random() < 0.3
    found = []
    for power in range(degree + 1):
        lattice = Lattice(grid=Fraction(1), lower=lower, upper=upper, bernstein=(power, degree - power))
        for place in (0, 1) if is_pair else (0,):
            own = Lattice(grid=Fraction(1), lower=-1, upper=3, bernstein=(place, 1 - place))
            second = Second(value=other, lattice=own) if is_pair else None
            id = f"term {power} {place}"
            made = Measure(id=id, label="", count=Count.SUM, value=value, filter=filter, lattice=lattice, second=second)
            found.append(made)
    return found


def _value(random: Random, columns: Sequence[Column], inside: Sequence[Row], group: Grouped) -> tuple[str, int, int]:
    """Returns a column to add up and the ends of its lattice, mostly such that values of several groups are farthest
    from 0 there."""
    most, tried = min(2, len({group(row) for row in inside})), []
    for column in random.sample(columns, len(columns)):
        held = [(group(row), _step(row[column.id])) for row in inside if row[column.id] is not None]
        steps = sorted({step for _, step in held})
        if held and random.random() < 0.95:
            lower, upper = sorted((random.choice(steps[:2]), random.choice(steps[-2:])))
        else:
            lower, upper = random.choice([(-1, 3), (-2, 3), (2, 3)])
        size = max(-lower, upper)
        far = {of for of, step in held if step * (1 if upper == size else -1) >= size > 0}
        if len(far) >= most:
            return column.id, lower, upper
        tried.append((column.id, lower, upper))
    return tried[0]


def _step(value: Value) -> int:
    return math.floor(min(max(float(str(value)), -9), 9))


def reaches(aggregate: PrivateAggregate, measure: Measure, shown: Sequence[Row]) -> bool:
    """Whether rows that were seen before keys and ends were chosen are in two groups, or in the only one, and where
    values are added up farthest from 0 there; of Bernstein terms in two groups or at two ends. Else groups and ends are
    wider than the plan's rows, whatever is proved.
    """
    places = set[object]()
    for row in shown:
        group = tuple(tuple(row[id] for id in key.columns) for key in aggregate.keys)
        public = all(key.domain is None or of in key.domain for key, of in zip(aggregate.keys, group, strict=True))
        second = None if measure.second is None else measure.second.value
        values = [row[id] for id in (measure.value, second) if id is not None]
        if not public or None in values or (measure.filter is not None and row[measure.filter] is not True):
            continue
        if measure.family is not None:
            plain = [replace(lattice, bernstein=None) for lattice in measure.lattices]
            steps = [lattice_value(lattice, value) for lattice, value in zip(plain, values, strict=True)]
            if all(step in (lattice.lower, lattice.upper) for lattice, step in zip(plain, steps, strict=True)):
                places.add((group, *steps))
            continue
        size = 1 if measure.lattice is None else abs(lattice_value(measure.lattice, values[0]))
        if size >= (1 if measure.total is not None else moved_by_row(measure)[0]):
            places.add(group)
    return len(places) >= (2 if measure.family is not None else min(2, aggregate.public_groups or 2))


def _totals(random: Random, proved: Weighed, passes: str | None, grouped: frozenset[str]) -> list[Measure]:
    """Returns sums scaled to the totals that are proved, each to the least."""
    filter = passes if random.random() < 0.5 else None
    return [
        Measure(
            id=f"total {id} {value}",
            label="",
            count=Count.SUM,
            value=value,
            filter=filter,
            lattice=Lattice(grid=pair.lattice[0], lower=pair.lattice[1], upper=pair.lattice[2]),
            total=Total(column=id, most=pair.most),
        )
        for id, pair in list(proved.scaled.items())[:3]
        for value in sorted(pair.values - grouped)[:1]
    ]


def budgeted(aggregate: PrivateAggregate) -> BudgetedAggregate:
    """Returns an aggregate with some noise, for the gate to check."""
    noise = Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1)))
    delta = Fraction(1, 1000) if aggregate.selection is not None else Fraction(0)
    return BudgetedAggregate(aggregate=aggregate, noise=(noise,) * len(aggregate.measures), selection_delta=delta)


def slack(aggregate: PrivateAggregate, measure: Measure, kind: str, maker: Maker, sizes: Sizes) -> str:
    """Returns why no two guests move a measure by its bound, where the proof itself says so; "" where it does not."""
    one, most = in_groups(aggregate, measure)
    is_reduced = measure.count is Count.UNITS and aggregate.divides_units
    if kind == "blocks" and (is_reduced or aggregate.weights.weighing is Weighing.COUNTED):
        return "Counted weights: rows that stay in other blocks have their part"
    if measure.count is Count.DISTINCT:
        own = pairs_of_unit(aggregate.source, (), measure.value or "", maker.declared, sizes)
        if own is not None and own < one and aggregate.keys:
            return "Theorem 4: values in a group are those of other units too"
    if kind != "add_remove" and measure.family is None and measure.total is None and most % one:
        return "Theorem 2: what one unit weighs in a group does not divide what it weighs in all"
    return ""


def bound_by(aggregate: PrivateAggregate, measure: Measure) -> str:
    """Returns what bounds a vector, in a few words."""
    named = {Count.DECIDING: "rounds", Count.DISTINCT: "turns", Count.UNITS: "groups", Count.QUANTILE: "choices"}
    if measure.total is not None or measure.count in named:
        return "totals" if measure.total is not None else named[measure.count]
    strata = ", in strata" if aggregate.weights.column is not None and _has_strata(aggregate.source) else ""
    return f"{aggregate.weights.weighing.value} weights{strata}{', Bernstein terms' if measure.family else ''}"


def _has_strata(relation: Relation) -> bool:
    return (isinstance(relation, Scan) and relation.strata is not None) or any(map(_has_strata, sources(relation)))


def shape(aggregate: PrivateAggregate, measure: Measure, kind: str) -> str:
    """Returns what a measure is counted under in reports; see `Reached`."""
    if aggregate.is_selected or measure.count is Count.QUANTILE:
        return ""
    weighing = aggregate.weights.weighing.value if measure.total is None else "scaled to a total"
    return f"{kind}, {weighing}, {measure.count.value if measure.family is None else 'terms of a vector'}"
