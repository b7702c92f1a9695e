"""Aggregates to measures: which integers to measure, and how the aggregates follow from them.

Aggregates of the same values share measures: COUNT(*), SUM(x), AVG(x) and STDDEV(x) are one set of moments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.errors import MissingBoundsError, UnsupportedQueryError
from dpquery.kernel.plan import Count, Lattice, Measure
from dpquery.plan.aggregates import PAIRS
from dpquery.plan.expr import Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import AggregateColumn, Computed
from dpquery.plan.ranges import Range
from dpquery.plan.types import DATE, FLOAT64, INT64, TIMESTAMP, Kind, Type, Value, decimal
from dpquery.planner import lattices
from dpquery.planner.arithmetic import clamped, number, ratio, where_more, without_number
from dpquery.planner.conditional import filtered
from dpquery.planner.pairs import express_pair, sides_of

LARGEST, LARGEST_SQUARED = Fraction(10**290), Fraction(10**140)
"""Bounds on values whose sums, or sums of squares, stay finite as floats."""

WIDEST_SPREAD = Fraction(10) ** 140
"""Width of the range of a value whose variance can be computed in double precision."""

TARGETS = {"min": Fraction(0), "max": Fraction(1)}
"""Aggregates that are quantiles by another name."""
QUANTILES = (*TARGETS, "quantile_cont", "quantile_disc")

MOMENTS = ("avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")


@dataclass(slots=True, kw_only=True)
class Measures:
    """The measures of one boundary, each once.

    Attributes:
        prefix: What the ids of measures begin with; unique in the plan.
        ranges: What is known of the source's columns.
        ranges_by_rows: The same where no unit has more rows than `max_rows`; used where the former give no bounds.
        units: Ids of the source's columns that hold the privacy unit.
        rows: Rows that one unit may weigh in a group.
        groups: Groups in which one unit may weigh.
        selects: Whether groups are selected, so that units are counted in any case.
        describe: An expression to a text for people.
        domain: The public values of an expression, or None.
    """

    prefix: str
    ranges: dict[str, Range]
    ranges_by_rows: dict[str, Range]
    units: frozenset[str]
    rows: int
    groups: int
    selects: bool
    describe: Callable[[Expression], str]
    domain: Callable[[Expression], tuple[Value, ...] | None]
    found: list[Measure] = field(default_factory=list)
    inputs: dict[Expression, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    """Ids of sums over values that are never NULL."""

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The value and filter columns that the measures read."""
        return tuple(Computed(id=id, name="", expression=expression) for expression, id in self.inputs.items())

    def selection(self) -> str:
        """Returns the id of the measure that counts units, for selecting groups."""
        return self._measure(Count.UNITS, None, None, None).id

    def express(self, columns: tuple[AggregateColumn, ...]) -> tuple[Computed, ...]:
        """Returns each aggregate as an expression over measures, which are added to `found`."""
        columns = filtered(columns, lambda value: range_of(value, self.ranges), MOMENTS)
        moments = {(c.argument, c.filter) for c in columns if c.function in MOMENTS}
        moments |= {side for c in columns if c.function in PAIRS for side in sides_of(c, self)}
        return tuple(
            Computed(id=c.id, name=c.name, expression=self._express(c, (c.argument, c.filter) in moments))
            for c in columns
        )

    def _express(self, column: AggregateColumn, shared: bool) -> Expression:
        if column.argument is None:
            return self._count(None, column.filter)
        if column.function in PAIRS:
            return express_pair(column, self)
        if column.function == "count":
            return self._count(column.argument, column.filter)
        if column.function == "count_distinct":
            is_unit = isinstance(column.argument, Column) and column.argument.id in self.units
            if is_unit:
                return _read(self._measure(Count.UNITS, None, column.filter, None), INT64)
            return _read(self._measure(Count.DISTINCT, column.argument, column.filter, None), INT64)
        if column.function == "mode":
            return self._mode(column)
        if column.function in QUANTILES:
            return self._quantile(column)
        lower, upper = self.bounds(column, column.argument)
        if column.function == "sum":
            return self._shared_sum(column, lower, upper) if shared else self._plain_sum(column, lower, upper)
        mean = self._mean(column, lower, upper)
        if column.function == "avg":
            return mean
        return self._spread(column, lower, upper)

    def bounds(self, column: AggregateColumn, value: Expression) -> tuple[Fraction, Fraction]:
        """Returns the bounds of a value that the aggregate reads; raises MissingBoundsError where there are none."""
        most, found = LARGEST if column.function in ("sum", "avg") else LARGEST_SQUARED, "no bounds follow"
        for ranges in (self.ranges, self.ranges_by_rows):
            known = range_of(value, ranges)
            if known.lower is not None and known.upper is not None:
                if max(-known.lower, known.upper) <= most:
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
        return _read(measure, FLOAT64 if lattice.squared else sum_type(value.type))

    def variance(
        self, value: Expression, kept: Expression | None, count: Expression, lower: Fraction, upper: Fraction
    ) -> Expression:
        """Returns the mean squared deviation less the squared mean deviation, before any clamp."""
        weight = self.rows * self.groups
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
                f"{column.name.upper()}({name}) has no public values to choose from",
                advice=f"Declare keys for the column in the catalog, or write CASE {name} WHEN ... THEN ... END.",
                span=column.span,
            )
        return _read(self._measure(Count.MODE, column.argument, column.filter, None, domain=domain), column.type)

    def _count(self, argument: Expression | None, kept: Expression | None) -> Expression:
        """Returns COUNT(argument); where the argument is never NULL, it counts rows."""
        if argument is not None and range_of(argument, self.ranges).nullable:
            argument = without_number(argument)
            return _read(self._measure(Count.VALUES, argument, kept, None), INT64)
        count = Count.UNITS if self.rows == 1 and self.selects and kept is None else Count.ROWS
        return _read(self._measure(count, None, kept, None), INT64)

    def _plain_sum(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        assert column.argument is not None
        lattice = lattices.for_sum(column.argument.type, lower, upper, self.rows * self.groups)
        return _read(self._measure(Count.SUM, column.argument, column.filter, lattice), column.type)

    def _deviations(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> tuple[Expression, Lattice]:
        assert column.argument is not None
        lattice = lattices.for_deviations(column.argument.type, lower, upper, self.rows * self.groups)
        measure = self._measure(Count.SUM, column.argument, column.filter, lattice)
        return _read(measure, sum_type(column.argument.type)), lattice

    def _shared_sum(self, column: AggregateColumn, lower: Fraction, upper: Fraction) -> Expression:
        """Returns middle * count + sum of deviations."""
        deviations, lattice = self._deviations(column, lower, upper)
        middle = number(lattice.offset * lattice.grid, deviations.type)
        total = call("add", (call("multiply", (self._count(column.argument, column.filter), middle)), deviations))
        return total if total.type == column.type else Cast(argument=total, type=column.type)

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
                f"{column.name.upper()} of values this wide has no finite square",
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
    ) -> Measure:
        """Returns the measure, the one already found if there is an equal one."""
        made = Measure(
            id=f"{self.prefix}{len(self.found) + 1}",
            label=self._label(count, name or ("" if value is None else self.describe(value)), kept, lattice, target),
            count=count,
            value=self._input(value),
            filter=self._input(kept),
            lattice=lattice,
            target=target,
            domain=domain,
        )
        for known in self.found:
            if replace(made, id=known.id, label=known.label) == known:
                return known
        self.found.append(made)
        if count is Count.SUM and value is not None and not range_of(value, self.ranges).nullable:
            self.whole.add(made.id)
        return made

    def _input(self, expression: Expression | None) -> str | None:
        if expression is None:
            return None
        return self.inputs.setdefault(expression, f"{self.prefix}v{len(self.inputs) + 1}")

    def _label(
        self, count: Count, name: str, kept: Expression | None, lattice: Lattice | None, target: Fraction | None
    ) -> str:
        if lattice is not None and lattice.offset:
            sign = "-" if lattice.offset > 0 else "+"
            name = f"{name} {sign} {_short(abs(lattice.offset) * lattice.grid)}"
        if lattice is not None and lattice.squared:
            name = f"({name})^2"
        label = {
            Count.UNITS: "COUNT(DISTINCT unit)",
            Count.ROWS: "COUNT(*)",
            Count.VALUES: f"COUNT({name})",
            Count.DISTINCT: f"COUNT(DISTINCT {name})",
            Count.SUM: f"SUM({name})",
            Count.QUANTILE: _quantile_label(name, target),
            Count.MODE: f"MODE({name})",
        }[count]
        return label if kept is None else f"{label} FILTER (WHERE {self.describe(kept)})"


def _quantile_label(name: str, target: Fraction | None) -> str:
    known = {Fraction(0): "MIN", Fraction(1): "MAX", Fraction(1, 2): "MEDIAN"}.get(target or Fraction(0))
    return f"{known}({name})" if known else f"QUANTILE({name}, {_short(target or Fraction(0))})"


def sum_type(type: Type) -> Type:
    """Returns the type of a sum of values."""
    return decimal(38, type.scale) if type.kind is Kind.DECIMAL else type


def _read(measure: Measure, type: Type) -> Column:
    return Column(id=measure.id, type=type)


def _short(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
