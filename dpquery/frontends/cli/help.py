"""`dpquery help`: what each class of errors means, whether something was charged, and what to do.

`docs/reference/errors.md` holds the same texts; a test compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dpquery import errors
from dpquery.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """One class of errors, for those who meet it. Texts are sentences."""

    cause: str
    charged: str = "Nothing."
    remedy: str


HELP: dict[type[errors.DPQueryError], Help] = {
    errors.DPQueryError: Help(
        cause="The root of all errors of dpquery; every error has one of the classes below.",
        charged="See the class.",
        remedy="Look the class up.",
    ),
    errors.QueryError: Help(
        cause="A query was refused: its text, its parameters, or the loss that it asks for.",
        remedy="Change the query. The message says where, and what to write instead.",
    ),
    errors.QuerySyntaxError: Help(
        cause="The text is not one SQL SELECT statement in its dialect, or it is too long or nested too deeply.",
        remedy="Correct the marked place. Write one statement, and name the dialect if it is not PostgreSQL's.",
    ),
    errors.UnsupportedQueryError: Help(
        cause="The SQL is correct, but dpquery has no private reading of it, or does not support it.",
        remedy="Follow the advice in the message. The reference of SQL lists what is answered.",
    ),
    errors.UnknownNameError: Help(
        cause="A table, column or function is not declared in the catalog, or does not exist.",
        remedy="Check the spelling: the message names similar names. The owner can declare what is missing.",
    ),
    errors.MissingBoundsError: Help(
        cause="A sum, average or quantile needs bounds of its value, and none follow from the catalog.",
        remedy="Declare lower and upper of the column, or write CLAMP(value, lower, upper).",
    ),
    errors.MissingDeltaError: Help(
        cause="The keys of some groups are not public. Selecting such groups costs a delta, and there is none.",
        remedy="Declare keys, name the groups in WHERE, or use a budget with a delta.",
    ),
    errors.ParameterError: Help(
        cause="A parameter of the query has no value, a value has no parameter, or its type is not supported.",
        remedy="Give one value for each parameter, where a constant may be written.",
    ),
    errors.InvalidLossError: Help(
        cause="An epsilon, delta, rho or other option is outside its range, or there is no budget for the analyst.",
        remedy="Use a value within the range that the message names.",
    ),
    errors.InsufficientBudgetError: Help(
        cause="The charge is larger than what is left of the budget.",
        remedy="Ask for less: the message says what would still fit. Only the owner can raise a limit.",
    ),
    errors.CatalogError: Help(
        cause="The catalog contradicts itself, or the data contradict the catalog.",
        remedy="The data owner corrects every mistake that the message lists, each with its place.",
    ),
    errors.LedgerError: Help(
        cause="The ledger is missing, damaged, not writable, or belongs to a different dataset.",
        charged="Nothing, or unknown if a charge was being written. No answer is shown in either case.",
        remedy="The data owner follows the message. Never delete a ledger: it is the record of what was spent.",
    ),
    errors.DataChangedError: Help(
        cause="The owner said that the data changed after this session was opened.",
        remedy="Open a new session, or protect the frame again.",
    ),
    errors.BackendError: Help(
        cause="The engine failed after the charge. That may depend on data, so the message is always the same.",
        charged="The full charge.",
        remedy="The operator finds the type and the place in the log `dpquery.operator`.",
    ),
    errors.QueryCancelledError: Help(
        cause="The query was cancelled while it ran.",
        charged="The full charge, unless the message says that nothing was charged.",
        remedy="Ask again if the answer is still needed.",
    ),
    errors.InternalError: Help(
        cause="The checks before a query refused its plan: a defect of dpquery.",
        charged="Nothing if the message says so, otherwise the full charge.",
        remedy="Report it to the project, with the query and the catalog, without data.",
    ),
}
"""Each class of `dpquery.errors`; the page has them in this order."""


def help_of(error: type[errors.DPQueryError]) -> str:
    """Returns the help for a class as Markdown: the section of the page of errors."""
    text = HELP[error]
    return f"### {error.__name__}\n\n{text.cause}\n\n- Charged: {text.charged}\n- What to do: {text.remedy}\n"


def show_help(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="A class of errors, as a message names it.")
    ] = None,
) -> None:
    """Explain an error: its cause, what was charged, and what to do."""
    names = {error.__name__: error for error in HELP}
    if code is None:
        typer.echo("\n".join(f"{name:24} {HELP[error].cause}" for name, error in names.items()))
        return
    found = next((name for name in names if name.lower() == code.lower()), None)
    if found is None:
        from dpquery.catalog.names import suggestion  # loads numpy

        raise ParameterError(f"there is no error {code[:100]!r}; {suggestion(code, names)}")
    text = HELP[names[found]]
    typer.echo(f"{found}\n  {text.cause}\n  Charged: {text.charged}\n  What to do: {text.remedy}")
