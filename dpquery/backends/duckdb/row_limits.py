"""In which tables a unit has more rows than are read of it: found when data open, so that others pay nothing for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from dpquery.backends.duckdb.table_reading import TableReader
from dpquery.catalog import Table
from dpquery.data.sources import Source
from dpquery.data.unchanged import Stamp, stamps_of


class RowLimits:
    """Counts the rows of units where a table is large enough for a unit to exceed its limit, and again where its files
    have changed since.

    Args:
        tables: How the tables are read.
        opened: Their sources.
        ask: Runs a SELECT of one number.
    """

    def __init__(self, tables: TableReader, opened: Mapping[str, Source], ask: Callable[[str], int]) -> None:
        self._tables, self._opened, self._ask = tables, opened, ask
        self._guard = threading.Lock()
        self._known: dict[str, tuple[tuple[Stamp, ...], bool]] = {}

    def above(self) -> frozenset[str]:
        """Returns the tables in which some unit has more rows than are read, in a block where rows are in blocks.

        Reads private rows where files have changed: to be called when data open, and after a charge.
        """
        owned = [table for table in self._tables.catalog.tables.values() if table.ownership is not None]
        return frozenset(table.name for table in owned if self._is_above(table))

    def _is_above(self, table: Table) -> bool:
        state = stamps_of(self._opened[table.name])
        with self._guard:
            known = self._known.get(table.name)
        if known is None or known[0] != state:
            known = state, self._exceeds(table)
            with self._guard:
                self._known[table.name] = known
        return known[1]

    def _exceeds(self, table: Table) -> bool:
        limit = table.row_limit or self._tables.catalog.defaults.row_limit
        if (prepared := self._opened[table.name].prepared) is not None:
            return prepared.most_rows > limit
        if self._ask(f"SELECT COUNT(*) FROM {self._tables.places[table.name]}") <= limit:
            return False
        return self._ask(self._tables.most_rows(table)) > limit
