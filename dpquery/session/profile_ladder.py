"""A noisy histogram of units by their number of rows, and what follows from it. Post-processing of noisy numbers alone.

Cells double: 1, 2, 3-4, 5-8, ... Within a cell the number of rows T is taken to have chances in proportion to 1/T, as
heavy tails have them. The histogram is read upwards from its largest cell, and stopped at the first cell below three
scales of the noise: a cell above that is noise for all anybody knows, and would weigh millions of rows. The cell that
stopped it is read as well where a loss is told, with all that its noise leaves possible: bounds are suggested close to
the top, so that what they leave out lies there. Units above that cell may hold any number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpquery.accuracy.noise_shapes import shape_of
from dpquery.errors import ParameterError
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.result.inverse_variance import CombinedNoise, Component
from dpquery.result.measurements import Measurement

FAILURE = Fraction(1, 20)
"""How often an interval may miss."""
SCALES = 3
"""A cell of fewer scales of the noise than this stops the ladder."""
GROUPS = 24
"""Groups of a usual query: two years of months."""
TOO_FEW = "the profile shows too few units compared with its noise"
_EULER = 0.5772156649015329


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalEstimate:
    """A number that is known up to noise, with a 95 % interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        below, above = round(self.value - self.lower), round(self.upper - self.value)
        if below == above:
            return f"{self.value:,.0f} ± {above:,}"
        return f"{self.value:,.0f} ({math.floor(self.lower):,} to {math.ceil(self.upper):,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellNoise:
    """The noise of each cell: its law, and how far sums of cells are off."""

    mechanism: str
    scale: float

    @staticmethod
    def of(measurement: Measurement) -> CellNoise:
        """Returns the noise of a column of counts."""
        return CellNoise(mechanism=measurement.mechanism, scale=measurement.scale)

    def half_width(self, cells: int, failure: Fraction = FAILURE) -> int:
        """Returns how far a sum of so many cells is off at most, but with a chance of `failure`."""
        if cells == 0:
            return 0
        mechanism = Mechanism(self.mechanism)
        one = NoiseLaw(mechanism=mechanism, parameter=shape_of(mechanism).parameter(self.scale))
        part = Component(noise=one, count=1, weight=Fraction(1))
        return CombinedNoise(components=(part,) * cells, rounded=0).half_width(failure)

    def __str__(self) -> str:
        return f"{self.mechanism} noise of scale {self.scale:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Units with `low` to `high` rows; how many there are, with noise."""

    low: int
    high: int
    units: int

    @property
    def name(self) -> str:
        """The numbers of rows, for people."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}-{self.high:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The share of a table's rows that weights leave out, as far as a ladder shows it.

    Attributes:
        share: The estimate, of the units that the ladder shows and those of the cell above them.
        at_least, at_most: Its ends, for the same units, with noise and the width of cells in them.
        beyond: So many units, or more, are not above `rows` rows, but for a chance of 5 %; 0 where none can be.
        rows: Where what is read ends; what is above may hold any number.
        lost: Of so many rows nothing counts, at the least.
    """

    share: float
    at_least: float
    at_most: float
    beyond: int
    rows: int
    lost: float

    @property
    def words(self) -> str:
        """How much is left out of the units that are read, for people."""
        if self.at_most == 0:
            return "none of their rows are left out"
        ends = f"{_percent(self.at_least)} to {_percent(self.at_most)}"
        return f"{_percent(self.share)} of the table's rows are left out ({ends})"

    @property
    def open_end(self) -> str:
        """What nothing is known of, for people; "" where there is nothing."""
        if not self.beyond:
            return ""
        return f"; fewer than {self.beyond:,} units above {self.rows:,} rows may hold any number"

    def __str__(self) -> str:
        return f"{self.words}{self.open_end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Units by their number of rows.

    Attributes:
        cells: All cells, ascending and without a gap.
        noise: Of each cell.
        replaced: Whether a neighbour is another unit in one's place, which moves two cells and doubles counts' noise.
    """

    cells: tuple[Cell, ...]
    noise: CellNoise
    replaced: bool = False

    @property
    def steps(self) -> tuple[Cell, ...]:
        """The cells that are believed: up to the last one before noise; none where the largest may be noise itself."""
        mode = max(range(len(self.cells)), key=lambda place: self.cells[place].units)
        least = SCALES * self.noise.scale
        if self.cells[mode].units < max(least, self.noise.half_width(1, FAILURE / len(self.cells))):
            return ()
        end = mode
        while end < len(self.cells) and self.cells[end].units >= least:
            end += 1
        return self.cells[:end]

    @property
    def top(self) -> int:
        """The most rows in a cell that is believed; 0 where none is."""
        return self.steps[-1].high if self.steps else 0

    @property
    def beyond(self) -> int:
        """Fewer units than this are above the top, but for a chance of 5 %; 0 where none can be."""
        return self._fewer_than(self.top)

    @property
    def read(self) -> tuple[Cell, ...]:
        """The cells of which a loss is told: those that are believed, and the one that stopped the ladder."""
        steps = self.steps
        return self.cells[: len(steps) + 1] if steps else ()

    @property
    def seen(self) -> int:
        """How many units are read."""
        return sum(max(0, cell.units) for cell in self.read)

    @property
    def estimated_units(self) -> IntervalEstimate:
        """How many units have rows."""
        return self._sum(lambda _: True)

    def units_above(self, rows: int) -> IntervalEstimate:
        """Returns how many units have more rows; the value is that of the ladder, the interval is of all units."""
        _check_rows(rows)
        inner = self._sum(lambda cell: cell.low > rows)
        outer = self._sum(lambda cell: cell.high > rows)
        value = sum(max(0, cell.units) * _above(cell, rows) for cell in self.read)
        return IntervalEstimate(value=min(max(value, inner.lower), outer.upper), lower=inner.lower, upper=outer.upper)

    def units_within(self, rows: int) -> IntervalEstimate:
        """Returns how many units have at most so many rows, and hence all of them at full weight."""
        _check_rows(rows)
        inner = self._sum(lambda cell: cell.high <= rows)
        outer = self._sum(lambda cell: cell.low <= rows)
        value = sum(max(0, cell.units) * (1 - _above(cell, rows)) for cell in self.steps)
        return IntervalEstimate(value=min(max(value, inner.lower), outer.upper), lower=inner.lower, upper=outer.upper)

    def counted(self, rows: int) -> float:
        """Returns about how many rows count, where a unit's weights add up to at most `rows`."""
        _check_rows(rows)
        return sum(max(0, cell.units) * (_mean(cell) - _mean_above(cell, rows)) for cell in self.read)

    def loss(self, rows: int) -> Loss:
        """Returns the share of rows that weights leave out where a unit's weights add up to at most `rows`."""
        _check_rows(rows)
        read = self.read
        half = self.noise.half_width(1, FAILURE / max(1, len(read)))
        whole = lost = 0.0
        least, most = [0.0, 0.0], [0.0, 0.0]  # lost and all rows, where as few and as many as may be are lost
        for cell in read:
            units = max(0, cell.units)
            few, many = max(0, units - half), units + half
            whole += units * _mean(cell)
            lost += units * _mean_above(cell, rows)
            at_least, at_most = max(cell.low, min(cell.high, rows)), cell.high
            _add(least, few if at_least > rows else many, at_least, rows)
            _add(most, many if at_most > rows else few, at_most if at_most > rows else cell.low, rows)
        share = lost / whole if whole else 0.0
        ends = (least[0] / least[1] if least[1] else 0.0, most[0] / most[1] if most[1] else 1.0)
        if not read:
            ends = (0.0, 1.0)
        end = read[-1].high if read else 0
        return Loss(
            share=share, at_least=ends[0], at_most=ends[1], beyond=self._fewer_than(end), rows=end, lost=least[0]
        )

    def suggest_max_rows(
        self, *, groups: int = GROUPS, epsilon: Fraction | None = None, rho: Fraction | None = None
    ) -> int:
        """Returns the bound at which one more row would add as much noise as it saves of what weights leave out.

        Over K groups the deviations of counts add up to K M sqrt(2) / epsilon, or K M / sqrt(2 rho): one more row
        adds K sqrt(2) / epsilon, and saves one row of each unit above M. So about that many units are left above M,
        and never more rows are counted than the ladder shows anybody to have.

        Args:
            groups: Groups of the table's usual queries.
            epsilon, rho: What these lose, one of them.
        Raises:
            ParameterError: Nothing can be said, or asked.
        """
        check_groups(groups)
        if (epsilon is None) is (rho is None):
            raise ParameterError(
                "give the usual privacy loss of a query: epsilon or rho", advice="Write epsilon='0.5'."
            )
        if not self.steps:
            raise ParameterError(TOO_FEW, advice="Buy one with more epsilon.")
        if epsilon is not None:
            left = groups * math.sqrt(2) / float(epsilon) * (2 if self.replaced else 1)
        else:
            left = groups / math.sqrt(2 * float(rho or 1)) * (math.sqrt(2) if self.replaced else 1)
        reached = 0.0
        for cell in reversed(self.steps):
            units = max(0, cell.units)
            if reached + units > left:
                part = (left - reached) / units
                found = math.ceil(cell.high / 2 ** (part * math.log2(cell.high / max(0.5, cell.low - 1))))
                return max(1, _round(min(cell.high, max(cell.low, found)), cell.high))
            reached += units
        return 1

    def sentence(self, rows: int) -> str:
        """Returns what is known of the rows that a bound leaves out, for people."""
        if not self.steps:
            return f"what it leaves out is unknown, as {TOO_FEW}"
        full, loss = self.units_within(rows), self.loss(rows)
        return f"{full} of {self.seen:,} units have all rows at full weight, and {loss.words}{loss.open_end}"

    def _fewer_than(self, rows: int) -> int:
        units = [cell.units for cell in self.cells if cell.low > rows]
        return max(0, sum(units)) + self.noise.half_width(len(units), 2 * FAILURE) + 1 if units else 0  # one end

    def _sum(self, chosen: Callable[[Cell], bool]) -> IntervalEstimate:
        """Returns the units of some cells, none of which has fewer than 0."""
        units = [cell.units for cell in self.cells if chosen(cell)]
        half = self.noise.half_width(len(units))
        total = sum(units)
        return IntervalEstimate(value=max(0, total), lower=max(0, total - half), upper=max(0, total) + half)


def cells_up_to(most: int) -> tuple[tuple[int, int], ...]:
    """Returns the doubling cells for numbers of rows from 1 to `most`; one unit is in one of them, so they are free.

    Example:
        >>> cells_up_to(7)
        ((1, 1), (2, 2), (3, 4), (5, 7))
    """
    powers = range(1, max(1, most - 1).bit_length() + 1) if most > 1 else range(0)
    return ((1, 1), *((2 ** (k - 1) + 1, min(2**k, most)) for k in powers))


def check_groups(groups: object) -> None:
    """Raises ParameterError unless it is a number of groups."""
    if type(groups) is not int or groups < 1:
        raise ParameterError("groups must be a whole number of at least 1", advice="24 is usual: two years of months.")


def _check_rows(rows: int) -> None:
    if type(rows) is not int or rows < 1:
        raise ParameterError("a bound on rows must be a whole number of at least 1")


def _add(ends: list[float], units: float, each: int, rows: int) -> None:
    ends[0] += units * max(0, each - rows)
    ends[1] += units * each


def _above(cell: Cell, rows: int) -> float:
    """Returns which part of a cell's units has more rows."""
    if rows < cell.low:
        return 1.0
    return _reciprocals(rows, cell.high) / _reciprocals(cell.low - 1, cell.high) if rows < cell.high else 0.0


def _mean(cell: Cell) -> float:
    """Returns the mean number of rows in a cell."""
    return (cell.high - cell.low + 1) / _reciprocals(cell.low - 1, cell.high)


def _mean_above(cell: Cell, rows: int) -> float:
    """Returns the mean number of rows above a bound, in a cell."""
    start = max(rows, cell.low - 1)
    if start >= cell.high:
        return 0.0
    above = cell.high - start - rows * _reciprocals(start, cell.high)
    return above / _reciprocals(cell.low - 1, cell.high)


def _reciprocals(after: int, last: int) -> float:
    """Returns the sum of 1/T over the whole numbers T above `after`, up to `last`."""
    if last - after <= 64:
        return math.fsum(1 / number for number in range(after + 1, last + 1))
    return _harmonic(last) - _harmonic(after)


def _harmonic(number: int) -> float:
    """Returns 1 + 1/2 + ... + 1/number, by its expansion where that is exact to nine digits."""
    if number < 64:
        return math.fsum(1 / k for k in range(1, number + 1))
    return math.log(number) + _EULER + 1 / (2 * number) - 1 / (12 * number**2)


def _round(rows: int, most: int) -> int:
    """Returns a bound of two digits, rounded up, but not above `most`."""
    step: int = 10 ** max(0, len(str(rows)) - 2)
    return min(most, -(-rows // step) * step)


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"
