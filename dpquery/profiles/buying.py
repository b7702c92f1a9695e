"""A profile bought: the histograms of all tables as one batch, with half of the loss for rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from dpquery.catalog import Catalog
from dpquery.catalog.names import shown
from dpquery.errors import ParameterError, UnknownNameError, UnsupportedQueryError
from dpquery.profiles.ladder import Cell, Estimate, Ladder, Noise
from dpquery.profiles.profile import Profile, TableProfile, profile_of
from dpquery.profiles.questions import OTHERS, OUTSIDE, ROWS, Question, questions, why_not
from dpquery.result.batch import Batch
from dpquery.result.table import Result
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
    found = list(zip(asked, answers, strict=True))
    tables = {name: _of_table(catalog, name, [pair for pair in found if pair[0].table == name]) for name in names}
    kept = {name: one for name, one in tables.items() if one.rows is not None or one.outside}
    return Profile(tables=kept, missing=missing, charge=answers.charge, data_version=data_version)


def _weights(asked: Sequence[Question]) -> dict[str, object]:
    """Returns weights with which all histograms of rows together get half of the loss."""
    rows = sum(question.kind == "rows" for question in asked)
    others = len(asked) - rows
    return {ROWS: Fraction(others, rows), OTHERS: 1} if rows and others else {}


def ladder_of(question: Question, units: Mapping[object, int], noise: Noise, neighbours: Neighbours) -> Ladder:
    """Returns a ladder of noisy numbers, given by the number of the cell."""
    cells = tuple(Cell(low=low, high=high, units=int(units[place])) for place, (low, high) in enumerate(question.cells))
    return Ladder(cells=cells, noise=noise, replaced=neighbours is Neighbours.REPLACE_ONE)


def _of_table(catalog: Catalog, name: str, found: Sequence[tuple[Question, Result]]) -> TableProfile:
    rows: Ladder | None = None
    months: tuple[tuple[str, Estimate], ...] = ()
    outside: dict[str, dict[str, Estimate]] = {}
    for question, answer in found:
        units, noise = _counts(answer)
        if question.kind == "rows":
            rows = ladder_of(question, units, noise, catalog.neighbours)
        elif question.kind == "months":
            half = noise.half_width(1)
            cells = [Cell(low=low, high=high, units=units[i]) for i, (low, high) in enumerate(question.cells)]
            months = tuple((cell.name, _estimate(cell.units, half)) for cell in cells)
        else:
            half = noise.half_width(1)
            outside[question.column] = {kind: _estimate(units[kind], half) for kind in OUTSIDE if kind in units}
    return profile_of(catalog, name, rows=rows, months=months, outside=outside)


def _counts(answer: Result) -> tuple[dict[object, int], Noise]:
    """Returns the noisy numbers of units by cell, and their noise."""
    cells, units = (column.to_pylist() for column in answer.to_arrow().columns)
    (measurement,) = answer.measurements
    return dict(zip(cells, units, strict=True)), Noise.of(measurement)


def _estimate(units: int, half: int) -> Estimate:
    return Estimate(value=max(0, units), lower=max(0, units - half), upper=max(0, units) + half)
