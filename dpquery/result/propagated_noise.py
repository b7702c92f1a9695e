"""What is kept of noise while an answer is followed from its released tables up: copies, totals, reports, and laws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist

from dpquery.accuracy.combinations import law_of
from dpquery.accuracy.error_propagation import Factors, rounded_factors_of
from dpquery.accuracy.noise_shapes import shape_of, variance_of
from dpquery.accuracy.simulated import LEAST_OF_SUM, AnyLaw, SharedLaw, SimulatedLaw, half_width_of_sum
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import CHOICES, Key
from dpquery.kernel.release import NoisyTable
from dpquery.plan.aggregates.moments import AVG
from dpquery.plan.expr import Column, Expression, columns_of, substitute
from dpquery.plan.logical import Aggregate, AggregateColumn, Filter, Project, Relation, Released, Window, WindowColumn
from dpquery.plan.types import INT64
from dpquery.result import group_numbers
from dpquery.result.added_tables import LINEAR, AddedTable, AnyNoise, NoiseOfSum
from dpquery.result.group_numbers import Floats, Moved, Summed
from dpquery.result.inverse_variance import CombinedNoise

Meanings = dict[str, Expression]
Noises = Mapping[str, tuple[AnyNoise, Fraction]]
"""The noise of each measure by its id, and the unit of its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LooseSum:
    """The noise of a sum of `count` numbers of one law each, which may depend on each other.

    Attributes:
        direct: The noise of a release with a number of its own for each of them, if they are estimated by least squares
            from that and others.
    """

    noise: AnyNoise
    count: int
    direct: NoiseLaw | None = None

    def half_width(self, failure: Fraction) -> int:
        """Returns a w with P(|noise| > w) <= failure, in lattice steps.

        Numbers that are made of the same normal noises are normal together, and their sum's deviation is at most the
        sum of theirs; of others a union bound is known. No sum varies more by least squares than as it was released
        itself; and a sum of independent noises reaches, for its deviation, at most as far as one of them or a normal
        one: docs/concepts/accuracy.md.
        """
        widest = self.count * self.noise.half_width(failure if _is_normal(self.noise) else failure / self.count)
        if self.direct is None:
            return widest
        deviation = math.sqrt(variance_of(self.direct) + 1 / 12)  # and that of rounding it
        one = max(self.direct.half_width(failure) + 0.5, -NormalDist().inv_cdf(float(failure) / 2) * deviation)
        return min(widest, math.ceil(math.sqrt(self.count) * one))


@dataclass(slots=True, kw_only=True)
class PropagatedNoise(dict[str, str]):
    """As a dict: columns of a table that is read twice, under the id of the second copy, and their own ids.

    Attributes:
        tables: The released tables.
        measures: The ids of their noisy columns.
        variances: For columns that stand for the randomness of reports, how large it is, over what they stand beside.
        spread: Those of them that were met, and how large, over columns of released tables.
        totals: Sums of a measure over groups: its id, and of how many groups at most.
        moved: Numbers of a measure in another group.
        summed: Other sums and means of numbers of groups.
    """

    tables: Sequence[NoisyTable | AddedTable]
    measures: frozenset[str]
    variances: Mapping[str, Expression]
    spread: dict[str, Expression] = field(default_factory=dict)
    totals: dict[str, tuple[str, int]] = field(default_factory=dict)
    moved: dict[str, Moved] = field(default_factory=dict)
    summed: dict[str, Summed] = field(default_factory=dict)

    @property
    def noisy(self) -> frozenset[str]:
        """The ids of all noisy numbers, also of those that are made of others or kept under another id."""
        made = {*self.totals, *self.spread, *self.moved, *self.summed}
        return self.measures | made | {id for id, own in self.items() if own in self.measures or own in made}

    def of_groups(self, window: Window, meanings: Meanings) -> tuple[Window, Meanings]:
        """Returns a window with what its intervals need, and what its values and sums of other groups mean."""
        found, noisy = self.totals_of(window, meanings), self._noisy(window.source)
        asked = [] if noisy is None else [c for c in window.columns if c.id not in found and c.arguments]
        more, copies = list[WindowColumn](), dict[WindowColumn, str]()
        for column in sorted(asked, key=lambda each: not isinstance(each.arguments[0], Column)):  # which are no copies
            value = self._meant(column.arguments[0], meanings)
            if value is None or not group_numbers.is_exact(column, noisy or frozenset()):
                continue
            if group_numbers.is_picked(column):
                moved, made = self._picked(column, value, copies)
                found, more = found | moved, more + made
            elif column.function in ("sum", "avg") and self._adds_up(column.id, value, column.function == "avg"):
                found |= _with_rows(column)
                more.append(group_numbers.counting(column))
        return replace(window, columns=(*window.columns, *more)) if more else window, found

    def of_aggregate(self, aggregate: Aggregate, meanings: Meanings) -> tuple[Aggregate, Meanings]:
        """Returns an aggregation of groups with what its intervals need, and what its sums and means mean."""
        noisy, found, more = self._noisy(aggregate.source), dict[str, Expression](), list[AggregateColumn]()
        for column in () if noisy is None else group_numbers.added_up_by(aggregate, noisy):
            value = None if column.argument is None else self._meant(column.argument, meanings)
            if value is not None and self._adds_up(column.id, value, column.function is AVG):
                found |= _with_rows(column)
                more.append(group_numbers.counting_groups(column))
        return replace(aggregate, aggregates=(*aggregate.aggregates, *more)) if more else aggregate, found

    def _noisy(self, source: Relation) -> frozenset[str] | None:
        """Returns the noisy columns of rows that are each a public group of one released table; None of other rows."""
        exact = [frozenset(id for key in table.aggregate.keys for id in key.columns) for table in self.tables]
        public = [not table.aggregate.is_selected for table in self.tables]
        return group_numbers.noisy_of_groups(source, exact.__getitem__, public.__getitem__)

    def _meant(self, argument: Expression, meanings: Meanings) -> Expression | None:
        """Returns what an expression means, where all noise in it is that of measures that are no choices."""
        if not meanings.keys() >= {read.id for read in columns_of(argument)}:
            return None
        value = substitute(argument, meanings)
        read = {column.id for column in columns_of(value)} & self.noisy
        measures = (measure for table in self.tables for measure in table.aggregate.measures)
        return value if read and read <= {m.id for m in measures if m.count not in CHOICES} else None

    def _picked(
        self, column: WindowColumn, value: Expression, copies: dict[WindowColumn, str]
    ) -> tuple[Meanings, list[WindowColumn]]:
        """Returns the meaning of a value of another row, and columns with what it is computed from, of that row.

        Args:
            copies: The ids of columns that are copied so already; gets those made.
        """
        moved, more = dict[str, Expression](), list[WindowColumn]()
        for leaf in dict.fromkeys(columns_of(value)):
            made = group_numbers.picking(column, leaf)
            id = copies.get(made)
            if id is None:
                id = copies[made] = (
                    column.id if leaf == value and len(column.arguments) < 3 else f"{column.id}_{leaf.id}"
                )
                more += [] if id == column.id else [replace(made, id=id)]
            moved[leaf.id] = Column(id=id, type=leaf.type)
            if leaf.id in self.measures:
                self.moved[id] = Moved(measure=leaf.id, is_other=group_numbers.is_of_other(column))
        leaves: Meanings = {leaf.id: leaf for each in moved.values() for leaf in columns_of(each)}
        return leaves | {column.id: substitute(value, moved)}, more

    def _adds_up(self, id: str, value: Expression, is_mean: bool) -> bool:
        """Whether a value is a sum of noisy numbers with constant factors; then what adds it up is noted."""
        found = rounded_factors_of(value, self.noisy.__contains__)
        if not found or not found[0]:
            return False
        factors, widths = found
        rounded = sum((abs(factors[id]) * width for id, width in widths.items()), start=Fraction(0))
        factors = {id: factor for id, factor in factors.items() if id not in widths}
        self.summed[id] = Summed(factors=factors, rounded=rounded, rows=group_numbers.rows_of(id), is_mean=is_mean)
        return True

    def totals_of(self, window: Window, meanings: Meanings) -> Meanings:
        """Returns the meanings of a window's plain sums of a measure over public groups: noisy numbers of their own."""
        found: Meanings = {}
        for column in window.columns:
            argument = column.arguments[0] if column.arguments else None
            value = meanings.get(argument.id) if isinstance(argument, Column) else None
            plain = column.function == "sum" and not (column.filter or column.order_by or column.frame)
            if plain and isinstance(value, Column) and value.id in self.measures and _is_released(window.source):
                count = self._groups(value.id, _below(window.source, column.partition_by))
                if count is not None:
                    self.totals[column.id] = (value.id, count)
                    found[column.id] = Column(id=column.id, type=column.type)
        return found

    def _groups(self, measure: str, kept: Sequence[str]) -> int | None:
        for table in self.tables:
            if any(known.id == measure for known in table.aggregate.measures):
                return None if table.aggregate.is_selected else math.prod(_most(k, kept) for k in table.aggregate.keys)
        return None

    def sums(self, noises: Noises) -> dict[str, tuple[AnyNoise | LooseSum, Fraction]]:
        """Returns the noise of each total, and the unit of its numbers."""
        known = ((id, measure, count) for id, (measure, count) in self.totals.items() if measure in noises)
        return {id: (self._sum_of(m, noises[m][0], count), noises[m][1]) for id, m, count in known}

    def _sum_of(self, measure: str, noise: AnyNoise, count: int) -> AnyNoise | LooseSum:
        """Returns the noise of a sum of a measure's numbers of so many groups."""
        one, parts = (noise.noise, noise.count) if isinstance(noise, NoiseOfSum) else (noise, 1)
        if isinstance(one, NoiseLaw) and (one.is_added or self.is_fresh(measure)):  # each group has noise of its own
            return NoiseOfSum(noise=one, count=parts * count)
        return LooseSum(noise=noise, count=count, direct=self._direct(measure))

    def _direct(self, measure: str) -> NoiseLaw | None:
        for table in self.tables:
            for place, known in enumerate(table.aggregate.measures):
                if known.id == measure:
                    return table.direct(place) if isinstance(table, AddedTable) else None
        return None

    def is_fresh(self, measure: str) -> bool:
        """Whether a measure is released by this query, so that each group has noise of its own."""
        tables = [table.aggregate for table in self.tables if isinstance(table, NoisyTable)]
        return any(known.id == measure for aggregate in tables for known in aggregate.measures)

    def half_widths(self, id: str, counts: Iterable[object], noises: Noises, failure: Fraction) -> Floats:
        """Returns how far a sum or mean of numbers of groups may be off, but with a probability, shape (rows,).

        Args:
            counts: Of how many groups, row by row.
            noises: Of each measure, and the unit of its numbers.
        """

        def width(factors: Factors, count: int) -> Fraction:
            """Returns how far a sum of so many groups' numbers is off, but for rounding them."""
            parts = [(abs(by) * noises[m][1], self._sum_of(m, noises[m][0], count)) for m, by in factors.items()]
            unit, first = parts[0]
            if isinstance(first, NoiseOfSum) and all(part == parts[0] for part in parts):  # as many more numbers
                return unit * replace(first, count=first.count * len(parts)).half_width(failure)
            plain = sum((by * noise.half_width(failure / len(parts)) for by, noise in parts), start=Fraction(0))
            laws = [
                (float(by), None if isinstance(noise, LooseSum) else _law(noise, 0, False, Fraction(1)))
                for by, noise in parts
            ]
            found = half_width_of_sum([(by, law) for by, law in laws if law is not None], float(failure))
            return plain if found is None or None in [law for _, law in laws] else min(plain, Fraction(found))

        return self.summed[id].half_widths(counts, width)

    def is_spread(self, id: str, meanings: Meanings) -> bool:
        """Whether a column stands for the randomness of reports; what is known of it is kept."""
        known = self.variances.get(id)
        if known is None or not all(column.id in meanings for column in columns_of(known)):
            return False
        self.spread[id] = substitute(known, meanings)
        return True


def _is_normal(noise: AnyNoise) -> bool:
    """Whether all that a noise is made of is normal."""
    parts = [part.noise for part in noise.components] if isinstance(noise, CombinedNoise) else [noise]
    laws = [part.noise if isinstance(part, NoiseOfSum) else part for part in parts]
    return all(isinstance(law, NoiseLaw) and shape_of(law.mechanism).is_stable for law in laws)


def _most(key: Key, kept: Sequence[str]) -> int:
    """Returns how many values of a public key agree in those of its columns that are kept, at most."""
    columns = [i for i, id in enumerate(key.columns) if id in kept]
    counted = Counter(tuple(values[i] for i in columns) for values in key.domain or ())
    return max(counted.values(), default=0)


def _below(relation: Relation, ids: Sequence[str]) -> Sequence[str]:
    """Returns the columns of a released table under these ids of what is projected and filtered of it."""
    if isinstance(relation, Project):
        named = {c.id: c.expression.id for c in relation.columns if isinstance(c.expression, Column)}
        return _below(relation.source, [named[id] for id in ids if id in named])
    return _below(relation.source, ids) if isinstance(relation, Filter) else ids


def _is_released(relation: Relation) -> bool:
    """Whether each row is a group of one released table."""
    if isinstance(relation, Project | Filter):
        return _is_released(relation.source)
    return isinstance(relation, Released)


def _with_rows(column: WindowColumn | AggregateColumn) -> Meanings:
    """Returns the meanings of a sum and of the number of groups in it: themselves."""
    rows = group_numbers.rows_of(column.id)
    return {column.id: Column(id=column.id, type=column.type), rows: Column(id=rows, type=INT64)}


Laws = Callable[[Collection[str]], dict[str, AnyLaw | None]]
"""Numbers that are read together to the noise of each, or None where it is not known."""


def laws_of(tables: Sequence[NoisyTable | AddedTable], again: PropagatedNoise) -> Laws:
    """Returns what is known of the noise of measures; nothing where a table is read twice, for noise may be shared.

    Another group of a released table has noise of its own, so what is read of one such group besides is known too.
    """
    twice = {*again, *again.values()}
    shared: dict[int, dict[str, SharedLaw]] = {}

    def law(id: str) -> AnyLaw | None:
        for number, table in enumerate(tables):
            noises: Sequence[AnyNoise] = table.noises
            for measure, noise in zip(table.aggregate.measures, noises, strict=True):
                if measure.id == id and id not in twice and measure.count not in CHOICES:
                    repeats = isinstance(table, AddedTable) and table.repeats
                    if number not in shared:
                        shared[number] = _shared_laws(table, number)
                    return shared[number].get(id) or _law(noise, number, repeats, measure.unit)
        return None

    def laws(ids: Collection[str]) -> dict[str, AnyLaw | None]:
        moved = [again.moved[id] for id in ids if id in again.moved]
        copies, apart = Counter(one.measure for one in moved), {one.measure for one in moved if one.is_other}
        known = {m for m, count in copies.items() if count == 1 and m in apart and again.is_fresh(m)} - twice
        own = {id: again.moved[id].measure if id in again.moved else id for id in ids}
        return {id: law(own[id]) if id not in twice and (own[id] == id or own[id] in known) else None for id in ids}

    return laws


def _shared_laws(table: NoisyTable | AddedTable, number: int) -> dict[str, SharedLaw]:
    """Returns the noise of the measures of a table that are estimated together, by id."""
    if not isinstance(table, AddedTable) or not any(isinstance(noise, CombinedNoise) for noise in table.noises):
        return {}
    places = [place for place, measure in enumerate(table.aggregate.measures) if measure.count in LINEAR]
    found = table.shared(table.aggregate, places)
    ids = [table.aggregate.measures[place].id for place in places] if found else []
    return {
        id: SharedLaw(table=number, is_added=table.repeats, shared=found, place=place)
        for place, id in enumerate(ids)
        if found is not None
    }


def _law(noise: AnyNoise, table: int, is_added: bool, step: Fraction) -> SimulatedLaw | None:
    if isinstance(noise, CombinedNoise):
        return None
    one, count = (noise.noise, noise.count) if isinstance(noise, NoiseOfSum) else (noise, 1)
    if not one.is_added:
        return None
    if count == 1:
        return law_of(one, float(step), table=table, is_added=is_added)
    scale = math.sqrt(variance_of(one) * count)
    if scale < LEAST_OF_SUM or not shape_of(one.mechanism).is_stable:
        return None
    return SimulatedLaw(table=table, is_added=is_added, mechanism=one.mechanism, scale=scale * float(step))
