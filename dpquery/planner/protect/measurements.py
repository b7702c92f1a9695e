"""Aggregates to measures: which integers to measure, and how the aggregates follow from them.

Aggregates of the same values share measures: COUNT(*), SUM(x), AVG(x) and STDDEV(x) are one set of moments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.accuracy.counting import Halved
from dpquery.errors import MissingBoundsError
from dpquery.kernel.plan import Count, Lattice, Measure, Second, Total
from dpquery.plan.aggregates.aggregate import Squares
from dpquery.plan.aggregates.derivations import around, clamped, ratio, where_more, without_number
from dpquery.plan.aggregates.moments import WIDEST_SPREAD, argument_of
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Call, Cast, Column, Expression, substitute
from dpquery.plan.functions import cast
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import AggregateColumn, Computed
from dpquery.plan.ranges import Range
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TIMESTAMP, Type, Value
from dpquery.planner.protect import lattices, linear
from dpquery.planner.protect.case_filters import and_also, condition_of, filtered, shares
from dpquery.planner.protect.complements import cells, same_rows, sum_of
from dpquery.planner.protect.key_extremes import places, public_keys, told
from dpquery.planner.protect.labels import label_of, term_of
from dpquery.planner.protect.totals import Scaling
from dpquery.planner.protect.vectors import Moments, Vector, degrees, pair_with, powers, term, values_of


@dataclass(slots=True, kw_only=True)
class MeasurementSet:
    """The measures of one boundary, each once.

    Attributes:
        prefix: What the ids of measures begin with; unique in the plan.
        ranges: What is known of the source's columns.
        ranges_by_rows: The same where no unit has more rows than `max_rows`; used where the former give no bounds.
        units: Ids of the source's columns that hold the privacy unit.
        rows: What the rows of one unit weigh at most.
        single: Whether a unit has one row at most.
        selects: Whether groups are selected, so that units are counted in any case.
        describe: An expression to a text for people.
        domain: The public values of an expression, or None.
        scalings: How columns may be added up that have a `max_total`.
        different: The most different values of an expression, and pairs of these and groups of one unit, if known.
    """

    prefix: str
    ranges: dict[str, Range]
    ranges_by_rows: dict[str, Range]
    units: frozenset[str]
    rows: int
    single: bool
    selects: bool
    describe: Callable[[Expression], str]
    domain: Callable[[Expression], tuple[Value, ...] | None]
    scalings: Mapping[str, Scaling] = field(default_factory=dict)
    different: Callable[[Expression], tuple[int | None, int | None]] = lambda _: (None, None)
    known: dict[object, Measure] = field(default_factory=dict)
    """What is measured, by all of it but its id and label."""
    made: int = 0  # also those that are sums of others now
    inputs: dict[Expression, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    """Ids of sums and quantiles over values that are never NULL."""
    halved: list[Halved] = field(default_factory=list)
    moments: Collection[tuple[Expression | None, Expression | None]] = ()
    """Values, each with the condition of its rows, of which deviations and counts are measured in any case."""
    joint: bool = False
    """Whether moments are measured as vectors of Bernstein terms."""
    in_cells: bool = False
    """Whether a total and two parts are measured as cells."""
    vectors: dict[Moments, tuple[int, tuple[Lattice, ...]]] = field(default_factory=dict)
    """The degree of each vector, and the lattices of its values."""
    terms: dict[Moments, Vector] = field(default_factory=dict)
    """The vectors that some aggregate reads, whose terms are measured."""
    inside: Moments | None = None
    """Whose vector the aggregate reads that is being derived, if it is one of a pair."""
    limited: bool = False
    """Whether a value is clamped to what `max_rows` rows can make of it, because nothing else bounds it."""

    @property
    def found(self) -> list[Measure]:
        """The measures, in the order in which they were found."""
        return [*self.known.values()]

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The value and filter columns that the measures read."""
        return tuple(Computed(id=id, name="", expression=expression) for expression, id in self.inputs.items())

    def selection(self, *, in_rounds: bool) -> str:
        """Returns the id of the measure of units that selects groups: by their number, or in rounds."""
        return self._measure(Count.DECIDING if in_rounds else Count.UNITS, None, None, None).id

    def express(
        self, columns: tuple[AggregateColumn, ...], is_shared: Callable[[Measure], bool] = lambda _: False
    ) -> tuple[Computed, ...]:
        """Returns each aggregate as an expression over measures, which are added to `found`.

        Args:
            is_shared: Whether a measure with a filter is paid for in parallel with the same of other rows.
        """
        given, columns = columns, self._filtered(columns)
        splits = linear.split(columns, self.ranges, self.rows, joint=self.joint)
        shifted = {one.form.base for one in splits.values() if one.form.shift}  # these add up with numbers of rows
        self.scalings = {
            id: one for id, one in self.scalings.items() if id not in {b.id for b in shifted if isinstance(b, Column)}
        }
        over = tuple([splits[c.id].column or c if c.id in splits else c for c in columns])
        over = over if over == given else self._filtered(over)
        by_rows = shares(over)
        if self.joint:
            moments = [c for c in over if c.id not in by_rows]
            asked = degrees(moments, shifted, self.is_nullable).items()
            found = {moments: (degree, self._lattices_of(moments, degree, over)) for moments, degree in asked}
            self.vectors = {moments: (degree, each) for moments, (degree, each) in found.items() if each}
        self.moments = {side for c in over if c.id not in by_rows for side in c.function.deviations_of(c, self)}

        def expressed(asked: AggregateColumn, read: AggregateColumn) -> Expression:
            found = splits.get(asked.id)
            if found is not None and found.column is None:
                return linear.derived(asked, found.form, None, lambda: self.count(None, asked.filter))
            if found is not None and found.lattice is not None and read.function is SUM:
                total = self._sum_of(argument_of(read), read.filter, found.lattice)
                return linear.derived(asked, replace(found.form, shift=Fraction(0)), total, lambda: total)
            is_share = read.id in by_rows and (read.argument, read.filter) not in self.moments
            paired = values_of(read), read.filter
            self.inside = paired if read.second is not None and paired in self.vectors else None
            made = self._share(read) if is_share else read.function.derive(read, self)
            self.inside = None
            return (
                made
                if found is None
                else linear.derived(asked, found.form, made, lambda: self.count(found.form.base, asked.filter))
            )

        made = [expressed(a, read) for a, read in zip(columns, over, strict=True)]
        if [measure for measure in self.known.values() if measure.filter]:
            sums = self._in_cells(is_shared)
            made = [substitute(one, sums) for one in made]
        pairs = zip(columns, made, strict=True)
        return tuple(Computed(id=a.id, name=a.name, expression=cast(one, a.type)) for a, one in pairs)

    def _in_cells(self, is_shared: Callable[[Measure], bool]) -> dict[str, Expression]:
        """Returns what is measured in parts, as sums of these, by id."""
        made: dict[str, Expression] = {}
        inputs = {id: expression for expression, id in self.inputs.items()}
        for one in cells(self.found, inputs, self.is_nullable, several=self.in_cells):
            if not is_shared(one.like):
                continue
            filters = {same_rows(expression): expression for expression in self.inputs if expression.type == BOOLEAN}
            value, lattice = None if one.like.value is None else inputs[one.like.value], one.like.lattice
            parts = [
                self._measure(one.like.count, value, filters.get(same_rows(kept), kept), lattice, total=one.like.total)
                for kept in one.filters
            ]
            type = INT64 if value is None or lattice is None else lattices.measured_type(value.type, lattice)
            whole = sum_of([_read(part, type) for part in parts])
            self.halved.append(Halved(total=one.total, parts=tuple(part.id for part in parts)))
            made[one.total.id] = whole if whole.type == type else Cast(argument=whole, type=type)
            self.known = {of: measure for of, measure in self.known.items() if measure is not one.total}
        return made

    def _filtered(self, columns: tuple[AggregateColumn, ...]) -> tuple[AggregateColumn, ...]:
        return filtered(columns, lambda value: range_of(value, self.ranges))

    def bounds(self, column: AggregateColumn, value: Expression) -> tuple[Fraction, Fraction]:
        """Returns the bounds of a value that the aggregate reads; raises MissingBoundsError where there are none."""
        most, found = column.function.largest, "no bounds follow"
        for ranges in (self.ranges, self.ranges_by_rows):
            known = range_of(value, ranges)
            if known.lower is not None and known.upper is not None:
                if max(-known.lower, known.upper) <= most:
                    self.limited = self.limited or ranges is self.ranges_by_rows
                    return known.lower, known.upper
                found = f"no bounds within {float(most):.0e} follow"
        name = self.describe(value)
        which = "max_length" if isinstance(value, Call) and value.function == "length" else "bounds"
        read = ", ".join(self.describe(part) for part in (column.argument, column.second) if part is not None)
        raise MissingBoundsError(
            f"{column.name.upper()}({read}) has no finite sensitivity: {found} for {name}",
            advice=f"Declare {which} in the catalog, or write CLAMP({name}, lower, upper).",
            span=column.span,
        )

    def is_nullable(self, value: Expression) -> bool:
        """Whether the value can be NULL."""
        return range_of(value, self.ranges).nullable

    def count(self, value: Expression | None, kept: Expression | None) -> Expression:
        """Returns the number of rows whose value is not NULL; where it never is, of rows."""
        if (own := self._moments_of(value, kept)) is not None:
            return self._vector(own).count
        if value is not None and self.is_nullable(value):
            return _read(self._measure(Count.VALUES, without_number(value), kept, None), INT64)
        count = Count.UNITS if self.single and self.selects and kept is None else Count.ROWS
        counting = [m for m in self.vectors if m[1] == kept and not any(map(self.is_nullable, m[0]))]
        if count is Count.ROWS and counting:
            return self._vector(min(counting, key=lambda m: (self.vectors[m][0] + 1) ** len(m[0]))).count
        return _read(self._measure(count, None, kept, None), INT64)

    def distinct(self, value: Expression, kept: Expression | None) -> Expression:
        """Returns the number of different values; of the unit's own column, the number of units."""
        if isinstance(value, Column) and value.id in self.units:
            if self.single:
                return self.count(None, kept)
            return _read(self._measure(Count.UNITS, None, kept, None), INT64)
        limits = self.different(value)
        few, pairs = (max(1, limit) if limit is not None and limit < self.rows else None for limit in limits)
        return _read(self._measure(Count.DISTINCT, value, kept, None, different=few, pairs=pairs), INT64)

    def total(self, column: AggregateColumn) -> Expression:
        """Returns a SUM: of deviations and a count where these are measured in any case."""
        value = argument_of(column)
        lower, upper = self.bounds(column, value)
        lattices.check_room(column, value, max(-lower, upper), self.describe)
        if (own := self._moments_of(value, column.filter)) is not None:
            return cast(self._power(own, value, 1, Fraction(0)), column.type)
        if (value, column.filter) in self.moments:
            return self._shared_sum(column, lower, upper)
        scaling = self.scalings.get(value.id) if isinstance(value, Column) else None
        if scaling is not None and scaling.is_better(lower, upper, self.rows):
            scaled = self._measure(Count.SUM, value, column.filter, scaling.lattice, total=scaling.total)
            return _read(scaled, column.type)
        lattice = lattices.for_sum(value.type, lower, upper, self.rows)
        return _read(self._measure(Count.SUM, value, column.filter, lattice), column.type)

    def sum(
        self, value: Expression, kept: Expression | None, lower: Fraction, upper: Fraction, name: str = ""
    ) -> Expression:
        """Returns the sum of a value, which people read as `name`."""
        return self._sum_of(value, kept, lattices.for_sum(value.type, lower, upper, self.rows), name)

    def centre(self, value: Expression, lower: Fraction, upper: Fraction) -> Fraction:
        """Returns what deviations of a value are taken from."""
        lattice = lattices.for_deviations(value.type, lower, upper, self.rows)
        return lattice.offset * lattice.grid

    def deviations(
        self, value: Expression, kept: Expression | None, lower: Fraction, upper: Fraction, name: str = ""
    ) -> Expression:
        """Returns the sum of value - centre."""
        if (own := self._moments_of(value, kept)) is not None:
            return self._power(own, value, 1, self.centre(value, lower, upper))
        return self._sum_of(value, kept, lattices.for_deviations(value.type, lower, upper, self.rows), name)

    def squares(self, value: Expression, kept: Expression | None, lower: Fraction, upper: Fraction) -> Squares:
        """Returns the sum of squared deviations."""
        lattice = lattices.for_squares(value.type, lower, upper, self.rows)
        if (own := self._moments_of(value, kept)) is not None:
            centre = self.centre(value, lower, upper)
            return Squares(total=self._power(own, value, 2, centre), centre=centre, middle=Fraction(0))
        total = self._sum_of(value, kept, lattice)
        middle = lattice.offset_of_square * lattice.unit
        return Squares(total=total, centre=lattice.offset * lattice.grid, middle=middle)

    def quantile(self, column: AggregateColumn, value: Expression, target: Fraction) -> Expression:
        """Returns the choice of the value at a rank; of texts and truth values the choice of a public one's place."""
        if not (value.type.is_numeric or value.type in (DATE, TIMESTAMP)):
            return self._among_keys(column, value, target)
        lattice = lattices.for_quantile(value.type, *self.bounds(column, value))
        return _read(self._measure(Count.QUANTILE, value, column.filter, lattice, target=target), value.type)

    def _among_keys(self, column: AggregateColumn, value: Expression, target: Fraction) -> Expression:
        keys, numbers = places(column, value.type, self.describe(value), self.domain(value))
        among = lattices.for_quantile(INT64, Fraction(0), Fraction(len(keys) - 1))
        given = (told(value, keys, numbers), column.filter, among, f"{self.describe(value)} among its keys")
        return told(_read(self._measure(Count.QUANTILE, *given, target=target), INT64), numbers, keys)

    def most_frequent(self, column: AggregateColumn, value: Expression) -> Expression:
        """Returns the choice among the public values of the argument."""
        keys = public_keys(column, self.describe(value), self.domain(value))
        return _read(self._measure(Count.MODE, value, column.filter, None, domain=keys), column.type)

    def _lattices_of(
        self, moments: Moments, degree: int, columns: Sequence[AggregateColumn]
    ) -> tuple[Lattice, ...] | None:
        """Returns the lattices on which moments are one vector; None where a value has no width, or is scaled to a
        total."""
        (values, kept), found = moments, []
        for value in values:
            asking = [c for c in columns if value in (c.argument, c.second) and c.filter == kept]
            lower, upper = self.bounds(asking[0], value)
            scaling = self.scalings.get(value.id) if isinstance(value, Column) else None
            scaled = scaling is not None and scaling.is_better(lower, upper, self.rows)
            if value.type != FLOAT64 and max(-lower, upper) > 2**53:
                return None  # sums follow from terms in floats, which do not have these digits
            if not lower < upper <= lower + WIDEST_SPREAD or (scaled and all(one.function is SUM for one in asking)):
                return None
            found.append(lattices.for_terms(value.type, lower, upper, self.rows, degree, len(values)))
        return tuple(found)

    def _vector(self, moments: Moments) -> Vector:
        """Returns the terms of values, which are measured."""
        if moments in self.terms:
            return self.terms[moments]
        (first, *others), kept = moments
        degree, found = self.vectors[moments]
        terms = []
        for powers_of in powers(1 + len(others), degree):
            each = [term(lattice, power, degree) for lattice, power in zip(found, powers_of, strict=True)]
            second = (others[0], each[1]) if others else None
            terms.append(_read(self._measure(Count.SUM, first, kept, each[0], second=second), FLOAT64))
        self.terms[moments] = made = Vector(lattices=found, degree=degree, terms=tuple(terms))
        return made

    def _moments_of(self, value: Expression | None, kept: Expression | None) -> Moments | None:
        """Returns whose vector a value's moments are read from; None where there is none."""
        if self.inside is not None or value is None:
            return self.inside
        degrees = {moments: degree for moments, (degree, _) in self.vectors.items()}
        own: Moments = ((value,), kept)
        return own if own in degrees else pair_with(value, kept, degrees, self.is_nullable)

    def _power(self, moments: Moments, value: Expression, power: int, centre: Fraction) -> Expression:
        return self._vector(moments).sum({moments[0].index(value): (power, centre)})

    def products(self, first: Expression, second: Expression, centres: tuple[Fraction, Fraction]) -> Expression | None:
        """Returns the sum of products of deviations of a pair, from its vector; None where it has none."""
        if self.inside is None:
            return None
        places = (self.inside[0].index(value) for value in (first, second))
        factors = {place: (1, centre) for place, centre in zip(places, centres, strict=True)}
        return self._vector(self.inside).sum(factors)

    def _sum_of(self, value: Expression, kept: Expression | None, lattice: Lattice, name: str = "") -> Expression:
        measure = self._measure(Count.SUM, value, kept, lattice, name)
        return _read(measure, lattices.measured_type(value.type, lattice))

    def _shared_sum(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        """Returns a sum from deviations and a count."""
        value, centre = argument_of(column), self.centre(argument_of(column), lower, upper)
        deviations = self.deviations(value, column.filter, lower, upper)
        return around(centre, deviations, self.count(value, column.filter), column.type)

    def _share(self, column: AggregateColumn) -> Expression:
        """Returns the mean of an integer of 0 and 1: how many rows have 1, by how many are not NULL."""
        part = self.count(None, and_also(column.filter, condition_of(column.argument)))
        count = self.count(column.argument, column.filter)
        return where_more(count, 0, clamped(ratio(part, count), Fraction(0), Fraction(1)))

    def _measure(
        self,
        count: Count,
        value: Expression | None,
        kept: Expression | None,
        lattice: Lattice | None,
        name: str = "",
        *,
        target: Fraction | None = None,
        domain: tuple[Value, ...] | None = None,
        total: Total | None = None,
        second: tuple[Expression, Lattice] | None = None,
        different: int | None = None,
        pairs: int | None = None,
    ) -> Measure:
        """Returns the measure, the one already found if there is an equal one."""
        other = None if second is None else Second(value=self._input(second[0]) or "", lattice=second[1])
        asked = (count, self._input(value), self._input(kept), lattice, target, domain, total, other, different, pairs)
        if asked in self.known:
            return self.known[asked]
        self.made += 1
        shown = name or self._described(value)
        if lattice is not None and lattice.bernstein is not None:
            shown = term_of((shown, lattice), *([] if second is None else [(self._described(second[0]), second[1])]))
        made = Measure(
            id=f"{self.prefix}{self.made}",
            label=label_of(count, shown, self._described(kept), lattice, target),
            count=count,
            value=self._input(value),
            filter=self._input(kept),
            lattice=lattice,
            target=target,
            domain=domain,
            total=total,
            second=other,
            different=different,
            pairs=pairs,
        )
        self.known[asked] = made
        read = [one for one in (value, second and second[0]) if one is not None]
        if count in (Count.SUM, Count.QUANTILE) and not any(map(self.is_nullable, read)):
            self.whole.add(made.id)
        return made

    def _described(self, expression: Expression | None) -> str:
        return "" if expression is None else self.describe(expression)

    def _input(self, expression: Expression | None) -> str | None:
        if expression is None:
            return None
        return self.inputs.setdefault(expression, f"{self.prefix}v{len(self.inputs) + 1}")


def _read(measure: Measure, type: Type) -> Column:
    return Column(id=measure.id, type=type)
