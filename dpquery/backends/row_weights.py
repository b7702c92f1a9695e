"""What the rows of a table weigh: the units that have too many of them are counted once for each state of the table,
and kept in the engine. All others' rows weigh 1, so that nothing is kept of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dpquery.backends.sources import Source
from dpquery.backends.table_reading import TableReader, Weighed, weighed_of
from dpquery.backends.unchanged import Stamp, stamps_of
from dpquery.errors import BackendError
from dpquery.kernel.plan import WEIGHT
from dpquery.plan.logical import Relation, Scan, sources

Names = Mapping[Weighed, str | None]
"""For weights that are read the table of the units whose rows weigh less than 1; None where there is no such unit."""


class RowWeights:
    """Tables of the units whose rows weigh less than 1, made anew where files have changed since.

    Args:
        tables: How the stored tables are read.
        opened: Their sources.
        run: Runs a statement in the engine that holds private tables.
    """

    def __init__(
        self, tables: TableReader, opened: Mapping[str, Source], run: Callable[[str], list[tuple[Any, ...]]]
    ) -> None:
        self._tables, self._opened, self._run = tables, opened, run
        self._guard = threading.Lock()
        self._numbers: dict[Weighed, int] = {}
        self._versions: dict[Weighed, int] = {}
        self._known: dict[Weighed, tuple[tuple[Stamp, ...], str | None]] = {}

    def known(self, needed: Iterable[Weighed]) -> Names:
        """Returns what is known now, of the rest that there may be such units; reads no row."""
        with self._guard:
            return {each: self._known[each][1] if each in self._known else self._name(each) for each in needed}

    def made(self, needed: Iterable[Weighed]) -> Names:
        """Returns what holds for the rows as they are now.

        Reads private rows where it is not known yet, and where files have changed: to be called after a charge.
        """
        with self._guard:
            return {each: self._made(each) for each in needed}

    def _name(self, each: Weighed) -> str:
        number = self._numbers.setdefault(each, len(self._numbers))
        return f"weights{number}_{self._versions.get(each, 0)}"

    def _made(self, each: Weighed) -> str | None:
        state, known = stamps_of(self._opened[each.table]), self._known.get(each)
        if known is not None and known[0] == state:
            return known[1]
        if known is not None:
            del self._known[each]
            self._versions[each] = self._versions.get(each, 0) + 1
            if known[1] is not None:  # a statement that still reads it, reads rows of another state: it fails
                self._run(f"DROP TABLE {known[1]}")
        made = self._name(each)
        self._run(f"CREATE OR REPLACE TABLE {made} AS {self._tables.crowded(each)}")
        self._verify(each, made)
        ((units,),) = self._run(f"SELECT COUNT(*) FROM {made}")
        if not units:
            self._run(f"DROP TABLE {made}")
        if stamps_of(self._opened[each.table]) != state:
            raise BackendError(f"the file of table {each.table} was changed while its rows were counted")
        self._known[each] = state, made if units else None
        return self._known[each][1]

    def _verify(self, each: Weighed, made: str) -> None:
        """Raises BackendError unless each unit is there once and its rows weigh no more than `max_rows` together."""
        by = "unit" if self._tables.catalog.tables[each.table].blocks is None else "unit, block"
        twice = f"SELECT 1 FROM {made} GROUP BY {by} HAVING COUNT(*) > 1"
        together = f"CAST(weight AS HUGEINT) * LEAST(counted, {each.row_limit})"
        heavy = f"SELECT 1 FROM {made} WHERE unit IS NULL OR weight < 0 OR {together} > {each.max_rows * WEIGHT}"
        if self._run(f"{twice} LIMIT 1") or self._run(f"{heavy} LIMIT 1"):
            raise BackendError(f"the weights of table {each.table} were not written as they were meant")


def weights_of(relation: Relation) -> tuple[Weighed, ...]:
    """Returns the weights below 1 that a relation may read, each once."""
    found = dict[Weighed, None]()
    _collect(relation, found)
    return tuple(found)


def owned_tables(relation: Relation) -> frozenset[str]:
    """Returns the tables of a relation whose rows have owners, and those that lead to them."""
    if isinstance(relation, Scan):
        owner = relation.ownership
        return frozenset() if owner is None else frozenset({relation.table, *(step.parent for step in owner.path)})
    return frozenset[str]().union(*map(owned_tables, sources(relation)))


def _collect(relation: Relation, found: dict[Weighed, None]) -> None:
    if isinstance(relation, Scan) and relation.weight is not None and (each := weighed_of(relation)).may_be_less:
        found[each] = None
    for source in sources(relation):
        _collect(source, found)
