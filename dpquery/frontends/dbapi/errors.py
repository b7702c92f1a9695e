"""The exceptions of PEP 249, and which of them each error of dpquery becomes.

Error
├── InterfaceError              the connection or cursor is used wrongly: closed, unknown options
└── DatabaseError
    ├── DataError                   (never raised: answers hold no value that fails)
    ├── OperationalError            budget, ledger, catalog, files, engine, cancelled queries
    ├── IntegrityError              (never raised: nothing is written)
    ├── InternalError               a defect of dpquery
    ├── ProgrammingError            the query: its syntax, names, parameters, bounds, amounts
    └── NotSupportedError           SQL that has no private reading, and writing of any kind

The error of dpquery stays the `__cause__`, with all that it knows (`remaining` and `requested`, `line` and `column`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dpquery import errors


class Warning(Exception):
    """Important warnings; dpquery raises none."""


class Error(errors.DPQueryError):
    """The root of all errors of this interface, itself one of dpquery's."""


class InterfaceError(Error):
    """A connection or cursor that is closed, or an option that does not exist."""


class DatabaseError(Error):
    """The root of the errors about queries, data and the budget."""


class DataError(DatabaseError):
    """Problems with the processed data; never raised."""


class OperationalError(DatabaseError):
    """The budget does not suffice, or ledger, catalog, files or engine cannot be used."""


class IntegrityError(DatabaseError):
    """A constraint fails; never raised."""


class InternalError(DatabaseError):
    """A defect of dpquery: refused rather than guessed at."""


class ProgrammingError(DatabaseError):
    """A query that is refused: its syntax, names, parameters, missing bounds, or amounts."""


class NotSupportedError(DatabaseError):
    """SQL that cannot be answered privately, or that would write."""


_CLASSES: tuple[tuple[type[errors.DPQueryError], type[DatabaseError]], ...] = (
    (errors.InsufficientBudgetError, OperationalError),
    (errors.UnsupportedQueryError, NotSupportedError),
    (errors.QueryError, ProgrammingError),
    (errors.CatalogError, OperationalError),
    (errors.LedgerError, OperationalError),
    (errors.BackendError, OperationalError),
    (errors.QueryCancelledError, OperationalError),
    (errors.InternalError, InternalError),
)
"""The first that fits decides."""


def class_of(error: errors.DPQueryError) -> type[DatabaseError]:
    """Returns the class of PEP 249 for an error of dpquery."""
    return next((made for known, made in _CLASSES if isinstance(error, known)), DatabaseError)


@contextlib.contextmanager
def as_pep_249() -> Iterator[None]:
    """Raises what dpquery raises inside as the error of PEP 249 that says the same."""
    try:
        yield
    except Error:
        raise
    except errors.DPQueryError as error:
        raise class_of(error)(str(error)) from error
    except OSError as error:
        raise OperationalError(f"{error.filename or 'a file'}: {error.strerror or 'cannot be used'}") from error
