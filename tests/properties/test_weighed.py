"""What is proved of the rows of a unit against the truth: random relations over random rows, and all that they hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import dpquery as dp
from dpquery.backends.lattice import lattice_value
from dpquery.kernel.plan import WEIGHT, Lattice, Weighing
from dpquery.plan.expr import Literal
from dpquery.plan.functions import call
from dpquery.plan.logical import (
    Aggregate,
    Filter,
    Matched,
    Relation,
    Scan,
    SetOperation,
    SortKey,
    Window,
    WindowColumn,
    column,
    is_private,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import INT64
from dpquery.planner.protect.carrying import carry
from dpquery.units.declarations import Declarations
from dpquery.units.locality import NotUnitLocal, locality
from dpquery.units.weights import distinct_groups, weighed
from tests.backends.generator import Database, Generator, database
from tests.properties import queries
from tests.properties.neighbours import Hall, reference
from tests.properties.worlds import world
from tests.reference.backend import ReferenceBackend
from tests.reference.relations import Interpreter, Row

RELATIONS, QUERIES = 30, 14


def interpreted(backend: ReferenceBackend, relation: Relation, key: int) -> list[Row]:
    """Returns the rows of a private relation under the release's key."""

    def released(_: object) -> list[Row]:
        raise AssertionError("a released table under the boundary")

    return Interpreter(scan=lambda scan: backend._scan_owned(scan, key), released=released).rows(relation)


def parts(relation: Relation) -> Iterator[Relation]:
    """Yields a relation and all under it."""
    yield relation
    for source in sources(relation):
        yield from parts(source)


def check(relation: Relation, declared: Declarations, backend: ReferenceBackend, key: int) -> Counter[str]:
    """Asserts that what is proved of a relation holds of its rows; returns what was proved, and what was reached."""
    found = Counter[str]()
    try:
        units = locality(relation, declared).units
    except NotUnitLocal:  # a full join, of which the projection over it tells the units
        return found
    if not units or not is_private(relation):
        return found
    proved, rows = weighed(relation, declared, backend), interpreted(backend, relation, key)
    of_units: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        owners = {row[id] for id in units}
        assert len(owners) == 1, "columns of the unit differ"
        if None not in owners:
            of_units[owners.pop()].append(row)
    most = max(map(len, of_units.values()), default=0)
    if proved.rows is not None:
        found["rows"] += 1
        found["rows reached"] += most == proved.rows
        assert most <= proved.rows, f"{most} rows of a unit, {proved.rows} proved: {relation}"
    assert proved.rows_in_all == proved.rows
    for id, bound in proved.stored.items():
        assert all(row[id] is not None for own in of_units.values() for row in own), f"{id} is NULL: {relation}"
        heaviest = max((sum(int(str(row[id])) for row in own) for own in of_units.values()), default=0)
        found["stored"] += 1
        found["stored reached"] += heaviest > (bound - 1) * WEIGHT
        assert heaviest <= bound * WEIGHT, f"{id} weighs {heaviest / WEIGHT}, {bound} proved: {relation}"
    for id, pair in proved.scaled.items():
        lattice = Lattice(grid=pair.lattice[0], lower=pair.lattice[1], upper=pair.lattice[2])
        for value in pair.values:
            held = [[(row[id], row[value]) for row in own if row[value] is not None] for own in of_units.values()]
            sums = [sum(int(str(w)) * abs(lattice_value(lattice, v)) for w, v in own) for own in held]
            found["totals"] += 1
            found["totals reached"] += max(sums, default=0) > (pair.most - 1) * WEIGHT
            assert max(sums, default=0) <= pair.most * WEIGHT, f"{id}, {value}: {pair.most} proved: {relation}"
    for each in output(relation):
        few = distinct_groups(relation, frozenset({each.id}), declared, backend)
        different = max((len({row[each.id] for row in own}) for own in of_units.values()), default=0)
        if few is not None:
            found["values"] += 1
            assert different <= few, f"{different} values of {each.id}, {few} proved: {relation}"
    return found


def limited(relation: Relation, limits: dict[str, int]) -> Relation:
    """Returns the relation with these limits of its scans."""
    if isinstance(relation, Scan):
        return replace(relation, row_limit=limits.get(relation.table, relation.row_limit))
    return with_sources(relation, tuple(limited(source, limits) for source in sources(relation)))


def extended(made: Generator, relation: Relation, random: Random) -> Relation:
    """Returns the relation under one more operator, of those whose rules count rows of a unit."""
    unit = made.unit_of(relation).id
    others = [c.id for c in output(relation) if c.id != unit]
    some = random.sample(others, min(len(others), random.choice([0, 1, 2])))
    match random.choice(["first", "distinct", "twice", "compared", "few", "none"]):
        case "first" if others:
            by = (unit, *random.choice([(), tuple(some)]))
            number = WindowColumn(
                id=made.fresh(),
                name="",
                function=random.choice(["row_number", "row_number", "rank"]),
                arguments=(),
                filter=None,
                partition_by=by,
                order_by=(SortKey(column=random.choice(others)),),
                frame=None,
                type=INT64,
            )
            window = Window(source=relation, columns=(number,))
            limit = Literal(value=random.choice([1, 2, 3]), type=INT64)
            condition = call(random.choice(["le", "lt", "eq"]), (column(window, number.id), limit))
            return Filter(source=window, condition=condition)
        case "distinct":
            return Aggregate(source=relation, group_by=(unit, *some), aggregates=())
        case "twice" | "compared" as kind:
            kinds = ["union_all"] if kind == "twice" else ["intersect", "except", "intersect_all", "except_all"]
            types = {c.id: c.type for c in output(relation)}
            matched = tuple(
                Matched(id=made.fresh(), name="", type=types[id], left=id, right=id) for id in (unit, *some)
            )
            return SetOperation(kind=random.choice(kinds), left=relation, right=relation, columns=matched)  # type: ignore[arg-type]
        case "few" if some:
            read = column(relation, some[0])
            known = [Literal(value=v, type=read.type) for v in random.sample(range(4), 2)] if read.type == INT64 else []
            if known:
                return Filter(source=relation, condition=call("in", (read, *known)))
    return relation


def relation_of(data: Database, random: Random) -> Relation:
    """Returns a random relation with limits and weights of its scans."""
    made = Generator(random=random, catalog=data.catalog)
    relation = made.relation(random.choice([0, 1, 1, 2, 3]))
    for _ in range(random.choice([0, 1, 1, 2])):
        relation = extended(made, relation, random)
    limits = {name: random.choice([1, 2, 5, 30, 10**7]) for name in data.catalog.tables}
    return carry(limited(relation, limits), data.catalog).relation


def test_random_relations_hold_no_more_than_is_proved() -> None:
    found = Counter[str]()
    for seed in range(RELATIONS):
        random = Random(seed)
        data = database(random)
        if data.catalog.declarations.unit_is_row:
            continue
        backend = ReferenceBackend(data.catalog, data.frames)
        relation = relation_of(data, random)
        for part in parts(relation):
            found += check(part, data.catalog.declarations, backend, random.getrandbits(128))
    assert found["rows"] > RELATIONS and found["stored"] > RELATIONS / 2 and found["values"] > RELATIONS
    assert found["rows reached"] > found["rows"] / 20 and found["stored reached"] > found["stored"] / 20, found


def test_relations_of_queries_hold_no_more_than_is_proved(shelf: str) -> None:
    """And the rows of each unit weigh at most what the plan says, whichever weights it chose."""
    found = Counter[str]()
    for seed in range(QUERIES):
        random = Random(seed)
        made = world(random, guests=2, size=6)
        declared = made.catalog.declarations
        if declared.unit_is_row:
            continue
        sources_of = made.sources(*made.guests)
        backend = reference(made.catalog, sources_of)
        opened = Hall(made.catalog, shelf, "reference").open(sources_of)
        for _ in range(3):
            query = queries.query(random, row_unit=False)
            try:
                prepared = opened.prepare(query)
            except dp.QueryError:
                continue
            for aggregate in prepared.aggregates:
                key = random.getrandbits(128)
                for part in parts(aggregate.source):
                    found += check(part, declared, backend, key)
                found[aggregate.weights.weighing.value] += 1
    assert found["rows"] > QUERIES and found["stored"] > 10 and found["values"] > QUERIES, found
    assert all(found[weighing.value] > 3 for weighing in Weighing), found
