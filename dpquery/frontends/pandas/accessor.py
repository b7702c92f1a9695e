"""`df.dp`: a DataFrame's way to its protection."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpquery.errors import CatalogError
from dpquery.frontends.pandas.accuracy import accuracy_of
from dpquery.frontends.pandas.column_expressions import no_attribute
from dpquery.frontends.pandas.datasets import Handle, own
from dpquery.frontends.pandas.declare import protect, said_before
from dpquery.frontends.pandas.protected_frame import Protected


class Answers:
    """The intervals of an answer."""

    def __init__(self, shown: Any) -> None:
        self._frame = shown

    @property
    def accuracy(self) -> pd.DataFrame:
        """The intervals, beside the answer's rows: "lower" and "upper", or of a frame (name, "lower"), ...."""
        return accuracy_of(self._frame)

    def intervals(self, confidence: object = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Returns the intervals for another confidence, or all at once; see `Result.intervals`."""
        return accuracy_of(self._frame, confidence, simultaneous)


class Accessor(Answers):
    """Private statistics of one DataFrame.

    `df.dp.protect(...)` says once whose rows these are and what may be spent. From then on `df.dp` has the words of
    `Protected`, for this very frame as it was then: a frame that was made from it, or changed in place, is protected
    anew, and draws on the same budget.
    """

    def protect(self, **said: Any) -> Protected:
        """Returns the frame's private statistics; arguments as in `dpquery.protect`. Without a privacy unit, what was
        said last of the dataset that the frame was made from holds again: `df.assign(...).dp.protect()`; `bounds`,
        `keys` and `types` then add to it."""
        if "privacy_unit" in said:
            return protect(self._frame, **said)
        before = said_before(self._frame)
        both = {
            name: {**before[name], **said[name]}
            for name in ("bounds", "keys", "types")
            if isinstance(before.get(name), Mapping) and isinstance(said.get(name), Mapping)
        }
        return protect(self._frame, **{**before, **said, **both})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not hasattr(Protected, name):
            raise no_attribute(name, list(self._frame.columns))
        return getattr(_protected(self._frame), name)

    def __getitem__(self, key: Any) -> Any:
        return _protected(self._frame)[key]

    def __dir__(self) -> list[str]:
        return ["accuracy", "intervals", "protect", *(name for name in dir(Protected) if not name.startswith("_"))]

    def __repr__(self) -> str:
        return repr(_protected(self._frame))


_said = inspect.signature(protect)
_shown = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *list(_said.parameters.values())[1:]]
setattr(Accessor.protect, "__signature__", _said.replace(parameters=_shown))  # noqa: B010  (notebooks show it)


def _protected(frame: pd.DataFrame) -> Protected:
    """Returns the protection of this very frame; refuses one that was made from a protected one, or changed since."""
    found = own(frame)
    if found is not None:
        return found
    handle = Handle.of(frame.attrs)
    if handle is None:
        raise CatalogError(
            "the frame is not protected. Name the privacy unit and the budget: "
            "df.dp.protect(privacy_unit='user', budget={'epsilon': 1})"
        )
    raise CatalogError(
        f"the frame was made from protected rows of the dataset {handle.dataset!r}, and only you can know whether "
        "each of its rows still belongs to a single privacy unit. For a filter, ask the protected frame: "
        "df.dp.query('age > 3'). Otherwise protect this frame anew, which draws on the same budget: "
        f"df.dp.protect(privacy_unit=..., dataset={handle.dataset!r})"
    )
