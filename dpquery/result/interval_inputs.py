"""What intervals of an answer, and errors in ranks, are computed from when somebody asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dpquery.accuracy.counting import is_never_negative
from dpquery.accuracy.intervals import IntervalInputs, as_floats
from dpquery.accuracy.rounded_half_widths import half_width as half_width_of
from dpquery.accuracy.rules import Interval
from dpquery.accuracy.selection_intervals import shown_interval
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, Count
from dpquery.kernel.release import NoisyTable
from dpquery.plan.expr import Cast, Column, Expression, columns_of
from dpquery.result.added_tables import AddedTable, AnyNoise, NoiseOfSum
from dpquery.result.choices import Choices, RankError
from dpquery.result.group_numbers import Floats
from dpquery.result.propagated_noise import Laws, Noises, PropagatedNoise, laws_of
from dpquery.result.simultaneous import drawn, failure_of_each


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What intervals and errors in ranks of an answer are computed from, when somebody asks.

    Attributes:
        rows: Of the answer.
        found: For each noisy column of the answer its expression over released columns, where it has one.
        measures: The ids of all noisy columns, also of those that are kept under another id (`again`).
        behind: Those of them from which the choices that are read follow.
        drawn: Those whose noise is in the answer.
        shown: Measures that decided by themselves which groups are shown: their noise and tau.
        values: The columns that are read, row by row as in the answer, each a list (rows,).
        noises: The noise of each measure, and the unit of its numbers.
        widths: The half-width of a measure, by its id and the probability with which it may not hold.
        laws: The noise of measures that are read together.
    """

    rows: int
    found: Mapping[str, Expression | None]
    tables: Sequence[NoisyTable | AddedTable]
    measures: frozenset[str]
    again: PropagatedNoise
    choices: Choices | None
    drawn: frozenset[str]
    shown: Mapping[str, tuple[NoiseLaw, int]]
    values: Mapping[str, list[Any]]
    noises: Noises
    widths: Callable[[str, Fraction], float]
    laws: Laws

    @staticmethod
    def of(
        made: pa.Table,
        found: Mapping[str, Expression | None],
        tables: Sequence[NoisyTable | AddedTable],
        measures: frozenset[str],
        again: PropagatedNoise,
        choices: Choices | None,
        shown: Mapping[str, tuple[NoiseLaw, int]],
    ) -> Inputs:
        """Returns those of a table of the answer's columns and of what they are computed from."""
        read = {column.id for meaning in found.values() if meaning is not None for column in columns_of(meaning)}
        read |= {column.id for id in read & again.spread.keys() for column in columns_of(again.spread[id])}
        read |= {again.summed[id].rows for id in read & again.summed.keys()}
        behind = frozenset[str]() if choices is None else choices.behind(read)
        read |= behind & {*made.column_names}
        noises = _noises(tables)
        return Inputs(
            rows=len(made),
            found=found,
            tables=tables,
            measures=measures,
            again=again,
            choices=choices,
            drawn=frozenset(read & measures) | behind,
            shown=shown,
            values=_Lazy(made.select(sorted(read))),
            noises=noises,
            widths=_half_widths(noises, again),
            laws=laws_of(tables, again),
        )

    def measured(self, confidence: Fraction, at_once: bool) -> IntervalInputs:
        """Returns what intervals are computed from that hold each with the confidence, or all at once."""
        each = self._failing(confidence) if at_once else None

        def failure(sharing: int) -> Fraction:
            return (1 - confidence) / sharing if each is None else each

        def chosen(id: str, sharing: int) -> Interval | None:
            if id in self.shown:
                return shown_interval(*self.shown[id], as_floats(self.values[id]), failure(sharing))
            if self.choices is None or id not in self.choices:
                return None
            return self.choices.interval(id, self.values, self.widths, failure(sharing), each=each is not None)

        floors = (m.id for table in self.tables for m in table.aggregate.measures if is_never_negative(m))
        return IntervalInputs(
            rows=self.rows,
            columns=self.values,
            measures=self.measures,
            half_width=lambda id, sharing: self._half_width(id, failure(sharing)),
            chosen=chosen,
            laws=self.laws if each is None else dict.fromkeys,  # what is simulated holds for one cell by itself
            confidence=float(confidence) if each is None else 1 - float(each),
            variances=self.again.spread,
            floors=frozenset(floors),
            elsewhere=frozenset(self.again.moved),
        )

    def ranks(self, confidence: Fraction, at_once: bool) -> Mapping[str, RankError]:
        """Returns how many ranks off the columns are that show a choice as it is."""
        failure, known = self._failing(confidence) if at_once else 1 - confidence, self.choices
        themselves = {name: _itself(meaning, self.again) for name, meaning in self.found.items()}
        if known is None:
            return {}
        return {
            name: known.rank_error(id, self.values, failure)
            for name, id in themselves.items()
            if id is not None and id in known
        }

    def _half_width(self, id: str, failure: Fraction) -> float | Floats:
        """Returns the half-width of a noisy number; row by row of a sum of as many groups as another column says."""
        summed = self.again.summed.get(id)
        if summed is None:
            return self.widths(id, failure)
        if not {id, summed.rows}.isdisjoint(self.again.values()):  # of two copies, which rows' numbers is not known
            return math.nan
        return self.again.half_widths(id, self.values[summed.rows], self.noises, failure)

    def _failing(self, confidence: Fraction) -> Fraction:
        return failure_of_each(1 - confidence, drawn(self.drawn, self.tables, self.again))


def deciding(tables: Sequence[NoisyTable | AddedTable], taus: Mapping[str, int]) -> dict[str, tuple[NoiseLaw, int]]:
    """Returns the measures that decided by themselves which groups are shown: their noise and tau."""
    return {
        measure.id: (noise, taus[measure.id])
        for table in tables
        for measure, noise in zip(table.aggregate.measures, table.noises, strict=True)
        if measure.id == table.aggregate.selection and measure.count is Count.UNITS and measure.id in taus
        if isinstance(noise, NoiseLaw) and noise.steps == 1
    }


def _itself(meaning: Expression | None, again: Mapping[str, str]) -> str | None:
    """Returns the released column that a column of the answer shows as it is."""
    while isinstance(meaning, Cast):
        meaning = meaning.argument
    return again.get(meaning.id, meaning.id) if isinstance(meaning, Column) else None


class _Lazy(Mapping[str, list[Any]]):
    """An Arrow table's columns as lists, each made when it is read."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __getitem__(self, id: str) -> list[Any]:
        values: list[Any] = self._table[id].to_pylist()
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table.column_names)


def _noises(tables: Sequence[NoisyTable | AddedTable]) -> dict[str, tuple[AnyNoise, Fraction]]:
    """Returns the noise of each measure, except choices, and the unit of its numbers."""
    found: dict[str, tuple[AnyNoise, Fraction]] = {}
    for table in tables:
        noises: Sequence[AnyNoise] = table.noises
        for measure, noise in zip(table.aggregate.measures, noises, strict=True):
            if measure.count not in CHOICES:
                found[measure.id] = (noise, measure.unit)
    return found


def _half_widths(noises: Noises, again: PropagatedNoise) -> Callable[[str, Fraction], float]:
    known = {**noises, **again.sums(noises)}

    def half_width(id: str, failure: Fraction) -> float:
        own = again.get(id, id)
        own = again.moved[own].measure if own in again.moved else own
        if own not in known:
            return math.nan  # how far a choice is off in values depends on the data
        noise, step = known[own]
        one = noise.noise if isinstance(noise, NoiseOfSum) and noise.count == 1 else noise
        width = half_width_of(one, failure) if isinstance(one, NoiseLaw) else one.half_width(failure)
        return float(width * step)

    return half_width
