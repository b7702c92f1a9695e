"""How the noise of each measure reaches a number, before a query: derivatives.

Some are constants, and some numbers are averages: these can have a target. The others are taken at public guesses.
The guesses are a few imagined data sets, functions of the plan alone: a thousand rows, half of them in a filter, and
values whose mean lies anywhere in their range. docs/concepts/accuracy.md says why these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpquery.accuracy.rules import Floats, Follower, Rule
from dpquery.kernel.plan import CHOICES, Count, Measure, PrivateAggregate
from dpquery.plan.cached import cached
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, columns_of
from dpquery.plan.logical import Project
from dpquery.plan.types import Kind

GUESSES = 16
"""Imagined data sets."""
ROWS = 1000.0
"""Rows of a group in each."""

_NUMBERS = np.arange(GUESSES)


def _signs(mask: int) -> Floats:
    """Returns 1 or -1 for each guess: different masks give patterns that are uncorrelated."""
    return np.array([1.0 - 2.0 * (int(n & mask).bit_count() % 2) for n in _NUMBERS])


_SIGNS = {mask: _signs(mask) for mask in range(1, GUESSES)}


@dataclass(frozen=True, slots=True)
class _Moments:
    mean: Floats
    deviation: Floats


@dataclass(slots=True)
class Guesses:
    """Guessed values of the measures of some private aggregates, in the unit of the released numbers."""

    known: dict[str, Floats] = field(default_factory=dict)
    patterns: dict[Expression, int] = field(default_factory=dict)

    @staticmethod
    def of(aggregates: Sequence[PrivateAggregate]) -> Guesses:
        """Returns guesses for all measures that are numbers."""
        made = Guesses()
        for aggregate in aggregates:
            source = aggregate.source
            read = {c.id: c.expression for c in source.columns} if isinstance(source, Project) else {}
            for measure in aggregate.measures:
                if measure.count not in CHOICES:
                    with np.errstate(all="ignore"):
                        second = read.get(measure.second.value) if measure.second is not None else None
                        made.known[measure.id] = made._guess(measure, read.get(measure.value or ""), second)
        return made

    def _guess(self, measure: Measure, value: Expression | None, other: Expression | None) -> Floats:
        rows = np.full(GUESSES, ROWS if measure.filter is None else ROWS / 2)
        lattice = measure.lattice
        if measure.count is not Count.SUM or lattice is None or value is None:
            return rows
        product = self._product(value)
        if product is not None:
            return rows * product
        low, high = (float((end - lattice.offset) * lattice.grid) for end in (lattice.lower, lattice.upper))
        moments = self._moments(value, low, high)
        if lattice.bernstein is not None:
            return rows * float(measure.unit) * self._terms(measure, moments, other)
        if not lattice.squared:
            return rows * moments.mean
        middle = float(lattice.offset_of_square * lattice.unit)
        return rows * (moments.mean**2 + moments.deviation**2 - middle)

    def _moments(self, value: Expression, low: float, high: float) -> _Moments:
        """Returns mean and deviation of values in a range: over the guesses the mean has the variance of a uniform
        one, and the variance is a quarter or three quarters of the largest for that mean."""
        base = _bare(value)
        number = self.patterns.setdefault(base, len(self.patterns))
        reach, place = (high - low) / 2, _SIGNS[1 << number % 3] / math.sqrt(3)
        spread = (1 - place**2) * (0.5 + _SIGNS[(8 + number) % GUESSES or 8] / 4)
        return _Moments((high + low) / 2 + reach * place, reach * np.sqrt(spread))

    def _terms(self, measure: Measure, moments: _Moments, other: Expression | None) -> Floats:
        """Returns the mean of a Bernstein term, in lattice steps: of two values that are each a deviation from their
        mean, up or down, and of a pair alike so often that they correlate by a half or its opposite."""
        found, given = np.zeros(GUESSES), [moments]
        if measure.second is not None and other is not None:
            lattice = measure.second.lattice
            ends = (float(end * lattice.grid) for end in (lattice.lower, lattice.upper))
            given.append(self._moments(other, *ends))
        for signs in itertools.product((-1, 1), repeat=len(given)):
            chance = 0.5 if len(given) == 1 else (1 + math.prod(signs) * _SIGNS[15] / 2) / 4
            value: Floats = np.ones(GUESSES)
            for lattice, known, sign in zip(measure.lattices, given, signs, strict=True):
                above, below = lattice.bernstein or (0, 0)
                place = (known.mean + sign * known.deviation) / float(lattice.grid)
                left, right = place - lattice.lower, lattice.upper - place
                value = value * math.comb(lattice.degree, above) * left**above * right**below
            found = found + chance * value
        return found

    def _product(self, value: Expression) -> Floats | None:
        """Returns the mean product of deviations of two values, which correlate by a half or its opposite."""
        if not (isinstance(value, Call) and value.function == "multiply"):
            return None
        first, second = (self._deviation(part) for part in value.arguments)
        if first is None or second is None:
            return None
        return first.mean * second.mean + _SIGNS[15] / 2 * first.deviation * second.deviation

    def _deviation(self, part: Expression) -> _Moments | None:
        if not (isinstance(part, Call) and part.function == "subtract"):
            return None
        clamp, centre = part.arguments
        if not (isinstance(clamp, Call) and clamp.function == "clamp" and isinstance(centre, Literal)):
            return None
        ends = [float(end.value) for end in clamp.arguments[1:] if isinstance(end, Literal)]  # type: ignore[arg-type]
        if len(ends) != 2:
            return None
        known, less = self._moments(clamp.arguments[0], *ends), float(centre.value)  # type: ignore[arg-type]
        return _Moments(known.mean - less, known.deviation)

    def influence(self, expression: Expression) -> dict[str, float] | None:
        """Returns for each measure read the root mean square of the derivative; None where some rule is missing."""
        if isinstance(expression, Column):
            return {expression.id: 1.0}
        ids = sorted({column.id for column in columns_of(expression)})
        if not ids or not all(id in self.known for id in ids):
            return None
        known = {id: _Number(self.known[id], np.eye(len(ids))[:, [place]]) for place, id in enumerate(ids)}
        with np.errstate(all="ignore"):  # what is beyond all floats has no finite influence, and none is returned
            found = _Slopes(known).follow(expression)
            if found is None or found.slopes is None:
                return None
            sizes = np.sqrt(np.broadcast_to(found.slopes**2, (len(ids), GUESSES)).mean(axis=1)).tolist()
        return dict(zip(ids, sizes, strict=True)) if all(map(math.isfinite, sizes)) and any(sizes) else None


@cached
def _guesses(aggregates: tuple[PrivateAggregate, ...]) -> Guesses:
    return Guesses.of(aggregates)


@cached
def influence_of(expression: Expression, aggregates: tuple[PrivateAggregate, ...]) -> Mapping[str, float] | None:
    """Returns what `Guesses.influence` does of these very aggregates, worked out once."""
    return {expression.id: 1.0} if isinstance(expression, Column) else _guesses(aggregates).influence(expression)


def _bare(value: Expression) -> Expression:
    while isinstance(value, Cast):
        value = value.argument
    return value


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in each guess, shape (guesses,), and its derivatives, shape (measures, guesses); None for a constant."""

    value: Floats | float
    slopes: Floats | None


class _Slopes(Follower[_Number]):
    """Derivatives at guesses of what the measures are."""

    def __init__(self, known: Mapping[str, _Number]) -> None:
        self._known = known

    def is_exact(self, expression: Expression) -> bool:
        return isinstance(expression, Literal)

    def exact(self, expression: Expression) -> _Number | None:
        number = constant_of(expression)
        return None if number is None else _Number(np.float64(number), None)  # which divides by 0 without raising

    def column(self, column: Column) -> _Number | None:
        return self._known.get(column.id)

    def apply(self, rule: Rule, parts: list[_Number], call: Call) -> _Number | None:
        guess = rule.guess or rule.value
        if guess is None or not rule.slopes:
            return None
        values, found = [part.value for part in parts], None
        for part, slope in zip(parts, rule.slopes, strict=False):
            if part.slopes is not None:
                own: Floats = part.slopes * slope(*values)
                found = own if found is None else found + own
        return _Number(guess(*values), found)

    def case(self, expression: Case) -> _Number | None:
        """The one value that is not a constant."""
        found = None if isinstance(expression.otherwise, Literal) else expression.otherwise
        for _, arm in expression.branches:
            if not isinstance(arm, Literal):
                if found is not None:
                    return None
                found = arm
        return None if found is None else self.follow(found)


Factors = dict[str, Fraction]
"""A number as a sum of measures, each times a constant, up to what carries no noise."""


def factors_of(expression: Expression, is_measure: Callable[[str], bool]) -> Factors | None:
    """Returns a number as a sum of measures with constant factors; None if it is none."""
    return _Factors(is_measure).follow(expression)


class _Factors(Follower[Factors]):
    """Derivatives that are constants, exact."""

    def __init__(self, is_measure: Callable[[str], bool]) -> None:
        self._is_measure = is_measure

    def is_exact(self, expression: Expression) -> bool:
        return not any(self._is_measure(column.id) for column in columns_of(expression))

    def exact(self, expression: Expression) -> Factors:
        return {}

    def column(self, column: Column) -> Factors:
        return {column.id: Fraction(1)}

    def keeps(self, cast: Cast) -> bool:
        return keeps_numbers(cast)

    def apply(self, rule: Rule, parts: list[Factors], call: Call) -> Factors | None:
        if not rule.is_linear:
            return None
        constants = [constant_of(part) or math.nan for part in call.arguments]  # 0 is none to multiply with
        total: Factors = {}
        for part, slope in zip(parts, rule.slopes, strict=True):
            by = slope(*constants) if part else 0
            if part and not isinstance(by, int | Fraction):
                return None
            total |= {id: total.get(id, Fraction(0)) + factor * by for id, factor in part.items()}
        return total if all(total.values()) else None


def keeps_numbers(cast: Cast) -> bool:
    """Whether a cast between numbers changes none that fits."""
    source, target = cast.argument.type, cast.type
    if target.kind is Kind.FLOAT64:
        return source.is_numeric
    return source.kind in (Kind.INT64, Kind.DECIMAL) and target.is_numeric and target.scale >= source.scale


def constant_of(expression: Expression) -> Fraction | None:
    """Returns a finite constant, behind casts between numbers."""
    while isinstance(expression, Cast) and expression.type.is_numeric:
        expression = expression.argument
    value = expression.value if isinstance(expression, Literal) and expression.type.is_numeric else None
    return Fraction(value) if isinstance(value, int | float | Decimal) and math.isfinite(value) else None


ROUNDING = "rounding"
"""Before the number of a rounding among the factors of a sum, with what half a unit of its last digit is."""


def rounded_factors_of(expression: Expression, is_measure: Callable[[str], bool]) -> tuple[Factors, Factors] | None:
    """Returns a number as a sum of measures and roundings with constant factors, and how far each rounding may move
    it; None if it is no such sum."""
    rounding = _Rounded(is_measure)
    found = rounding.follow(expression)
    return None if found is None else (found, rounding.widths)


class _Rounded(_Factors):
    """Factors where a number that is rounded has one more part: what the rounding adds."""

    def __init__(self, is_measure: Callable[[str], bool]) -> None:
        super().__init__(is_measure)
        self.widths: Factors = {}

    def follow(self, expression: Expression) -> Factors | None:
        if self.is_exact(expression) or not isinstance(expression, Cast) or not is_rounding(expression):
            return super().follow(expression)
        found = self.follow(expression.argument)
        if not found:
            return found
        id = f"{ROUNDING} {expression!r}"  # equal expressions are rounded alike
        self.widths[id] = Fraction(1, 2 * 10**expression.type.scale)
        return found | {id: Fraction(1)}


def is_rounding(expression: Expression) -> bool:
    """Whether an expression is a number rounded to the nearest of some digits."""
    if not isinstance(expression, Cast) or expression.type.kind not in (Kind.INT64, Kind.DECIMAL):
        return False
    return expression.argument.type.kind is Kind.FLOAT64
