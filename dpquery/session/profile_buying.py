"""A profile bought: the histograms of all tables as one batch, with half of the loss for rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpquery.catalog import Catalog
from dpquery.catalog.names import shown
from dpquery.errors import ParameterError, UnknownNameError, UnsupportedQueryError
from dpquery.kernel.accountant import Budget, BudgetKind
from dpquery.result.batch import Batch
from dpquery.result.table import Result
from dpquery.session.profile import SHARE, Profile, TableProfile
from dpquery.session.profile_ladder import Cell, CellNoise, IntervalEstimate, Ladder
from dpquery.session.profile_questions import OTHERS, OUTSIDE, ROWS, HistogramQuestion, bound_of, questions, why_not
from dpquery.units.declarations import Neighbours

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
        raise UnknownNameError(f"{shown(table)} is not a declared private table")
    names = private if table is None else [table]
    missing = {name: reason for name in names if (reason := why_not(catalog.tables[name], catalog))}
    if table in missing:
        raise UnsupportedQueryError(f"{shown(table or '')} cannot be profiled: {missing[table or '']}")
    asked = [question for name in names for question in questions(catalog.tables[name], catalog)]
    if not asked:
        reason = next(iter(missing.values()), "each unit has one row, and no number has bounds")
        reason = f"there is nothing to profile: {reason}"
        raise ParameterError(reason, advice="Declare bounds, or leave the profile out.")
    answers = ask([question.query for question in asked], _weights(asked))
    found = [(one, _histogram(answer)) for one, answer in zip(asked, answers, strict=True)]
    tables = {name: profile_of(catalog, name, [pair for pair in found if pair[0].table == name]) for name in names}
    kept = {name: one for name, one in tables.items() if one.rows is not None or one.outside}
    return Profile(tables=kept, missing=missing, charge=answers.charge, data_version=data_version)


def loss_of_profile(amount: object, budget: Budget) -> dict[str, Any]:
    """Returns what one amount for a profile means: rho where the budget is in rho, else epsilon."""
    return {"rho" if budget.kind is BudgetKind.ZCDP else "epsilon": amount}


def _weights(asked: Sequence[HistogramQuestion]) -> dict[str, object]:
    """Returns weights with which all histograms of rows together get half of the loss."""
    rows = sum(question.kind == "rows" for question in asked)
    others = len(asked) - rows
    return {ROWS: Fraction(others, rows), OTHERS: 1} if rows and others else {}


def _histogram(answer: Result) -> UnitHistogram:
    """Returns the noisy numbers of units by cell, and their noise."""
    cells, units = (column.to_pylist() for column in answer.to_arrow().columns)
    (measurement,) = answer.measurements
    return UnitHistogram(units=dict(zip(cells, units, strict=True)), noise=CellNoise.of(measurement))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitHistogram:
    """Noisy numbers of units, by the cell as its query names it."""

    units: Mapping[object, int]
    noise: CellNoise


def profile_of(catalog: Catalog, name: str, found: Sequence[tuple[HistogramQuestion, UnitHistogram]]) -> TableProfile:
    """Returns what histograms of a table say, beside what its catalog says."""
    table, defaults, budget = catalog.tables[name], catalog.defaults, catalog.budget
    rows: Ladder | None = None
    months: tuple[tuple[str, IntervalEstimate], ...] = ()
    outside: dict[str, Mapping[str, IntervalEstimate]] = {}
    for question, histogram in found:
        if question.kind == "rows":
            rows = _ladder(question, histogram, catalog.neighbours)
        elif question.kind == "months":
            cells, half = _cells(question, histogram), histogram.noise.half_width(1)
            months = tuple((cell.name, _estimate(cell.units, half)) for cell in cells)
        else:
            outside[question.column] = values_of(histogram)
    is_said = defaults.epsilon is not None or defaults.rho is not None
    usual = (defaults.epsilon, defaults.rho) if is_said else (_part(budget.epsilon), _part(budget.rho))
    return TableProfile(
        name=name,
        max_rows=bound_of(table, catalog),
        rows=rows,
        months=months,
        outside=outside,
        epsilon=usual[0],
        rho=usual[1],
        is_assumed=not is_said,
        per_block="" if table.blocks is None else table.blocks.by.value,
    )


def values_of(histogram: UnitHistogram) -> Mapping[str, IntervalEstimate]:
    """Returns how many units have values within, below, above, on both sides, or unreadable."""
    half = histogram.noise.half_width(1)
    return {kind: _estimate(histogram.units[kind], half) for kind in OUTSIDE if kind in histogram.units}


def _ladder(question: HistogramQuestion, histogram: UnitHistogram, neighbours: Neighbours) -> Ladder:
    replaced = neighbours is Neighbours.REPLACE_ONE
    return Ladder(cells=tuple(_cells(question, histogram)), noise=histogram.noise, replaced=replaced)


def _cells(question: HistogramQuestion, histogram: UnitHistogram) -> list[Cell]:
    return [Cell(low=low, high=high, units=histogram.units[i]) for i, (low, high) in enumerate(question.cells)]


def _estimate(units: int, half: int) -> IntervalEstimate:
    return IntervalEstimate(value=max(0, units), lower=max(0, units - half), upper=max(0, units) + half)


def _part(amount: Fraction) -> Fraction | None:
    return amount * SHARE if amount else None
