# mypy: disable-error-code="arg-type, misc"
"""What both stores owe: charges, refusals, the mark, the owner's acts, forks, threads and restored copies."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import psycopg
import pytest

import dpquery as dp
from dpquery.errors import InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger import disk as ledger_disk
from dpquery.ledger import mark as ledger_mark
from dpquery.ledger import postgres as ledger_postgres
from dpquery.ledger import store as ledger_store
from dpquery.ledger.ledger import EntryKind, Ledger, State
from tests.forking import FORK, fork
from tests.postgres import NOBODY, Cluster, cluster
from tests.unit.ledger.ledgers import OWNER, QUERY, UNIT, Site, database_site, declarations, epsilon, file_site
from tests.waiting import PATIENCE, wait_until


def in_child(work: Callable[[], object]) -> int:
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


def charge_until_refused(ledger: Ledger, log: Path) -> None:
    answers = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(InsufficientBudgetError):
        while True:
            os.write(answers, b"%d\n" % ledger.charge(analyst="alice", loss=UNIT, query=QUERY))


def released(folder: Path) -> set[int]:
    lines = [int(line) for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    assert len(set(lines)) == len(lines)
    return set(lines)


def has_charged(folder: Path, logs: str) -> bool:
    return any(log.stat().st_size for log in folder.glob(logs))


# Charges


def test_a_charge_is_recorded_once_for_each_account(site: Site) -> None:
    ledger = site.create("1", alice="0.5", bob="3")
    assert ledger.charge(analyst="alice", loss=epsilon("0.3"), query="a\0b\ud800'%s ? :name") == 1
    ledger.complete(ledger.charge(analyst="bob", loss=epsilon("0.1"), query=QUERY))
    with pytest.raises(InsufficientBudgetError) as caught:
        ledger.charge(analyst="alice", loss=epsilon("0.2") + epsilon("1e-12"), query=QUERY)
    assert caught.value.remaining == epsilon("0.2")
    with pytest.raises(InvalidLossError, match="mallory"):
        ledger.charge(analyst="mallory", loss=UNIT, query=QUERY)
    ledger.close()
    for opened in (ledger, site.open()):
        assert (opened.spent(None), opened.spent("alice"), opened.remaining("bob")) == (
            epsilon("0.4"),
            epsilon("0.3"),
            epsilon("0.6"),
        )
        first, second = opened.entries()
        assert first.query == "a\\x00b\\ud800'%s ? :name"
        assert (first.state, second.state, second.kind) == (State.PENDING, State.ANSWERED, EntryKind.CHARGE)
        assert opened.verify() == 2
        assert opened.declarations == declarations()


def test_nothing_is_created_twice_and_opening_never_creates(site: Site, tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        site.open()
    site.create()
    mark = site.mark.read_bytes()
    with pytest.raises(LedgerError):
        site.create()
    assert site.mark.read_bytes() == mark
    with pytest.raises(LedgerError):
        Ledger.create(site.place, declarations(), Budget.of(epsilon=1), {}, mark=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_mark_in_the_way_leaves_nothing_behind(site: Site) -> None:
    site.mark.write_text("something")
    with pytest.raises(LedgerError, match="cannot be created"):
        site.create()
    site.mark.unlink()
    site.create()
    assert site.open().verify() == 0


def test_tiny_charges_are_rounded_up(site: Site) -> None:
    ledger = site.create("3e-12")
    for _ in range(3):
        ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction(1, 10**17)), query=QUERY)
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction(1, 10**17)), query=QUERY)


def test_processes_share_the_last_charges_exactly(site: Site, tmp_path: Path) -> None:
    site.create("0.1005").close()
    work = [lambda i=i: charge_until_refused(site.open(), tmp_path / f"{i}.log") for i in range(4)]
    assert [status_of(child) for child in [in_child(one) for one in work]] == [0] * 4
    assert site.open().verify() == len(released(tmp_path)) == 100


def test_threads_and_forks_share_one_ledger(site: Site, tmp_path: Path) -> None:
    ledger = site.create("0.1")
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    children = [in_child(lambda i=i: charge_until_refused(ledger, tmp_path / f"{i}.log")) for i in range(2)]
    threads = [threading.Thread(target=charge_until_refused, args=(ledger, tmp_path / f"t{i}.log")) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [status_of(child) for child in children] == [0, 0]
    assert site.open().verify() == 100
    assert released(tmp_path) == set(range(2, 101))


@FORK
def test_no_fork_happens_within_a_charge(site: Site) -> None:
    ledger, inside = site.create(), threading.Event()

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


def test_kills_at_random_moments_lose_nothing(site: Site, tmp_path: Path) -> None:
    site.create("1000").close()
    for turn in range(0, 15, 3):
        work = [
            lambda i=i, turn=turn: charge_until_refused(site.open(), tmp_path / f"{turn}-{i}.log") for i in range(3)
        ]
        children = [in_child(one) for one in work]
        if turn % 2:
            wait_until(lambda turn=turn: has_charged(tmp_path, f"{turn}-*.log"))
        time.sleep(0.02 + 0.01 * turn)
        for child in children:
            os.kill(child, signal.SIGKILL)
            status_of(child)
        ledger = site.open()
        assert released(tmp_path) <= {entry.seq for entry in ledger.entries()}
        assert ledger.spent(None).epsilon == len(ledger.entries()) * UNIT.epsilon
        ledger.close()
    assert released(tmp_path)


@pytest.mark.parametrize("where", ["before the commit", "before the mark", "within the mark", "after the mark"])
def test_a_kill_between_the_ledger_and_its_mark(site: Site, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The mark lags behind by one entry, which the chain explains; a torn mark falls back to the one before."""
    ledger = site.create()
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    written, write, sync = list[int](), ledger_mark._write, ledger_disk.sync

    def torn(descriptor: int, place: int, line: bytes) -> None:
        write(descriptor, place, b"3 torn".ljust(ledger_mark.SLOT) if where == "within the mark" else line)
        written.append(place)

    def work() -> None:
        if where == "before the commit":
            monkeypatch.setattr(Ledger, "_append", die)
        elif where == "before the mark":
            monkeypatch.setattr(ledger_mark.MarkFile, "advance", die)
        else:
            monkeypatch.setattr(ledger_mark, "_write", torn)
            monkeypatch.setattr(ledger_disk, "sync", lambda descriptor: die() if written else sync(descriptor))
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)

    assert status_of(in_child(work)) == -signal.SIGKILL
    assert site.open().verify() == 2 + (where != "before the commit")
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == ledger.verify()
    assert str(ledger._marks.read(ledger._terms.identity).newest) == ledger.mark


# The mark


def test_an_older_copy_is_refused(site: Site) -> None:
    site.create()
    site.charge(3)
    copy = site.copy()
    site.charge(2)
    site.put_back(copy)
    with pytest.raises(LedgerError, match="names entry 5") as caught:
        site.open()
    assert "dpquery ledger reconcile" in str(caught.value)


def test_an_older_copy_is_refused_by_a_ledger_that_saw_no_more(site: Site) -> None:
    """The mark tells what other processes charged."""
    ledger = site.create()
    copy = site.copy()
    site.charge(1)
    site.put_back(copy)
    with pytest.raises(LedgerError, match="names entry 1"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


def test_an_older_mark_is_no_harm(site: Site) -> None:
    site.create()
    site.charge(3)
    mark = site.mark.read_bytes()
    site.charge(2)
    site.mark.write_bytes(mark)
    assert site.open().verify() == 5
    site.charge(1)
    ledger = site.open()
    assert str(ledger._marks.read(ledger._terms.identity).newest) == ledger.mark


def test_two_copies_that_share_a_mark_do_not_both_go_on(site: Site) -> None:
    site.create()
    site.charge(2)
    copy = site.copy()
    site.charge(1)
    first = site.copy()
    site.put_back(copy)
    with pytest.raises(LedgerError, match="names entry 3"):
        site.charge(1)
    site.put_back(first)
    site.charge(1)


def test_a_missing_mark_is_refused_and_may_be_moved(site: Site, tmp_path: Path) -> None:
    site.create()
    site.charge(2)
    moved = tmp_path / "moved.mark"
    moved.write_bytes(site.mark.read_bytes())
    site.mark.unlink()
    with pytest.raises(LedgerError, match="is missing"):
        site.open()
    ledger = Ledger.open(site.place, mark=moved)
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    assert not site.mark.exists()
    assert ledger.mark_path == moved


def test_a_mark_that_goes_away_refuses_before_a_charge(site: Site) -> None:
    ledger = site.create()
    site.mark.rename(site.mark.with_suffix(".away"))
    with pytest.raises(LedgerError, match="is missing"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    site.mark.with_suffix(".away").rename(site.mark)
    assert ledger.verify() == 0


def test_a_mark_that_cannot_be_written_gives_no_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = site.create()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger_mark, "_write", full)
    with pytest.raises(LedgerError, match="No space left"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    monkeypatch.undo()
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == 2
    assert ledger.spent(None) == epsilon("0.002")


def damaged(content: bytes, *lines: int) -> bytes:
    changed = bytearray(content)
    for line in lines:
        changed[line * ledger_mark.SLOT + 1] ^= 1
    return bytes(changed)


def copies(seq: int) -> tuple[int, int]:
    """Returns the lines of the mark that hold a level, where all before it had charges of their own."""
    return ledger_mark.NEWEST + seq % 2, ledger_mark._slot_of(seq)


@pytest.mark.parametrize("damage", ["empty", "short", "long", "title", "founding", "garbage", "blank", "both newest"])
def test_a_damaged_mark_is_refused(site: Site, damage: str) -> None:
    site.create()
    site.charge(6)
    content = site.mark.read_bytes()
    spoilt = {
        "empty": b"",
        "short": content[:-1],
        "long": content + b" ",
        "garbage": b"x" * len(content),
        "blank": b" " * len(content),
        "title": damaged(content, ledger_mark.TITLE),
        "founding": damaged(content, ledger_mark._slot_of(0)),
        "both newest": damaged(content, ledger_mark.NEWEST, ledger_mark.NEWEST + 1),
    }
    site.mark.write_bytes(spoilt[damage])
    with pytest.raises(LedgerError, match="mark"):
        site.open()
    site.mark.write_bytes(content)
    assert site.open().verify() == 6


def test_one_damaged_line_of_a_mark_hides_nothing(site: Site) -> None:
    """Each level is written twice: with any one line damaged, a ledger that is one entry older is refused."""
    site.create()
    site.charge(5)
    copy = site.copy()
    site.charge(1)
    newest, content = site.copy(), site.mark.read_bytes()
    for line in range(ledger_mark.NEWEST, ledger_mark.LINES - 1, site.every):
        site.mark.write_bytes(damaged(content, line))
        site.put_back(copy)
        with pytest.raises(LedgerError, match="names entry 6"):
            site.open()
        site.put_back(newest)
        assert site.open().verify() == 6


def test_two_damaged_lines_are_believed_to_be_a_crash_only_where_the_ledger_is_ahead(site: Site) -> None:
    """A crash strikes between an entry and its mark; a ledger that holds no such entry may have lost it."""
    site.create()
    site.charge(5)
    copy = site.copy()
    site.charge(1)
    newest, content = site.copy(), damaged(site.mark.read_bytes(), *copies(6))
    site.mark.write_bytes(content)
    site.put_back(copy)
    for use in (site.open, lambda: Ledger.reconcile(site.place, **OWNER)):
        with pytest.raises(LedgerError, match=r"damaged|nothing to reconcile"):
            use()
    site.put_back(newest)
    assert site.open().verify() == 6
    site.charge(1)
    ledger = site.open()
    remembered = ledger._marks.read(ledger._terms.identity)
    assert str(remembered.newest) == ledger.mark
    assert not remembered.is_cut_short  # the damaged lines were written anew


def test_marks_are_not_links(site: Site) -> None:
    ledger = site.create()
    moved = site.mark.with_suffix(".moved")
    site.mark.rename(moved)
    for link in (site.mark.symlink_to, site.mark.hardlink_to):
        link(moved)
        with pytest.raises(LedgerError, match="single name"):
            ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
        site.mark.unlink()
    moved.rename(site.mark)
    assert ledger.verify() == 0


def test_a_flipped_bit_of_the_mark_never_lets_an_old_copy_pass(site: Site) -> None:
    site.create()
    site.charge(4)
    copy = site.copy()
    site.charge(9)
    content = site.mark.read_bytes()
    site.put_back(copy)
    for offset in range(0, len(content), 97 * site.every):
        flipped = bytearray(content)
        flipped[offset] ^= 1 << offset % 8
        site.mark.write_bytes(flipped)
        with pytest.raises(LedgerError):
            site.open()


def test_the_mark_of_another_ledger_is_refused(site: Site, tmp_path: Path) -> None:
    site.create()
    other = Ledger.create(tmp_path / "other", declarations("other"), Budget.of(epsilon=9), {})
    site.mark.write_bytes(other.mark_path.read_bytes())
    with pytest.raises(LedgerError, match="another ledger"):
        site.open()


def test_the_mark_is_the_owners_file(site: Site) -> None:
    ledger = site.create()
    assert site.mark.stat().st_mode & 0o777 == 0o600
    site.mark.chmod(0o620)
    with pytest.raises(LedgerError, match="chmod 600"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)


def test_a_mark_that_may_not_be_written_refuses_before_a_charge() -> None:
    with tempfile.TemporaryDirectory() as name:
        site = file_site(Path(name))
        site.create().close()
        if os.getuid() == 0:
            for path in (Path(name), site.mark.parent, site.mark, Path(site.place)):
                os.chown(path, NOBODY, NOBODY)

        def work() -> None:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            ledger = site.open()
            site.mark.chmod(0o400)
            with pytest.raises(LedgerError, match="Permission denied"):
                ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
            site.mark.chmod(0o600)
            assert ledger.verify() == 0

        assert status_of(in_child(work)) == 0


# Accepting what was restored


def test_reconciling_spends_what_may_have_been_lost(site: Site) -> None:
    site.create("1", alice="0.5", bob="0.5")
    site.charge(8)
    copy = site.copy()
    site.charge(3, "alice")
    site.charge(2, "bob")
    site.put_back(copy)
    entry = Ledger.reconcile(site.place, **OWNER)
    assert (entry.kind, entry.by, entry.why, entry.loss) == (EntryKind.RESTORE, "the owner", "a test", epsilon("0.005"))
    ledger = site.open()
    assert ledger.spent(None) == epsilon("0.013")  # 8 that it knew and 5 that it lost: nothing is counted twice here
    assert ledger.spent("alice") == epsilon("0.013")
    assert ledger.spent("bob") == epsilon("0.005")  # nobody knows whose they were
    assert ledger.verify() == 9
    assert ledger.charge(analyst="bob", loss=UNIT, query=QUERY) == 10
    with pytest.raises(LedgerError, match="nothing to reconcile"):
        Ledger.reconcile(site.place, **OWNER)


@pytest.mark.parametrize("before", [0, 1, 3, 7, 12])
@pytest.mark.parametrize("after", [1, 2, 6, 19])
def test_what_was_lost_is_never_understated(before: int, after: int, tmp_path: Path) -> None:
    """Marks are kept ever further apart: at most about twice what was lost is spent."""
    site = file_site(tmp_path)
    site.create()
    site.charge(before)
    copy = site.copy()
    site.charge(after)
    site.put_back(copy)
    Ledger.reconcile(site.place, **OWNER)
    spent = site.open().spent(None).epsilon / UNIT.epsilon
    assert before + after <= spent <= before + 2 * after + 1


def test_a_restored_ledger_that_went_on_elsewhere_is_accepted_for_both_ways(tmp_path: Path) -> None:
    """A copy was charged with a copy of the mark: neither way's charges are forgotten."""
    site = file_site(tmp_path)
    site.create()
    site.charge(4)
    copy, mark = site.copy(), site.mark.read_bytes()
    site.charge(5)
    newest = site.mark.read_bytes()
    site.put_back(copy)
    site.mark.write_bytes(mark)
    site.charge(7)
    site.mark.write_bytes(newest)
    with pytest.raises(LedgerError, match="names entry 9"):
        site.open()
    Ledger.reconcile(site.place, **OWNER)
    assert site.open().spent(None).epsilon >= 16 * UNIT.epsilon


def test_a_ledger_whose_limit_was_raised_since_has_nothing_left(site: Site) -> None:
    """More was spent than the restored limit allows: it is all recorded, and only another raise gives anything."""
    ledger = site.create("0.004", alice="0.004")
    site.charge(4)
    copy = site.copy()
    ledger.set_limit(None, Budget.of(epsilon="1"), **OWNER)
    ledger.set_limit("alice", Budget.of(epsilon="1"), **OWNER)
    site.charge(6)
    site.put_back(copy)
    Ledger.reconcile(site.place, **OWNER)
    opened = site.open()
    assert opened.spent(None) == opened.limit(None) == epsilon("0.01")
    assert opened.budget == Budget.of(epsilon="0.004")
    with pytest.raises(InsufficientBudgetError):
        opened.charge(analyst="alice", loss=UNIT, query=QUERY)
    with pytest.raises(InvalidLossError, match="below what was already spent"):
        opened.set_limit(None, Budget.of(epsilon="0.009"), **OWNER)
    opened.set_limit(None, Budget.of(epsilon="0.011"), **OWNER)
    opened.set_limit("alice", Budget.of(epsilon="0.011"), **OWNER)
    opened.charge(analyst="alice", loss=UNIT, query=QUERY)
    assert site.open().remaining("alice") == ZERO


def test_without_its_mark_a_ledger_has_nothing_left(site: Site) -> None:
    site.create("1", alice="0.5")
    site.charge(1)
    site.mark.unlink()
    with pytest.raises(LedgerError, match="is missing"):
        Ledger.reconcile(site.place, **OWNER)
    Ledger.reconcile(site.place, is_mark_lost=True, **OWNER)
    ledger = site.open()
    assert ledger.spent(None) == epsilon("1")
    assert ledger.remaining("alice") == ZERO
    with pytest.raises(LedgerError, match="nothing to reconcile"):
        Ledger.reconcile(site.place, is_mark_lost=True, **OWNER)


def test_a_ledger_that_lost_nothing_is_not_reconciled(site: Site) -> None:
    site.create()
    site.charge(2)
    for is_mark_lost in (False, True):
        with pytest.raises(LedgerError, match="nothing to reconcile"):
            Ledger.reconcile(site.place, is_mark_lost=is_mark_lost, **OWNER)
    assert site.open().verify() == 2


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_crash_while_reconciling_may_be_repeated(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.create()
    copy = site.copy()
    site.charge(2)
    site.put_back(copy)
    with monkeypatch.context() as crashing:
        crashing.setattr(ledger_mark.MarkFile, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Ledger.reconcile(site.place, **OWNER)
    with pytest.raises(LedgerError, match="names entry 2"):
        site.open()
    Ledger.reconcile(site.place, **OWNER)
    assert site.open().spent(None) == epsilon("0.004")


# The owner's acts


def test_limits_may_be_raised_and_lowered_to_what_was_spent(site: Site) -> None:
    ledger = site.create("1", alice="0.002")
    site.charge(2)
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    assert ledger.set_limit("alice", Budget.of(epsilon="0.5"), by="Ann", why="a second study") == 3
    for opened in (ledger, site.open()):
        assert opened.limit("alice") == opened.analysts["alice"] == epsilon("0.5")
        assert opened.budgets == {"alice": Budget.of(epsilon="0.5")}
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    with pytest.raises(InvalidLossError, match="below what was already spent"):
        ledger.set_limit("alice", Budget.of(epsilon="0.002"), **OWNER)
    with pytest.raises(InvalidLossError, match="below what was already spent"):
        ledger.set_limit(None, Budget.of(epsilon="0.002"), **OWNER)
    ledger.set_limit(None, Budget.of(epsilon="0.003"), **OWNER)
    with pytest.raises(InsufficientBudgetError):
        site.open().charge(analyst="alice", loss=UNIT, query=QUERY)
    assert [(e.kind, e.analyst, e.by, e.why) for e in ledger.entries() if e.kind is not EntryKind.CHARGE] == [
        (EntryKind.LIMIT, "alice", "Ann", "a second study"),
        (EntryKind.LIMIT, "", "the owner", "a test"),
    ]
    assert ledger.budget == Budget.of(epsilon="0.003")


def test_a_raise_is_seen_by_sessions_that_are_open(site: Site) -> None:
    ledger = site.create("0.001")
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    other = site.open()
    other.set_limit(None, Budget.of(epsilon="0.003"), **OWNER)
    other.charge(analyst="bob", loss=UNIT, query=QUERY)
    ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    assert ledger.budget == other.budget == Budget.of(epsilon="0.003")
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="carol", loss=UNIT, query=QUERY)


def test_an_analyst_may_be_added_where_analysts_have_limits(site: Site) -> None:
    ledger = site.create("1", alice="0.5")
    with pytest.raises(InvalidLossError):
        ledger.remaining("bob")
    ledger.set_limit("bob", Budget.of(epsilon="0.2"), **OWNER)
    assert site.open().remaining("bob") == epsilon("0.2")
    ledger.charge(analyst="bob", loss=UNIT, query=QUERY)
    assert site.open().verify() == 2


def test_an_analyst_is_not_added_where_nobody_has_a_limit(site: Site) -> None:
    ledger = site.create("1")
    with pytest.raises(InvalidLossError, match="no limits of their own"):
        ledger.set_limit("bob", Budget.of(epsilon="0.2"), **OWNER)
    assert ledger.verify() == 0


@pytest.mark.parametrize("budget", [Budget.of(rho="1"), Budget.of(epsilon="1", delta="1e-6"), "1", None])
def test_other_budgets_are_no_limits(site: Site, budget: Budget) -> None:
    ledger = site.create("1")
    with pytest.raises(InvalidLossError):
        ledger.set_limit(None, budget, **OWNER)
    assert site.open().verify() == 0


@pytest.mark.parametrize("words", [{"by": "", "why": "x"}, {"by": "x", "why": " "}, {"by": "x\n", "why": "x"}])
def test_owners_say_who_and_why(site: Site, words: dict[str, str]) -> None:
    ledger = site.create()
    for act in (ledger.new_data_version, lambda **w: ledger.set_limit(None, Budget.of(epsilon=2), **w)):
        with pytest.raises(InvalidLossError, match=r"by|why"):
            act(**words)
    with pytest.raises(InvalidLossError, match=r"by|why"):
        Ledger.reconcile(site.place, **words)


def test_data_versions_are_never_the_same_twice(site: Site) -> None:
    ledger = site.create()
    versions = [ledger.data_version]
    copy = site.copy()
    for _ in range(3):
        site.charge(1)
        assert ledger.data_version == versions[-1]
        versions.append(ledger.new_data_version(**OWNER))
        assert site.open().data_version == versions[-1]
    ledger.close()
    site.put_back(copy)
    Ledger.reconcile(site.place, **OWNER)
    versions.append(site.open().data_version)
    site.charge(1)
    versions.append(site.open().new_data_version(**OWNER))
    assert len(set(versions)) == len(versions)


def test_acts_change_no_total(site: Site) -> None:
    ledger = site.create("1", alice="0.5")
    site.charge(1)
    ledger.new_data_version(**OWNER)
    ledger.set_limit("alice", Budget.of(epsilon="0.7"), **OWNER)
    assert ledger.spent(None) == ledger.spent("alice") == UNIT


# Sessions

CATALOG = """
version: 2
dataset: shop
privacy_unit: person
budget: {epsilon: 1}
analysts: {ann: {epsilon: 0.5}}
defaults: {max_rows: 8}
tables:
  visits: {unit: person, columns: {person: {type: int64}, town: {type: text, keys: [east, west]}}}
"""
VISITS = pd.DataFrame({"person": range(100), "town": ["east", "west"] * 50})


def test_sessions_share_a_ledger_in_either_store(site: Site) -> None:
    catalog = dp.Catalog.from_yaml(CATALOG)
    dp.create_ledger(catalog, site.place, mark=site.mark).close()
    for turn in range(2):  # as after the restart of a notebook
        with dp.connect(catalog, {"visits": VISITS}, ledger=site.place, analyst="ann") as session:
            session.sql("SELECT town, COUNT(*) AS n FROM visits GROUP BY town", epsilon="0.2", fresh=True)
            assert session.remaining == epsilon("0.3" if turn == 0 else "0.1")
    assert [entry.state for entry in site.open().entries()] == [State.ANSWERED] * 2


@pytest.mark.parametrize(
    ("declared", "changed"),
    [
        ("privacy_unit: person", "privacy_unit: row"),
        ("{unit: person,", "{public: true,"),
        ("dataset: shop", "dataset: other"),
        ("privacy_unit: person", "privacy_unit: person\nneighbours: replace_one"),
        ("budget: {epsilon: 1}", "budget: {epsilon: 2}"),
        ("{ann: {epsilon: 0.5}}", "{ann: {epsilon: 0.6}}"),
        ("{ann: {epsilon: 0.5}}", "{ann: {epsilon: 0.5}, bob: {epsilon: 0.5}}"),
        ("analysts: {ann: {epsilon: 0.5}}\n", ""),
    ],
)
def test_a_catalog_that_says_otherwise_is_refused(tmp_path: Path, declared: str, changed: str) -> None:
    site = file_site(tmp_path)
    dp.create_ledger(dp.Catalog.from_yaml(CATALOG), site.place, mark=site.mark).close()
    text = CATALOG.replace(declared, changed)
    assert text != CATALOG
    if "row" in changed:
        text = text.replace("{unit: person,", "{")
    with pytest.raises(LedgerError, match="ledger"):
        dp.connect(dp.Catalog.from_yaml(text), {"visits": VISITS}, ledger=site.place, analyst="ann")


# PostgreSQL alone


def test_a_ledger_in_a_database_needs_a_place_for_its_mark(server: Cluster) -> None:
    with pytest.raises(LedgerError, match="outside the server"):
        Ledger.create(server.fresh(), declarations(), Budget.of(epsilon=1), {})


@pytest.mark.parametrize(
    "tampering",
    [
        "DELETE FROM record WHERE seq = 5",
        "DELETE FROM record WHERE seq = 2",
        "UPDATE record SET line = replace(line, '[1000000000, 0, 0]', '[0, 0, 0]') WHERE seq = 5",
        "UPDATE record SET line = replace(line, 'charge', 'data') WHERE seq = 5",
        "UPDATE record SET number = 77 WHERE number = 3",
        "UPDATE record SET line = replace(line, 'clinic', 'other') WHERE number = 0",
        "INSERT INTO record VALUES (99, 6, 'charge', 'x')",
        "DELETE FROM record WHERE number = 0",
        "DELETE FROM record",
        "DROP TABLE record",
        "DROP SCHEMA dpquery_ledger CASCADE",
        "CREATE TABLE more (x int)",
        "CREATE TABLE founding (x int)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE INDEX more ON record (line)",
        "DROP INDEX record_seq",
        "ALTER TABLE record ADD COLUMN more INT",
        "ALTER TABLE record ALTER COLUMN seq TYPE numeric",
        "ALTER TABLE record DROP CONSTRAINT record_pkey",
        "ALTER TABLE record SET UNLOGGED",
        "ALTER TABLE record ENABLE ROW LEVEL SECURITY",
        "CREATE RULE refund AS ON INSERT TO record DO INSTEAD NOTHING",
        """CREATE FUNCTION refund() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.line = OLD.line; RETURN NEW; END';
        CREATE TRIGGER refund BEFORE UPDATE ON record FOR EACH ROW EXECUTE FUNCTION refund()""",
    ],
)
def test_tampering_in_the_database_is_found(server: Cluster, tmp_path: Path, tampering: str) -> None:
    site = database_site(tmp_path, server.fresh())
    site.create("1", alice="1")
    site.charge(5)
    with psycopg.connect(site.place) as raw:
        raw.execute("SET search_path = dpquery_ledger")
        raw.execute(tampering.encode())
    with pytest.raises(LedgerError):
        site.open()


def test_another_schema_in_its_place_is_refused(server: Cluster, tmp_path: Path) -> None:
    url = server.fresh()
    with psycopg.connect(url) as raw:
        raw.execute("CREATE SCHEMA dpquery_ledger")
    with pytest.raises(LedgerError):
        Ledger.open(url, mark=tmp_path / "mark")
    with pytest.raises(LedgerError, match="has a schema"):
        database_site(tmp_path, url).create()


def test_no_server_no_answer(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be used") as caught:
        Ledger.open(f"postgresql://owner:secret@/nothing?host={tmp_path}&password=secret")
    assert "secret" not in str(caught.value)


def test_a_lock_that_stays_ends_in_a_clean_refusal(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = database_site(tmp_path, server.fresh())
    ledger = site.create()
    monkeypatch.setattr(ledger_postgres, "BEGIN", ledger_postgres.BEGIN.replace("10000", "100"))
    with psycopg.connect(site.place) as raw:
        raw.execute("SELECT * FROM dpquery_ledger.record FOR UPDATE")
        with pytest.raises(LedgerError, match="busy"):
            ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == 1


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_connection_lost_at_the_commit_gives_no_answer(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Nobody knows whether it was recorded: it may be spent, and there is no answer."""
    site = database_site(tmp_path, server.fresh())
    ledger = site.create()
    commit = ledger_postgres.commit

    def broken(raw: psycopg.Connection[object]) -> None:
        if lost == "after":
            commit(raw)
        with psycopg.connect(site.place, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (raw.info.backend_pid,))
        raw.execute("COMMIT")

    monkeypatch.setattr(ledger_postgres, "commit", broken)
    with pytest.raises(LedgerError, match="cannot be used"):
        ledger.charge(analyst="alice", loss=UNIT, query=QUERY)
    monkeypatch.undo()
    recorded = int(lost == "after")
    assert ledger.verify() == recorded
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == recorded + 1
    assert site.open().spent(None) == ledger.spent(None)


def test_a_transaction_that_the_server_rolled_back_gives_no_answer(server: Cluster, tmp_path: Path) -> None:
    ledger = database_site(tmp_path, server.fresh()).create()

    def fail_and_go_on() -> None:
        with ledger._writing() as log, contextlib.suppress(psycopg.Error):
            log._raw.execute("SELECT * FROM nothing")  # type: ignore[attr-defined]

    with pytest.raises(LedgerError, match="rolled"):
        fail_and_go_on()
    assert ledger.charge(analyst="alice", loss=UNIT, query=QUERY) == 1


def test_each_transaction_reads_its_settings_back(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = database_site(tmp_path, server.fresh())
    ledger = site.create()
    monkeypatch.setattr(ledger_postgres, "BEGIN", ledger_postgres.BEGIN.replace("commit = on", "commit = off"))
    for use in (site.open, lambda: ledger.charge(analyst="alice", loss=UNIT, query=QUERY)):
        with pytest.raises(LedgerError, match="synchronous_commit"):
            use()


def test_a_default_of_the_server_does_not_weaken_commits(server: Cluster, tmp_path: Path) -> None:
    site = database_site(tmp_path, server.fresh())
    with psycopg.connect(site.place, autocommit=True) as raw:
        raw.execute(f"ALTER DATABASE {raw.info.dbname} SET synchronous_commit = off".encode())
        raw.execute(f"ALTER DATABASE {raw.info.dbname} SET default_transaction_read_only = on".encode())
    site.create()
    site.charge(1)


def test_a_server_that_does_not_sync_is_refused(tmp_path: Path) -> None:
    with cluster(fsync="off") as careless, pytest.raises(LedgerError, match="fsync is off"):
        database_site(tmp_path, careless.fresh()).create()


def test_a_server_that_crashes_loses_nothing(tmp_path: Path) -> None:
    """The server is stopped as by a crash while processes charge; what was answered is still there."""
    with cluster() as own:
        site = database_site(tmp_path, own.fresh())
        site.create("1000").close()
        for turn in range(3):
            work = [
                lambda i=i, turn=turn: charge_until_refused(site.open(), tmp_path / f"{turn}-{i}.log") for i in range(3)
            ]
            children = [in_child(one) for one in work]
            wait_until(lambda turn=turn: has_charged(tmp_path, f"{turn}-*.log"), "a charge")
            own.stop(signal.SIGQUIT)
            assert {status_of(child) for child in children} == {1}
            with pytest.raises(LedgerError):
                site.open()
            own.start()
            ledger = site.open()
            assert released(tmp_path) <= {entry.seq for entry in ledger.entries()}
            ledger.close()
        assert released(tmp_path)


def test_without_the_driver_the_owner_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dpquery.ledger.postgres", raising=False)
    monkeypatch.delattr("dpquery.ledger.postgres", raising=False)
    with pytest.raises(LedgerError, match=r"dpquery\[postgres\]"):
        Ledger.open("postgresql://nowhere/nothing")


def test_patience_is_the_same_for_both(server: Cluster) -> None:
    assert f"lock_timeout = {int(ledger_store.PATIENCE * 1000)}" in ledger_postgres.BEGIN
