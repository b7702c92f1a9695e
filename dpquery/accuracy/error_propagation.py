"""How the noise of each measure reaches a number: derivatives at public guesses of what the measures may be.

The guesses are a few imagined data sets, functions of the plan alone: a thousand rows, half of them in a filter, and
values whose mean lies anywhere in their range. docs/concepts/accuracy.md says why these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpquery.kernel.plan import CHOICES, Count, Measure, PrivateAggregate
from dpquery.plan.expr import Call, Case, Cast, Column, Expression, Literal, columns_of
from dpquery.plan.logical import Project

GUESSES = 16
"""Imagined data sets."""
ROWS = 1000.0
"""Rows of a group in each."""

Floats = NDArray[np.float64]

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
                        made.known[measure.id] = made._guess(measure, read.get(measure.value or ""))
        return made

    def _guess(self, measure: Measure, value: Expression | None) -> Floats:
        rows = np.full(GUESSES, ROWS if measure.filter is None else ROWS / 2)
        lattice = measure.lattice
        if measure.count is not Count.SUM or lattice is None or value is None:
            return rows
        product = self._product(value)
        if product is not None:
            return rows * product
        low, high = (float((end - lattice.offset) * lattice.grid) for end in (lattice.lower, lattice.upper))
        moments = self._moments(value, low, high)
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
            found = _follow(expression, known)
            if found is None or found.slopes is None:
                return None
            sizes = np.sqrt(np.broadcast_to(found.slopes**2, (len(ids), GUESSES)).mean(axis=1)).tolist()
        return dict(zip(ids, sizes, strict=True)) if all(map(math.isfinite, sizes)) and any(sizes) else None


def _bare(value: Expression) -> Expression:
    while isinstance(value, Cast):
        value = value.argument
    return value


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in each guess, shape (guesses,), and its derivatives, shape (measures, guesses); None for a constant."""

    value: Floats | float
    slopes: Floats | None

    def scaled(self, value: Floats | float, factor: Floats | float) -> _Number:
        """Returns another value, all derivatives times a factor."""
        return _Number(value, None if self.slopes is None else self.slopes * factor)


def _follow(expression: Expression, known: Mapping[str, _Number]) -> _Number | None:
    match expression:
        case Column():
            return known.get(expression.id)
        case Literal():
            return _Number(float(expression.value), None) if _is_number(expression) else None  # type: ignore[arg-type]
        case Cast():
            numeric = expression.type.is_numeric and expression.argument.type.is_numeric
            return _follow(expression.argument, known) if numeric else None
        case Case():
            last = expression.otherwise
            is_one = len(expression.branches) == 1 and isinstance(last, Literal) and not _reads_value(last)
            return _follow(expression.branches[0][1], known) if is_one else None
        case Call():
            rule = _RULES.get(expression.function)
            parts = [_follow(part, known) for part in expression.arguments] if rule is not None else []
            whole = [part for part in parts if part is not None]
            if rule is None or len(whole) != len(parts):
                return None
            return rule(*whole) if len(parts) in _ARGUMENTS[expression.function] else None


def _is_number(literal: Literal) -> bool:
    return literal.value is not None and literal.type.is_numeric


def _reads_value(literal: Literal) -> bool:
    return literal.value not in (None, 0)


def _add(a: _Number, b: _Number, sign: float = 1.0) -> _Number:
    if a.slopes is None or b.slopes is None:
        slopes = a.slopes if b.slopes is None else sign * b.slopes
    else:
        slopes = a.slopes + sign * b.slopes
    return _Number(a.value + sign * b.value, slopes)


def _multiply(a: _Number, b: _Number) -> _Number:
    slopes = _add(a.scaled(a.value, b.value), b.scaled(b.value, a.value)).slopes
    return _Number(a.value * b.value, slopes)


def _divide(a: _Number, b: _Number) -> _Number:
    return _multiply(a, b.scaled(1 / b.value, -1 / b.value**2))


def _sqrt(a: _Number) -> _Number:
    root = np.sqrt(np.maximum(a.value, 1e-300))
    return a.scaled(root, 0.5 / root)


def _first(a: _Number, *_: _Number) -> _Number:
    return a


_RULES: dict[str, Callable[..., _Number]] = {
    "add": _add,
    "subtract": lambda a, b: _add(a, b, -1.0),
    "multiply": _multiply,
    "divide": _divide,
    "negate": lambda a: a.scaled(-a.value, -1.0),
    "abs": lambda a: a.scaled(np.abs(a.value), np.sign(a.value)),
    "sqrt": _sqrt,
    "clamp": _first,
    "round": _first,
    "floor": _first,
    "ceil": _first,
    "nullif": _first,
    "coalesce": _first,
    "greatest": _first,
    "least": _first,
}
_ARGUMENTS = {name: range(1, 9) for name in _RULES} | {
    name: range(2, 3) for name in ("add", "subtract", "multiply", "divide")
}
