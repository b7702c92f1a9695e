"""Every exception of dpquery. The classes say who can act.

DPQueryError
├── QueryError                  the analyst: the query, or what it asks for
│   ├── QuerySyntaxError            the text is not SQL
│   ├── UnsupportedQueryError       SQL that has no private reading here
│   ├── UnknownNameError            a table, column or function that is not declared
│   ├── MissingBoundsError          a value without a finite range
│   ├── MissingDeltaError           groups must be selected, and no delta is offered
│   ├── ParameterError              values given for a query's parameters, or where these stand
│   ├── InvalidLossError            epsilon, delta, rho or another option out of its domain
│   └── InsufficientBudgetError     the charge exceeds what is left
├── CatalogError                the data owner: declarations, or data that contradict them
├── LedgerError                 the data owner: the ledger is missing, damaged or of another dataset
│   └── DataChangedError            the analyst: the data have a new version; open a new session
├── BackendError                the operator: the engine failed; quotes nothing from the data
├── QueryCancelledError         the one who cancelled the query
└── InternalError               us: a plan that the kernel refuses to run

AccuracyWarning, a warning of Python's, is of an answer that was given and says nothing.

An error is an output: it may depend on the query, the catalog and the ledger, never on a private row.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpquery.kernel.loss import PrivacyLoss

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the query's text: offsets of its first and past its last character."""

    start: int
    end: int


class DPQueryError(Exception):
    """The root of all errors raised by dpquery."""


class QueryError(DPQueryError):
    """A query that is refused. The message says what, why, where, and what to write instead.

    Attributes:
        reason: What was refused and why, one sentence.
        advice: What to write instead, or "".
        span: Where in the text, or None.
        text: The query, once known; only the analyst's own text is ever quoted.
    """

    def __init__(self, reason: str, *, advice: str = "", span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice
        self.span = span
        self.text: str | None = None

    @property
    def line(self) -> int | None:
        """Line of the refused part, counted from 1, or None."""
        place = self._place()
        return place[0] if place else None

    @property
    def column(self) -> int | None:
        """Column of the refused part, counted from 1, or None."""
        place = self._place()
        return place[1] if place else None

    def locate(self, text: str) -> QueryError:
        """Returns this error, now knowing the text that `span` points into."""
        if self.text is None:
            self.text = text
        return self

    def _render_traceback_(self) -> list[str]:
        """Returns what notebooks show of this error: where in the query, and not where in the package."""
        return [f"{type(self).__name__}: {self}"]

    def _place(self) -> tuple[int, int] | None:
        if self.text is None or self.span is None:
            return None
        before = self.text[: self.span.start]
        return before.count("\n") + 1, self.span.start - (before.rfind("\n") + 1) + 1

    def __str__(self) -> str:
        lines = [self.reason]
        place = self._place()
        if place and self.text is not None and self.span is not None:
            line, column = place
            quoted = self.text.split("\n")[line - 1]
            width = max(1, min(self.span.end - self.span.start, len(quoted) - column + 1))
            start = max(0, column - 1 - 100)
            shown = "".join(c if c.isprintable() else "?" for c in quoted[start : start + 200])
            lines += [f"  {shown}", "  " + " " * (column - 1 - start) + "^" * min(width, 100)]
            lines.append(f"  at line {line}, column {column}" + (f". {self.advice}" if self.advice else ""))
        elif self.advice:
            lines.append(f"  {self.advice}")
        return "\n".join(lines)


class QuerySyntaxError(QueryError):
    """The text is not one SQL SELECT statement."""


class UnsupportedQueryError(QueryError):
    """SQL that cannot be answered privately, or that dpquery does not know."""


class UnknownNameError(QueryError):
    """A table, column or function that does not exist for the analyst."""


class MissingBoundsError(QueryError):
    """An aggregate over a value for which no finite range is declared or derived."""


class MissingDeltaError(QueryError):
    """Groups without public keys need a delta, and neither budget nor query offers one."""


class ParameterError(QueryError):
    """Values for a query's parameters are missing, left over or of no known type, or stand where no value can."""


class InvalidLossError(QueryError):
    """An epsilon, delta, rho, bound or other option outside its domain."""


class InsufficientBudgetError(QueryError):
    """The charge exceeds what is left of the budget; nothing was charged.

    Attributes:
        requested: The charge of the query, in the ledger's currency.
        remaining: What this analyst may still spend, in the same currency.
        fits: What would still fit, as an argument of `sql`: {"epsilon": 0.2}; empty where nothing does.
    """

    def __init__(
        self,
        reason: str,
        *,
        requested: PrivacyLoss,
        remaining: PrivacyLoss,
        advice: str = "",
        fits: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(reason, advice=advice)
        self.requested = requested
        self.remaining = remaining
        self.fits = dict(fits or {})


class CatalogError(DPQueryError):
    """Declarations that contradict each other, or data that contradict them.

    Attributes:
        problems: Every mistake found, each with its place.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class LedgerError(DPQueryError):
    """The ledger is missing, unwritable, damaged, or belongs to other declarations."""


class DataChangedError(LedgerError):
    """The owner said that the data changed since the session was opened; nothing was charged. A new session goes on."""


class BackendError(DPQueryError):
    """The engine could not run a plan. Quotes nothing from the data."""


class QueryCancelledError(DPQueryError):
    """A query that was cancelled while it ran. A charge that was made before stands."""


class InternalError(DPQueryError):
    """A plan that breaks a rule of the kernel: a defect of dpquery, refused rather than guessed at."""


class AccuracyWarning(UserWarning):
    """An answer was given and says nothing: no group was shown, or intervals are as wide as the range of the values."""


def extra(module: str, of: str, purpose: str, instead: str = "") -> Any:
    """Returns a module that an extra of dpquery installs.

    Args:
        module: the module's full name
        of: the extra's name, as in `dpquery[plot]`
        purpose: what needs it, as the subject of a sentence
        instead: what to use without it, a sentence

    Raises:
        DPQueryError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0].replace("_", "-")
        advice = f"Install it with: pip install 'dpquery[{of}]'" + (f"; {instead}" if instead else "")
        raise DPQueryError(f"{purpose} needs {library}, which is not installed\n  {advice}") from error
