"""Intervals of averages and ratios: all quotients that the released numbers do not speak against.

Let A and B be sums of measures with constant factors, each with the noise of the measures that it reads. If r is their
quotient without noise, A - r B is noise alone, for any data, and its law is known: |A - r B| <= q(r) holds
with the confidence, where q(r) is the quantile of the size of that noise. The interval is the hull of all r, within
the range that the quotient can have, for which it does. So it holds for all data, also where B is lost in its noise;
there it reaches an end of the range, or has none.

Source:
    Fieller 1954, "Some problems in interval estimation", for normal noise; docs/concepts/accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dpquery.accuracy.error_propagation import constant_of, rounded_factors_of
from dpquery.accuracy.rules import Floats, Interval
from dpquery.accuracy.simulated import POINTS, AnyLaw, Points, known_laws, noises_at, points_beyond
from dpquery.plan.expr import Call, Case, Cast, Expression, Literal

NODES, NODES_OF_STEPS = 33, 129
"""Directions (A, B) in which the quantile is computed, of noise of any size and of few steps; it is taken for linear
between them. Few steps have atoms, which the interval must not lose by a little: it may be off by what it moves from
one direction to the next."""
HALVINGS = 50
"""Of the step between two directions, to find an end."""
MOST_ROWS = 100_000
"""Rows of one column that are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """A number that is shift + factor * over / under.

    Attributes:
        over, under: Sums of measures with constant factors.
        lower, upper: What over / under lies between, as far as the expression says.
    """

    over: Expression
    under: Expression
    shift: float = 0.0
    factor: float = 1.0
    lower: float = -math.inf
    upper: float = math.inf


def quotient_of(expression: Expression, is_measure: Callable[[str], bool]) -> Quotient | None:
    """Returns the quotient that an expression is, moved by constants and clamped, or NULL; None if it is none."""
    shift, factor, ends = 0.0, 1.0, (-math.inf, math.inf)
    while True:
        match expression:
            case Cast() if expression.type.is_numeric and expression.argument.type.is_numeric:
                expression = expression.argument
                continue
            case Case(branches=((_, value),), otherwise=Literal(value=None)):
                expression = value
                continue
            case Call():
                constants = [constant_of(part) for part in expression.arguments]
            case _:
                return None
        match expression.function, [None if known is None else float(known) for known in constants]:
            case "clamp", [None, float(low), float(high)]:
                low, high = sorted((shift + factor * low, shift + factor * high))
                ends, expression = (max(ends[0], low), min(ends[1], high)), expression.arguments[0]
            case "add", [float(by), None] | [None, float(by)]:
                shift, expression = shift + factor * by, expression.arguments[constants.index(None)]
            case "subtract", [None, float(by)]:
                shift, expression = shift - factor * by, expression.arguments[0]
            case "subtract", [float(by), None]:
                shift, factor, expression = shift + factor * by, -factor, expression.arguments[1]
            case "multiply", ([float(by), None] | [None, float(by)]) if by:
                factor, expression = factor * by, expression.arguments[constants.index(None)]
            case "divide", [None, float(by)] if by:
                factor, expression = factor / by, expression.arguments[0]
            case "divide", [_, None]:
                break
            case _:
                return None
    over, under = expression.arguments
    if isinstance(under, Call) and under.function == "nullif" and constant_of(under.arguments[1]) == 0:
        under = under.arguments[0]
    if any(rounded_factors_of(side, is_measure) is None for side in (over, under)):
        return None
    lower, upper = sorted((end - shift) / factor for end in ends)
    return Quotient(over=over, under=under, shift=shift, factor=factor, lower=lower, upper=upper)


def interval_of(
    quotient: Quotient,
    columns: Mapping[str, Floats],
    exact: Callable[[Expression], Floats | None],
    laws: Mapping[str, AnyLaw | None],
    floors: frozenset[str],
    confidence: float,
    rows: int,
) -> Interval | None:
    """Returns the interval of a quotient in each row, NaN where nothing is known; None where noise is not followed.

    Args:
        columns: The released values of the measures read, shape (rows,).
        exact: Gives the values of an expression without noise.
        laws: The noise of each measure read; None where it is not known.
        floors: The measures that are not negative without noise.
    """
    known, beyond = known_laws(laws), points_beyond(1 - confidence)
    if (
        known is None
        or beyond is None
        or not 0 < rows <= MOST_ROWS
        or not all(law.is_constant for law in known.values())
    ):
        return None
    at_points = noises_at(known)
    zeros, given = {id: np.zeros((1, 1)) for id in known}, {id: columns[id][:, None] for id in known}
    sides = []
    for side in (quotient.over, quotient.under):
        released = Points(given, exact).follow(side)
        bare, noisy = (Points(values, _first(exact)).follow(side) for values in (zeros, at_points))
        if released is None or bare is None or noisy is None:
            return None
        noise = np.broadcast_to(noisy - bare, (1, POINTS))[0]
        sides.append(_Side(np.broadcast_to(released, (rows, 1))[:, 0], noise, float(bare[0, 0])))
    lower, upper = quotient.lower, quotient.upper
    if floors.issuperset(known) and not any(side.bare for side in sides):
        low, high = _reach(quotient)
        lower, upper = max(lower, low), min(upper, high)
    if not lower < upper:
        return None
    over, under = sides
    found = _hull(over, under, lower, upper, beyond, any(law.has_steps for law in known.values()))
    ends = np.sort(quotient.shift + quotient.factor * np.stack(found), axis=0)
    unknown = np.isnan(ends).any(axis=0) | np.isinf(ends).all(axis=0)
    return Interval(*np.where(unknown, np.nan, ends))


@dataclass(frozen=True, slots=True)
class _Side:
    """A sum of measures: as released, shape (rows,), its noise at each point, and what it is without any of them."""

    released: Floats
    noise: Floats
    bare: float

    @property
    def scale(self) -> float:
        """The size of its noise, or 1 where there is none."""
        return math.sqrt(float(np.mean(self.noise**2))) or 1.0


def _first(exact: Callable[[Expression], Floats | None]) -> Callable[[Expression], Floats | None]:
    def first(expression: Expression) -> Floats | None:
        found = exact(expression)
        return None if found is None else found[:1]

    return first


def _reach(quotient: Quotient) -> tuple[float, float]:
    """Returns what the quotient lies between where no measure is negative: between those of single measures."""
    sides = [rounded_factors_of(side, lambda _: True) for side in (quotient.over, quotient.under)]
    over, under = ({id: float(f) for id, f in s[0].items() if id not in s[1]} if s else {} for s in sides)
    if not over or not under or min(under.values()) < 0:
        return -math.inf, math.inf
    single = [f / under[id] if id in under else math.copysign(math.inf, f) for id, f in over.items()]
    single += [0.0 for id in under if id not in over]
    return min(single), max(single)


def _hull(over: _Side, under: _Side, lower: float, upper: float, beyond: int, has_atoms: bool) -> tuple[Floats, Floats]:
    """Returns the least and the greatest quotient that is not spoken against, shape (rows,).

    Quotients are directions: r is that of (sin t, cos t), in the sizes of the noises, for t between -pi/2 and pi/2.
    """
    by = over.scale / under.scale
    first, last = math.atan(lower / by), math.atan(upper / by)
    nodes = np.linspace(first, last, NODES_OF_STEPS if has_atoms else NODES)
    a, b = over.released / over.scale, under.released / under.scale
    noises = (over.noise / over.scale, under.noise / under.scale)
    sizes = np.abs(np.outer(np.cos(nodes), noises[0]) - np.outer(np.sin(nodes), noises[1]))
    quantiles = np.partition(sizes, POINTS - 1 - beyond, axis=1)[:, POINTS - 1 - beyond]
    if has_atoms:
        quantiles += np.abs(np.diff(quantiles)).max()
    slack = 1e-12 * (1 + np.abs(a) + np.abs(b))

    def above(t: Floats) -> Floats:
        """How far the size of A - r B is above its quantile."""
        found: Floats = np.abs(a * np.cos(t) - b * np.sin(t)) - np.interp(t, nodes, quantiles) - slack
        return found

    at_nodes = np.outer(np.cos(nodes), a)  # (nodes, rows); in place, as there may be many rows
    at_nodes -= np.outer(np.sin(nodes), b)
    np.abs(at_nodes, out=at_nodes)
    at_nodes -= quantiles[:, None]
    at_nodes -= slack
    middle = np.arctan(a / b)  # of the released numbers
    best = np.where(at_nodes[0] <= at_nodes[-1], first, last)  # where nothing is left
    insides, outsides = [], []
    for sign in (-1, 1):
        ordered, beside = (nodes, at_nodes) if sign > 0 else (nodes[::-1], at_nodes[::-1])
        places = np.where(beside <= 0, np.arange(len(nodes))[:, None], -1).max(axis=0)
        inside = np.where(places >= 0, ordered[places], np.nan)
        here = np.where((middle >= first) & (middle <= last), middle, np.nan)
        inside = np.fmax(inside, here) if sign > 0 else np.fmin(inside, here)
        inside = np.where(np.isnan(inside), best, inside)
        next = np.searchsorted(sign * ordered, sign * inside, side="right")
        outside = np.append(ordered, math.nan)[next]
        insides.append(inside)
        outsides.append(np.where(np.isnan(outside), inside, outside))
    ends, outside = np.stack(insides), np.stack(outsides)  # (2, rows)
    for _ in range(HALVINGS):
        half = (ends + outside) / 2
        within = above(half) <= 0
        ends, outside = np.where(within, half, ends), np.where(within, outside, half)
    low, high = (np.where(end == first, lower, np.where(end == last, upper, by * np.tan(end))) for end in ends)
    return np.where(np.isnan(a + b), np.nan, low), np.where(np.isnan(a + b), np.nan, high)
