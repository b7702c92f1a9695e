"""How much memory the embedded engines take, and where they spill what does not fit: the owner's settings."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from dpquery.errors import CatalogError

SHARE = 50
"""Per cent of the machine's memory, as far as this process may use it, that a session takes by default."""
PUBLIC_PART = 4
"""One part in so many is for what is public or released already; the rest is for private tables."""
LEAST_MEMORY = 64 * 2**20
UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?b|%)", re.IGNORECASE | re.ASCII)
PREFIX = "dpquery-spill-"


def bytes_of(amount: str) -> int:
    """Returns how many bytes an engine means by an amount like `512.0 MiB`."""
    number, unit = amount.split()
    return int(Decimal(number) * UNITS[unit.lower()])


@dataclass(frozen=True, slots=True)
class Resources:
    """What one session's engines may use.

    Attributes:
        memory_limit: Of all of them together: as "4GB", "512MiB" or "25%" of the machine; None for half of it.
        spill: True for a folder for temporary files of its own, in the system's place for them; a path for one in that
            folder; False for none: what does not fit into memory then fails.
        processes: How many share the memory; each has one session.
        threads: Of each engine; None for as many as there are cores.
    Raises:
        CatalogError: An amount that is none, or too little; a folder that is not there.
    """

    memory_limit: str | None = None
    spill: bool | str | os.PathLike[str] = True
    processes: int = 1
    threads: int | None = None

    def __post_init__(self) -> None:
        self.settings(1)
        if not isinstance(self.spill, bool) and not Path(self.spill).is_dir():
            raise CatalogError("spill must be an existing folder, True or False")

    def settings(self, part: int, whole: int = 1) -> dict[str, str]:
        """Returns the settings of an engine that has `part` parts of `whole` of the memory."""
        threads = {} if self.threads is None else {"threads": str(self.threads)}
        written = f"{SHARE}%" if self.memory_limit is None else self.memory_limit
        found = _AMOUNT.fullmatch(written) if isinstance(written, str) else None
        if found is None:
            raise CatalogError(f"write a memory limit like 4GB, 512MiB or 25%, not {written!r:.40}")
        amount, unit = Decimal(found[1]), found[2].lower()
        if unit == "%":
            if not 0 < amount <= 100:
                raise CatalogError("a memory limit must be above 0 and at most 100 per cent of the machine")
            return {"memory_limit": f"'{amount * part / whole / self.processes:f}%'", **threads}
        total = int(amount * UNITS[unit]) // self.processes
        if total < LEAST_MEMORY:
            raise CatalogError("a memory limit must be at least 64MiB for each process")
        return {"memory_limit": f"'{total * part // whole // 1024} KiB'", **threads}

    def folder(self) -> Spill | None:
        """Returns a new folder for one engine, or None where nothing may be spilled."""
        if self.spill is False:
            return None
        return Spill(None if self.spill is True else str(self.spill))


class Spill:
    """A folder for the temporary files of one engine, which no other user may open; it goes with the engine."""

    def __init__(self, parent: str | None) -> None:
        try:
            self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)  # for its owner alone: mode 0700
        except OSError:
            raise CatalogError("a folder for temporary files cannot be created; name another with spill=") from None
        self._remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Removes the folder with all that is in it."""
        self._remove()


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's files alone
        shutil.rmtree(path, ignore_errors=True)
