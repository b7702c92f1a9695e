"""Randomised columns: what is declared, where reports may be read, and refusals that charge nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import dpquery as dp
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: survey
privacy_unit: person
budget: {epsilon: 100, delta: 1e-6}
defaults: {epsilon: 1, max_groups: 3, max_rows: 2}
tables:
  people:
    unit: id
    unique: [[id]]
    columns:
      id: {type: int64}
      smokes: {type: boolean, randomized: {epsilon: 1, categories: [false, true]}}
      party: {type: text, randomized: {epsilon: 1, categories: [a, b, c]}}
      age: {type: int64, lower: 0, upper: 100}
      town: {type: text}
      side: {type: text, keys: [left, right]}
  visits:
    unit: id
    columns: {id: {type: int64}, cost: {type: int64, lower: 0, upper: 10}}
"""


def survey(folder: Path) -> dp.Session:
    people = range(600)
    frame = pd.DataFrame({"id": people, "age": 50, "town": "x", "side": [("left", "right")[i % 2] for i in people]})
    frame["smokes"], frame["party"] = [i % 3 == 0 for i in people], [("a", "b", "c")[i % 3] for i in people]
    visits = pd.DataFrame({"id": [i for i in people for _ in range(2)], "cost": 5})
    catalog = dp.Catalog.from_yaml(CATALOG)
    ledger = dp.create_ledger(catalog, folder / "survey.ledger")
    return dp.connect(catalog, {"people": frame, "visits": visits}, ledger=ledger)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[dp.Session]:
    with survey(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Session]:
    """A session in which nothing is bought."""
    with survey(tmp_path_factory.mktemp("survey")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT COUNT(*) FROM people WHERE smokes OR age > 3", "and other columns"),
        ("SELECT SUM(CASE WHEN smokes THEN age ELSE 0 END) FROM people", "and other columns"),
        ("SELECT COUNT(*) FROM people WHERE smokes AND party = 'a'", "two columns"),
        ("SELECT COUNT(*) FILTER (WHERE smokes) FROM people WHERE party = 'a'", "two columns"),
        ("SELECT STDDEV(age) FROM people WHERE smokes", "STDDEV_SAMP of what randomised reports"),
        ("SELECT MEDIAN(age) FROM people WHERE smokes", "MEDIAN of what"),
        ("SELECT MODE() WITHIN GROUP (ORDER BY party) FROM people", "cannot be debiased"),
        ("SELECT COUNT(DISTINCT party) FROM people", "cannot be debiased"),
        ("SELECT COUNT(DISTINCT id) FROM people WHERE smokes", "cannot be debiased"),
        ("SELECT CORR(age, age) FROM people WHERE smokes", "cannot be debiased"),
        ("SELECT party, MAX(age) FROM people GROUP BY party", "cannot be debiased"),
        ("SELECT party, smokes, COUNT(*) FROM people GROUP BY party, smokes", "grouping by two columns"),
        ("SELECT UPPER(party), COUNT(*) FROM people GROUP BY 1", "groups of an expression"),
        ("SELECT party, COUNT(*) FROM people GROUP BY ROLLUP (party)", "cannot be used in ROLLUP"),
        ("SELECT party, town, COUNT(*) FROM people GROUP BY party, town", "all keys are public"),
        ("SELECT party, COUNT(*) FROM people WHERE smokes GROUP BY party", "other reports than those"),
        ("SELECT party, COUNT_IF(smokes) FROM people GROUP BY party", "also groups by"),
        ("SELECT DISTINCT side FROM people WHERE smokes", "which groups exist"),
        ("SELECT AVG(n) FROM (SELECT id, COUNT(*) AS n FROM people WHERE smokes GROUP BY id) AS t", "single units"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT id, party FROM people) AS t", "grouped, ordered"),
        ("SELECT COUNT(*) FROM (SELECT id FROM people WHERE smokes UNION ALL SELECT id FROM visits) AS t", "single"),
        ("SELECT COUNT(*) FROM (SELECT smokes FROM people UNION ALL SELECT age > 3 FROM people) AS t", "put together"),
        ("SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM people WHERE smokes)", "single units"),
        ("SELECT COUNT(*) FROM people AS a JOIN people AS b ON a.id = b.id AND a.party = b.party", "single units"),
        ("SELECT COUNT(*) FROM visits LEFT JOIN people USING (id) WHERE smokes", "outer join"),
        ("SELECT party, COUNT(*) FROM visits LEFT JOIN people USING (id) GROUP BY party", "groups of an expression"),
        (
            "SELECT AVG(r) FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY party) AS r FROM people) AS t",
            "ordered",
        ),
    ],
)
def test_reports_are_refused_where_no_estimate_is_unbiased(refusing: dp.Session, query: str, says: str) -> None:
    with pytest.raises(dp.UnsupportedQueryError, match=says):
        refusing.sql(query)
    assert refusing.remaining == refusing.remaining and not refusing._ledger.entries()


@pytest.mark.parametrize(
    "query", ["SELECT COUNT(*) AS n FROM people WHERE smokes", "SELECT SUM(smokes::int) AS n FROM people"]
)
def test_no_error_can_be_asked_of_an_estimate(refusing: dp.Session, query: str) -> None:
    with pytest.raises(dp.UnsupportedQueryError, match="depends on the data"):
        refusing.explain(query, error=10)


def test_estimates_follow_the_formula(session: dp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    q = 1 / (2.718281828459045 + 2)
    gap = 2.718281828459045 * q - q
    frame = session.sql("SELECT party, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY party").to_pandas()
    assert frame.party.tolist() == ["a", "b", "c"]
    assert frame.n.tolist() == [round((200 - q * 600) / gap)] * 3 == [200] * 3
    assert frame.m.tolist() == pytest.approx([50] * 3)
    one = session.sql("SELECT COUNT(*) AS n FROM people WHERE smokes").to_pandas().n.tolist()
    binary = 1 / (2.718281828459045 + 1)
    assert one == [round((200 - binary * 600) / (1 - 2 * binary))]


def test_what_reads_no_report_is_as_ever(session: dp.Session) -> None:
    plain = session.explain("SELECT side, COUNT(*) AS n, MEDIAN(age) AS m FROM people GROUP BY side")
    assert "window" not in str(plain)
    (counted,) = session.explain("SELECT COUNT(party) AS n FROM people").measurements
    assert counted.label == "COUNT(*)"


def test_counts_of_joined_reports_allow_for_repeats(session: dp.Session) -> None:
    """One report stands in as many rows as its person has, and errs in all of them alike."""
    joined = session.sql("SELECT COUNT(*) AS n FROM visits JOIN people USING (id) WHERE smokes", epsilon=3).accuracy
    once = session.sql("SELECT COUNT(*) AS n FROM people WHERE smokes", epsilon=3).accuracy
    wide, narrow = ((found["n"].upper - found["n"].lower)[0] for found in (joined, once))
    assert 1.8 < wide / narrow < 2.4


def test_a_condition_on_the_grouped_reports_chooses_among_the_estimates(
    session: dp.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero_noise(monkeypatch)
    query = "SELECT side, party, COUNT(*) AS n FROM people WHERE party <> 'a' AND side = 'left' GROUP BY side, party"
    assert session.sql(query).to_pandas().to_dict("list") == {"side": ["left"] * 2, "party": ["b", "c"], "n": [100] * 2}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{type: text, randomized: {epsilon: 1}}", "'categories' is missing"),
        ("{type: text, randomized: {categories: [a, b]}}", "'epsilon' is missing"),
        ("{type: text, randomized: {epsilon: 0, categories: [a, b]}}", "epsilon"),
        ("{type: text, randomized: {epsilon: 65, categories: [a, b]}}", "hides nothing"),
        ("{type: text, randomized: {epsilon: 1, categories: [a]}}", "from 2 to"),
        ("{type: text, randomized: {epsilon: 1, categories: [a, a]}}", "same key"),
        ("{type: int64, randomized: {epsilon: 1, categories: [a, b]}}", "categories"),
        ("{type: text, keys: [a], randomized: {epsilon: 1, categories: [a, b]}}", "cannot be combined with randomized"),
        (
            "{type: text, nullable: true, randomized: {epsilon: 1, categories: [a, b]}}",
            "cannot be combined with randomized",
        ),
        (
            "{type: int64, lower: 0, upper: 3, randomized: {epsilon: 1, categories: [1, 2]}}",
            "cannot be combined with randomized",
        ),
        ("{type: text, randomized: [a, b]}", "expected a mapping"),
    ],
)
def test_mistakes_of_the_declaration_are_told(said: str, problem: str) -> None:
    with pytest.raises(dp.CatalogError, match=problem):
        dp.Catalog.from_yaml(CATALOG.replace("town: {type: text}", f"town: {said}"))


def test_units_and_public_tables_are_not_randomised() -> None:
    randomized = "{type: int64, randomized: {epsilon: 1, categories: [1, 2]}}"
    with pytest.raises(dp.CatalogError, match="does not identify the owner"):
        dp.Catalog.from_yaml(CATALOG.replace("id: {type: int64}\n", f"id: {randomized}\n"))
    public = f"\n  open:\n    public: true\n    columns: {{x: {randomized}}}\n"
    with pytest.raises(dp.CatalogError, match="only possible in private tables"):
        dp.Catalog.from_yaml(CATALOG + public)


def test_blocks_are_not_told_by_reports() -> None:
    day = "day: {type: date, randomized: {epsilon: 1, categories: [2020-01-01, 2020-02-01]}}"
    said = CATALOG.replace("town: {type: text}", day).replace(
        "    unit: id\n    unique", "    blocks: {column: day, by: month}\n    unit: id\n    unique"
    )
    with pytest.raises(dp.CatalogError, match="does not say which block"):
        dp.Catalog.from_yaml(said)


def test_the_catalog_says_what_is_randomised() -> None:
    said = dp.Catalog.from_yaml(CATALOG).to_text()
    assert "reported by randomised response: epsilon 1, 3 categories; not NULL; public keys 'a', 'b', 'c'" in said
