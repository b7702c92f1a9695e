"""Cursors of PEP 249. Executing a query is charged, once; fetching its rows is free."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Unpack, cast

import pyarrow as pa

from dpquery.catalog.names import SYNOPSES
from dpquery.errors import AccuracyWarning
from dpquery.frontends.dbapi.errors import InterfaceError, NotSupportedError, ProgrammingError, as_pep_249
from dpquery.frontends.dbapi.types import Described, described
from dpquery.result.interval_columns import with_intervals
from dpquery.session.options import NAMES, NO_OPTIONS, Asked, Options
from dpquery.sql.bind.shape import shape
from dpquery.sql.parse.parameters import Given

if TYPE_CHECKING:
    from dpquery.frontends.dbapi.connection import Connection
    from dpquery.result.table import Result

Row = tuple[object, ...]
Parameters = Sequence[object] | Mapping[str, object] | None


class AskedOfCursor(Asked, total=False):
    """What may be asked with a query: as in `Session.sql`, and `intervals`, for columns with the ends of intervals."""

    intervals: bool


@dataclass(frozen=True, slots=True)
class CursorOptions:
    """Options of the session, and whether columns with the ends of intervals are asked for."""

    options: Options = NO_OPTIONS
    intervals: bool = False

    def but(self, **asked: Unpack[AskedOfCursor]) -> CursorOptions:
        """Returns the options of a query: its own, then these; see `Options.but`."""
        own: dict[str, object] = {name: value for name, value in asked.items() if value is not None}
        intervals = own.pop("intervals", None)
        if unknown := sorted(asked.keys() - {*NAMES, "intervals"}):
            known = ", ".join((*NAMES, "intervals"))
            raise InterfaceError(f"{', '.join(unknown)} is not an option of a query; known: {known}")
        chosen = self.options.but(**cast(Asked, own))
        return CursorOptions(chosen, self.intervals if intervals is None else _is_on(intervals))


def _is_on(value: object) -> bool:
    """Returns what a switch says, in Python or in a URL."""
    words = {True: True, False: False, "on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
    said = value.lower() if isinstance(value, str) else value
    if not isinstance(said, bool | str) or said not in words:
        raise InterfaceError(f"intervals is on or off, not {value!r}")
    return words[said]


class Cursor:
    """One query at a time, and the rows of its answer.

    Attributes:
        connection: The connection that it was made by.
        arraysize: Rows that `fetchmany` gives unless told otherwise.
        lastrowid: Always None: nothing is written.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid: None = None
        self.messages: list[tuple[type[Exception], Exception]] = []
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._result: Result | None = None
        self._table: pa.Table | None = None
        self._rows: list[Row] | None = None
        self._next = 0

    @property
    def description(self) -> tuple[Described, ...] | None:
        """The columns of the answer, or None before one is there. Types follow from the query, never from the data."""
        return None if self._table is None else tuple(described(field) for field in self._table.schema)

    @property
    def rowcount(self) -> int:
        """The rows of the answer; -1 before one is there."""
        return -1 if self._result is None else len(self._result)

    @property
    def rownumber(self) -> int | None:
        """The number of the next row, counted from 0; None without an answer."""
        return None if self._result is None else self._next

    @property
    def result(self) -> Result:
        """The whole answer, with intervals, charge and measurements."""
        return self._answer()

    def execute(self, operation: str, parameters: Parameters = None, **options: Unpack[AskedOfCursor]) -> Cursor:
        """Answers a query and charges for what of it is not stored already; returns this cursor.

        Args:
            operation: One SELECT statement.
            parameters: The values of its parameters, by position or name.
            options: `epsilon`, `delta`, `rho`, `error`, `weights`, `max_groups`, `max_rows`, `dialect`, `confidence`,
                `fresh`, instead of the connection's; `intervals=True` for columns NAME_low and NAME_high behind each
                noisy number.
        Raises:
            Error: The query is refused, and nothing was charged; or the engine failed, and the charge stands.
        """
        self._check_open()
        self._forget()
        if not isinstance(operation, str):
            raise ProgrammingError(f"a query must be a string, not {type(operation).__name__}")
        asked = self.connection.options.but(**options)
        with as_pep_249():
            params = _given(parameters)
            self._result = self.connection.session.sql(operation, params=params, options=asked.options)
            self._table = self._result.to_arrow()
            if asked.intervals:
                self._table = with_intervals(self._result, self._noisy(operation, params, asked.options.dialect))
        self._tell(self._result)
        return self

    def _noisy(self, operation: str, params: Given, dialect: str) -> frozenset[int] | None:
        """Returns the places of noisy columns, as the query tells them where the answer may not: of no row, and of
        synthetic ones, whose numbers have intervals where measured cells add up to them."""
        is_free = SYNOPSES in operation.casefold()
        if not is_free and (self._result is None or len(self._result)):
            return None
        session = self.connection.session
        return shape(operation, session.synopses.declared if is_free else session.catalog, params, dialect).noisy

    def _tell(self, result: Result) -> None:
        """Says what in the answer says nothing: as a warning of Python, and in `messages`."""
        del self.messages[:]
        for words in result.warnings:
            self.messages.append((AccuracyWarning, AccuracyWarning(words)))
            warnings.warn(words, AccuracyWarning, stacklevel=3)

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> NoReturn:
        """Refuses: each run of a query is an answer of its own, to be charged and fetched by itself."""
        self._check_open()
        raise NotSupportedError("executemany writes rows, but dpquery only reads; execute each query by itself")

    def callproc(self, procname: str, parameters: Sequence[object] = ()) -> NoReturn:
        """Refuses: there are no procedures."""
        self._check_open()
        raise NotSupportedError("there are no procedures; write a SELECT")

    def fetchone(self) -> Row | None:
        """Returns the next row, or None after the last."""
        rows = self._take(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Returns the next rows, `arraysize` unless told how many."""
        size = self.arraysize if size is None else size
        if size < 0:
            raise ProgrammingError("the number of rows to fetch is not negative")
        return self._take(size)

    def fetchall(self) -> list[Row]:
        """Returns all rows that are left."""
        return self._take(len(self._answer()))

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Moves to another row of the answer, which costs nothing.

        Raises:
            IndexError: There is no such row; the cursor stays where it is.
        """
        if mode not in ("relative", "absolute"):
            raise ProgrammingError("mode is relative or absolute")
        target = value + (self._next if mode == "relative" else 0)
        if not 0 <= target <= len(self._answer()):
            raise IndexError("there is no such row")
        self._next = target

    def nextset(self) -> None:
        """Returns None: a query has one answer. What is left of it is dropped."""
        self._next = len(self._answer())

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Ends the cursor; every later use is an error."""
        self._closed = True
        self._forget()

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, count: int) -> list[Row]:
        answer = self._answer()
        if self._rows is None:
            table = answer.to_arrow() if self._table is None else self._table
            columns = [column.to_pylist() for column in table.columns]
            self._rows = list(zip(*columns, strict=True))
        taken = self._rows[self._next : self._next + count]
        self._next += len(taken)
        return taken

    def _answer(self) -> Result:
        self._check_open()
        if self._result is None:
            raise ProgrammingError("there is no answer to fetch from; execute a query first")
        return self._result

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection.check_open()


def _given(parameters: object) -> list[object] | dict[str, object] | None:
    """Returns parameters in the plain form that binding asks for; none at all where there are none."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {str(name) if isinstance(name, str) else name: value for name, value in parameters.items()} or None
    if isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes | bytearray):
        return list(parameters) or None
    raise ProgrammingError("parameters are a sequence of values, or a mapping of values by name")
