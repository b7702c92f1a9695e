"""Intervals around computed values: what the noise of the measures does to the columns of an answer.

Interval arithmetic, on whole columns at once. Each measure lies within its half-width of the released number with a
known probability; a column that reads k measures uses half-widths that fail with probability (1 - confidence) / k
each, so the interval of a cell holds with at least the confidence (union bound), whatever the dependence.
Where the noise can be followed through the expression (accuracy/simulated.py) and that gives a narrower interval, it is
taken instead; it holds with about the confidence.
An interval speaks of noise alone: not of clamping and not of the weights of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.simulated import MOST_CELLS, MOST_MEASURES, Law, simulate
from dpquery.accuracy.unions import on_side, side_of
from dpquery.kernel.plan import Mechanism
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, columns_of

Floats = NDArray[np.float64]

MOST_DIGITS = 12
"""After the point, that a number is written with."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper bounds, shape (rows,); NaN where nothing is known."""

    lower: Floats
    upper: Floats


def digits_of(width: float) -> int:
    """Returns how many digits after the point a number of this uncertainty deserves."""
    return 0 if width <= 0 or width >= 10 else min(MOST_DIGITS, 1 - math.floor(math.log10(width)))


Values = Mapping[str, list[Any]]
"""For each column of released and public tables its values, by id; all of one length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalInputs:
    """What intervals are computed from.

    Attributes:
        rows: The number of rows of the answer.
        columns: The values that the answer's columns were computed from.
        measures: The ids of the noisy ones among them.
        half_width: (measure, number of measures that share the failure probability) to the half-width of its interval.
        law: A measure to its noise, or None where it is not known.
        confidence: Of the intervals.
        variances: For columns that stand for the randomness of reports, its variance.
    """

    rows: int
    columns: Values
    measures: frozenset[str]
    half_width: Callable[[str, int], float]
    law: Callable[[str], Law | None] = lambda _: None
    confidence: float = 0.95
    variances: Mapping[str, Expression] = field(default_factory=dict)

    def interval(self, expression: Expression) -> Interval:
        """Returns the interval of an expression over measures and exact columns; unknown where no rule covers it."""
        side = side_of(expression)
        if side is not None:
            return self._by_side(expression, side)
        read = {column.id for column in columns_of(expression)} & self.measures
        with np.errstate(all="ignore"):
            spread = self._spread(read)
            widths: dict[str, float | Floats] = {id: self.half_width(id, len(read)) for id in read - spread.keys()}
            quantile = NormalDist().inv_cdf(1 - (1 - self.confidence) / (2 * max(1, len(read))))
            widths |= {id: quantile * deviation for id, deviation in spread.items()}
            found = self._interval(expression, widths)
            return self._narrower(self._unknown() if found is None else found, expression, read, spread)

    def _spread(self, read: set[str]) -> dict[str, Floats]:
        """Returns the standard deviations of reports' randomness, at most; it is taken for normal.

        A variance reads measures that the expression reads too, so their intervals hold or fail together.
        """
        found = {}
        for id in read & self.variances.keys():
            parts = {column.id for column in columns_of(self.variances[id])} & self.measures
            reach = self._interval(self.variances[id], {part: self.half_width(part, len(read)) for part in parts})
            found[id] = np.sqrt(np.maximum((self._unknown() if reach is None else reach).upper, 0.0))
        return found

    def _narrower(
        self, known: Interval, expression: Expression, read: set[str], spread: Mapping[str, Floats]
    ) -> Interval:
        """Returns for each cell the narrower of the known interval and a simulated one."""
        if not 2 <= len(read) <= MOST_MEASURES or self.rows > MOST_CELLS or len(spread) > 1:
            return known
        laws = {id: _law_of(spread[id]) if id in spread else self.law(id) for id in read}
        if None in laws.values():
            return known
        values = {id: _floats(self.columns[id]) for id in read}
        found = simulate(expression, values, self._exact, laws, self.confidence, self.rows)
        if found is None:
            return known
        better = (found[1] - found[0] < known.upper - known.lower) | (np.isnan(known.lower) & ~np.isnan(found[0]))
        return Interval(np.where(better, found[0], known.lower), np.where(better, found[1], known.upper))

    def _by_side(self, expression: Expression, side: str) -> Interval:
        """A row's interval is that of the side of the union that it came from."""
        places, found = _floats(self.columns[side]), self._unknown()
        for number in (0, 1):
            taken, here = self.interval(on_side(expression, side, number)), places == number
            found = Interval(np.where(here, taken.lower, found.lower), np.where(here, taken.upper, found.upper))
        return found

    def _unknown(self) -> Interval:
        nothing = np.full(self.rows, np.nan)
        return Interval(nothing, nothing)

    def _interval(self, expression: Expression, widths: Mapping[str, float | Floats]) -> Interval | None:
        if not any(column.id in widths for column in columns_of(expression)):
            exact = self._exact(expression)
            return None if exact is None else Interval(exact, exact)
        match expression:
            case Column() if not expression.type.is_numeric:
                return None
            case Column():
                value = _floats(self.columns[expression.id])
                return Interval(value - widths[expression.id], value + widths[expression.id])
            case Cast() if expression.type.is_numeric and expression.argument.type.is_numeric:
                return self._interval(expression.argument, widths)
            case Call():
                parts = [self._interval(argument, widths) for argument in expression.arguments]
                rule = _RULES.get((expression.function, len(parts)))
                known = [part for part in parts if part is not None]
                return rule(*known) if rule is not None and len(known) == len(parts) else None
            case Case():
                return self._case(expression, widths)
            case _:
                return None

    def _exact(self, expression: Expression) -> Floats | None:
        if not expression.type.is_numeric:
            return None
        if isinstance(expression, Literal):
            return np.full(self.rows, np.nan if expression.value is None else float(expression.value))  # type: ignore[arg-type]
        ids = sorted({column.id for column in columns_of(expression)})
        rows = zip(*(self.columns[id] for id in ids), strict=True) if ids else [()] * self.rows
        return _floats([evaluate(expression, dict(zip(ids, row, strict=True))) for row in rows])

    def _case(self, expression: Case, widths: Mapping[str, float | Floats]) -> Interval | None:
        """A value that is there or NULL has its own interval; other branches are followed on exact conditions."""
        last = expression.otherwise
        missing = isinstance(last, Literal) and last.value is None
        if len(expression.branches) == 1 and missing:
            return self._interval(expression.branches[0][1], widths)
        conditions = [condition for condition, _ in expression.branches]
        if any(column.id in widths for condition in conditions for column in columns_of(condition)):
            return None
        chosen = self._unknown() if missing else self._interval(last, widths)
        for condition, arm in reversed(expression.branches):
            taken = self._interval(arm, widths)
            if taken is None or chosen is None:
                return None
            holds = self._holds(condition)
            chosen = Interval(np.where(holds, taken.lower, chosen.lower), np.where(holds, taken.upper, chosen.upper))
        return chosen

    def _holds(self, condition: Expression) -> NDArray[np.bool_]:
        ids = sorted({column.id for column in columns_of(condition)})
        rows = zip(*(self.columns[id] for id in ids), strict=True) if ids else [()] * self.rows
        return np.array([evaluate(condition, dict(zip(ids, row, strict=True))) is True for row in rows], dtype=np.bool_)


def _law_of(deviations: Floats) -> Law | None:
    """Returns the randomness of reports as a noise; None where its size is not known."""
    if not np.isfinite(deviations).all():
        return None
    return Law(table=0, is_added=False, mechanism=Mechanism.GAUSSIAN, scale=deviations)


def _floats(values: list[Any]) -> Floats:
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _add(a: Interval, b: Interval) -> Interval:
    return Interval(a.lower + b.lower, a.upper + b.upper)


def _subtract(a: Interval, b: Interval) -> Interval:
    return Interval(a.lower - b.upper, a.upper - b.lower)


def _negate(a: Interval) -> Interval:
    return Interval(-a.upper, -a.lower)


def _corners(operation: Callable[[Floats, Floats], Floats], a: Interval, b: Interval) -> Interval:
    ends = np.stack([operation(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)])
    return Interval(ends.min(axis=0), ends.max(axis=0))


def _multiply(a: Interval, b: Interval) -> Interval:
    return _corners(np.multiply, a, b)


def _divide(a: Interval, b: Interval) -> Interval:
    """The corners, where the divisor's interval does not hold 0; else nothing is known."""
    apart = (b.lower > 0) | (b.upper < 0)
    found = _corners(np.divide, a, b)
    return Interval(np.where(apart, found.lower, np.nan), np.where(apart, found.upper, np.nan))


def _clamp(value: Interval, low: Interval, high: Interval) -> Interval:
    """Where nothing is known of the value, the clamp's own bounds hold."""
    lower = np.minimum(np.maximum(value.lower, low.lower), high.lower)
    upper = np.minimum(np.maximum(value.upper, low.upper), high.upper)
    return Interval(np.where(np.isnan(lower), low.lower, lower), np.where(np.isnan(upper), high.upper, upper))


def _sqrt(a: Interval) -> Interval:
    return Interval(np.sqrt(np.maximum(a.lower, 0.0)), np.sqrt(a.upper))


def _rounded(a: Interval) -> Interval:
    """Rounding moves each end by at most one half; outward is enough."""
    return Interval(np.floor(a.lower), np.ceil(a.upper))


def _monotone(function: Callable[[Floats], Floats]) -> Callable[[Interval], Interval]:
    return lambda a: Interval(function(a.lower), function(a.upper))


def _abs(a: Interval) -> Interval:
    inside = (a.lower <= 0) & (a.upper >= 0)
    ends = np.stack([np.abs(a.lower), np.abs(a.upper)])
    return Interval(np.where(inside, 0.0, ends.min(axis=0)), ends.max(axis=0))


def _least(a: Interval, b: Interval) -> Interval:
    return Interval(np.minimum(a.lower, b.lower), np.minimum(a.upper, b.upper))


def _greatest(a: Interval, b: Interval) -> Interval:
    return Interval(np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper))


_RULES: dict[tuple[str, int], Callable[..., Interval]] = {
    ("add", 2): _add,
    ("subtract", 2): _subtract,
    ("negate", 1): _negate,
    ("multiply", 2): _multiply,
    ("divide", 2): _divide,
    ("clamp", 3): _clamp,
    ("sqrt", 1): _sqrt,
    ("abs", 1): _abs,
    ("exp", 1): _monotone(np.exp),
    ("floor", 1): _monotone(np.floor),
    ("ceil", 1): _monotone(np.ceil),
    ("round", 1): _rounded,
    ("least", 2): _least,
    ("greatest", 2): _greatest,
}
"""Rules by function and number of arguments."""
