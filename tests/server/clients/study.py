"""The demo's study behind `dpquery serve`: what each client asks, and what it was charged."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import dpquery as dp
from dpquery.frontends.cli.demo_files import LEDGER, NAFLD, TABLES, prepare
from dpquery.frontends.postgres.login.users import Users
from tests.server.serving import PASSWORD, Serving, serving

USER = "reader"
DATABASE = "nafld"
BUDGET = "budget: {epsilon: 4, delta: 1e-6}", "budget: {epsilon: 4000, delta: 1e-2}"
ANALYST = "{reader: {epsilon: 3, delta: 8e-7}}", "{reader: {epsilon: 3000, delta: 8e-3}}"
LONG = "SELECT SUM(a.i * b.i) FROM generate_series(1, 100000) a(i), generate_series(1, 100000) b(i)"
"""A statement that nobody waits for."""
STUDY_COLUMNS = {
    "patients": ["id", "age", "sex", "weight", "height", "bmi", "futime", "died"],
    "labs": ["id", "days", "test", "value"],
    "events": ["id", "days", "event"],
}
_ages = itertools.count()


class Study:
    """A server over the study, and what its ledger holds."""

    def __init__(self, folder: Path, server: Serving) -> None:
        self.folder, self.server, self.port = folder, server, server.port

    @property
    def url(self) -> str:
        """How libpq connects."""
        return f"host=127.0.0.1 port={self.port} user={USER} dbname={DATABASE} password='{PASSWORD}'"

    @property
    def entries(self) -> int:
        """How many charges the ledger holds, after checking all of it."""
        return len(self.charged)

    @property
    def charged(self) -> list[str]:
        """The queries of all charges, after checking the ledger."""
        ledger = dp.Ledger.open(self.folder / LEDGER)
        try:
            ledger.verify()
            return [entry.query for entry in ledger.entries()]
        finally:
            ledger.close()

    @contextlib.contextmanager
    def charges(self, expected: int) -> Iterator[None]:
        """Checks that what is done in the block is charged so many times, and no more."""
        before = self.entries
        yield
        charged = self.charged[before:]
        assert len(charged) == expected, charged


def fresh(select: str = "sex, COUNT(*) AS n", rest: str = "GROUP BY sex ORDER BY sex") -> str:
    """Returns a query over patients that was not asked before; a second time, its answer is stored."""
    return f"SELECT {select} FROM patients WHERE weight > {unused_weight()} {rest}"


def unused_weight() -> float:
    """Returns a lower bound on weights that no query had before."""
    return 30 + next(_ages) / 1000


@contextlib.contextmanager
def studying(folder: Path, *options: str, is_rich: bool = True) -> Iterator[Study]:
    """Serves the study, with budget enough for all clients, or else with the demo's own."""
    prepare(folder)
    for name in (LEDGER, f"{LEDGER}.mark", f"{LEDGER}.releases"):
        (folder / name).unlink(missing_ok=True)
    catalog = folder / "nafld.yaml"
    catalog.write_text(NAFLD.replace(*BUDGET).replace(*ANALYST) if is_rich else NAFLD, encoding="utf-8")
    dp.create_ledger(catalog, folder / LEDGER).close()
    Users.create(folder / "users.db").add(USER, PASSWORD)
    with serving(folder, *options, catalog=catalog.name) as server:
        yield Study(folder, server)


assert set(STUDY_COLUMNS) == set(TABLES)
