"""What is proved of a unit's rows, weights and values holds of the rows of random relations, and is reached.

docs/proofs/weights.md, Lemmas 1 to 5, 7 and 8; the reference interpreter makes the rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from random import Random

import pytest

from dpquery.backends.lattice import lattice_value
from dpquery.kernel.plan import WEIGHT, Key, Lattice
from dpquery.plan.logical import Relation, Released, output
from dpquery.plan.types import Value
from dpquery.units.declarations import Declarations
from dpquery.units.locality import NotUnitLocal, locality
from dpquery.units.row_counts import RowsOfUnit, different_values
from dpquery.units.weights import pairs_of_unit, rows_in_group, weighed
from tests.properties.weighed_plans import Maker, catalog_of, frames_of, world
from tests.reference.backend import ReferenceBackend
from tests.reference.relations import Interpreter, Row

PLANS = 120


Made = tuple[Maker, Relation, ReferenceBackend, list[list[Row]]]


def relations(plans: int = PLANS) -> Iterator[Made]:
    """Yields relations, the backend over a world, and the rows of each unit."""
    return map(_made, range(plans))


@cache
def _made(seed: int) -> Made:
    random = Random(f"weights {seed}")
    catalog = catalog_of()
    maker = Maker(random, catalog)
    relation, backend = maker.relation(random.randint(0, 4)), ReferenceBackend(catalog, frames_of(world(random)))
    unit, units = maker.units(relation)[0], dict[object, list[Row]]()
    for row in _rows(backend, relation):
        if row[unit] is not None:
            units.setdefault(row[unit], []).append(row)
    return maker, relation, backend, list(units.values())


def _rows(backend: ReferenceBackend, relation: Relation) -> list[Row]:
    def none(node: Released) -> list[Row]:
        raise AssertionError(node)

    return Interpreter(scan=lambda scan: backend._scan_owned(scan, 7), released=none).rows(relation)


def test_no_unit_has_more_rows_than_is_proved() -> None:
    tight = 0
    for maker, relation, backend, units in relations():
        most, proved = max(map(len, units), default=0), weighed(relation, maker.declared, backend)
        assert proved.rows is not None and most <= proved.rows == proved.rows_in_all, relation
        tight += most == proved.rows
    assert tight > PLANS // 10


def test_no_unit_has_more_rows_in_a_group_than_is_proved() -> None:
    """Also with NULL for a value, and of several keys."""
    tried = tight = 0
    for maker, relation, backend, units in relations():
        columns = [column for column in output(relation) if column.id not in maker.units(relation)]
        for size, nullable in ((1, False), (2, False), (1, True), (2, True)):
            keys = [Key.of(c.id, c.type, None if nullable else ()) for c in columns[:size]]
            proved = rows_in_group(relation, keys, maker.declared, backend)
            counts = [
                count
                for rows in units
                for group, count in Counter(tuple(row[c.id] for c in columns[:size]) for row in rows).items()
                if nullable or None not in group
            ]
            most = max(counts, default=0)
            assert proved is None or most <= proved, (relation, proved, most)
            total = max(map(len, units), default=0)
            if proved is not None and proved < total:
                tried, tight = tried + 1, tight + (most == proved)
    assert tried > PLANS // 40 and tight > PLANS // 50, (tried, tight)


def test_no_unit_weighs_more_than_is_proved_and_none_of_its_weights_is_null() -> None:
    tried = tight = 0
    for maker, relation, backend, units in relations():
        for id, bound in weighed(relation, maker.declared, backend).stored.items():
            most = max((sum(_whole(row[id]) for row in rows) for rows in units), default=0)
            assert most <= bound * WEIGHT, (id, most / WEIGHT, bound, relation)
            tried, tight = tried + 1, tight + (most == bound * WEIGHT)
    assert tried > PLANS // 4
    assert tight > PLANS // 40


@pytest.mark.parametrize("plans", [PLANS, pytest.param(2_000, marks=pytest.mark.slow)])
def test_no_unit_weighs_more_in_a_group_than_is_proved(plans: int) -> None:
    """Also of keys that are told by periods of the calendar, and with NULL for a value."""
    tried = tight = 0
    for maker, relation, backend, units in relations(plans):
        columns = [column for column in output(relation) if column.id[0] == "c"]
        for id, bound in weighed(relation, maker.declared, backend).stored.items():
            for ids in (*((c,) for c in columns), *itertools.combinations(columns, 2)):
                keys = [Key.of(c.id, c.type, None) for c in ids]
                proved = rows_in_group(relation, keys, maker.declared, backend, id)
                if proved is None or proved >= bound:
                    continue
                found: Counter[tuple[object, ...]] = Counter()
                for place, rows in enumerate(units):
                    for row in rows:
                        found[(place, *(row[c.id] for c in ids))] += _whole(row[id])
                most = max(found.values(), default=0)
                assert most <= proved * WEIGHT, (ids, most / WEIGHT, proved, relation)
                tried, tight = tried + 1, tight + (most == proved * WEIGHT)
    assert tried > plans // 8 and tight > plans // 32, (tried, tight)


def test_no_unit_has_a_larger_total_of_a_column_than_is_proved() -> None:
    tried = tight = 0
    for maker, relation, backend, units in relations():
        types = {column.id: column.type for column in output(relation)}
        for id, pair in weighed(relation, maker.declared, backend).scaled.items():
            grid, lower, upper = pair.lattice
            lattice = Lattice(grid=grid, lower=lower, upper=upper)
            for value in pair.values:
                assert types[value].is_numeric
                totals = [
                    sum(
                        _whole(row[id]) * abs(lattice_value(lattice, row[value]))
                        for row in rows
                        if row[value] is not None
                    )
                    for rows in units
                ]
                assert max(totals, default=0) <= pair.most * WEIGHT, (id, value, pair, relation)
                assert all(0 <= _whole(row[id]) <= WEIGHT for rows in units for row in rows if row[value] is not None)
                tried, tight = tried + 1, tight + (max(totals, default=0) > (pair.most - 1) * WEIGHT)
    assert tried > PLANS // 2
    assert tight > PLANS // 20


def test_no_column_has_more_values_in_a_unit_than_is_proved() -> None:
    tight = 0
    for maker, relation, backend, units in relations():
        declared = maker.declared
        rules = RowsOfUnit(backend, partial(_units, declared=declared), limited=declared.undated)
        for column in output(relation):
            proved = rules.values(relation, column.id)
            most = max((len({row[column.id] for row in rows}) for rows in units), default=0)
            assert proved is not None and most <= proved, (column, most, proved, relation)
            tight += most == proved > 1
    assert tight > PLANS // 10


def test_there_are_no_more_different_values_than_are_proved() -> None:
    tried = tight = 0
    for maker, relation, backend, units in relations(2 * PLANS):
        for column in output(relation):
            proved = different_values(relation, column.id, backend)
            if proved is not None and column.id not in maker.units(relation):
                there = {row[column.id] for rows in units for row in rows} - {None}
                assert len(there) <= proved, (column, there, proved, relation)
                tried, tight = tried + 1, tight + (len(there) == proved)
    assert tried > PLANS // 4 and tight > PLANS // 20, (tried, tight)


def test_no_unit_has_more_pairs_of_group_and_value_than_are_proved() -> None:
    tried = tight = 0
    for maker, relation, backend, units in relations(2 * PLANS):
        columns = [column for column in output(relation) if column.id not in maker.units(relation)][:3]
        for value, key in itertools.permutations(columns, 2):
            groups = {row[key.id] for rows in units for row in rows}
            for domain in (None, sorted(groups, key=repr)[:2]):
                keys = [Key.of(key.id, key.type, domain or None)]
                proved = pairs_of_unit(relation, keys, value.id, maker.declared, backend)
                if proved is None:
                    continue
                inside = groups if not domain else {*domain}
                pairs = [
                    {
                        (row[key.id], row[value.id])
                        for row in rows
                        if row[key.id] in inside and row[value.id] is not None
                    }
                    for rows in units
                ]
                most = max(map(len, pairs), default=0)
                assert most <= proved, (value, key, domain, most, proved, relation)
                tried, tight = tried + 1, tight + (most == proved)
    assert tried > PLANS and tight > PLANS // 4, (tried, tight)


def _units(relation: Relation, declared: Declarations) -> frozenset[str]:
    try:
        return locality(relation, declared).units
    except NotUnitLocal:  # a bare full join
        return frozenset()


def _whole(weight: Value) -> int:
    assert type(weight) is int
    return weight
