"""The ledgers of this process: one for each dataset, for as long as the process lives.

A budget belongs to people, not to a frame. A frame carries a handle in `attrs`, and pandas hands it on to most frames
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpquery.catalog import Catalog
from dpquery.catalog.names import shown
from dpquery.errors import CatalogError, LedgerError
from dpquery.kernel.accountant import parts_of
from dpquery.ledger.ledger import Ledger
from dpquery.session import create_ledger

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
            raise CatalogError(f"attrs[{MARK!r}] tells whose rows these are, and was changed; protect the source anew")
        return Handle(dataset=dataset, ledger=ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset that was protected in this process.

    Attributes:
        handle: What its frames carry.
        ledger: What counts for all of them.
        place: The ledger's path or URL, or None where it ends with the process.
        public: Its public tables, by name.
    """

    handle: Handle
    ledger: Ledger
    place: str | None
    public: Mapping[str, Any] = field(default_factory=dict)


_guard = threading.RLock()
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
            f"the frame was made from rows of the dataset {shown(handle.dataset)}, whose people have one budget: "
            f"protect it as dataset={handle.dataset!r}, or leave dataset out"
        )
    if place is not None:
        if handle.ledger not in (_identity(place), *_ended(handle, name)):
            raise LedgerError(f"another ledger counts for the dataset {shown(name)} of this frame; name that one")
        return
    dataset = find(name)
    if dataset is None or dataset.handle.ledger != handle.ledger:
        raise LedgerError(
            f"the frame was protected in another process, and the ledger of its dataset {shown(name)} is not open "
            "here. Name the path of a ledger, ledger='...', which outlives a process"
        )


def _ended(handle: Handle, name: str) -> tuple[str, ...]:
    """A ledger of a process that ended may be followed by one with a path, which is the owner's act."""
    dataset = find(name)
    is_here = dataset is not None and dataset.handle.ledger == handle.ledger
    return (handle.ledger,) if handle.ledger.startswith("process:") and not is_here else ()


def open_dataset(catalog: Catalog, place: Place | None, *, is_new: bool, public: Mapping[str, Any]) -> Dataset:
    """Returns the dataset of a catalog with its ledger: the one that this process has, or one opened or made now.

    Args:
        catalog: The declarations; those of a known dataset have to be the same.
        place: The path of a ledger, or None for one that ends with the process.
        is_new: Whether to create the ledger at `place`.
        public: The dataset's public tables.
    Raises:
        LedgerError: The dataset is known with another promise, budget or ledger; or there is no ledger at `place`.
    """
    with _guard:
        dataset = _known.get(catalog.dataset)
        if dataset is None:
            dataset = _made(catalog, place, is_new=is_new, public=public)
        elif place is not None and _identity(place) != dataset.handle.ledger:
            raise LedgerError(
                f"the dataset {shown(catalog.dataset)} has another ledger in this process: its people have one budget. "
                "Other people are a dataset of another name, dataset='...'"
            )
        _check(catalog, dataset.ledger)
        _known[catalog.dataset] = dataset
        return dataset


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
            f"there is no ledger at {os.fspath(place)}. If nobody was ever answered about the people of {shown(name)}, "
            "create it once, with new_ledger=True"
        )
    else:
        ledger = Ledger.open(place)
    handle = Handle(dataset=name, ledger=_identity(place))
    return Dataset(handle=handle, ledger=ledger, place=os.fspath(place), public=public)


def _check(catalog: Catalog, ledger: Ledger) -> None:
    name = shown(catalog.dataset)
    if catalog.declarations.fingerprint() != ledger.declarations.fingerprint():
        raise LedgerError(
            f"the dataset {name} was protected with another promise: another privacy unit, column of it, neighbours or "
            "public tables. Protect it as before; or, if these are other people, give them a name, dataset='...'"
        )
    if catalog.budget != ledger.budget:
        raise LedgerError(
            f"the dataset {name} has the budget {parts_of(ledger.budget)}, and protecting it anew changes nothing "
            "about that: leave budget out; or, if these are other people, give them a name, dataset='...'"
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
