"""Whom a frame is about, as a set of hashes: two frames about the same units share a budget, under any name.

Identifiers that mean the same are the same: 7, 7.0, "7" and " 7 ". The hashes are keyed anew in each process, kept in
memory, eight bytes for each unit, and never shown; whether two sets meet is told to the owner who protects a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpquery.kernel.samplers import random_key

People = NDArray[np.uint64]
"""Hashes of units, ascending, each once."""
NOBODY: People = np.empty(0, dtype=np.uint64)
WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"
"""Texts that are read as the numbers that they are."""
LONGEST = 10**18
"""Numbers from here on, with more digits, are told apart by their texts."""
_KEY = f"{random_key():032x}"[:16]
_SALT = np.uint64(random_key() % 2**64)


def people_of(data: Any, columns: Sequence[str]) -> People:
    """Returns the units of a frame or an Arrow table, by the columns that tell them; those with a missing one do not
    count. Of several columns their order does not matter."""
    found = [_values(data, column) for column in columns]
    if len(found) == 1:
        values = found[0]
        return np.unique(_hashes(pc.unique(values.dictionary if pa.types.is_dictionary(values.type) else values)))
    hashes, is_there = np.zeros(len(found[0]), dtype=np.uint64), np.ones(len(found[0]), dtype=bool)
    for values in found:
        held = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
        told = _hashes(held.dictionary, keeps_order=True)
        is_there &= held.is_valid().to_numpy(zero_copy_only=False)
        places = pc.fill_null(held.indices, 0).to_numpy(zero_copy_only=False)
        hashes += _mixed(told[places].view(np.int64)) if len(told) else hashes
    return np.unique(hashes[is_there])


def _values(data: Any, column: str) -> Any:
    values = data.column(column) if isinstance(data, pa.Table) else _arrow(data[column])
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks else pa.array([], values.type)
    return values


def _hashes(values: Any, *, keeps_order: bool = False) -> People:
    """Returns a hash of each value; in any order, and without missing ones, unless it is to be kept."""
    values = values if keeps_order else values.drop_null()
    is_number = np.zeros(len(values), dtype=bool)
    numbers = pa.array([], pa.int64())
    if pa.types.is_floating(values.type):
        whole = pc.fill_null(pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**62)), False)
        numbers, is_number = values.filter(whole).cast(pa.int64()), whole.to_numpy(zero_copy_only=False)
    elif pa.types.is_integer(values.type) and values.type != pa.uint64():
        numbers, is_number = values.drop_null().cast(pa.int64()), values.is_valid().to_numpy(zero_copy_only=False)
    whole_numbers = numbers.to_numpy()
    is_long = (whole_numbers >= LONGEST) | (whole_numbers <= -LONGEST)
    made, places = np.zeros(len(values), dtype=np.uint64), np.flatnonzero(is_number)
    made[places] = _mixed(whole_numbers)
    others = np.concatenate([np.flatnonzero(~is_number), places[is_long]])
    if not len(others):
        return made
    texts = pa.concat_arrays([_texts(values.filter(pa.array(~is_number))), _texts(numbers.filter(pa.array(is_long)))])
    texts = pc.fill_null(pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^(-?[0-9]+)\.0+$", r"\1"), "")
    whole = pc.match_substring_regex(texts, WHOLE)
    is_read = whole.to_numpy(zero_copy_only=False)
    made[others[is_read]] = _mixed(texts.filter(whole).cast(pa.int64()).to_numpy())
    rest = texts.filter(pc.invert(whole)).to_numpy(zero_copy_only=False).astype(object)
    made[others[~is_read]] = pd.util.hash_array(rest, hash_key=_KEY)
    return made


def together(some: People, others: People) -> People:
    """Returns the units of both."""
    return others if not len(some) else some if not len(others) else np.union1d(some, others)


def shared(some: People, others: People) -> int:
    """Returns how many units two sets have in common."""
    few, many = sorted((some, others), key=len)
    if not len(few):
        return 0
    places = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return int(np.count_nonzero(many[places] == few))


def _arrow(series: pd.Series[Any]) -> Any:
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if missing else str(v) for v, missing in zip(series, series.isna(), strict=True)])


def _texts(values: Any) -> Any:
    try:
        return values.cast(pa.string())
    except pa.ArrowException:
        return pa.array([str(value) for value in values.to_pylist()], pa.string())


def _mixed(numbers: NDArray[Any]) -> People:
    """Returns whole numbers as 64 bits that tell nothing of them: the finalizer of MurmurHash3, over a secret salt."""
    bits = numbers.astype(np.int64).view(np.uint64) ^ _SALT
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(33))
