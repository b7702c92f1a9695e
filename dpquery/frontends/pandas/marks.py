"""How data are known to be protected: a DataFrame itself keeps its statistics, what pandas makes of it a handle."""

from __future__ import annotations

import weakref
from typing import Any

import pandas as pd

from dpquery.errors import CatalogError
from dpquery.frontends.pandas.datasets import MARK, Handle
from dpquery.frontends.pandas.protected import Protected

_OWN = "_dpquery_protected"
"""Where a frame itself keeps its protection: pandas hands this on to no copy, slice or pickle."""


_handles: dict[int, tuple[weakref.ref[Any], Handle]] = {}
"""The handles of objects that were protected and are still there, by identity."""


def remember(data: Any, protected: Protected) -> None:
    """Marks data as protected; a DataFrame with its own statistics, and with the handle that pandas hands on."""
    place = id(data)
    _handles[place] = (weakref.ref(data, lambda _: _handles.pop(place, None)), protected.handle)
    if isinstance(data, pd.DataFrame):
        object.__setattr__(data, _OWN, (protected, _state(data), weakref.ref(data)))
        data.attrs[MARK] = protected.handle.to_attrs()


def handle_of(data: Any) -> Handle | None:
    """Returns whose rows these are: of the very object that was protected, or of a frame made from one."""
    carried = Handle.of(data.attrs) if isinstance(data, pd.DataFrame) else None
    kept = _handles.get(id(data))
    return kept[1] if kept is not None and kept[0]() is data else carried


def own(frame: pd.DataFrame) -> Protected | None:
    """Returns the protection of this very frame, or None; refuses where the frame changed in place since."""
    kept = frame.__dict__.get(_OWN)
    if kept is None or kept[2]() is not frame:
        return None
    if not _is_same(kept[1], _state(frame)):
        raise CatalogError("the frame was changed since it was protected: protect it again, on the same budget")
    found: Protected = kept[0]
    return found


def _state(frame: pd.DataFrame) -> tuple[Any, ...]:
    """Returns the objects that pandas replaces when a frame changes in place."""
    manager = getattr(frame, "_mgr", None)
    return (*getattr(manager, "blocks", ()), *getattr(manager, "axes", ())[:1])


def _is_same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))
