"""How far an answer would be off, and what other losses and errors would cost: planned again for each, without data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.accuracy.conditions import inside
from dpquery.errors import QueryError
from dpquery.kernel.accountant import Budget, BudgetKind, charge_at_least, charge_of
from dpquery.kernel.loss import show_amount
from dpquery.kernel.mechanisms import NoiseLaw, calibrated
from dpquery.kernel.plan import Count
from dpquery.kernel.quantiles import rank_errors
from dpquery.ledger.ledger import Ledger
from dpquery.planner.budget.aims import Aim, aims_of
from dpquery.planner.budget.allocate import QueryBudget
from dpquery.planner.budget.least_noise import Pair
from dpquery.planner.budget.targets import AccuracyTarget, choice_of, half_width_of, noisy_numbers
from dpquery.reuse.implied import without
from dpquery.session.options import Request
from dpquery.session.planning import PreparedQuery

if TYPE_CHECKING:
    import pandas as pd

LOSSES = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
ERRORS = (Fraction(10), Fraction(100), Fraction(1000))
ASSUMED = Fraction(1000)
"""Of so many rows the error of an average is told, where none is assumed."""


def prices(
    request: Request,
    prepare: Callable[[Request], PreparedQuery],
    ledger: Ledger,
    *,
    analyst: str,
    least: Fraction,
) -> pd.DataFrame:
    """Returns the table of `Plan.prices`: a few usual losses, and a few errors of all columns that can have one."""
    import pandas as pd

    kind, limit = ledger.budget.kind, ledger.budgets.get(analyst, ledger.budget)
    currency = "rho" if kind is BudgetKind.ZCDP else "epsilon"
    rows: dict[str, dict[str, float]] = {}
    fixed: dict[str, None] = {}
    assumed = {} if request.accuracy is None else request.accuracy.rows
    for amount in LOSSES:
        offer = QueryBudget(delta=request.offer.delta, **{currency: amount})
        row = _row(replace(request, offer=offer, accuracy=None), prepare, ledger, limit, least, assumed)
        if row is not None:
            rows[f"{currency}={show_amount(amount)}"] = row
            fixed |= {name: None for name, error in row.items() if name != "charge" and not math.isnan(error)}
    for error in ERRORS if fixed else ():
        accuracy = AccuracyTarget(
            errors=dict.fromkeys(fixed, error),
            failure=1 - request.confidence,
            rows=assumed,
            simultaneous=request.simultaneous,
        )
        row = _row(replace(request, accuracy=accuracy, weights={}), prepare, ledger, limit, least, assumed)
        if row is not None:
            rows[f"error={show_amount(error)}"] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def expected(request: Request, prepared: PreparedQuery, ledger: Ledger) -> tuple[str, ...]:
    """Returns the phrases of `Plan.expected`."""
    noises, pairs = _noises(prepared, ledger), _pairs(prepared)
    numbers = noisy_numbers(prepared.private.aggregates) if request.simultaneous else None
    assumed = {} if request.accuracy is None else request.accuracy.rows
    said: dict[str, str] = {}
    for aim in (replace(one, expression=inside(one.expression)) for one in aims_of(prepared.private, {})):
        if not aim.name or aim.name in said:
            continue
        rows = assumed.get(aim.name, ASSUMED)
        fixed, at_rows = (
            _half_width(aim, prepared, noises, 1 - request.confidence, given, numbers) for given in (None, rows)
        )
        choice = choice_of(aim, pairs)
        unit = "" if choice is None else " values" if pairs[choice][1].count is Count.MODE else " ranks"
        if not aim.is_itself or prepared.private.added or (math.isnan(fixed) and math.isnan(at_rows)):
            said[aim.name] = f"{aim.name}: depends on the data"
        elif math.isnan(fixed):
            said[aim.name] = f"{aim.name} ± {_short(at_rows)} over {float(rows):,.15g} rows, less over more"
        else:
            said[aim.name] = f"{aim.name} ± {_short(fixed)}{unit}"
    return tuple(said.values())


def _short(width: float) -> str:
    return f"{width:,.0f}" if width >= 100 else f"{width:.3g}"


def _row(
    request: Request,
    prepare: Callable[[Request], PreparedQuery],
    ledger: Ledger,
    limit: Budget,
    least: Fraction,
    rows: Mapping[str, Fraction],
) -> dict[str, float] | None:
    """Returns charge and half-widths; None where it cannot be asked so."""
    try:
        prepared = prepare(request)
        noises = _noises(prepared, ledger)
        measured = without(prepared.budgeted, prepared.follows)
        charge = charge_of(measured, ledger.budget.kind, ledger.declarations.neighbours)
        numbers = noisy_numbers(prepared.private.aggregates) if request.simultaneous else None
    except QueryError:
        return None
    charge = charge_at_least(charge, limit, least)
    row = {"charge": float(charge.epsilon or charge.rho)}
    for aim in aims_of(prepared.private, {}):
        width = _half_width(aim, prepared, noises, 1 - request.confidence, rows.get(aim.name), numbers)
        row[aim.name] = max(width, row.get(aim.name, 0.0))  # NaN stays, as the first
    added = {column for one in prepared.private.added for column in (m.id for m in one.aggregate.measures)}
    return {name: math.nan if added and name != "charge" else value for name, value in row.items()}


def _half_width(
    aim: Aim,
    prepared: PreparedQuery,
    noises: Mapping[str, NoiseLaw],
    failure: Fraction,
    rows: Fraction | None,
    numbers: int | None,
) -> float:
    """Returns the half-width of a column, of a choice in ranks; NaN where it depends on the data.

    Args:
        numbers: How many noisy numbers share the failure; None where those of each cell do.
    """
    pairs = _pairs(prepared)
    choice = choice_of(aim, pairs)
    if choice is not None:
        aggregate, measure = pairs[choice]
        scales = [noises[m.id].choosing for m in aggregate.measures]
        return rank_errors(aggregate, scales, failure / (numbers or 1))[aggregate.measures.index(measure)]

    each = failure / (numbers or 1)
    found = half_width_of(aim, noises, each, rows, pairs, at_once=numbers is not None)
    return math.nan if found is None else found


def _pairs(prepared: PreparedQuery) -> dict[str, Pair]:
    return {m.id: (one.aggregate, m) for one in prepared.budgeted.aggregates for m in one.aggregate.measures}


def _noises(prepared: PreparedQuery, ledger: Ledger) -> dict[str, NoiseLaw]:
    neighbours = ledger.declarations.neighbours
    pairs = (
        zip(one.aggregate.measures, calibrated(one, neighbours), strict=True) for one in prepared.budgeted.aggregates
    )
    return {measure.id: noise for own in pairs for measure, noise in own}
