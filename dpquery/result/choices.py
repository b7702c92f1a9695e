"""What is known of chosen values: how many ranks each is off at most, and the values between which it must lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpquery.accuracy.brackets import ReleasedChoice, brackets
from dpquery.accuracy.counting import COUNTS, Halved, families, share
from dpquery.accuracy.rules import Floats, Interval
from dpquery.errors import InternalError
from dpquery.kernel.choice_utilities import rank_of_extreme, step_of
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, Count, Measure, PrivateAggregate
from dpquery.kernel.quantiles import asked, rank_errors
from dpquery.kernel.release import NoisyTable
from dpquery.result.added_tables import AddedTable

Widths = Callable[[str, Fraction], float]
"""(measure, failure) to the half-width of its noise."""
ABOVE = "known bias above the noise"
"""Marks in a note what bounds leave out, where it is more than the noise."""
MOST_NAMED = 5
"""Columns that one sentence names."""


@dataclass(frozen=True, slots=True)
class RankError:
    """How far a chosen value of an answer may be off, but with the probability that its intervals fail with.

    Attributes:
        ranks: Of a quantile, in ranks of values of full weight; of a mode, how many more such values the most frequent
            one has.
        target: What was asked for, from 0, the minimum, to 1, the maximum; None for a mode.
        small: In how many rows of the answer it may be any value, as no more than twice as many are counted there.
    """

    ranks: float
    target: Fraction | None
    small: int = 0

    @property
    def of(self) -> str:
        """What it is the distance from, for people."""
        if self.target is None:
            return "the most frequent value"
        names = {Fraction(0): "the minimum", Fraction(1, 2): "the median", Fraction(1): "the maximum"}
        return names.get(self.target, f"the {float(self.target):g} quantile")

    def __str__(self) -> str:
        """As beside a number: `within 12 ranks`."""
        return within(self.ranks)


def within(ranks: float) -> str:
    """Returns an error in ranks, for people."""
    number = math.ceil(ranks)
    return f"within {number:,} {'rank' if number == 1 else 'ranks'}"


_Weighed = tuple[tuple[str, float], ...]
"""A number of rows as a sum of measures, each with its factor; empty where it is not measured."""
_Rows = tuple[Count, str | None, str | None]


@dataclass(frozen=True, slots=True)
class _Place:
    """A choice, in its table, and those of the same values, in the order of their targets, all by their indices.

    Attributes:
        weighed: What counts the values that it is chosen among.
    """

    table: NoisyTable | AddedTable
    own: int
    all: tuple[int, ...]
    weighed: _Weighed

    @property
    def ids(self) -> tuple[str, ...]:
        """What its interval is computed from."""
        measures = self.table.aggregate.measures
        return (*(measures[i].id for i in self.all), *(id for id, _ in self.weighed))


@dataclass(slots=True, kw_only=True)
class Choices:
    """The choices of released tables.

    Attributes:
        tables: The released tables.
        whole: Ids of the choices among values that are never NULL.
        halved: Totals that are measured in two parts.
        twice: Ids of what is read twice: rows of both copies stand beside each other, so no value bounds another.
    """

    tables: Sequence[NoisyTable | AddedTable]
    whole: frozenset[str]
    twice: frozenset[str]
    halved: Sequence[Halved] = ()
    _places: dict[str, _Place] = field(default_factory=dict)
    _found: dict[object, Sequence[Interval | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for table in self.tables:
            measures, sharing = table.aggregate.measures, dict[object, list[int]]()
            counts = self._counts(measures)
            for own, measure in enumerate(measures):
                if measure.count in CHOICES:
                    sharing.setdefault((measure.count, measure.value, measure.filter, measure.lattice), []).append(own)
            for indices in sharing.values():
                indices.sort(key=lambda i: measures[i].target or Fraction(0))
                together = tuple(indices)
                for own in together:
                    self._places[measures[own].id] = _Place(table, own, together, self._weighed(counts, measures[own]))

    def _counts(self, measures: Sequence[Measure]) -> dict[_Rows, _Weighed]:
        """Returns what counts rows, or those in which a value is not NULL: a measure, or else all terms of a vector."""
        counts: dict[_Rows, _Weighed] = {}
        for measure in measures:
            if measure.count in COUNTS:
                counts[measure.count, measure.value, measure.filter] = ((measure.id, 1.0),)
        own = {measure.id for measure in measures}
        for one in self.halved:
            if one.total.count in COUNTS and own.issuperset(one.parts):
                total = one.total
                counts.setdefault((total.count, total.value, total.filter), tuple((id, 1.0) for id in one.parts))
        for terms in families(measures):
            first, made = terms[0], tuple((term.id, float(share(term))) for term in terms)
            if first.second is None:
                counts.setdefault((Count.VALUES, first.value, first.filter), made)
            if all(term.id in self.whole for term in terms):
                counts.setdefault((Count.ROWS, None, first.filter), made)
        return counts

    def _weighed(self, counts: Mapping[_Rows, _Weighed], choice: Measure) -> _Weighed:
        """Returns what counts the values that a quantile is chosen among."""
        if choice.count is not Count.QUANTILE:
            return ()
        rows = counts.get((Count.ROWS, None, choice.filter), ()) if choice.id in self.whole else ()
        return counts.get((Count.VALUES, choice.value, choice.filter), rows)

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def behind(self, ids: Iterable[str]) -> frozenset[str]:
        """Returns all measures that intervals of these are computed from."""
        places = [self._places[id] for id in ids if id in self._places and id not in self.twice]
        families = {place.all: place for place in places if place.weighed}
        return frozenset(id for place in families.values() for id in place.ids)

    def rank_error(self, id: str, values: Mapping[str, list[Any]], failure: Fraction) -> RankError:
        """Returns how far a choice may be off in ranks; `values` are the answer's columns, by id."""
        place = self._places[id]
        ranks, small = errors_in(place.table, failure)[place.own], 0
        if self._is_known(place.weighed, values):
            small = int((_total(place.weighed, values) <= 2 * ranks).sum())
        return RankError(ranks, place.table.aggregate.measures[place.own].target, small)

    def interval(
        self, id: str, values: Mapping[str, list[Any]], widths: Widths, failure: Fraction, *, each: bool = False
    ) -> Interval | None:
        """Returns an interval of what a choice stands for; None where nothing is known of it.

        Args:
            values: The answer's columns, by id.
            failure: With which probability it may not hold; with `each`, each noisy number that is read.
        """
        place = self._places[id]
        if not self._is_known(place.weighed, values) or self.twice & {*place.ids}:
            return None
        key = (place.all, place.weighed, failure, each)
        if key not in self._found:
            self._found[key] = _brackets(place, values, widths, failure if each else failure / len(place.ids))
        return self._found[key][place.all.index(place.own)]

    def _is_known(self, weighed: _Weighed, values: Mapping[str, list[Any]]) -> bool:
        return bool(weighed) and all(id in values and id not in self.twice for id, _ in weighed)


def _total(weighed: _Weighed, values: Mapping[str, list[Any]]) -> Floats:
    parts = [factor * _floats(values[id]) for id, factor in weighed]
    total: Floats = np.sum(parts, axis=0)
    return total


def _brackets(
    place: _Place, values: Mapping[str, list[Any]], widths: Widths, failure: Fraction
) -> Sequence[Interval | None]:
    """Returns the intervals of choices among the same values, where each noisy number fails with a probability."""
    measures, table = place.table.aggregate.measures, place.table
    lattice = measures[place.own].lattice
    off = sum(factor * widths(id, failure) for id, factor in place.weighed)
    weight = _total(place.weighed, values) - off
    if lattice is None or not np.isfinite(weight).any():
        return [None] * len(place.all)
    ranks, nothing = errors_in(table, failure), np.full_like(weight, np.nan)
    chosen = [
        ReleasedChoice(
            target=measures[i].target or Fraction(0),
            ranks=ranks[i],
            beyond=_beyond(table, i),
            values=_floats(values[measures[i].id]) if measures[i].id in values else nothing,
        )
        for i in place.all
    ]
    lower, upper = (float(end * lattice.grid) for end in (lattice.lower, lattice.upper))
    with np.errstate(invalid="ignore"):
        return brackets(chosen, weight, lower, upper)


def errors_in(table: NoisyTable | AddedTable, failure: Fraction) -> Sequence[float]:
    """Returns how many ranks each choice of a table is off at most, but with a probability; 0 for other numbers."""
    if isinstance(table, AddedTable):
        if table.ranks is None:
            raise InternalError("a stored choice does not know how far it is off")
        return table.ranks(failure)
    return rank_errors(table.aggregate, [noise.choosing for noise in table.noises], failure)


def _beyond(table: NoisyTable | AddedTable, index: int) -> float:
    aggregate: PrivateAggregate = table.aggregate
    measure, noise = aggregate.measures[index], table.noises[index]
    if measure.target not in (0, 1) or not isinstance(noise, NoiseLaw):
        return 0.0
    drawn, weight = asked(aggregate, measure)
    return (rank_of_extreme(drawn, noise.parameter) - 1) * float(step_of(drawn, weight))


def _floats(values: list[Any]) -> Floats:
    """Returns numbers as floats; NaN for what is none, as a date."""
    numbers = (float(v) if isinstance(v, int | float | Decimal) else math.nan for v in values)
    return np.fromiter(numbers, np.float64, len(values))


def sentence(errors: Mapping[str, RankError], confidence: float) -> str:
    """Returns how far the chosen values of an answer may be off, for people.

    Example:
        >>> sentence({"m": RankError(11.2, Fraction(1, 2)), "low": RankError(1.0, Fraction(0))}, 0.95)
        'rank errors, 95 %: m within 12 ranks of the median, low within 1 rank of the minimum'
    """
    told = [f"{name} {error} of {error.of}" for name, error in errors.items() if error.target is not None]
    told += [
        f"{name} at most {math.ceil(error.ranks):,} rows rarer than {error.of}"
        for name, error in errors.items()
        if error.target is None
    ]
    more = f" and {len(told) - MOST_NAMED} more columns" if len(told) > MOST_NAMED else ""
    return f"rank errors, {confidence * 100:g} %: {', '.join(told[:MOST_NAMED])}{more}"
