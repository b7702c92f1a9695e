"""Whom a frame is about, as a set of hashes: two frames about the same units share a budget, under any name.

Identifiers that mean the same are the same: 7, 7.0, "7" and " 7 ". The hashes are keyed anew in each process, kept in
memory, eight bytes for each unit, and never shown; whether two sets meet is told to the owner who protects a frame.
"""

from __future__ import annotations

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


def people_of(data: Any, column: str) -> People:
    """Returns the units of a frame or an Arrow table, by the column that tells them; missing ones do not count."""
    values = data.column(column) if isinstance(data, pa.Table) else _arrow(data[column])
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks else pa.array([], values.type)
    values = pc.unique(values.dictionary if pa.types.is_dictionary(values.type) else values).drop_null()
    numbers = pa.array([], pa.int64())
    if pa.types.is_floating(values.type):
        whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**62))
        numbers, values = values.filter(whole).cast(pa.int64()), values.filter(pc.invert(whole))
    elif pa.types.is_integer(values.type) and values.type != pa.uint64():
        numbers, values = values.cast(pa.int64()), values.slice(0, 0)
    is_long = pc.or_(pc.greater_equal(numbers, LONGEST), pc.less_equal(numbers, -LONGEST))
    values = pa.concat_arrays([_texts(values), _texts(numbers.filter(is_long))])
    numbers = numbers.filter(pc.invert(is_long))
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"^(-?[0-9]+)\.0+$", r"\1")
    whole = pc.match_substring_regex(texts, WHOLE)
    read = texts.filter(whole).cast(pa.int64())
    texts = texts.filter(pc.invert(whole)).to_numpy(zero_copy_only=False).astype(object)
    hashed = [_mixed(numbers.to_numpy()), _mixed(read.to_numpy()), pd.util.hash_array(texts, hash_key=_KEY)]
    return np.unique(np.concatenate(hashed).astype(np.uint64))


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
