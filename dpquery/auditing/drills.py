"""Drills: what the installed ledger and store do where it matters, tried over made-up people and their own ledgers."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpquery.auditing.report import ReportLine, Section
from dpquery.backends.duckdb.backend import DuckDBBackend
from dpquery.catalog import Catalog
from dpquery.errors import BackendError, DPQueryError, InsufficientBudgetError, LedgerError
from dpquery.kernel.loss import PrivacyLoss
from dpquery.kernel.plan import PrivateAggregate
from dpquery.kernel.release import ExactAggregates
from dpquery.ledger.ledger import Ledger
from dpquery.session.session import Session

METHOD = (
    "The installed software is put into situations in which it must refuse or charge: limits that are reached, an "
    "engine that fails, a ledger that was changed, cut short or put back to an older state, questions whose answers "
    "are stored already. Each takes place over made-up people with a ledger of its own, in a temporary folder."
)
PEOPLE = 400
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_KIND = "SELECT kind, COUNT(*) AS n, SUM(value) AS s FROM visits GROUP BY kind"


def catalog_of(**changed: object) -> Catalog:
    """Returns the catalog of the drills."""
    columns = {
        "person": {"type": "int64"},
        "kind": {"type": "text", "keys": ["a", "b", "c"]},
        "size": {"type": "text", "keys": ["s", "m", "l"]},
        "tag": {"type": "text", "keys": ["x", "y"], "nullable": True},
        "value": {"type": "int64", "lower": 0, "upper": 10},
        "town": {"type": "text"},
    }
    given: dict[str, Any] = {
        "dataset": "drills",
        "privacy_unit": "person",
        "budget": {"epsilon": 20},
        "analysts": {"ann": {"epsilon": 12}, "bob": {"epsilon": 12}},
        "defaults": {"least_charge": "1e-3", "max_groups": 2},
        "tables": {"visits": {"unit": "person", "max_rows": 4, "columns": columns}},
    }
    return Catalog(**given | changed)


def table() -> pa.Table:
    """Returns the visits, four of each person; a third of them have no tag."""
    each = [(person, visit) for person in range(PEOPLE) for visit in range(4)]
    columns = {
        "kind": ["aab"[(p + i) % 3] if p % 7 else "c" for p, i in each],
        "size": ["sml"[p % 3] for p, _ in each],
        "tag": [("x", "y", None)[(p + i) % 3] for p, i in each],
        "town": [f"t{p % 5}" for p, _ in each],
    }
    numbers = {"person": [p for p, _ in each], "value": [(p + 3 * i) % 11 for p, i in each]}
    return pa.table(
        {name: pa.array(values, pa.string()) for name, values in columns.items()}
        | {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
    )


class Watched(DuckDBBackend):
    """The embedded engine, which notes what the ledger held when a statement ran, and fails if it is told to."""

    ledger: Ledger
    seen: list[int]
    fails: bool = False

    def run(self, statement: Any, key: int) -> ExactAggregates:
        """Returns what the engine gives."""
        self.seen.append(len(self.ledger.entries()))
        if self.fails:
            raise ValueError("secret 4711")
        return super().run(statement, key)


@dataclass(slots=True)
class DrillDataset:
    """One dataset with its ledger."""

    folder: Path
    catalog: Catalog
    ledger: Ledger
    backend: Watched

    def session(self, analyst: str = "ann", *, reuse: bool = False) -> Session:
        """Returns a session of an analyst."""
        return Session(self.catalog, backend=self.backend, ledger=self.ledger, analyst=analyst, reuse=reuse)


@contextlib.contextmanager
def place(folder: Path, **changed: object) -> Iterator[DrillDataset]:
    """Gives a new dataset."""
    folder.mkdir(parents=True)
    catalog = catalog_of(**changed)
    ledger = Ledger.create(folder / "ledger", catalog.declarations, catalog.budget, catalog.analysts)
    backend = Watched(catalog, {"visits": table()})
    backend.ledger, backend.seen = ledger, []
    try:
        yield DrillDataset(folder, catalog, ledger, backend)
    finally:
        backend.close()
        ledger.close()


Drill = Callable[[Path], str]
"""Returns why it is a violation; "" where all is well."""


def charged_before_a_row_is_read(folder: Path) -> str:
    """A charge is recorded before the engine runs."""
    with place(folder) as one:
        one.session().sql(COUNT, epsilon=1)
        return "" if one.backend.seen == [1] else "the engine ran before the ledger held the charge"


def failures_are_charged_and_silent(folder: Path) -> str:
    """What fails after the charge stays charged, and its error quotes nothing."""
    with place(folder) as one:
        one.backend.fails = True
        try:
            one.session().sql(COUNT, epsilon=1)
            return "a failing engine answered"
        except BackendError as error:
            told = str(error)
        except Exception as error:
            return f"a failure is told as {type(error).__name__}"
        if "4711" in told or "ValueError" in told:
            return "the error of a failing engine quotes it"
        return "" if one.ledger.spent("ann").epsilon >= 1 else "a query that failed was not charged"


def limits_hold(folder: Path) -> str:
    """Neither an analyst nor all together spend more than their limit; what is refused costs nothing."""
    with place(folder) as one:
        ann, bob = one.session("ann"), one.session("bob")
        paid = Fraction(0)
        for session, asked, fits in ((ann, 8, True), (ann, 5, False), (ann, 4, True), (bob, 9, False), (bob, 8, True)):
            before = one.ledger.spent(None)
            try:
                answer = session.sql(COUNT, epsilon=asked)
            except InsufficientBudgetError:
                if fits:
                    return f"a query within the limits was refused (epsilon {asked})"
                if one.ledger.spent(None) != before:
                    return "a query that was refused was charged"
                continue
            if not fits:
                return f"a query was answered beyond a limit (epsilon {asked})"
            if answer.charge.epsilon < asked:
                return f"epsilon {asked} was asked for, and {answer.charge} charged"
            paid += asked
        return "" if one.ledger.spent(None).epsilon >= paid else "the ledger holds less than was charged"


def charges_round_up(folder: Path) -> str:
    """A charge is recorded rounded up."""
    with place(folder) as one:
        third = Fraction(1, 3)
        one.ledger.charge(analyst="ann", loss=PrivacyLoss(epsilon=third), query="drill")
        one.session().sql(COUNT, epsilon="1/3")
        recorded = [entry.loss.epsilon for entry in one.ledger.entries()]
        return "" if min(recorded) >= third else "a charge of a third is recorded as less"


def questions_cost_something(folder: Path) -> str:
    """A fresh question costs at least the least charge."""
    with place(folder) as one:
        answer = one.session().sql(COUNT, epsilon="1e-6")
        least = Fraction(12, 1000)
        return "" if answer.charge.epsilon >= least else f"a question was charged {answer.charge}, less than declared"


def tampering_is_seen(folder: Path) -> str:
    """A ledger in which an amount, a name or a query was changed is not answered from."""
    with place(folder) as one:
        for _ in range(3):
            one.session().sql(COUNT, epsilon=1)
        one.ledger.close()
        path = one.folder / "ledger"
        content = path.read_bytes()
        start = content.index(b"SELECT COUNT")  # of the first charge
        start = content.rindex(b"\n", 0, start)
        for old, new in ((b"1000000000000", b"1000000000"), (b'"ann"', b'"bob"'), (b"COUNT(*)", b"COUNT(1)")):
            changed = content[:start] + content[start:].replace(old, new, 1)
            if changed == content:
                return f"the ledger does not hold {old.decode()}, so that nothing was tried"
            path.write_bytes(changed)
            if problem := _refused(path, f"a ledger in which {old.decode()} was changed is answered from"):
                return problem
        return ""


def older_states_are_seen(folder: Path) -> str:
    """A ledger that was put back to an older state, or lost its end, is not answered from."""
    with place(folder) as one:
        one.session().sql(COUNT, epsilon=1)
        one.ledger.close()
        path = one.folder / "ledger"
        older = one.folder / "copy"
        shutil.copy(path, older)
        one.session().sql(COUNT, epsilon=1)
        one.ledger.close()
        newer = path.read_bytes()
        path.write_bytes(older.read_bytes())
        problem = _refused(path, "a ledger that was put back to an older state is answered from")
        last = newer.rstrip(b"\n").rfind(b"\n")
        path.write_bytes(newer[: last + 1] if b'"charge"' in newer[last:] else newer[: newer.rfind(b"\n", 0, last) + 1])
        return problem or _refused(path, "a ledger whose last charge was cut off is answered from")


def _refused(path: Path, problem: str) -> str:
    try:
        Ledger.open(path).verify()
    except LedgerError:
        return ""
    return problem


def forged_ledgers_are_new(folder: Path) -> str:
    """A second ledger is not made where one was."""
    with place(folder) as one:
        one.ledger.close()
        path = one.folder / "ledger"
        path.unlink()
        try:
            Ledger.create(path, one.catalog.declarations, one.catalog.budget, one.catalog.analysts)
        except DPQueryError:
            return ""
        return "a ledger that was deleted is begun again, with the whole budget"


def statements_are_prepared_first(folder: Path) -> str:
    """What the engine cannot run is refused before it is charged."""

    class Refusing(Watched):
        def prepare(self, aggregate: PrivateAggregate) -> Any:
            raise ValueError("no")

    with place(folder) as one:
        backend = Refusing(one.catalog, {"visits": table()})
        backend.ledger, backend.seen = one.ledger, []
        with contextlib.suppress(DPQueryError, ValueError):
            Session(one.catalog, backend=backend, ledger=one.ledger, analyst="ann", reuse=False).sql(COUNT, epsilon=1)
        backend.close()
        return "" if not one.ledger.entries() else "a query that cannot be run was charged"


LEDGER_DRILLS: tuple[Drill, ...] = (
    charged_before_a_row_is_read,
    failures_are_charged_and_silent,
    limits_hold,
    charges_round_up,
    questions_cost_something,
    tampering_is_seen,
    older_states_are_seen,
    forged_ledgers_are_new,
    statements_are_prepared_first,
)


def drills(folder: Path) -> Section:
    """Returns the section of all drills."""
    from dpquery.auditing.reuse_drills import REUSE_DRILLS

    made = [(drill, _tried(drill, folder / drill.__name__)) for drill in (*LEDGER_DRILLS, *REUSE_DRILLS)]
    lines = tuple(ReportLine(name=(drill.__doc__ or "").rstrip("."), problem=problem) for drill, problem in made)
    return Section(
        name="drills",
        title="Does the ledger hold, and are stored answers only given where they may be?",
        method=METHOD,
        done=f"{len(lines)} drills over {PEOPLE} made-up people.",
        lines=lines,
    )


def _tried(drill: Drill, folder: Path) -> str:
    try:
        return drill(folder)
    except Exception as error:
        return f"the drill could not be ended ({type(error).__name__}: {error})"
