"""The reference backend: slow and obvious, the oracle that every other backend is compared with.

It holds pandas DataFrames and reads every cell of them anew for every query. It keeps groups and values of a unit by
BLAKE2b; other backends hash differently, so where `max_groups` or `max_rows` bind they may keep other ones, though not
more of them.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dpquery.arrow import arrow_type
from dpquery.backends.owners import leading_to_owners, unique_sets
from dpquery.backends.reference_reading import read
from dpquery.backends.reference_relations import Interpreter, Row
from dpquery.catalog import Catalog, Table
from dpquery.catalog.blocks import Blocks
from dpquery.errors import CatalogError, InternalError
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.parallel import weighs_together
from dpquery.kernel.plan import CHOICES, Count, Key, Lattice, Measure, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.plan.evaluate import normal
from dpquery.plan.logical import LONGEST_OWNER, Ownership, OwnerStep, Relation, Released, Scan, output
from dpquery.plan.ranges import number_of
from dpquery.plan.types import TEXT, Type, Value
from dpquery.units.blocks import number_of as number_of_block

Values = tuple[Value, ...]
Group = tuple[Values, ...]
"""Values of the keys, one tuple for each."""


class ReferenceBackend:
    """An engine of plain loops.

    Args:
        catalog: The declared tables.
        sources: For each declared table its rows.
    Raises:
        CatalogError: A table or column is missing, two rows of a public table agree in columns declared unique, or a
            foreign key names several rows.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, pd.DataFrame]) -> None:
        self._catalog, self._sources = catalog, dict(sources)
        self._check()

    def prepare(self, aggregate: PrivateAggregate) -> PrivateAggregate:
        """Returns the aggregate: all that the language has can be interpreted."""
        return aggregate

    def run(self, aggregate: PrivateAggregate, key: int) -> ExactAggregates:
        """Returns the exact integers of a private aggregate: the three steps of `kernel/plan.py`, word by word."""

        def scanned(scan: Scan) -> list[Row]:
            return self._limited(scan, key)

        rows = Interpreter(scan=scanned, released=_no_released).rows(aggregate.source)
        units = _by_unit_and_group(aggregate, rows)
        added: dict[Group, list[list[Any]]] = {} if aggregate.keys else {(): [[] for _ in aggregate.measures]}
        for unit, groups in units.items():
            for group in _keep(groups, aggregate.bound.max_groups, key, unit):
                lists = added.setdefault(group, [[] for _ in aggregate.measures])
                for measure, contributions in zip(aggregate.measures, lists, strict=True):
                    contributions.append(_contribution(measure, groups[group], aggregate, key, (unit, group)))
        numbers = [
            [_total(measure, lists[index]) for lists in added.values()]
            for index, measure in enumerate(aggregate.measures)
        ]
        keys = [_key_column(each, [group[i] for group in added]) for i, each in enumerate(aggregate.keys)]
        return ExactAggregates(
            keys=tuple(keys),
            numbers=tuple(_integers(column) for column in numbers),
            histograms=tuple(
                _histogram([lists[index] for lists in added.values()])
                for index, measure in enumerate(aggregate.measures)
                if measure.count in CHOICES
            ),
        )

    def check(self) -> None:
        """Does nothing: rows are read from the frames that were given, which are the caller's to leave alone."""

    def close(self) -> None:
        """Does nothing: there is no engine."""

    def public_rows(self, table: str, columns: tuple[str, ...]) -> tuple[Values, ...]:
        """Returns the different rows of a public table in some of its columns, in any order."""
        declared = self._catalog.tables[table]
        if not declared.public:
            raise InternalError(f"table {table} is not public")
        return tuple(dict.fromkeys(self._tuples(table, [(name, declared.columns[name].type) for name in columns])))

    def rows(self, table: str) -> int:
        """Returns how many rows a public table has; see `Sizes`."""
        return self.most_equal(table, frozenset())

    def most_equal(self, table: str, columns: frozenset[str]) -> int:
        """Returns the most rows of a public table that agree in these columns; see `Sizes`."""
        declared = self._catalog.tables[table]
        if not declared.public:
            raise InternalError(f"table {table} is not public")
        if not columns:
            return len(self._sources[table])
        keys = self._tuples(table, [(column, declared.columns[column].type) for column in sorted(columns)])
        return max(Counter(key for key in keys if None not in key).values(), default=0)

    def unique(self, table: str) -> tuple[frozenset[str], ...]:
        """Returns sets of columns of which no two rows agree; see `Sizes`."""
        return unique_sets(self._catalog, table)

    def evaluate(self, relation: Relation, released: Sequence[pa.Table]) -> pa.Table:
        """Returns the rows of a relation over released and public tables, columns named by id."""

        def read_released(node: Released) -> list[Row]:
            rows = released[node.index].to_pylist()
            return [{column.id: normal(row[column.id]) for column in node.columns} for row in rows]

        rows = Interpreter(scan=self._scan_public, released=read_released).rows(relation)
        columns = {c.id: pa.array([row[c.id] for row in rows], type=arrow_type(c.type)) for c in output(relation)}
        return pa.table(columns)

    def _read(self, table: str, column: str, type: Type) -> list[Value]:
        said = self._catalog.tables[table].columns.get(column)
        zone = "" if said is None else said.zone
        values = [read(stored, type, zone) for stored in self._sources[table][column].tolist()]
        if type != TEXT:
            return values
        most = LONGEST_OWNER if said is None else said.max_length
        is_whole = (table, column) in leading_to_owners(self._catalog)
        return [_limited(value, most, is_whole=is_whole) if isinstance(value, str) else value for value in values]

    def _scan(self, scan: Scan) -> list[Row]:
        columns = {column.id: self._read(scan.table, column.name, column.type) for column in scan.columns}
        if scan.ownership is not None and scan.unit is not None and scan.unit not in columns:
            columns[scan.unit] = self._owners(scan.table, scan.ownership)
        count = len(self._sources[scan.table])
        return [{id: values[index] for id, values in columns.items()} for index in range(count)]

    def _limited(self, scan: Scan, key: int) -> list[Row]:
        """Returns the rows of a scan: of a unit with more than `row_limit` in the table, or in a block of it, those
        with the least keyed hash of all declared columns, and of equal hashes the least."""
        rows = self._scan(scan)
        if scan.ownership is None:
            return rows
        table = self._catalog.tables[scan.table]
        declared = [self._read(scan.table, column.name, column.type) for column in table.columns.values()]
        owners = self._owners(scan.table, scan.ownership)
        blocks = [None] * len(rows) if table.blocks is None else self._blocks(table, table.blocks)
        found: dict[tuple[Value, object], list[int]] = {}
        for index, place in enumerate(zip(owners, blocks, strict=True)):
            found.setdefault(place, []).append(index)
        kept = set()
        for (owner, _), indices in found.items():
            content = {index: repr([values[index] for values in declared]) for index in indices}
            limit = len(indices) if owner is None else scan.row_limit
            order = sorted(indices, key=lambda index: (keyed_hash(content[index], key), content[index]))
            kept.update(order[:limit])
        return [row for index, row in enumerate(rows) if index in kept]

    def _blocks(self, table: Table, blocks: Blocks) -> list[int | None]:
        """Returns the number of the block of each row; None for rows without a date."""
        dates = self._read(table.name, blocks.column, table.columns[blocks.column].type)
        return [number_of_block(date, blocks.by) if isinstance(date, datetime.date) else None for date in dates]

    def _scan_public(self, scan: Scan) -> list[Row]:
        if not scan.public or not self._catalog.tables[scan.table].public:
            raise InternalError("a private table is read above the privacy boundary")
        return self._scan(scan)

    def _owners(self, table: str, ownership: Ownership) -> list[Value]:
        """Returns the privacy unit of each row of a table; None for rows that belong to nobody."""
        tables = [table, *(step.parent for step in ownership.path)]
        owners = self._read(tables[-1], ownership.column, ownership.type)
        for child, step in reversed(list(zip(tables, ownership.path, strict=False))):
            owner_of = self._owner_of_key(child, step, owners)
            own_keys = self._tuples(child, [(column, type) for column, _, type in step.on])
            owners = [owner_of.get(own_key) for own_key in own_keys]
        return owners

    def _owner_of_key(self, child: str, step: OwnerStep, owners: list[Value]) -> dict[Values, Value]:
        """Returns the privacy unit that each key of a parent table leads to; NULL equals nothing and leads nowhere."""
        keys = self._tuples(step.parent, [(column, type) for _, column, type in step.on])
        found: dict[Values, Value] = {}
        for parent_key, owner in zip(keys, owners, strict=True):
            if parent_key in found:
                raise CatalogError(f"a foreign key of {child} names several rows of {step.parent} at once")
            if None not in parent_key:
                found[parent_key] = owner
        return found

    def _tuples(self, table: str, columns: list[tuple[str, Type]]) -> list[Values]:
        return list(zip(*(self._read(table, column, type) for column, type in columns), strict=True))

    def _check(self) -> None:
        needed = {name: set(table.columns) for name, table in self._catalog.tables.items()}
        for table in self._catalog.tables.values():
            for step in table.ownership.path if table.ownership else ():
                needed[step.parent] |= {column for _, column, _ in step.on}
        problems = [f"table {name} has no source" for name in needed if name not in self._sources]
        for name in needed.keys() & self._sources.keys():
            stored = list(self._sources[name].columns)
            problems += [f"table {name} has not one column {c}" for c in sorted(needed[name]) if stored.count(c) != 1]
        if problems:
            raise CatalogError(problems)
        for name, table in self._catalog.tables.items():
            if table.ownership is not None:
                self._owners(name, table.ownership)
            for columns in table.unique:
                keys = self._tuples(name, [(column, table.columns[column].type) for column in sorted(columns)])
                whole = [one for one in keys if None not in one]
                if len(set(whole)) != len(whole):
                    raise CatalogError(f"two rows of {name} agree in {', '.join(sorted(columns))}, declared unique")


def _limited(text: str, most: int, *, is_whole: bool) -> Value:
    """Returns the first characters of a text; None in place of a longer one that counts whole."""
    return None if is_whole and len(text) > most else text[:most]


def lattice_value(lattice: Lattice, value: Value) -> int:
    """Returns the integer that stands for a value: exact, though a float is divided by a power of two."""
    if isinstance(value, datetime.date):
        whole = number_of(value)
        value = int(whole) if whole is not None else 0
    if isinstance(value, float) and math.isinf(value):
        step = lattice.lower if value < 0 else lattice.upper
    else:
        assert isinstance(value, int | float | Decimal)
        ratio = Fraction(value) / lattice.grid
        step = round(min(max(ratio, Fraction(lattice.lower)), Fraction(lattice.upper)))
    deviation = step - lattice.offset
    return deviation * deviation - lattice.offset_of_square if lattice.squared else deviation


def _by_unit_and_group(aggregate: PrivateAggregate, rows: list[Row]) -> dict[object, dict[Group, list[Row]]]:
    """Returns the rows of each unit in each group, without rows that have no unit or are in no public group."""
    units: dict[object, dict[Group, list[Row]]] = {}
    for number, row in enumerate(rows):
        unit = number if aggregate.unit is None else row[aggregate.unit]
        group = tuple(tuple(row[id] for id in key.columns) for key in aggregate.keys)
        outside = any(
            key.domain is not None and values not in key.domain
            for key, values in zip(aggregate.keys, group, strict=True)
        )
        if unit is not None and not outside:
            units.setdefault(unit, {}).setdefault(group, []).append(row)
    return units


def _keep(things: Iterable[Any], most: int, key: int, owner: object) -> list[Any]:
    """Returns at most so many of the things: those with the least keyed hash of owner and thing."""

    return sorted(things, key=lambda thing: keyed_hash(repr((owner, thing)), key))[:most]


def keyed_hash(text: str, key: int) -> bytes:
    """Returns BLAKE2b of a text under a 128-bit key."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), key=key.to_bytes(16, "little")).digest()


def _contribution(measure: Measure, rows: list[Row], aggregate: PrivateAggregate, key: int, place: object) -> Any:
    """Returns what one unit adds to one group: an integer, the values it keeps, or their weights."""
    most = aggregate.bound.max_rows

    def weighed(places: list[int]) -> dict[int, int]:
        weight = math.trunc(aggregate.weight * min(Fraction(1), Fraction(most, max(1, len(places)))))
        return {place: weight * count for place, count in Counter(places).items()}

    counted = [row for row in rows if measure.filter is None or row[measure.filter] is True]
    values = [row[measure.value] for row in counted if row[measure.value] is not None] if measure.value else []
    together = weighs_together(aggregate, measure)
    scale = Fraction(most, max(most, len(rows)))
    match measure.count:
        case Count.UNITS | Count.ROWS if together:
            return math.trunc(len(counted) * scale)
        case Count.VALUES if together:
            return math.trunc(len(values) * scale)
        case Count.UNITS:
            return min(len(counted), 1)
        case Count.ROWS:
            return min(len(counted), most)
        case Count.VALUES:
            return min(len(values), most)
        case Count.DISTINCT:
            return _keep(dict.fromkeys(values), most, key, place)
        case Count.SUM:
            assert measure.lattice is not None
            exact = sum(lattice_value(measure.lattice, value) for value in values)
            return math.trunc(exact * (scale if together else min(Fraction(1), Fraction(most, max(1, len(values))))))
        case Count.QUANTILE:
            assert measure.lattice is not None
            return weighed([lattice_value(measure.lattice, value) for value in values])
        case Count.MODE:
            assert measure.domain is not None
            return weighed([measure.domain.index(value) for value in values if value in measure.domain])


def _total(measure: Measure, contributions: list[Any]) -> int:
    if measure.count is Count.DISTINCT:
        return len({value for kept in contributions for value in kept})
    if measure.count in CHOICES:
        return sum(sum(weights.values()) for weights in contributions)
    return sum(contributions)


def _histogram(groups: list[list[dict[int, int]]]) -> Histogram:
    """Returns the weight of each value in each group, summed over units."""
    found = []
    for index, units in enumerate(groups):
        total: Counter[int] = Counter()
        for weights in units:
            total.update(weights)
        found += [(index, value, weight) for value, weight in total.items() if weight]
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


def _no_released(node: Released) -> NoReturn:
    raise InternalError(f"released table {node.index} is read under the privacy boundary")
