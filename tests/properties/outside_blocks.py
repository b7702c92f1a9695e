"""Random plans over rows in blocks: what is in blocks that are not charged changes, and no integer of the plan moves.

Usage: python -m tests.properties.outside_blocks [--cases N] [--engine reference|duckdb] [--first SEED]
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dpquery.backends.base import Backend
from dpquery.errors import InternalError
from dpquery.kernel.checks import blocks_of, check
from dpquery.kernel.plan import BudgetedPlan, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.calendar import By, number_of
from dpquery.plan.functions import call
from dpquery.plan.logical import Filter, Relation
from dpquery.plan.types import DATE
from dpquery.units.blocks import Touched
from tests.properties.weighed_aggregates import aggregates_of, budgeted
from tests.properties.weighed_guests import opened
from tests.properties.weighed_plans import DAYS, PEOPLE, Maker, Rows, catalog_of, of_person, world

Row = dict[str, object]


class Dated(Maker):
    """Makes relations over orders of some days alone."""

    def relation(self, depth: int) -> Relation:
        """Returns a private relation; its scans stand under filters on the date."""
        if depth:
            return super().relation(depth)
        scan = self.scan("orders")
        day = next(column for column in self.columns(scan, DATE))
        function = self.random.choice(["eq", "lt", "le", "gt", "ge", "in"])
        constants = [self.literal(DATE) for _ in range(2 if function == "in" else 1)]
        return Filter(source=scan, condition=call(function, (day, *constants)))


@dataclass(slots=True)
class Seen:
    """What was seen.

    Attributes:
        cases: Pairs of databases, each under one aggregate, that differ in blocks that are not charged.
        control: How many aggregates moved where rows of the blocks that they are charged for changed.
        violations: The cases in which something moved.
    """

    cases: int = 0
    control: int = 0
    violations: list[str] = field(default_factory=list)


def check_outside(seen: Seen, seed: int, *, engine: str = "reference", changes: int = 3) -> None:
    """Changes rows of everybody in blocks that a random plan does not touch; adds what it saw."""
    random = Random(f"outside {seed}")
    catalog = catalog_of(blocks=True)
    maker, rows = Dated(random, catalog), world(random)
    source = maker.relation(random.randint(0, 3))
    here = opened(engine, catalog, rows)
    asked = []
    for aggregate in aggregates_of(random, source, maker, here):
        try:
            check(budgeted(aggregate), maker.declared, here)
            here.prepare(aggregate)
        except InternalError:
            continue
        asked.append(aggregate)
    touched = [blocks_of(BudgetedPlan(aggregates=(budgeted(one),)), maker.declared) for one in asked]
    free = [day for day in [*DAYS, None] if not any(_holds(each, day) for each in touched)]
    key = random.getrandbits(128)
    before = [_numbers(one, here, key) for one in asked] if free else []
    for number in range(changes if before else 0):
        there = opened(engine, catalog, _changed(random, rows, free))
        for place, one in enumerate(asked):
            seen.cases += 1
            if _numbers(one, there, key) != before[place]:
                seen.violations.append(f"seed {seed} change {number} aggregate {place}")
        there.close()
    charged = [day for day in [*DAYS, None] if day not in free]
    if before and charged:
        there = opened(engine, catalog, _changed(random, rows, charged))
        seen.control += sum(_numbers(one, there, key) != old for one, old in zip(asked, before, strict=True))
        there.close()
    here.close()


def _holds(touched: Touched, day: object) -> bool:
    if day is None:
        return touched.undated
    number = number_of(day, By.MONTH)  # type: ignore[arg-type]
    return any(first <= number <= last for first, last in touched.spans)


def _changed(random: Random, rows: Rows, free: list[Any]) -> Rows:
    """Returns rows with other orders in these days."""
    kept = [row for row in rows["orders"] if row["day"] not in free]
    for id in range(PEOPLE + 1):
        added = [
            row | {"day": random.choice(free)} for row in of_person(random, id, 1_000 + 100 * id, most=8)["orders"]
        ]
        for row in added:
            kept.insert(random.randint(0, len(kept)), row)
    return rows | {"orders": kept, "lines": []}


def _numbers(aggregate: PrivateAggregate, database: Backend, key: int) -> dict[Any, Any]:
    """Returns all integers by group."""
    exact: ExactAggregates = database.run(database.prepare(aggregate), key)
    groups = [tuple(column[i] for column in exact.keys) for i in range(len(exact.numbers[0]) if exact.numbers else 0)]
    found: dict[Any, Any] = {group: [int(column[i]) for column in exact.numbers] for i, group in enumerate(groups)}
    for place, histogram in enumerate(exact.histograms):
        parts = zip(histogram.group.tolist(), histogram.value.tolist(), histogram.weight.tolist(), strict=True)
        found |= {(place, groups[group], value): weight for group, value, weight in parts}
    return {name: numbers for name, numbers in found.items() if _is_something(numbers)}


def _is_something(numbers: int | Iterable[int]) -> bool:
    return bool(numbers) if isinstance(numbers, int) else any(numbers)


def look(cases: int, *, engine: str = "reference", first: int = 0) -> Seen:
    """Returns what was seen in so many cases, or a few more."""
    seen = Seen()
    for seed in itertools.count(first):
        check_outside(seen, seed, engine=engine)
        if seen.cases >= cases:
            break
    return seen


def main() -> None:
    """Prints what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--engine", choices=["reference", "duckdb"], default="reference")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first plan")
    given = parser.parse_args()
    seen = look(given.cases, engine=given.engine, first=given.first)
    told = f"{seen.cases:,} cases: {len(seen.violations)} in which something moved"
    print(f"{told}; in blocks that are charged {seen.control:,} aggregates did", *seen.violations[:20], sep="\n")
    raise SystemExit(1 if seen.violations else 0)


if __name__ == "__main__":
    main()
