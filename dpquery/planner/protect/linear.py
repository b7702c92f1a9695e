"""Sums of a x + k from the sum of x and the number of rows: SUM(a x + k) = a SUM(x) + k COUNT(x).

So twelve shifted sums are two measurements, a sum of prices in cents is that of prices, and the store finds both.
It is derived where no number gets more noise by it. Moments move too: AVG(a x + k) = a AVG(x) + k, with the same noise.

What a query means stays the same for all values that declarations allow: x is clamped to its bounds, which a x + k maps
to its own; a x + k is NULL where x is, as it is derived only where nothing between overflows or is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.errors import InternalError
from dpquery.kernel.plan import Lattice
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.derivations import number
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.expr import Call, Cast, Column, Expression, Literal
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import AggregateColumn
from dpquery.plan.ranges import Range, number_of
from dpquery.plan.types import FLOAT64, INT64, Kind, Type, Value, sum_type
from dpquery.planner.protect import lattices

EXACT_FLOAT = Fraction(2**53)
"""Integers up to here are floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """The value `factor` times `base` plus `shift`; without a base a constant."""

    base: Expression | None
    factor: Fraction
    shift: Fraction

    @property
    def is_plain(self) -> bool:
        """Whether it is the base itself."""
        return self.base is not None and self.factor == 1 and self.shift == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearForm:
    """An aggregate as `factor` times another one plus `shift` times the number of rows whose base is not NULL.

    Attributes:
        column: The other aggregate, over the base; None for sums of a constant.
        form: What its argument was.
        lattice: For a sum that would get more noise: it is measured as the sum of x + k / a, on this lattice of x.
    """

    column: AggregateColumn | None
    form: Linear
    lattice: Lattice | None = None


def linear_form(value: Expression, ranges: dict[str, Range]) -> Linear:
    """Returns a value as a x + k for the smallest part x that allows it; the value itself where nothing does.

    a is not 0, and in rows where x is not NULL and within its range the value is not NULL.
    """
    if isinstance(value, Column):
        return _itself(value)
    found = _parts(value, ranges)
    if found.base is None:
        return found
    known = range_of(found.base, ranges)
    if found.factor == 0 or known.lower is None or known.upper is None:
        return _itself(value)
    inner = Column(id="base", type=found.base.type)
    over = _replaced(value, found.base, inner)
    inside = {"base": replace(known, nullable=False)}
    outer = range_of(over, inside)
    ends = [found.factor * end + found.shift for end in (known.lower, known.upper)]
    return found if _never_null(over, inside) and _are_near((outer.lower, outer.upper), ends) else _itself(value)


def _itself(value: Expression) -> Linear:
    return Linear(base=value, factor=Fraction(1), shift=Fraction(0))


def _never_null(over: Expression, inside: dict[str, Range]) -> bool:
    """Whether a form gives a number for each of its base: integers and decimals overflow nowhere within the range.

    Floats have no such limit, and what is added to them or multiplied is finite and not 0, so that none becomes NaN.
    """
    match over:
        case Call() | Cast():
            parts = over.arguments if isinstance(over, Call) else (over.argument,)
            fits = over.type == FLOAT64 or not range_of(over, inside).nullable
            return fits and all(_never_null(part, inside) for part in parts)
        case _:
            return True


def _are_near(outer: tuple[Fraction | None, Fraction | None], ends: list[Fraction]) -> bool:
    """Whether a range is that of the ends but for the rounding of floats: so the clamp to it is the one of the base."""
    room = (abs(ends[0]) + abs(ends[1]) + 1) / 2**30
    pairs = zip(outer, (min(ends), max(ends)), strict=True)
    return all(bound is not None and abs(bound - end) <= room for bound, end in pairs)


def _replaced(value: Expression, part: Expression, column: Column) -> Expression:
    """Returns the value with its part replaced on the way that `_parts` goes."""
    if value == part:
        return column
    if isinstance(value, Cast):
        return replace(value, argument=_replaced(value.argument, part, column))
    if isinstance(value, Call):
        return replace(value, arguments=tuple(_replaced(one, part, column) for one in value.arguments))
    return value


def _parts(value: Expression, ranges: dict[str, Range]) -> Linear:
    """Returns a value as a x + k, regardless of overflow."""
    match value:
        case Literal() if value.type.is_numeric and value.value is not None and _is_finite(value.value):
            return Linear(base=None, factor=Fraction(0), shift=number_of(value.value) or Fraction(0))
        case Cast() if _keeps(value, ranges):
            return _parts(value.argument, ranges)
        case Call(function="negate", arguments=(part,)):
            return _times(_parts(part, ranges), Fraction(-1))
        case Call(function="add" | "subtract" | "multiply" | "divide", arguments=(first, second)):
            if not (value.type.is_numeric and first.type.is_numeric and second.type.is_numeric):
                return _itself(value)
            made = _operation(value.function, _parts(first, ranges), _parts(second, ranges), value.type)
            return _itself(value) if made is None else made
        case _:
            return _itself(value)


def _is_finite(value: Value) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _operation(function: str, a: Linear, b: Linear, type: Type) -> Linear | None:
    """Returns the result of an operation of which one side is a constant, or of adding what has one base, else None.

    Floats have a base on one side alone: infinities of which one is taken from the other are NULL.
    """
    is_one = a.base == b.base and type != FLOAT64 and function in ("add", "subtract")
    if a.base is not None and b.base is not None and not is_one:
        return None
    if function == "subtract":
        function, b = "add", _times(b, Fraction(-1))
    if function == "add":
        return Linear(base=a.base or b.base, factor=a.factor + b.factor, shift=a.shift + b.shift)
    if function == "multiply":
        return _times(a, b.shift) if b.base is None else _times(b, a.shift)
    if b.base is not None or b.shift == 0 or type != FLOAT64:
        return None
    return _times(a, 1 / b.shift)


def _times(form: Linear, by: Fraction) -> Linear:
    return Linear(base=form.base, factor=form.factor * by, shift=form.shift * by)


def _keeps(value: Cast, ranges: dict[str, Range]) -> bool:
    """Whether a cast changes no number within the argument's range, but for the rounding of a decimal to a float."""
    given, made = value.argument.type, value.type
    if made.kind is Kind.DECIMAL:
        return given.kind is Kind.INT64 or (given.kind is Kind.DECIMAL and given.scale <= made.scale)
    if made != FLOAT64 or not given.is_numeric:
        return False
    known = range_of(value.argument, ranges)
    return known.lower is not None and known.upper is not None and max(-known.lower, known.upper) <= EXACT_FLOAT


def split(
    columns: Sequence[AggregateColumn], ranges: dict[str, Range], rows: int, *, joint: bool = False
) -> dict[str, LinearForm]:
    """Returns for ids of aggregates what they are derived from.

    Args:
        ranges: What is known of the columns.
        rows: What the rows of one unit weigh at most.
        joint: Whether moments are measured as vectors: all that is asked of one value then has the noise of one.
    """
    families: dict[tuple[Expression | None, Expression | None], list[tuple[AggregateColumn, Linear]]] = {}
    for column in columns:
        if column.argument is not None and (column.function is SUM or column.function.is_moment):
            form = linear_form(column.argument, ranges)
            families.setdefault((form.base, column.filter), []).append((column, form))
    found: dict[str, LinearForm] = {}
    for (base, kept), family in families.items():
        one = _Family(members=family, base=base, ranges=ranges, rows=rows)
        counted = _is_counted(base, kept, columns, ranges)
        others = len(columns) - len(family) - counted
        if not one.is_exact:
            continue
        is_vector = joint and base is not None and (counted or len({f.shift / f.factor for _, f in family}) > 1)
        is_derived = is_vector or one.is_no_worse(is_counted=counted, others=others)
        for column, form in family:
            follows = is_derived or one.follows(column)
            lattice = None if follows else one.shifted_lattice(form)
            if not form.is_plain and (follows or lattice is not None):
                found[column.id] = replace(_split(column, form), lattice=lattice)
    return found


def _split(column: AggregateColumn, form: Linear) -> LinearForm:
    if form.base is None:
        return LinearForm(column=None, form=form)
    of = sum_type(form.base.type) if column.function is SUM else column.type
    return LinearForm(column=replace(column, argument=form.base, type=of), form=form)


def _is_counted(
    base: Expression | None, kept: Expression | None, columns: Sequence[AggregateColumn], ranges: dict[str, Range]
) -> bool:
    """Whether the rows in which the base is not NULL are counted in any case."""

    def counted(value: Expression | None) -> Expression | None:
        return value if value is not None and range_of(value, ranges).nullable else None

    counts = {(counted(c.argument), c.filter) for c in columns if c.function is COUNT}
    return (counted(base), kept) in counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The aggregates of one base and filter."""

    members: list[tuple[AggregateColumn, Linear]]
    base: Expression | None
    ranges: dict[str, Range]
    rows: int

    @property
    def sums(self) -> list[tuple[AggregateColumn, Linear]]:
        """Those that are sums."""
        return [(column, form) for column, form in self.members if column.function is SUM]

    @property
    def measured(self) -> set[Expression | None]:
        """The values of which deviations are measured."""
        return {column.argument for column, _ in self.members if column.function.is_moment}

    @property
    def is_exact(self) -> bool:
        """Whether sums have their digits, and stay sums of the same numbers: none on a lattice coarser than its type.

        Of constants there are sums alone.
        """
        if self.base is None and len(self.sums) < len(self.members):
            return False
        return all(self._has_digits(*one) and self._is_fine(one[0].argument) for one in self.sums) and (
            not self.sums or self._is_fine(self.base)
        )

    def _has_digits(self, column: AggregateColumn, form: Linear) -> bool:
        of = INT64 if self.base is None else sum_type(self.base.type)
        total, count = Column(id="sum", type=of), Column(id="count", type=INT64)
        return combined(column.type, form.factor, total, form.shift, count) is not None

    def _is_fine(self, value: Expression | None) -> bool:
        if value is None or value.type == FLOAT64:
            return True
        known = range_of(value, self.ranges)
        if known.lower is None or known.upper is None:
            return False
        return lattices.for_sum(value.type, known.lower, known.upper, self.rows).grid == Fraction(
            1, 10**value.type.scale
        )

    def follows(self, column: AggregateColumn) -> bool:
        """Whether an aggregate has the same noise either way: of moments, and of sums that share theirs."""
        return column.function is not SUM or column.argument in self.measured

    def shifted_lattice(self, form: Linear) -> Lattice | None:
        """Returns the lattice on which values of the base are those of x + k / a; None where it has no such steps."""
        if self.base is None:
            return None
        known = range_of(self.base, self.ranges)
        if known.lower is None or known.upper is None:
            return None
        lattice = lattices.for_sum(self.base.type, known.lower, known.upper, self.rows)
        offset = -form.shift / form.factor / lattice.grid
        return replace(lattice, offset=int(offset)) if offset.denominator == 1 else None

    def is_no_worse(self, *, is_counted: bool, others: int) -> bool:
        """Whether no sum gets more noise: of n measures each has the n-th part of the loss, or of the variance.

        Args:
            is_counted: Whether the number of rows is measured in any case.
            others: How many other aggregates share the loss.
        """
        own = [(column, form) for column, form in self.sums if not self.follows(column)]
        if not own:
            return True
        counts = is_counted or bool(self.measured)
        before = len({column.argument for column, _ in own}) + counts + bool(self.measured)
        needs = counts or any(form.shift for _, form in own)
        after = (self.base is not None) + needs
        known = Range(lower=Fraction(0), upper=Fraction(0)) if self.base is None else range_of(self.base, self.ranges)
        if known.lower is None or known.upper is None or after > before:
            return False
        middle = (known.lower + known.upper) / 2 if self.measured else Fraction(0)
        base = (known.lower - middle, known.upper - middle)
        for column, form in own:
            value = range_of(column.argument, self.ranges) if column.argument is not None else known
            if value.lower is None or value.upper is None:
                return False
            for size in (_largest, _width):
                derived = abs(form.factor) * size(*base) + abs(form.factor * middle + form.shift)
                if (after + others) * derived**2 > (before + others) * size(value.lower, value.upper) ** 2:
                    return False
        return True


def _largest(lower: Fraction, upper: Fraction) -> Fraction:
    """Returns what one row that comes or goes adds, at most."""
    return max(abs(lower), abs(upper))


def _width(lower: Fraction, upper: Fraction) -> Fraction:
    """Returns by how much one row in place of another, or of none, moves a sum at most."""
    return max(Fraction(0), upper) - min(Fraction(0), lower)


def derived(
    column: AggregateColumn, form: Linear, total: Expression | None, count: Callable[[], Expression]
) -> Expression:
    """Returns an aggregate of a x + k.

    Args:
        total: The same aggregate of x; None for a sum of constants.
        count: Makes the number of rows in which x is not NULL.
    """
    if column.function is SUM:
        rows = count() if form.shift else None
        made = combined(column.type, form.factor, total, form.shift, rows)
    else:
        made = None if total is None else column.function.moved(total, form.factor, form.shift)
    if made is None:
        raise InternalError(f"{column.function} is not derived from another")
    return made


def combined(
    type: Type, factor: Fraction, total: Expression | None, shift: Fraction, count: Expression | None
) -> Expression | None:
    """Returns factor * total + shift * count; None where it has not the digits of the type."""
    parts: list[Expression] = []
    for times, part in ((factor, total), (shift, count)):
        if part is None or times == 0:
            continue
        made = Cast(argument=part, type=FLOAT64) if type == FLOAT64 != part.type else part
        if abs(times) != 1:
            made = call("multiply", (made, number(times, type)))
        elif times < 0:
            made = call("negate", (made,))
        parts.append(made)
    if not parts:
        return number(Fraction(0), type)
    whole = parts[0] if len(parts) == 1 else call("add", (parts[0], parts[1]))
    return whole if type == FLOAT64 or whole.type.kind in (Kind.DECIMAL, Kind.INT64) else None
