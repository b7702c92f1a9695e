"""Randomised response for data collection: values become reports before anyone sees them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from dpquery.accounting.local_reports import flip, shift
from dpquery.catalog.tables import MOST_CATEGORIES, MOST_EPSILON
from dpquery.errors import InvalidLossError, ParameterError
from dpquery.kernel.loss import parse_amount


def randomize(
    values: Any,
    epsilon: object,
    categories: Sequence[object],
    *,
    weighting: Literal["distance"] | None = None,
) -> Any:
    """Returns a report for each value, in the form of what is given: a Series, an array, an Arrow array, or a list.

    Run it where each value arises, and keep the reports alone: each is epsilon-locally private for every reader.
    Declare the column `randomized: {epsilon: ..., categories: [...]}` in the catalog and queries will be debiased.

    Args:
        values: Each one of the categories. A missing answer is a category too; give it a name.
        epsilon: Of one report, as str, int, Decimal, Fraction or float; at most 64.
        categories: What may be reported, from 2 to 1,000 different values, public.
        weighting: None, where every lie is as likely as any other; or "distance", where the categories are numbers
            and those near to the value are more likely. Such columns are not debiased in queries.
    Raises:
        InvalidLossError: Epsilon is out of its domain.
        ParameterError: The categories are not what they have to be, or a value is none of them.
    """
    amount = parse_amount(epsilon, name="epsilon")
    if amount > MOST_EPSILON:
        raise InvalidLossError(f"an epsilon above {MOST_EPSILON} hides nothing", advice="1 is usual.")
    if weighting not in (None, "distance"):
        raise ParameterError('weighting is None or "distance"')
    known = _categories(categories)
    places = _places(values, known)
    if weighting is None:
        reports = flip(places, len(known), amount)
    else:
        reports = shift(places, [_number(category) for category in known], amount)
    return _like(values, known, reports)


def _categories(given: Sequence[object]) -> list[Any]:
    if isinstance(given, str | bytes):
        raise ParameterError("categories are a list of values, not one text")
    known = [_plain(category) for category in given]
    if not 2 <= len(known) <= MOST_CATEGORIES:
        raise ParameterError(f"there are from 2 to {MOST_CATEGORIES} categories, not {len(known)}")
    if any(_is_missing(category) for category in known):
        raise ParameterError("a missing value is not a category", advice="Name it, for example 'no answer'.")
    if len({type(category) for category in known}) > 1:
        raise ParameterError("all categories are of one type")
    if len(set(known)) < len(known):
        raise ParameterError("a category is listed twice")
    return known


def _places(values: Any, known: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the place of each value among the categories; the error of another value does not quote it."""
    place = {category: number for number, category in enumerate(known)}
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    if isinstance(values, pd.Series | np.ndarray):
        codes, uniques = pd.factorize(values, use_na_sentinel=False)
        different = list(uniques)
    else:
        different = list(values)
        codes = np.arange(len(different))
    try:
        found = np.array([place[_plain(value)] for value in different], np.int64)
    except (KeyError, TypeError):
        raise ParameterError(
            "a value is none of the categories", advice="List all that may occur, also a name for missing answers."
        ) from None
    return found[codes]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _number(category: Any) -> Fraction:
    is_number = isinstance(category, int | float | Decimal | Fraction) and not isinstance(category, bool)
    try:
        return Fraction(category) if is_number else Fraction("")
    except (ValueError, OverflowError):
        raise ParameterError("distances need categories that are finite numbers") from None


def _like(values: Any, known: list[Any], reports: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    """Returns the reports in the form of the values; a type that knows fewer categories is widened."""
    if isinstance(values, pd.Series):
        dtype = pd.CategoricalDtype(known) if isinstance(values.dtype, pd.CategoricalDtype) else values.dtype
        made = pd.Series(known, dtype=dtype, name=values.name).take(reports)
        return made.set_axis(values.index)
    if isinstance(values, np.ndarray):
        return np.array(known, dtype=None if values.dtype.kind == "U" else values.dtype).take(reports)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return pa.array(known, type=values.type).take(pa.array(reports))
    return [known[place] for place in reports.tolist()]
