"""The ledger: what it records, what it refuses, and what it says to its owner."""

from __future__ import annotations

import copy
import fcntl
import os
import pickle
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dpquery.errors import CatalogError, InsufficientBudgetError, InternalError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget, counted, limit_of
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger import disk as ledger_disk
from dpquery.ledger import mark as ledger_mark
from dpquery.ledger.ledger import Ledger, State
from dpquery.plan.logical import Ownership, OwnerStep
from dpquery.plan.types import INT64
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

DECLARATIONS = Declarations(
    dataset="hospital",
    privacy_unit="patient",
    neighbours=Neighbours.ADD_REMOVE,
    tables={
        "labs": TableDeclaration(
            name="labs",
            public=False,
            ownership=Ownership(
                path=(OwnerStep(parent="patients", on=(("patient", "id", INT64),)),), column="id", type=INT64
            ),
        ),
        "tests": TableDeclaration(name="tests", public=True, unique=(frozenset({"code"}),)),
    },
)
PURE = Budget.of(epsilon=1)


def epsilon(amount: str) -> PrivacyLoss:
    return PrivacyLoss(epsilon=Fraction(amount))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory in memory where there is one: these tests end processes, not the machine's power."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "hospital.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, DECLARATIONS, PURE, {"alice": Budget.of(epsilon="1/2"), "bob": Budget.of(epsilon=3)})


def test_a_new_ledger_knows_its_promise(ledger: Ledger, path: Path) -> None:
    for opened in (ledger, Ledger.open(path)):
        assert opened.declarations == DECLARATIONS
        assert opened.budget == PURE
        assert opened.limit(None) == epsilon("1")
        assert opened.limit("alice") == epsilon("1/2")
        assert opened.spent(None) == opened.spent("alice") == ZERO
        assert opened.entries() == []
        assert opened.verify() == 0


def test_a_charge_is_recorded_for_the_analyst_and_the_dataset(ledger: Ledger, path: Path) -> None:
    assert ledger.charge(analyst="alice", loss=epsilon("0.3"), query="SELECT 1") == 1
    assert ledger.charge(analyst="bob", loss=epsilon("0.1"), query="SELECT 2") == 2
    for opened in (ledger, Ledger.open(path)):
        assert opened.spent(None) == epsilon("0.4")
        assert opened.spent("alice") == epsilon("0.3")
        assert opened.remaining("alice") == epsilon("0.2")
        assert opened.remaining("bob") == epsilon("0.6")
        assert opened.verify() == 2


def test_entries_tell_who_asked_what_and_whether_it_was_answered(ledger: Ledger, path: Path) -> None:
    first = ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    ledger.charge(analyst="bob", loss=epsilon("0.2"), query="SELECT 2")
    ledger.complete(first)
    ledger.close()
    for opened in (ledger, Ledger.open(path)):
        one, two = opened.entries()
        assert (one.seq, one.analyst, one.loss, one.query, one.state) == (
            1,
            "alice",
            epsilon("0.1"),
            "SELECT 1",
            State.ANSWERED,
        )
        assert (two.seq, two.analyst, two.state) == (2, "bob", State.PENDING)
        assert one.time <= two.time


def test_the_next_charge_writes_that_the_last_was_answered(ledger: Ledger, path: Path) -> None:
    ledger.complete(ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1"))
    assert ledger.entries()[0].state is State.ANSWERED
    ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert [entry.state for entry in Ledger.open(path).entries()] == [State.ANSWERED, State.PENDING]


def test_pending_entries_count_as_spent(ledger: Ledger, path: Path) -> None:
    ledger.charge(analyst="alice", loss=epsilon("0.5"), query="SELECT 1")
    ledger.close()
    with pytest.raises(InsufficientBudgetError):
        Ledger.open(path).charge(analyst="alice", loss=epsilon("1e-12"), query="SELECT 1")


@pytest.mark.parametrize(("analyst", "left"), [("alice", "0.5"), ("bob", "1")])
def test_a_charge_beyond_a_limit_is_refused_and_not_recorded(ledger: Ledger, analyst: str, left: str) -> None:
    above = epsilon(left) + epsilon("1e-12")
    with pytest.raises(InsufficientBudgetError) as caught:
        ledger.charge(analyst=analyst, loss=above, query="SELECT 1")
    assert caught.value.requested == above
    assert caught.value.remaining == epsilon(left)
    assert analyst in str(caught.value)
    assert ledger.verify() == 0
    assert ledger.spent(None) == ZERO
    ledger.charge(analyst=analyst, loss=epsilon(left), query="SELECT 1")
    assert ledger.remaining(analyst) == ZERO


def test_a_refusal_leaves_the_file_as_it_was(ledger: Ledger, path: Path) -> None:
    ledger.charge(analyst="alice", loss=epsilon("0.4"), query="SELECT 1")
    before = path.read_bytes()
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=epsilon("0.2"), query="SELECT 1")
    assert path.read_bytes() == before


def test_analysts_need_not_be_declared_where_none_is(path: Path) -> None:
    ledger = Ledger.create(path, DECLARATIONS, PURE, {})
    assert ledger.limit("anyone") == ledger.remaining("anyone") == epsilon("1")
    ledger.charge(analyst="anyone", loss=epsilon("0.6"), query="SELECT 1")
    assert Ledger.open(path).spent("anyone") == epsilon("0.6")
    assert ledger.remaining("someone else") == epsilon("0.4")
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="someone else", loss=epsilon("0.5"), query="SELECT 1")
    assert ledger.verify() == 1


def test_an_unknown_analyst_is_refused_where_some_are_declared(ledger: Ledger) -> None:
    with pytest.raises(InvalidLossError, match="mallory"):
        ledger.charge(analyst="mallory", loss=epsilon("0.1"), query="SELECT 1")
    with pytest.raises(InvalidLossError):
        ledger.remaining("mallory")
    assert ledger.verify() == 0


@pytest.mark.parametrize("name", ["", "a" * 101, "a\nb", "\ud800", None, b"alice", 1])
def test_odd_names_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidLossError):
        ledger.charge(analyst=name, loss=epsilon("0.1"), query="SELECT 1")
    assert ledger.verify() == 0


@pytest.mark.parametrize("query", ["", "a\x00b", "\ud800", "'; DROP TABLE entry; --", "é" * 20_000, "\n\t\U0001f600"])
def test_any_text_may_be_recorded(ledger: Ledger, path: Path, query: str) -> None:
    ledger.charge(analyst="alice", loss=epsilon("0.1"), query=query)
    recorded = Ledger.open(path).entries()[0].query
    assert recorded == query[:10_000].encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def test_delta_and_rho_are_counted_with_both_limits(path: Path) -> None:
    budget = Budget.of(rho="0.5", delta="1e-6")
    ledger = Ledger.create(path, DECLARATIONS, budget, {"alice": Budget.of(rho="0.2", delta="1e-6")})
    ledger.charge(analyst="alice", loss=PrivacyLoss(rho=Fraction("0.1"), delta=Fraction("9e-7")), query="SELECT 1")
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=PrivacyLoss(rho=Fraction("0.01"), delta=Fraction("2e-7")), query="SELECT 1")
    assert ledger.remaining("alice") == PrivacyLoss(rho=Fraction("0.1"), delta=Fraction("1e-7"))


def test_analysts_of_an_approximate_budget_get_their_own_conversion(path: Path) -> None:
    budget, alice = Budget.of(epsilon=4, delta="1e-6"), Budget.of(epsilon=1, delta="2e-7")
    ledger = Ledger.create(path, DECLARATIONS, budget, {"alice": alice})
    assert ledger.limit(None) == limit_of(budget)
    assert ledger.limit("alice") == limit_of(alice)
    assert ledger.limit("alice").delta == Fraction("1e-7")


def test_budgets_of_analysts_are_of_the_dataset_kind(path: Path) -> None:
    with pytest.raises(CatalogError):
        Ledger.create(path, DECLARATIONS, PURE, {"alice": Budget.of(rho=1)})
    assert not path.exists()


@pytest.mark.parametrize(
    "loss",
    [ZERO, PrivacyLoss(rho=Fraction(1, 10)), PrivacyLoss(epsilon=Fraction(1, 10), rho=Fraction(1, 10)), 0.1, None],
)
def test_a_charge_is_a_loss_in_the_currency_of_the_budget(ledger: Ledger, loss: PrivacyLoss) -> None:
    with pytest.raises(InternalError):
        ledger.charge(analyst="alice", loss=loss, query="SELECT 1")
    assert ledger.verify() == 0


@pytest.mark.parametrize("entry", [0, -1, True, "1", None])
def test_completing_what_is_no_entry_is_refused(ledger: Ledger, entry: int) -> None:
    with pytest.raises(InternalError):
        ledger.complete(entry)


def test_nothing_is_created_where_something_stands(ledger: Ledger, path: Path, folder: Path) -> None:
    with pytest.raises(LedgerError, match="exists"):
        Ledger.create(path, DECLARATIONS, PURE, {})
    (folder / "b.ledger").symlink_to(folder / "nowhere")
    with pytest.raises(LedgerError, match="exists"):
        Ledger.create(folder / "b.ledger", DECLARATIONS, PURE, {})
    for end in ("mark", "releases"):
        (folder / f"c.ledger.{end}").touch()
        with pytest.raises(LedgerError, match="delete what is left") as caught:
            Ledger.create(folder / "c.ledger", DECLARATIONS, PURE, {})
        assert str(folder / f"c.ledger.{end}") in str(caught.value)
        (folder / f"c.ledger.{end}").unlink()
    Ledger.create(folder / "c.ledger", DECLARATIONS, PURE, {})
    with pytest.raises(LedgerError):
        Ledger.create(folder / "missing" / "d.ledger", DECLARATIONS, PURE, {})


def test_opening_never_creates(path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger here"):
        Ledger.open(path)
    assert not path.exists()


def test_only_the_owner_may_read_and_write(ledger: Ledger, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o660)
    with pytest.raises(LedgerError, match="chmod 600"):
        Ledger.open(path)


def test_links_and_directories_are_refused(ledger: Ledger, path: Path, folder: Path) -> None:
    (folder / "link").symlink_to(path)
    (folder / "directory").mkdir()
    os.mkfifo(folder / "pipe")
    for name in ("link", "directory", "pipe"):
        with pytest.raises(LedgerError):
            Ledger.open(folder / name)
    (folder / "second").hardlink_to(path)
    with pytest.raises(LedgerError, match="single name"):
        Ledger.open(path)


def test_a_directory_may_be_reached_by_a_link(ledger: Ledger, path: Path, folder: Path) -> None:
    (folder / "inner").symlink_to(folder)
    assert Ledger.open(folder / "inner" / path.name).verify() == 0


def test_names_with_signs_of_their_own_are_names(folder: Path) -> None:
    path = folder / "a?mode=memory#x %41.ledger"
    Ledger.create(path, DECLARATIONS, PURE, {}).charge(analyst="a", loss=epsilon("0.1"), query="SELECT 1")
    assert path.stat().st_size > 0
    assert Ledger.open(path).spent(None) == epsilon("0.1")


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\n", "nfs4"),
        ("server:/x / nfs rw 0 0\n/dev/sda /data ext4 rw 0 0\n", "ext4"),
        ("/dev/sda / ext4 rw 0 0\n//host/share /data/a\\040b cifs rw 0 0\n", "cifs"),
        ("/dev/sda / ext4 rw 0 0\nserver:/x /dat nfs rw 0 0\n", "ext4"),
        ("/dev/sda /data ext4 rw 0 0\nserver:/x /data nfs rw 0 0\n", "nfs"),
    ],
)
def test_file_systems_are_recognised(folder: Path, mounts: str, kind: str) -> None:
    (folder / "mounts").write_text(mounts)
    assert ledger_disk.file_system(Path("/data/a b"), folder / "mounts") == kind


def test_file_systems_need_not_be_told(folder: Path) -> None:
    assert ledger_disk.file_system(folder, folder / "missing") == ""


def test_network_file_systems_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_disk, "file_system", lambda folder: "nfs4")
    with pytest.raises(LedgerError, match="network"):
        Ledger.create(folder / "a", DECLARATIONS, PURE, {})


def test_ledgers_cannot_be_copied(ledger: Ledger) -> None:
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="open it again"):
            duplicate(ledger)


def test_a_charge_is_durable_in_two_syncs_the_ledger_before_the_mark(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, size = list[tuple[int, bool]](), path.stat().st_size
    inodes = [path.stat().st_ino, ledger.mark_path.stat().st_ino]

    def sync(descriptor: int) -> None:
        is_grown = path.stat().st_size > size
        synced.append((inodes.index(os.fstat(descriptor).st_ino), is_grown))
        marked = ledger_mark.MarkFile(ledger.mark_path).read(ledger._terms.identity).newest
        assert marked.seq == len(synced) - 1

    monkeypatch.setattr(ledger_disk, "sync", sync)
    ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert synced == [(0, True), (1, True)]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failed_sync_gives_no_answer(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    calls = list[int]()

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == failing + 1:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(ledger_disk, "sync", sync)
    with pytest.raises(LedgerError, match="Input/output error"):
        ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    if not failing:  # what the system shows may not be what the disk holds
        with pytest.raises(LedgerError, match="open the ledger again"):
            ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert Ledger.open(path).charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == 2
    assert Ledger.open(path).spent(None) == epsilon("0.2")


def test_errors_of_the_system_never_escape(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("dpquery.ledger.file.os.pread", fail)
        for use in (lambda: ledger.spent(None), lambda: ledger.charge(analyst="alice", loss=epsilon("0.1"), query="")):
            with pytest.raises(LedgerError, match="Input/output"):
                use()
    assert ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == 1


def test_a_transaction_within_a_transaction_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError), ledger._writing():
        ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == 1


@pytest.mark.parametrize("after", [0, 1, 40, 10_000])
def test_an_interrupted_charge_is_cut_off(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """A write may break off after any of its bytes; with 10,000 it is whole, and stays recorded."""
    write = os.pwrite

    def interrupted(descriptor: int, content: bytes, position: int) -> int:
        write(descriptor, content[:after], position)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpquery.ledger.file.os.pwrite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    kept = int(after == 10_000)
    assert ledger.verify() == Ledger.open(path).verify() == kept
    assert ledger.spent(None) == (epsilon("0.1") if kept else ZERO)
    assert ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == kept + 1
    assert Ledger.open(path).verify() == kept + 1


def test_a_lock_that_stays_ends_in_a_clean_refusal(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_disk, "PATIENCE", 0.1)
    with open(path, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match=r"busy.*nothing was recorded"):
            ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == 1


def test_a_mark_that_is_locked_gives_no_answer(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_disk, "PATIENCE", 0.1)
    with open(ledger.mark_path, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match=r"busy.*the charge is kept"):
            ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == 2


def test_readers_wait_for_nobody(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_disk, "PATIENCE", 0.1)
    ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    with open(path, "rb") as writer, open(ledger.mark_path, "rb") as marker:
        for held in (writer, marker):
            fcntl.flock(held, fcntl.LOCK_EX)
        opened = Ledger.open(path)
        assert opened.remaining("alice") == epsilon("0.4")
        assert opened.spent(None) == epsilon("0.1")
        assert opened.mark == ledger.mark and opened.data_version == ledger.data_version
        assert len(opened.entries()) == opened.verify() == 1
        assert opened.hashes([0, 1, 2]).keys() == {0, 1}


def test_a_line_that_is_being_written_is_not_read(ledger: Ledger, path: Path) -> None:
    """Nor one that broke off; the next writer removes it."""
    ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    whole = path.read_bytes()
    for rest in (whole.splitlines(keepends=True)[-1][:-1], b"\0" * 600, b"\xff\n", b"x\n" * 3, b"\n"):
        path.write_bytes(whole + rest)
        for opened in (ledger, Ledger.open(path)):
            assert opened.verify() == 1
            assert opened.spent(None) == epsilon("0.1")
        assert path.read_bytes() == whole + rest
    ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    assert path.read_bytes().startswith(whole) and path.read_bytes().count(b"\n") == 3


def test_a_record_that_was_changed_is_never_taken_for_one_that_broke_off(ledger: Ledger, path: Path) -> None:
    """What the mark remembers was answered, and a ledger without it is refused and left as it is."""
    for _ in range(3):
        ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines)):
        one = lines[number].replace(b"100000000000", b"100000000001")
        changed = [*lines[:number], one, *lines[number + 1 :]]
        path.write_bytes(b"".join(changed))
        for use in (lambda: Ledger.open(path), ledger.verify):
            with pytest.raises(LedgerError, match="damaged"):
                use()
        assert path.read_bytes() == b"".join(changed)


def test_two_paths_lead_to_one_ledger(
    ledger: Ledger, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "inner").symlink_to(folder)
    monkeypatch.chdir(folder)
    names = [folder / "inner" / path.name, path.name, f"./inner/{path.name}"]
    ledgers = [ledger, *map(Ledger.open, names)]  # type: ignore[arg-type]
    for number, opened in enumerate(ledgers, 1):
        assert opened.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == number
        assert len({str(opened.place), str(path)}) == 1
    assert {opened.spent(None) for opened in ledgers} == {epsilon("0.4")}


@pytest.mark.parametrize("spoil", ["link", "mode", "symlink"])
def test_permissions_and_links_are_looked_at_before_each_charge(ledger: Ledger, path: Path, spoil: str) -> None:
    if spoil == "link":
        path.with_name("second").hardlink_to(path)
    elif spoil == "mode":
        path.chmod(0o666)
    else:
        path.rename(path.with_name("moved"))
        path.symlink_to(path.with_name("moved"))
    with pytest.raises(LedgerError, match=r"single name|chmod 600"):
        ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")


def test_a_ledger_has_one_mark(ledger: Ledger, path: Path, folder: Path) -> None:
    copy = folder / "copy.mark"
    copy.write_bytes(ledger.mark_path.read_bytes())
    copy.chmod(0o600)
    with pytest.raises(LedgerError, match="one mark"):
        Ledger.open(path, mark=copy)
    ledger.mark_path.unlink()
    assert Ledger.open(path, mark=copy).charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1") == 1


def test_the_ledger_of_an_older_release_is_told_as_such(path: Path) -> None:
    old = sqlite3.connect(path)
    old.execute("CREATE TABLE account (name TEXT)")
    old.execute("PRAGMA application_id = 1685082417")
    old.commit()
    old.close()
    path.chmod(0o600)
    with pytest.raises(LedgerError, match="format 2"):
        Ledger.open(path)


def test_a_mark_kept_elsewhere_tells_an_older_copy(ledger: Ledger, path: Path) -> None:
    marks = [ledger.mark]
    for _ in range(3):
        ledger.charge(analyst="alice", loss=epsilon("0.1"), query="SELECT 1")
        marks.append(ledger.mark)
        if len(marks) == 2:
            old, old_mark = path.read_bytes(), ledger.mark_path.read_bytes()
    for mark in marks:
        assert Ledger.open(path, since=mark).verify() == 3
    path.write_bytes(old)
    with pytest.raises(LedgerError, match="names entry 3"):
        Ledger.open(path, since=marks[1])
    ledger.mark_path.write_bytes(old_mark)
    assert Ledger.open(path, since=marks[1]).verify() == 1
    for mark in (*marks[2:], "1:" + "0" * 64, "0:" + "0" * 64, "", "x", "9" * 30 + ":a", "-1:a", marks[1] + "0"):
        with pytest.raises(LedgerError, match="older"):
            Ledger.open(path, since=mark)


class LedgerMachine(RuleBasedStateMachine):
    """Charges, refusals, restarts in any order: the totals are those of a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.path = Path(self.folder.name) / "ledger"
        budget, alice = Budget.of(rho="1e-9", delta="1e-15"), Budget.of(rho="6e-10", delta="4e-16")
        self.ledger = Ledger.create(self.path, DECLARATIONS, budget, {"alice": alice, "bob": budget})
        self.spent = {"alice": ZERO, "bob": ZERO}
        self.entries = 0
        self.answered: set[int] = set()

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()

    @rule(
        analyst=st.sampled_from(["alice", "bob"]),
        rho=st.fractions(min_value=0, max_value=Fraction("4e-10")).filter(bool),
        delta=st.fractions(min_value=0, max_value=Fraction("2e-16")),
    )
    def charge(self, analyst: str, rho: Fraction, delta: Fraction) -> None:
        loss = PrivacyLoss(rho=rho, delta=delta)
        left = self.ledger.remaining(analyst)
        whole = counted(loss)
        if whole.rho <= left.rho and whole.delta <= left.delta:
            self.entries += 1
            assert self.ledger.charge(analyst=analyst, loss=loss, query="SELECT 1") == self.entries
            self.spent[analyst] += whole
        else:
            with pytest.raises(InsufficientBudgetError):
                self.ledger.charge(analyst=analyst, loss=loss, query="SELECT 1")

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.entries))
        self.ledger.complete(seq)
        self.answered.add(seq)

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.path)

    @rule()
    def second_process(self) -> None:
        assert Ledger.open(self.path).verify() == self.entries

    @invariant()
    def totals_agree(self) -> None:
        total = self.spent["alice"] + self.spent["bob"]
        assert self.ledger.spent(None) == total
        assert all(self.ledger.spent(analyst) == spent for analyst, spent in self.spent.items())
        limit = self.ledger.limit(None)
        assert total.rho <= limit.rho
        assert total.delta <= limit.delta
        assert {entry.seq for entry in self.ledger.entries() if entry.state is State.ANSWERED} == self.answered


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestLedgerMachine = LedgerMachine.TestCase
