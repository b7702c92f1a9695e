"""A catalog grows under its ledger's budget: what is taken, what is refused, and that a replay finds it again."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from dpquery.errors import InvalidLossError, LedgerError
from dpquery.kernel.accountant import Budget
from dpquery.ledger.entries import act
from dpquery.ledger.ledger import EntryKind, Ledger
from dpquery.ledger.schema import DATASET, NOTHING
from dpquery.plan.calendar import By
from dpquery.plan.logical import Ownership, OwnerStep
from dpquery.plan.types import DATE, INT64, TEXT
from dpquery.units.blocks import BlockRange
from dpquery.units.declarations import Declarations, Neighbours, TableDeclaration
from tests.unit.ledger.ledgers import OWNER, QUERY, UNIT

OWNED = Ownership(path=(), column="id", type=INT64)
VISITS = TableDeclaration(name="visits", public=False, ownership=OWNED)
LABS = TableDeclaration(name="labs", public=False, ownership=OWNED)
TOWNS = TableDeclaration(name="towns", public=True, unique=(frozenset({"town"}),))
VIA = Ownership(path=(OwnerStep(parent="visits", on=(("visit", "visit", INT64),)),), column="id", type=INT64)
BY_VISIT = TableDeclaration(name="flags", public=False, ownership=VIA)


def declared(*tables: TableDeclaration) -> Declarations:
    return Declarations(
        dataset="clinic",
        privacy_unit="patient",
        neighbours=Neighbours.ADD_REMOVE,
        tables={table.name: table for table in tables},
    )


FOUNDED = declared(VISITS, TOWNS)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "clinic.ledger", FOUNDED, Budget.of(epsilon=1), {})
    made.charge(analyst="ann", loss=UNIT, query=QUERY)
    return made


@pytest.mark.parametrize(
    "more",
    [
        [TableDeclaration(name="codes", public=True)],
        [LABS],
        [BY_VISIT],
        [replace(TOWNS, unique=())],
        [replace(TOWNS, unique=(frozenset({"town"}), frozenset({"code"}))), LABS],
    ],
)
def test_what_widens_no_promise_goes_on_under_the_same_budget(ledger: Ledger, more: list[TableDeclaration]) -> None:
    """ACC-06: what was spent stays spent; the entry says who and why, and a replay finds the declarations again."""
    said = declared(*{table.name: table for table in (VISITS, TOWNS, *more)}.values())
    spent = ledger.spent(None)
    assert ledger.amend(said, by="the owner", why="more tables") == 2
    assert ledger.amend(said, **OWNER) is None
    opened = Ledger.open(str(ledger.place))
    for one in (ledger, opened):
        assert one.declarations.to_json() == said.to_json() and one.spent(None) == spent
    told = opened.entries()[-1]
    assert (told.kind, told.by, told.why, told.analyst) == (EntryKind.AMEND, "the owner", "more tables", "")
    assert opened.verify() == 2


def test_a_table_that_is_left_out_stays_known(ledger: Ledger) -> None:
    """It may come back as it was, and not as another: its people are protected for ever."""
    assert ledger.amend(declared(VISITS, LABS), **OWNER) == 2
    assert ledger.declarations.tables.keys() == {"visits", "labs", "towns"}
    assert ledger.amend(declared(LABS), **OWNER) is None
    with pytest.raises(InvalidLossError, match="table visits was private and would be public"):
        ledger.amend(declared(LABS, TableDeclaration(name="visits", public=True)), **OWNER)


AXIS = BlockRange(by=By.MONTH, first=24288, last=24290)
REFUSED = {
    "another dataset": replace(FOUNDED, dataset="other"),
    "another unit": replace(FOUNDED, privacy_unit="doctor"),
    "rows for people": declared(replace(VISITS, ownership=None)),
    "another owner": declared(replace(VISITS, ownership=replace(OWNED, column="doctor")), TOWNS),
    "another type": declared(replace(VISITS, ownership=replace(OWNED, type=TEXT)), TOWNS),
    "another way": declared(VISITS, TOWNS, replace(LABS, name="visits", ownership=VIA)),
    "other neighbours": replace(FOUNDED, neighbours=Neighbours.REPLACE_ONE),
    "private becomes public": declared(TableDeclaration(name="visits", public=True), TOWNS),
    "public becomes private": declared(VISITS, replace(LABS, name="towns")),
    "blocks": replace(FOUNDED, neighbours=Neighbours.REPLACE_ONE, blocks=AXIS),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_changes_the_promise_is_refused(ledger: Ledger, case: str) -> None:
    with pytest.raises(InvalidLossError, match=r"would (be|change|get)") as refused:
        ledger.amend(REFUSED[case], **OWNER)
    assert "new ledger" in str(refused.value)
    assert ledger.declarations == FOUNDED and ledger.verify() == 1


@pytest.mark.parametrize("was", [True, False])
def test_rows_that_are_units_stay_private_or_public(tmp_path: Path, was: bool) -> None:
    table = TableDeclaration(name="visits", public=was)
    made = Ledger.create(tmp_path / "l", replace(declared(table), privacy_unit="row"), Budget.of(epsilon=1), {})
    with pytest.raises(InvalidLossError, match="table visits was"):
        made.amend(replace(declared(replace(table, public=not was)), privacy_unit="row"), **OWNER)


def test_rows_in_blocks_stay_in_their_blocks(tmp_path: Path) -> None:
    dated = replace(VISITS, dated=("day", DATE, ""))
    founded = replace(replace(FOUNDED, neighbours=Neighbours.REPLACE_ONE, blocks=AXIS), tables={"visits": dated})
    made = Ledger.create(tmp_path / "clinic.ledger", founded, Budget.of(epsilon=1), {})
    with pytest.raises(InvalidLossError, match="in other blocks"):
        made.amend(replace(founded, tables={"visits": VISITS}), **OWNER)
    grown = replace(founded, tables={"visits": dated, "labs": replace(LABS, dated=("day", DATE, ""))})
    assert made.amend(grown, **OWNER) == 1
    assert made.extend_blocks(last="2024-06", **OWNER) == 2
    assert Ledger.open(tmp_path / "clinic.ledger").declarations.tables == grown.tables


@pytest.mark.parametrize("case", [*REFUSED, "a table is gone", "nothing new"])
def test_a_replay_believes_no_entry_that_changes_the_promise(ledger: Ledger, case: str) -> None:
    """A well-formed chain whose entry says what `amend` would have refused."""
    gone = {"a table is gone": declared(VISITS), "nothing new": FOUNDED}
    said = REFUSED[case] if case in REFUSED else gone[case]
    said = replace(said, tables={**FOUNDED.tables, **said.tables}) if case in REFUSED else said
    text = act(**OWNER, declarations=said)  # type: ignore[arg-type]
    with contextlib.suppress(LedgerError), ledger._writing() as log:
        ledger._append(log, EntryKind.AMEND, DATASET, NOTHING, text)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(str(ledger.place)).verify()


CATALOG = """
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 9}
tables:
  sales:
    unit: id
    max_rows: 4
    columns: {id: {type: int64}, kind: {type: text, keys: [a, b]}, price: {type: int64, lower: 0, upper: 9}}
"""
MORE = """
  kinds:
    public: true
    unique: [[kind]]
    columns: {kind: {type: text}, name: {type: text, keys: [x, y]}}
"""
SALES = pd.DataFrame({"id": [1, 2, 3] * 9, "kind": ["a", "b", "a"] * 9, "price": range(27)})
KINDS = pd.DataFrame({"kind": ["a", "b"], "name": ["x", "y"]})
TILE = "SELECT kind, COUNT(*) AS n, SUM(price) AS s FROM sales GROUP BY kind"


def test_a_catalog_that_grows_keeps_its_budget_and_its_stored_answers(tmp_path: Path) -> None:
    """ACC-06: the advice is to amend, what was answered of other tables stays free, what changed is measured anew."""
    old, grown = dp.Catalog.from_yaml(CATALOG), dp.Catalog.from_yaml(CATALOG + MORE)
    path = tmp_path / "shop.ledger"
    with dp.connect(old, {"sales": SALES}, ledger=path, create=True) as session:
        session.sql(TILE, epsilon=1)
        left = session.remaining
    sources = {"sales": SALES, "kinds": KINDS}
    with pytest.raises(LedgerError, match="dpquery ledger amend"):
        dp.connect(grown, sources, ledger=path)
    assert dp.amend_ledger(grown, path, **OWNER) == 2
    with dp.connect(grown, sources, ledger=path) as session:
        assert session.remaining == left
        assert session.sql(TILE, epsilon=1).charge == dp.PrivacyLoss()
        part = session.sql("SELECT COUNT(*) AS n FROM sales WHERE kind = 'a'", epsilon="0.1")
        assert part.charge == dp.PrivacyLoss()
        joined = "SELECT k.name, COUNT(*) AS n FROM sales s JOIN kinds k ON s.kind = k.kind GROUP BY k.name"
        assert session.sql(joined, epsilon=1).charge != dp.PrivacyLoss()
    other_bounds = dp.Catalog.from_yaml(CATALOG.replace("upper: 9", "upper: 20").replace("max_rows: 4", "max_rows: 2"))
    with dp.connect(other_bounds, {"sales": SALES}, ledger=path) as session:
        assert session.sql(TILE, epsilon=1).charge != dp.PrivacyLoss()
    assert dp.amend_ledger(other_bounds, path, **OWNER) is None
