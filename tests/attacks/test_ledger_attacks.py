"""Attacks on the ledger: races, kills, full disks, damage, old copies, bad numbers. Each must fail.

The invariant after each: released <= recorded <= limit, and what is recorded can be read from the file alone.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.errors import DPQueryError, InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import ZERO, PrivacyLoss, parse_amount
from dpquery.ledger import file as ledger_file
from dpquery.ledger.ledger import Ledger, State
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

UNIT = PrivacyLoss(epsilon=Fraction(1, 1000))
QUERY = "SELECT COUNT(*) FROM visits"
KILLS = int(os.environ.get("LEDGER_KILLS", "10000"))
RACES = int(os.environ.get("LEDGER_RACES", "300"))  # of 1,000 charges each
FORK = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def declarations(dataset: str = "clinic") -> Declarations:
    table = TableDeclaration(name="visits", public=False)
    return Declarations(dataset=dataset, privacy_unit="row", neighbours=Neighbours.ADD_REMOVE, tables={"visits": table})


def create(path: Path, budget: str = "1", analysts: dict[str, str] | None = None) -> Ledger:
    limits = {name: Budget.of(epsilon=amount) for name, amount in (analysts or {}).items()}
    return Ledger.create(path, declarations(), Budget.of(epsilon=budget), limits)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory in memory where there is one: these tests end processes, not the machine's power."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "clinic.ledger"


def in_child(work: Callable[[], object]) -> int:
    """Starts a forked process that does the work; its status is 0 unless the work raises."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def charge_until_refused(path: Path, log: Path, analyst: str = "alice", ledger: Ledger | None = None) -> None:
    """Answers queries until the budget is spent: charges, then writes the entry's number as if it were the answer."""
    ledger = ledger or Ledger.open(path)
    answers = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(InsufficientBudgetError):
        while True:
            entry = ledger.charge(analyst=analyst, loss=UNIT, query=QUERY)
            os.write(answers, b"%d\n" % entry)
            ledger.complete(entry)


def released(folder: Path) -> list[int]:
    return [int(line) for log in folder.glob("*.log") for line in log.read_text().splitlines()]


def assert_invariant(path: Path, folder: Path) -> int:
    """Returns how many entries a ledger has, after checking the invariant against what was released."""
    ledger = Ledger.open(path)
    answers, entries = released(folder), ledger.entries()
    assert len(set(answers)) == len(answers)
    assert set(answers) <= {entry.seq for entry in entries}
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert ledger.spent(None).epsilon == len(entries) * UNIT.epsilon <= ledger.limit(None).epsilon
    ledger.close()
    return len(entries)


# Races (LED-01, ACC-04)


def race(path: Path, folder: Path, processes: int, analysts: list[str]) -> None:
    children = [
        in_child(lambda i=i: charge_until_refused(path, folder / f"{i}.log", analysts[i % len(analysts)]))  # type: ignore[misc]
        for i in range(processes)
    ]
    assert [status_of(child) for child in children] == [0] * processes


def test_eight_processes_share_the_last_charges_exactly(path: Path, folder: Path) -> None:
    create(path, "0.9995").close()  # room for 999 charges and a half
    race(path, folder, 8, ["alice"])
    assert assert_invariant(path, folder) == len(released(folder)) == 999


def test_two_colluding_analysts_get_no_more_than_the_dataset(path: Path, folder: Path) -> None:
    """ACC-05: each has 0.2 alone, the dataset 0.25."""
    create(path, "0.25", {"alice": "0.2", "bob": "0.2"}).close()
    race(path, folder, 4, ["alice", "bob"])
    assert assert_invariant(path, folder) == len(released(folder)) == 250
    ledger = Ledger.open(path)
    assert max(ledger.spent("alice").epsilon, ledger.spent("bob").epsilon) <= Fraction("0.2")


@pytest.mark.slow
def test_three_hundred_thousand_charges_in_races(folder: Path) -> None:
    for turn in range(RACES):
        inner = folder / str(turn)
        inner.mkdir()
        create(inner / "ledger", "1").close()
        race(inner / "ledger", inner, 8, ["alice"])
        assert assert_invariant(inner / "ledger", inner) == len(released(inner)) == 1000
        shutil.rmtree(inner)


def test_threads_share_one_ledger(path: Path, folder: Path) -> None:
    """LED-09, with one object and with one object for each thread."""
    ledger = create(path, "0.3")
    shared = [
        threading.Thread(
            target=charge_until_refused, args=(path, folder / f"{i}.log", "alice", ledger if i % 2 else None)
        )
        for i in range(8)
    ]
    for thread in shared:
        thread.start()
    for thread in shared:
        thread.join(60)
    assert assert_invariant(path, folder) == len(released(folder)) == 300


# Forks (LED-09)


def test_a_fork_uses_its_own_connection(path: Path, folder: Path) -> None:
    ledger = create(path, "0.4")
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    children = [
        in_child(lambda i=i: charge_until_refused(path, folder / f"{i}.log", "alice", ledger))  # type: ignore[misc]
        for i in range(4)
    ]
    charge_until_refused(path, folder / "parent.log", "alice", ledger)
    assert [status_of(child) for child in children] == [0] * 4
    assert assert_invariant(path, folder) == 400 == len(released(folder)) + 1


@FORK
def test_forks_while_other_threads_charge_do_no_harm(path: Path, folder: Path) -> None:
    ledger = create(path, "1")
    threads = [
        threading.Thread(target=charge_until_refused, args=(path, folder / f"{i}.log", "alice", ledger))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for turn in range(20):
        child = in_child(lambda: ledger.charge(analyst="alice", loss=UNIT, query=QUERY))
        assert status_of(child) in (0, 1), turn  # 1: the budget was spent first
    for thread in threads:
        thread.join(60)
    assert assert_invariant(path, folder) == 1000


@FORK
def test_no_fork_happens_within_a_charge(path: Path) -> None:
    """A child that inherits half a transaction could neither trust its locks nor close its connection."""
    ledger, inside = create(path), threading.Event()

    def hold() -> None:
        with ledger._transaction():
            inside.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(10)
    assert status_of(in_child(lambda: ledger.charge(analyst="alice", loss=UNIT, query=QUERY))) == 0
    thread.join()
    assert ledger.verify() == 1


# Kills (LED-02, LED-16)


def kill_at_random(path: Path, folder: Path, times: int) -> int:
    """Returns how many entries survive when three processes are killed together, again and again."""
    for turn in range(times):
        children = [
            in_child(lambda log=folder / f"{turn}-{i}.log": charge_until_refused(path, log))  # type: ignore[misc]
            for i in range(3)
        ]
        time.sleep(random.uniform(0.005, 0.05))
        for child in children:
            os.kill(child, signal.SIGKILL)
        assert {status_of(child) for child in children} <= {-signal.SIGKILL, 0}
        entries = assert_invariant(path, folder)
    return entries


def test_kills_at_random_moments_lose_nothing(path: Path, folder: Path) -> None:
    create(path, "1000").close()
    assert kill_at_random(path, folder, 60) > 60
    assert len(released(folder)) > 60


@pytest.mark.slow
def test_ten_thousand_kills_on_a_real_disk(tmp_path: Path) -> None:
    """A hundred kills for each ledger, as every kill is followed by a look at all of its entries."""
    for block in range(0, KILLS, 100):
        inner = tmp_path / str(block)
        inner.mkdir()
        create(inner / "ledger", "1000").close()
        assert kill_at_random(inner / "ledger", inner, min(100, KILLS - block)) > 0
        shutil.rmtree(inner)


class Faulty(sqlite3.Connection):
    """A connection on which something happens before or after its n-th statement."""

    countdown = math.inf
    before: Callable[[], object] = staticmethod(lambda: None)
    after: Callable[[], object] = staticmethod(lambda: None)

    def execute(self, *arguments: object) -> sqlite3.Cursor:
        Faulty.countdown -= 1
        if Faulty.countdown == 0:
            Faulty.before()
        result = super().execute(*arguments)  # type: ignore[arg-type]
        if Faulty.countdown == 0:
            Faulty.after()
        return result


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> type[Faulty]:
    def connect(path: Path) -> sqlite3.Connection:
        uri = f"{path.as_uri()}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False, factory=Faulty)

    monkeypatch.setattr(ledger_file, "connect", connect)
    monkeypatch.setattr(Faulty, "countdown", math.inf)
    monkeypatch.setattr(Faulty, "before", staticmethod(lambda: None))
    monkeypatch.setattr(Faulty, "after", staticmethod(lambda: None))
    return Faulty


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_each_statement_loses_nothing(path: Path, folder: Path, faulty: type[Faulty], when: str) -> None:
    create(path, "1000").close()
    killed = 0
    for statement in range(1, 60):
        ledger = Ledger.open(path)
        recorded = ledger.verify()

        def work(statement: int = statement, ledger: Ledger = ledger) -> None:
            setattr(faulty, when, staticmethod(lambda: os.kill(os.getpid(), signal.SIGKILL)))
            faulty.countdown = statement
            entry = ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
            faulty.countdown = math.inf
            (folder / f"{statement}.log").write_text(f"{entry}\n")

        if status_of(in_child(work)) == 0:
            break
        killed += 1
        ledger.close()
        assert assert_invariant(path, folder) - recorded in (0, 1)
    assert killed > 15
    assert assert_invariant(path, folder) == (killed > 0) * len(Ledger.open(path).entries())


def test_pending_charges_are_never_given_back(path: Path) -> None:
    ledger = create(path, "0.003")
    for _ in range(3):
        child = in_child(lambda: ledger.charge(analyst="alice", loss=UNIT, query=QUERY))
        assert status_of(child) == 0
    assert [entry.state for entry in Ledger.open(path).entries()] == [State.PENDING] * 3
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


# Disks (LED-07)


def test_each_statement_may_fail(path: Path, faulty: type[Faulty]) -> None:
    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    ledger = create(path, "1000")
    failures = 0
    for statement in range(1, 60):
        recorded = ledger.verify()
        faulty.before = staticmethod(fail)
        faulty.countdown = statement
        try:
            ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
            break
        except LedgerError:
            failures += 1
        finally:
            faulty.countdown = math.inf
        assert ledger.verify() == recorded
    assert failures > 5


def test_a_full_database_refuses_and_recovers(path: Path) -> None:
    ledger = create(path, "1000")
    with ledger._transaction() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="full"):
        charge_until_refused(path, path.with_suffix(".log"), ledger=ledger)
    recorded = ledger.verify()  # the connection is a new one, without the limit
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == recorded + 1


@pytest.mark.parametrize("room", [0, 1, 100, 511, 512, 513, 600, 4096, 4608, 5000, 8192, 8729, 12_288, 16_384, 20_480])
def test_a_disk_that_takes_no_more_bytes_refuses(path: Path, room: int) -> None:
    """The size of files is limited in a child, at every size at which a write of a charge may break off."""
    create(path, "1000").close()

    def work() -> None:
        ledger = Ledger.open(path)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        recorded = 0
        try:
            for _ in range(200):
                ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
                recorded += 1
        except LedgerError:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            with pytest.raises(LedgerError, match="open the ledger again"):
                ledger.charge(analyst="alice", loss=UNIT, query=QUERY)  # a failed write may hide a failed sync
            assert Ledger.open(path).verify() == recorded
        else:
            raise AssertionError("no write failed")

    assert status_of(in_child(work)) == 0
    ledger = Ledger.open(path)
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == ledger.verify()


NOBODY = 65534  # a user without rights, whom tests of a superuser become


def test_what_cannot_be_written_is_refused() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "ledger"
        create(path).close()
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
            os.chown(folder, NOBODY, NOBODY)

        def work() -> None:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            path.chmod(0o400)
            with pytest.raises(LedgerError, match="not writable"):
                Ledger.open(path)
            path.chmod(0o600)
            folder.chmod(0o500)
            with pytest.raises(LedgerError, match="writable"):
                Ledger.open(path)
            folder.chmod(0o700)

        assert status_of(in_child(work)) == 0


# Files that are missing, moved, replaced or put back (LED-06, LED-07)


def test_a_file_deleted_while_open_refuses(path: Path) -> None:
    ledger = create(path)
    path.unlink()
    with pytest.raises(LedgerError, match="deleted"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    with pytest.raises(LedgerError):
        ledger.remaining("alice")
    assert not path.exists()


def test_a_file_replaced_while_open_refuses(path: Path, folder: Path) -> None:
    ledger = create(path)
    create(folder / "other")
    (folder / "other").replace(path)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


@pytest.mark.parametrize("charges", [0, 1, 3])
def test_an_older_copy_put_back_while_open_refuses(path: Path, charges: int) -> None:
    ledger = create(path)
    for _ in range(charges):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    copy = path.read_bytes()
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    path.write_bytes(copy)
    with pytest.raises(LedgerError, match="older copy"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


def test_another_dataset_put_in_place_refuses(path: Path, folder: Path) -> None:
    ledger = create(path)
    Ledger.create(folder / "other", declarations("other"), Budget.of(epsilon=9), {}).close()
    path.write_bytes((folder / "other").read_bytes())
    with pytest.raises(LedgerError, match="older copy"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    ledger.close()
    with pytest.raises(LedgerError, match="mark of another ledger"):
        Ledger.open(path)
    assert Ledger.open(path, mark=folder / "other.mark").declarations.dataset == "other"  # which the gate compares


# Damage (LED-08, LED-14, LED-15)


def filled(path: Path) -> tuple[bytes, Fraction]:
    ledger = create(path, "1", {"alice": "0.5", "bob": "1"})
    for turn in range(40):
        ledger.complete(ledger.charge(analyst=("alice", "bob")[turn % 2], loss=UNIT, query=f"{QUERY} -- {turn}"))
    spent = ledger.spent(None).epsilon
    ledger.close()
    return path.read_bytes(), spent


def assert_refused_or_whole(path: Path, spent: Fraction) -> bool:
    """Whether a damaged file is refused; where it is not, everything that counts is what it was."""
    try:
        ledger = Ledger.open(path)
    except LedgerError:
        return True
    assert ledger.spent(None).epsilon == spent
    assert (ledger.limit(None).epsilon, ledger.limit("alice").epsilon) == (Fraction(1), Fraction(1, 2))
    assert ledger.spent("alice").epsilon + ledger.spent("bob").epsilon == spent
    assert ledger.declarations == declarations()
    assert ledger.verify() == 40
    ledger.close()
    return False


def flip_bytes(path: Path, offsets: list[int]) -> int:
    content, spent = filled(path)
    refused = 0
    for offset in offsets:
        damaged = bytearray(content)
        damaged[offset % len(content)] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        refused += assert_refused_or_whole(path, spent)
    return refused


def test_flipped_bits_never_lessen_what_was_spent(path: Path) -> None:
    offsets = list(range(100)) + [random.randrange(2**30) for _ in range(500)]
    assert flip_bytes(path, offsets) > 100


@pytest.mark.slow
def test_a_flipped_bit_at_every_offset(path: Path) -> None:
    flip_bytes(path, list(range(40_960)))


def test_truncated_files_are_refused(path: Path) -> None:
    content, _ = filled(path)
    for size in [0, 1, 99, 100, 511, 512, 4095, *range(4096, len(content), 1024), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(LedgerError):
            Ledger.open(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"\x00" * 8192,
        b"epsilon: 1\n",
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" + b"\xff" * 5000,
    ],
)
def test_foreign_files_are_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(LedgerError):
        Ledger.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_other_databases_are_refused_and_left_alone(path: Path, mode: str) -> None:
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA journal_mode = {mode}")
    other.execute("CREATE TABLE account (name TEXT)")
    other.commit()
    other.close()
    path.chmod(0o600)
    content = path.read_bytes()
    with pytest.raises(LedgerError, match="no ledger of dpquery"):
        Ledger.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "tampering",
    [
        "DELETE FROM entry WHERE seq = 40",
        "DELETE FROM entry WHERE seq = 1",
        "DELETE FROM entry WHERE seq = 20",
        "DELETE FROM entry",
        "UPDATE entry SET epsilon = 0 WHERE seq = 40",
        "UPDATE entry SET epsilon = -epsilon WHERE seq = 3",
        "UPDATE entry SET account = 'bob'",
        "UPDATE entry SET kind = 'data' WHERE seq = 7",
        "UPDATE entry SET text = 'SELECT 1' WHERE seq = 7",
        "UPDATE entry SET time = '1970-01-01' WHERE seq = 7",
        "UPDATE entry SET hash = 'x' WHERE seq = 40",
        "UPDATE entry SET seq = 41 WHERE seq = 40",
        "UPDATE entry SET answered = 2 WHERE seq = 40",
        "INSERT INTO entry VALUES (41, '', 'charge', 'alice', 0, 0, 0, '', '', 0)",
        "UPDATE account SET spent_epsilon = 0",
        "UPDATE account SET spent_epsilon = spent_epsilon - 1 WHERE name = 'alice'",
        "UPDATE account SET limit_epsilon = limit_epsilon * 2",
        "UPDATE account SET limit_rho = 1 WHERE name = 'alice'",
        "DELETE FROM account WHERE name = 'bob'",
        "DELETE FROM account WHERE name = ''",
        "INSERT INTO account (name, limit_epsilon, limit_delta, limit_rho) VALUES ('mallory', 9, 0, 0)",
        "UPDATE founding SET document = replace(document, 'clinic', 'other')",
        "UPDATE founding SET hash = 'x'",
        "DELETE FROM founding",
        "DROP TABLE founding",
        "CREATE TRIGGER refund AFTER UPDATE ON account BEGIN UPDATE account SET spent_epsilon = 0; END",
        "CREATE TABLE more (x)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE INDEX more ON entry (time)",
        "ALTER TABLE account ADD COLUMN more INT",
        "PRAGMA application_id = 1",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 3",
    ],
)
def test_tampering_is_found(path: Path, tampering: str) -> None:
    filled(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(tampering)
    other.close()
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path)
    assert str(path) in str(caught.value)


def test_tampering_is_found_by_an_open_ledger(path: Path) -> None:
    ledger = create(path)
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("UPDATE account SET spent_epsilon = 0")
    other.close()
    with pytest.raises(LedgerError, match="totals"):
        ledger.verify()


def test_a_lost_journal_is_harmless_or_found(path: Path, folder: Path, faulty: type[Faulty]) -> None:
    """A process is killed within a charge, and somebody deletes the journal that would have undone it."""
    create(path, "1000").close()
    for statement in range(1, 25):
        ledger = Ledger.open(path)
        spent, before = ledger.spent(None).epsilon, path.read_bytes()

        def work(statement: int = statement, ledger: Ledger = ledger) -> None:
            faulty.before = staticmethod(lambda: os.kill(os.getpid(), signal.SIGKILL))
            faulty.countdown = statement
            ledger.charge(analyst="alice", loss=UNIT, query=QUERY)

        status_of(in_child(work))
        ledger.close()
        path.with_name(path.name + "-journal").unlink(missing_ok=True)
        try:
            assert Ledger.open(path).spent(None).epsilon >= spent
        except LedgerError:
            path.write_bytes(before)


# Numbers (ACC-03, ACC-08, ACC-09)


@pytest.mark.parametrize(
    "amount", [math.nan, math.inf, -1, True, "1e400", "1e-320", 1e-320, "-0", "0", Decimal("NaN"), "１", None, 10**400]
)
def test_bad_numbers_are_no_losses(amount: object) -> None:
    with pytest.raises(InvalidLossError):
        parse_amount(amount, name="epsilon")
    with pytest.raises(InvalidLossError):
        PrivacyLoss(epsilon=amount)  # type: ignore[arg-type]
    with pytest.raises(InvalidLossError):
        Budget.of(epsilon=amount)


def test_tiny_charges_are_not_free(path: Path) -> None:
    """Charges of 1e-17 vanish in floating point; here each takes a whole unit of 1e-12."""
    ledger = create(path, "1e-9")
    tiny = PrivacyLoss(epsilon=Fraction(1, 10**17))
    for _ in range(1000):
        ledger.charge(analyst="alice", loss=tiny, query=QUERY)
    assert ledger.remaining("alice") == ZERO
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=tiny, query=QUERY)


def test_charges_beyond_the_integers_are_refused(path: Path) -> None:
    ledger = create(path)
    for amount in (10**6 + 1, 2**63, 10**30, 10**5000):
        with pytest.raises(InvalidLossError):
            ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction(amount)), query=QUERY)
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction(10**6)), query=QUERY)
    assert ledger.verify() == 0


def test_the_largest_budget_overflows_nothing(path: Path) -> None:
    ledger = create(path, "1000000")
    ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction(10**6)), query=QUERY)
    for amount in (Fraction(10**6), Fraction(1, 10**12)):
        with pytest.raises(InsufficientBudgetError):
            ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=amount), query=QUERY)


def test_a_chosen_sequence_of_epsilons_stops_at_the_sum(path: Path) -> None:
    ledger, spent = create(path), Fraction(0)
    random_amounts = random.Random(20240229)
    for _ in range(300):
        amount = Fraction(random_amounts.randrange(1, 10**11), 10**13)
        try:
            ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=amount), query=QUERY)
        except InsufficientBudgetError:
            assert spent + amount > Fraction(999_999, 10**6)
        else:
            spent += amount
    assert Fraction(9, 10) < spent <= ledger.spent(None).epsilon <= 1


def test_deltas_add_up_and_stop(path: Path) -> None:
    ledger = Ledger.create(path, declarations(), Budget.of(epsilon=4, delta="1e-6"), {})
    loss = PrivacyLoss(rho=Fraction(1, 10**9), delta=Fraction("1e-7"))
    for _ in range(5):  # half of the delta is set apart for the conversion
        ledger.charge(analyst="alice", loss=loss, query=QUERY)
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=loss, query=QUERY)
    ledger.charge(analyst="alice", loss=PrivacyLoss(rho=Fraction(1, 10**9)), query=QUERY)


def test_the_clock_decides_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LED-12: times may go back and repeat."""
    ledger = create(path, "0.003")
    for moment in ("2038-01-20T00:00:00", "1970-01-01T00:00:00", "1970-01-01T00:00:00"):
        monkeypatch.setattr("dpquery.ledger.book.now", lambda moment=moment: moment)
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    assert [entry.seq for entry in Ledger.open(path).entries()] == [1, 2, 3]


def test_no_error_but_ours_leaves_a_damaged_ledger(path: Path) -> None:
    content, _ = filled(path)
    for _ in range(100):
        damaged = bytearray(content)
        start = random.randrange(len(content))
        damaged[start : start + 200] = random.randbytes(len(damaged[start : start + 200]))
        path.write_bytes(damaged)
        with contextlib.suppress(DPQueryError):
            ledger = Ledger.open(path)
            ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
            ledger.close()
