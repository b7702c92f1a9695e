"""Intervals by following the known noise through an expression: narrower than interval arithmetic, and approximate.

What a measure would be without noise is the released number less a draw of its noise. A fixed set of points spreads
over all noises of a cell evenly, by their inverse distribution functions; the expression is computed at each, and the
interval leaves out the lowest and the highest parts. Nothing random is drawn and no data are read, so it costs no
privacy and the same answer always has the same intervals. docs/concepts/accuracy.md says what they mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpquery.accuracy.noise_shapes import shape_of
from dpquery.accuracy.rules import Floats, Follower, Rule
from dpquery.kernel.plan import Mechanism
from dpquery.plan.expr import Call, Case, Column, Expression, Literal, children, columns_of

Bools = NDArray[np.bool_]

POINTS = 4096
"""Points at which an expression is computed for each row."""
MOST_CELLS = 2000
"""Rows of one column that are followed; beyond, interval arithmetic is enough."""
MOST_MEASURES = 10
"""Measures that one cell reads."""
LEAST_LEFT_OUT = 20
"""Points to leave out on a side, at least: a higher confidence is not simulated."""
LEAST_SCALE = 64
"""Lattice steps of the scale of noise that is taken for a continuous one; finer noise has its own law."""
LEAST_OF_SUM = 2
"""The same of a sum of several numbers' noises, of which the law is not computed."""
_PRIMES = [n for n in range(2, 200) if all(n % d for d in range(2, n))]
MOST_DIMENSIONS = MOST_MEASURES + len(_PRIMES)
"""Independent noises that one cell reads."""
FARTHEST = 40
"""Scales that noise of few steps is followed: beyond are fewer than one in 10^15."""
THINNED = 16
"""Of so many points one is looked at for how the expression turns around."""
MOST_TURNED = 0.1
"""At so large a part of what is left out an expression may fall where it rises elsewhere: the part moves by less."""
GRID = 64
"""Parts of a step, or of the scale where that is less, in which noise that was rounded is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLaw:
    """The noise of one measure: continuous, or on the integers, or rounded to them.

    Attributes:
        table: The number of the released table; those that are added up repeat the noise of others.
        is_added: Whether the table is added up.
        mechanism: Laplace or Gaussian.
        scale: Laplace b or Gaussian sigma, in the unit of the number; one, or one for each row.
        step: Of the lattice, in the same unit; 0 where the noise is taken for continuous.
        is_rounded: Whether finer noise was rounded to the lattice after it was added, with the number that it is on.
    """

    table: int
    is_added: bool
    mechanism: Mechanism
    scale: float | Floats
    step: float = 0.0
    is_rounded: bool = False

    @property
    def has_steps(self) -> bool:
        """Whether it is followed on the integers."""
        return self.step > 0

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in all rows."""
        return isinstance(self.scale, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The noise of several measures that are estimated together.

    Attributes:
        sources: Independent noises.
        factors: For each measure the factor of each of them, in its unit.
    """

    sources: tuple[SimulatedLaw, ...]
    factors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLaw:
    """The noise of one measure of several that are estimated together: attributes as of `SimulatedLaw` and `Shared`."""

    table: int
    is_added: bool
    shared: Shared
    place: int

    @property
    def has_steps(self) -> bool:
        """Whether some of it is followed on the integers."""
        return any(source.has_steps for source in self.shared.sources)

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in all rows."""
        return True


AnyLaw = SimulatedLaw | SharedLaw


def simulate(
    expression: Expression,
    columns: Mapping[str, Floats],
    exact: Callable[[Expression], Floats | None],
    laws: Mapping[str, AnyLaw | None],
    confidence: float,
    rows: int,
) -> tuple[Floats, Floats] | None:
    """Returns lower and upper bounds, NaN in rows where the expression may be NULL, or turns around within the noise;
    None where no rule covers it.

    Args:
        columns: The released values of the measures read, shape (rows,).
        exact: Gives the values of an expression without noise.
        laws: The noise of each measure read; None where it is not known.
    """
    known, beyond = known_laws(laws), points_beyond((1 - confidence) / 2)
    if known is None or beyond is None or rows > MOST_CELLS or len(laws) < 2:
        return None
    without = {id: columns[id][:, None] - noise for id, noise in noises_at(known).items()}
    found = Points(without, exact).follow(expression)  # (1 or rows, 1 or points)
    if found is None:
        return None
    ordered = np.sort(np.broadcast_to(found, (rows, POINTS)), axis=1)  # NaN stands last
    lower, upper = ordered[:, beyond], ordered[:, POINTS - 1 - beyond]  # (rows,)
    whole = np.isfinite(ordered[:, -1]) & np.isfinite(ordered[:, 0])
    if _may_turn(expression, Points(without, exact).is_exact):
        whole &= ~_turned(expression, without, exact, MOST_TURNED * (1 - confidence))
    return np.where(whole, lower, np.nan), np.where(whole, upper, np.nan)


def _may_turn(expression: Expression, is_exact: Callable[[Expression], bool]) -> bool:
    """Whether an expression may fall in a noisy number on one side, and rise in it on the other: by a magnitude, or
    where two noisy numbers are multiplied or compared."""
    noisy = [part for part in children(expression) if not is_exact(part)]
    function = expression.function if isinstance(expression, Call) else ""
    turns = function == "abs" or (function in _TURNING and len(noisy) > 1)
    return turns or any(_may_turn(part, is_exact) for part in noisy)


def _turned(
    expression: Expression, without: Mapping[str, Floats], exact: Callable[[Expression], Floats | None], most: float
) -> Bools:
    """Returns the rows, shape (rows,), in which an expression turns around: at more than this part of the points it
    falls in the direction in which it rises on average. Values near where it does, as those near 0 of a magnitude,
    are seldom reached by noise around any other, so that they would be left out as if they were unlikely.
    """
    few = {id: values[:, ::THINNED] for id, values in without.items()}  # each (rows, points)
    moved = {}
    for place, (id, values) in enumerate(few.items(), 1):
        step = 1e-3 * np.std(values, axis=1, keepdims=True)
        moved[id] = np.concatenate([values + (other == place) * step for other in range(len(few) + 1)], axis=1)
    found = Points(moved, exact).follow(expression)
    if found is None:
        return np.ones(1, dtype=np.bool_)
    start, *ends = np.split(found, len(few) + 1, axis=1)
    slopes = [end - start for end in ends]  # each (rows, points): by as much of its noise in each number
    along = sum((slope * np.mean(slope, axis=1, keepdims=True) for slope in slopes), start=np.zeros(1))
    turned: Bools = np.mean(along < 0, axis=-1) > most
    return turned


def half_width_of_sum(parts: Sequence[tuple[float, SimulatedLaw]], failure: float) -> float | None:
    """Returns how far `simulate`'s interval of a sum of independent noises, each times a factor, reaches on its wider
    side; None where it is not simulated."""
    beyond = points_beyond(failure / 2)
    if not 2 <= len(parts) <= MOST_MEASURES or beyond is None:
        return None
    ordered = np.sort(-sum(factor * noise_at(law, dimension)[0] for dimension, (factor, law) in enumerate(parts)))
    return float(max(-ordered[beyond], ordered[POINTS - 1 - beyond]))


def known_laws(laws: Mapping[str, AnyLaw | None]) -> dict[str, AnyLaw] | None:
    """Returns the noises of measures that can be followed together; None where one is not known or may repeat another,
    or where they are too many."""
    known = {id: law for id, law in laws.items() if law is not None}
    is_joined = any(law.is_added for law in known.values()) and len({law.table for law in known.values()}) > 1
    shared = {law.table: len(law.shared.sources) for law in known.values() if isinstance(law, SharedLaw)}
    is_much = len(laws) > MOST_MEASURES or len(laws) + sum(shared.values()) > MOST_DIMENSIONS
    return None if len(known) < len(laws) or is_joined or is_much else known


def points_beyond(failure: float) -> int | None:
    """Returns how many of the points to leave out: a few less than the part, as they are finite; None for a part that
    they are too few for."""
    left_out = POINTS * failure
    return None if left_out < LEAST_LEFT_OUT else math.floor(left_out - math.sqrt(left_out))


class Points(Follower[Floats]):
    """Computes an expression at each point, shape (rows, points)."""

    def __init__(self, without: Mapping[str, Floats], exact: Callable[[Expression], Floats | None]) -> None:
        self._without, self._exact = without, exact

    def is_exact(self, expression: Expression) -> bool:
        """Whether it reads none of the values given."""
        return not any(column.id in self._without for column in columns_of(expression))

    def exact(self, expression: Expression) -> Floats | None:
        """Returns its values, the same at all points, shape (rows, 1)."""
        values = self._exact(expression)
        return None if values is None else values[:, None]

    def column(self, column: Column) -> Floats:
        """Returns the values given."""
        return self._without[column.id]

    def apply(self, rule: Rule, parts: list[Floats], call: Call) -> Floats | None:
        """Returns the operation's values."""
        return rule.value(*parts) if rule.value is not None and len(parts) in (rule.arguments, rule.fewer) else None

    def case(self, expression: Case) -> Floats | None:
        """A value that is there under a comparison, else NULL."""
        condition, value = expression.branches[0]
        last = expression.otherwise
        if len(expression.branches) > 1 or not (isinstance(last, Literal) and last.value is None):
            return None
        if not isinstance(condition, Call) or condition.function not in _COMPARISONS or len(condition.arguments) != 2:
            return None
        first, second, found = (self.follow(part) for part in (*condition.arguments, value))
        if first is None or second is None or found is None:
            return None
        return np.where(_COMPARISONS[condition.function](first, second), found, np.nan)


@lru_cache(maxsize=MOST_DIMENSIONS)
def _uniform(dimension: int) -> Floats:
    """Returns points that lie evenly in (0, 1), and with those of the other dimensions evenly in the cube.

    The cube's opposite corners mirror each other, so sums of symmetric noise have symmetric intervals.

    Source:
        Kronecker's sequence for the powers of the positive root of x^(d + 1) = x + 1, d = MOST_MEASURES (Roberts 2018),
        and beyond these dimensions for square roots of primes.
    """
    root = 1.0
    for _ in range(64):
        root = (1 + root) ** (1 / (MOST_MEASURES + 1))
    power = root ** -(dimension + 1) if dimension < MOST_MEASURES else math.sqrt(_PRIMES[dimension - MOST_MEASURES])
    points = (0.5 + (np.arange(POINTS // 2) + 0.5) * power) % 1.0
    points = np.append(points, 1 - points)  # (points,)
    even: Floats = (np.argsort(np.argsort(points)) + 0.5) / POINTS
    return even


def noises_at(laws: Mapping[str, AnyLaw]) -> dict[str, Floats]:
    """Returns the noise of each measure at each point, shape (1 or rows, points); what measures share is the same."""
    places: dict[object, int] = {}
    found = {}
    for id, law in sorted(laws.items()):
        if isinstance(law, SimulatedLaw):
            found[id] = noise_at(law, places.setdefault(id, len(places)))
            continue
        made: Floats = np.zeros((1, POINTS))
        for number, (source, factor) in enumerate(zip(law.shared.sources, law.shared.factors[law.place], strict=True)):
            made += factor * noise_at(source, places.setdefault((law.table, number), len(places)))
        found[id] = made
    return found


def noise_at(law: SimulatedLaw, dimension: int) -> Floats:
    """Returns the noise at each point, shape (1 or rows, points)."""
    if law.step and isinstance(law.scale, float):
        few: Floats = _few_steps(law.mechanism, law.scale / law.step, law.is_rounded, dimension)[None, :] * law.step
        return few
    found: Floats = _drawn(law.mechanism, dimension)[None, :] * np.reshape(law.scale, (-1, 1))
    return found


@lru_cache(maxsize=256)
def _few_steps(mechanism: Mechanism, scale: float, is_rounded: bool, dimension: int) -> Floats:
    """Returns noise of a scale of few steps at each point, in steps: the least number that the distribution function
    reaches the point's at. What was rounded is off by the rounding too, which is taken for even over a step.
    """
    step = min(1.0, max(scale, 1 / GRID)) / GRID if is_rounded else 1.0
    farthest = math.ceil((FARTHEST * scale + 1) / step)
    places: Floats = np.arange(-farthest, farthest + 1).astype(np.float64) * step  # (steps,), as `law`
    law: Floats = shape_of(mechanism).density(places / scale)
    if is_rounded:
        half = round(0.5 / step)
        sums: Floats = np.append(0.0, law.cumsum())
        ends = np.clip(np.arange(len(law))[:, None] + [-half, half + 1], 0, len(law))
        law = sums[ends[:, 1]] - sums[ends[:, 0]]  # ends: (steps, 2); law: (steps,)
    below = law.cumsum() / law.sum()
    found: Floats = places[np.minimum(np.searchsorted(below, _uniform(dimension)), len(places) - 1)]
    return found


@lru_cache(maxsize=2 * MOST_DIMENSIONS)
def _drawn(mechanism: Mechanism, dimension: int) -> Floats:
    return shape_of(mechanism).inverse(_uniform(dimension))


_TURNING = ("multiply", "least", "greatest", "clamp")
_COMPARISONS: dict[str, Callable[[Floats, Floats], Bools]] = {
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}
