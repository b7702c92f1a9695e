"""Averages and ratios of sums of measures: how far they may be off, for so many rows, by the noise of the measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.accuracy.error_propagation import Factors, constant_of, keeps_numbers, rounded_factors_of
from dpquery.plan.expr import Call, Case, Cast, Expression

Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A ratio of two sums of measures: an average's sum of deviations by its count, a part of something by the whole.

    Attributes:
        over, under: The sums, as factors of measures and roundings.
        lower, upper: What the ratio lies between without noise.
        roundings: How far each rounding may move its sum, by the names that `over` and `under` have for them.
    """

    over: Factors
    under: Factors
    lower: Fraction
    upper: Fraction
    roundings: Factors = field(default_factory=dict)

    def _weights(self) -> tuple[Factors, Factors]:
        """Returns for a ratio r at each of its ends the size of each measure's or rounding's factor in `over` less r
        times that in `under`. The sizes are convex in r, and so are their sums: both are largest at an end."""
        read, nothing = {**self.over, **self.under}, Fraction(0)
        low, high = (
            {id: abs(self.over.get(id, nothing) - end * self.under.get(id, nothing)) for id in read}
            for end in (self.lower, self.upper)
        )
        return low, high

    def factors(self, error: Fraction, rows: Fraction) -> Factors | None:
        """Returns with which factors half-widths add up to at most `error`, if `under` is `rows` or more; None where
        the roundings are more than that.

        With noises d and c, |(D + d) / (N + c) - D / N| = |d - (D / N) c| / (N + c) <= error follows from
        |d - (D / N) c| + error |c| <= error N, and N only helps. d and c are sums over the same measures, and each
        one's part of d - (D / N) c has the factor of `_weights` at most.
        """
        low, high = self._weights()
        needed = {id: max(low[id], high[id]) + error * abs(self.under.get(id, Fraction(0))) for id in low}
        left = error * rows - sum((needed[id] * width for id, width in self.roundings.items()), Fraction(0))
        if left <= 0:
            return None
        return {id: factor * error / left for id, factor in needed.items() if id not in self.roundings and factor}

    def half_width(self, widths: Factors, rows: Fraction) -> Fraction | None:
        """Returns the half-width for `rows` from those of the measures; None where `under` may be lost in its noise."""
        known = {**widths, **self.roundings}
        lost = sum((abs(factor) * known[id] for id, factor in self.under.items()), Fraction(0))
        moved = max(sum((weight * known[id] for id, weight in end.items()), Fraction(0)) for end in self._weights())
        return moved / (rows - lost) if rows > lost else None

    @property
    def measures(self) -> list[str]:
        """The ids of the measures that it is computed from."""
        return [id for id in {**self.over, **self.under} if id not in self.roundings]


def quotient_of(expression: Expression, reach: Callable[[Factors, Factors], Bounds | None]) -> Mean | None:
    """Returns the ratio that an expression is; None if it is none, or may be of any size.

    Args:
        reach: Between what one sum of measures divided by another one lies; None where that is not bounded.
    """
    factor = Fraction(1)
    expression = _unrounded(expression)
    while isinstance(expression, Call) and expression.function == "multiply":
        first, second = expression.arguments
        known, rest = (constant_of(first), second) if constant_of(first) is not None else (constant_of(second), first)
        if not known:
            return None
        factor, expression = factor * known, _unrounded(rest)
    if not isinstance(expression, Call) or expression.function != "divide":
        return None
    over, under = (_unrounded(part) for part in expression.arguments)
    if isinstance(under, Call) and under.function == "nullif" and constant_of(under.arguments[1]) == 0:
        under = under.arguments[0]
    return _ratio(over, under, factor, reach)


def mean_of(expression: Expression) -> Mean | None:
    """Returns the average that an expression is, or None if it is none."""
    parts = parts_of_mean(expression)
    if parts is None:
        return None
    over, under, most = parts
    return _ratio(over, under, Fraction(1), lambda *_: (-most, most))


def _ratio(
    over: Expression, under: Expression, factor: Fraction, reach: Callable[[Factors, Factors], Bounds | None]
) -> Mean | None:
    sides = [rounded_factors_of(side, lambda _: True) for side in (over, under)]
    if sides[0] is None or sides[1] is None:
        return None
    (above, first), (below, second) = sides[0], sides[1]
    roundings = first | second
    exact = [{id: f for id, f in side.items() if id not in roundings} for side in (above, below)]
    ends = reach(exact[0], exact[1]) if all(exact) else None
    if ends is None:
        return None
    lower, upper = sorted(factor * end for end in ends)
    scaled = {id: factor * f for id, f in above.items()}
    return Mean(over=scaled, under=below, lower=lower, upper=upper, roundings=roundings)


def _unrounded(expression: Expression) -> Expression:
    """Returns what is behind casts that change no number."""
    while isinstance(expression, Cast) and keeps_numbers(expression):
        expression = expression.argument
    return expression


def parts_of_mean(expression: Expression) -> tuple[Expression, Expression, Fraction] | None:
    """Returns the sum of deviations and the count that an average is computed from, and its largest deviation from the
    middle; None if the expression is no average."""
    if not isinstance(expression, Case) or len(expression.branches) != 1:
        return None
    mean = expression.branches[0][1]
    if not isinstance(mean, Call) or mean.function != "clamp":
        return None
    total, *ends = mean.arguments
    if not isinstance(total, Call) or total.function != "add":
        return None
    middle, quotient = total.arguments
    if not isinstance(quotient, Call) or quotient.function != "divide":
        return None
    known = [constant_of(part) for part in (middle, *ends)]
    if None in known:
        return None
    centre, lower, upper = (number for number in known if number is not None)
    over, under = quotient.arguments
    return over, under, max(upper - centre, centre - lower)
