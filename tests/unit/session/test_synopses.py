"""Synopses: bought once, kept, read free by any SQL, and made of nothing but what was released."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpquery as dp
from dpquery.ledger.ledger import Ledger
from dpquery.ledger.reserved import Reserved
from dpquery.session import synopsis_buying
from dpquery.synopsis.making import draw

CATALOG = """
version: 2
dataset: clinic
privacy_unit: patient
budget: {BUDGET}
tables:
  visits:
    unit: id
    max_rows: 2
    columns:
      id: {type: int64}
      ward: {type: text, keys: [A, B, "it's"]}
      code: {type: int64, keys_from: codes.code}
      age: {type: int64, lower: 0, upper: 99}
      dose: {type: "decimal(6,2)", lower: 0, upper: 50, nullable: true}
      urgent: {type: boolean}
      day: {type: date, lower: 2024-01-01, upper: 2024-12-31}
      seen: {type: timestamp, lower: 2024-01-01 00:00:00, upper: 2024-12-31 00:00:00}
      words: {type: text}
  codes:
    public: true
    unique: [[code]]
    columns: {code: {type: int64}, panel: {type: text, keys: [x, y]}}
"""
COLUMNS = ["ward", "age", "dose"]
FEW = ["ward", "urgent"]
RHO = "{rho: 100000, delta: 1e-6}"


def catalog(budget: str = RHO) -> dp.Catalog:
    return dp.Catalog.from_yaml(CATALOG.replace("{BUDGET}", budget))


def visits(rows: int = 400) -> pd.DataFrame:
    """Rows whose ward tells the dose but for a few."""
    random = np.random.default_rng(7)
    ward = random.choice(["A", "B", "it's"], rows, p=[0.6, 0.3, 0.1])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 366, rows), unit="D")
    return pd.DataFrame(
        {
            "id": np.arange(rows) // 2,
            "ward": ward,
            "code": random.choice([1, 2, 3], rows),
            "age": random.integers(0, 100, rows),
            "dose": [None if i % 10 == 0 else {"A": 5, "B": 20, "it's": 45}[w] for i, w in enumerate(ward)],
            "urgent": random.random(rows) < 0.25,
            "day": day.date,
            "seen": day,
            "words": "secret",
        }
    )


CODES = pd.DataFrame({"code": [1, 2, 3], "panel": ["x", "x", "y"]})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def session(place: Path) -> Iterator[dp.Session]:
    with connect(place) as opened:
        yield opened


def connect(place: Path, budget: str = RHO, **more: object) -> dp.Session:
    data = {"visits": visits(), "codes": CODES}
    return dp.connect(catalog(budget), data, ledger=place, create=True, **more)  # type: ignore[arg-type]


def test_it_is_charged_once_and_read_free(session: dp.Session) -> None:
    before = session.remaining.rho
    made = session.synopsis("visits", COLUMNS, rho="1000")
    assert before - session.remaining.rho == Fraction(1000) == made.charge.rho
    for _ in range(3):
        answer = session.sql("SELECT ward, COUNT(*) AS n FROM synopsis.visits GROUP BY ward ORDER BY n DESC")
        assert answer.charge == dp.PrivacyLoss() and "synthetic" in answer.notes[0] and "synthetic" in str(answer)
    true = visits().ward.value_counts()
    assert {row.ward: row.n for row in answer.to_pandas().itertuples()} == pytest.approx(dict(true), abs=8)
    assert before - session.remaining.rho == Fraction(1000)


def test_columns_that_depend_on_each_other_still_do(session: dp.Session) -> None:
    session.synopsis("visits", COLUMNS, rho="1000")
    found = session.sql("SELECT ward, AVG(dose) AS d, COUNT(*) - COUNT(dose) AS n FROM synopsis.visits GROUP BY ward")
    means = found.to_pandas().set_index("ward")
    # Independent columns would have means of about 13. One of the 44 rows of "it's" in the wrong ward moves its mean by
    # 0.9; of 40 synopses two had such a row and none had two, so eight rows (abs=7) are beyond any chance.
    assert means.d.astype(float).to_dict() == pytest.approx({"A": 5, "B": 20, "it's": 45}, abs=7)
    assert means.n.sum() == pytest.approx(40, abs=8)


def test_it_has_the_columns_and_types_of_its_table(session: dp.Session) -> None:
    made = session.synopsis("visits", ["dose", "urgent", "day"], rho="1000", rows=60)
    assert made.columns == ("dose", "urgent", "day")
    assert list(session.synopses.plan("visits", rho="10", if_rows=60).columns)[-1] == "seen"
    answer = session.sql("SELECT * FROM synopsis.visits").to_arrow()
    plain = {field.name: str(field.type) for field in answer.schema}
    assert list(plain) == ["id", "ward", "code", "age", "dose", "urgent", "day", "seen", "words", "row_weight"]
    assert plain["dose"] == "decimal128(6, 2)" and plain["day"] == "date32[day]" and plain["urgent"] == "bool"
    assert answer["seen"].null_count == answer["words"].null_count == len(answer) == 60
    assert answer["row_weight"][0].as_py() == pytest.approx(400 / 60, rel=0.05)
    assert "SUM(row_weight)" in session.sql("SELECT COUNT(*) AS n FROM synopsis.visits").notes[0]


def test_any_sql_reads_it_with_public_tables_and_with_itself(session: dp.Session) -> None:
    session.synopsis("visits", ["code", "age"], rho="1000")
    joined = "SELECT panel, MEDIAN(age) AS m FROM synopsis.visits JOIN codes USING (code) GROUP BY panel ORDER BY panel"
    assert session.sql(joined).to_pandas().panel.tolist() == ["x", "y"]
    window = "SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS r FROM synopsis.visits ORDER BY r LIMIT 1"
    assert session.sql(window).to_pandas().r.tolist() == [1]
    assert str(session.explain(joined).charge) == "nothing"
    batch = session.batch(["SELECT COUNT(*) AS n FROM synopsis.visits", "SELECT MAX(age) AS a FROM synopsis.visits"])
    assert len(batch) == 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) AS n FROM synopsis.visits JOIN visits USING (urgent)",
        "SELECT COUNT(*) AS n FROM synopsis.visits WHERE urgent IN (SELECT urgent FROM visits)",
        "WITH v AS (SELECT urgent FROM visits) SELECT COUNT(*) AS n FROM synopsis.visits JOIN v USING (urgent)",
    ],
)
def test_no_query_reads_it_together_with_people(session: dp.Session, query: str) -> None:
    session.synopsis("visits", FEW, rho="1000", rows=20)
    with pytest.raises(dp.QueryError, match="not read together with private tables"):
        session.sql(query, rho="1")


def test_it_lasts_and_is_every_analysts_until_it_is_dropped(place: Path) -> None:
    with connect(place) as session:
        made = session.synopsis("visits", FEW, rho="1000", rows=50)
    with connect(place, analyst="bob") as session:
        again = session.synopses["visits"]
        assert again.rows.equals(made.rows) and again.charge == made.charge and again.quality == made.quality
        assert draw(again.transcript, rows=50)[0].equals(made.rows)  # the rows follow from the transcript
        with pytest.raises(dp.DPQueryError, match="already"):
            session.synopsis("visits", FEW, rho="1000")
        session.synopses.drop("visits")
        assert not session.synopses
        with pytest.raises(dp.QueryError, match="does not exist"):
            session.sql("SELECT COUNT(*) AS n FROM synopsis.visits")
        with pytest.raises(dp.QueryError):
            session.synopses.drop("visits")
        assert session.remaining.rho < 100_000 - 999  # what it cost stays charged


def test_it_is_of_one_version_of_the_data_and_of_one_catalog(place: Path) -> None:
    with connect(place) as session:
        session.synopsis("visits", FEW, rho="1000", rows=50, name="first")
        assert list(session.for_analyst("bob").synopses) == ["first"]
    other = dp.Catalog.from_yaml(CATALOG.replace("{BUDGET}", RHO).replace("upper: 99", "upper: 98"))
    with dp.connect(other, {"visits": visits(), "codes": CODES}, ledger=place) as session:
        assert not session.synopses
    ledger = Ledger.open(place)
    ledger.new_data_version(by="owner", why="a test")
    ledger.close()
    with connect(place) as session:
        assert not session.synopses and not session.releases.size


def test_own_stores_show_own_synopses(place: Path) -> None:
    with connect(place, analyst="alice") as session:
        session.synopsis("visits", FEW, rho="1000", rows=50)
    with connect(place, analyst="bob", reuse="own") as session:
        assert not session.synopses
    with connect(place, reuse=False) as session, pytest.raises(dp.CatalogError, match="reuse"):
        session.synopsis("visits", FEW, rho="1000", name="other")


def test_an_analyst_cannot_buy_one_with_what_another_has_left(place: Path) -> None:
    budget = f"{RHO}\nanalysts: {{ann: {{rho: 5000}}, bob: {{rho: 5000}}}}"
    with connect(place, budget, analyst="ann") as ann, connect(place, budget, analyst="bob") as bob:
        with pytest.raises(dp.InsufficientBudgetError):
            ann.synopsis("visits", FEW, rho="5001", rows=50)
        ann.synopsis("visits", FEW, rho="4000", rows=50)
        with pytest.raises(dp.InsufficientBudgetError):
            ann.synopsis("visits", FEW, rho="1001", rows=50, name="second")
        assert bob.sql("SELECT COUNT(*) AS n FROM synopsis.visits").charge == dp.PrivacyLoss()
        assert [ann.remaining.rho, bob.remaining.rho] == [Fraction(1000), Fraction(5000)]
        assert bob.synopses["visits"].analyst == "ann"


def test_releases_are_within_what_was_recorded(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release of all rounds takes its part, and nothing is charged beside it."""
    parts, take = [], Reserved.charge

    def taking(self: Reserved, **given: object) -> int:
        parts.append(given["loss"].rho)  # type: ignore[attr-defined]
        return take(self, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(Reserved, "charge", taking)
    made = session.synopsis("visits", COLUMNS, rho="1000", rows=50)
    assert len(parts) == len(made.transcript.first) + len(made.transcript.later)
    assert Fraction(999) < sum(parts) <= made.charge.rho == 100_000 - session.remaining.rho


def test_a_run_that_breaks_loses_its_charge_and_nothing_else(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(place) as session:
        monkeypatch.setattr(synopsis_buying, "draw", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.synopsis("visits", FEW, rho="1000")
        assert session.remaining.rho == 99_000 and not session.synopses


def test_what_is_refused_is_refused_before_the_charge(session: dp.Session) -> None:
    for columns, words in ((["words"], "neither public values"), (["nothing"], "does not exist")):
        with pytest.raises(dp.DPQueryError, match=words):
            session.synopsis("visits", columns, rho="1000")
    with pytest.raises(dp.DPQueryError, match="not a declared private table"):
        session.synopsis("codes", rho="1000")
    with pytest.raises(dp.DPQueryError, match="needs a loss"):
        session.synopsis("visits", COLUMNS)
    with pytest.raises(dp.InsufficientBudgetError):
        session.synopsis("visits", COLUMNS, rho="100001")
    assert session.remaining.rho == 100_000


@pytest.mark.parametrize(
    ("budget", "asked"),
    [("{epsilon: 100000}", {"epsilon": "5000"}), ("{epsilon: 10, delta: 1e-6}", {"epsilon": "5", "delta": "1e-7"})],
)
def test_it_is_bought_with_each_kind_of_budget(place: Path, budget: str, asked: dict[str, str]) -> None:
    with connect(place, budget) as session:
        made = session.synopsis("visits", FEW, rows=100, **asked)
        assert made.quality.of(1) or made.quality.of(2)
        assert session.sql("SELECT COUNT(*) AS n FROM synopsis.visits").to_pandas().n.tolist() == [100]


def test_the_plan_says_what_would_be_measured(session: dp.Session) -> None:
    plan = session.synopses.plan("visits", COLUMNS, rho="10", if_rows=400)
    assert session.remaining.rho == 100_000 and plan.loss.rho == 10
    assert len(plan.quality.of(2)) == 3 and "Would be charged" in str(plan)
    better = session.synopses.plan("visits", COLUMNS, rho="1000", if_rows=400)
    assert better.quality.of(2)[0].noise < plan.quality.of(2)[0].noise


def test_the_report_has_a_plot(session: dp.Session) -> None:
    made = session.synopsis("visits", FEW, rho="1000", rows=100)
    assert len(made.quality.to_pandas()) == len(made.quality.measured)
    assert len(made.quality.plot().axes) == len({len(one.columns) for one in made.quality.measured})
