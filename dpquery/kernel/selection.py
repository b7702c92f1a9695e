"""Which groups may be shown: every public one, and of the others those whose noisy number of units reaches tau.

Nothing here depends on the order in which a backend gives its groups: docs/proofs/selection.md.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpquery.errors import InternalError
from dpquery.kernel.plan import Key

Integers = NDArray[Any]
"""int64, or Python integers in an object array where 64 bits do not suffice."""


def on_all_groups(places: NDArray[np.int64], numbers: Integers, size: int) -> Integers:
    """Returns the numbers of all `size` public groups, in the order of the domains; 0 where no row exists.

    Args:
        places: Where the groups with rows stand among all, shape (groups with rows,).
        numbers: The exact numbers of those groups, same shape.
    """
    filled: Integers = np.zeros(size, dtype=numbers.dtype)
    filled[places] = numbers
    return filled


def group_numbers(keys: tuple[Key, ...], codes: tuple[Integers, ...], length: int) -> NDArray[np.int64]:
    """Returns each group's place among all public groups, no two at one; the last key varies fastest.

    Args:
        codes: For each key, the position of each group's value in the key's domain, shape (length,).
    """
    places = np.zeros(length, dtype=np.int64)
    for key, code in zip(keys, codes, strict=True):
        if key.domain is None or (len(code) and not (code.min() >= 0 and code.max() < len(key.domain))):
            raise InternalError("a key is not in its public domain")
        places = places * len(key.domain) + code
    if length and np.bincount(places).max() > 1:
        raise InternalError("a group was returned twice")
    return places


def all_codes(keys: tuple[Key, ...], size: int) -> tuple[NDArray[np.int64], ...]:
    """Returns the position of every public group's value in the domain of each key, in order."""
    codes: list[NDArray[np.int64]] = []
    before, after = 1, size
    for key in keys:
        length = len(key.domain or ())
        after //= max(length, 1)
        codes.append(np.tile(np.repeat(np.arange(length, dtype=np.int64), after), before))
        before *= length
    return tuple(codes)


def selected_order(noisy_units: Integers, tau: int, keys: tuple[Integers, ...]) -> NDArray[np.int64]:
    """Returns the indices of the groups to be shown, sorted by key: a fixed order, independent of the engine's."""
    shown = np.flatnonzero(noisy_units >= tau)
    ranked = sorted(shown.tolist(), key=lambda index: tuple(sort_key(column[index]) for column in keys))
    return np.array(ranked, dtype=np.int64)


def sort_key(value: Any) -> tuple[bool, Any]:
    """Returns what orders values of one type, NULL last; text by code points."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None:
        return True, 0
    if not isinstance(plain, bool | int | float | Decimal | str | datetime.date):
        raise InternalError("a key of an unknown type")
    return False, plain
