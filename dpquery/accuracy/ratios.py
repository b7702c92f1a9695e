"""Averages and ratios of sums of measures: how far they may be off, for so many rows, by the noise of the measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.accuracy.error_propagation import Factors, constant_of, keeps_numbers, rounded_factors_of
from dpquery.plan.expr import Call, Case, Cast, Expression

Bounds = tuple[Fraction, Fraction]

DOUBLED, CLOSE = 40, 1e-5
"""A half-width is looked for up to so many doublings of that with an exact divisor, and found to this part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioOfSums:
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

    def ends(self, error: Fraction) -> tuple[tuple[Factors, Fraction], ...]:
        """Returns sums of measures, each with how far roundings may move it more: where both are off by at most `error`
        times `under`, the ratio is off by at most `error`.

        With noises d and c and the ratio r = D / N, (D + d) / (N + c) is at most r + error where d - (r + error) c is
        at most error N, and at least r - error where d - (r - error) c is at least -error N. These are sums over the
        same measures, with factors that are linear in r, and here those for r at both ends. Between these no factor is
        larger, or as much smaller as another is: then the sum is less spread (Proschan 1965, of symmetric noises of
        log-concave density and one law).
        """
        found, nothing = [], Fraction(0)
        for end in (self.lower - error, self.upper + error):
            read = {**self.over, **self.under}
            factors = {id: self.over.get(id, nothing) - end * self.under.get(id, nothing) for id in read}
            rounded = sum((abs(factors.pop(id)) * width for id, width in self.roundings.items()), nothing)
            found.append(({id: factor for id, factor in factors.items() if factor}, rounded))
        return tuple(found)

    def half_width(self, reach: Callable[[Factors], Fraction], rows: Fraction) -> float | None:
        """Returns the half-width where `under` is `rows` or more; None where it may be lost in its noise.

        Args:
            reach: How far a sum of measures with these factors may be off.
        """

        def needed(error: float) -> float:
            return float(max(reach(factors) + rounded for factors, rounded in self.ends(Fraction(error))) / rows)

        high = needed(0.0)
        for _ in range(DOUBLED):
            if needed(high) <= high:
                break
            high *= 2
        else:
            return None
        low = 0.0
        while high - low > CLOSE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if needed(middle) <= middle else (middle, high)
        return high

    @property
    def measures(self) -> list[str]:
        """The ids of the measures that it is computed from."""
        return [id for id in {**self.over, **self.under} if id not in self.roundings]


def quotient_of(expression: Expression, reach: Callable[[Factors, Factors], Bounds | None]) -> RatioOfSums | None:
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


def mean_of(expression: Expression) -> RatioOfSums | None:
    """Returns the average that an expression is, or None if it is none."""
    parts = parts_of_mean(expression)
    if parts is None:
        return None
    over, under, most = parts
    return _ratio(over, under, Fraction(1), lambda *_: (-most, most))


def _ratio(
    over: Expression, under: Expression, factor: Fraction, reach: Callable[[Factors, Factors], Bounds | None]
) -> RatioOfSums | None:
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
    return RatioOfSums(over=scaled, under=below, lower=lower, upper=upper, roundings=roundings)


def _unrounded(expression: Expression) -> Expression:
    """Returns what is behind casts that change no number."""
    while isinstance(expression, Cast) and keeps_numbers(expression):
        expression = expression.argument
    return expression


def parts_of_mean(expression: Expression) -> tuple[Expression, Expression, Fraction] | None:
    """Returns the sum of deviations and the count that an average is computed from, and its largest deviation from the
    middle; None if the expression is not an average."""
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
