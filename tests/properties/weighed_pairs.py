"""Pairs of neighbours for plans made at random: how far what the plan releases moves, and how near to its sensitivity.

A person's rows are changed step by step, so that what does not yet reach its bound moves further. Keys, filters and
the ends of lattices are mostly chosen among what rows of the plan may hold: no bound is reached beyond these.

Usage: python -m tests.properties.weighed_pairs [--pairs N] [--plans N] [--engine reference|duckdb] [--first SEED]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

import dpquery as dp
from dpquery.backends.base import Backend
from dpquery.errors import InternalError
from dpquery.kernel.checks import check
from dpquery.kernel.plan import WEIGHT, Count, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.sensitivity import sensitivity
from dpquery.plan.types import Value
from tests.properties.weighed_aggregates import aggregates_of, bound_by, budgeted, reaches, shape, slack
from tests.properties.weighed_guests import FIRST_ID, Exchanged, Guests, Reader, Recipe, guests_of, in_duckdb
from tests.properties.weighed_moves import Moves, deciding_alone
from tests.properties.weighed_plans import Maker, Rows, catalog_of, world

KINDS = ("add_remove", "replace_one", "blocks")
CROWD = (0, 1, 4)
"""How many people there are besides."""
PROBES = 24
"""Guests that are made before an aggregate is chosen."""
GUESTS, ROUND = 640, 16
"""Guests of a plan, at most, and how many are made between two looks at their pairs."""
REPLAYED = 24
"""Guests that an engine is asked about, those of the furthest pairs among them, and others."""
NEAR = Fraction(99, 100)
"""Of a sensitivity, what counts as reaching it."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The part of its L1 sensitivity that a measure of an aggregate reached.

    Attributes:
        shape: What makes its bound, how rows are weighed and what is counted; "" where a bound shows in other rows
            too: selected groups must be there without the guest, and a choice moves furthest among many rows.
        full: The part of `max_rows`, or of a total, that the guest's rows of the source weighed at most.
        reaches: As `reaches` says.
        slack: Why the bound is not reached, where the proof itself says so; or "".
    """

    part: Fraction
    shape: str
    full: Fraction
    reaches: bool
    slack: str

    @property
    def is_near(self) -> bool:
        """Whether it reached its bound."""
        return self.part >= NEAR


@dataclass(slots=True)
class Found:
    """What was seen.

    Attributes:
        plans, aggregates, pairs: How many relations, aggregates over them, and pairs of neighbours of these.
        vectors: Pairs, each with one of its measures, by what bounds it.
        best: What each measure of each aggregate reached.
        violations: What moved further than it may.
    """

    plans: int = 0
    aggregates: int = 0
    pairs: int = 0
    vectors: Counter[str] = field(default_factory=Counter)
    best: dict[tuple[str, int, int, str], Reached] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def attainable(self) -> list[Reached]:
        """The measures that moved, where public keys show all of it, the guest's rows weighed all that they may, and
        groups and ends are no wider than the rows, and no proof says that the bound is larger."""
        return [one for one in self._shown if not one.slack]

    @property
    def _shown(self) -> list[Reached]:
        return [one for one in self.best.values() if one.part and one.shape and one.full >= NEAR and one.reaches]

    @property
    def tight(self) -> int:
        """How many of these reached their bound."""
        return sum(one.is_near for one in self.attainable)

    def by_shape(self) -> dict[str, Counter[str]]:
        """Returns for each shape of a plan, or known slack, how many measures could reach their bounds, and did."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self._shown:
            name = f"known slack, {one.slack}" if one.slack else one.shape
            found[name] += Counter(could=1, did=int(one.is_near))
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """An aggregate that the gate accepts, with what is claimed of it, and its exact numbers in each database."""

    name: tuple[str, int, int]
    aggregate: PrivateAggregate
    moves: list[Moves]
    key: int
    exact: list[ExactAggregates] = field(default_factory=list)
    weighed: list[list[int]] = field(default_factory=list)

    @property
    def scaled(self) -> list[Measure]:
        """The sums with a total."""
        return [one.measure for one in self.moves if one.measure.total is not None]

    def full(self, measure: Measure) -> Fraction:
        """Returns which part of `max_rows`, or of its total, all rows of one guest weighed at most."""
        most = self.aggregate.weights.max_rows * self.aggregate.weight
        place = 0
        if measure.total is not None:
            most, place = measure.total.most * WEIGHT, 1 + self.scaled.index(measure)
        return Fraction(max(abs(one[place] - self.weighed[0][place]) for one in self.weighed), most)

    def weigh(self, database: Backend) -> None:
        """Takes what all rows of one more database weigh."""
        rows = Measure(id="rows", label="", count=Count.ROWS)
        measures = (rows, *(replace(measure, filter=None) for measure in self.scaled))
        all = replace(self.aggregate, keys=(), measures=measures, selection=None)
        self.weighed.append([int(number[0]) for number in database.run(database.prepare(all), self.key).numbers])

    def add(self, database: Backend) -> None:
        """Takes one more database."""
        self.exact.append(database.run(database.prepare(self.aggregate), self.key))
        for one in self.moves:
            one.add(self.exact[-1])

    def look(self, found: Found, pairs: list[tuple[int, int]]) -> None:
        """Compares pairs of databases; adds what it saw."""
        found.pairs += len(pairs)
        for one in self.moves:
            found.vectors[bound_by(self.aggregate, one.measure)] += len(pairs)
            one.look(pairs)
        if self.aggregate.is_selected:
            for i, j, lone in deciding_alone(self.aggregate, self.exact, pairs):
                found.violations.append(f"{self.name} pair {i}, {j}: a unit decides about {lone}")


def check_plan(found: Found, kind: str, seed: int, *, engine: str = "reference", guests: int = GUESTS) -> None:
    """Looks at neighbours under aggregates of one random relation; adds what it saw.

    Where the engine is not the reference, it is asked about the guests whose pairs moved furthest there, and others.
    """
    random = Random(f"{kind} {seed}")
    catalog = catalog_of(blocks=kind == "blocks", neighbours="add_remove" if kind == "blocks" else kind)
    maker = Maker(random, catalog)
    source, key = maker.relation(random.randint(0, 3)), random.getrandbits(128)
    crowd, made = world(random, random.choice(CROWD), first=FIRST_ID), guests_of(random, kind)
    tried: list[Recipe | None] = [None, *(made.first() for _ in range(PROBES))]
    databases = [Reader(catalog, _with(crowd, made.rows(recipe))) for recipe in tried]
    shown = [row for one in databases for row in one.rows_of(source, key) if _is_guest(row[maker.units(source)[0]])]
    aggregates = aggregates_of(random, source, maker, databases[0], shown)
    asked = _accepted(aggregates, maker, databases[0], key, (kind, seed))
    sought = {id(one) for each in asked for one in each.moves if shape(each.aggregate, one.measure, kind)}
    sought &= {id(one) for each in asked for one in each.moves if reaches(each.aggregate, one.measure, shown)}
    found.plans += 1
    found.aggregates += len(asked)
    if not asked:
        return
    seen = Found() if engine != "reference" else found
    _add(seen, kind, asked, databases)
    while len(tried) <= guests:
        wanted = [one for each in asked for one in each.moves if one.best < NEAR and id(one) in sought]
        low = [each for each in asked if len(tried) <= guests // 8 or any(one in wanted for one in each.moves)]
        if not low:
            break
        more = [_next(random, made, tried, wanted) for _ in range(ROUND)]
        tried += more
        _add(seen, kind, low, [Reader(catalog, _with(crowd, made.rows(recipe))) for recipe in more])
    if engine != "reference":
        asked = _replayed(found, kind, random, asked, catalog, crowd, [made.rows(recipe) for recipe in tried])
    for each in asked:
        for one in each.moves:
            shape_of = shape(each.aggregate, one.measure, kind)
            reached = reaches(each.aggregate, one.measure, shown)
            why = slack(each.aggregate, one.measure, kind, maker, databases[0])
            found.best[(*each.name, one.name)] = Reached(one.best, shape_of, each.full(one.measure), reached, why)
            found.violations += [f"{each.name} pair {i}, {j} {one.name}: {n}" for i, j, n in one.violations]


def _is_guest(unit: Value) -> bool:
    return isinstance(unit, int) and unit < FIRST_ID


def _with(crowd: Rows, rows: Rows) -> Rows:
    return crowd | {table: crowd[table] + more for table, more in rows.items()}


def _add(found: Found, kind: str, asked: Sequence[Asked], databases: Sequence[Backend]) -> None:
    """Adds databases, and looks at their pairs with each other and with those before: all are neighbours, but where a
    person comes or goes of the first one alone."""
    for each in asked:
        before = len(each.exact)
        for database in databases:
            each.add(database)
            if isinstance(database, Reader):
                each.weigh(database)
        others = [(i, j) for j in range(max(1, before), len(each.exact)) for i in range(j)]
        each.look(found, [pair for pair in others if kind != "add_remove" or pair[0] == 0])


def _next(random: Random, made: Guests, tried: Sequence[Recipe | None], low: Sequence[Moves]) -> Recipe:
    """Returns another guest: any, or a change of one whose pair moved furthest a measure that may move further."""
    pair = random.choice(low).pair if low else (0, 0)
    start = [recipe for recipe in (tried[i] for i in pair) if recipe is not None]
    if not start or random.random() < 0.1:
        return made.first()
    if random.random() < 0.2 and (other := random.choice(tried)) is not None:
        return made.crossed(random.choice(start), other)
    return made.changed(random.choice(start))


def _replayed(
    found: Found,
    kind: str,
    random: Random,
    asked: list[Asked],
    catalog: dp.Catalog,
    crowd: Rows,
    guests: Sequence[Rows],
) -> list[Asked]:
    """Returns the aggregates with their numbers from DuckDB, of the guests that moved furthest and of others."""
    chosen = {0} | {i for each in asked for one in each.moves for i in one.pair}
    chosen |= {*random.sample(range(len(guests)), min(len(guests), max(REPLAYED - len(chosen), REPLAYED // 4)))}
    again = [
        Asked(each.name, each.aggregate, [one.again() for one in each.moves], each.key, weighed=each.weighed)
        for each in asked
    ]
    first = in_duckdb(catalog, _with(crowd, guests[0]))
    again = [each for each in again if _can_write(first, each)]
    databases = [first, *(Exchanged(first, _with(crowd, guests[i])) for i in sorted(chosen - {0}))]
    if again:
        _add(found, kind, again, databases)
    for database in reversed(databases):
        database.close()
    return again


def _can_write(database: Backend, asked: Asked) -> bool:
    """Whether an engine writes a plan; it need not write all that the interpreter reads."""
    try:
        database.prepare(asked.aggregate)
    except InternalError:
        return False
    return True


def _accepted(
    aggregates: Sequence[PrivateAggregate], maker: Maker, sizes: Backend, key: int, name: tuple[str, int]
) -> list[Asked]:
    accepted = []
    for number, aggregate in enumerate(aggregates):
        try:
            check(budgeted(aggregate), maker.declared, sizes)
        except InternalError:
            continue
        accepted.append(Asked((*name, number), aggregate, _claims(aggregate, maker.catalog), key))
    return accepted


def _claims(aggregate: PrivateAggregate, catalog: dp.Catalog) -> list[Moves]:
    """Returns the vectors of an aggregate with what is claimed of them: terms of one vector together."""
    vectors: dict[object, list[Measure]] = {}
    for measure in aggregate.measures:
        vectors.setdefault(measure.family or measure.id, []).append(measure)
    claims = []
    for measures in vectors.values():
        with contextlib.suppress(InternalError):
            claimed = sensitivity(aggregate, measures[0], catalog.declarations.neighbours)
            rounds = (False, True) if measures[0].count is Count.DECIDING else (False,)
            claims += [Moves(aggregate, tuple(measures), claimed, hidden) for hidden in rounds]
    return claims


def look(
    pairs: int,
    *,
    plans: int = 0,
    engine: str = "reference",
    first: int = 0,
    tell: Callable[[Found], None] | None = None,
) -> Found:
    """Returns what was seen of so many pairs of neighbours, and of so many relations, or a few more."""
    found = Found()
    for seed in itertools.count(first):
        for kind in KINDS:
            check_plan(found, kind, seed, engine=engine)
        if tell is not None and seed % 20 == 19:
            tell(found)
        if found.pairs >= pairs and found.plans >= plans:
            return found
    raise AssertionError


def _tell(found: Found) -> None:
    could, did = len(found.attainable), found.tight
    print(
        f"{found.pairs:,} pairs of {found.aggregates:,} aggregates over {found.plans:,} plans, "
        f"{found.vectors.total():,} vectors: {len(found.violations)} violations; {did:,} of {could:,} measures "
        f"({100 * did / max(1, could):.1f} %) moved by what is declared",
        flush=True,
    )


def main() -> None:
    """Prints what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--plans", type=int, default=60, help="relations at least")
    parser.add_argument("--engine", choices=["reference", "duckdb"], default="reference")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first plan")
    given = parser.parse_args()
    found = look(given.pairs, plans=given.plans, engine=given.engine, first=given.first, tell=_tell)
    _tell(found)
    print("  " + "; ".join(f"{name} {count:,}" for name, count in sorted(found.vectors.items())))
    for name, counted in sorted(found.by_shape().items()):
        print(f"  {name}: {counted['did']:,} of {counted['could']:,}")
    for violation in found.violations[:20]:
        print(violation)
    raise SystemExit(1 if found.violations else 0)


if __name__ == "__main__":
    main()
