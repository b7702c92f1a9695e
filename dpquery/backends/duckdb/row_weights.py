"""What the rows of a table weigh: the units that have too many of them are counted once for each state of the table.

Of files these units are kept in the engine, with what each of their rows weighs: all other rows weigh 1. Tables in
memory get a column of weights, four bytes a row, as joining all rows with their units takes longer than adding them up.
Weights that are scaled to the total of a column are joined in either case.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpquery.backends.duckdb.engine import DuckDBEngine
from dpquery.backends.duckdb.statements import fetch_integers
from dpquery.backends.duckdb.table_reading import KeptWeights, StoredWeighing, TableReader, scaled_of, weighed_of
from dpquery.data.change_detection import Stamp, stamps_of
from dpquery.data.sources import Source
from dpquery.errors import BackendError
from dpquery.kernel.plan import WEIGHT
from dpquery.plan.logical import Relation, Scan, sources

Names = Mapping[StoredWeighing, KeptWeights | None]
"""For weights that are read where they are kept; None where all rows weigh 1."""


class RowWeights:
    """Tables of the units whose rows weigh less than 1, made anew where files have changed since.

    Args:
        tables: How the stored tables are read.
        opened: Their sources.
        engine: Holds private tables.
        run: Runs a statement in it.
    """

    def __init__(
        self,
        tables: TableReader,
        opened: Mapping[str, Source],
        engine: DuckDBEngine,
        run: Callable[[str], list[tuple[Any, ...]]],
    ) -> None:
        self._tables, self._opened, self._engine, self._run = tables, opened, engine, run
        self._guard = threading.Lock()
        self._numbers: dict[StoredWeighing, int] = {}
        self._versions: dict[StoredWeighing, int] = {}
        self._known: dict[StoredWeighing, tuple[tuple[Stamp, ...], KeptWeights | None]] = {}

    def known(self, needed: Iterable[StoredWeighing]) -> Names:
        """Returns what is known now, of the rest that there may be such units; reads no row."""
        with self._guard:
            wanted = self._to_make(needed)
            return {each: self._known[each][1] if each in self._known else self._place(each) for each in wanted}

    def made(self, needed: Iterable[StoredWeighing]) -> Names:
        """Returns what holds for the rows as they are now.

        Reads private rows where it is not known yet, and where files have changed: to be called after a charge.
        """
        with self._guard:
            return {each: self._made(each) for each in self._to_make(needed)}

    def _to_make(self, needed: Iterable[StoredWeighing]) -> list[StoredWeighing]:
        """Returns those that no stored column tells."""
        return [each for each in needed if not self._tables.is_stored(each)]

    def _place(self, each: StoredWeighing) -> KeptWeights:
        number = self._numbers.setdefault(each, len(self._numbers))
        data = self._opened[each.table].data
        by_row = isinstance(data, pa.Table) and each.scaled is None
        column = _new_name(data, "weight") if by_row else None
        return KeptWeights(f"weights{number}_{self._versions.get(each, 0)}", column)

    def _made(self, each: StoredWeighing) -> KeptWeights | None:
        state, known = stamps_of(self._opened[each.table]), self._known.get(each)
        if known is not None and known[0] == state:
            return known[1]
        if known is not None:
            del self._known[each]
            self._versions[each] = self._versions.get(each, 0) + 1
            if known[1] is not None:  # a statement that still reads it, reads rows of another state: it fails
                self._run(f"DROP TABLE {known[1].name}")
        place = self._place(each)
        units = place.name if place.column is None else f"{place.name}_units"
        self._run(f"CREATE OR REPLACE TABLE {units} AS {self._tables.crowded(each)}")
        self._verify(each, units)
        is_less = bool(self._run(f"SELECT 1 FROM {units} LIMIT 1"))
        if is_less and place.column is not None:
            self._engine.hold(place.name, self._with_weights(each, units, place.column))
        if not is_less or place.column is not None:
            self._run(f"DROP TABLE {units}")
        if stamps_of(self._opened[each.table]) != state:
            raise BackendError(f"the file of table {each.table} was changed while its rows were counted")
        self._known[each] = state, place if is_less else None
        return self._known[each][1]

    def _with_weights(self, each: StoredWeighing, units: str, column: str) -> pa.Table:
        """Returns a table in memory, not copied, with the weight of each row."""
        data, row = self._opened[each.table].data, _new_name(self._opened[each.table].data, "row")
        given = self._engine.register(data.append_column(row, pa.array(np.arange(len(data)))))
        cursor = self._engine.cursor()
        try:
            places = {**self._tables.places, each.table: given}
            text = replace(self._tables, places=places).weights_below_one(each, units, row)
            below = fetch_integers(cursor, text)
        finally:
            cursor.unregister(given)
        weights, unowned = np.full(len(data), WEIGHT, np.int32), np.zeros(len(data), np.bool_)
        weights[below["row"]] = np.ma.filled(below["weight"], 0)
        unowned[below["row"]] = np.ma.getmaskarray(below["weight"])
        made = pa.array(weights, mask=unowned)
        lengths = np.cumsum([0, *(batch.num_rows for batch in data.to_batches())]).tolist()
        pieces = [made.slice(start, end - start) for start, end in itertools.pairwise(lengths)]
        return data.append_column(column, pa.chunked_array(pieces, made.type))

    def _verify(self, each: StoredWeighing, made: str) -> None:
        """Raises BackendError unless each unit is there once, and its rows weigh no more than `max_rows` together, and
        times their magnitudes no more than a total that they are scaled to."""
        unit = "unit" if self._tables.catalog.tables[each.table].blocks is None else "unit, block"
        by, together, rows = unit, f"CAST(weight AS HUGEINT) * LEAST(counted, {each.row_limit})", each.max_rows
        if each.strata is not None:
            by, together, rows = f"{unit}, stratum", "CAST(weight AS HUGEINT) * counted", each.strata.max_rows
        twice = f"SELECT 1 FROM {made} GROUP BY {by} HAVING COUNT(*) > 1"
        heavy = f"SELECT 1 FROM {made} WHERE unit IS NULL OR weight < 0 OR {together} > {rows * WEIGHT}"
        if each.scaled is not None:
            most = f"CAST('{each.scaled.most * WEIGHT}' AS HUGEINT)"
            heavy += f" OR total IS NULL OR CAST(weight AS HUGEINT) * total > {most}"
        wrong = [twice, heavy]
        if each.strata is not None:  # of a unit with more in all, all strata are there, and weigh no more together
            missing = f"SUM(LEAST(counted, {each.strata.max_rows})) <> MAX(held)"
            beyond = f"MAX(held) > {each.max_rows} AND (SUM({together}) > {each.max_rows * WEIGHT} OR {missing})"
            wrong.append(f"SELECT 1 FROM {made} GROUP BY {unit} HAVING MIN(held) <> MAX(held) OR ({beyond})")
        if any(self._run(f"{one} LIMIT 1") for one in wrong):
            raise BackendError(f"the weights of table {each.table} failed their check after writing")


def weights_of(relation: Relation) -> tuple[StoredWeighing, ...]:
    """Returns the weights below 1 that a relation may read, each once."""
    found = dict[StoredWeighing, None]()
    _collect(relation, found)
    return tuple(found)


def tables_that_stay(relation: Relation) -> frozenset[str]:
    """Returns the tables that must not change while a relation is read: those whose rows have owners, those that lead
    to them, and the public ones, whose sizes and keys say how many rows one private row becomes."""
    if isinstance(relation, Scan):
        owner = relation.ownership
        if owner is None:
            return frozenset({relation.table} if relation.public else ())
        return frozenset({relation.table, *(step.parent for step in owner.path)})
    return frozenset[str]().union(*map(tables_that_stay, sources(relation)))


def _collect(relation: Relation, found: dict[StoredWeighing, None]) -> None:
    if isinstance(relation, Scan) and relation.weight is not None and (each := weighed_of(relation)).may_be_less:
        found[each] = None
    if isinstance(relation, Scan):
        found.update(dict.fromkeys(scaled_of(relation, scaled) for scaled in relation.scaled))
    for source in sources(relation):
        _collect(source, found)


def _new_name(data: pa.Table, name: str) -> str:
    """Returns a name that no column of a table has, told apart as the engine does, without upper and lower case."""
    taken = {column.lower() for column in data.column_names}
    while name in taken:
        name += "_"
    return name
