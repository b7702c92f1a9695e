"""Writes what prepared tables hold beside their declared columns: lattice integers, and codes of strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpquery.backends.duckdb.earlier_preparation import Unfit
from dpquery.backends.duckdb.sql.values_sql import lattice_value
from dpquery.backends.duckdb.table_reading import TableReader
from dpquery.catalog import Table
from dpquery.catalog.names import quoted
from dpquery.data.sources import quote
from dpquery.data.stored_encodings import Forms, code_of, step_of
from dpquery.plan.types import TEXT

_WIDTHS = (
    *(("UTINYINT", 0, 2**8), ("USMALLINT", 0, 2**16), ("UINTEGER", 0, 2**32)),
    *(("TINYINT", -(2**7), 2**7), ("SMALLINT", -(2**15), 2**15), ("INTEGER", -(2**31), 2**31)),
)


class FurtherColumns:
    """The further columns of a private table.

    Args:
        table: Its declarations.
        forms: What they hold.
        run: Runs a statement in the engine that writes.
        of_codes: The type of codes; None for the narrowest that these strings need.
    """

    def __init__(
        self, table: Table, forms: Forms, run: Callable[[str], list[tuple[Any, ...]]], of_codes: str | None = None
    ) -> None:
        self.forms, self._table, self._run, self._of_codes = forms, table, run, of_codes
        self._widths = dict[str, str]()

    def number(self, tables: TableReader, before: str | None) -> None:
        """Makes for each column with public keys a table of all its strings with their codes: they are different for
        different strings, as each unit's groups are counted, public or not.

        Args:
            tables: Reads the sources.
            before: Reads the files of an earlier preparation with the same keys, whose codes stay.
        Raises:
            Unfit: The codes have no room in the type that they had before.
        """
        for column, keys in self.forms.keys.items():
            codes, code = self._codes(column), quoted(code_of(column))
            given = ", ".join(f"({quote(key)}, {place})" for place, key in enumerate(keys)) or "(NULL, NULL)"
            self._run(
                f"CREATE TABLE {codes} AS SELECT CAST(value AS VARCHAR) AS value, CAST(code AS BIGINT) AS code "
                f"FROM (VALUES {given}) AS given(value, code) WHERE value IS NOT NULL"
            )
            if before is not None:
                others = f"SELECT DISTINCT {quoted(column)}, {code} FROM {before} WHERE {code} >= {len(keys)}"
                self._run(f"INSERT INTO {codes} {others}")
            value = tables.column(self._table, column, TEXT, "stored")
            read = f"SELECT DISTINCT {value} AS value FROM {tables.places[self._table.name]} AS stored"
            new = f"SELECT value FROM ({read}) ANTI JOIN {codes} USING (value) WHERE value IS NOT NULL"
            first = f"(SELECT GREATEST(COALESCE(MAX(code) + 1, 0), {len(keys)}) FROM {codes})"
            self._run(
                f"INSERT INTO {codes} SELECT value, {first} - 1 + row_number() OVER (ORDER BY value) FROM ({new})"
            )
            ((most,),) = self._run(f"SELECT COALESCE(MAX(code), 0) FROM {codes}")
            self._widths[column] = self._of_codes or width(0, max(most, len(keys)))
            if before is not None:
                ((held,),) = self._run(f"SELECT typeof({code}) FROM {before} LIMIT 1") or [(self._widths[column],)]
                if held != self._widths[column]:
                    raise Unfit("more strings than there is room for")

    def further(self) -> dict[str, str]:
        """Returns SQL for each of them by its name, over the declared columns as `declared` and `codes`."""
        codes = {code_of(c): f"CAST({self._codes(c)}.code AS {self._widths[c]})" for c in self.forms.keys}
        return self._steps() | codes

    def _steps(self) -> dict[str, str]:
        made = dict[str, str]()
        for column, lattice in self.forms.lattices.items():
            value = lattice_value(f"declared.{quoted(column)}", self._table.columns[column].type, lattice)
            made[step_of(column)] = f"CAST({value} AS {width(lattice.lower, lattice.upper)})"
        return made

    def codes(self) -> str:
        """Returns the joins of `declared` with the codes of strings."""
        made = ((self._codes(column), quoted(column)) for column in self.forms.keys)
        return "".join(f" LEFT JOIN {codes} ON {codes}.value = declared.{column}" for codes, column in made)

    def strings(self) -> str:
        """Returns the joins of `declared` with the strings that its codes mean."""
        made = ((self._codes(column), quoted(code_of(column))) for column in self.forms.keys)
        return "".join(f" LEFT JOIN {codes} ON {codes}.code = declared.{code}" for codes, code in made)

    def wrong(self) -> str:
        """Returns SQL for whether one of them is not what the declared column says, over `declared` and `strings`: as
        all strings have different codes, a code is the string's where the string is the code's."""
        wrong = [f"declared.{quoted(name)} IS DISTINCT FROM {sql}" for name, sql in self._steps().items()]
        for column in self.forms.keys:
            value, code = f"declared.{quoted(column)}", f"declared.{quoted(code_of(column))}"
            wrong += [
                f"{self._codes(column)}.value IS DISTINCT FROM {value}",
                f"{value} IS NULL AND {code} IS NOT NULL",
            ]
        return " OR ".join(wrong) or "FALSE"

    def _codes(self, column: str) -> str:
        """Returns the name of the table of codes of a column."""
        return quoted(f"codes of {column} in {self._table.name}")


def width(least: int, most: int) -> str:
    """Returns the narrowest type of integers that holds these bounds."""
    return next((type for type, low, high in _WIDTHS if low <= least and most < high), "BIGINT")
