"""Randomised response with any distances between categories, and estimates from the reports.

Reports of categories that are alike, and whole columns of them, are also made by `dpquery.local.randomize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accounting.amounts import Amount, read
from dpquery.accounting.local_reports import by_value
from dpquery.catalog.tables import MOST_CATEGORIES, MOST_EPSILON
from dpquery.errors import InvalidLossError, ParameterError
from dpquery.kernel import samplers
from dpquery.ledger.ledger import Ledger
from dpquery.mechanisms.accountant import Accountant, Cost, pay

Matrix = Sequence[Sequence[int | float | Fraction]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many values of each category there were, as reports tell: unbiased `counts` and their standard errors."""

    counts: Floats
    standard_errors: Floats


def randomised_response(
    values: Sequence[int],
    *,
    epsilon: Amount,
    categories: int | None = None,
    distances: Matrix | None = None,
    to: Accountant | Ledger | None = None,
) -> list[int]:
    """Returns a report for each value; each value and each report is the place of a category.

    Args:
        values: From 0 to k - 1, each of another person.
        epsilon: Of one report, at most 64.
        categories: k, from 2 to 1,000, where every lie is as likely as any other; or
        distances: The k by k matrix of distances between categories, 0 on the diagonal: near ones are told more often.
        to: Who pays, before anything is drawn: epsilon once, as each person has one report.
    Raises:
        InsufficientBudgetError: It cannot be paid.
        ParameterError: A value is none of the categories, or distances are none.
    Privacy:
        Each report alone is epsilon-locally private, up to a total variation of 2^-256.
    Source:
        Warner 1965; Kairouz, Bonawitz, Ramage 2016; McSherry, Talwar 2007; docs/proofs/values.md.
    Example:
        >>> len(randomised_response([0, 1, 1], epsilon="1", categories=2))  # each the truth with odds of e to 1
        3
    """
    pure, matrix = _epsilon(epsilon), _matrix(categories, distances)
    places = np.asarray(values, np.int64) if len(values) else np.zeros(0, np.int64)
    if len(places) and not 0 <= places.min() <= places.max() < len(matrix):
        raise ParameterError("a value is none of the categories")
    masses = _masses(matrix, pure)
    pay(to, Cost.pure(pure), f"randomised response of {len(places)} people over {len(matrix)} categories")
    return [int(report) for report in by_value(places, lambda true: masses[true])]


def debias(
    reports: Sequence[int], *, epsilon: Amount, categories: int | None = None, distances: Matrix | None = None
) -> Estimate:
    """Returns how many values of each category there were, estimated from reports that were made with these arguments.

    Returns:
        Counts, shape (k,), unbiased and so perhaps negative, and their standard errors, with the estimate for the
        true counts.
    Raises:
        ParameterError: The chances of two categories are too alike for an estimate.
    Source: docs/proofs/values.md, "Debiasing".
    """
    pure, matrix = _epsilon(epsilon), _matrix(categories, distances)
    k = len(matrix)
    law = np.array([[mass / sum(row) for mass in row] for row in _masses(matrix, pure)])  # (k, k), row: true value
    given = np.asarray(reports, np.int64) if len(reports) else np.zeros(0, np.int64)
    if len(given) and not 0 <= given.min() <= given.max() < k:
        raise ParameterError("a report is none of the categories")
    if np.linalg.cond(law) > 1e12:
        raise ParameterError("the chances of two categories are too alike", advice="Raise epsilon, or join categories.")
    back = np.linalg.inv(law.T)
    counts = back @ np.bincount(given, minlength=k).astype(np.float64)
    shares = np.maximum(counts, 0)
    spread = np.diag(law.T @ shares) - (law.T * shares) @ law
    variances = np.einsum("ij,jk,ik->i", back, spread, back)
    return Estimate(counts, np.sqrt(np.maximum(variances, 0)))


def _epsilon(epsilon: Amount) -> Fraction:
    amount = read(epsilon, "epsilon")
    if amount > MOST_EPSILON:
        raise InvalidLossError(f"an epsilon above {MOST_EPSILON} hides nothing", advice="1 is usual.")
    return amount


def _matrix(categories: int | None, distances: Any) -> list[list[Fraction]]:
    """Returns the distances as rationals; where categories are alike, those that give k-ary response: 1 apart."""
    if (categories is None) is (distances is None):
        raise ParameterError("say either how many categories there are, or their distances")
    size = categories if distances is None else len(distances)
    if type(size) is not int or not 2 <= size <= MOST_CATEGORIES:
        raise ParameterError(f"there are from 2 to {MOST_CATEGORIES} categories")
    if distances is None:
        return [[Fraction(int(i != j)) for j in range(size)] for i in range(size)]
    try:
        found = [[Fraction(cell) for cell in (row.tolist() if hasattr(row, "tolist") else row)] for row in distances]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("distances are finite numbers") from None
    is_square = all(len(row) == size for row in found)
    if not is_square or any(cell < 0 for row in found for cell in row) or any(found[i][i] for i in range(size)):
        raise ParameterError("distances are a square of numbers of at least 0, with 0 on the diagonal")
    if not any(cell for row in found for cell in row):
        raise ParameterError("all distances are 0")
    return found


def _masses(matrix: list[list[Fraction]], epsilon: Fraction) -> list[list[int]]:
    """Returns the chances of all reports of each value, in units of 2^-PRECISION, not scaled to a sum of 1.

    Of categories that are alike the weights are 1 and e^-epsilon: with them the sums are equal for all values, and
    the whole loss is in the weights.
    """
    is_alike = all(cell == (i != j) for i, row in enumerate(matrix) for j, cell in enumerate(row))
    most = max(max(column) - min(column) for column in zip(*matrix, strict=True))
    coefficient = epsilon / (1 if is_alike else 2) / most
    mass = {cell: samplers.exponential(coefficient * cell) for row in matrix for cell in row}
    return [[mass[cell] for cell in row] for row in matrix]
