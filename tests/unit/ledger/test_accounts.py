"""Accounts of blocks: each has a limit of its own, and what is charged to all is charged to those of new data too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dpquery.errors import InsufficientBudgetError, InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.kernel.loss import ZERO, PrivacyLoss
from dpquery.ledger import replay as ledger_replay
from dpquery.ledger import schema as ledger_schema
from dpquery.ledger.accounts import SEPARATOR, TOTAL, field_of, meant
from dpquery.ledger.ledger import EntryKind, Ledger
from dpquery.plan.calendar import By, number_named
from dpquery.plan.types import DATE
from dpquery.units.blocks import ALL, BlockRange, Touched
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration
from tests.unit.ledger.ledgers import MEMORY, OWNER, QUERY, Site, epsilon, file_site

EXAMPLES = int(os.environ.get("LEDGER_EXAMPLES", "25"))
TENTH = epsilon("0.1")


def number(month: str) -> int:
    return number_named(month, By.MONTH)


def months(*spans: tuple[str, str], undated: bool = False) -> Touched:
    return Touched(tuple((number(first), number(last)) for first, last in spans), undated)


AXIS = BlockRange(by=By.MONTH, first=number("2024-01"), last=number("2024-04"))
TABLE = TableDeclaration(name="visits", public=False, dated=("day", DATE, ""))
DECLARED = Declarations(
    dataset="clinic", privacy_unit="row", neighbours=Neighbours.ADD_REMOVE, tables={"visits": TABLE}, blocks=AXIS
)
MARCH = months(("2024-03", "2024-03"))


def create(site: Site, budget: str = "1", **analysts: str) -> Ledger:
    limits = {name: Budget.of(epsilon=amount) for name, amount in analysts.items()}
    return Ledger.create(site.place, DECLARED, Budget.of(epsilon=budget), limits, mark=site.mark)


@pytest.fixture
def file() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield file_site(Path(name))


def left(ledger: Ledger, analyst: str = "alice") -> dict[str, Fraction]:
    return {block: rest.epsilon * 10 for block, rest in ledger.remaining_by_block(analyst).items()}


def test_a_charge_counts_in_its_blocks_alone(site: Site) -> None:
    ledger = create(site)
    assert left(ledger) == {"2024-01": 10, "2024-02": 10, "2024-03": 10, "2024-04": 10, "undated": 10}
    ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=months(("2024-02", "2024-03")))
    ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=months(("2024-03", "2024-03"), undated=True))
    assert left(ledger) == {"2024-01": 10, "2024-02": 9, "2024-03": 8, "2024-04": 10, "undated": 9}
    assert ledger.remaining("alice") == epsilon("0.8")
    assert ledger.spent(None) == ledger.spent("alice") == epsilon("0.2")
    assert [entry.blocks for entry in ledger.entries()] == ["2024-02..2024-03", "2024-03,undated"]
    assert {entry.analyst for entry in ledger.entries()} == {"alice"}
    assert site.open().verify() == 2


@pytest.mark.parametrize(
    "beyond", [None, ALL, months(), months(("2024-04", "2024-05")), months(("2023-12", "2023-12"))]
)
def test_what_reaches_beyond_the_blocks_is_charged_to_all(site: Site, beyond: Touched | None) -> None:
    ledger = create(site)
    ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=beyond)
    assert set(left(ledger).values()) == {9}
    assert ledger.entries()[0].blocks == "*"
    ledger.extend_blocks(last="2024-06", **OWNER)
    assert set(left(ledger).values()) == {9}


def test_new_blocks_bring_new_budget_less_what_was_charged_to_all(site: Site) -> None:
    ledger = create(site, alice="0.5")
    ledger.charge(analyst="alice", loss=TENTH, query=QUERY)
    with pytest.raises(InsufficientBudgetError, match=r"in 2024-01 to 2024-04 is epsilon 0\.4"):
        ledger.charge(analyst="alice", loss=epsilon("0.41"), query=QUERY, blocks=months(("2024-01", "2024-04")))
    ledger.charge(
        analyst="alice", loss=epsilon("0.4"), query=QUERY, blocks=months(("2024-01", "2024-04"), undated=True)
    )
    assert ledger.remaining("alice") == ZERO
    ledger.extend_blocks(first="2023-12", last="2024-05", by="the owner", why="a month later")
    assert left(ledger) == {
        "2023-12": 4, "2024-01": 0, "2024-02": 0, "2024-03": 0, "2024-04": 0, "2024-05": 4, "undated": 0
    }  # fmt: skip
    entry = ledger.entries()[-1]
    assert (entry.kind, entry.by, entry.why, entry.blocks) == (EntryKind.BLOCKS, "the owner", "a month later", "")
    assert ledger.declarations.blocks == replace(AXIS, first=AXIS.first - 1, last=AXIS.last + 1)
    ledger.charge(analyst="alice", loss=epsilon("0.4"), query=QUERY, blocks=months(("2024-05", "2024-05")))
    with pytest.raises(InsufficientBudgetError):
        ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=months(("2024-05", "2024-05")))
    assert site.open().verify() == 4


@pytest.mark.parametrize("ends", [{}, {"last": "2024-03"}, {"first": "2024-02", "last": "2024-09"}, {"last": "2024"},
                                  {"last": "2024-13"}, {"last": "9999-12"}, {"first": 3}])  # fmt: skip
def test_blocks_only_grow(site: Site, ends: dict[str, str]) -> None:
    ledger = create(site)
    with pytest.raises(InvalidLossError):
        ledger.extend_blocks(**ends, **OWNER)
    assert ledger.entries() == []


def test_each_of_the_accounts_has_to_have_room(site: Site) -> None:
    ledger = create(site, alice="1", bob="0.3")
    ledger.charge(analyst="alice", loss=epsilon("0.8"), query=QUERY, blocks=MARCH)
    ledger.charge(analyst="bob", loss=epsilon("0.2"), query=QUERY, blocks=months(("2024-04", "2024-04")))
    assert left(ledger, "bob") == {"2024-01": 3, "2024-02": 3, "2024-03": 2, "2024-04": 1, "undated": 3}
    for blocks in (MARCH, months(("2024-01", "2024-03")), None):
        with pytest.raises(InsufficientBudgetError):
            ledger.charge(analyst="bob", loss=epsilon("0.25"), query=QUERY, blocks=blocks)
    assert len(site.open().entries()) == 2


def test_a_limit_holds_in_each_block(site: Site) -> None:
    ledger = create(site)
    ledger.charge(analyst="alice", loss=epsilon("0.6"), query=QUERY, blocks=MARCH)
    with pytest.raises(InvalidLossError, match="below what was already spent"):
        ledger.set_limit(None, Budget.of(epsilon="0.5"), **OWNER)
    ledger.set_limit(None, Budget.of(epsilon="0.7"), **OWNER)
    assert left(ledger) == {"2024-01": 7, "2024-02": 7, "2024-03": 1, "2024-04": 7, "undated": 7}
    assert site.open().verify() == 2


def test_a_restored_ledger_pays_in_every_block_what_was_charged_to_any(site: Site) -> None:
    ledger = create(site)
    backup = site.copy()
    for month in ("2024-01", "2024-02", "2024-03"):
        ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=months((month, month)))
    ledger.close()
    site.put_back(backup)
    with pytest.raises(LedgerError, match="lost entries"):
        site.open()
    assert Ledger.reconcile(site.place, **OWNER).loss == epsilon("0.3")  # type: ignore[arg-type]
    ledger = site.open()
    assert set(left(ledger).values()) == {7}
    ledger.extend_blocks(last="2024-05", **OWNER)
    assert left(site.open())["2024-05"] == 7


def test_without_its_mark_nothing_is_left_in_any_block(site: Site) -> None:
    ledger = create(site)
    ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=MARCH)
    ledger.close()
    site.mark.unlink()
    Ledger.reconcile(site.place, is_mark_lost=True, **OWNER)
    assert set(left(site.open()).values()) == {0}


@pytest.mark.parametrize(
    "change",
    [
        lambda sums: {**sums, f"{SEPARATOR}2024-03": [0, 0, 0]},
        lambda sums: {**sums, TOTAL: [0, 0, 0]},
        lambda sums: {**sums, f"{SEPARATOR}2024-05": [0, 0, 0]},
        lambda sums: {name: spent for name, spent in sums.items() if name != f"{SEPARATOR}undated"},
        lambda sums: {name: spent for name, spent in sums.items() if name != TOTAL},
    ],
)
def test_a_changed_total_is_noticed(
    file: Site, monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, object]], dict[str, object]]
) -> None:
    """The only other copy of the totals is in checkpoints, which whoever follows the chain computes again."""
    monkeypatch.setattr(ledger_replay, "OFTEN", 1)
    monkeypatch.setattr(ledger_replay.Replay, "is_due", property(lambda self: self.head.seq == 1))
    ledger = create(file)
    for _ in range(2):
        ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=MARCH)
    ledger.close()
    assert file.open().verify() == 2
    path = Path(file.place)
    *lines, last = path.read_text().splitlines()
    told = ledger_schema.read_checkpoint(last)
    assert told is not None
    (content,) = told.content
    changed = {**content, "sums": change(content["sums"])}
    forged = ledger_schema.write(content["before"], told.seq, ledger_schema.CHECKPOINT, changed)
    path.write_text("".join(f"{line}\n" for line in [*lines, forged.line]))
    with pytest.raises(LedgerError, match="damaged"):
        file.open()


@pytest.mark.parametrize("blocks", ["", "2024-03..2024-02", "2024-01,2024-02", "2024-01..2024-01",
                                    "undated,2024-01", "2024-05",
                                    "2023-12..2024-02", "2024-W01", "2024-01,2024-01", "*,undated"])  # fmt: skip
def test_an_entry_names_blocks_in_one_way(site: Site, monkeypatch: pytest.MonkeyPatch, blocks: str) -> None:
    """Also an entry with a right hash is refused where its blocks are not written as a charge writes them."""
    with pytest.raises(ValueError):
        meant(f"alice{SEPARATOR}{blocks}", AXIS)
    ledger = create(site)
    write = ledger_schema.write

    def forged(before: str, seq: int, kind: str, time: str, account: str, *rest: object) -> object:
        return write(before, seq, kind, time, f"alice{SEPARATOR}{blocks}", *rest)

    monkeypatch.setattr(ledger_schema, "write", forged)
    with pytest.raises(LedgerError, match="damaged"):
        ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=MARCH)
    if not site.place.startswith("postgresql"):  # where the transaction was rolled back
        with pytest.raises(LedgerError, match="damaged"):
            ledger.verify()


@pytest.mark.parametrize("touched", [MARCH, months(("2024-01", "2024-02"), ("2024-04", "2024-04"), undated=True),
                                     months(undated=True), ALL])  # fmt: skip
def test_what_a_field_says_is_what_was_meant(touched: Touched) -> None:
    analyst, suffixes = meant(field_of("alice", touched, AXIS), AXIS)
    named = {suffix[1:] for suffix in suffixes}
    spans = [range(first, last + 1) for first, last in touched.spans]
    expected = {block for block in AXIS.blocks[:-1] if any(number(block) in span for span in spans)}
    assert analyst == "alice"
    assert named - {""} == expected | ({"undated"} if touched.undated else set())
    assert ("" in named) is (touched == ALL)


def test_a_ledger_without_blocks_has_none(site: Site) -> None:
    ledger = site.create()
    ledger.charge(analyst="alice", loss=TENTH, query=QUERY, blocks=MARCH)
    assert ledger.entries()[0].blocks == ""
    assert ledger.remaining_by_block("alice") == {}
    with pytest.raises(InvalidLossError, match="no blocks"):
        ledger.extend_blocks(last="2024-06", **OWNER)


def test_units_with_rows_in_several_blocks_are_replaced() -> None:
    with pytest.raises(ValueError, match="replaced"):
        replace(DECLARED, privacy_unit="patient")
    assert replace(DECLARED, privacy_unit="patient", neighbours=Neighbours.REPLACE_ONE).blocks == AXIS
    with pytest.raises(ValueError, match="the dataset none"):
        replace(DECLARED, blocks=None)
    assert Declarations.from_json(DECLARED.to_json()) == DECLARED


class BlockLedger(RuleBasedStateMachine):
    """Analysts and an owner against a plain model: what each block's rows lost, for each analyst and for all."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.site = file_site(Path(self.folder.name))
        self.first, self.last = AXIS.first, AXIS.last
        self.whole: dict[str, Fraction] = {}
        self.lost: dict[tuple[str, int | None], Fraction] = {}
        self.ledger: Ledger
        self.backup: object = None

    @initialize(named=st.booleans())
    def create(self, named: bool) -> None:
        self.ledger = create(self.site, "1", **({"alice": "0.5", "bob": "0.8"} if named else {}))

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
        self.folder.cleanup()

    @rule(
        analyst=st.sampled_from(["alice", "bob"]),
        tenths=st.integers(1, 3),
        ends=st.tuples(st.integers(-2, 9), st.integers(0, 4)),
        undated=st.booleans(),
        is_all=st.booleans(),
    )
    def charge(self, analyst: str, tenths: int, ends: tuple[int, int], undated: bool, is_all: bool) -> None:
        first = AXIS.first + ends[0]
        touched = ALL if is_all and tenths == 1 else Touched(((first, first + ends[1]),), undated)
        loss = PrivacyLoss(epsilon=Fraction(tenths, 10))
        try:
            self.ledger.charge(analyst=analyst, loss=loss, query=QUERY, blocks=touched)
        except InsufficientBudgetError:
            return
        for who in ("", analyst):
            if touched == ALL:
                self.whole[who] = self.whole.get(who, Fraction(0)) + loss.epsilon
                continue
            for block in [*range(first, first + ends[1] + 1), *([None] if undated else [])]:
                self.lost[who, block] = self.lost.get((who, block), Fraction(0)) + loss.epsilon

    @rule(before=st.integers(0, 1), after=st.integers(0, 2))
    def extend(self, before: int, after: int) -> None:
        axis = self.ledger.declarations.blocks
        assert axis is not None
        grown = replace(axis, first=axis.first - before, last=axis.last + after)
        if grown == axis:
            return
        self.ledger.extend_blocks(first=grown.blocks[0], last=grown.blocks[-2], **OWNER)

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self.site.open()

    @rule()
    def back_up(self) -> None:
        self.backup = self.site.copy()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        self.ledger.close()
        self.site.put_back(self.backup)
        try:
            self.ledger = self.site.open()
        except LedgerError:
            Ledger.reconcile(self.site.place, **OWNER)  # type: ignore[arg-type]
            self.ledger = self.site.open()

    @invariant()
    def released_recorded_limit(self) -> None:
        """Of every block, declared or not yet: a block without an account loses no more than the whole has spent."""
        if not hasattr(self, "ledger"):
            return
        axis = self.ledger.declarations.blocks
        assert axis is not None
        with self.ledger._reading():
            replay = self.ledger._replay
            rows = {name: (replay.limit(name), spent) for name, spent in replay._sums.items()}
        for who in ("", "alice", "bob"):
            for block in [*range(AXIS.first - 4, AXIS.last + 16), None]:
                released = self.whole.get(who, Fraction(0)) + self.lost.get((who, block), Fraction(0))
                name = "undated" if block is None else replace(axis, first=block or 0, last=block or 0).blocks[0]
                row = rows.get(f"{who}{SEPARATOR}{name}", rows.get(who))
                if row is None:  # its opening was lost: it will begin with what was lost
                    assert released == 0 or self.backup is not None
                    continue
                assert row[0] is not None
                limit, spent = row[0][0], row[1][0]
                assert released * 10**12 <= spent <= limit, (who, name)


BlockLedger.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)
TestBlockLedger = BlockLedger.TestCase
