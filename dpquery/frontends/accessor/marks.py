"""How a DataFrame knows that it is protected: it alone keeps its statistics, what is made from it a handle."""

from __future__ import annotations

import weakref
from typing import Any

import pandas as pd

from dpquery.errors import CatalogError
from dpquery.frontends.accessor.datasets import MARK
from dpquery.frontends.accessor.protected import Protected

_OWN = "_dpquery_protected"
"""Where a frame itself keeps its protection: pandas hands this on to no copy, slice or pickle."""


def remember(frame: pd.DataFrame, protected: Protected) -> None:
    """Marks a frame as protected: its own statistics, and the handle that pandas hands on."""
    object.__setattr__(frame, _OWN, (protected, _state(frame), weakref.ref(frame)))
    frame.attrs[MARK] = protected.handle.to_attrs()


def own(frame: pd.DataFrame) -> Protected | None:
    """Returns the protection of this very frame, or None; refuses where the frame changed in place since."""
    kept = frame.__dict__.get(_OWN)
    if kept is None or kept[2]() is not frame:
        return None
    if not _is_same(kept[1], _state(frame)):
        raise CatalogError("the frame was changed since it was protected: protect it anew, on the same budget")
    found: Protected = kept[0]
    return found


def _state(frame: pd.DataFrame) -> tuple[Any, ...]:
    """Returns the objects that pandas replaces when a frame changes in place."""
    manager = getattr(frame, "_mgr", None)
    return (*getattr(manager, "blocks", ()), *getattr(manager, "axes", ())[:1])


def _is_same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))
