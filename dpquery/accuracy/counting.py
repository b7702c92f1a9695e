"""Numbers of rows among linear combinations of measures: a count, a sum of counts, or of all terms of a vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.kernel.plan import CHOICES, Count, Measure

CLOSE = 1e-9
"""Factors are floats in a plan: two that are as close as this are equal."""
COUNTS = (Count.ROWS, Count.VALUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Halved:
    """A total that is measured in parts, so that each of its rows counts in one of them.

    Attributes:
        total: What it would be as one measure.
        parts: The ids of the measures.
    """

    total: Measure
    parts: tuple[str, ...]


def families(measures: Sequence[Measure]) -> list[tuple[Measure, ...]]:
    """Returns the vectors of Bernstein terms that are measured whole."""
    found: dict[tuple[object, ...], list[Measure]] = {}
    for measure in measures:
        if measure.family is not None:
            found.setdefault(measure.family, []).append(measure)
    return [tuple(terms) for terms in found.values() if len(terms) == terms[0].terms]


def share(term: Measure) -> Fraction:
    """Returns the factor with which all terms of a vector add up to the number of its rows."""
    ranges = ((one.upper - one.lower) * one.grid for one in term.lattices)
    degrees = (one.degree for one in term.lattices)
    size = math.prod((width**degree for width, degree in zip(ranges, degrees, strict=True)), start=Fraction(1))
    return 1 / size if size else Fraction(0)


def is_count(factors: Mapping[str, Fraction], measures: Mapping[str, Measure]) -> bool:
    """Whether a sum of measures with these factors counts rows, each as often as it has one of some properties."""
    if not factors or not all(id in measures for id in factors):
        return False
    terms = [measures[id] for id in factors if measures[id].family is not None]
    if sum(map(len, families(terms))) < len(terms):
        return False
    return all(
        math.isclose(factor, share(measures[id]) if measures[id].family is not None else 1, rel_tol=CLOSE)
        and (measures[id].family is not None or measures[id].count in COUNTS)
        for id, factor in factors.items()
    )


def is_never_negative(measure: Measure) -> bool:
    """Whether what is measured is at least 0 without noise, for any data."""
    if measure.count is not Count.SUM:
        return measure.count not in CHOICES
    return all(lattice.values[0] >= 0 for lattice in measure.lattices)
