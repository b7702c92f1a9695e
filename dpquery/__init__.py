"""dpquery: SQL aggregate queries over people's data, answered under differential privacy."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpquery.catalog import Catalog
    from dpquery.errors import (
        BackendError,
        CatalogError,
        DPQueryError,
        InsufficientBudgetError,
        InternalError,
        InvalidLossError,
        LedgerError,
        MissingBoundsError,
        MissingDeltaError,
        ParameterError,
        QueryError,
        QuerySyntaxError,
        UnknownNameError,
        UnsupportedQueryError,
    )
    from dpquery.frontends.audit import export_ledger
    from dpquery.kernel.accountant import Budget
    from dpquery.kernel.ledger import Ledger
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.kernel.measurements import Measurement
    from dpquery.result.batch import Batch
    from dpquery.result.table import Result
    from dpquery.session import Plan, Session, connect, create_ledger

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "Batch",
    "Budget",
    "Catalog",
    "CatalogError",
    "DPQueryError",
    "InsufficientBudgetError",
    "InternalError",
    "InvalidLossError",
    "Ledger",
    "LedgerError",
    "Measurement",
    "MissingBoundsError",
    "MissingDeltaError",
    "ParameterError",
    "Plan",
    "PrivacyLoss",
    "QueryError",
    "QuerySyntaxError",
    "Result",
    "Session",
    "UnknownNameError",
    "UnsupportedQueryError",
    "connect",
    "create_ledger",
    "export_ledger",
]

_HOMES = {
    "Batch": "dpquery.result.batch",
    "Budget": "dpquery.kernel.accountant",
    "Catalog": "dpquery.catalog",
    "Ledger": "dpquery.kernel.ledger",
    "Measurement": "dpquery.kernel.mechanisms",
    "Plan": "dpquery.session",
    "PrivacyLoss": "dpquery.kernel.loss",
    "Result": "dpquery.result.table",
    "Session": "dpquery.session",
    "connect": "dpquery.session",
    "create_ledger": "dpquery.session",
    "export_ledger": "dpquery.frontends.audit",
}
"""Where public names live, unless in `errors`. They load on first use, so that the command line starts quickly."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'dpquery' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES.get(name, "dpquery.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
