"""Noisy tables to the answer's table: post-processing only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, assert_never

import pyarrow as pa

from dpquery.kernel.release import NoisyAggregates
from dpquery.plan.expr import Case, Column, Expression, Literal, columns_of, substitute
from dpquery.plan.logical import (
    Aggregate,
    Computed,
    Filter,
    Join,
    Limit,
    Matched,
    Project,
    Relation,
    Released,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    output,
    sources,
)
from dpquery.plan.types import BOOLEAN
from dpquery.result.intervals import Measured
from dpquery.result.projected import projected
from dpquery.result.released import to_arrow

Evaluate = Callable[[Relation, Sequence[pa.Table]], pa.Table]
"""Runs a relation over released and public tables, where no private table is within reach."""

Meanings = dict[str, Expression]
"""Columns as expressions over the columns of released and public tables; a column without a meaning is not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The answer's table, and what its intervals are computed from when somebody asks.

    Attributes:
        table: The answer; columns under the names of the query.
        noisy: For each noisy column its expression over released and public columns, or None where it has none.
        measured: Those columns, row by row as in the answer.
    """

    table: pa.Table
    noisy: dict[str, Expression | None]
    measured: Measured


def finish(noisy: NoisyAggregates, result: Relation, *, evaluate: Evaluate, confidence: Fraction) -> Finished:
    """Returns what the query computes from the released tables.

    Args:
        noisy: The released tables.
        result: The post-processing; its columns are the answer's.
        evaluate: The engine for it.
        confidence: The probability with which the interval of a cell holds, at least.
    """
    measures = frozenset(measure.id for table in noisy.tables for measure in table.aggregate.measures)
    again: dict[str, str] = {}
    annotated, meanings = _carry(result, again)
    measures |= {id for id, original in again.items() if original in measures}
    columns = output(result)
    released = {node.index: node.columns for node in _released(result)}
    tables = [to_arrow(table, released.get(i, ())) for i, table in enumerate(noisy.tables)]
    made = projected(annotated, tables)
    if made is None:
        made = evaluate(annotated, tables)
    found = {c.name: meanings.get(c.id) for c in columns if measures and _is_noisy(meanings.get(c.id), measures)}
    read = {column.id for meaning in found.values() if meaning is not None for column in columns_of(meaning)}
    measured = Measured(
        rows=len(made),
        columns=_Lazy(made.select(sorted(read))),
        measures=measures,
        half_width=_half_widths(noisy, confidence, again),
    )
    table = made.select([c.id for c in columns]).rename_columns([c.name for c in columns])
    return Finished(table=table, noisy=found, measured=measured)


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


def _carry(relation: Relation, again: dict[str, str]) -> tuple[Relation, Meanings]:
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
            return replace(relation, source=source), meanings
        case SetOperation():
            return _carry_union(relation, again) if relation.kind == "union_all" else (relation, {})
        case Join(kind="semi" | "anti"):
            left, meanings = _carry(relation.left, again)
            return replace(relation, left=left), meanings
        case Join():
            return _carry_join(relation, again)
        case Aggregate():
            _, meanings = _carry(relation.source, again)
            leaves = {id: meanings[id] for id in relation.group_by if id in meanings}
            return relation, {id: e for id, e in leaves.items() if isinstance(e, Column) and e.id == id}
        case _:
            assert_never(relation)


def _carry_join(join: Join, again: dict[str, str]) -> tuple[Relation, Meanings]:
    """Columns that both sides keep, of a table that is read on both, are kept by one side under other ids."""
    left, meanings = _carry(join.left, again)
    right, others = _carry(join.right, again)
    twice = {c.id for c in output(left)} & {c.id for c in output(right)}
    own = {c.id for c in output(join.right)}
    left, meanings = _kept_as(left, meanings, twice & own, again)
    right, others = _kept_as(right, others, twice - own, again)
    return replace(join, left=left, right=right), meanings | others


def _kept_as(relation: Relation, meanings: Meanings, ids: set[str], again: dict[str, str]) -> tuple[Relation, Meanings]:
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


def _carry_project(project: Project, again: dict[str, str]) -> tuple[Relation, Meanings]:
    source, meanings = _carry(project.source, again)
    given = {column.id for column in project.columns}
    leaves = {leaf.id: leaf for meaning in meanings.values() for leaf in columns_of(meaning)}
    carried = [Computed(id=id, name="", expression=leaf) for id, leaf in leaves.items() if id not in given]
    known: Meanings = {id: leaf for id, leaf in leaves.items() if id not in given}
    for column in project.columns:
        if all(read.id in meanings for read in columns_of(column.expression)):
            known[column.id] = substitute(column.expression, meanings)
    return Project(source=source, columns=(*project.columns, *carried)), known


def _carry_union(union: SetOperation, again: dict[str, str]) -> tuple[Relation, Meanings]:
    """Carries the columns of both sides, each NULL in the rows of the other, and whether a row is of the left side.

    Nothing is carried where both sides read the same released table.
    """
    (left, of_left), (right, of_right) = _carry(union.left, again), _carry(union.right, again)
    leaves = [
        {leaf.id: leaf for meaning in meanings.values() for leaf in columns_of(meaning)}
        for meanings in (of_left, of_right)
    ]
    if leaves[0].keys() & leaves[1].keys():
        return union, {}
    side = Column(id=f"{union.columns[0].id}_side", type=BOOLEAN)
    carried = [Matched(id=side.id, name="", type=BOOLEAN, left=side.id, right=side.id)]
    padded = []
    for place, source in enumerate((left, right)):
        columns = [Computed(id=c.id, name=c.name, expression=Column(id=c.id, type=c.type)) for c in output(source)]
        columns.append(Computed(id=side.id, name="", expression=Literal(value=place == 0, type=BOOLEAN)))
        columns += [
            Computed(id=f"{leaf.id}_none", name="", expression=Literal(value=None, type=leaf.type))
            for leaf in leaves[1 - place].values()
        ]
        padded.append(Project(source=source, columns=tuple(columns)))
    carried += [Matched(id=a.id, name="", type=a.type, left=a.id, right=f"{a.id}_none") for a in leaves[0].values()]
    carried += [Matched(id=b.id, name="", type=b.type, left=f"{b.id}_none", right=b.id) for b in leaves[1].values()]
    known: Meanings = {column.id: Column(id=column.id, type=column.type) for column in carried}
    for column in union.columns:
        if column.left in of_left and column.right in of_right:
            first, second = of_left[column.left], of_right[column.right]
            known[column.id] = Case(branches=((side, first),), otherwise=second, type=column.type)
    return replace(union, left=padded[0], right=padded[1], columns=(*union.columns, *carried)), known


def _is_noisy(meaning: Expression | None, measures: frozenset[str]) -> bool:
    return meaning is None or any(column.id in measures for column in columns_of(meaning))


def _half_widths(noisy: NoisyAggregates, confidence: Fraction, again: Mapping[str, str]) -> Callable[[str, int], float]:
    found = {}
    for table in noisy.tables:
        for measure, noise in zip(table.aggregate.measures, table.noises, strict=True):
            found[measure.id] = (noise, measure.lattice.unit if measure.lattice else Fraction(1))

    def half_width(id: str, sharing: int) -> float:
        noise, step = found[again.get(id, id)]
        return float(noise.half_width((1 - confidence) / sharing) * step)

    return half_width


def _released(relation: Relation) -> list[Released]:
    if isinstance(relation, Released):
        return [relation]
    return [node for source in sources(relation) for node in _released(source)]
