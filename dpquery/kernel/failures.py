"""What goes wrong after a charge: one error with one text for those who asked, its type and place for the operator.

docs/proofs/gate.md, "After the charge".
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from dpquery.errors import BackendError

FAILED = "the query could not be computed; it was charged all the same"
"""All that anybody but the operator hears of a failure after the charge."""

OPERATOR = logging.getLogger("dpquery.operator")
"""Gets one line for each failure: the entry of the ledger, the type of the error and where it was raised."""
OPERATOR.addHandler(logging.NullHandler())  # without a handler of the operator's own nothing is shown

Made = TypeVar("Made")


def one_error(compute: Callable[[], Made], entry: int | None) -> Made:
    """Returns what a function makes after a charge; if it raises, one BackendError with a constant text instead.

    Ctrl-C and the end of the process are the caller's own acts and are let through.

    Args:
        compute: All that follows the charge.
        entry: The charge's number in the ledger, for the operator.
    Privacy:
        Class, text and chain of the error are the same for every cause, so they depend on no row: the error is
        raised outside the handler, and keeps neither cause nor context. That there is an error may depend on rows.
    Source:
        docs/proofs/gate.md, "After the charge".
    """
    try:
        return compute()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        cause = cause_of(error)
    with contextlib.suppress(Exception):
        OPERATOR.error("entry %s failed: %s", entry, cause)
    raise BackendError(FAILED)


def cause_of(error: BaseException) -> str:
    """Returns the type of an error and the last place of this package that it passed through, as
    `MemoryError at dpquery.backends.duckdb.statements:61 in fetch`; nothing of what it says, which may quote data."""
    place, step = "unknown", error.__traceback__
    while step is not None:
        module = str(step.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == "dpquery":
            place = f"{module}:{step.tb_lineno} in {step.tb_frame.f_code.co_name}"
        step = step.tb_next
    return f"{type(error).__qualname__} at {place}"
