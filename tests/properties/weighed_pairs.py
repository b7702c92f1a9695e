"""Pairs of neighbours for plans made at random: how far what the plan releases moves, and how near to its sensitivity.

Some guests are made at random; others have many equal rows, which is what reaches a bound.

Usage: python -m tests.properties.weighed_pairs [--pairs N] [--engine reference|duckdb] [--first SEED]
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpquery as dp
from dpquery.backends.base import Backend
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.data.arrow import arrow_type
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
    Total,
    Weighing,
    Weights,
)
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.sensitivity import Sensitivity, coarseness, finer_steps, groups_per_unit, sensitivity
from dpquery.kernel.utilities import candidates, rank_of_extreme, utilities
from dpquery.plan.expr import Column
from dpquery.plan.logical import Relation, Released
from dpquery.plan.types import BOOLEAN, FLOAT64, INT64, Type, Value
from dpquery.units.sizes import Sizes
from dpquery.units.weights import Weighed, rows_in_group, weighed
from tests.properties.weighed_plans import (
    DAYS,
    PRIVATE,
    PUBLIC,
    Maker,
    Rows,
    catalog_of,
    frames_of,
    of_person,
    world,
)
from tests.reference.backend import ReferenceBackend
from tests.reference.relations import Interpreter, Row
from tests.reference.sums import added_up

KINDS = ("add_remove", "replace_one", "blocks")
IDS = (-1, 0, 1, 2, 3, 7, -7)
"""Of the person in whom neighbours differ: among them numbers that conditions of plans ask for."""
CROWD = (0, 1, 4)
"""How many people there are besides."""
FIRST_ID = 10
"""Of the crowd."""
FIRST_KEY = -1
"""Of the guest's orders."""
GUESTS = 40
SWEPT = 60
"""Pairs of guests that are looked at in the end, where all of them are neighbours."""
NEAR = Fraction(99, 100)
"""Of a sensitivity, what counts as reaching it."""
Group = tuple[object, ...]
FINE = Lattice(grid=Fraction(1, 2**24), lower=-(2**25), upper=2**26)
"""So many steps that exact integers are released in coarser ones."""


# Guests.

NUMBERS: tuple[object, ...] = (-1, 0, 1, 2, 3, 7, -7, None)
POOLS: dict[str, tuple[object, ...]] = {
    "k": NUMBERS,
    "age": NUMBERS,
    "x": (0.0, -0.0, 1.5, -2.0, 9.0, -9.0, None),
    "good": (True, True, False, None),
}
MOST_ORDERS, MOST_LINES = 10, 24


@dataclass(frozen=True, slots=True)
class Guests:
    """Makes rows of one person; those of a month alone, where neighbours differ in a block.

    Attributes:
        month: The month, or None.
        fixed: Orders of other months, which all of these guests have.
        id: The guest's, where it is one person who has other rows.
    """

    random: Random
    month: int | None = None
    fixed: tuple[dict[str, object], ...] = ()
    id: int | None = None

    @property
    def days(self) -> list[object]:
        """The dates that orders may have here."""
        return [day for day in DAYS if self.month in (None, day.month)] + ([None] if self.month is None else [])

    def first(self) -> Rows:
        """Returns rows at random, or many that are equal."""
        id = self._id()
        if self.random.random() < 0.3:
            made = of_person(self.random, id, FIRST_KEY, most=8)
            return made | {"orders": [self._moved(order) for order in made["orders"]]}
        k, x, day = self.random.choice(NUMBERS), self.random.choice(POOLS["x"]), self.random.choice(self.days)
        many = self.random.choice([0, 1, 2, 3, 4, 8])
        orders = [{"id": id, "key": FIRST_KEY + i, "k": k, "x": x, "day": day} for i in range(many)]
        people = [{"id": id, "age": self.random.choice(NUMBERS), "good": self.random.random() < 0.8}]
        each, other = self.random.choice([0, 1, 4]), self.random.choice([k, *NUMBERS])
        lines: list[dict[str, object]] = [{"key": o["key"], "k": other} for o in orders for _ in range(each)]
        return {"orders": orders, "people": list(people), "lines": lines}

    def changed(self, own: Rows) -> Rows:
        """Returns the rows with something else in them."""
        made = {table: [dict(row) for row in rows] for table, rows in own.items()}
        known = [int(str(row["id"])) for row in made["orders"] + made["people"]]
        id = known[0] if known and self.random.random() < 0.8 else self._id()
        for row in made["orders"] + made["people"]:
            row["id"] = id
        for _ in range(self.random.choice([1, 1, 2, 3])):
            table = self.random.choice(["orders", "orders", "lines", "people"])
            rows = made[table]
            match self.random.choice(["all", "all", "one", "more", "fewer"]):
                case "all" | "one" as how if rows:
                    column = self.random.choice([c for c in rows[0] if c in POOLS or c == "day"])
                    value = self.random.choice(POOLS.get(column) or self.days)
                    for row in rows if how == "all" else [self.random.choice(rows)]:
                        row[column] = value
                case "fewer" if rows:
                    rows.pop(self.random.randrange(len(rows)))
                case _:
                    self._extend(made, table, id)
        return made

    def _extend(self, made: Rows, table: str, id: int) -> None:
        orders, keys = made["orders"], {row["key"] for row in made["orders"]}
        match table:
            case "people":
                made["people"] = [{"id": id, "age": self.random.choice(NUMBERS), "good": True}]
            case "orders":
                pattern = self.random.choice(orders) if orders else {"id": id, "k": 1, "x": 1.5, "day": self.days[0]}
                for key in range(FIRST_KEY, FIRST_KEY + MOST_ORDERS):
                    if key not in keys and self.random.random() < 0.5:
                        orders.append(pattern | {"key": key})
            case _:
                k = self.random.choice([row["k"] for row in made["lines"]] or list(NUMBERS))
                owners = [*keys, *(row["key"] for row in self.fixed)] or [FIRST_KEY]
                more: list[dict[str, object]] = [{"key": key, "k": k} for key in owners]
                made["lines"] = (made["lines"] + more)[-MOST_LINES:]

    def _id(self) -> int:
        return self.random.choice(IDS) if self.id is None else self.id

    def _moved(self, order: dict[str, object]) -> dict[str, object]:
        return order if self.month is None else order | {"day": self.random.choice(self.days)}

    def rows(self, own: Rows) -> Rows:
        """Returns all rows of the guest."""
        return own | {"orders": [*self.fixed, *own["orders"]]}


def guests_of(random: Random, kind: str) -> Guests:
    """Returns a maker of guests whose databases are neighbours of this kind."""
    if kind != "blocks":
        return Guests(random)
    month, id = random.choice([1, 2, 3]), random.choice(IDS)
    made = of_person(random, id, 50, most=4)["orders"]
    return Guests(random, month, tuple(order for order in made if getattr(order["day"], "month", None) != month), id)


class Reader(ReferenceBackend):
    """The reference, which here reads a column once, and the rows of a relation once for each key."""

    def __init__(self, catalog: dp.Catalog, rows: Rows) -> None:
        self._columns: dict[tuple[str, str, Type], list[Value]] = {}
        self._rows: dict[tuple[int, int], list[Row]] = {}
        super().__init__(catalog, frames_of(rows))

    def _read(self, table: str, column: str, type: Type) -> list[Value]:
        known = table, column, type
        if known not in self._columns:
            self._columns[known] = super()._read(table, column, type)
        return self._columns[known]

    def run(self, aggregate: PrivateAggregate, key: int) -> ExactAggregates:
        known = id(aggregate.source), key  # the caller keeps the relation
        if known not in self._rows:
            read = Interpreter(scan=lambda scan: self._scan_owned(scan, key), released=_none)
            self._rows[known] = read.rows(aggregate.source)
        return added_up(aggregate, self._rows[known], key)


def _none(node: Released) -> list[Row]:
    raise AssertionError(node)


def opened(engine: str, catalog: dp.Catalog, rows: Rows) -> Backend:
    """Returns a database in an engine."""
    if engine == "reference":
        return Reader(catalog, rows)
    columns = {name: {c: arrow_type(t) for c, t in given.items()} for name, given in (PRIVATE | PUBLIC).items()}
    tables = {
        name: pa.table({c: pa.array([row[c] for row in rows[name]], type) for c, type in types.items()})
        for name, types in columns.items()
    }
    return DuckDBBackend(catalog, tables)


# Aggregates, and how far they move.


def aggregates_of(random: Random, source: Relation, maker: Maker, sizes: Sizes) -> list[PrivateAggregate]:
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
        measures = (units, *_measures(random, source, maker), *_totals(random, proved, maker.one(source, BOOLEAN)))
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


def _totals(random: Random, proved: Weighed, passes: Column | None) -> list[Measure]:
    """Returns sums scaled to the totals that are proved, each to the least."""
    filter = passes.id if passes is not None and random.random() < 0.5 else None
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
        for value in sorted(pair.values)[:1]
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


def _are_equal(one: ExactAggregates, other: ExactAggregates) -> bool:
    """Whether two databases give the same groups in the same order, and the same in each."""

    def parts(exact: ExactAggregates) -> list[NDArray[Any]]:
        histograms = [part for h in exact.histograms for part in (h.group, h.value, h.weight)]
        return [*exact.keys, *exact.numbers, *histograms]

    return all(map(np.array_equal, parts(one), parts(other)))


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


# Pairs.


@dataclass(slots=True)
class Found:
    """What was seen.

    Attributes:
        plans, aggregates, pairs: How many relations, aggregates over them, and pairs of neighbours of these.
        measures: Pairs, each with one of its measures.
        best: For each measure of each aggregate the largest part of its L1 sensitivity that a pair reached, and what
            the plan is made of.
        full: For each aggregate the largest part of `max_rows` that the guest's rows of its source weighed.
        violations: What moved further than it may.
    """

    plans: int = 0
    aggregates: int = 0
    pairs: int = 0
    measures: int = 0
    best: dict[tuple[str, int, int, str], tuple[Fraction, str]] = field(default_factory=dict)
    full: dict[tuple[str, int, int], Fraction] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def attainable(self) -> dict[tuple[str, int, int, str], tuple[Fraction, str]]:
        """The measures that moved, where public keys show all of it and the guest's rows weighed all that they may."""
        return {
            name: (part, shape)
            for name, (part, shape) in self.best.items()
            if part and shape and self.full[name[:3]] >= NEAR
        }

    @property
    def tight(self) -> int:
        """How many of these reached their bound."""
        return sum(part >= NEAR for part, _ in self.attainable.values())

    def by_shape(self) -> dict[str, Counter[str]]:
        """Returns for each shape of a plan how many measures could reach their bounds, and did."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for part, shape in self.attainable.values():
            found[shape] += Counter(could=1, did=int(part >= NEAR))
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """An aggregate that the gate accepts, with what is claimed of it, and its exact numbers in each database."""

    name: tuple[str, int, int]
    aggregate: PrivateAggregate
    claims: list[tuple[Measure, Sensitivity]]
    key: int
    exact: list[ExactAggregates] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)


def _total(database: Backend, asked: Asked) -> int:
    """Returns what all rows of the source weigh."""
    rows = Measure(id="rows", label="", count=Count.ROWS)
    total = replace(asked.aggregate, keys=(), measures=(rows,), selection=None)
    return int(database.run(database.prepare(total), asked.key).numbers[0][0])


def check_plan(found: Found, kind: str, seed: int, *, engine: str = "reference", guests: int = GUESTS) -> None:
    """Looks at neighbours under aggregates of one random relation; adds what it saw. Each guest but the first is a
    change of the one that moved some measure most that does not yet reach its bound."""
    random = Random(f"{kind} {seed}")
    catalog = catalog_of(blocks=kind == "blocks", neighbours="add_remove" if kind == "blocks" else kind)
    maker = Maker(random, catalog)
    source = maker.relation(random.randint(0, 3))
    crowd, made = world(random, random.choice(CROWD), first=FIRST_ID), guests_of(random, kind)
    nobody = opened(engine, catalog, _with(crowd, made.rows({"orders": [], "people": [], "lines": []})))
    asked = _accepted(random, source, maker, nobody, (kind, seed))
    found.plans += 1
    found.aggregates += len(asked)
    for each in asked:
        each.exact.append(nobody.run(nobody.prepare(each.aggregate), each.key))
        each.totals.append(_total(nobody, each))
    nobody.close()
    own: list[Rows] = []
    reached: dict[tuple[int, str], tuple[Fraction, int, int]] = {}
    for number in range(guests if asked else 0):
        low = [name for name, (part, _, _) in reached.items() if part < NEAR]
        _, near, partner = reached[random.choice(low)] if low else (0, 0, 0)
        start = own[random.choice([near, near, partner - 1])] if low and number % 4 else None
        own.append(made.first() if start is None else made.changed(start))
        database = opened(engine, catalog, _with(crowd, made.rows(own[-1])))
        for each in asked:
            each.exact.append(database.run(database.prepare(each.aggregate), each.key))
            each.totals.append(_total(database, each))
            part = Fraction(each.totals[-1] - each.totals[0], each.aggregate.weights.max_rows * each.aggregate.weight)
            found.full[each.name] = max(found.full.get(each.name, Fraction(0)), part)
        database.close()
        others = {0}
        if kind != "add_remove":
            heavy = random.choice(asked).totals[1:]
            most = [i for i, total in enumerate(heavy, 1) if total == max(heavy)]
            others |= {near + 1, partner, random.randint(0, number), *random.sample(most, min(len(most), 2))}
            others -= {number + 1}
        for place, each in enumerate(asked):
            for other in others:
                parts = _check_pair(found, each, (other, number + 1))
                parts |= {} if other else {"": found.full[each.name]}
                for id, part in parts.items():
                    if part >= reached.get((place, id), (Fraction(0), 0, 0))[0]:
                        reached[place, id] = part, number, other
    if kind != "add_remove":
        for each in asked:
            _sweep(found, each, random)


def _with(crowd: Rows, rows: Rows) -> Rows:
    return crowd | {table: crowd[table] + more for table, more in rows.items()}


def _sweep(found: Found, asked: Asked, random: Random) -> None:
    """Looks at pairs of the guests whose rows weigh most: one in one group and one in another move furthest."""
    most = max(asked.totals[1:], default=0)
    heavy = [i for i, total in enumerate(asked.totals) if i and total == most]
    for pair in random.sample(list(itertools.combinations(heavy, 2)), min(SWEPT, len(heavy) * (len(heavy) - 1) // 2)):
        if all(found.best[(*asked.name, measure.id)][0] >= NEAR for measure, _ in asked.claims):
            break
        _check_pair(found, asked, pair)


def _accepted(random: Random, source: Relation, maker: Maker, sizes: Backend, name: tuple[str, int]) -> list[Asked]:
    accepted, key = [], random.getrandbits(128)
    for number, aggregate in enumerate(aggregates_of(random, source, maker, sizes)):
        try:
            check(budgeted(aggregate), maker.declared, sizes)
            sizes.prepare(aggregate)  # an engine need not write all that the interpreter reads
        except InternalError:
            continue
        accepted.append(Asked((*name, number), aggregate, _claims(aggregate, maker.catalog), key))
    return accepted


def _claims(aggregate: PrivateAggregate, catalog: dp.Catalog) -> list[tuple[Measure, Sensitivity]]:
    claims = []
    for measure in aggregate.measures:
        try:
            claims.append((measure, sensitivity(aggregate, measure, catalog.declarations.neighbours)))
        except InternalError:
            continue
    return claims


def _check_pair(found: Found, asked: Asked, pair: tuple[int, int]) -> dict[str, Fraction]:
    """Returns which part of its L1 sensitivity each measure moves."""
    aggregate, exact = asked.aggregate, [asked.exact[i] for i in pair]
    label, parts = f"{asked.name} pair {pair}", {}
    found.pairs += 1
    if aggregate.is_selected:
        lone = alone(exact)
        if len(lone) > (groups_per_unit(aggregate) or 0) or not {*lone} <= {1}:
            found.violations.append(f"{label}: a unit decides about {lone}")
    still = Sensitivity(linf=0, l1=0, l2_squared=0) if _are_equal(*exact) else None
    for measure, claimed in asked.claims:
        norms, name = still or moved(aggregate, measure, exact), (*asked.name, measure.id)
        found.measures += 1
        for norm in ("linf", "l1", "l2_squared"):
            if getattr(norms, norm) > getattr(claimed, norm):
                found.violations.append(f"{label} {measure.id}: {norm} {norms} of {claimed}")
        part = parts[measure.id] = Fraction(norms.l1) / Fraction(claimed.l1)
        if name not in found.best or part > found.best[name][0]:
            found.best[name] = part, shape(aggregate, measure, name[0])
    return parts


def shape(aggregate: PrivateAggregate, measure: Measure, kind: str) -> str:
    """Returns what makes a bound, how rows are weighed and what is counted; "" where a bound shows in other rows too:
    selected groups must be there without the guest, and a choice moves furthest among many rows."""
    if aggregate.is_selected or measure.count is Count.QUANTILE:
        return ""
    weighing = aggregate.weights.weighing.value if measure.total is None else "scaled to a total"
    return f"{kind}, {weighing}, {measure.count.value}"


def look(
    pairs: int, *, engine: str = "reference", first: int = 0, tell: Callable[[Found], None] | None = None
) -> Found:
    """Returns what was seen of so many pairs of neighbours, or a few more."""
    found = Found()
    for seed in itertools.count(first):
        for kind in KINDS:
            check_plan(found, kind, seed, engine=engine)
        if tell is not None and seed % 20 == 19:
            tell(found)
        if found.pairs >= pairs:
            return found
    raise AssertionError


def _tell(found: Found) -> None:
    could, did = len(found.attainable), found.tight
    print(
        f"{found.pairs:,} pairs of {found.aggregates:,} aggregates over {found.plans:,} plans, "
        f"{found.measures:,} vectors: {len(found.violations)} violations; {did:,} of {could:,} measures "
        f"({100 * did / max(1, could):.1f} %) moved by what is declared",
        flush=True,
    )


def main() -> None:
    """Prints what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--engine", choices=["reference", "duckdb"], default="reference")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first plan")
    given = parser.parse_args()
    found = look(given.pairs, engine=given.engine, first=given.first, tell=_tell)
    _tell(found)
    for name, counted in sorted(found.by_shape().items()):
        print(f"  {name}: {counted['did']:,} of {counted['could']:,}")
    for violation in found.violations[:20]:
        print(violation)
    raise SystemExit(1 if found.violations else 0)


if __name__ == "__main__":
    main()
