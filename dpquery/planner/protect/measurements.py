"""Aggregates to measures: which integers to measure, and how the aggregates follow from them.

Aggregates of the same values share measures: COUNT(*), SUM(x), AVG(x) and STDDEV(x) are one set of moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import assert_never

from dpquery.accuracy.arithmetic import clamped, number, ratio, where_more, without_number
from dpquery.errors import InternalError, MissingBoundsError, UnsupportedQueryError
from dpquery.kernel.plan import Count, Lattice, Measure, Total
from dpquery.plan.aggregates import PAIRS, Function
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call, cast
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import AggregateColumn, Computed
from dpquery.plan.ranges import Range
from dpquery.plan.types import DATE, FLOAT64, INT64, TIMESTAMP, Kind, Type, Value, decimal, sum_type
from dpquery.planner.protect import lattices, linear
from dpquery.planner.protect.conditional import and_also, condition_of, filtered, shares
from dpquery.planner.protect.labels import label_of
from dpquery.planner.protect.pairs import express_pair, sides_of
from dpquery.planner.protect.totals import Scaling

LARGEST, LARGEST_SQUARED = Fraction(10**290), Fraction(10**140)
"""Bounds on values whose sums, or sums of squares, stay finite as floats."""

MANY = 10**12
"""Values of the largest size whose sum, noise included, has to fit its type."""

COUNTED = decimal(19, 0)
"""The type of a count among decimals."""

WIDEST_SPREAD = Fraction(10) ** 140
"""Width of the range of a value whose variance can be computed in double precision."""

TARGETS = {Function.MIN: Fraction(0), Function.MAX: Fraction(1)}
"""Aggregates that are quantiles by another name."""

MOMENTS = (Function.AVG, Function.VAR_POP, Function.VAR_SAMP, Function.STDDEV_POP, Function.STDDEV_SAMP)


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
    known: dict[object, Measure] = field(default_factory=dict)
    """What is measured, by all of it but its id and label."""
    inputs: dict[Expression, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    """Ids of sums over values that are never NULL."""
    limited: bool = False
    """Whether a value is clamped to what `max_rows` rows can make of it, because nothing else bounds it."""

    @property
    def found(self) -> list[Measure]:
        """The measures, in the order in which they were found."""
        return list(self.known.values())

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The value and filter columns that the measures read."""
        return tuple(Computed(id=id, name="", expression=expression) for expression, id in self.inputs.items())

    def selection(self) -> str:
        """Returns the id of the measure that counts units, for selecting groups."""
        return self._measure(Count.UNITS, None, None, None).id

    def express(self, columns: tuple[AggregateColumn, ...]) -> tuple[Computed, ...]:
        """Returns each aggregate as an expression over measures, which are added to `found`."""
        columns = self._filtered(columns)
        splits = linear.split(columns, self.ranges, self.rows, MOMENTS)
        shifted = {one.form.base for one in splits.values() if one.form.shift}  # these add up with numbers of rows
        self.scalings = {
            id: one for id, one in self.scalings.items() if id not in {b.id for b in shifted if isinstance(b, Column)}
        }
        over = self._filtered(tuple(splits[c.id].column or c if c.id in splits else c for c in columns))
        by_rows = shares(over, MOMENTS)
        moments = {(c.argument, c.filter) for c in over if c.function in MOMENTS and c.id not in by_rows}
        moments |= {side for c in over if c.function in PAIRS for side in sides_of(c, self)}

        def expressed(asked: AggregateColumn, read: AggregateColumn) -> Expression:
            found = splits.get(asked.id)
            if found is not None and found.column is None:
                return linear.derived(asked, found.form, None, lambda: self._count(None, asked.filter))
            if found is not None and found.lattice is not None and read.function is Function.SUM:
                total = self.sum_of(_value(read), read.filter, found.lattice)
                return linear.derived(asked, replace(found.form, shift=Fraction(0)), total, lambda: total)
            is_shared = (read.argument, read.filter) in moments
            made = self._share(read) if read.id in by_rows and not is_shared else self._express(read, is_shared)
            return (
                made
                if found is None
                else linear.derived(asked, found.form, made, lambda: self._count(found.form.base, asked.filter))
            )

        pairs = zip(columns, over, strict=True)
        return tuple(Computed(id=a.id, name=a.name, expression=cast(expressed(a, read), a.type)) for a, read in pairs)

    def _filtered(self, columns: tuple[AggregateColumn, ...]) -> tuple[AggregateColumn, ...]:
        return filtered(columns, lambda value: range_of(value, self.ranges), MOMENTS)

    def _express(self, column: AggregateColumn, shared: bool) -> Expression:
        match column.function:
            case Function.COUNT:
                return self._count(column.argument, column.filter)
            case Function.COUNT_DISTINCT:
                return self._distinct(column)
            case Function.SUM:
                bounds = self.bounds(column, _value(column))
                self._check_room(column, _value(column), max(-bounds[0], bounds[1]))
                return self._shared_sum(column, *bounds) if shared else self._plain_sum(column, *bounds)
            case Function.AVG:
                return self._mean(column, *self.bounds(column, _value(column)))
            case Function.VAR_POP | Function.VAR_SAMP | Function.STDDEV_POP | Function.STDDEV_SAMP:
                return self._spread(column, *self.bounds(column, _value(column)))
            case Function.MIN | Function.MAX | Function.QUANTILE_CONT | Function.QUANTILE_DISC:
                return self._quantile(column)
            case Function.MODE:
                return self._mode(column)
            case (
                (Function.COVAR_POP | Function.COVAR_SAMP | Function.CORR | Function.REGR_SLOPE)
                | (Function.REGR_INTERCEPT | Function.REGR_R2 | Function.REGR_COUNT | Function.REGR_AVGX)
                | (Function.REGR_AVGY | Function.REGR_SXX | Function.REGR_SYY | Function.REGR_SXY)
            ):
                return express_pair(column, self)
            case (
                (Function.SUM_DISTINCT | Function.AVG_DISTINCT | Function.BOOL_AND | Function.BOOL_OR)
                | (Function.STRING_AGG | Function.ANY_VALUE | Function.FIRST | Function.LAST | Function.ARG_MIN)
                | (Function.ARG_MAX | Function.BIT_AND | Function.BIT_OR | Function.BIT_XOR)
            ):
                raise UnsupportedQueryError(
                    f"{column.name.upper()} over different privacy units has no private mechanism",
                    advice="Use it within one unit: GROUP BY the unit in an inner query.",
                    span=column.span,
                )
            case _:
                assert_never(column.function)

    def _distinct(self, column: AggregateColumn) -> Expression:
        """Returns the number of different values; of the unit's own column, the number of units."""
        if isinstance(column.argument, Column) and column.argument.id in self.units:
            if self.single:
                return self._count(None, column.filter)
            return _read(self._measure(Count.UNITS, None, column.filter, None), INT64)
        return _read(self._measure(Count.DISTINCT, _value(column), column.filter, None), INT64)

    def bounds(self, column: AggregateColumn, value: Expression) -> tuple[Fraction, Fraction]:
        """Returns the bounds of a value that the aggregate reads; raises MissingBoundsError where there are none."""
        most, found = LARGEST if column.function in ("sum", "avg") else LARGEST_SQUARED, "no bounds follow"
        for ranges in (self.ranges, self.ranges_by_rows):
            known = range_of(value, ranges)
            if known.lower is not None and known.upper is not None:
                if max(-known.lower, known.upper) <= most:
                    self.limited = self.limited or ranges is self.ranges_by_rows
                    return known.lower, known.upper
                found = f"no bounds within {float(most):.0e} follow"
        name = self.describe(value)
        arguments = ", ".join(self.describe(part) for part in (column.argument, column.second) if part is not None)
        raise MissingBoundsError(
            f"{column.name.upper()}({arguments}) has no finite sensitivity: {found} for {name}",
            advice=f"Declare bounds in the catalog, or write CLAMP({name}, lower, upper).",
            span=column.span,
        )

    def is_nullable(self, value: Expression) -> bool:
        """Whether the value can be NULL."""
        return range_of(value, self.ranges).nullable

    def count_of(self, value: Expression | None, kept: Expression | None) -> Expression:
        """Returns the number of rows whose value is not NULL; without a value, of rows."""
        return self._count(value, kept)

    def sum_of(self, value: Expression, kept: Expression | None, lattice: Lattice, name: str = "") -> Expression:
        """Returns the sum of the lattice's deviations of a value; `name` is what people read of it."""
        measure = self._measure(Count.SUM, value, kept, lattice, name)
        return _read(measure, measured_type(value.type, lattice))

    def variance(
        self, value: Expression, kept: Expression | None, count: Expression, lower: Fraction, upper: Fraction
    ) -> Expression:
        """Returns the mean squared deviation less the squared mean deviation, before any clamp."""
        weight = self.rows
        plain = lattices.for_deviations(value.type, lower, upper, weight)
        lattice = lattices.for_squares(value.type, lower, upper, weight)
        deviations, squares = self.sum_of(value, kept, plain), self.sum_of(value, kept, lattice)
        middle = number(lattice.offset_of_square * lattice.unit, FLOAT64)
        shift = number(plain.offset * plain.grid - lattice.offset * lattice.grid, FLOAT64)
        mean = call("add", (shift, ratio(deviations, count)))
        return call("subtract", (call("add", (middle, ratio(squares, count))), call("multiply", (mean, mean))))

    def _quantile(self, column: AggregateColumn) -> Expression:
        """Returns the choice of the value at a rank; QUANTILE_CONT and QUANTILE_DISC differ by less than its noise."""
        assert column.argument is not None
        given = column.argument.type
        if not (given.is_numeric or given in (DATE, TIMESTAMP)):
            raise UnsupportedQueryError(
                f"{column.name.upper()} over different privacy units needs numbers, dates or timestamps, not a {given}",
                advice="COUNT the values, or write MODE for the most frequent one of public keys.",
                span=column.span,
            )
        target = TARGETS.get(column.function, column.fraction)
        assert target is not None
        lower, upper = self.bounds(column, column.argument)
        lattice = lattices.for_quantile(given, lower, upper)
        chosen = _read(self._measure(Count.QUANTILE, column.argument, column.filter, lattice, target=target), given)
        return chosen if given == column.type else Cast(argument=chosen, type=column.type)

    def _mode(self, column: AggregateColumn) -> Expression:
        """Returns the choice among the public values of the argument."""
        assert column.argument is not None
        domain = self.domain(column.argument)
        if not domain:
            name = self.describe(column.argument)
            raise UnsupportedQueryError(
                f"{column.name.upper()}({name}) has no public keys to choose from",
                advice=f"Declare keys for the column in the catalog, or write CASE {name} WHEN ... THEN ... END.",
                span=column.span,
            )
        return _read(self._measure(Count.MODE, column.argument, column.filter, None, domain=domain), column.type)

    def _count(self, argument: Expression | None, kept: Expression | None) -> Expression:
        """Returns COUNT(argument); where the argument is never NULL, it counts rows."""
        if argument is not None and range_of(argument, self.ranges).nullable:
            argument = without_number(argument)
            return _read(self._measure(Count.VALUES, argument, kept, None), INT64)
        count = Count.UNITS if self.single and self.selects and kept is None else Count.ROWS
        return _read(self._measure(count, None, kept, None), INT64)

    def _check_room(self, column: AggregateColumn, value: Expression, largest: Fraction) -> None:
        if not _has_room(value.type, largest):
            name = self.describe(value)
            raise MissingBoundsError(
                f"SUM({name}) of values up to {float(largest):.0e} does not fit {sum_type(value.type)}",
                advice=f"CLAMP the value to narrower bounds, or write SUM(CAST({name} AS double precision)).",
                span=column.span,
            )

    def _plain_sum(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        assert column.argument is not None
        scaling = self.scalings.get(column.argument.id) if isinstance(column.argument, Column) else None
        if scaling is not None and scaling.is_better(lower, upper, self.rows):
            scaled = self._measure(Count.SUM, column.argument, column.filter, scaling.lattice, total=scaling.total)
            return _read(scaled, column.type)
        lattice = lattices.for_sum(column.argument.type, lower, upper, self.rows)
        return _read(self._measure(Count.SUM, column.argument, column.filter, lattice), column.type)

    def _deviations(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> tuple[Expression, Lattice]:
        assert column.argument is not None
        lattice = lattices.for_deviations(column.argument.type, lower, upper, self.rows)
        measure = self._measure(Count.SUM, column.argument, column.filter, lattice)
        return _read(measure, measured_type(column.argument.type, lattice)), lattice

    def _shared_sum(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        """Returns middle * count + sum of deviations, exact where 38 digits suffice."""
        deviations, lattice = self._deviations(column, lower, upper)
        middle = number(lattice.offset * lattice.grid, deviations.type)
        count: Expression = self._count(column.argument, column.filter)
        if middle.type.kind is Kind.DECIMAL:
            count = Cast(argument=count, type=COUNTED)
        part: Expression = call("multiply", (count, middle))
        if part.type.kind is Kind.DECIMAL:
            part = Cast(argument=part, type=deviations.type)
        total = call("add", (part, deviations))
        return total if total.type == column.type else Cast(argument=total, type=column.type)

    def _share(self, column: AggregateColumn) -> Expression:
        """Returns the mean of an integer of 0 and 1: how many rows have 1, by how many are not NULL."""
        part = self._count(None, and_also(column.filter, condition_of(column.argument)))
        count = self._count(column.argument, column.filter)
        return where_more(count, 0, clamped(ratio(part, count), Fraction(0), Fraction(1)))

    def _mean(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        """Returns middle + sum of deviations / count, within the bounds; NULL where the count is not positive."""
        count = self._count(column.argument, column.filter)
        deviations, lattice = self._deviations(column, lower, upper)
        middle = number(lattice.offset * lattice.grid, FLOAT64)
        mean = call("add", (middle, ratio(deviations, count)))
        return where_more(count, 0, clamped(mean, lower, upper))

    def _spread(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        """Returns the variance or standard deviation: mean squared deviation less squared mean deviation."""
        assert column.argument is not None
        if upper - lower > WIDEST_SPREAD:
            raise MissingBoundsError(
                f"{column.name.upper()} of values with such wide bounds has no finite square",
                advice="CLAMP the value to narrower bounds.",
                span=column.span,
            )
        count = self._count(column.argument, column.filter)
        spread = self.variance(column.argument, column.filter, count, lower, upper)
        width, least = (upper - lower) ** 2 / 4, 0
        if column.function.endswith("samp"):
            less = call("subtract", (count, Literal(value=1, type=INT64)))
            spread = call("multiply", (spread, ratio(count, less)))
            width, least = width * 2, 1
        spread = clamped(spread, Fraction(0), width)
        if column.function.startswith("stddev"):
            spread = call("sqrt", (spread,))
        return where_more(count, least, spread)

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
    ) -> Measure:
        """Returns the measure, the one already found if there is an equal one."""
        measured = (count, self._input(value), self._input(kept), lattice, target, domain, total)
        if measured in self.known:
            return self.known[measured]
        made = Measure(
            id=f"{self.prefix}{len(self.known) + 1}",
            label=label_of(count, name or self._described(value), self._described(kept), lattice, target),
            count=count,
            value=self._input(value),
            filter=self._input(kept),
            lattice=lattice,
            target=target,
            domain=domain,
            total=total,
        )
        self.known[measured] = made
        if count is Count.SUM and value is not None and not range_of(value, self.ranges).nullable:
            self.whole.add(made.id)
        return made

    def _described(self, expression: Expression | None) -> str:
        return "" if expression is None else self.describe(expression)

    def _input(self, expression: Expression | None) -> str | None:
        if expression is None:
            return None
        return self.inputs.setdefault(expression, f"{self.prefix}v{len(self.inputs) + 1}")


def measured_type(type: Type, lattice: Lattice) -> Type:
    """Returns the type of a measured sum of lattice values: exact where the digits of sums suffice, else float64."""
    return (
        FLOAT64 if lattice.squared or not _has_room(type, lattice.largest_deviation * lattice.grid) else sum_type(type)
    )


def _has_room(type: Type, largest: Fraction) -> bool:
    """Whether `MANY` values of this size add up within the type of their sum."""
    total = sum_type(type)
    return type.kind is Kind.FLOAT64 or largest * MANY < 10 ** (total.precision - total.scale)


def _value(column: AggregateColumn) -> Expression:
    """Returns the argument of an aggregate that has one."""
    if column.argument is None:
        raise InternalError(f"{column.function} has an argument")
    return column.argument


def _read(measure: Measure, type: Type) -> Column:
    return Column(id=measure.id, type=type)
