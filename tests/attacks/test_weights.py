"""Someone writes plans so that one unit moves a number further than its noise is for.

Plans are made by hand, at random, far from what SQL becomes; the gate's own rules judge them, and the reference
interpreter runs them on neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from dpquery.backends.reference import ReferenceBackend
from dpquery.errors import InternalError
from dpquery.kernel.checks import check
from dpquery.kernel.exponential import Histogram
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
    Weighing,
    Weights,
)
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.sensitivity import Sensitivity, coarseness, finer_steps, groups_per_unit, sensitivity
from dpquery.kernel.utilities import candidates, rank_of_extreme, utilities
from dpquery.plan.expr import Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import Aggregate, Computed, Project, Relation, Scan
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, Value
from dpquery.units.weights import rows_in_group, weighed
from tests.properties.weighed_plans import PEOPLE, Maker, Rows, catalog_of, frames_of, of_person, world

PLANS = 150
Group = tuple[object, ...]
FINE = Lattice(grid=Fraction(1, 2**24), lower=-(2**25), upper=2**26)
"""So many steps that exact integers are released in coarser ones."""


def neighbour(random: Random, rows: Rows, *, replaced: bool, month: int | None) -> Rows:
    """Returns rows without one person, or with others of hers; with a month, other orders of that month alone."""
    id = random.randrange(PEOPLE)
    keys = {row["key"] for row in rows["orders"] if row["id"] == id}
    kept = {
        "orders": [row for row in rows["orders"] if row["id"] != id],
        "people": [row for row in rows["people"] if row["id"] != id],
        "lines": [row for row in rows["lines"] if row["key"] not in keys],
    }
    added = of_person(random, id, 1_000, most=8) if replaced else {}
    if month is not None:
        own = [row for row in rows["orders"] if row["id"] == id and _month(row) != month]
        added["orders"] = own + [row for row in added["orders"] if _month(row) == month]
        added["lines"] += [{"key": row["key"], "k": random.randint(-1, 3)} for row in own for _ in range(2)]
    return rows | {table: own + added.get(table, []) for table, own in kept.items()}


def _month(row: dict[str, object]) -> int | None:
    return getattr(row["day"], "month", None)


def aggregates_of(random: Random, source: Relation, maker: Maker, sizes: ReferenceBackend) -> list[PrivateAggregate]:
    """Returns aggregates over a relation: with each way to weigh rows that its proofs allow, and the least bounds."""
    declared, unit = maker.declared, maker.units(source)[0]
    proved = weighed(source, declared, sizes)
    most = random.choice([None, 1, 2])
    offered = [Weights(weighing=Weighing.COUNTED, max_rows=random.randint(1, 3), most_rows=proved.rows_in_all)]
    if proved.rows is not None:
        offered.append(Weights(weighing=Weighing.WHOLE, max_rows=proved.rows))
    offered += [
        Weights(weighing=Weighing.STORED, max_rows=bound, column=id, most_rows=proved.rows)
        for id, bound in list(proved.stored.items())[:2]
    ]
    key = maker.one(source, INT64, BOOLEAN)
    domains: list[list[Value] | None] = [[-1, 0, 1, 2, 3], [0, 1], [None, 1], None]
    domain = random.choice(domains) if key is not None and key.type == INT64 else [True, False, None]
    keys = () if key is None or random.random() < 0.2 else (Key.of(key.id, key.type, domain),)
    units = Measure(id="units", label="", count=Count.UNITS)
    selection = "units" if keys and domain is None else None
    made = []
    for weights in offered:
        measures = (units, *_measures(random, source, maker))
        aggregate = PrivateAggregate(
            source=source,
            unit=unit,
            keys=keys,
            weights=replace(weights, max_groups=most, rows_in_group=rows_in_group(source, keys, declared, sizes)),
            measures=measures,
            selection=selection,
        )
        made.append(aggregate)
    return made


def _measures(random: Random, source: Relation, maker: Maker) -> list[Measure]:
    value, passes = maker.one(source, INT64, FLOAT64), maker.one(source, BOOLEAN)
    filter = passes.id if passes is not None and random.random() < 0.5 else None
    found = [
        Measure(id="rows", label="", count=Count.ROWS, filter=filter),
        Measure(id="some", label="", count=Count.UNITS, filter=filter),
    ]
    if value is None:
        return found
    small = random.choice(
        [Lattice(grid=Fraction(1), lower=-1, upper=3), Lattice(grid=Fraction(1), lower=-2, upper=3, squared=True)]
    )
    fine = FINE if random.random() < 0.5 else Lattice(grid=Fraction(1), lower=2, upper=3)
    plain = Lattice(grid=Fraction(1), lower=-3, upper=5)
    ways: list[tuple[str, Count, Lattice | None, Fraction | None]] = [
        ("values", Count.VALUES, None, None),
        ("different", Count.DISTINCT, None, None),
        ("sum", Count.SUM, small, None),
        ("fine", Count.SUM, fine, None),
        ("least", Count.QUANTILE, plain, Fraction(0)),
        ("third", Count.QUANTILE, plain, Fraction(1, 3)),
    ]
    return found + [
        Measure(id=id, label="", count=count, value=value.id, filter=filter, lattice=lattice, target=target)
        for id, count, lattice, target in ways
    ]


def budgeted(aggregate: PrivateAggregate) -> BudgetedAggregate:
    """Returns an aggregate with some noise, for the gate to check."""
    noise = Noise(mechanism=Mechanism.LAPLACE, loss=PrivacyLoss(epsilon=Fraction(1)))
    delta = Fraction(1, 1000) if aggregate.selection is not None else Fraction(0)
    return BudgetedAggregate(aggregate=aggregate, noise=(noise,) * len(aggregate.measures), selection_delta=delta)


def moved(aggregate: PrivateAggregate, measure: Measure, exact: list[ExactAggregates]) -> Sensitivity:
    """Returns the norms by which a measure differs between two databases."""
    changes: list[Fraction] = []
    if measure.count is Count.QUANTILE:
        changes = _ranges(aggregate, measure, exact)
    else:
        coarse, steps = coarseness(aggregate, measure), finer_steps(aggregate, measure)
        place = aggregate.measures.index(measure)
        found = [dict(zip(_groups(one), (int(x) // coarse for x in one.numbers[place]), strict=True)) for one in exact]
        compared = _compared(aggregate, found[0].keys(), found[1].keys())
        changes = [Fraction(abs(found[0].get(g, 0) - found[1].get(g, 0)), steps) for g in compared]
    return Sensitivity(
        linf=max(changes, default=Fraction(0)),
        l1=sum(changes, Fraction(0)),
        l2_squared=sum((change**2 for change in changes), Fraction(0)),
    )


def _compared(aggregate: PrivateAggregate, *groups: Iterable[Group]) -> set[Group]:
    """Returns the groups of both databases; where they are selected, those that both have: delta is for the others."""
    a, b = map(set, groups)
    return a & b if aggregate.is_selected else a | b


def alone(exact: list[ExactAggregates]) -> list[int]:
    """Returns the deciding numbers of the groups that one database has alone: of that which has most of them."""
    decided = [dict(zip(_groups(one), map(int, one.numbers[0]), strict=True)) for one in exact]
    lone = [[decided[i][g] for g in decided[i].keys() - decided[1 - i].keys()] for i in (0, 1)]
    return max(lone, key=len)


def _groups(exact: ExactAggregates) -> list[Group]:
    return [tuple(column[i] for column in exact.keys) for i in range(len(exact.numbers[0]))]


def _ranges(aggregate: PrivateAggregate, measure: Measure, exact: list[ExactAggregates]) -> list[Fraction]:
    place = [m.id for m in aggregate.measures if m.count is Count.QUANTILE].index(measure.id)
    first, last = candidates(measure)
    points = np.arange(first, last + 1)
    scores = []
    for one in exact:
        groups, given = _groups(one), one.histograms[place]
        scores.append({g: _scores(measure, given, i, points) for i, g in enumerate(groups)})
    empty = _scores(measure, exact[0].histograms[place], -1, points)
    found = []
    for group in _compared(aggregate, scores[0].keys(), scores[1].keys()):
        change = scores[0].get(group, empty) - scores[1].get(group, empty)
        found.append(Fraction(int(change.max() - change.min())))
    return found


def _scores(measure: Measure, given: Histogram, group: int, points: np.ndarray) -> np.ndarray:
    value, weight = given.value[given.group == group], given.weight[given.group == group]
    below = np.array([int(weight[value < p].sum()) for p in points])
    equal = np.array([int(weight[value == p].sum()) for p in points])
    total = np.full(len(points), int(weight.sum()))
    extreme = rank_of_extreme(measure, Fraction(1, 1000))
    return utilities(measure, extreme, below=below, equal=equal, total=total)


@pytest.mark.parametrize("kind", ["add_remove", "replace_one", "blocks"])
def test_one_unit_moves_no_number_of_any_plan_further_than_its_sensitivity(kind: str) -> None:
    tried, tight = 0, 0
    for seed in range(PLANS):
        random = Random(f"{kind} {seed}")
        catalog = catalog_of(blocks=kind == "blocks", neighbours="add_remove" if kind == "blocks" else kind)
        maker, rows = Maker(random, catalog), world(random)
        source = maker.relation(random.randint(0, 3))
        month = random.choice([1, 2, 3]) if kind == "blocks" else None
        databases = [rows, neighbour(random, rows, replaced=kind != "add_remove", month=month)]
        engines = [ReferenceBackend(catalog, frames_of(one)) for one in databases]
        for aggregate in aggregates_of(random, source, maker, engines[0]):
            try:
                check(budgeted(aggregate), catalog.declarations, engines[0])
            except InternalError:
                continue
            key = random.getrandbits(128)
            exact = [engine.run(aggregate, key) for engine in engines]
            if aggregate.is_selected:
                lone = alone(exact)
                assert len(lone) <= (groups_per_unit(aggregate) or 0) and {*lone} <= {1}, (kind, seed, lone)
            for measure in aggregate.measures:
                try:
                    claimed = sensitivity(aggregate, measure, catalog.declarations.neighbours)
                except InternalError:
                    continue
                found = moved(aggregate, measure, exact)
                for norm in ("linf", "l1", "l2_squared"):
                    assert getattr(found, norm) <= getattr(claimed, norm), (kind, seed, measure, norm, found, claimed)
                tried, tight = tried + 1, tight + (found.l1 == claimed.l1)
    assert tried > 5 * PLANS
    assert tight > PLANS // 10


def test_rows_of_a_unit_and_a_computed_key_are_as_many_as_the_key_has_values() -> None:
    """An expression was once taken for a constant, as what reads its columns was read twice."""
    catalog = catalog_of()
    scan = Maker(Random(1), catalog).scan("orders")
    assert isinstance(scan, Scan)
    scan = replace(scan, row_limit=1000)
    key = next(c for c in scan.columns if c.name == "key")
    moved_key = Computed(
        id="more", name="", expression=call("add", (Column(id=key.id, type=INT64), Literal(value=1, type=INT64)))
    )
    unit = Computed(id="whose", name="", expression=Column(id=scan.unit or "", type=INT64))
    grouped = Aggregate(
        source=Project(source=scan, columns=(unit, moved_key)), group_by=("whose", "more"), aggregates=()
    )
    sizes = ReferenceBackend(catalog, frames_of(world(Random(2))))
    assert weighed(grouped, catalog.declarations, sizes).rows == 1000


def test_a_key_made_of_itself_many_times_is_judged_at_once() -> None:
    """Each level reads the one below twice; forty levels would take longer than anybody waits."""
    catalog = catalog_of()
    maker = Maker(Random(1), catalog)
    relation: Relation = maker.scan("orders")
    unit, *read = maker.units(relation)[0], *(column.id for column in maker.columns(relation, INT64)[1:3])
    for _ in range(40):
        pair = tuple(Column(id=id, type=INT64) for id in read)
        made: list[Expression] = [call("add", pair), call("subtract", pair), Column(id=unit, type=INT64)]
        columns = tuple(Computed(id=maker.id(), name="", expression=expression) for expression in made)
        relation = Project(source=relation, columns=columns)
        *read, unit = (column.id for column in columns)
    grouped = Aggregate(source=relation, group_by=(unit, read[0]), aggregates=())
    sizes = ReferenceBackend(catalog, frames_of(world(Random(2))))
    assert weighed(grouped, catalog.declarations, sizes).rows is not None
