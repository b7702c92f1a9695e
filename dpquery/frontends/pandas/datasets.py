"""The ledgers of this process: one for each dataset, for as long as the process lives.

A budget belongs to people, not to a frame. Frames that share units share a budget, unless their owner says by a name
that these are other people. A frame carries a handle in `attrs`, and pandas hands it on to most frames
that are made from it: which dataset's people these are and which ledger counts for them. It holds no data, no budget
and no ledger, so that copies and pickles of a frame gain nothing. Where pandas loses it, the owner says anew whose rows
these are, and under the same name the same ledger counts.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpquery.catalog import Catalog
from dpquery.catalog.names import shown as shown_name
from dpquery.errors import CatalogError, LedgerError
from dpquery.frontends.pandas.unit_hashes import NOBODY, People, people_of, shared, together
from dpquery.frontends.pandas.values import TABLE
from dpquery.kernel.accountant import parts_of
from dpquery.ledger.amendments import agrees
from dpquery.ledger.ledger import Ledger
from dpquery.session.connecting import create_ledger

if TYPE_CHECKING:
    from dpquery.frontends.pandas.protected_frame import Protected

MARK = "dpquery"
"""The key in `attrs` of the handle."""
Place = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What a frame knows of its protection: names, and nothing else."""

    dataset: str
    ledger: str

    def to_attrs(self) -> dict[str, str]:
        """Returns plain texts, which JSON, Parquet and pickles can hold."""
        return {"dataset": self.dataset, "ledger": self.ledger}

    @staticmethod
    def of(attrs: Mapping[Any, Any]) -> Handle | None:
        """Returns the handle among a frame's attributes, or None."""
        if MARK not in attrs:
            return None
        content = attrs[MARK]
        parts = content if isinstance(content, Mapping) else {}
        dataset, ledger = parts.get("dataset"), parts.get("ledger")
        if not isinstance(dataset, str) or not isinstance(ledger, str):
            raise CatalogError(f"attrs[{MARK!r}] says whose rows these are, and was changed; protect the source again")
        return Handle(dataset=dataset, ledger=ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset that was protected in this process.

    Attributes:
        handle: What its frames carry.
        ledger: What counts for all of them.
        place: The ledger's path or URL, or None where it ends with the process.
        public: Its public tables, by name.
        people: Its units, as far as frames were protected in this process.
    """

    handle: Handle
    ledger: Ledger
    place: str | None
    public: Mapping[str, Any] = field(default_factory=dict)
    people: People = field(default_factory=lambda: NOBODY, repr=False)


GUARD = threading.RLock()
"""Held while a frame is protected, so that two frames of the same people never begin a budget each."""
_known: dict[str, Dataset] = {}


def find(name: str) -> Dataset | None:
    """Returns the dataset of this name, if it was protected in this process."""
    return _known.get(name)


def admit(name: str, handle: Handle | None, place: Place | None) -> None:
    """Refuses to protect a frame under a name, or with a ledger, that its handle does not know."""
    if handle is None:
        return
    if handle.dataset != name:
        raise CatalogError(
            f"the frame was made from rows of the dataset {shown_name(handle.dataset)}, whose people have one budget: "
            f"protect it as dataset={handle.dataset!r}, or leave dataset out"
        )
    if place is not None:
        if handle.ledger not in (_identity(place), *_ended(handle, name)):
            raise LedgerError(f"the dataset {shown_name(name)} of this frame has a different ledger; name that one")
        return
    dataset = find(name)
    if dataset is None or dataset.handle.ledger != handle.ledger:
        raise LedgerError(
            f"the frame was protected in another process, and the ledger of its dataset {shown_name(name)} is not open "
            "here. Name the path of a ledger with ledger='...'; a file outlives the process"
        )


def _ended(handle: Handle, name: str) -> tuple[str, ...]:
    """A ledger of a process that ended may be followed by one with a path, which is the owner's act."""
    dataset = find(name)
    is_here = dataset is not None and dataset.handle.ledger == handle.ledger
    return (handle.ledger,) if handle.ledger.startswith("process:") and not is_here else ()


def of_people(people: People) -> str | None:
    """Returns the name of the dataset that has some of these units; None where there is none."""
    found = [name for name, dataset in _known.items() if shared(people, dataset.people)]
    if len(found) > 1:
        raise CatalogError(
            f"the frame contains units of several datasets with separate budgets: "
            f"{', '.join(map(shown_name, found))}. Say which one pays, dataset='...'"
        )
    return found[0] if found else None


def refuse_identifiers(data: Any, columns: Iterable[str]) -> None:
    """Refuses rows as units where a column tells whose they are: the units of a dataset, under any name."""
    if not any(len(dataset.people) for dataset in _known.values()):
        return
    known = {*columns}
    owners = [t.ownership for d in _known.values() for t in d.ledger.declarations.tables.values()]
    several = [owner.columns for owner in owners if owner is not None and owner.parts and {*owner.columns} <= known]
    for unit in dict.fromkeys([*((column,) for column in sorted(known)), *several]):
        people = people_of(data, unit)
        for name, dataset in _known.items():
            if 2 * shared(people, dataset.people) >= max(len(dataset.people), len(people) / 2, 1):
                said = repr(unit[0] if len(unit) == 1 else [*unit])
                raise CatalogError(
                    f"privacy_unit='row', and column {', '.join(map(shown_name, unit))} has the units of the dataset "
                    f"{shown_name(name)}: protect the frame with privacy_unit={said}, on that budget; or, if "
                    "these are different people, name them with dataset='...'"
                )


def declared_for(name: str, unit: Sequence[str], type: str, people: People) -> tuple[str, str]:
    """Returns how the catalog of a frame calls the privacy unit, and the frame: so that it fits its dataset's ledger.

    A frame of the same units in which another column, or one of another type, tells them is another table of theirs.
    """
    dataset = find(name)
    if dataset is None or not shared(people, dataset.people):
        return "_".join(unit), TABLE
    held, table, number = dataset.ledger.declarations, TABLE, 1
    while (known := held.tables.get(table)) is not None:
        own = known.ownership
        if own is not None and (own.columns, ", ".join(map(str, own.types))) == (tuple(unit), type):
            break
        number += 1
        table = f"{TABLE}_{number}"
    return held.privacy_unit, table


def open_dataset(
    catalog: Catalog, place: Place | None, *, is_new: bool, public: Mapping[str, Any], people: People = NOBODY
) -> Dataset:
    """Returns the dataset of a catalog with its ledger: the one that this process has, or one opened or made now.

    Args:
        catalog: The declarations; those of a known dataset have to be the same.
        place: The path of a ledger, or None for one that ends with the process.
        is_new: Whether to create the ledger at `place`.
        public: The dataset's public tables.
        people: The units of the frame that is protected.
    Raises:
        LedgerError: The dataset is known with another promise, budget or ledger; or there is no ledger at `place`.
    """
    with GUARD:
        dataset = _known.get(catalog.dataset)
        if dataset is None:
            dataset = _made(catalog, place, is_new=is_new, public=public)
        elif place is not None and _identity(place) != dataset.handle.ledger:
            raise LedgerError(
                f"the dataset {shown_name(catalog.dataset)} has another ledger in this process: its people have one "
                "budget. For different people, use another name with dataset='...'"
            )
        _check(catalog, dataset, is_of_them=bool(shared(people, dataset.people)))
        _known[catalog.dataset] = replace(dataset, people=together(dataset.people, people))
        return _known[catalog.dataset]


def _made(catalog: Catalog, place: Place | None, *, is_new: bool, public: Mapping[str, Any]) -> Dataset:
    name = catalog.dataset
    if place is None:
        path = Path(_folder()) / f"{next(_number)}.ledger"
        handle = Handle(dataset=name, ledger=f"process:{path.parent.name}/{path.stem}")
        return Dataset(handle=handle, ledger=create_ledger(catalog, path), place=None, public=public)
    if is_new:
        ledger = create_ledger(catalog, place)
    elif "://" not in str(place) and not os.path.lexists(place):
        raise LedgerError(
            f"there is no ledger at {os.fspath(place)}. If no query about the people of {shown_name(name)} was "
            "ever answered, create it with new_ledger=True"
        )
    else:
        ledger = Ledger.open(place)
    handle = Handle(dataset=name, ledger=_identity(place))
    return Dataset(handle=handle, ledger=ledger, place=os.fspath(place), public=public)


def _check(catalog: Catalog, dataset: Dataset, *, is_of_them: bool) -> None:
    name, ledger = shown_name(catalog.dataset), dataset.ledger
    if not agrees(ledger.declarations, catalog.declarations) and is_of_them:
        ledger.amend(catalog.declarations, by="protect", why="another frame of the same people")
    if not agrees(ledger.declarations, catalog.declarations):
        raise LedgerError(
            f"the dataset {name} was protected with another promise: another privacy unit, column of it, neighbours or "
            "public tables. Protect it as before; or, if these are different people, name them with dataset='...'"
        )
    if catalog.budget != ledger.budget:
        whose = ", which has units of this frame," if is_of_them else ""
        raise LedgerError(
            f"the dataset {name}{whose} has the budget {parts_of(ledger.budget)}, and protecting it again does not "
            "change that: leave budget out; or, if these are different people, name them with dataset='...'"
        )


def _identity(place: Place) -> str:
    """Returns what a handle calls a ledger with a path: it tells neither the path nor who logs in to a server."""
    is_url = "://" in str(place)
    text = re.sub("//[^@/]*@", "//", os.fspath(place)) if is_url else os.path.realpath(place)
    return "file:" + hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


_folders: list[str] = []
_number = itertools.count(1)


def _folder() -> str:
    """Returns this process's private folder, removed when the process ends; a fork shares it and does not remove it."""
    if not _folders:
        made = tempfile.mkdtemp(prefix="dpquery-")
        _folders.append(made)
        atexit.register(_remove, made, os.getpid())
    return _folders[0]


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


# How data are known to be protected: a DataFrame itself keeps its statistics, what pandas makes of it a handle.

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
