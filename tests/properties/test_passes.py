"""Passes on logical plans keep the exact answer of random queries over random tables that are as declared.

`tests/unit/planner/test_passes.py` does the same for chosen queries, reports and blocks among them.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

import dpquery as dp
from dpquery.catalog.tables import ColumnDeclaration
from dpquery.plan.aggregates.sums import SUM
from dpquery.plan.logical import LogicalPlan, Released, Scan, output
from dpquery.plan.types import Kind, Value
from dpquery.planner.passes import KEEPING, Draft, Observer, Pass, PlanningTerms, run_passes
from dpquery.session import pipeline
from dpquery.session.options import Options
from tests.properties import queries
from tests.properties.worlds import PUBLIC_TABLES, arrow_type, catalog_of, tables_of
from tests.reference.relations import Interpreter, Row

Tables = Mapping[str, Sequence[Mapping[str, Value]]]
HELD = [one for one in KEEPING if one.name != "blocks"]
"""The passes that keep the answer; tests/properties/test_blocks.py has worlds with blocks."""
PEOPLE, ROWS = 8, 3
"""How many people there are, and their rows in each table: visit number v is one of person v // ROWS."""


IMPOSSIBLE = ("v.kind IS NULL", "v.day IS NULL AND v.ok", "1 > 2", "v.cell IS NULL")
"""Conditions that the declarations say are true of no row."""


def query(random: Random, *, row_unit: bool) -> queries.Query:
    """Returns a query of aggregates of which some follow from the declarations, or of counts that are added up."""
    conditions = random.choice(queries.SPLITS)
    counts = [f"COUNT(*) FILTER (WHERE {condition})" for condition in conditions]
    never = random.choice(IMPOSSIBLE)
    items = [
        " + ".join(random.sample(counts, 2)),
        " + ".join(counts),
        f"{counts[0]} + COUNT(*) FILTER (WHERE NOT ({conditions[0]}))",
        f"COUNT(v.score) FILTER (WHERE {never})",
        f"SUM(CASE WHEN {never} THEN v.score ELSE 0 END)",
        f"COUNT(*) FILTER (WHERE {random.choice(conditions)} AND {never})",
        f"{counts[0]} + COUNT(*) FILTER (WHERE {random.choice(random.choice(queries.SPLITS))})",
        "AVG(v.score)",
    ]
    chosen = random.sample(items, random.choice([1, 1, 2, 3]))
    keys = random.choice([[], ["v.kind AS k"]])
    where = f" WHERE {random.choice([*conditions, never])}" if random.random() < 0.3 else ""
    listed = ", ".join([*keys, *(f"{item} AS a{i}" for i, item in enumerate(chosen))])
    text = f"SELECT {listed} FROM visits v{where}{' GROUP BY 1' if keys else ''}"
    if random.random() < 0.3:  # of which a query around reads some
        text = f"SELECT {', '.join(['k'] * len(keys) + [f'a{random.randrange(len(chosen))}'])} FROM ({text}) AS w"
    return queries.Query(text=text)


def value_of(random: Random, column: ColumnDeclaration) -> Value:
    """Returns a random value that a column is declared to have."""
    if column.nullable and random.random() < 0.2:
        return None
    if column.keys is not None:
        return random.choice([key for key in column.keys if key is not None])
    low: Value = column.lower
    high: Value = column.upper
    match column.type.kind:
        case Kind.BOOLEAN:
            return random.random() < 0.5
        case Kind.TEXT:
            return random.choice("abcdn")
        case Kind.DATE:
            return datetime.date(2000, random.randint(1, 12), random.randint(1, 28))
        case Kind.DECIMAL:
            return Decimal(random.randint(-500, 500)) / 100
        case Kind.INT64:
            return random.randint(int(str(low or 0)), int(str(high or 5)))
        case _:
            return float(random.randint(int(float(str(low or 0))), int(float(str(high or 5)))))


def tables(random: Random, catalog: dp.Catalog) -> Tables:
    """Returns random tables of a few people, as the catalog declares them."""
    found: dict[str, list[dict[str, Value]]] = {}
    for name, columns in tables_of(catalog).items():
        declared = catalog.tables[name].columns
        rows = [{column: value_of(random, declared[column]) for column in columns} for _ in range(PEOPLE * ROWS)]
        for number, row in enumerate(rows):
            if name == "people":
                row["id"] = number
            if name == "visits":
                row |= {"person": number // ROWS if "person" in row else None, "visit": number}
            if name == "items":
                row["visit"] = ROWS * (number // ROWS)
            if name == "places":
                row["code"] = number
        rows = [{column: row[column] for column in columns} for row in rows]
        found[name] = rows[:PEOPLE] if name in ("people", "places") else rows
    return found


def exact(plan: LogicalPlan, stored: Tables) -> Counter[tuple[Value, ...]]:
    """Returns the rows of an answer over tables, by the interpreter; floats are equal but for their last digits."""

    def scan(node: Scan) -> list[Row]:
        rows = [{column.id: row[column.name] for column in node.columns} for row in stored[node.table]]
        if node.unit is not None and node.unit not in {column.id for column in node.columns}:
            for row, own in zip(rows, stored[node.table], strict=True):
                row[node.unit] = own["visit"] // ROWS  # type: ignore[operator]
        return rows

    def released(node: Released) -> list[Row]:
        boundary = plan.boundaries[node.index]
        sums = {column.id for column in boundary.aggregates if column.function is SUM}  # measured, they are never NULL
        found = (
            {id: 0 if value is None and id in sums else value for id, value in row.items()}
            for row in reads.rows(boundary)
        )
        return [{column.id: row[column.id] for column in node.columns} for row in found]

    reads = Interpreter(scan=scan, released=released)
    rows = reads.rows(plan.result)
    return Counter(tuple(_rounded(row[column.id]) for column in output(plan.result)) for row in rows)


def _rounded(value: Value) -> Value:
    return float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Draft, PlanningTerms]]:
    """The drafts and terms that planning begins with."""
    found: list[tuple[Draft, PlanningTerms]] = []

    def noted(passes: Sequence[Pass], draft: Draft, terms: PlanningTerms, observe: Observer | None = None) -> Draft:
        found.append((draft, terms))
        return run_passes(passes, draft, terms, observe)

    monkeypatch.setattr(pipeline, "run_passes", noted)
    return found


@pytest.mark.parametrize("unit", ["int64", "row"])
def test_passes_keep_the_answer_of_random_queries(
    unit: str, given: list[tuple[Draft, PlanningTerms]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    compared, rewritten = 0, Counter[str]()
    for seed in range(2):
        random = Random(seed)
        catalog = catalog_of(unit=unit, unique=seed % 2 == 0)
        rows = tables(random, catalog)
        for draft, terms in drafts(random, catalog, rows, given, f"{tmp_path_factory.mktemp('ledgers')}/world"):
            (before,) = draft.logical
            answer = exact(before, rows)
            for one in HELD:
                draft = one.run(draft, terms)
                (after,) = draft.logical
                assert exact(after, rows) == answer, f"{one.name}: {before}"
                rewritten[one.name] += after != before
                before = after
            compared += 1
    assert compared > 50, "most random queries are answered"
    assert all(rewritten[one.name] >= 5 for one in HELD), rewritten


def drafts(
    random: Random, catalog: dp.Catalog, rows: Tables, given: list[tuple[Draft, PlanningTerms]], ledger: str
) -> Iterator[tuple[Draft, PlanningTerms]]:
    """Yields what planning begins with for random queries, of which those that are refused are left out."""
    types = tables_of(catalog)
    sources = {
        name: pa.table(
            {c: pa.array([row[c] for row in rows[name]], arrow_type(catalog, type)) for c, type in columns.items()}
        )
        for name, columns in types.items()
    }
    is_row = catalog.declarations.unit_is_row
    with dp.connect(
        catalog, {n: t if n in PUBLIC_TABLES else t.slice(0, 0) for n, t in sources.items()}, ledger=ledger, create=True
    ) as session:
        for draw in (queries.query, queries.split_query, query, query) * 12:
            drawn = draw(random, row_unit=is_row)
            asked = Options(epsilon=1, delta="1e-6", max_groups=drawn.max_groups, max_rows=drawn.max_rows)
            given.clear()
            try:
                request = asked.request(drawn.text, None, catalog.defaults)
                pipeline.plan([request], catalog=catalog, ledger=session._ledger, public=session._backend)
            except dp.QueryError:
                continue
            yield given[0]
