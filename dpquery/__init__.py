"""dpquery: SQL aggregate queries over people's data, answered under differential privacy."""

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
    QueryError,
    QuerySyntaxError,
    UnknownNameError,
    UnsupportedQueryError,
)
from dpquery.kernel.ledger import Ledger
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.mechanisms import Measurement
from dpquery.result.table import Result
from dpquery.session import Plan, Session, connect

__version__ = "0.1.0"

__all__ = [
    "BackendError",
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
    "Plan",
    "PrivacyLoss",
    "QueryError",
    "QuerySyntaxError",
    "Result",
    "Session",
    "UnknownNameError",
    "UnsupportedQueryError",
    "connect",
]
