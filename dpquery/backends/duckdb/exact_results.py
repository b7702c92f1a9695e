"""What the embedded engine gives for a private aggregate, as the kernel wants it: exact integers and histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpquery.backends.duckdb.sql.distinct_sql import IN_TURN
from dpquery.backends.duckdb.sql.histogram_sql import signature, signatures
from dpquery.backends.duckdb.statements import unmasked, values_of
from dpquery.kernel.exponential import Histogram
from dpquery.kernel.plan import CHOICES, PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.kernel.rounds import Pairs


def of_columns(aggregate: PrivateAggregate, made: Mapping[str, NDArray[Any]]) -> ExactAggregates:
    """Returns the aggregates of a statement that gives numbers alone."""
    return ExactAggregates(
        keys=tuple(_key(made[f"key{i}"], k.domain is not None) for i, k in enumerate(aggregate.keys)),
        numbers=tuple(_wide(made[f"number{i}"], made.get(f"number{i}_digits")) for i in range(len(aggregate.measures))),
    )


def with_lists(aggregate: PrivateAggregate, made: pa.Table, contested: Sequence[int]) -> ExactAggregates:
    """Returns the aggregates of a statement that gives lists too: histograms, of which choices of the same values share
    one, what is left to match of the measures in these places, and which units decide."""
    places = signatures(aggregate.measures)
    histograms = [_histogram(made[f"kept{i}"]) for i in range(len(places))]  # kept0..: (value, weight) by group
    numbers, kept = [], []
    for i, measure in enumerate(aggregate.measures):
        if measure.count not in CHOICES:
            number = _wide(values_of(made[f"number{i}"]), _digits(made, i))
            numbers.append(number + _matched(aggregate, made[f"contested{i}"]) if i in contested else number)
            continue
        kept.append(histograms[places[signature(measure)]])
        counted = np.zeros(len(made), np.int64)  # (groups,)
        np.add.at(counted, kept[-1].group, kept[-1].weight)
        numbers.append(counted)
    keys = tuple(_key(values_of(made[f"key{i}"]), key.domain is not None) for i, key in enumerate(aggregate.keys))
    pairs = _pairs(made["deciding"]) if "deciding" in made.column_names else None
    return ExactAggregates(keys=keys, numbers=tuple(numbers), histograms=tuple(kept), pairs=pairs)


def _digits(made: pa.Table, i: int) -> NDArray[Any] | None:
    """Returns the digits of a number's column, which counts do not have."""
    name = f"number{i}_digits"
    return values_of(made[name]) if name in made.column_names else None


def _histogram(column: pa.ChunkedArray) -> Histogram:
    group, value, weight = _flat(column, "value", "weight")
    return Histogram(group=group, value=value, weight=weight)


def _pairs(column: pa.ChunkedArray) -> Pairs:
    lists = column.combine_chunks()
    listed = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return Pairs(group=_groups(lists), unit=listed // IN_TURN, place=listed % IN_TURN)


def _matched(aggregate: PrivateAggregate, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Returns how many contested pairs are counted in each group."""
    group, turn, place = _flat(column, "turn", "place")
    return matched(group, turn, place, groups=len(column), most=aggregate.weights.max_rows)


def _flat(column: pa.ChunkedArray, first: str, second: str) -> tuple[NDArray[np.int64], ...]:
    """Returns a column of lists of structures as flat arrays: the number of the list, and both fields."""
    lists = column.combine_chunks()
    parts = lists.flatten()
    fields = (parts.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in (first, second))
    return _groups(lists), *fields


def _groups(lists: pa.Array) -> NDArray[np.int64]:
    """Returns the number of its list for each entry of lists."""
    lengths = np.nan_to_num(pc.list_value_length(lists).to_numpy(zero_copy_only=False)).astype(np.int64)
    return np.repeat(np.arange(len(lists)), lengths)


def _wide(values: NDArray[Any], digits: NDArray[Any] | None) -> NDArray[Any]:
    """Returns numbers, if need be those that `_in_64_bits` split: int64, or Python integers where one does not fit."""
    values = unmasked(values)
    if values.dtype != object:
        return values.astype(np.int64, copy=False)
    missing = [None] * len(values) if digits is None else unmasked(digits).tolist()
    whole = [int(d) if v is None else int(v) for v, d in zip(values.tolist(), missing, strict=True)]
    narrow = all(-(2**63) <= n < 2**63 for n in whole)
    return np.array(whole, dtype=np.int64 if narrow else object)


def _key(column: NDArray[Any], is_code: bool) -> NDArray[Any]:
    return column.astype(np.int64) if is_code else column.astype(object)


_AT_ONCE = 2**16
"""Pairs that are Python integers at a time."""


def matched(
    group: NDArray[np.int64], turn: NDArray[np.int64], place: NDArray[np.int64], *, groups: int, most: int
) -> NDArray[np.int64]:
    """Returns for how many pairs of each group some unit stands.

    The last step of a count of different values, of units that have more of them than they may stand for: the engine
    gives who has what, with the orders of units and of pairs. Each entry says that a unit has a pair. Units take turns,
    and in its turn a unit stands for the `most` first of its pairs for which no unit stands yet.

    Args:
        group: The number of the pair's group, below `groups`.
        turn: The number of the unit; equal for entries of one unit.
        place: The number of the pair, from 1 to at most the number of entries; equal for entries of one pair.
        groups: How many there are.
        most: For how many pairs a unit may stand.
    Privacy:
        A loop with the same few operations for each entry, regardless of other units: the steps that one unit
        adds are as many as its entries, apart from sorting.
    Source:
        docs/proofs/weights.md, Theorem 4.
    """
    order = np.lexsort((place, turn))  # (entries,)
    stood_for = bytearray(int(place.max(initial=0)) + 1)  # by the number of the pair
    current, left = 0, 0
    for start in range(0, len(order), _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        for unit, pair in zip(turn[some].tolist(), place[some].tolist(), strict=True):
            left = left if unit == current else most
            current = unit
            is_free = not stood_for[pair] and left > 0
            left -= is_free
            stood_for[pair] |= is_free
    _, first = np.unique(place, return_index=True)  # (pairs,): an entry of each, for its group
    counted = np.frombuffer(stood_for, np.uint8)[place[first]].astype(np.int64)
    numbers = np.zeros(groups, np.int64)  # (groups,)
    np.add.at(numbers, group[first], counted)
    return numbers
