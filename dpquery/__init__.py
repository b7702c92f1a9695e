"""dpquery: SQL aggregate queries over people's data, answered under differential privacy.

The rooms, in the order in which a query passes them:

    frontends   how people ask: Python and pandas, the command line, PostgreSQL's protocol, DB-API, pages
    session     one analyst's questions: planned, explained, charged and answered
    sql         the query's text, parsed and bound to declared names and types
    plan        the language of plans: types, expressions, relations, functions, aggregates
    catalog     what the data owner declares
    planner     from what is asked to what is measured, and with how much noise
    reuse       what stored releases know already, and what they make of new ones
    units       THE TRUSTED BASE: whose rows, and how much of each person
    kernel      the trusted base: sensitivity, noise, and the gate through which all numbers pass
    ledger      the trusted base: what was spent, durably
    data        sources of rows, and prepared data
    backends    runs what is measured: DuckDB, Spark
    result      answers: tables, plots, notes
    accuracy    how far numbers may be off
    synopsis    tables of synthetic rows, measured once and asked for free

Beside a query's way:

    accounting  the field's theorems, for people who compute with them
    mechanisms  noise on values, without SQL
    auditing    what checks a guarantee from outside
    dbapi       `dpquery.dbapi`, the public name of DB-API 2.0
    cancelling  how work is ended: Ctrl+C, a client that goes away
"""

import importlib
from typing import TYPE_CHECKING

from dpquery.frontends.pandas.registration import register as _register

if TYPE_CHECKING:
    from dpquery import accounting
    from dpquery import mechanisms as mechanisms
    from dpquery.accounting import local as local
    from dpquery.auditing.run import audit
    from dpquery.catalog import Catalog
    from dpquery.errors import (
        AccuracyWarning,
        BackendError,
        CatalogError,
        DataChangedError,
        DPQueryError,
        InsufficientBudgetError,
        InternalError,
        InvalidLossError,
        LedgerError,
        MissingBoundsError,
        MissingDeltaError,
        ParameterError,
        QueryCancelledError,
        QueryError,
        QuerySyntaxError,
        UnknownNameError,
        UnsupportedQueryError,
    )
    from dpquery.frontends.admin.audit import export_ledger
    from dpquery.frontends.pandas.declare import protect
    from dpquery.kernel.accountant import Budget
    from dpquery.kernel.loss import PrivacyLoss
    from dpquery.ledger.ledger import Ledger
    from dpquery.result.batch import Batch
    from dpquery.result.measurements import Measurement
    from dpquery.result.table import Result
    from dpquery.session.connecting import amend_ledger, connect, create_ledger
    from dpquery.session.options import Options
    from dpquery.session.preparing import erase, prepare
    from dpquery.session.query_plan import Plan
    from dpquery.session.session import Session

    privacy = accounting

__version__ = "0.1.0"

__all__ = [
    "AccuracyWarning",
    "BackendError",
    "Batch",
    "Budget",
    "Catalog",
    "CatalogError",
    "DPQueryError",
    "DataChangedError",
    "InsufficientBudgetError",
    "InternalError",
    "InvalidLossError",
    "Ledger",
    "LedgerError",
    "Measurement",
    "MissingBoundsError",
    "MissingDeltaError",
    "Options",
    "ParameterError",
    "Plan",
    "PrivacyLoss",
    "QueryCancelledError",
    "QueryError",
    "QuerySyntaxError",
    "Result",
    "Session",
    "UnknownNameError",
    "UnsupportedQueryError",
    "amend_ledger",
    "audit",
    "connect",
    "create_ledger",
    "erase",
    "export_ledger",
    "prepare",
    "protect",
]

_HOMES = {
    "Batch": "dpquery.result.batch",
    "Budget": "dpquery.kernel.accountant",
    "Catalog": "dpquery.catalog",
    "Ledger": "dpquery.ledger.ledger",
    "Measurement": "dpquery.result.measurements",
    "Options": "dpquery.session.options",
    "Plan": "dpquery.session.query_plan",
    "PrivacyLoss": "dpquery.kernel.loss",
    "Result": "dpquery.result.table",
    "Session": "dpquery.session.session",
    "amend_ledger": "dpquery.session.connecting",
    "audit": "dpquery.auditing.run",
    "connect": "dpquery.session.connecting",
    "create_ledger": "dpquery.session.connecting",
    "erase": "dpquery.session.preparing",
    "export_ledger": "dpquery.frontends.admin.audit",
    "prepare": "dpquery.session.preparing",
    "protect": "dpquery.frontends.pandas.declare",
}
"""Where public names live, unless in `errors`. They load on first use, so that the command line starts quickly."""


_MODULES = {
    "dbapi": "dpquery.dbapi",
    "local": "dpquery.accounting.local",
    "mechanisms": "dpquery.mechanisms",
    "privacy": "dpquery.accounting",
}
"""Public modules that need no import of their own, and where they live; `privacy` is an older name."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in __all__:
        raise AttributeError(f"module 'dpquery' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES.get(name, "dpquery.errors")), name)
    globals()[name] = found
    return found


def load_ipython_extension(shell: object) -> None:
    """Gives a notebook the cell magic `%%dpsql`, by `%load_ext dpquery`."""
    importlib.import_module("dpquery.frontends.notebook.magic").load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


_register()
