"""Noisy tables to the answer's table: post-processing only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import assert_never

import pyarrow as pa

from dpquery.accuracy.counting import Halved, is_count
from dpquery.accuracy.error_propagation import rounded_factors_of
from dpquery.accuracy.intervals import IntervalInputs
from dpquery.accuracy.rules import Interval
from dpquery.accuracy.unions import carry_union
from dpquery.kernel.plan import CHOICES, PrivateAggregate
from dpquery.kernel.release import NoisyTable
from dpquery.plan.expr import Column, Expression, Literal, columns_of, substitute
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    Limit,
    OutputColumn,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    Withheld,
    output,
    sources,
)
from dpquery.plan.noisy_columns import noisy_columns
from dpquery.plan.types import FLOAT64
from dpquery.result.added_tables import AddedTable, with_added
from dpquery.result.bins import PlotAxis, axis_of
from dpquery.result.choices import Choices, RankError
from dpquery.result.interval_inputs import Inputs, deciding
from dpquery.result.propagated_noise import PropagatedNoise
from dpquery.result.released_tables import projected, to_arrow

ONE = Fraction(1)

Evaluate = Callable[[Relation, Sequence[pa.Table]], pa.Table]
"""Runs a relation over released and public tables, where no private table is within reach."""

Meanings = dict[str, Expression]
"""Columns as expressions over the columns of released and public tables; a column without a meaning is not here."""

_OVER_ROWS = frozenset({"sum", "avg", "count"})
"""Window functions that compute a number from several rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The answer's table, and what its intervals are computed from when somebody asks.

    Attributes:
        table: The answer; columns under the names of the query.
        noisy: For each noisy column its expression over released and public columns, or None where it has none.
        measured: Those columns, row by row as in the answer, for intervals that hold with a probability: each by
            itself, or with True all of the answer at once.
        tables: The numbers of the released tables that it is computed from.
        choices: Of the columns that are chosen values, how far they may be off in ranks; arguments as of `measured`.
        axes: What the answer's group keys stand for, by column.
        hidden: Whether groups were selected, and none was.
        adds_up: Whether numbers are over several selected groups, so that those that are not shown are missing.
        counts: The noisy columns that are numbers of rows.
        withheld: Of what is left out because of few people, how many groups.
    """

    table: pa.Table
    noisy: dict[str, Expression | None]
    measured: Callable[[Fraction, bool], IntervalInputs]
    tables: frozenset[int]
    choices: Callable[[Fraction, bool], Mapping[str, RankError]] = lambda *_: {}
    axes: Callable[[], Mapping[str, PlotAxis]] = dict
    hidden: bool = False
    adds_up: bool = False
    counts: Callable[[], frozenset[str]] = frozenset
    withheld: tuple[tuple[Withheld, int], ...] = ()

    def interval(self, name: str, measured: IntervalInputs) -> Interval:
        """Returns the intervals of a noisy column."""
        return measured.interval(self.noisy[name] or Literal(value=None, type=FLOAT64))


def finish(
    released: Sequence[NoisyTable | AddedTable],
    result: Relation,
    *,
    evaluate: Evaluate,
    added: Sequence[tuple[int, PrivateAggregate]] = (),
    variances: Mapping[str, Expression] | None = None,
    whole: frozenset[str] = frozenset(),
    halved: Sequence[Halved] = (),
    taus: Mapping[str, int] | None = None,
    withheld: Sequence[Withheld] = (),
) -> Finished:
    """Returns what the query computes from the released tables.

    Args:
        released: The released tables.
        result: The post-processing; its columns are the answer's.
        evaluate: The engine for it.
        added: Tables added up from released ones, as (number of the released table, what it gives); they are read
            after the released ones.
        variances: For columns of the result that stand for the randomness of reports, how large it is.
        whole: Ids of the choices among values that are never NULL, and of such sums.
        halved: Totals that are measured in two parts.
        taus: Of measures in tables with selected groups the least noisy number with which a group is shown.
        withheld: What the query leaves out because of few people, as relations over the released tables.
    """
    tables = with_added(released, added) if added else tuple(released)
    measures = frozenset(measure.id for table in tables for measure in table.aggregate.measures)
    again = PropagatedNoise(tables=tables, measures=measures, variances=variances or {})
    annotated, meanings = _carry(result, again) if tables else (result, {})  # what is exact needs no more columns
    measures = again.noisy
    columns = output(result)
    read_by = {node.index: node.columns for node in _released(result)}
    given = [to_arrow(table, read_by.get(i, ())) for i, table in enumerate(tables)]  # columns (shown groups,)
    made = projected(annotated, given)  # each column (rows of the answer,)
    if made is None:
        made = evaluate(annotated, given)
    exact = [frozenset(id for key in table.aggregate.keys for id in key.columns) for table in tables]
    noisy = noisy_columns(result, exact.__getitem__)
    found = {c.name: meanings.get(c.id) for c in columns if c.id in noisy}
    choices = _choices(tables, whole, halved, again)
    inputs = Inputs.of(made, found, tables, measures, again, choices, deciding(tables, taus) if taus else {})
    leaves = [*range(len(released)), *(leaf for leaf, _ in added)]
    selected = frozenset([i for i in read_by if tables[i].aggregate.is_selected])
    empty = [i for i in selected if not len(tables[i].keys[0])]
    adds_up = bool(selected) and _adds_up(result, selected)
    return Finished(
        table=made.select([c.id for c in columns]).rename_columns([c.name for c in columns]),
        noisy=found,
        measured=inputs.measured,
        tables=frozenset(leaves[number] for number in read_by),
        choices=inputs.ranks,
        axes=lambda: _axes(columns, meanings, tables),
        hidden=bool(empty) and (adds_up or not len(made)),
        adds_up=adds_up,
        counts=lambda: _counts(found, tables, again),
        withheld=tuple([(one, _rows(one.groups, tables, evaluate)) for one in withheld]) if withheld else (),
    )


def _adds_up(relation: Relation, selected: frozenset[int]) -> bool:
    """Whether it computes a number from several rows of released tables of selected groups."""
    several = (isinstance(relation, Aggregate) and relation.aggregates) or (
        isinstance(relation, Window) and any(column.function in _OVER_ROWS for column in relation.columns)
    )
    if several and any(node.index in selected for node in _released(relation)):
        return True
    return any(_adds_up(source, selected) for source in sources(relation))


def _rows(relation: Relation, tables: Sequence[NoisyTable | AddedTable], evaluate: Evaluate) -> int:
    """Returns how many rows a relation over released tables has."""
    read_by = {node.index: node.columns for node in _released(relation)}
    return len(evaluate(relation, [to_arrow(table, read_by.get(i, ())) for i, table in enumerate(tables)]))


def _choices(
    tables: Sequence[NoisyTable | AddedTable],
    whole: frozenset[str],
    halved: Sequence[Halved],
    again: Mapping[str, str],
) -> Choices | None:
    """Returns what is known of chosen values; None where there are none."""
    if not [measure for table in tables for measure in table.aggregate.measures if measure.count in CHOICES]:
        return None
    return Choices(tables=tables, whole=whole, halved=halved, twice=frozenset({*again, *again.values()}))


def _counts(
    found: Mapping[str, Expression | None], tables: Sequence[NoisyTable | AddedTable], again: Mapping[str, str]
) -> frozenset[str]:
    """Returns the columns of the answer that are numbers of rows, in any form in which they are measured."""
    measures = {measure.id: measure for table in tables for measure in table.aggregate.measures}
    measures |= {id: measures[own] for id, own in again.items() if own in measures}
    sums = {
        name: rounded_factors_of(meaning, measures.__contains__)
        for name, meaning in found.items()
        if meaning is not None and meaning.type.is_numeric
    }
    return frozenset(
        name
        for name, known in sums.items()
        if known is not None and is_count({id: f for id, f in known[0].items() if id not in known[1]}, measures)
    )


def _axes(
    columns: Sequence[OutputColumn], meanings: Meanings, tables: Sequence[NoisyTable | AddedTable]
) -> dict[str, PlotAxis]:
    """Returns what the columns that show a group key stand for."""
    known = {id: table.aggregate for table in tables for key in table.aggregate.keys for id in key.columns}
    read = {c.name: meanings.get(c.id) for c in columns}
    keys = {name: m.id for name, m in read.items() if isinstance(m, Column) and m.id in known}
    return {name: axis_of(known[id], id) for name, id in keys.items()}


def _carry(relation: Relation, again: PropagatedNoise) -> tuple[Relation, Meanings]:
    """Returns the relation with the columns of released tables kept to its top, and what its columns mean in them.

    Args:
        again: Gets the ids under which columns of a table that is read twice are kept, and their own ids.
    """
    match relation:
        case Released() | Scan() | Values():
            return relation, {c.id: Column(id=c.id, type=c.type) for c in output(relation)}
        case Filter() | Sort() | Limit():
            source, meanings = _carry(relation.source, again)
            return replace(relation, source=source), meanings
        case Project():
            return _carry_project(relation, again)
        case Window():
            source, meanings = _carry(relation.source, again)
            made, found = again.of_groups(replace(relation, source=source), meanings)
            return made, meanings | found
        case SetOperation(kind="union_all"):
            return carry_union(relation, _carry(relation.left, again), _carry(relation.right, again))
        case SetOperation():
            return relation, {}
        case Join(kind="semi" | "anti"):
            left, meanings = _carry(relation.left, again)
            return replace(relation, left=left), meanings
        case Join():
            return _carry_join(relation, again)
        case Aggregate():
            source, meanings = _carry(relation.source, again)
            added, found = again.of_aggregate(replace(relation, source=source), meanings)
            leaves = {id: meanings[id] for id in relation.group_by if id in meanings}
            leaves = {id: e for id, e in leaves.items() if isinstance(e, Column) and e.id == id}
            return (added if found else relation), leaves | found
        case _:
            assert_never(relation)


def _carry_join(join: Join, again: PropagatedNoise) -> tuple[Relation, Meanings]:
    """Columns that both sides keep, of a table that is read on both, are kept by one side under other ids."""
    left, meanings = _carry(join.left, again)
    right, others = _carry(join.right, again)
    twice = {c.id for c in output(left)} & {c.id for c in output(right)}
    own = {c.id for c in output(join.right)}
    left, meanings = _kept_as(left, meanings, twice & own, again)
    right, others = _kept_as(right, others, twice - own, again)
    return replace(join, left=left, right=right), meanings | others


def _kept_as(
    relation: Relation, meanings: Meanings, ids: set[str], again: PropagatedNoise
) -> tuple[Relation, Meanings]:
    """Returns the relation, and its meanings, with these ids replaced by new ones."""
    if not ids:
        return relation, meanings
    renamed: dict[str, Expression] = {}
    columns = []
    for column in output(relation):
        id = column.id
        if id in ids:
            id = f"{again.get(id, id)}_again{len(again) + 1}"
            again[id] = again.get(column.id, column.id)
            renamed[column.id] = Column(id=id, type=column.type)
        columns.append(Computed(id=id, name=column.name, expression=Column(id=column.id, type=column.type)))
    known = {id: substitute(meaning, renamed) for id, meaning in meanings.items() if id not in ids}
    known |= {made.id: made for id in ids if isinstance(made := renamed[id], Column)}
    return Project(source=relation, columns=tuple(columns)), known


def _carry_project(project: Project, again: PropagatedNoise) -> tuple[Relation, Meanings]:
    source, meanings = _carry(project.source, again)
    given = {column.id for column in project.columns}
    leaves = {leaf.id: leaf for meaning in meanings.values() for leaf in columns_of(meaning)}
    carried = [Computed(id=id, name="", expression=leaf) for id, leaf in leaves.items() if id not in given]
    known: Meanings = {id: leaf for id, leaf in leaves.items() if id not in given}
    for column in project.columns:
        if again.is_spread(column.id, meanings):
            known[column.id] = Column(id=column.id, type=column.expression.type)
        elif meanings.keys() >= {read.id for read in columns_of(column.expression)}:
            others = {r.id for r in columns_of(column.expression) if meanings[r.id] != r}
            known[column.id] = substitute(column.expression, meanings) if others else column.expression
    return Project(source=source, columns=(*project.columns, *carried)), known


def _released(relation: Relation) -> list[Released]:
    if isinstance(relation, Released):
        return [relation]
    return [node for source in sources(relation) for node in _released(source)]
