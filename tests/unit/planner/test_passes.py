"""After each pass of planning holds what it is for, and what held before."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.kernel.accountant import charge_of
from dpquery.plan.logical import Released, Scan, output
from dpquery.plan.types import Value
from dpquery.planner.passes import CHANGING, KEEPING, PASSES, PROTECT, Draft, Observer, Pass, PlanningTerms, run_passes
from dpquery.planner.protect.weighing import CUT, REWRITES
from dpquery.session import pipeline
from dpquery.session.workloads import SHARING
from tests.reference.relations import Interpreter, Row
from tests.unit.planner.pass_invariants import HOLDS, Trace, check_passes, traced_with

CATALOG = """\
version: 2
dataset: shop
privacy_unit: customer
budget: {epsilon: 1000, delta: 1e-3}
defaults: {epsilon: 1}
tables:
  sales:
    unit: id
    max_rows: 3
    max_groups: 2
    columns:
      id: {type: int64}
      region: {type: text, keys: [east, north, west]}
      kind: {type: text, keys: [a, b]}
      price: {type: "decimal(10,2)", lower: 0, upper: 100}
      day: {type: date, lower: 2024-01-01, upper: 2024-03-31}
      says: {type: text, randomized: {epsilon: 1, categories: ['no', 'yes']}}
      free: {type: text}
  shops:
    public: true
    columns:
      region: {type: text}
      size: {type: int64, lower: 1, upper: 9}
"""
IN_BLOCKS = CATALOG.replace(
    "    max_groups: 2\n", "    max_groups: 2\n    blocks: {by: month, column: day}\n", 1
).replace("privacy_unit: customer\n", "privacy_unit: customer\nneighbours: replace_one\n", 1)
QUERIES = (
    "SELECT region, COUNT(*) AS n, AVG(price) AS mean FROM sales GROUP BY region",
    "SELECT COUNT(*) FILTER (WHERE price IS NULL) AS missing, SUM(price) AS total FROM sales",
    "SELECT kind, region, COUNT(*) AS n FROM sales GROUP BY ROLLUP (region, kind)",
    "SELECT free, COUNT(DISTINCT id) AS people FROM sales GROUP BY free",
    "SELECT s.size, STDDEV(t.price) AS spread FROM sales AS t JOIN shops AS s USING (region) GROUP BY s.size",
    "SELECT MEDIAN(highest) AS middle FROM (SELECT MAX(price) AS highest FROM sales GROUP BY id) AS each_customer",
    "SELECT region FROM (SELECT region, COUNT(*) AS n FROM sales GROUP BY region) AS t WHERE n > 10 ORDER BY n DESC",
    "SELECT COUNT(*) AS n FROM sales WHERE day BETWEEN '2024-02-01' AND '2024-02-09'",
    "SELECT says, COUNT(*) AS n FROM sales GROUP BY says",
    "SELECT region, n FROM (SELECT region, COUNT(*) AS n, MEDIAN(price) AS m FROM sales GROUP BY region) ORDER BY n",
)
OF_CONSTANTS = (
    "SELECT COUNT(*) FILTER (WHERE id IS NULL) AS nobody, COUNT(id) AS n FROM sales WHERE id IS NOT NULL",
    "SELECT COUNT(*) FILTER (WHERE region = 'east') + COUNT(*) FILTER (WHERE region = 'north') AS n FROM sales",
)
SALES: list[dict[str, Value]] = [
    {
        "id": i // 2,
        "region": ("east", "north", "west")[i % 3],
        "kind": "ab"[i % 2],
        "price": Decimal(7 * i % 100),
        "day": datetime.date(2024, 1 + i % 3, 1 + i % 28),
        "says": "no" if i % 5 else "yes",
        "free": f"{i % 4}",
    }
    for i in range(40)
]
SHOPS: list[dict[str, Value]] = [
    {"region": "east", "size": 1},
    {"region": "north", "size": 2},
    {"region": "west", "size": 2},
]


@pytest.fixture(params=[CATALOG, IN_BLOCKS], ids=["one budget", "blocks"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dp.Session]:
    (tmp_path / "shop.yaml").write_text(request.param, encoding="utf-8")
    schema = {"id": pa.int64(), "region": pa.string(), "kind": pa.string(), "price": pa.decimal128(10, 2)}
    sales = pa.schema([*schema.items(), ("day", pa.date32()), ("says", pa.string()), ("free", pa.string())])
    shops = pa.table({"region": ["east", "north", "west"], "size": [1, 2, 2]})
    tables = {"sales": sales.empty_table(), "shops": shops}
    with dp.connect(tmp_path / "shop.yaml", tables, ledger=tmp_path / "shop.ledger", create=True) as session:
        yield session


@pytest.mark.parametrize("query", QUERIES)
def test_after_each_pass_holds_what_it_is_for(shop: dp.Session, query: str) -> None:
    trace = traced(shop, [query])
    assert [one for one, _ in trace] == list(PASSES)
    check_passes(shop, trace)
    (budgeted,) = (draft.budgeted for _, draft in trace[-1:])
    assert budgeted is not None
    charge = charge_of(budgeted, shop._ledger.budget.kind, shop.catalog.declarations.neighbours)
    assert charge.epsilon <= 1 and charge.rho <= 1


def test_queries_of_a_batch_share_what_is_measured(shop: dp.Session) -> None:
    *_, (_, last) = traced(shop, [QUERIES[0], QUERIES[0].replace("AVG", "SUM")])
    assert last.budgeted is not None and len(last.private) == 2
    assert {plan.aggregates for plan in last.private} == {tuple(one.aggregate for one in last.budgeted.aggregates)}


def test_each_pass_says_why_and_has_invariants() -> None:
    assert [one.name for one in PASSES] == list(HOLDS)
    assert all(one.reason for one in PASSES) and PASSES[: len(PROTECT)] == PROTECT


def test_what_keeps_the_answer_comes_before_what_changes_it() -> None:
    assert PASSES[: len(KEEPING) + len(CHANGING)] == (*KEEPING, *CHANGING)
    assert all(one.keeps for one in KEEPING) and not any(one.keeps for one in CHANGING)
    assert [(one.name, one.keeps) for one in PASSES if one not in (*KEEPING, *CHANGING)] == [
        ("combine", True),
        ("allocate", False),
    ]


PLACE = re.compile(r"\. (?:First|Last|Before|After)\b")


def test_each_rewrite_of_a_boundary_says_why() -> None:
    assert [one.name for one in REWRITES] == ["equivalent", "within keys", "existence", "cut"]
    assert REWRITES[-1] is CUT
    assert all(PLACE.search(one.reason) for one in (*REWRITES, *SHARING)), "each says why it is where it is"


def test_a_pass_on_logical_plans_keeps_the_answer_as_it_says(shop: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Draft, PlanningTerms]] = []

    def noted(passes: Sequence[Pass], draft: Draft, terms: PlanningTerms, observe: Observer | None = None) -> Draft:
        given.append((draft, terms))
        return run_passes(passes, draft, terms, observe)

    monkeypatch.setattr(pipeline, "run_passes", noted)
    for query in (*QUERIES, *OF_CONSTANTS):
        traced(shop, [query])
    drafts, differs, rewrites = given[::2], set[str](), set[str]()
    assert len(drafts) == len(QUERIES) + len(OF_CONSTANTS)
    for draft, terms in drafts:
        for one in PASSES[: [one.name for one in PASSES].index("measure")]:
            after = one.run(draft, terms)
            rewrites |= {one.name} if after.logical != draft.logical else set()
            differs |= {one.name} if exact(after) != exact(draft) else set()
            draft = after
    assert differs == {one.name for one in PASSES if one.name in rewrites and not one.keeps} == {"reports"}
    assert rewrites >= {"unread", "declared", "disjoint counts", "reports"}
    assert ("blocks" in rewrites) is any(table.blocks is not None for table in shop.catalog.tables.values())


def exact(draft: Draft) -> list[tuple[Value, ...]]:
    """Returns the rows of the first query's answer over `SALES` and `SHOPS`, by the interpreter."""
    (plan,) = draft.logical

    def stored(scan: Scan) -> list[Row]:
        table = SHOPS if scan.public else SALES
        return [{column.id: row[column.name] for column in scan.columns} for row in table]

    below = Interpreter(scan=stored, released=lambda node: [])

    def released(node: Released) -> list[Row]:
        pairs = list(zip(node.columns, output(plan.boundaries[node.index]), strict=True))
        return [{to.id: row[of.id] for to, of in pairs} for row in below.rows(plan.boundaries[node.index])]

    rows = Interpreter(scan=stored, released=released).rows(plan.result)
    return sorted((tuple(row[column.id] for column in output(plan.result)) for row in rows), key=str)


def test_the_passes_are_shown_on_request(shop: dp.Session) -> None:
    shown = str(shop.explain(QUERIES[0], passes=True))
    assert [f"Pass {number}, {one.name}: {one.reason}" in shown for number, one in enumerate(PASSES, 1)] == [True] * 9
    assert str(shop.explain(QUERIES[0])) in shown and "nothing changed" in shown


def traced(session: dp.Session, queries: Sequence[str]) -> Trace:
    """Returns each pass with the draft that it made."""
    return traced_with(session, queries, {"epsilon": 1})
