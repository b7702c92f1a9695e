"""How sessions begin, and the ledgers that they need: connect(), create_ledger(), amend_ledger()."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping
from pathlib import Path

from dpquery.backends.opening import open_backend
from dpquery.backends.resources import Resources
from dpquery.cancelling.interrupting import interruptible_work
from dpquery.catalog import Catalog
from dpquery.errors import CatalogError, LedgerError
from dpquery.ledger.ledger import Ledger
from dpquery.session.ledger_match import check_ledger
from dpquery.session.preparing import sources_of
from dpquery.session.profile_buying import loss_of_profile
from dpquery.session.session import Session

Place = str | os.PathLike[str]
LOOKS, PAUSE = 20, 0.05
"""How often, and after how many seconds, it is looked whether another process has made the ledger by now."""


def connect(
    catalog: Catalog | str | os.PathLike[str],
    sources: Mapping[str, object] | Place,
    *,
    ledger: Ledger | str | os.PathLike[str],
    analyst: str = "analyst",
    mark: str | os.PathLike[str] | None = None,
    reuse: bool | str = True,
    create: bool = False,
    memory_limit: str | None = None,
    spill: bool | Place = True,
    key: object = None,
    profile: object = None,
    backend: str | None = None,
) -> Session:
    """Returns a session over tables.

    Args:
        catalog: The declarations, or the path of their YAML file.
        sources: For each declared table its data: a pandas DataFrame, an Arrow table or dataset, or the path of a
            Parquet file (or folder, or glob), a CSV, Feather or DuckDB file; or an address, such as
            `s3://bucket/labs.parquet` or `postgresql://host/db#schema.labs`, which is read once, now. Or the address of
            a database that has all tables, or the folder that `prepare` made of them, every byte of which is checked.
        ledger: The ledger, its path, or the URL of its PostgreSQL database; it must exist, unless `create`.
        analyst: Who asks; one of the catalog's analysts if it names any.
        mark: The file of the ledger's mark, where it is not in the place that the ledger knows.
        reuse: Whether answers are stored with the ledger and used again, at no charge, for all analysts of the dataset;
            with "own" only those given to this analyst are; with False nothing is stored or read.
        create: Whether a ledger is created where there never was one, which starts the budget. Where its mark, its
            stored answers or a backup is left, nothing is created: the same people would get their budget again.
        memory_limit: Of the session's engines together, as "4GB" or "25%" of the machine; by default half of it.
        spill: Whether what does not fit into memory goes to encrypted temporary files, in a folder that only this user
            may open and that goes with the session; a path says where that folder is made.
        key: As in `prepare`, of a folder that was written with one; None for the environment's `DPQUERY_KEY`.
        profile: What a profile of rows and values may lose, such as "0.05", in the budget's epsilon or rho. It is
            bought for this analyst unless one as exact is stored, and tells the numbers of `max_rows: auto`.
        backend: The engine that holds the tables, by name: "duckdb", or the entry point `dpquery.backends` of a package
            that is installed; None for the catalog's `backend`, or DuckDB. It reads private rows and decides what noise
            is added to, so it is trusted as dpquery itself is: no test of its results protects anybody at run time.
    Raises:
        CatalogError: Mistakes in the catalog, or data that contradict it.
        LedgerError: The ledger is missing, damaged, or was made for other declarations.
    Example:
        >>> import pandas as pd
        >>> import dpquery as dp
        >>> frame = pd.DataFrame({"patient": [1, 2], "region": ["east", "west"], "cost": [20.0, 80.0]})
        >>> with dp.connect(catalog, {"visits": frame}, ledger=folder / "connected", create=True) as asked:
        ...     asked.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=1).columns
        ('region', 'n')
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    opened = ledger if isinstance(ledger, Ledger) else _opened(declared, ledger, mark, create=create)
    check_ledger(declared, opened)
    version = opened.data_version  # before the data are opened: what is opened later is not older
    given = sources_of(declared, sources, opened, key)
    missing = sorted(declared.tables.keys() - given.keys())
    unknown = sorted(given.keys() - declared.tables.keys())
    problems = [f"table {name} has no source" for name in missing]
    problems += [f"source {name} is not a declared table" for name in unknown]
    if problems:
        raise CatalogError(problems)
    with interruptible_work():
        opened_backend = open_backend(declared, given, name=backend, resources=Resources(memory_limit, spill))
    made = Session(declared, backend=opened_backend, ledger=opened, analyst=analyst, reuse=reuse, data_version=version)
    if profile is not None:
        try:
            made.profile(**loss_of_profile(profile, opened.budget))
        except BaseException:
            opened_backend.close()
            raise
    return made


def create_ledger(
    catalog: Catalog | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    mark: str | os.PathLike[str] | None = None,
) -> Ledger:
    """Returns a new ledger for a catalog's declarations and budgets; an owner's act, done once for a dataset.

    Args:
        catalog: The declarations, or the path of their YAML file.
        path: Where the ledger will be: a file, or the URL of a PostgreSQL database; what exists is never touched.
        mark: The file of its high-water mark, best on another disk; by default beside the ledger's file.
    Raises:
        LedgerError: The file exists or cannot be made.
    Example:
        >>> import dpquery as dp
        >>> made = dp.create_ledger(folder / "clinic.yaml", folder / "made")
        >>> made.remaining("analyst")
        epsilon 1000
        >>> made.close()
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    return Ledger.create(path, declared.declarations, declared.budget, declared.analysts, mark=mark)


def amend_ledger(catalog: Catalog | Place, ledger: Ledger | Place, *, by: str, why: str) -> int | None:
    """Returns the number of the entry by which a ledger knows a catalog's new tables; None where it knows them.

    The owner's act: the budget goes on. Columns, keys, bounds and `max_rows` of tables change without it.
    Raises:
        InvalidLossError: It would be another promise, with the reason.
    Example:
        >>> import dpquery as dp
        >>> dp.amend_ledger(catalog, ledger, by="owner", why="no new table") is None
        True
    """
    declared = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    opened = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    return opened.amend(declared.declarations, by=by, why=why)


def _opened(catalog: Catalog, place: Place, mark: Place | None, *, create: bool) -> Ledger:
    """Returns the ledger at a place, made there if that is asked and there never was one."""
    if not create:
        return Ledger.open(place, mark=mark)
    is_url = "://" in str(place)
    for _ in range(LOOKS):
        if mark is not None and os.path.lexists(mark) if is_url else _is_made(place):
            return Ledger.open(place, mark=mark)
        left = [] if is_url else _left(place, mark)
        if not left and not os.path.lexists(place):
            try:
                return create_ledger(catalog, place, mark=mark)
            except LedgerError:
                if not os.path.lexists(place) and (is_url or not _left(place, mark)):
                    raise
        time.sleep(PAUSE)  # another process is making it
    if os.path.lexists(place):
        return Ledger.open(place, mark=mark)
    raise LedgerError(
        f"there is no ledger {os.fspath(place)}, but {left[0]} shows that there was one: a new ledger would give "
        "the same people their budget again. Restore the ledger. If no query about these people was ever "
        f"answered, remove {', '.join(left)} first"
    )


def _is_made(place: Place) -> bool:
    """Whether a file of a ledger is there, and not only about to be made."""
    return os.path.lexists(place) and (not os.path.isfile(place) or os.path.getsize(place) > 0)


def _left(place: Place, mark: Place | None) -> list[str]:
    """Returns the files that tell of a ledger which is not there: its mark, its stored answers, its copies."""
    path = Path(os.path.abspath(place))
    beside = [str(file) for file in path.parent.glob(f"{glob.escape(path.name)}[.-]*")]
    return sorted(beside + ([os.fspath(mark)] if mark is not None and os.path.lexists(mark) else []))
