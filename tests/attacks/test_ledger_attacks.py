"""Attacks on the ledger: races, kills, full disks, damage, old copies, bad numbers. Each must fail.

The invariant after each: released <= recorded <= limit, and what is recorded can be read from the file alone.
"""

from __future__ import annotations

import contextlib
import errno
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
from typing import Any, TypeVar

import pytest

from dpquery.errors import DPQueryError, InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import ZERO, PrivacyLoss, parse_amount
from dpquery.ledger import disk as ledger_disk
from dpquery.ledger import file as ledger_file
from dpquery.ledger import replay as ledger_replay
from dpquery.ledger import schema
from dpquery.ledger.ledger import Ledger, State
from dpquery.ledger.mark import MarkFile
from dpquery.ledger.store import BUSY
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration
from tests.forking import FORK, fork
from tests.waiting import PATIENCE, wait_until

UNIT = PrivacyLoss(epsilon=Fraction(1, 1000))
QUERY = "SELECT COUNT(*) FROM visits"
Done = TypeVar("Done")
KILLS = int(os.environ.get("LEDGER_KILLS", "10000"))
RACES = int(os.environ.get("LEDGER_RACES", "300"))  # of 1,000 charges each


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
    child = fork()
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
    ledger = ledger or in_time(lambda: Ledger.open(path))
    answers = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(InsufficientBudgetError):
        while True:
            entry = in_time(lambda: ledger.charge(analyst=analyst, loss=UNIT, query=QUERY))
            os.write(answers, b"%d\n" % entry)
            ledger.complete(entry)


def in_time(work: Callable[[], Done]) -> Done:
    """Does it, again where others were too slow: then, as is said, nothing was recorded."""
    while True:
        try:
            return work()
        except LedgerError as error:
            if BUSY not in str(error):
                raise


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
        thread.join(PATIENCE)
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
        thread.join(PATIENCE)
    assert assert_invariant(path, folder) == 1000


@FORK
def test_no_fork_happens_within_a_charge(path: Path) -> None:
    """A child that inherits half a transaction could neither trust its locks nor close its connection."""
    ledger, inside = create(path), threading.Event()

    def hold() -> None:
        with ledger._writing():
            inside.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(PATIENCE)
    assert status_of(in_child(lambda: ledger.charge(analyst="alice", loss=UNIT, query=QUERY))) == 0
    thread.join()
    assert ledger.verify() == 1


# Kills (LED-02, LED-16)


def kill_at_random(path: Path, folder: Path, times: int) -> int:
    """Returns how many entries survive when three processes are killed together, again and again: in each second turn
    only once one of them has charged, on however busy a machine."""
    for turn in range(times):
        children = [
            in_child(lambda log=folder / f"{turn}-{i}.log": charge_until_refused(path, log))  # type: ignore[misc]
            for i in range(3)
        ]
        if turn % 2:
            wait_until(lambda turn=turn: any(log.stat().st_size for log in folder.glob(f"{turn}-*.log")))  # type: ignore[misc]
        time.sleep(random.uniform(0.005, 0.05))
        for child in children:
            os.kill(child, signal.SIGKILL)
        assert {status_of(child) for child in children} <= {-signal.SIGKILL, 0}
        entries = assert_invariant(path, folder)
    return entries


def test_kills_at_random_moments_lose_nothing(path: Path, folder: Path) -> None:
    create(path, "1000").close()
    assert kill_at_random(path, folder, 12) >= 6
    assert len(released(folder)) >= 6


@pytest.mark.slow
def test_ten_thousand_kills_on_a_real_disk(tmp_path: Path) -> None:
    """A hundred kills for each ledger, as every kill is followed by a look at all of its entries."""
    for block in range(0, KILLS, 100):
        inner = tmp_path / str(block)
        inner.mkdir()
        create(inner / "ledger", "1000").close()
        assert kill_at_random(inner / "ledger", inner, min(100, KILLS - block)) > 0
        shutil.rmtree(inner)


CALLS = ("open", "pread", "pwrite", "fdatasync", "close", "fstat")
"""What a charge asks the system for."""


class Faults:
    """Does something before or after the n-th call of the system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.countdown = 0
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        monkeypatch.setattr(ledger_disk, "SYNC", os.fdatasync)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.countdown -= 1
            is_due = self.countdown == 0
            if is_due:
                self.before()
            result = call(*arguments, **named)
            if is_due:
                self.after()
            return result

        return counted


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_each_call_of_the_system_loses_nothing(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    create(path, "1000").close()
    killed = 0
    for call in range(1, 200):
        ledger = Ledger.open(path)
        recorded = ledger.verify()

        def work(call: int = call, ledger: Ledger = ledger) -> None:
            with monkeypatch.context() as patch:
                faults = Faults(patch)
                setattr(faults, when, lambda: os.kill(os.getpid(), signal.SIGKILL))
                faults.countdown = call
                entry = ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
            (folder / f"{call}.log").write_text(f"{entry}\n")

        if status_of(in_child(work)) == 0:
            break
        killed += 1
        ledger.close()
        assert assert_invariant(path, folder) - recorded in (0, 1)
    assert killed > 15
    assert assert_invariant(path, folder) >= 1


def test_pending_charges_are_never_given_back(path: Path) -> None:
    ledger = create(path, "0.003")
    for _ in range(3):
        child = in_child(lambda: ledger.charge(analyst="alice", loss=UNIT, query=QUERY))
        assert status_of(child) == 0
    assert [entry.state for entry in Ledger.open(path).entries()] == [State.PENDING] * 3
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


# Disks (LED-07)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EINTR])
def test_each_call_of_the_system_may_fail(path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """An error is ours, nothing is answered, and a ledger that is opened again goes on."""

    def fail() -> None:
        raise OSError(error, os.strerror(error))

    create(path, "1000").close()
    failures = 0
    for call in range(1, 200):
        ledger = Ledger.open(path)
        recorded = ledger.verify()
        with monkeypatch.context() as patch:
            faults = Faults(patch)
            faults.before, faults.countdown = fail, call
            try:
                ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
            except LedgerError:
                failures += 1
            if faults.countdown > 0:
                break
        assert Ledger.open(path).verify() - recorded in (0, 1)
    assert failures > 15


def test_a_full_disk_refuses_and_recovers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = create(path, "1000")
    write, room = os.pwrite, [path.stat().st_size + 1000]

    def full(descriptor: int, content: bytes, position: int) -> int:
        fits = content[: max(0, room[0] - position)]
        if not fits and content:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, fits, position)

    monkeypatch.setattr("dpquery.ledger.file.os.pwrite", full)
    monkeypatch.setattr("dpquery.ledger.mark._write", lambda *told: write(told[0], told[2], 512 * told[1]))
    with pytest.raises(LedgerError, match="No space left"):
        charge_until_refused(path, path.with_suffix(".log"), ledger=ledger)
    recorded = ledger.verify()
    assert recorded == len(released(path.parent)) > 1
    room[0] += 10_000
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == recorded + 1


@pytest.mark.parametrize("room", [0, 1, 100, 511, 512, 513, 600, 4096, 5000, 20_480, 34_816, 35_000, 40_000])
def test_a_disk_that_takes_no_more_bytes_refuses(path: Path, room: int) -> None:
    """The size of files is limited in a child, at every size at which a write of a charge may break off."""
    create(path, "1000").close()

    def work() -> None:
        ledger = Ledger.open(path)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        answered = 0
        try:
            for _ in range(400):
                ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
                answered += 1
        except LedgerError:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            recorded = Ledger.open(path).verify()
            assert recorded - answered in (0, 1)  # 1: where the mark could not be written
            assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == recorded + 1
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


@pytest.mark.parametrize("is_suspect", [False, True])
def test_a_charge_whose_entry_is_gone_is_not_answered(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_suspect: bool
) -> None:
    """An older copy comes back while the charge waits to be made durable; another thread's failure, or a connection
    that was opened again, may have made the ledger read everything anew."""
    ledger, turn = create(path), MarkFile.turn
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    copy = path.read_bytes()

    def put_back(mark: MarkFile) -> Any:
        path.write_bytes(copy)
        ledger._store.is_suspect |= is_suspect
        return turn(mark)

    with monkeypatch.context() as patch:
        patch.setattr(MarkFile, "turn", put_back)
        with pytest.raises(LedgerError, match="older copy"):
            ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


def test_another_dataset_put_in_place_refuses(path: Path, folder: Path) -> None:
    ledger = create(path)
    Ledger.create(folder / "other", declarations("other"), Budget.of(epsilon=9), {}).close()
    path.write_bytes((folder / "other").read_bytes())
    with pytest.raises(LedgerError, match="older copy"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    ledger.close()
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="one mark"):
        Ledger.open(path, mark=folder / "other.mark")
    path.with_name("clinic.ledger.mark").unlink()
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
    size = len(filled(path)[0])
    for file in path.parent.iterdir():
        file.unlink()
    flip_bytes(path, list(range(size)))


def test_truncated_files_are_refused(path: Path) -> None:
    content, _ = filled(path)
    answered = len(content.splitlines(keepends=True)[-1])  # was written by `close`, behind what the mark remembers
    for size in [0, 1, 64, 65, 99, 100, *range(101, len(content) - answered, 97), len(content) - answered - 1]:
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
    with pytest.raises(LedgerError, match="not a dpquery ledger"):
        Ledger.open(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "tampering",
    [
        lambda lines: lines[:-2],
        lambda lines: lines[:1],
        lambda lines: [],
        lambda lines: lines[:20] + lines[21:],
        lambda lines: lines[:1] + lines[2:],
        lambda lines: [*lines[:20], lines[21], lines[20], *lines[22:]],
        lambda lines: [*lines[:20], lines[20], *lines[20:]],
        lambda lines: [line.replace("[1000000000, 0, 0]", "[0, 0, 0]") for line in lines],
        lambda lines: [line.replace("[1000000000, 0, 0]", "[-1000000000, 0, 0]") for line in lines],
        lambda lines: [line.replace("alice", "bob") for line in lines],
        lambda lines: [line.replace('[7, "charge"', '[7, "data"') for line in lines],
        lambda lines: [line.replace("-- 7", "-- 8") for line in lines],
        lambda lines: [line.replace(" [7, ", " [8, ") for line in lines],
        lambda lines: [line.replace("T", "t", 1) for line in lines],
        lambda lines: ["0" * 64 + line[64:] for line in lines],
        lambda lines: [lines[0].replace("clinic", "other"), *lines[1:]],
        lambda lines: [lines[0].replace('"version": 3', '"version": 4'), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [line + " " for line in lines],
    ],
)
def test_tampering_is_found(path: Path, tampering: Callable[[list[str]], list[str]]) -> None:
    filled(path)
    path.write_text("".join(f"{line}\n" for line in tampering(path.read_text().splitlines())))
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path)
    assert str(path) in str(caught.value)


def test_tampering_is_found_by_an_open_ledger(path: Path) -> None:
    ledger = create(path)
    for _ in range(2):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    path.write_bytes(path.read_bytes().replace(b"alice", b"mandy", 1))
    with pytest.raises(LedgerError, match="damaged"):
        ledger.verify()


# Checkpoints (LED-21)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_replay, "OFTEN", 7)


def test_opening_begins_at_the_last_checkpoint_that_the_mark_covers(
    path: Path, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, spent = filled(path)
    lines = path.read_text().splitlines()
    assert sum('"checkpoint"' in line for line in lines) == 5
    followed, follow = list[str](), ledger_replay.Replay.follow
    monkeypatch.setattr(ledger_replay.Replay, "follow", lambda self, line: followed.append(line) or follow(self, line))  # type: ignore[func-returns-value]
    assert Ledger.open(path).spent(None).epsilon == spent
    assert followed == lines[len(lines) - len(followed) :] and len(followed) < 15
    followed.clear()
    assert Ledger.open(path).verify() == 40
    assert followed[-len(lines) + 1 :] == lines[1:]


def test_a_checkpoint_behind_the_mark_is_not_believed(path: Path, often: None) -> None:
    """Only the hash in the mark tells that it was written by who followed the chain."""
    filled(path)
    lines = path.read_text().splitlines()
    at = max(number for number, line in enumerate(lines) if '"checkpoint"' in line)
    told = schema.read_checkpoint(lines[at])
    assert told is not None
    (content,) = told.content
    forged = schema.write(content["before"], told.seq, schema.CHECKPOINT, {**content, "sums": {}})
    path.write_text("".join(f"{line}\n" for line in [*lines[:at], forged.line]))
    with pytest.raises(LedgerError):
        Ledger.open(path)
    path.write_text("".join(f"{line}\n" for line in [*lines[:at], forged.line, *lines[at + 1 :]]))
    with pytest.raises(LedgerError):
        Ledger.open(path)


@pytest.mark.parametrize("changed", [{"sums": {}}, {"budgets": {}}, {"lost": [0, 0, 1]}, {"entry": "0" * 64}])
def test_a_checkpoint_is_what_its_entries_make_it(path: Path, often: None, changed: dict[str, object]) -> None:
    """Also one with a right hash, by somebody who may write the ledger: whoever follows the chain refuses it."""
    ledger = create(path)
    for _ in range(7):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    lines = path.read_text().splitlines()
    told = schema.read_checkpoint(lines[-1])
    assert told is not None
    (content,) = told.content
    forged = schema.write(content["before"], 7, schema.CHECKPOINT, {**content, **changed})
    path.write_text("".join(f"{line}\n" for line in [*lines[:-1], forged.line]))
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(path).verify()


def test_ledgers_with_checkpoints_are_read_from_anywhere(path: Path, often: None) -> None:
    filled(path)
    ledger = Ledger.open(path)
    every = ledger.entries()
    assert [entry.seq for entry in every] == list(range(1, 41))
    for after in (0, 1, 6, 7, 8, 20, 39, 40, 41, -1):
        assert ledger.entries(after=after) == every[max(after, 0) :]
    assert ledger.hashes(range(-3, 50)) == {0: ledger.hash_of(0), **{entry.seq: entry.hash for entry in every}}
    assert [ledger.hash_of(entry.seq) for entry in every] == [entry.hash for entry in every]


def test_entries_are_found_in_long_ledgers(path: Path, often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves: with a page of 100 bytes, each search ends at another line."""
    filled(path)
    ledger = Ledger.open(path)
    hashes = [entry.hash for entry in ledger.entries()]
    monkeypatch.setattr(ledger_file, "PAGE", 100)
    for seq, hash in enumerate(hashes, 1):
        with ledger._reading() as log:
            position = log.find(seq)
            assert position is not None
            assert next(log.lines(position))[1].startswith(hash)
            assert log.find(41) is None
    assert Ledger.open(path).verify() == 40


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
