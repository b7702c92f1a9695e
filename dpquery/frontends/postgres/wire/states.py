"""Errors of the engine as PostgreSQL's: SQLSTATE, words that say nothing about data, and the place in the query."""

from __future__ import annotations

from dpquery import errors
from dpquery.frontends.postgres.wire.answers import Refusal
from dpquery.frontends.text import as_settings

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
        return Refusal(BROKEN, "the data have changed; nothing was charged", None, "The server must be restarted.")
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
