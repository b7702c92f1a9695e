"""Intervals around computed values: what the noise of the measures does to the columns of an answer.

Interval arithmetic, on whole columns at once. Each measure lies within its half-width of the released number with a
known probability; a column that reads k measures uses half-widths that fail with probability (1 - confidence) / k
each, so the interval of a cell holds with at least the confidence (union bound), for any dependence.
Where the noise can be followed through the expression (accuracy/simulated.py) and that gives a narrower interval, it is
taken instead; it holds with about the confidence.
An interval speaks of noise alone: not of clamping and not of the weights of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.conditions import outermost, without_needless_choices
from dpquery.accuracy.quotients import interval_of, quotient_of
from dpquery.accuracy.rules import Floats, Follower, Interval, Rule
from dpquery.accuracy.simulated import MOST_CELLS, MOST_MEASURES, AnyLaw, SimulatedLaw, simulate
from dpquery.accuracy.unions import on_side, side_of
from dpquery.kernel.plan import Mechanism
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, columns_of

MOST_DIGITS = 12
"""After the point, that a number is written with."""


def digits_of(width: float) -> int:
    """Returns how many digits after the point a number of this uncertainty deserves."""
    return 0 if width <= 0 or width >= 10 else min(MOST_DIGITS, 1 - math.floor(math.log10(width)))


NORMAL = SimulatedLaw(table=0, is_added=False, mechanism=Mechanism.GAUSSIAN, scale=1.0)
"""What many small noises are together."""

Values = Mapping[str, list[Any]]
"""For each column of released and public tables its values, by id; all of one length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalInputs:
    """What intervals are computed from.

    Attributes:
        rows: The number of rows of the answer.
        columns: The values that the answer's columns were computed from.
        measures: The ids of the noisy ones among them.
        half_width: (measure, number of measures that share the failure probability) to the half-width of its interval:
            one, or one for each row.
        chosen: (measure, number of measures that share the failure probability) to an interval of its own: of a choice
            what it stands for, of a number that decided which groups are shown; None where there is none.
        laws: Measures that are read together to the noise of each, or None where it is not known.
        confidence: Of the intervals.
        variances: For columns that stand for the randomness of reports, its variance.
        floors: The measures that are not negative without noise.
        elsewhere: Numbers of other groups, NULL where there is none: then nothing is known of what reads them.
    """

    rows: int
    columns: Values
    measures: frozenset[str]
    half_width: Callable[[str, int], float | Floats]
    chosen: Callable[[str, int], Interval | None] = lambda *_: None
    laws: Callable[[Collection[str]], dict[str, AnyLaw | None]] = dict.fromkeys
    confidence: float = 0.95
    variances: Mapping[str, Expression] = field(default_factory=dict)
    floors: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()

    def interval(self, expression: Expression) -> Interval:
        """Returns the interval of an expression over measures and exact columns; unknown where no rule covers it."""
        side = side_of(expression)
        if side is not None:
            return self._by_side(expression, side)
        read = {column.id for column in columns_of(expression)} & self.measures
        found = self._interval(expression, read)
        for id in read & self.elsewhere:
            is_there = ~np.isnan(as_floats(self.columns[id]))
            found = Interval(np.where(is_there, found.lower, np.nan), np.where(is_there, found.upper, np.nan))
        return found

    def _interval(self, expression: Expression, read: set[str]) -> Interval:
        """Returns the interval of an expression that reads these measures, in rows in which each is there."""
        with np.errstate(all="ignore"):
            spread = self._spread(read)
            if not spread and (whole := self._quotient(expression, read)) is not None:
                return whole
            if read and not isinstance(expression, Column):
                plain = without_needless_choices(expression)
                around = outermost(expression, self) if plain is expression else self._interval(plain, read)
                if around is not None:
                    return around
            widths: dict[str, float | Floats] = {id: self.half_width(id, len(read)) for id in read - spread.keys()}
            quantile = NormalDist().inv_cdf(1 - (1 - self.confidence) / (2 * max(1, len(read))))
            widths |= {id: quantile * deviation for id, deviation in spread.items()}
            found = _Ends(self, widths, len(read)).follow(expression)
            return self._narrower(self.unknown() if found is None else found, expression, read, spread)

    def _spread(self, read: set[str]) -> dict[str, Floats]:
        """Returns the standard deviations of reports' randomness, at most; it is taken for normal.

        A variance reads measures that the expression reads too, so their intervals hold or fail together.
        """
        found = {}
        for id in read & self.variances.keys():
            parts = {column.id for column in columns_of(self.variances[id])} & self.measures
            reach = _Ends(self, {part: self.half_width(part, len(read)) for part in parts}).follow(self.variances[id])
            found[id] = np.sqrt(np.maximum((self.unknown() if reach is None else reach).upper, 0.0))
        return found

    def _quotient(self, expression: Expression, read: set[str]) -> Interval | None:
        """Returns the interval of an average or a ratio; None where it is none, or noise is not followed."""
        quotient = quotient_of(expression, self.measures.__contains__)
        if quotient is None:
            return None
        values = {id: as_floats(self.columns[id]) for id in read}
        laws = self.laws(read)
        return interval_of(quotient, values, self.exact, laws, self.floors, self.confidence, self.rows)

    def _narrower(
        self, known: Interval, expression: Expression, read: set[str], spread: Mapping[str, Floats]
    ) -> Interval:
        """Returns for each cell the narrower of the known interval and a simulated one."""
        if not 2 <= len(read) <= MOST_MEASURES or self.rows > MOST_CELLS or len(spread) > 1:
            return known
        laws = self.laws(read) | {id: _law_of(deviations) for id, deviations in spread.items()}
        if None in laws.values():
            return known
        values = {id: as_floats(self.columns[id]) for id in read}
        found = simulate(expression, values, self.exact, laws, self.confidence, self.rows)
        if found is None:
            return known
        better = (found[1] - found[0] < known.upper - known.lower) | (np.isnan(known.lower) & ~np.isnan(found[0]))
        return Interval(np.where(better, found[0], known.lower), np.where(better, found[1], known.upper))

    def _by_side(self, expression: Expression, side: str) -> Interval:
        """A row's interval is that of the side of the union that it came from."""
        places, found = as_floats(self.columns[side]), self.unknown()
        for number in (0, 1):
            taken, here = self.interval(on_side(expression, side, number)), places == number
            found = Interval(np.where(here, taken.lower, found.lower), np.where(here, taken.upper, found.upper))
        return found

    def unknown(self) -> Interval:
        """Returns the interval of which nothing is known."""
        nothing = np.full(self.rows, np.nan)
        return Interval(nothing, nothing)

    def exact(self, expression: Expression) -> Floats | None:
        """Returns the values of an expression without noise."""
        if not expression.type.is_numeric:
            return None
        if isinstance(expression, Literal):
            return np.full(self.rows, np.nan if expression.value is None else float(expression.value))  # type: ignore[arg-type]
        ids = sorted({column.id for column in columns_of(expression)})
        rows = zip(*(self.columns[id] for id in ids), strict=True) if ids else [()] * self.rows
        return as_floats([evaluate(expression, dict(zip(ids, row, strict=True))) for row in rows])

    def is_exact(self, expression: Expression) -> bool:
        """Whether it carries no noise."""
        return not any(column.id in self.measures for column in columns_of(expression))

    def shared(self, among: int) -> IntervalInputs:
        """Returns the same for intervals that fail with that part of the probability."""
        if among == 1:
            return self
        return replace(
            self,
            confidence=1 - (1 - self.confidence) / among,
            half_width=lambda id, sharing: self.half_width(id, sharing * among),
            chosen=lambda id, sharing: self.chosen(id, sharing * among),
        )

    def holds(self, condition: Expression) -> NDArray[np.bool_]:
        """Returns where a condition without noise holds."""
        ids = sorted({column.id for column in columns_of(condition)})
        rows = zip(*(self.columns[id] for id in ids), strict=True) if ids else [()] * self.rows
        return np.array([evaluate(condition, dict(zip(ids, row, strict=True))) is True for row in rows], dtype=np.bool_)


class _Ends(Follower[Interval]):
    """Interval arithmetic over the half-widths of the noisy columns."""

    def __init__(self, inputs: IntervalInputs, widths: Mapping[str, float | Floats], sharing: int = 1) -> None:
        self._inputs, self._widths, self._sharing = inputs, widths, sharing

    def is_exact(self, expression: Expression) -> bool:
        return not any(column.id in self._widths for column in columns_of(expression))

    def exact(self, expression: Expression) -> Interval | None:
        values = self._inputs.exact(expression)
        return None if values is None else Interval(values, values)

    def column(self, column: Column) -> Interval:
        chosen = self._inputs.chosen(column.id, self._sharing)
        if chosen is not None:
            return chosen
        value, width = as_floats(self._inputs.columns[column.id]), self._widths[column.id]
        return Interval(value - width, value + width)

    def apply(self, rule: Rule, parts: list[Interval], call: Call) -> Interval | None:
        return (
            rule.interval(*parts) if rule.interval is not None and len(parts) in (rule.arguments, rule.fewer) else None
        )

    def case(self, expression: Case) -> Interval | None:
        """A value that is there or NULL has its own interval; other branches are followed on exact conditions."""
        last = expression.otherwise
        missing = isinstance(last, Literal) and last.value is None
        if len(expression.branches) == 1 and missing:
            return self.follow(expression.branches[0][1])
        if not all(self.is_exact(condition) for condition, _ in expression.branches):
            return None
        chosen = self._inputs.unknown() if missing else self.follow(last)
        for condition, arm in reversed(expression.branches):
            taken = self.follow(arm)
            if taken is None or chosen is None:
                return None
            holds = self._inputs.holds(condition)
            chosen = Interval(np.where(holds, taken.lower, chosen.lower), np.where(holds, taken.upper, chosen.upper))
        return chosen


def _law_of(deviations: Floats) -> SimulatedLaw | None:
    """Returns the randomness of reports as a noise; None where its size is not known."""
    if not np.isfinite(deviations).all():
        return None
    return replace(NORMAL, scale=deviations)


def as_floats(values: list[Any]) -> Floats:
    """Returns a column as floats, NaN for NULL."""
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
