"""An audit from its parts: `dpquery audit`, and `dp.audit`."""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from random import Random

import pyarrow as pa

from dpquery.auditing.accounts import accounts
from dpquery.auditing.black_box import drawn
from dpquery.auditing.drills import drills
from dpquery.auditing.gray_box import GrayBox
from dpquery.auditing.questions import AuditedQuery, of_catalog, of_log, of_text
from dpquery.auditing.report import Report, Section
from dpquery.auditing.risks import risks
from dpquery.auditing.worlds import Maker
from dpquery.auditing.worst_pairs import worst_pairs
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError, InvalidLossError
from dpquery.kernel.accountant import promise
from dpquery.ledger.ledger import Ledger

Place = str | os.PathLike[str]
MEMORY = "/dev/shm"
PAIRS, ANSWERS, DRAWN, WORLDS = 2_000, 500, 6, 2
"""By default: pairs of the gray box, noisy answers on either side of a worst pair, answers of the
built-in dataset, and made-up worlds at least."""
MANY, GUESTS = 10, 8
"""For so many times as many pairs, so many made-up people are added to one another in all ways: a database more makes
four pairs, where it makes one."""


def audit(
    catalog: Catalog | Place,
    *,
    sources: Mapping[str, object] | None = None,
    ledger: Ledger | Place | None = None,
    queries: str | Sequence[str] | None = None,
    from_log: bool = False,
    look: bool = False,
    pairs: int = PAIRS,
    answers: int = ANSWERS,
    first: int = 0,
    tell: Callable[[Section], None] | None = None,
) -> Report:
    """Returns what contradicts the promise of an installation, and what its catalog risks. Charges nothing.

    Args:
        catalog: The declarations, or the path of their YAML file.
        sources: Data by table, as `connect` takes them. Public tables are read, where they are given; private ones
            only with `look`.
        ledger: The ledger, to be replayed; it is not changed.
        queries: What is audited: SQL, several statements apart by semicolons or in a list; by default queries that
            follow from the catalog.
        from_log: Whether the queries are those that the ledger was charged for.
        look: Whether declarations are compared with private data. What the report then says of the catalog depends on
            the data, and is for the owner.
        pairs: Pairs of made-up neighbours under a query, at least; more of them see rarer mistakes.
        answers: Noisy answers on either side of each worst pair; 0 leaves them and the built-in dataset out.
        first: The number of the first made-up world; others are looked at from another one on.
        tell: Is told of each section when it is ready.
    Raises:
        CatalogError: Mistakes in the catalog, or data that contradict it.
        LedgerError: The ledger cannot be opened.
    Example: of a whole report is in docs/how-to/audit-an-installation.md, which takes a while.
        >>> audit(catalog, look=True)
        Traceback (most recent call last):
        dpquery.errors.CatalogError: a look at the data needs their sources
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    if from_log and (ledger is None or queries is not None):
        raise InvalidLossError("queries from the log need a ledger, and are not given as well")
    if look and sources is None:
        raise CatalogError("a look at the data needs their sources")
    sections: list[Section] = []

    def done(section: Section) -> None:
        sections.append(section)
        if tell is not None:
            tell(section)

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpquery-audit-", dir=_in_memory())))
        public = _public(declared, sources or {})
        known = (
            ledger
            if isinstance(ledger, Ledger | None)
            else stack.enter_context(contextlib.closing(Ledger.open(ledger)))
        )
        questions, left_out = _questions(declared, known, queries, from_log)
        box = GrayBox(declared, questions, folder, public, left_out=left_out)
        guests = GUESTS if pairs >= MANY * PAIRS else 0
        done(box.run(pairs, first=first, worlds=WORLDS if pairs >= PAIRS else 1, guests=guests))
        if answers:
            found = drawn(folder, DRAWN)
            done(replace(found, lines=(*worst_pairs(declared, box.seen, folder, answers), *found.lines)))
        done(drills(folder / "drills"))
        if known is not None:
            empty = stack.enter_context(contextlib.closing(_without_people(declared, public)))
            done(accounts(declared, known, empty))
        data = stack.enter_context(contextlib.closing(DuckDBBackend(declared, dict(sources or {})))) if look else None
        done(risks(declared, data))
    return _report(declared, sections)


def _in_memory() -> str | None:
    """Returns a folder in memory, where a ledger of made-up people is synced in no time; None where there is none."""
    return MEMORY if os.path.isdir(MEMORY) and os.access(MEMORY, os.W_OK) else None


def _report(catalog: Catalog, sections: Sequence[Section]) -> Report:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    words = f"{promise(catalog.budget)} for {catalog.declarations.protected}, {_neighbours(catalog)}"
    version = metadata.version("dpquery")
    return Report(dataset=catalog.dataset, promise=words, version=version, time=now, sections=tuple(sections))


def _neighbours(catalog: Catalog) -> str:
    kind = "replaced" if catalog.neighbours.value == "replace_one" else "added or removed"
    return f"{kind} as a whole"


def _questions(
    catalog: Catalog, ledger: Ledger | None, queries: str | Sequence[str] | None, from_log: bool
) -> tuple[list[AuditedQuery], list[str]]:
    if from_log:
        assert ledger is not None
        return of_log(ledger.entries(), catalog)
    if queries is None:
        return of_catalog(catalog), []
    return of_text(queries if isinstance(queries, str) else ";\n".join(queries), catalog), []


def _public(catalog: Catalog, sources: Mapping[str, object]) -> dict[str, pa.Table]:
    """Returns the public tables that are given."""
    names = [name for name, table in catalog.tables.items() if table.public and name in sources]
    if not names:
        return {}
    maker = Maker(catalog=catalog, random=Random(0))
    with contextlib.closing(
        DuckDBBackend(catalog, maker.sources() | {name: sources[name] for name in names})
    ) as engine:
        return {name: engine.arrow(name) for name in names}


def _without_people(catalog: Catalog, public: Mapping[str, pa.Table]) -> DuckDBBackend:
    return DuckDBBackend(catalog, Maker(catalog=catalog, random=Random(0), public=public).sources())
