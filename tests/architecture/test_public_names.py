"""The names of the public interface and their signatures: a contract with whoever wrote code against it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import dpquery as dp

NAMES = {
    *(
        "Catalog",
        "Ledger",
        "Measurement",
        "Options",
        "Plan",
        "PrivacyLoss",
        "Result",
        "Session",
        "connect",
        "create_ledger",
    ),
    *(
        "AccuracyWarning",
        "Batch",
        "Budget",
        "DataChangedError",
        "amend_ledger",
        "audit",
        "erase",
        "export_ledger",
        "prepare",
        "protect",
    ),
    *("BackendError", "CatalogError", "DPQueryError", "InsufficientBudgetError", "InternalError", "InvalidLossError"),
    *("LedgerError", "MissingBoundsError", "MissingDeltaError", "QueryError", "QuerySyntaxError", "UnknownNameError"),
    *("Options", "ParameterError", "QueryCancelledError", "UnsupportedQueryError"),
}

MODULES = {"dbapi", "local", "mechanisms", "privacy"}
"""Public modules that `import dpquery` has without an import of their own."""

ASKED = {"epsilon": None, "delta": None, "rho": None, "max_groups": None, "max_rows": None, "dialect": "postgres"}
REQUIRED = inspect.Parameter.empty

SIGNATURES: dict[Callable[..., Any], dict[str, Any]] = {
    dp.connect: {
        **dict.fromkeys(("catalog", "sources", "ledger"), REQUIRED),
        "analyst": "analyst",
        "reuse": True,
    },
    dp.Session.sql: {"query": REQUIRED, **ASKED, "confidence": "0.95", "fresh": False},
    dp.Session.explain: {"query": REQUIRED, **ASKED, "fresh": False},
    dp.create_ledger: {"catalog": REQUIRED, "path": REQUIRED},
    dp.Catalog.load: {"path": REQUIRED},
    dp.Catalog.from_yaml: {"text": REQUIRED},
    dp.Ledger.create: {"path": REQUIRED, "declarations": REQUIRED, "budget": REQUIRED, "analysts": REQUIRED},
    dp.Ledger.open: {"path": REQUIRED, "since": None, "mark": None},
    dp.Ledger.reconcile: {"path": REQUIRED, "by": REQUIRED, "why": REQUIRED, "mark": None, "is_mark_lost": False},
    dp.Ledger.set_limit: {"analyst": REQUIRED, "budget": REQUIRED, "by": REQUIRED, "why": REQUIRED},
    dp.Ledger.new_data_version: {"by": REQUIRED, "why": REQUIRED},
    dp.export_ledger: {"ledger": REQUIRED, "path": REQUIRED},
    dp.protect: {
        **dict.fromkeys(("data", "privacy_unit"), REQUIRED),
        **dict.fromkeys(("bounds", "keys", "max_groups", "max_rows", "budget", "ledger", "dataset")),
        **dict.fromkeys(("types", "columns", "public", "defaults")),
        "new_ledger": False,
        "analyst": "analyst",
    },
    dp.Result.to_pandas: {},
    dp.Result.to_arrow: {},
    dp.Catalog: {
        **dict.fromkeys(("dataset", "privacy_unit", "tables", "budget"), REQUIRED),
        "analysts": None,
        "defaults": None,
        "neighbours": "add_remove",
    },
}
"""Parameters with their defaults. More may be added with a default; none of these may go."""

POSITIONAL = {
    dp.connect: ["catalog", "sources"],
    dp.protect: ["data"],
    dp.Session.sql: ["query"],
    dp.Session.explain: ["query"],
}

ATTRIBUTES = {
    dp.Session: {"sql", "explain", "remaining", "analyst", "catalog", "close", "__enter__", "__exit__"},
    dp.Result: {
        "source",
        "releases",
        "to_pandas",
        "to_arrow",
        "accuracy",
        "columns",
        "__len__",
        "__str__",
        "_repr_html_",
    },
    dp.Ledger: {
        "create",
        "open",
        "remaining",
        "spent",
        "limit",
        "entries",
        "verify",
        "close",
        "mark",
        "mark_path",
        "data_version",
        "hash_of",
        "place",
        "budgets",
        "budget",
        "declarations",
    },
    dp.Catalog: {"load", "from_yaml", "to_text", "warnings", "table", "find_table", "declarations"},
}

SET_BY_INIT = {
    dp.Result: {"charge", "guarantee", "measurements", "confidence"},
    dp.Plan: {"measurements", "charge", "guarantee", "columns"},
}


def test_these_names_and_no_others_are_exported() -> None:
    assert set(dp.__all__) == NAMES
    assert dp.__all__ == sorted(dp.__all__)
    assert all(hasattr(dp, name) for name in NAMES)
    assert dp._MODULES.keys() == MODULES <= {*dir(dp)}
    assert all(inspect.ismodule(getattr(dp, name)) for name in MODULES)


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__qualname__)
def test_signatures(function: Callable[..., Any]) -> None:
    parameters = {n: p for n, p in inspect.signature(function).parameters.items() if n not in ("self", "cls")}
    expected = SIGNATURES[function]
    assert {name: parameters[name].default for name in expected if name in parameters} == expected
    assert all(p.default is not REQUIRED for name, p in parameters.items() if name not in expected)
    positional = [n for n, p in parameters.items() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if function in POSITIONAL:
        assert positional == POSITIONAL[function], "all else is named, so that no two amounts are swapped"


@pytest.mark.parametrize("owner", ATTRIBUTES, ids=lambda c: c.__name__)
def test_attributes(owner: type) -> None:
    assert ATTRIBUTES[owner] <= set(dir(owner))


@pytest.mark.parametrize("owner", SET_BY_INIT, ids=lambda c: c.__name__)
def test_attributes_that_are_set_when_made(owner: type) -> None:
    assigned = inspect.getsource(owner.__init__)  # type: ignore[misc]
    assert all(f"self.{name}" in assigned for name in SET_BY_INIT[owner])


def test_the_parts_of_losses_and_measurements() -> None:
    assert [f.name for f in dataclasses.fields(dp.PrivacyLoss)] == ["epsilon", "delta", "rho"]
    measured = {f.name for f in dataclasses.fields(dp.Measurement)}
    assert measured >= {"label", "aggregate", "mechanism", "linf", "l1", "l2", "scale", "loss", "tau"}


def test_every_error_has_one_root_and_the_analysts_errors_another() -> None:
    errors = [getattr(dp, name) for name in NAMES if name.endswith("Error")]
    assert all(issubclass(error, dp.DPQueryError) for error in errors)
    outside = {"CatalogError", "LedgerError", "BackendError", "InternalError", "DPQueryError", "QueryCancelledError"}
    outside |= {"DataChangedError"}
    assert {e.__name__ for e in errors if not issubclass(e, dp.QueryError)} == outside


def test_the_package_is_typed() -> None:
    from tests.architecture.package import PACKAGE

    assert (PACKAGE / "py.typed").exists()
