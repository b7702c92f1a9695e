"""Numbers of an answer over synthetic rows that are sums of measured cells, and intervals that hold those of the table.

A count or a sum whose groups and conditions each read one column, and are the same in all of a measured cell, is linear
in a measured table. The measured cells added up are the table's number with noise of a known law, and the
synthetic rows do not change that; so the interval is around them, and may lie beside the number that is shown.

Which tables a round measures follows from earlier rounds alone, so of each round the table with the least noise is
fixed before its noise is drawn. The interval of each of the ROUNDS fails with a part of the failure, so that of all of
them the narrowest holds (union bound).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpquery.accuracy.intervals import IntervalInputs
from dpquery.accuracy.noise_shapes import shape_of
from dpquery.accuracy.rules import Interval
from dpquery.catalog.names import SYNOPSES
from dpquery.kernel.mechanisms import NoiseLaw
from dpquery.kernel.plan import Mechanism
from dpquery.plan.evaluate import evaluate_rows
from dpquery.plan.expr import Call, Column, Expression, Literal, columns_of, conjuncts, substitute
from dpquery.plan.logical import Aggregate, AggregateColumn, Filter, Limit, Project, Relation, Scan, Sort, output
from dpquery.plan.types import BOOLEAN, FLOAT64, Value
from dpquery.planner.budget.allocate import ADDED
from dpquery.result.finish import Finished
from dpquery.result.inverse_variance import CombinedNoise, Component
from dpquery.reuse.lines import Line, following
from dpquery.synopsis.axes import Groups, SynopsisAxis
from dpquery.synopsis.making import Transcript
from dpquery.synopsis.model import Floats, Marginal
from dpquery.synopsis.rounds import settle
from dpquery.synopsis.synopsis import Synopsis

ROUNDS = 6
"""In which a table may be measured: columns three times, pairs twice, triples once."""
MOST_ROWS = 2_000
"""Of an answer that has intervals."""
FINER = 2**24
"""Steps of noise in a whole number, at least: what is rounded after it was added is off by as much more."""

Weights = Mapping[int, Floats]
"""For columns, by their places, what a row counts by its cell; 1 by cells of all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A column of an answer that counts rows by cells.

    Attributes:
        keys: For columns of the answer that are groups, the place of the axis and its values by cells.
        weights: Of a row, by its cells, beside its groups.
    """

    keys: Mapping[str, tuple[int, Sequence[Value]]]
    weights: Weights


def with_intervals(finished: Finished, relation: Relation, synopses: Mapping[str, Synopsis]) -> Finished:
    """Returns an answer with the intervals of its columns that are sums of measured cells.

    Args:
        relation: What the answer was computed by, over the synthetic rows.
        synopses: By name.
    """
    read = _aggregation(relation)
    synopsis = None if read is None else synopses.get(read[2].table.removeprefix(f"{SYNOPSES}."))
    counted = {} if read is None or synopsis is None else _counted(*read, synopsis)
    if synopsis is None or not counted or len(finished.table) > MOST_ROWS:
        return finished
    known = MeasuredTables(synopsis.transcript, ADDED[bool(synopsis.charge.epsilon)])
    columns = {name: finished.table.column(name).to_pylist() for name in finished.table.column_names}

    def measured(confidence: Fraction, at_once: bool) -> IntervalInputs:
        cells = len(counted) * len(finished.table) if at_once else 1
        failure = (1 - confidence) / max(1, cells)

        def chosen(name: str, sharing: int) -> Interval:
            one = counted[name]
            ends = [known.ends(_at_row(one, columns, row), failure) for row in range(len(finished.table))]
            return Interval(np.array([low for low, _ in ends]), np.array([high for _, high in ends]))

        return IntervalInputs(
            rows=len(finished.table),
            columns=columns,
            measures=frozenset(counted),
            half_width=lambda *_: math.nan,
            chosen=chosen,
            confidence=float(confidence),
        )

    noisy: dict[str, Expression | None] = {name: Column(id=name, type=FLOAT64) for name in counted}
    return replace(finished, noisy=noisy, measured=measured)


def _counted(
    aggregate: Aggregate,
    ids: Mapping[str, str],
    scan: Scan,
    conditions: Sequence[Expression],
    meanings: dict[str, Expression],
    synopsis: Synopsis,
) -> dict[str, Counted]:
    """Returns the columns of an answer that are sums over measured cells, by name; arguments as of `_aggregation`."""
    names = {column.id: column.name for column in scan.columns}
    axes = {axis.name: (place, axis) for place, axis in enumerate(synopsis.transcript.asked)}
    weight, rows = synopsis.rows.column_names[-1], synopsis.rows.num_rows
    is_counted = abs(synopsis.weight - 1) * rows < 1

    def by_cell(expression: Expression) -> tuple[int, list[Value]] | None:
        read = {*columns_of(expression)}
        column = read.pop() if len(read) == 1 else None
        if column is None or names.get(column.id) not in axes:
            return None
        place, axis = axes[names[column.id]]
        values = in_cells(expression, column, axis)
        return None if values is None else (place, values)

    keys = {id: by_cell(meanings.get(id) or _column(scan, id)) for id in aggregate.group_by}
    shown = {id: name for name, id in ids.items()}
    if any(one is None for one in keys.values()) or not keys.keys() <= shown.keys():
        return {}
    made = {}
    for name, id in ids.items():
        one = next((one for one in aggregate.aggregates if one.id == id), None)
        parts = None if one is None else _parts(one, conditions, meanings, names, weight, is_counted)
        weights = None if parts is None else _product([by_cell(part) for part in parts])
        if weights is not None:
            made[name] = Counted(keys={shown[id]: key for id, key in keys.items() if key is not None}, weights=weights)
    return made


def _aggregation(
    relation: Relation,
) -> tuple[Aggregate, dict[str, str], Scan, list[Expression], dict[str, Expression]] | None:
    """Returns the aggregation that an answer is made of, and which of its columns those of the answer are, by name; the
    table that it reads, under which conditions, and what the columns of its rows are."""
    ids = {column.name: column.id for column in output(relation)}
    while not isinstance(relation, Aggregate):
        match relation:
            case Project(source=source, columns=columns):
                read = {one.id: one.expression.id for one in columns if isinstance(one.expression, Column)}
                ids = {name: read[id] for name, id in ids.items() if id in read}
            case Sort(source=source) | Limit(source=source) | Filter(source=source):
                pass
            case _:
                return None
        relation = source
    rows = _rows(relation.source)
    return None if rows is None else (relation, ids, *rows)


def _rows(relation: Relation) -> tuple[Scan, list[Expression], dict[str, Expression]] | None:
    """Returns the rows that are aggregated: of which table, under which conditions, and what their columns are."""
    match relation:
        case Scan():
            return relation, [], {}
        case Filter(source=source, condition=condition) if (found := _rows(source)) is not None:
            scan, conditions, meanings = found
            return scan, [*conditions, *conjuncts(substitute(condition, meanings))], meanings
        case Project(source=source, columns=columns) if (found := _rows(source)) is not None:
            scan, conditions, meanings = found
            return scan, conditions, {one.id: substitute(one.expression, meanings) for one in columns}
        case _:
            return None


def _column(scan: Scan, id: str) -> Column:
    return next(Column(id=id, type=column.type) for column in scan.columns if column.id == id)


def _parts(
    one: AggregateColumn,
    conditions: Sequence[Expression],
    meanings: dict[str, Expression],
    names: Mapping[str, str],
    weight: str,
    is_counted: bool,
) -> list[Expression] | None:
    """Returns the conditions and values whose product a number adds up; None where it is no such number of the table.

    Args:
        weight: The column of the synthetic rows' weights.
        is_counted: Whether there are as many of them as of the table's, but for less than one.
    """
    argument = None if one.argument is None else substitute(one.argument, meanings)
    kept = [] if one.filter is None else conjuncts(substitute(one.filter, meanings))
    conditions = [part for part in conditions if part != Literal(value=True, type=BOOLEAN)]
    is_weight = isinstance(argument, Column) and names.get(argument.id) == weight
    match one.function.name:
        case "sum" if is_weight:
            return [*conditions, *kept]
        case "count" if is_counted and argument is None:
            return [*conditions, *kept]
        case "count" if is_counted and argument is not None:
            return [*conditions, *kept, Call(function="is_not_null", arguments=(argument,), type=BOOLEAN)]
        case "sum" if is_counted and argument is not None:
            return [*conditions, *kept, argument]
        case _:
            return None


def _product(parts: Sequence[tuple[int, list[Value]] | None]) -> Weights | None:
    made: dict[int, Floats] = {}
    for part in parts:
        if part is None:
            return None
        place, values = part
        numbers = np.array([float(value) if value is not None else 0.0 for value in values])  # type: ignore[arg-type]
        made[place] = made.get(place, np.ones(len(values))) * numbers
    return made


def in_cells(expression: Expression, column: Column, axis: SynopsisAxis) -> list[Value] | None:
    """Returns what an expression over one column is in each cell; None where a cell may hold several values of it.

    Example:
        >>> from dpquery.plan.expr import Literal
        >>> from dpquery.plan.types import INT64
        >>> age, axis = Column(id="age", type=INT64), SynopsisAxis(name="age", type=INT64, edges=(0, 30, 99))
        >>> in_cells(Call(function="ge", arguments=(age, Literal(value=30, type=INT64)), type=BOOLEAN), age, axis)
        [False, True]
        >>> in_cells(Call(function="ge", arguments=(age, Literal(value=31, type=INT64)), type=BOOLEAN), age, axis)
        >>> in_cells(age, age, axis)
    """
    inside = list(axis.values)
    if axis.edges:
        end = following(axis.edges[-1], axis.type)
        line = Line(column, (*axis.edges[:-1], *(() if end is None else (end,))))
        possible = [False, *[True] * axis.plain, False][: len(line.begins) + 1]
        if line.divides(expression, possible):
            return None
        inside = list(axis.edges[:-1])
    inside += [None] * axis.nullable
    return evaluate_rows(expression, {column.id: inside}, len(inside))


def _at_row(one: Counted, columns: Mapping[str, Sequence[Any]], row: int) -> Weights:
    """Returns the weights of the rows of a group."""
    made = dict(one.weights)
    for name, (place, values) in one.keys.items():
        same = np.array([value == columns[name][row] for value in values], dtype=np.float64)
        made[place] = made.get(place, np.ones(len(values))) * same
    return made


class MeasuredTables:
    """The measured tables of a synopsis, by rounds; with the law of their noise."""

    def __init__(self, told: Transcript, mechanism: Mechanism) -> None:
        self._merged = settle(told.asked, told.first).merged
        self._tables, turns = dict[tuple[int, int], list[tuple[Marginal, bool]]](), Counter[tuple[int, ...]]()
        for one in (*told.first, *told.later):
            round = (len(one.columns), turns[one.columns])
            self._tables.setdefault(round, []).append((one, turns[one.columns] > 0 or len(one.columns) > 1))
            turns[one.columns] += 1
        self._mechanism = mechanism

    def ends(self, weights: Weights, failure: Fraction) -> tuple[float, float]:
        """Returns between what the table's own number lies but with a probability; NaN where no table tells it.

        Args:
            weights: What a row counts, by cells of the first round.
        """
        found = [self._sum(*best, failure) for best in self._best(weights)]
        if not found:
            return math.nan, math.nan
        number, width = min(found, key=lambda one: one[1])
        return number - width, number + width

    def _best(self, weights: Weights) -> Iterator[tuple[Marginal, list[Floats]]]:
        """Yields of each round the least noisy table that tells a sum, and what its groups count, by column."""
        for tables in self._tables.values():
            told = [(one, counts) for one, later in tables if (counts := self._counts(one, weights, later)) is not None]
            if told:
                yield min(
                    told, key=lambda pair: pair[0].variances[0] * math.prod(float(each @ each) for each in pair[1])
                )

    def _counts(self, one: Marginal, weights: Weights, is_later: bool) -> list[Floats] | None:
        """Returns what the groups of each column of a table count; None where it does not tell the sum."""
        if not weights.keys() <= {*one.columns}:
            return None
        found = []
        for place, groups in zip(one.columns, one.groups, strict=True):
            counts = np.ones(int(groups.max()) + 1)
            if place in weights:
                first: Groups = groups[self._merged[place]] if is_later else groups
                counts[first] = weights[place]
                if not np.array_equal(counts[first], weights[place]):
                    return None
            found.append(counts)
        return found

    def _sum(self, one: Marginal, counts: Sequence[Floats], failure: Fraction) -> tuple[float, float]:
        """Returns a weighted sum of a table's numbers, and how far it is off but with a probability."""
        total, terms = one.numbers.reshape(one.shape), {1.0: 1}
        for each in counts:
            total = np.tensordot(each, total, axes=1)
            sizes = Counter(np.abs(each[each != 0]).tolist())
            products = Counter[float]()
            for (a, often), (b, times) in itertools.product(terms.items(), sizes.items()):
                products[a * b] += often * times
            terms = products
        parts = tuple(sorted(terms.items()))
        width = _half_width(self._mechanism, float(one.variances[0]), parts, failure / ROUNDS) if parts else 0
        return float(total), float(width)


@lru_cache(maxsize=1024)
def _half_width(mechanism: Mechanism, variance: float, terms: tuple[tuple[float, int], ...], failure: Fraction) -> int:
    """Returns how far a weighted sum of so many numbers with noise of a variance is off but with a probability."""
    shape = shape_of(mechanism)
    parameter = shape.parameter(math.sqrt(variance) * shape.scale_of_deviation)
    noise = NoiseLaw(mechanism=mechanism, parameter=parameter, steps=FINER)
    parts = tuple(Component(noise=noise, count=count, weight=Fraction(size)) for size, count in terms)
    return CombinedNoise(components=parts, rounded=0).half_width(failure)
