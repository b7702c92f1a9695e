"""Children that take their owner from a join with their parent: every backend against the reference."""

from __future__ import annotations

from random import Random

import pandas as pd

from dpquery.plan.logical import output
from dpquery.units.locality import NotUnitLocal, locality
from tests.backends.engines import Engine, NotOwed, run
from tests.backends.plans import ROWS, UNITS, aggregate, values_of
from tests.properties.keyed import CATALOG, COLUMNS, DECLARED, Plans, database, lacking
from tests.reference.backend import ReferenceBackend


def test_random_joins_along_keys(engine: Engine) -> None:
    compared = filled = 0
    for seed in range(500):
        random = Random(seed)
        relation = Plans(random=random).relation(random.choice([1, 1, 2, 3]))
        try:
            known = locality(relation, DECLARED)
        except NotUnitLocal:
            continue
        if not known.units or not lacking(relation):
            continue
        read = random.choice(output(relation)).id
        plan = aggregate(relation, UNITS, ROWS, values_of(read), unit=min(known.units))
        frames = {
            table: pd.DataFrame(rows, columns=list(COLUMNS[table]), dtype="Int64")
            for table, rows in database(random).items()
        }
        compared += 1
        try:
            found = run(engine(CATALOG, frames), plan)
        except NotOwed:
            filled += 1
            continue
        assert found == run(ReferenceBackend(CATALOG, frames), plan)
        filled += any(map(any, found.values()))
    assert compared > 10
    assert filled > 3
