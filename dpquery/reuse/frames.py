"""What a released number is a number of: rows, their weights and their groups, in one form for all queries.

Projections and filters over the rows are taken apart, so that queries which name, order or nest things differently
share their releases. docs/concepts/stored-answers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from dpquery.kernel.plan import Count, Key, Measure, PrivateAggregate, Weighing, Weights
from dpquery.plan.cached import cached
from dpquery.plan.canonical import Names, canonical, rename
from dpquery.plan.definitions import taken_apart
from dpquery.plan.expr import Column, Expression, children, columns_of, rebuild
from dpquery.plan.logical import Filter, Join, Matched, Project, Relation, SetOperation, Values, output
from dpquery.plan.types import Value
from dpquery.reuse.lines import before_next
from dpquery.reuse.text import expression_of, text_of, value_of


@dataclass(frozen=True, kw_only=True)
class KeyText:
    """The texts of a key's grouping expressions and of its public values; None where groups are selected."""

    columns: tuple[str, ...]
    domain: tuple[tuple[str, ...], ...] | None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.columns, self.domain))  # of each value, so once


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWeighing:
    """What rows weighed; equal ones over the same rows mean the same.

    How many rows a unit has at most, by proof, is left out: it changes the noise of a number alone.

    Attributes:
        weighing, max_rows, max_groups: As of the aggregate's `Weights`.
        column: The text of the stored weights over the base, or None.
    """

    weighing: Weighing
    max_rows: int
    column: str | None
    max_groups: int | None

    @property
    def of_rows(self) -> tuple[object, ...]:
        """What tells one row's weights from another's. Stored weights are those of the base's scans, and where all rows
        weigh 1, a bound on them changes no number."""
        return self.weighing, self.column, self.max_rows if self.weighing is Weighing.COUNTED else None


@dataclass(frozen=True, kw_only=True)
class MeasurementFrame:
    """Which groups of which rows were measured, and what the rows weighed; equal frames mean the same.

    Attributes:
        base: The rows before they are filtered, with the privacy unit.
        conditions: What the rows fulfil, sorted.
        keys: The grouping columns, in order.
        weights: What the rows weighed.
    """

    base: str
    conditions: tuple[str, ...]
    keys: tuple[KeyText, ...]
    weights: RowWeighing

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.base, self.conditions, self.keys, self.weights))

    @cached_property
    def is_selected(self) -> bool:
        """Whether groups are shown only from a tau on."""
        return any(key.domain is None for key in self.keys)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many public values each key has."""
        return tuple(len(key.domain or ()) for key in self.keys)


Equation = tuple[tuple[str, Fraction], ...]
"""Texts of measures with factors: their sum, in lattice steps, is 0 in every group of any rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAggregate:
    """An aggregate in the form of the store.

    Attributes:
        frame: What its numbers are numbers of.
        measures: The text of each measure, in order.
        equations: What binds its measures to each other and to further ones.
    """

    frame: MeasurementFrame
    measures: tuple[str, ...]
    equations: tuple[Equation, ...] = ()


@cached
def asked_of(aggregate: PrivateAggregate, whole: frozenset[str]) -> AskedAggregate:
    """Returns an aggregate in the form of the store; raises NotCanonical where it has none.

    Args:
        whole: Ids of the sums and choices over values that are never NULL, so that each row has one.
    """
    base, conditions, values = taken_apart(aggregate.source)
    renamed, names = canonical(base)

    def over_base(id: str) -> Expression:
        return rename(values[id], names)

    unit = None if aggregate.unit is None else over_base(aggregate.unit)
    found = {text_of(before_next(rename(condition, names))) for condition in conditions}
    frame = MeasurementFrame(
        base=text_of((renamed, unit)),
        conditions=tuple(sorted(found)),
        keys=tuple(_key(key, tuple(text_of(over_base(id)) for id in key.columns)) for key in aggregate.keys),
        weights=_weighed(aggregate.weights, over_base),
    )
    measures = tuple(_measure(measure, values, names) for measure in aggregate.measures)
    texts = dict(zip(aggregate.measures, measures, strict=True))

    def text(measure: Measure) -> str:
        return texts.get(measure) or _measure(measure, values, names)

    sums = (m for m in aggregate.measures if m.id in whole and m.count is Count.SUM)
    equations = (*(made for m in sums for made in _shifted(m, text)), *_linear(texts, whole, text))
    return AskedAggregate(frame=frame, measures=measures, equations=equations)


def _weighed(weights: Weights, over_base: Callable[[str], Expression]) -> RowWeighing:
    column = None if weights.column is None else text_of(over_base(weights.column))
    return RowWeighing(
        weighing=weights.weighing, max_rows=weights.max_rows, column=column, max_groups=weights.max_groups
    )


def _key(key: Key, columns: tuple[str, ...]) -> KeyText:
    domain = None if key.domain is None else tuple(tuple(map(text_of, values)) for values in key.domain)
    return KeyText(columns=columns, domain=domain)


def _measure(measure: Measure, values: dict[str, Expression], names: Names) -> str:
    """Returns the text of a measure: all that it is but its id and its label, and what changes its noise alone."""
    value = None if measure.value is None else rename(values[measure.value], names)
    kept = None if measure.filter is None else rename(values[measure.filter], names)
    total = None if measure.total is None else (rename(values[measure.total.column], names), measure.total.most)
    named = None if value is None else ""
    bare = replace(measure, id="", label="", value=named, filter=None, total=None, different=None, pairs=None)
    if measure.second is not None:
        other = rename(values[measure.second.value], names)
        return text_of((replace(bare, second=replace(measure.second, value="")), value, kept, total, other))
    return text_of((bare, value, kept, total))


def _shifted(measure: Measure, text: Callable[[Measure], str]) -> Iterator[Equation]:
    """Yields how a sum of values, and of their deviations from the middle, follow from each other and the rows."""
    lattice = measure.lattice
    if lattice is None or lattice.squared or lattice.bernstein or measure.total is not None:
        return  # rows weigh otherwise than values under a total
    rows = text(replace(measure, count=Count.ROWS, value=None, lattice=None))
    for offset in sorted({0, (lattice.lower + lattice.upper) // 2} - {lattice.offset}):
        other = text(replace(measure, lattice=replace(lattice, offset=offset)))
        shift = Fraction(offset - lattice.offset)
        yield (text(measure), Fraction(-1)), (other, Fraction(1)), (rows, shift)


def _linear(known: Mapping[Measure, str], whole: frozenset[str], text: Callable[[Measure], str]) -> Iterator[Equation]:
    """Yields counts, sums and terms of lower degree that follow from the vectors among measures with known texts."""
    vectors: dict[object, list[Measure]] = {}
    for measure in known:
        if measure.family is not None:
            vectors.setdefault(measure.family, []).append(measure)
    for terms in vectors.values():
        is_whole = all(term.id in whole for term in terms)
        if len(terms) < terms[0].terms or (terms[0].second is not None and not is_whole):
            continue
        size = math.prod(lattice.values[1] for lattice in terms[0].lattices)
        texts = [known[term] for term in terms]
        for wanted, factors in _followers(terms, is_whole):
            parts = [(name, factor / size) for name, factor in zip(texts, factors, strict=True) if factor]
            yield (text(wanted), Fraction(-1)), *parts


def _followers(terms: Sequence[Measure], is_whole: bool) -> Iterator[tuple[Measure, list[Fraction]]]:
    """Yields measures with the mean that each has of a row that lies wholly in one term, in lattice steps."""
    first = terms[0]
    bare = replace(first, second=None)
    ones = [Fraction(1)] * len(terms)
    rows = replace(bare, count=Count.VALUES, lattice=None)
    yield replace(rows, count=Count.ROWS, value=None) if is_whole else rows, ones
    for place, lattice in enumerate(first.lattices):
        value = first.value if place == 0 or first.second is None else first.second.value
        degree, width = lattice.degree, lattice.upper - lattice.lower
        shares = [Fraction((one.lattices[place].bernstein or (0, 0))[0], degree) for one in terms]
        for offset in sorted({0, (lattice.lower + lattice.upper) // 2}):
            given = replace(lattice, bernstein=None, offset=offset)
            steps = [lattice.lower - offset + width * share for share in shares]
            yield replace(bare, value=value, lattice=given), steps
        if degree > 1 or first.second is not None:
            for power in (0, 1):
                part = [width * (share if power else 1 - share) for share in shares]
                yield replace(bare, value=value, lattice=replace(lattice, bernstein=(power, 1 - power))), part


def unfiltered(relation: Relation) -> Relation:
    """Returns projections over unknown rows: what was released may have been of more rows than are asked for."""
    match relation:
        case Filter():
            return unfiltered(relation.source)
        case Project():
            return replace(relation, source=unfiltered(relation.source))
        case _:
            return Values(columns=output(relation), rows=())


@lru_cache(maxsize=4096)
def narrowing_of(frame: MeasurementFrame, key: KeyText) -> frozenset[str]:
    """Returns the conditions that a key's public values may follow from: those over columns of it; of a join, all."""
    if any(f'"node {relation.__name__}"' in frame.base for relation in (Join, Matched, SetOperation)):
        return frozenset(frame.conditions)
    own = {column.id for text in key.columns for column in columns_of(expression_of(text))}
    read = {text: {column.id for column in columns_of(expression_of(text))} for text in frame.conditions}
    return frozenset(text for text, columns in read.items() if columns & own)


@lru_cache(maxsize=16384)
def over_key(condition: str, columns: tuple[str, ...]) -> Expression | None:
    """Returns a condition over the columns `key0`, `key1`, ... of a key; None where it reads anything else."""
    try:
        expression = expression_of(condition)
    except ValueError:
        return None
    names = {column: f"key{i}" for i, column in enumerate(columns)}
    over = _replaced(expression, names)
    read = {column.id for column in columns_of(over)}
    return over if read and read <= {*names.values()} else None


def _replaced(expression: Expression, names: dict[str, str]) -> Expression:
    """Returns the expression with each part whose text is a key's replaced by the column of its name."""
    name = names.get(text_of(expression))
    if name is not None:
        return Column(id=name, type=expression.type)
    return rebuild(expression, tuple(_replaced(part, names) for part in children(expression)))


def values_of(row: tuple[str, ...]) -> dict[str, Value]:
    """Returns the values of a key, which are texts, by the columns of `over_key`."""
    return {f"key{i}": value_of(text) for i, text in enumerate(row)}
