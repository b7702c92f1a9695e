"""A profile bought: the histograms of all tables as one batch, with half of the loss for rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpquery.catalog import Catalog
from dpquery.catalog.names import shown
from dpquery.errors import ParameterError, UnknownNameError, UnsupportedQueryError
from dpquery.kernel.accountant import Budget, BudgetKind
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.result.batch import Batch
from dpquery.result.table import Result
from dpquery.session.profile import Profile
from dpquery.session.profile_ladder import Noise
from dpquery.session.profile_made import Histogram, profile_of
from dpquery.session.profile_questions import OTHERS, ROWS, Question, questions, why_not

Ask = Callable[[Sequence[str], Mapping[str, object]], Batch]
"""Answers queries at once, with weights of columns: shares of the loss are in proportion to them."""


def buy(catalog: Catalog, ask: Ask, table: str | None, data_version: str) -> Profile:
    """Returns the profile of all private tables, or of one.

    Privacy:
        Ordinary queries, charged and released by the gate as one batch. What is made of them is post-processing.
    Raises:
        UnknownNameError: There is no such private table.
        ParameterError: There is nothing to measure.
        UnsupportedQueryError: Whose the rows of the table are cannot be told in SQL.
    """
    private = [name for name, one in catalog.tables.items() if not one.public]
    if table is not None and table not in private:
        raise UnknownNameError(f"{shown(table)} is no declared private table")
    names = private if table is None else [table]
    missing = {name: reason for name in names if (reason := why_not(catalog.tables[name], catalog))}
    if table in missing:
        raise UnsupportedQueryError(f"{shown(table or '')} cannot be profiled: {missing[table or '']}")
    asked = [question for name in names for question in questions(catalog.tables[name], catalog)]
    if not asked:
        reason = "there is nothing to profile: each unit has one row, and no number has bounds"
        raise ParameterError(reason, advice="Declare bounds, or leave the profile out.")
    answers = ask([question.query for question in asked], _weights(asked))
    found = [(one, _histogram(answer)) for one, answer in zip(asked, answers, strict=True)]
    tables = {name: profile_of(catalog, name, [pair for pair in found if pair[0].table == name]) for name in names}
    kept = {name: one for name, one in tables.items() if one.rows is not None or one.outside}
    return Profile(tables=kept, missing=missing, charge=answers.charge, data_version=data_version)


def loss_of_profile(amount: object, budget: Budget) -> dict[str, Any]:
    """Returns what one amount for a profile means: rho where the budget is in rho, else epsilon."""
    return {"rho" if budget.kind is BudgetKind.ZCDP else "epsilon": amount}


def offer_of(catalog: Catalog, epsilon: object, delta: object, rho: object) -> QueryBudget:
    """Returns what a profile may lose: as is said, else by the catalog's `profile`."""
    if epsilon is None and rho is None and catalog.profile is not None:
        return QueryBudget.of(delta=delta, **loss_of_profile(catalog.profile, catalog.budget))
    return QueryBudget.of(epsilon, delta, rho)


def _weights(asked: Sequence[Question]) -> dict[str, object]:
    """Returns weights with which all histograms of rows together get half of the loss."""
    rows = sum(question.kind == "rows" for question in asked)
    others = len(asked) - rows
    return {ROWS: Fraction(others, rows), OTHERS: 1} if rows and others else {}


def _histogram(answer: Result) -> Histogram:
    """Returns the noisy numbers of units by cell, and their noise."""
    cells, units = (column.to_pylist() for column in answer.to_arrow().columns)
    (measurement,) = answer.measurements
    return Histogram(units=dict(zip(cells, units, strict=True)), noise=Noise.of(measurement))
