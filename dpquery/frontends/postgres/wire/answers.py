"""What the wire asks of the engine, and what it gets: one SQL statement of one analyst, answered, described or refused.

All of it is plain data, so that the engine can live in another process than the connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from dpquery import errors
from dpquery.frontends.text import as_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of a result, as the wire describes it.

    Attributes:
        name: Its name, as PostgreSQL would call it.
        oid: The OID of its type.
        typmod: What the type's parameters are, as PostgreSQL codes them; -1 for none.
    """

    name: str
    oid: int
    typmod: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRequest:
    """One SQL statement of one analyst.

    Attributes:
        text: The statement, with its parameters as $1, $2 and so on.
        parameters: Their values: None, bool, int, float, Decimal, str, date, datetime, time, UUID, bytes or list.
        analyst: Who asks; the connection has proved it.
        settings: The settings of the connection by name, in lower case ("timezone", "dpquery.epsilon", ...).
    """

    text: str
    parameters: tuple[object, ...] = ()
    analyst: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a statement will take and give, known without reading data.

    Attributes:
        parameters: The OIDs of the parameters' types.
        fields: The columns of the result; none for statements without rows.
    """

    parameters: tuple[int, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementAnswer:
    """An answer.

    Attributes:
        fields: The columns, as `describe` gave them.
        table: Columns in the order of the fields, of Arrow types that match their OIDs.
        notices: Sentences for the analyst: what was charged, what was answered for free and why.
        is_lasting: Whether the same statement of the same analyst always gives this: it reads no data and no clock.
    """

    fields: tuple[Field, ...]
    table: pa.Table
    notices: tuple[str, ...] = ()
    is_lasting: bool = False


class Refusal(Exception):
    """A statement that is refused, in words that say nothing about data; can be pickled.

    Attributes:
        sqlstate: Five characters, as PostgreSQL codes errors.
        message: What was refused and why.
        detail, hint: More of it, and what to do instead; or None.
        position: Where in the statement, in characters counted from 1, or None.
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(sqlstate, message, detail, hint, position)
        self.sqlstate, self.message = sqlstate, message
        self.detail, self.hint, self.position = detail, hint, position

    def __str__(self) -> str:
        return f"{self.sqlstate}: {self.message}"


class DataChanged(Refusal):
    """The refusal of a statement that an engine cannot answer as it holds an older version of the data."""


class Answerer(Protocol):
    """Answers statements; many threads may ask at once. A statement that is refused raises Refusal."""

    def describe(
        self, text: str, parameter_oids: tuple[int, ...], analyst: str, settings: Mapping[str, str]
    ) -> Described:
        """Returns what a statement takes and gives; reads no data and charges nothing. OID 0 leaves a type open."""
        ...

    def answer(self, asked: StatementRequest) -> StatementAnswer:
        """Returns the answer to a statement; charges at most once. Only a failed engine (58030) leaves a charge."""
        ...

    def explain(self, asked: StatementRequest) -> StatementAnswer:
        """Returns what a statement would measure and cost, as lines of text; reads no data and charges nothing."""
        ...


# Errors of the engine as PostgreSQL's: SQLSTATE, words that say nothing about data, and the place in the query.

SYNTAX, UNSUPPORTED, FORBIDDEN = "42601", "0A000", "42501"
NO_TABLE, NO_COLUMN, NO_FUNCTION, AMBIGUOUS, UNGROUPED = "42P01", "42703", "42883", "42702", "42803"
INVALID_VALUE, EXHAUSTED, CANCELLED, TOO_MUCH = "22023", "53400", "57014", "54000"
TOO_MANY, NO_MEMORY = "53300", "53200"
BROKEN, CONFIGURATION, DEFECT, NO_ANALYST = "58030", "F0000", "XX000", "28000"

ROW_LEVEL_HINT = "Add an aggregate, for example COUNT(*), AVG or SUM, with GROUP BY."

_BY_CLASS: tuple[tuple[type[errors.QueryError], str], ...] = (
    (errors.QuerySyntaxError, SYNTAX),
    (errors.InsufficientBudgetError, EXHAUSTED),
    (errors.MissingBoundsError, UNSUPPORTED),
    (errors.MissingDeltaError, INVALID_VALUE),
    (errors.ParameterError, INVALID_VALUE),
    (errors.InvalidLossError, INVALID_VALUE),
    (errors.UnsupportedQueryError, UNSUPPORTED),
)


def failed() -> Refusal:
    """Returns the one refusal of a statement that failed after it may have been charged: whether the engine raised an
    error, ran out of memory or ended altogether may depend on data. Its cause is in the operator's log."""
    return Refusal(BROKEN, "the query could not be computed", "A charge that was made is kept.")


def refusal_of(error: BaseException) -> Refusal:
    """Returns what the client is told of an error. Only texts of QueryErrors go out: they quote query and catalog."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, errors.QueryError):
        position = None if error.span is None else error.span.start + 1
        return Refusal(_state(error), error.reason, None, as_settings(error.advice) or None, position)
    if isinstance(error, errors.BackendError):
        return failed()
    if isinstance(error, errors.DataChangedError):
        hint = "Ask again later; the data owner's log says why the new data are not there yet."
        return DataChanged(BROKEN, "the data have changed; nothing was charged", None, hint)
    if isinstance(error, errors.LedgerError):
        return Refusal(BROKEN, "the ledger cannot be used", None, "Tell the data owner; their log has the reason.")
    if isinstance(error, errors.CatalogError):
        return Refusal(CONFIGURATION, "the declarations and the data do not agree", None, "Tell the data owner.")
    if isinstance(error, errors.InternalError | errors.DPQueryError):
        return Refusal(DEFECT, "the query breaks a rule of the engine; it was refused")
    return Refusal(DEFECT, "the query could not be answered")


def row_level(unit: str, position: int | None = None) -> Refusal:
    """Returns the refusal of a query for rows of single units."""
    what = "single rows" if unit == "row" else f"rows of a single {unit}"
    return Refusal(FORBIDDEN, f"{what} are not shown: this server answers aggregates", None, ROW_LEVEL_HINT, position)


def _state(error: errors.QueryError) -> str:
    if isinstance(error, errors.UnknownNameError):
        word = error.reason.split(" ", 1)[0]
        return {"table": NO_TABLE, "function": NO_FUNCTION}.get(word, NO_COLUMN)
    if isinstance(error, errors.UnsupportedQueryError):
        if "is ambiguous" in error.reason:
            return AMBIGUOUS
        if "is neither in GROUP BY" in error.reason:
            return UNGROUPED
        if error.reason.startswith("the result would hold rows of single"):
            return FORBIDDEN
        if error.reason.endswith("is not a query"):
            return FORBIDDEN
    return next((state for kind, state in _BY_CLASS if isinstance(error, kind)), UNSUPPORTED)
