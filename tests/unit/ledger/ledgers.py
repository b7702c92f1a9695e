"""Ledgers of the tests: what they declare, and places for them in both stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
UNIT = PrivacyLoss(epsilon=Fraction(1, 1000))
QUERY = "SELECT COUNT(*) FROM visits"
OWNER = {"by": "the owner", "why": "a test"}


def declarations(dataset: str = "clinic") -> Declarations:
    table = TableDeclaration(name="visits", public=False)
    return Declarations(dataset=dataset, privacy_unit="row", neighbours=Neighbours.ADD_REMOVE, tables={"visits": table})


def epsilon(amount: str) -> PrivacyLoss:
    return PrivacyLoss(epsilon=Fraction(amount))


@dataclass(frozen=True)
class Site:
    """Where a test's ledger lies, and how it is copied and put back."""

    place: str
    mark: Path
    copy: Callable[[], object]
    put_back: Callable[[object], None]

    @property
    def every(self) -> int:
        """Of many tries of one kind, how many apart are made: the mark's own code is the same for a database, where a
        try takes longer."""
        return 8 if "://" in self.place else 1

    def create(self, budget: str = "1", **analysts: str) -> Ledger:
        limits = {name: Budget.of(epsilon=amount) for name, amount in analysts.items()}
        return Ledger.create(self.place, declarations(), Budget.of(epsilon=budget), limits, mark=self.mark)

    def open(self) -> Ledger:
        return Ledger.open(self.place)

    def charge(self, times: int, analyst: str = "alice") -> None:
        ledger = self.open()
        for _ in range(times):
            ledger.charge(analyst=analyst, loss=UNIT, query=QUERY)
        ledger.close()


def file_site(folder: Path) -> Site:
    """A site in a file, with the mark in another folder."""
    path = folder / "clinic.ledger"
    (folder / "marks").mkdir()
    return Site(str(path), folder / "marks" / "clinic.mark", path.read_bytes, path.write_bytes)  # type: ignore[arg-type]


def database_site(folder: Path, url: str) -> Site:
    """A site in a database; copies are of its rows."""
    import psycopg

    tables = ("record",)

    def copy() -> object:
        with psycopg.connect(url) as raw:
            return {t: raw.execute(f"SELECT * FROM dpquery_ledger.{t}".encode()).fetchall() for t in tables}

    def put_back(rows: object) -> None:
        with psycopg.connect(url) as raw:
            for table, content in rows.items():  # type: ignore[attr-defined]
                raw.execute(f"TRUNCATE dpquery_ledger.{table}".encode())
                for row in content:
                    raw.execute(
                        f"INSERT INTO dpquery_ledger.{table} VALUES ({','.join(['%s'] * len(row))})".encode(), row
                    )

    return Site(url, folder / "clinic.mark", copy, put_back)


def sites(folder: Path, fresh: Callable[[], str]) -> Iterator[Site]:
    """Both stores."""
    yield file_site(folder)
    yield database_site(folder, fresh())
