"""Measures as sums of a few of them: counts and sums first, the terms of vectors as what is left.

`COUNT` is the sum of the terms of a vector, a sum of values follows from them, sums of deviations from sums and counts.
Of measures that are bound by such equations some are free, and each other one is a sum of these.
A filter, and the signs of a sum of 1 and -1, are no measures of their own: they tell which rows are counted, and how.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpquery.kernel.plan import Count, Lattice
from dpquery.plan.expr import conjuncts
from dpquery.result.added_tables import LINEAR
from dpquery.reuse.frames import Equation, MeasurementFrame
from dpquery.reuse.lines import before_next
from dpquery.reuse.text import expression_of, measure_of, text_of

Factors = dict[str, Fraction]
Row = tuple[str, ...]
SIGNS = Lattice(grid=Fraction(1), lower=-1, upper=1)
"""Of sums of 1 and -1."""
_SIGNS = json.loads(text_of(SIGNS))


def is_of_vector(frame: MeasurementFrame, measure: str) -> bool:
    """Whether numbers of a measure are measurements of a vector: sums over rows, in public groups."""
    return not frame.is_selected and 0 not in frame.shape and is_linear(measure)


@lru_cache(maxsize=4096)
def is_linear(measure: str) -> bool:
    """Whether the measure of a text is a sum over rows."""
    return Count[_fields(measure)["count"][2]] in LINEAR


@lru_cache(maxsize=4096)
def _rank(measure: str) -> tuple[int, str]:
    """Returns which measures are free first: counts, sums, sums of deviations, then terms by their degree."""
    lattice = _fields(measure)["lattice"]
    if lattice is None:
        return 0, measure
    fields: dict[str, Any] = dict(lattice[1:])
    if fields["bernstein"] is None:
        return 1 if fields["offset"] == ["int", "0"] else 2, measure
    second = _fields(measure)["second"]
    return 3 + sum(int(power[1]) for power in fields["bernstein"][1:]) + (second is not None) * 2, measure


@lru_cache(maxsize=4096)
def _fields(measure: str) -> dict[str, Any]:
    _, bare, *_ = json.loads(measure)
    return dict(bare[1:])


def solved(measures: Iterable[str], equations: Iterable[Equation]) -> dict[str, Factors]:
    """Returns each measure, and each that a equation names, as a sum of the free ones; exact.

    A measure that a equation gives by the others is taken where that makes whole factors, as far as can be.
    """
    found: dict[str, Factors] = {}
    for equation in sorted({*equations}):
        left: Factors = {}
        for name, factor in equation:
            for free, by in found.get(name, {name: Fraction(1)}).items():
                left[free] = left.get(free, Fraction(0)) + factor * by
        left = {name: factor for name, factor in left.items() if factor}
        if not left:
            continue
        last = max(_rank(name)[0] for name in left)
        pivot = min((n for n in left if _rank(n)[0] == last), key=lambda n: (abs(left[n]), n))
        by = -left.pop(pivot)
        given = {name: factor / by for name, factor in left.items()}
        for name, factors in found.items():
            if pivot in factors:
                found[name] = _added(factors, factors[pivot], given, pivot)
        found[pivot] = given
    names = {*measures, *(name for equation in equations for name, _ in equation)}
    return {name: found.get(name, {name: Fraction(1)}) for name in sorted(names)}


def _added(factors: Factors, by: Fraction, given: Factors, pivot: str) -> Factors:
    made = {name: factor for name, factor in factors.items() if name != pivot}
    for name, factor in given.items():
        made[name] = made.get(name, Fraction(0)) + by * factor
    return {name: factor for name, factor in made.items() if factor}


@lru_cache(maxsize=4096)
def without_filter(measure: str) -> tuple[str, Row]:
    """Returns the text of a measure without its filter, and the conditions that the filter is made of."""
    parts = json.loads(measure)
    kept, parts[3] = parts[3], None
    if kept is None:
        return measure, ()
    condition = expression_of(_encoded(kept))
    return _encoded(parts), tuple(text_of(before_next(part)) for part in conjuncts(condition))


def _encoded(written: object) -> str:
    return json.dumps(written, separators=(",", ":"), ensure_ascii=True)


@lru_cache(maxsize=4096)
def signed_rows(measure: str) -> tuple[str, str] | None:
    """Returns, of a sum of an expression from -1 to 1, the text of the count of the same rows, and of the expression:
    where it is 1 or -1, the sum counts rows with signs. None of other measures."""
    if _fields(measure)["lattice"] != _SIGNS:
        return None
    _, _, value, kept, total, *others = json.loads(measure)
    given = measure_of(measure)
    if given.count is not Count.SUM or kept or total or others:
        return None
    rows = replace(given, id="", label="", count=Count.ROWS, value=None, lattice=None)
    return text_of((rows, None, None, None)), _encoded(value)
