"""Charges that wait are recorded together: each once, in one transaction, and by the rules that hold for each alone."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpquery.errors import InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger import queue as ledger_queue
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.mark import MarkFile
from dpquery.units.blocks import ALL, NONE, Touched
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration

DECLARATIONS = Declarations(
    dataset="clinic",
    privacy_unit="row",
    neighbours=Neighbours.ADD_REMOVE,
    tables={"visits": TableDeclaration(name="visits", public=False)},
)
TENTH = PrivacyLoss(epsilon=Fraction(1, 10))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "l", DECLARATIONS, Budget.of(epsilon=1), {}).close()
    return tmp_path / "l"


def request(ledger: Ledger, *, analyst: Any = "bob", units: Any = (10**11, 0, 0), since: float = 0.0) -> list[Any]:
    return [time.monotonic() - since, ledger._terms.identity, analyst, units, "SELECT 2", None]


def ask(path: Path, *requests: object) -> list[int]:
    """Writes requests as of other processes; returns their places."""
    with open(f"{path}-requests", "ab") as file:
        os.fchmod(file.fileno(), 0o600)
        places = []
        for asked in requests:
            file.write(asked if isinstance(asked, bytes) else json.dumps(asked).encode() + b"\n")
            places.append(file.tell())
    return places


def answers(path: Path) -> dict[str, int]:
    lines = [json.loads(line) for line in Path(f"{path}-requests").read_bytes().splitlines()[-1:]]
    return next((line for line in lines if isinstance(line, dict)), {})


def charge(ledger: Ledger, analyst: str = "alice") -> int:
    return ledger.charge(analyst=analyst, loss=TENTH, query="SELECT 1")


def test_who_has_the_turn_records_all_who_wait_in_one_transaction(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, advanced = Ledger.open(path), list[int]()
    monkeypatch.setattr(MarkFile, "advance", lambda _, __, level: advanced.append(level.mark.seq))
    places = ask(path, request(ledger), request(ledger, analyst="carol"))
    assert charge(ledger) == 1
    assert advanced == [3]
    assert answers(path) == {str(place): number for place, number in zip(places, (2, 3), strict=True)}
    assert [(entry.analyst, entry.query) for entry in ledger.entries()][1:] == [
        ("bob", "SELECT 2"),
        ("carol", "SELECT 2"),
    ]
    assert charge(ledger) == 4  # and nobody twice


def test_what_cannot_be_read_is_nobodys_request(path: Path) -> None:
    ledger = Ledger.open(path)
    whole = request(ledger)
    ask(path, 7, "text", None, [], [whole[0]], whole[:-1], [*whole, 1], {"x": 1}, [*whole[:-1], [[1], True]])
    assert charge(ledger) == 1 and len(ledger.entries()) == 1


@pytest.mark.parametrize("blocks", [None, NONE, ALL, Touched(((600, 601), (700, 700)), True)])
def test_blocks_are_told_as_they_are(blocks: Touched | None) -> None:
    asked = ledger_queue.Request("ledger", "alice", (1, 2, 3), "SELECT 1", blocks)
    assert ledger_queue.heard(json.loads(json.dumps(asked.told()))) == asked


def test_waiting_threads_are_answered_by_whoever_has_the_turn(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits, numbers = list[int](), list[int]()
    ledger, record = Ledger.open(path), Ledger._record

    def slowly(self: Ledger, own: Any, others: list[Any]) -> list[int]:
        commits.append(len(others))
        time.sleep(0.05)
        return record(self, own, others)

    monkeypatch.setattr(Ledger, "_record", slowly)
    threads = [threading.Thread(target=lambda: numbers.append(charge(ledger))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(numbers) == list(range(1, 9))
    assert sum(commits) + len(commits) == 8 > len(commits)
    assert ledger.verify() == 8


@pytest.mark.parametrize(
    "change",
    [
        {"units": (-(10**11), 0, 0)},
        {"units": (10**11, -1, 0)},
        {"units": (0, 0, 0)},
        {"units": (10**13, 0, 0)},
        {"analyst": ""},
        {"analyst": "a" * 101},
        {"analyst": "a\nb"},
        {"since": 11.0},
        {"since": -5.0},
    ],
)
def test_what_may_not_be_charged_is_left_to_its_own_process(path: Path, change: dict[str, Any]) -> None:
    ledger = Ledger.open(path)
    ask(path, request(ledger, **change))
    assert charge(ledger) == 1
    assert ledger.spent(None) == TENTH
    assert answers(path) == {}


def test_requests_of_another_ledger_are_not_recorded(path: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(path)
    other = Ledger.create(tmp_path / "other", DECLARATIONS, Budget.of(epsilon=1), {})
    ask(path, request(other))
    assert charge(ledger) == 1
    assert ledger.verify() == 1


def test_a_refusal_of_one_leaves_the_others(path: Path) -> None:
    ledger = Ledger.open(path)
    ask(path, request(ledger, units=(9 * 10**11, 0, 0)), request(ledger, units=(10**12, 0, 0)), request(ledger))
    assert charge(ledger) == 1
    assert ledger.remaining("bob").epsilon == 0
    with pytest.raises(InsufficientBudgetError):
        charge(ledger)
    assert ledger.verify() == 2


def test_the_refused_one_takes_nobody_with_it(path: Path) -> None:
    ledger = Ledger.open(path)
    ask(path, request(ledger))
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction(2)), query="SELECT 1")
    assert ledger.verify() == 0
    assert answers(path) == {}
    assert charge(ledger) == 1
    assert ledger.verify() == 2


def test_a_line_that_broke_off_is_no_request(path: Path) -> None:
    ledger = Ledger.open(path)
    whole = json.dumps(request(ledger)).encode()
    ask(path, whole[:-7], request(ledger), b"\xff\xfe\n", whole)
    assert charge(ledger) == 1
    assert ledger.verify() == 1


def test_a_dead_process_is_charged_at_most_once_more(path: Path) -> None:
    """One killed while it waits; and one that recorded others and is killed before it tells them."""
    ledger = Ledger.open(path)
    ask(path, request(ledger))
    content = Path(f"{path}-requests").read_bytes()
    assert charge(ledger) == 1
    Path(f"{path}-requests").write_bytes(content)  # as if nobody had been told
    assert charge(ledger) == 3
    assert ledger.verify() == 4


def test_old_requests_do_not_pile_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_queue, "LARGEST", 200)
    ledger = Ledger.open(path)
    ask(path, *[request(ledger, since=20.0)] * 50)
    assert [charge(ledger), charge(ledger)] == [1, 2]
    assert Path(f"{path}-requests").stat().st_size == 0


def test_those_with_marks_of_their_own_record_for_themselves(path: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(path, mark=f"{path}.mark")
    ask(path, request(ledger))
    assert charge(ledger) == ledger.verify() == 1


@pytest.mark.parametrize("suffix", ["-turns", "-requests"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: (file.touch(), file.chmod(0o622)), "other users"),
        (lambda file: file.symlink_to(file.with_name("elsewhere")), "cannot be used"),
        (lambda file: file.mkdir(), "cannot be used"),
    ],
)
def test_files_that_others_may_have_made_are_refused(
    path: Path, suffix: str, spoil: Callable[[Path], object], message: str
) -> None:
    ledger = Ledger.open(path)
    spoil(path.with_name(path.name + suffix))
    with pytest.raises(LedgerError, match=message):
        charge(ledger)
    assert ledger.spent(None).epsilon == 0


def test_a_turn_that_never_ends_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_queue, "PATIENCE", 0.05)
    ledger, fcntl = Ledger.open(path), pytest.importorskip("fcntl")
    with open(f"{path}-turns", "ab") as file:
        os.fchmod(file.fileno(), 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="busy"):
            charge(ledger)
    assert ledger.verify() == 0
    assert charge(ledger) == 1


def test_where_files_cannot_be_locked_each_records_for_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_queue, "fcntl", None)
    ledger = Ledger.open(path)
    ask(path, request(ledger))
    assert charge(ledger) == ledger.verify() == 1


def test_an_analyst_without_a_budget_is_told_so(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", DECLARATIONS, Budget.of(epsilon=1), {"alice": Budget.of(epsilon=1)})
    ask(tmp_path / "l", request(ledger, analyst="mallory"))
    assert charge(ledger) == ledger.verify() == 1
    with pytest.raises(InvalidLossError):
        charge(ledger, "mallory")


def test_a_charge_that_only_the_dataset_allows_leaves_nothing(tmp_path: Path) -> None:
    limits = {"alice": Budget.of(epsilon=1), "bob": Budget.of(epsilon="0.05")}
    ledger = Ledger.create(tmp_path / "l", DECLARATIONS, Budget.of(epsilon=1), limits)
    ask(tmp_path / "l", request(ledger))
    assert charge(ledger) == ledger.verify() == 1
    assert ledger.spent(None) == TENTH
