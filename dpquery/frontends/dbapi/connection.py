"""DB-API 2.0 (PEP 249): connections to one catalog, for one analyst. Public as `dpquery.dbapi`.

Every query that is executed is charged when it is answered; there is nothing to commit. A connection may be shared by
threads, a cursor may not. In-process use protects honest analysts from mistakes: anyone who runs code in this process
can read the data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from dpquery.catalog import Catalog
from dpquery.errors import CatalogError
from dpquery.frontends.dbapi import errors as dbapi_errors
from dpquery.frontends.dbapi.cursor import AskedOfCursor, Cursor, CursorOptions
from dpquery.frontends.dbapi.errors import InterfaceError, as_pep_249
from dpquery.frontends.opening import ledger_beside, only_analyst, sources_beside
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.session.connecting import connect as open_session
from dpquery.session.session import Session

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections."""
paramstyle = "named"
""":name; binding reads `?`, `%s`, `$1`, `@name` and `%(name)s` as well."""


class Connection:
    """One analyst's way to one dataset.

    Attributes:
        session: The session that answers.
        options: What holds for queries that do not say otherwise.
        autocommit: Always true: an answer is final.
    """

    Warning = dbapi_errors.Warning
    Error = dbapi_errors.Error
    InterfaceError = dbapi_errors.InterfaceError
    DatabaseError = dbapi_errors.DatabaseError
    DataError = dbapi_errors.DataError
    OperationalError = dbapi_errors.OperationalError
    IntegrityError = dbapi_errors.IntegrityError
    InternalError = dbapi_errors.InternalError
    ProgrammingError = dbapi_errors.ProgrammingError
    NotSupportedError = dbapi_errors.NotSupportedError

    autocommit = True

    def __init__(self, session: Session, options: CursorOptions, *, owns_session: bool) -> None:
        self.session, self.options = session, options
        self.messages: list[tuple[type[Exception], Exception]] = []
        self._owns_session, self._closed = owns_session, False

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._closed

    @property
    def remaining(self) -> PrivacyLoss:
        """What this analyst may still spend, in the ledger's currency."""
        self.check_open()
        with as_pep_249():
            return self.session.remaining

    def cursor(self) -> Cursor:
        """Returns a new cursor."""
        self.check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: object = None, **options: Unpack[AskedOfCursor]) -> Cursor:
        """Returns a new cursor that has answered a query."""
        return self.cursor().execute(operation, parameters, **options)  # type: ignore[arg-type]

    def commit(self) -> None:
        """Does nothing: what was charged is charged, and nothing is written."""
        self.check_open()

    def rollback(self) -> None:
        """Does nothing: an answer that was given cannot be taken back, nor its charge."""
        self.check_open()

    def close(self) -> None:
        """Ends the connection, and the session if it was opened for it; every later use is an error."""
        if not self._closed and self._owns_session:
            self.session.close()
        self._closed = True

    def check_open(self) -> None:
        """Raises InterfaceError if the connection was closed."""
        if self._closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    catalog: Session | Catalog | str | os.PathLike[str],
    sources: Mapping[str, object] | str | os.PathLike[str] | None = None,
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    analyst: str | None = None,
    mark: str | os.PathLike[str] | None = None,
    **options: Unpack[AskedOfCursor],
) -> Connection:
    """Returns a connection.

    Args:
        catalog: The path of the declarations, or a Catalog; or an open Session, which then outlives the connection.
        sources: Data of tables, as for `dpquery.connect`. Beside a catalog's path, a table that is not named here is
            looked for as on the command line: TABLE.parquet, TABLE.csv, TABLE.feather or the folder TABLE. Or the
            folder that `prepare` made.
        ledger: As for `dpquery.connect`; by default DATASET.ledger beside the catalog's file.
        analyst: The analyst; not needed if only one is declared.
        mark: As for `dpquery.connect`.
        options: What holds for every query that does not say otherwise; as for `Cursor.execute`.
    Raises:
        Error: The catalog, the data or the ledger cannot be used.
    """
    asked = CursorOptions().but(**options)
    if isinstance(catalog, Session):
        if sources is not None or ledger is not None or analyst is not None or mark is not None:
            raise InterfaceError("a session has its sources, ledger and analyst; leave them out")
        return Connection(catalog, asked, owns_session=False)
    with as_pep_249():
        declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
        beside = None if isinstance(catalog, Catalog) else Path(catalog)
        session = open_session(
            declared,
            sources if isinstance(sources, str | os.PathLike) else _sources(declared, beside, sources or {}),
            ledger=_ledger(declared, beside, ledger, mark),
            analyst=analyst or only_analyst(declared, "analyst="),
        )
    return Connection(session, asked, owns_session=True)


def _sources(catalog: Catalog, beside: Path | None, given: Mapping[str, object]) -> dict[str, object]:
    """Returns the data of each table: what is given, and what lies beside the catalog's file."""
    if beside is None:
        return dict(given)
    missing = [name for name in catalog.tables if name not in given]
    found, problems = sources_beside(beside.parent, missing, "sources={{{!r}: PATH}}")
    if problems:
        raise CatalogError(problems)
    return {**found, **given}


def _ledger(
    catalog: Catalog,
    beside: Path | None,
    given: Ledger | str | os.PathLike[str] | None,
    mark: str | os.PathLike[str] | None,
) -> Ledger:
    if isinstance(given, Ledger):
        return given
    if given is None and beside is None:
        raise InterfaceError("a Catalog built in Python has no folder: name its ledger with ledger=")
    return Ledger.open(given if given is not None else ledger_beside(catalog, beside or Path()), mark=mark)
