"""Profiles: what they ask and cost, that they are stored, and what they say of bounds, without noise and with."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpquery as dp
from dpquery.session.known_profile import stored_profiles
from dpquery.session.profile import Profile
from tests.scripted import zero_noise

CATALOG = """\
version: 2
dataset: shop
privacy_unit: person
neighbours: NEIGHBOURS
budget: BUDGET
defaults: {epsilon: "1/2"}
tables:
  people:
    unit: id
    unique: [[id]]
    columns: {id: {type: int64}, age: {type: int64, lower: 0, upper: 99, nullable: true}, note: {type: int64}}
  orders:
    unit: person
    max_rows: MAX_ROWS
    BLOCKS
    columns:
      order: {type: int64}
      person: {type: int64}
      day: {type: date, lower: 2024-01-01, upper: 2024-12-31}
      paid: {type: float64, lower: 0, upper: 100}
  lines:
    unit: {via: orders, on: {order: order}}
    max_rows: 16
    columns: {order: {type: int64}}
  places:
    public: true
    columns: {place: {type: int64, lower: 0, upper: 1}}
"""
PEOPLE = 400


def catalog(
    neighbours: str = "add_remove", blocks: str = "", max_rows: int = 8, budget: str = "{epsilon: 9}"
) -> dp.Catalog:
    text = CATALOG.replace("NEIGHBOURS", neighbours).replace("BLOCKS", blocks).replace("BUDGET", budget)
    return dp.Catalog.from_yaml(text.replace("MAX_ROWS", str(max_rows)))


def rows_of(person: int) -> int:
    """A tail: half have 3 rows, a quarter 6, an eighth 12, and so on to 24; the rest 40."""
    return next((3 * 2**k for k in range(4) if person % 2 ** (k + 1) == 2**k), 40)


def tables() -> dict[str, pd.DataFrame]:
    rows = [
        (1000 * person + k, person, datetime.date(2024, 1 + k % 12, 5), -1.0 if person < 40 and k == 0 else 50.0)
        for person in range(PEOPLE)
        for k in range(rows_of(person))
    ]
    orders = pd.DataFrame(rows, columns=["order", "person", "day", "paid"])
    orders.loc[orders.person.between(30, 59) & (orders.order % 1000 == 1), "paid"] = 101.0
    orders.loc[orders.person == 70, "paid"] = None
    people = pd.DataFrame({"id": range(PEOPLE), "age": [None if i % 2 else 200 for i in range(PEOPLE)], "note": 5})
    lines = pd.DataFrame({"order": [*orders.order, *orders.order]})
    return {"people": people, "orders": orders, "lines": lines, "places": pd.DataFrame({"place": [0]})}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)


def opened(folder: Path, declared: dp.Catalog, **options: Any) -> dp.Session:
    place = folder / "ledger"
    ledger = dp.Ledger.open(place) if place.exists() else dp.create_ledger(declared, place)
    return dp.connect(declared, tables(), ledger=ledger, **options)


def counted(profile: Profile, table: str) -> dict[str, int]:
    return {cell.name: cell.units for cell in profile[table].ladder.cells if cell.units}


def expected(numbers: Sequence[int]) -> dict[str, int]:
    names = {1: "1", 2: "2", 4: "3-4", 8: "5-8", 16: "9-16", 32: "17-32", 64: "33-64", 128: "65-128"}
    found = dict.fromkeys(names.values(), 0)
    for number in numbers:
        found[names[1 << (number - 1).bit_length()]] += 1
    return {name: units for name, units in found.items() if units}


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_histograms_are_exact_without_noise(tmp_path: Path, quiet: None, neighbours: str) -> None:
    with opened(tmp_path, catalog(neighbours)) as session:
        found = session.profile(epsilon=6)
    assert list(found) == ["people", "orders", "lines"] and found.charge.epsilon == 6
    assert counted(found, "orders") == expected([rows_of(person) for person in range(PEOPLE)])
    assert counted(found, "lines") == expected([2 * rows_of(person) for person in range(PEOPLE)])
    months = {name: number.value for name, number in found["orders"].months if number.value}
    assert months == {"3-4": 200, "5-8": 100, "9-12": 100}, "a year has no more months"
    paid = {name: number.value for name, number in found["orders"].outside["paid"].items()}
    assert paid == {"within": 339, "below": 30, "above": 20, "both": 10, "unreadable": 1}
    age = {name: number.value for name, number in found["people"].outside["age"].items()}
    assert age == {"within": 200, "below": 0, "above": 200, "both": 0}, "NULL is expected there"
    assert found["people"].rows is None and "note" not in found["people"].outside
    moved = 1 if neighbours == "add_remove" else 2
    assert found["orders"].ladder.noise.scale == found["lines"].ladder.noise.scale == moved / 1.5
    with pytest.raises(dp.ParameterError, match="a unit has one there at most"):
        found["people"].suggest_max_rows()
    with pytest.raises(dp.UnknownNameError):
        found["places"]


def test_it_is_one_charge(tmp_path: Path) -> None:
    with opened(tmp_path, catalog()) as session:
        session.profile(epsilon=6)
        assert set(session.releases.release) == {1} and len(session.releases) == 5


def test_it_is_stored_and_belongs_to_one_version_of_the_data(tmp_path: Path) -> None:
    with opened(tmp_path, catalog()) as session:
        first = session.profile(epsilon=1)
        assert str(session.profile(epsilon=1)) == str(first)
        assert session.remaining.epsilon == 8
    with opened(tmp_path, catalog(max_rows=20), analyst="ann") as session:  # with another bound, for another analyst
        again = session.profile(epsilon=1)
        assert again["orders"].ladder == first["orders"].ladder
        assert (again["orders"].max_rows, again.charge, again.data_version) == (
            20,
            dp.PrivacyLoss(),
            first.data_version,
        )
        assert session.profile(epsilon=1, fresh=True).charge.epsilon == 1
    ledger = dp.Ledger.open(tmp_path / "ledger")
    assert [one.name for one in stored_profiles(catalog(), ledger)] == ["people", "orders", "lines"]
    ledger.new_data_version(by="me", why="new data")
    assert stored_profiles(catalog(), ledger) == ()
    with opened(tmp_path, catalog()) as session:
        assert "no profile was bought" in session.sql("SELECT COUNT(*) AS n FROM orders", epsilon="0.1").notes[0]
        assert session.profile(epsilon=1).charge.epsilon == 1


def test_answers_say_what_is_left_out(tmp_path: Path, quiet: None) -> None:
    query = "SELECT COUNT(*) AS n FROM orders"
    with opened(tmp_path, catalog()) as session:
        before = session.sql(query, epsilon="1/2")
        assert before.notes == (
            "orders, max_rows 8: what it leaves out is unknown, as no profile was bought (dpquery profile)",
        )
        session.profile("orders", epsilon=4)
        after = session.sql(query, epsilon="1/2")
        sentence = session.profile("orders", epsilon=4)["orders"].sentence
        lost = math.floor(session.profile("orders", epsilon=4)["orders"].loss(8).lost)
        told = f"{sentence}; known bias above the noise: {lost} rows at least, where noise is ± 49"
        assert after.charge == dp.PrivacyLoss() and after.notes == (told,)
        true = sum(max(0, rows_of(person) - 8) for person in range(PEOPLE))
        assert 0.4 * true < lost <= true
        assert after.accuracy.attrs["notes"] == [told] and f"[{told}]" in str(after) and "300 ± " in told
        assert "full weight" in after._repr_html_() and "full weight" not in after.to_text()
        assert session.sql("SELECT COUNT(*) AS n FROM people", epsilon="1/2").notes == ()
        own = "SELECT COUNT(*) AS n FROM (SELECT person FROM orders GROUP BY person) AS t"
        assert session.sql(own, epsilon="1/2").notes == ()
        (other,) = session.sql(query, epsilon="1/2", max_rows=3).notes
        assert other == "orders: what the query's own max_rows 3 leaves out is unknown"
    with opened(tmp_path, catalog(), reuse=False) as session:
        told = "orders, max_rows 8: what it leaves out is unknown"
        assert session.sql(query, epsilon="1/2").notes == (told,)
        assert session.profile("orders", epsilon=1).charge.epsilon == 1, "nothing is stored"


def test_blocks_count_in_the_fullest_one_and_all_are_charged(tmp_path: Path, quiet: None) -> None:
    declared = catalog("replace_one", "blocks: {column: day, by: month}")
    with opened(tmp_path, declared) as session:
        found = session.profile("orders", epsilon=4)
        assert counted(found, "orders") == expected([-(-rows_of(person) // 12) for person in range(PEOPLE)])
        assert {loss.epsilon for loss in session.remaining_by_block.values()} == {5}
        assert "rows in the fullest month" in str(found) and "unit's fullest month" in found["orders"].sentence


def test_the_currencies_of_all_budgets(tmp_path: Path) -> None:
    asks: list[tuple[str, dict[str, Any]]] = [
        ("{rho: 1, delta: 1e-6}", {"rho": "0.5"}),
        ("{epsilon: 9, delta: 1e-6}", {"epsilon": 1}),
    ]
    for number, (budget, asked) in enumerate(asks):
        folder = tmp_path / str(number)
        folder.mkdir()
        declared = dp.Catalog.from_yaml(
            CATALOG.replace("NEIGHBOURS", "add_remove")
            .replace("BLOCKS", "")
            .replace("MAX_ROWS", "8")
            .replace("BUDGET", budget)
            .replace('defaults: {epsilon: "1/2"}', "")
        )
        with opened(folder, declared) as session:
            found = session.profile(**asked)
            assert session.profile(**asked).charge == dp.PrivacyLoss()
            assert 200 <= found["orders"].estimated_units.upper <= 600
            assert found["orders"].suggest_max_rows(rho="0.05") >= 1
            tenth: dict[str, Any] = {part: f"{float(declared.budget.__getattribute__(part)) / 10}" for part in asked}
            assert found["orders"].suggest_max_rows() == found["orders"].suggest_max_rows(**tenth)
            assert "a tenth of the budget" in found["orders"].rule
            assert "full weight" in session.sql("SELECT COUNT(*) AS n FROM orders", **asked).notes[0]


def test_suggested_bounds_use_it(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog()) as session:
        profile = session.profile("orders", epsilon=4)
        suggested = session.suggest_bounds(["orders.paid"], epsilon=2)
        assert suggested.max_rows == {"orders": profile["orders"].suggest_max_rows()}
        assert "max_rows of orders: of the profile" in str(suggested)
        assert dp.Catalog.from_yaml(str(suggested)).tables["orders"].max_rows == suggested.max_rows["orders"]


def test_what_cannot_be_profiled_is_told(tmp_path: Path) -> None:
    text = CATALOG.replace("NEIGHBOURS", "add_remove").replace("BLOCKS", "").replace("MAX_ROWS", "8")
    text = text.replace("BUDGET", "{epsilon: 9}").replace("      order: {type: int64}\n", "")
    with opened(tmp_path, dp.Catalog.from_yaml(text)) as session:
        with pytest.raises(dp.UnsupportedQueryError, match=r"orders\.order identifies the owner"):
            session.profile("lines", epsilon=1)
        for unknown in ("places", "nothing"):
            with pytest.raises(dp.UnknownNameError, match="not a declared private table"):
                session.profile(unknown, epsilon=1)
        with pytest.raises(dp.InvalidLossError):
            session.profile(epsilon=0)
        with pytest.raises(dp.InsufficientBudgetError):
            session.profile(epsilon=10)
        assert session.remaining.epsilon == 9
        found = session.profile(epsilon=1)
        assert list(found.missing) == ["lines"] and "Table lines: no profile. orders.order identifies the owner" in str(
            found
        )
        assert "<pre>" in found._repr_html_() and "<pre>" in found["orders"]._repr_html_() and len(found) == 2


def test_rows_by_themselves_have_values_alone(tmp_path: Path, quiet: None) -> None:
    columns = {'a "b"': {"type": "decimal(5,2)", "lower": Decimal("-1.5"), "upper": 10}}
    declared = dp.Catalog(dataset="d", privacy_unit="row", budget={"epsilon": 9}, tables={"my t": {"columns": columns}})
    frame = pd.DataFrame({'a "b"': [-2, 0, 11, 5, None]})
    with dp.connect(declared, {"my t": frame}, ledger=dp.create_ledger(declared, tmp_path / "l")) as session:
        found = session.profile(epsilon=5)
        units = {name: number.value for name, number in found["my t"].outside['a "b"'].items()}
        assert units == {"within": 2, "below": 1, "above": 1, "unreadable": 1} and found["my t"].rows is None
        assert session.sql('SELECT COUNT(*) AS n FROM "my t"', epsilon=1).notes == ()


def test_where_nothing_is_to_be_measured(tmp_path: Path) -> None:
    columns = {"a": {"type": "int64"}}
    declared = dp.Catalog(dataset="d", privacy_unit="row", budget={"epsilon": 9}, tables={"t": {"columns": columns}})
    frame, ledger = pd.DataFrame({"a": [1]}), dp.create_ledger(declared, tmp_path / "l")
    with (
        dp.connect(declared, {"t": frame}, ledger=ledger) as session,
        pytest.raises(dp.ParameterError, match="nothing to profile"),
    ):
        session.profile(epsilon=1)


@pytest.mark.slow
def test_many_columns_fit_into_one_profile(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(80)]
    columns = {"id": {"type": "int64"}, **{name: {"type": "int64", "lower": 0, "upper": 9} for name in names}}
    tables = {"t": {"unit": "id", "max_rows": 1, "columns": columns}}
    declared = dp.Catalog(dataset="d", privacy_unit="person", budget={"epsilon": 9}, tables=tables)
    frame = pd.DataFrame({"id": range(50), **dict.fromkeys(names, 3)})
    with dp.connect(declared, {"t": frame}, ledger=dp.create_ledger(declared, tmp_path / "l")) as session:
        assert len(session.profile(epsilon=5)["t"].outside) == 80


def test_a_profile_that_cannot_be_planned_stops_no_query(tmp_path: Path) -> None:
    """Its query exceeds the work that is allowed; so nobody can have bought it."""
    columns = {"id": {"type": "int64"}}
    tables = {"t": {"unit": "id", "max_rows": 8, "columns": columns}}
    declared = dp.Catalog(dataset="d", privacy_unit="person", budget={"epsilon": 9}, tables=tables, work=25)
    ledger = dp.create_ledger(declared, tmp_path / "l")
    with dp.connect(declared, {"t": pd.DataFrame({"id": [1, 2]})}, ledger=ledger) as session:
        with pytest.raises(dp.UnsupportedQueryError):
            session.profile(epsilon=1)
        assert "no profile was bought" in session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).notes[0]


LEFT_OUT = "orders, max_rows 8: what it leaves out is unknown, as no profile was bought (dpquery profile)"
AT_MOST_4 = "each person counts in at most 4 groups (max_groups): what that leaves out is unknown"
NOTED = {
    "SELECT AVG(n) AS mean FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) AS t": (LEFT_OUT,),
    "SELECT SUM(s) AS total FROM (SELECT person, SUM(paid) AS s FROM orders GROUP BY person) AS t": (LEFT_OUT,),
    "SELECT AVG(CLAMP(n, 0, 50)) AS mean FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) AS t": (),
    "SELECT AVG(top) AS mean FROM (SELECT person, MAX(paid) AS top FROM orders GROUP BY person) AS t": (),
    "SELECT COUNT(DISTINCT person) AS n FROM orders WHERE paid > 5": (),
    "SELECT paid > 5 AS much, COUNT(DISTINCT person) AS n FROM orders GROUP BY 1": (),
    "SELECT day, COUNT(DISTINCT person) AS n FROM orders GROUP BY day": (),
    "SELECT ROUND(paid) AS p, COUNT(DISTINCT person) AS n FROM (SELECT * FROM orders) AS o GROUP BY 1": (),
}


@pytest.mark.parametrize("query", NOTED)
def test_what_an_answer_leaves_out_is_said_for_each_reason(tmp_path: Path, query: str) -> None:
    with opened(tmp_path, catalog(budget="{epsilon: 9, delta: 1e-6}")) as session:
        assert session.sql(query, epsilon=1).notes == NOTED[query]


def test_groups_in_which_a_unit_counts_are_said_where_they_are_shown(tmp_path: Path) -> None:
    with opened(tmp_path, catalog(budget="{epsilon: 9, delta: 1e-6}")) as session:
        people = 'SELECT "order" AS o, COUNT(DISTINCT person) AS n FROM orders GROUP BY 1'
        rows = 'SELECT "order" AS o, COUNT(*) AS n FROM orders GROUP BY 1'
        assert session.sql(people, epsilon="0.2").notes[0] == AT_MOST_4
        assert session.sql(people, epsilon="0.2", max_groups=2).notes[0] == AT_MOST_4.replace("4", "2")
        assert session.sql(rows, epsilon="0.2").notes[0] == LEFT_OUT
        assert AT_MOST_4 not in session.sql(rows, epsilon="0.2").notes
        by_day = "SELECT day, COUNT(DISTINCT person) AS n FROM orders GROUP BY day"
        assert session.sql(by_day, epsilon="0.2", max_groups=8).notes == (AT_MOST_4.replace("4", "8"),)


MONTHS = "SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM orders GROUP BY 1"


def test_explain_says_what_is_known(tmp_path: Path, quiet: None) -> None:
    query = "SELECT COUNT(*) AS n, SUM(paid) AS s FROM orders"
    with opened(tmp_path, catalog()) as session:
        before = session.explain(query)
        assert "is unknown" in before.notes[0] and "Left out" not in str(before), "the text has what is known"
        profile = session.profile("orders", epsilon=4)
        plan, answer = session.explain(query), session.sql(query)
        assert plan.notes == answer.notes and len(plan.notes) == 2
        assert plan.notes[0].startswith(profile["orders"].sentence)
        assert [f"Left out: {note}" for note in plan.notes] == str(plan).split("\n")[-2:]
        assert plan.notes == session.sql(query, fresh=True).notes, "a fresh answer reads the stored profile"


def test_values_beyond_bounds_are_said_where_they_are_added_up(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog()) as session:
        profile = session.profile(epsilon=4)
        (rows, values) = session.sql("SELECT AVG(paid) AS m FROM orders").notes
        assert rows.startswith("orders, max_rows 8: ") and values in profile["orders"].said
        below, above, both, unreadable = re.sub(r"\d+ units$", "N units", re.sub("± .*? u", "± N u", values)).split(
            "; "
        )
        assert below == "orders.paid: 30 ± N units have values below its bounds"
        assert above == "20 ± N units have values above its bounds"
        assert both == "10 ± N units have values on both sides of them" and unreadable == "unreadable: at most N units"
        assert len(session.sql("SELECT COUNT(*) AS n FROM orders WHERE paid > 5").notes) == 1, "nothing is clamped"
        of_people = "SELECT SUM(s) AS s FROM (SELECT person, CLAMP(SUM(paid), 0, 900) AS s FROM orders GROUP BY 1) AS t"
        assert session.sql(of_people).notes == (values,), "each person is one row there"
        (age,) = session.sql("SELECT AVG(age) AS a FROM people").notes
        assert (
            age.startswith("people.age: 200 ± ") and "units have values above its bounds; below, both: at most" in age
        )
    with opened(tmp_path, catalog(), reuse=False) as session:
        assert len(session.sql("SELECT AVG(paid) AS m FROM orders").notes) == 1
        session.profile(epsilon="1.5")
        assert len(session.sql("SELECT AVG(paid) AS m FROM orders").notes) == 2, "as it was bought here"


def test_a_session_finds_what_another_one_bought_after_it_has_looked(tmp_path: Path, quiet: None) -> None:
    query = "SELECT AVG(paid) AS m FROM orders"
    with opened(tmp_path, catalog()) as session, opened(tmp_path, catalog()) as other:
        assert len(session.sql(query).notes) == 1, "no answer that is stored holds the cell of a profile"
        other.profile(epsilon=4)
        assert session.explain(query).notes == other.explain(query).notes and len(session.explain(query).notes) == 2


def test_bias_is_marked_only_where_it_is_above_the_noise(tmp_path: Path, quiet: None) -> None:
    with opened(tmp_path, catalog()) as session:
        session.profile("orders", epsilon=4)
        lost = session.profile("orders", epsilon=4)["orders"].loss().lost
        over = f"known bias above the noise: {math.floor(lost)} rows at least over 12 groups, where noise is ± "
        for epsilon, expected in ((1, over), ("0.25", None)):
            (made,) = session.explain(MONTHS, epsilon=epsilon, fresh=True).measurements
            (note,) = session.explain(MONTHS, epsilon=epsilon, fresh=True).notes
            assert (lost > 12 * made.error95) is (expected is not None)
            assert (expected in note) if expected else ("above the noise" not in note)
        (own,) = session.explain(MONTHS, epsilon=1, max_rows=2).notes
        assert "is unknown" in own


def test_errors_that_bias_makes_unreachable_are_refused(tmp_path: Path, quiet: None) -> None:
    total = "SELECT COUNT(*) AS n, SUM(paid) AS s FROM orders"
    with opened(tmp_path, catalog()) as session:
        before = session.explain("SELECT COUNT(*) AS n FROM orders", error=500).charge
        session.profile("orders", epsilon=4)
        left = session.remaining
        lost = session.profile("orders", epsilon=4)["orders"].loss().lost
        for ask in (session.sql, session.explain):
            with pytest.raises(dp.UnsupportedQueryError, match="n cannot come within 500: by its profile orders has"):
                ask("SELECT COUNT(*) AS n FROM orders", error=500)
        with pytest.raises(dp.UnsupportedQueryError, match="on average"):
            session.explain(MONTHS, error={"n": lost / 12 - 1})
        for beside in (total, "SELECT COUNT(*) AS n, AVG(paid) AS m FROM orders"):  # of a vector, too
            with pytest.raises(dp.UnsupportedQueryError, match="n cannot come within 500"):
                session.explain(beside, error={"n": 500})
        assert session.remaining == left and before.epsilon
        assert session.explain(MONTHS, error=lost / 12 + 1).charge.epsilon
        assert session.explain(total, error={"s": 500}).charge.epsilon, "each row may add 0"
        more = "SELECT SUM(paid + 5) AS s, AVG(paid) AS m FROM orders"
        with pytest.raises(dp.UnsupportedQueryError, match=r"s cannot come within .*; each adds 5 at least"):
            session.explain(more, error={"s": 5 * lost - 1})
        assert session.explain(more, error={"s": 5 * lost + 1}).charge.epsilon
        some = "SELECT COUNT(*) AS n FROM orders WHERE paid > 5"
        assert session.explain(some, error=500).charge.epsilon, "of some rows it is not known"
        assert session.explain("SELECT COUNT(*) AS n FROM orders", error=500, max_rows=40).charge.epsilon
        assert session.explain("SELECT COUNT(DISTINCT person) AS n FROM orders", error=5).charge.epsilon
