"""Aggregates over randomised reports become unbiased estimates over the values that were reported.

With k categories a report is the value with probability p and each other category with probability q. So for any h,
E h(report) = (p - q) h(value) + q H, H the sum of h over the categories: what is summed over reports, less q H times
what is summed over all rows, over p - q, is an unbiased estimate of the sum over values. Both sums are measured like
all others, with noise; the estimate is post-processing. docs/proofs/randomised-response.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dpquery.catalog import Catalog
from dpquery.catalog.tables import Randomized
from dpquery.errors import MissingBoundsError
from dpquery.plan.aggregates.aggregate import AggregateFunction
from dpquery.plan.aggregates.counts import COUNT
from dpquery.plan.aggregates.derivations import where_more
from dpquery.plan.aggregates.moments import AVG
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.definitions import definition
from dpquery.plan.evaluate import evaluate
from dpquery.plan.expr import Case, Cast, Column, Expression, Literal, columns_of, conjuncts, substitute
from dpquery.plan.functions import call
from dpquery.plan.intervals import range_of
from dpquery.plan.logical import (
    Aggregate,
    AggregateColumn,
    Computed,
    Filter,
    LogicalPlan,
    Project,
    Relation,
    Released,
    Window,
    WindowColumn,
    output,
    sources,
    with_sources,
)
from dpquery.plan.types import FLOAT64, INT64, Value, sum_type
from dpquery.planner.debias.chances import Chances, Weights, numbers_of, times, total_over, without_bias
from dpquery.planner.debias.reports import both, lifted, reading_reports, reads, refusal, repeats, stored
from dpquery.planner.ranges.ranges import ranges_of

ESTIMATED = (COUNT, SUM, AVG)
"""Aggregates that are debiased."""
ZERO = Literal(value=0.0, type=FLOAT64)
UNKNOWN = Literal(value=None, type=FLOAT64)

Variances = dict[str, Expression]


def debiased(
    logical: LogicalPlan, catalog: Catalog, *, max_rows: int | None, has_public_keys: Callable[[str, Relation], bool]
) -> tuple[LogicalPlan, Variances]:
    """Returns the plan with estimates instead of aggregates over reports, and what is known of their errors.

    Args:
        max_rows: Rows of one unit that count in a group, where the query says so.
        has_public_keys: Whether the groups of a column of a relation are public.
    Returns:
        The plan, and the variance of each column that stands for the randomness of reports: it is 0 in every row, and
        estimates are computed with it, so that intervals know of it.
    Raises:
        UnsupportedQueryError: Reports are read where no estimate is unbiased.
    """
    variances: Variances = {}
    boundaries: list[Aggregate] = []
    wrapped: dict[int, Relation] = {}
    for index, boundary in enumerate(logical.boundaries):
        in_family = any(index in family and len(family) > 1 for family in logical.families)
        one = _Boundary.over(index, boundary, catalog, max_rows, in_family, has_public_keys)
        if one is None:
            boundaries.append(boundary)
            continue
        wrapped[index] = one.estimates()
        boundaries.append(replace(boundary, source=one.source, aggregates=tuple(one.measured)))
        variances |= one.variances
    if not wrapped:
        return logical, {}
    result = _replace(logical.result, wrapped)
    return replace(logical, boundaries=tuple(boundaries), result=result), variances


def _replace(relation: Relation, wrapped: dict[int, Relation]) -> Relation:
    if isinstance(relation, Released):
        return wrapped.get(relation.index, relation)
    return with_sources(relation, tuple(_replace(source, wrapped) for source in sources(relation)))


@dataclass(slots=True, kw_only=True)
class _Boundary:
    """One aggregation over people, its measured sums, and the estimates computed from them."""

    index: int
    original: Aggregate
    source: Relation
    catalog: Catalog
    reports: dict[str, Randomized]
    """Stored columns of reports, by id."""
    tainted: frozenset[str]
    conditions: tuple[Expression, ...]
    """Of WHERE, moved here."""
    key: str | None
    repeats: int
    """How often one report may count in a group."""
    measured: list[AggregateColumn] = field(default_factory=list)
    windows: dict[str, WindowColumn] = field(default_factory=dict)
    noises: list[Computed] = field(default_factory=list)
    variances: Variances = field(default_factory=dict)

    @staticmethod
    def over(
        index: int,
        boundary: Aggregate,
        catalog: Catalog,
        max_rows: int | None,
        in_family: bool,
        has_public_keys: Callable[[str, Relation], bool],
    ) -> _Boundary | None:
        """Returns the aggregation with the conditions on reports moved into it; None where it reads no report."""
        source, conditions = lifted(boundary.source, catalog)
        tainted = reading_reports(source, catalog)
        read = [e for a in boundary.aggregates for e in (a.argument, a.second, a.filter) if e is not None]
        keys = [id for id in boundary.group_by if id in tainted]
        if not conditions and not keys and not any(reads(expression, tainted) for expression in read):
            return None
        made = _Boundary(
            index=index,
            original=boundary,
            source=source,
            catalog=catalog,
            reports=stored(source, catalog),
            tainted=tainted,
            conditions=conditions,
            key=keys[0] if keys else None,
            repeats=repeats(source, catalog, max_rows),
        )
        made.check_keys(keys, in_family, has_public_keys)
        return made

    def check_keys(self, keys: list[str], in_family: bool, has_public_keys: Callable[[str, Relation], bool]) -> None:
        """Refuses groups of reports that are not exactly the categories."""
        span = next(iter(self.original.spans), None)
        for id in keys:
            meaning, leaves = definition(id, self.source)
            if not isinstance(meaning, Column) or meaning.id not in self.reports.keys() & leaves.keys():
                reason = "groups of an expression over randomised reports cannot be debiased"
                raise refusal(reason, "Group by the column itself.", span)
        if len(keys) > 1:
            raise refusal("grouping by two columns of randomised reports is not supported", "Group by one.", span)
        if keys and in_family:
            reason = "a column of randomised reports cannot be used in ROLLUP, CUBE or GROUPING SETS"
            raise refusal(reason, "Write GROUP BY, once for each set.", span)
        if keys and not all(has_public_keys(id, self.source) for id in self.original.group_by):
            reason = "beside a column of randomised reports all keys are public: where groups are selected, some lack"
            raise refusal(reason, "Declare keys for the other columns of GROUP BY.", span)
        if not self.original.aggregates and self.conditions:
            reason = "which groups exist cannot be told under a condition on randomised reports"
            raise refusal(reason, "COUNT(*) the rows of each group.", span)

    def estimates(self) -> Relation:
        """Returns the released table with estimates under the ids of the query's aggregates."""
        made = [Computed(id=a.id, name=a.name, expression=self._estimate(a)) for a in self.original.aggregates]
        aggregate = replace(self.original, source=self.source, aggregates=tuple(self.measured))
        columns = output(aggregate)
        relation: Relation = Released(index=self.index, columns=columns)
        if self.windows:
            relation = Window(source=relation, columns=tuple(self.windows.values()))
        plain = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(relation)]
        relation = Project(source=relation, columns=(*plain, *self.noises))
        keys = [column for column in plain if column.id in self.original.group_by]
        relation = Project(source=relation, columns=(*keys, *made))
        if self.key is not None and self.conditions:
            relation = Filter(source=relation, condition=both([self._on_key(part) for part in self.conditions]))
        return relation

    def _on_key(self, condition: Expression) -> Expression:
        """Returns a condition on the grouped reports as one on the key of the estimates."""
        assert self.key is not None
        meaning, _ = definition(self.key, self.source)
        resolved, id = self._resolved(condition)
        if not isinstance(meaning, Column) or id != meaning.id:
            raise refusal("WHERE reads other reports than those that are grouped by", "Leave one out.", condition.span)
        return substitute(resolved, {id: Column(id=self.key, type=meaning.type)})

    def _resolved(self, expression: Expression) -> tuple[Expression, str]:
        """Returns an expression over one stored column of reports, and which; refuses one over anything else too."""
        read = {column.id: definition(column.id, self.source) for column in columns_of(expression)}
        resolved = substitute(expression, {id: meaning for id, (meaning, _) in read.items()})
        found = {column.id for column in columns_of(resolved)}
        stored = {id for _, leaves in read.values() for id in leaves}
        if not found <= stored and not found.isdisjoint(self.reports):
            reason = "randomised reports of a table that an outer join fills up cannot be debiased: some rows have none"
            raise refusal(reason, "Write an inner join.", expression.span)
        if len(found) != 1 or not found <= self.reports.keys():
            reason = "an expression over randomised reports and other columns cannot be debiased"
            advice = "Put the condition on the reports apart, joined by AND; and read one such column at a time."
            raise refusal(reason, advice, expression.span)
        return resolved, found.pop()

    def _values(self, expression: Expression) -> tuple[list[Value], str]:
        """Returns what an expression over reports gives for each category, and the reports' column."""
        resolved, id = self._resolved(expression)
        return [evaluate(resolved, {id: category}) for category in self.reports[id].categories], id

    def _estimate(self, column: AggregateColumn) -> Expression:
        """Returns an aggregate as an expression over measured sums."""
        asked = self._asked(column)
        if asked is None:
            return self._read(column)
        if column.function is COUNT:
            return Cast(argument=self._count(asked), type=INT64)
        if column.function is SUM:
            total = self._total(asked, 0.0, None)
            return total if column.type == FLOAT64 else Cast(argument=total, type=column.type)
        lower, upper = self._ends(asked)
        middle = (lower + upper) / 2
        count = self._count(asked)
        part = call("divide", (self._total(asked, middle, count), count))
        mean = call("add", (Literal(value=middle, type=FLOAT64), part))
        ends = (Literal(value=lower, type=FLOAT64), Literal(value=upper, type=FLOAT64))
        return where_more(count, 0, call("clamp", (mean, *ends)))

    def _asked(self, column: AggregateColumn) -> _Asked | None:
        """Returns what an aggregate asks of reports; None where it reads none, and its groups are not of reports."""
        parts = conjuncts(column.filter) if column.filter is not None else []
        if self.key is None:
            parts = [*parts, *self.conditions]
        on_reports = [part for part in parts if reads(part, self.tainted)]
        others = [part for part in parts if not reads(part, self.tainted)]
        told = column.argument if column.argument is not None and reads(column.argument, self.tainted) else None
        if not on_reports and told is None and self.key is None:
            return None
        if column.function not in ESTIMATED:
            reason = f"{column.name.upper()} of what randomised reports tell apart cannot be debiased"
            raise refusal(reason, "COUNT, SUM and AVG can.", column.span)
        if self.key is not None and (on_reports or told is not None):
            reason = "an aggregate reads randomised reports that the query also groups by, or others"
            raise refusal(reason, "Leave one of them out.", column.span)
        tables = [self._values(part) for part in (*on_reports, *([told] if told is not None else []))]
        ids = {id for _, id in tables} or {definition(self.key or "", self.source)[0].id}  # type: ignore[union-attr]
        if len(ids) > 1:
            reason = "two columns of randomised reports in one aggregate cannot be debiased"
            raise refusal(reason, "Read one at a time.", column.span)
        declared = self.reports[ids.pop()]
        if self.key is not None:
            holds = (True, *[False] * (len(declared.categories) - 1))  # of its own group, and no other
        else:
            rows = zip(*(values for values, _ in tables), strict=True)
            conditions = len(on_reports)
            holds = tuple(all(v is True for v in row[:conditions]) and None not in row[conditions:] for row in rows)
        return _Asked(
            column=column,
            told=told,
            numbers=numbers_of(tables[-1][0]) if told is not None and column.function is not COUNT else (),
            holds=holds,
            where=both(parts) if parts else None,
            kept=both(others) if others else None,
            chances=Chances.of(declared),
        )

    def _ends(self, asked: _Asked) -> tuple[float, float]:
        """Returns the bounds of an average."""
        if asked.told is not None:
            numbers = [n for n, held in zip(asked.numbers, asked.holds, strict=True) if held] or [0.0]
            return min(numbers), max(numbers)
        assert asked.column.argument is not None
        known = range_of(asked.column.argument, ranges_of(self.source, self.catalog))
        if known.lower is None or known.upper is None:
            name = asked.column.name.upper()
            raise MissingBoundsError(
                f"{name} has no finite sensitivity: no bounds are known for its argument",
                advice="Declare bounds in the catalog, or write CLAMP(x, lower, upper).",
                span=asked.column.span,
            )
        return float(known.lower), float(known.upper)

    def _count(self, asked: _Asked) -> Expression:
        """Returns the estimated number of rows whose value holds."""
        reported = self._measure(asked, COUNT, asked.column.argument, asked.where)
        rows = self._rows(asked, reported, COUNT, None if asked.told is not None else asked.column.argument)
        weights = tuple(float(held) for held in asked.holds)
        if len(set(weights)) == 1:
            return Cast(argument=reported, type=FLOAT64)
        estimate = without_bias(reported, rows, weights, asked.chances)
        held, not_held = (asked.chances.variance(weight, weights) for weight in (1.0, 0.0))
        if math.isclose(held, not_held, rel_tol=1e-9):
            variance = times(rows, held)
        else:
            variance = call("add", (times(estimate, held), times(call("subtract", (rows, estimate)), not_held)))
        return self._with_noise(estimate, rows, variance)

    def _total(self, asked: _Asked, middle: float, count: Expression | None) -> Expression:
        """Returns the estimated sum of values less `middle`, over rows whose value holds.

        Args:
            count: The estimated number of these rows, if it is measured.
        """
        argument = asked.column.argument
        assert argument is not None
        shifted = argument if middle == 0 else call("subtract", (argument, Literal(value=middle, type=FLOAT64)))
        reported = self._measure(asked, SUM, shifted, asked.where)
        if asked.told is not None:
            rows = self._rows(asked, reported, COUNT, None)
            pairs = zip(asked.numbers, asked.holds, strict=True)
            weights = tuple((n - middle) if held else 0.0 for n, held in pairs)
        else:
            rows = self._rows(asked, reported, SUM, shifted)
            weights = tuple(float(held) for held in asked.holds)
        if len(set(weights)) == 1:
            return Cast(argument=reported, type=FLOAT64) if reported.type != FLOAT64 else reported
        estimate = without_bias(reported, rows, weights, asked.chances)
        largest = max(asked.chances.variance(weight, weights) for weight in weights)
        if asked.told is not None:
            return self._with_noise(estimate, rows, times(rows, largest))
        return self._with_noise(estimate, rows, self._squares(asked, shifted, rows, largest))

    def _squares(self, asked: _Asked, value: Expression, total: Expression, factor: float) -> Expression | None:
        """Returns a bound on factor times the sum of squares of a value; None where none is measured.

        A square is at most the largest magnitude times the magnitude, which is the value or its opposite where all
        have one sign; else at most the largest square, once for each row.
        """
        known = range_of(value, ranges_of(self.source, self.catalog))
        if known.lower is None or known.upper is None:
            return None
        most = float(max(abs(known.lower), abs(known.upper)))
        if known.lower >= 0:
            return times(total, factor * most)
        if known.upper <= 0:
            return times(total, -factor * most)
        if asked.column.function is not AVG:
            return None
        reported = self._measure(asked, COUNT, asked.column.argument, asked.where)
        return times(self._rows(asked, reported, COUNT, asked.column.argument), factor * most**2)

    def _rows(self, asked: _Asked, reported: Column, of: AggregateFunction, argument: Expression | None) -> Column:
        """Returns the same sum over the rows of all reports: measured, or over the groups that were measured."""
        if self.key is None:
            return self._measure(asked, of, argument, asked.kept)
        id, type = f"{reported.id}t", reported.type
        others = tuple(id for id in self.original.group_by if id != self.key)
        self.windows[id] = total_over(id, reported, others)
        return Column(id=id, type=type)

    def _measure(
        self, asked: _Asked, function: AggregateFunction, argument: Expression | None, kept: Expression | None
    ) -> Column:
        type = INT64 if argument is None or function is COUNT else sum_type(argument.type)
        return self._read(
            replace(asked.column, function=function, argument=argument, filter=kept, second=None, type=type)
        )

    def _read(self, column: AggregateColumn) -> Column:
        """Returns a measured aggregate, the one that is there already if it is the same."""
        for known in self.measured:
            if replace(column, id=known.id, name=known.name) == known:
                return Column(id=known.id, type=known.type)
        made = replace(column, id=f"r{self.index + 1}_{len(self.measured) + 1}")
        self.measured.append(made)
        return Column(id=made.id, type=made.type)

    def _with_noise(self, estimate: Expression, rows: Expression, variance: Expression | None) -> Expression:
        """Returns the estimate with the column that stands for the randomness of reports, which is 0.

        It is written as depending on a noisy number, as its size does: no error can be asked of the estimate.
        """
        id = f"r{self.index + 1}_n{len(self.noises) + 1}"
        zero = Case(branches=((call("gt", (rows, ZERO)), ZERO),), otherwise=ZERO, type=FLOAT64)
        self.noises.append(Computed(id=id, name="", expression=zero))
        self.variances[id] = UNKNOWN if variance is None else times(variance, float(self.repeats))
        return call("add", (estimate, Column(id=id, type=FLOAT64)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What one aggregate asks of reports.

    Attributes:
        told: The argument, where it reads reports.
        numbers: Those of `told`, one for each category.
        holds: For each category whether such rows count.
        where: All conditions, over reports.
        kept: Those that read no reports.
    """

    column: AggregateColumn
    told: Expression | None
    numbers: Weights
    holds: tuple[bool, ...]
    where: Expression | None
    kept: Expression | None
    chances: Chances
