"""Statements to answers: what is charged, what a notice says, what is described, what is refused and how."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pytest

import dpquery as dp
from dpquery.data.arrow import arrow_type
from dpquery.frontends.postgres.engine.engine import bounded
from dpquery.frontends.postgres.engine.settings import Caps, options_of
from dpquery.frontends.postgres.wire.answers import Answerer, DataChanged, Field, Refusal, StatementRequest
from dpquery.frontends.postgres.wire.oids import field_of, oid_of
from dpquery.plan.types import BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP
from tests.cases.catalogs import HERE
from tests.scripted import zero_noise
from tests.server.orders import Study, catalog

PLAIN_TYPES = {oid_of(type): type for type in (BOOLEAN, DATE, FLOAT64, INT64, TEXT, TIMESTAMP)}
BY_REGION = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"


def refused(study: Study, text: str, *parameters: object) -> Refusal:
    """Returns the refusal of a statement; nothing is charged for it, and it can be sent to another process."""
    before = study.entries
    with pytest.raises(Refusal) as raised:
        study.answer(text, *parameters)
    assert study.entries == before
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.sqlstate, again.message, again.position) == raised.value.args[:2] + raised.value.args[4:]
    return raised.value


def test_the_engine_is_an_answerer(study: Study) -> None:
    answerer: Answerer = study.engine
    assert answerer.describe("SELECT 1", (), "alice", {}).fields == (Field(name="?column?", oid=23),)


def test_a_charged_query_says_what_it_cost_and_what_is_left(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    before = study.entries
    answered = study.answer(BY_REGION)
    assert study.entries == before + 1
    assert answered.fields == (Field(name="region", oid=25), Field(name="n", oid=20))
    assert answered.table.to_pylist()[0] == {"region": "east", "n": 60}
    notice, *known = answered.notices
    assert known == ["orders, max_rows 60: what it leaves out is unknown, as no profile was bought (dpquery profile)"]
    assert notice.startswith("charged epsilon 1; remaining: epsilon 4999")


def test_a_charge_in_rho_is_also_said_in_the_epsilon_that_was_asked() -> None:
    text = (HERE / "orders.yaml").read_text(encoding="utf-8")
    study = Study(dp.Catalog.from_yaml(text.replace("{epsilon: 1000000}", "{epsilon: 5000, delta: 1e-3}")))
    by_default, in_rho = study.answer(BY_REGION), study.answer(BY_REGION, settings={"dpquery.rho": "0.7"})
    study.close()
    assert by_default.notices[0].startswith("charged rho 0.5 (asked as epsilon 1); remaining: delta 0.0005, rho ")
    assert in_rho.notices[0].startswith("charged rho 0.7; ")


def test_what_bounds_leave_out_takes_a_bounded_number_of_lines() -> None:
    assert bounded(()) == () and bounded(("a", "b")) == ("a", "b")
    long = bounded(tuple(str(n) * 10_000 for n in range(9)))
    assert [note[0] for note in long] == ["0", "1", "2"] and {len(note) for note in long} == {403}


def test_the_same_again_is_free_and_the_same(study: Study) -> None:
    asked = "SELECT is_new, SUM(qty) AS s FROM orders WHERE price > 3 GROUP BY is_new"
    first, before = study.answer(asked), study.entries
    again = study.answer(asked)
    assert again.table.equals(first.table)
    assert study.entries == before
    assert again.notices[0].startswith("no charge: it follows from what was answered before; remaining: ")


def test_an_engine_over_old_data_refuses_before_it_charges() -> None:
    """OUT-20: after the owner's word it neither measures the old rows nor gives what was stored of them."""
    study, count = Study(), "SELECT COUNT(*) AS n FROM orders"
    study.answer(count)
    study.ledger.new_data_version(by="owner", why="other rows")
    for text in (count, "SELECT SUM(qty) AS s FROM orders"):
        refusal = refused(study, text)
        assert isinstance(refusal, DataChanged) and refusal.message == "the data have changed; nothing was charged"
    with pytest.raises(DataChanged):
        study.engine.explain(StatementRequest(text=count, parameters=(), analyst="alice", settings={}))
    assert study.rows("SELECT 1") == [(1,)]
    study.close()


def test_settings_are_options_of_the_query(study: Study) -> None:
    asked = "SELECT region, SUM(qty) AS s FROM orders WHERE is_new GROUP BY region"
    answered = study.answer(asked, settings={"dpquery.epsilon": "0.25", "timezone": "UTC"})
    assert answered.notices[0].startswith("charged epsilon 0.25;")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dpquery.epsilon", "1000"),
        ("dpquery.epsilon", "-1"),
        ("dpquery.epsilon", "nan"),
        ("dpquery.epsilon", "1; DROP"),
        ("dpquery.max_groups", "0"),
        ("dpquery.max_groups", "100"),
        ("dpquery.max_rows", "1.5"),
        ("dpquery.delta", "x"),
    ],
)
def test_settings_are_checked_and_held_below_the_caps(name: str, value: str) -> None:
    from fractions import Fraction

    caps = Caps(epsilon=Fraction(2), max_groups=50)
    with pytest.raises(Refusal) as raised:
        options_of({name: value}, caps)
    assert raised.value.sqlstate == "22023"


def test_settings_of_others_pass_and_defaults_are_none() -> None:
    assert options_of({"search_path": "public", "dpquery.epsilon": "default", "dpquery.rho": ""}, Caps()) == {}
    assert options_of({"dpquery.max_rows": "7", "dpquery.epsilon": "1/2"}, Caps()) == {"max_rows": 7, "epsilon": "1/2"}
    with pytest.raises(Refusal):
        options_of({"dpquery.rho": "1", "dpquery.epsilon": "1"}, Caps())


def test_budgets_belong_to_analysts(study: Study) -> None:
    asked = "SELECT region, COUNT(*) FROM orders WHERE qty > {} GROUP BY region"
    study.answer(asked.format(1), analyst="bob")
    study.answer(asked.format(2), analyst="bob", settings={"dpquery.epsilon": "1"})
    with pytest.raises(Refusal) as raised:
        study.answer(asked.format(3), analyst="bob", settings={"dpquery.max_groups": "3"})
    assert raised.value.sqlstate == "53400"
    with pytest.raises(Refusal) as raised:
        study.answer(BY_REGION, analyst="mallory")
    assert raised.value.sqlstate == "28000"
    assert "bob" not in str(raised.value) and "alice" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sqlstate", "words"),
    [
        ("SELEC 1", "42601", ""),
        ("SELECT 1; SELECT 2", "42601", ""),
        ("", "42601", ""),
        ("SELECT nothing FROM orders", "42703", "nothing"),
        ("SELECT COUNT(*) FROM nowhere", "42P01", "nowhere"),
        ("SELECT COUNT(*) FROM pg_catalog.pg_nothing", "42P01", ""),
        ("SELECT COUNT(*) FROM orders WHERE nofun(qty) = 1", "42883", "nofun(qty)"),
        ("SELECT region, qty, COUNT(*) FROM orders GROUP BY region", "42803", "qty"),
        (
            "SELECT COUNT(*) FROM orders AS a JOIN regions AS b ON a.region = b.name GROUP BY name, missing",
            "42703",
            "missing",
        ),
        ("SELECT SUM(order_id) FROM orders", "0A000", "order_id"),
        ("SELECT note, COUNT(*) FROM orders GROUP BY note", "22023", "note"),
        ("SELECT * FROM orders", "42501", "SELECT"),
        ("SELECT order_id, region FROM public.orders LIMIT 100", "42501", "SELECT"),
        ('SELECT "public"."orders"."region" FROM "public"."orders" LIMIT 10000', "42501", "SELECT"),
        ("SELECT * FROM (SELECT * FROM orders LIMIT 100) AS x ORDER BY 1", "42501", "SELECT"),
        ("SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id", "42501", "SELECT"),
        ("INSERT INTO orders VALUES (1)", "42501", "INSERT"),
        ("DROP TABLE orders", "42501", "DROP"),
        ('CREATE LOCAL TEMPORARY TABLE "#Tableau_1_Connect" (x INT)', "42501", "CREATE"),
        ("SELECT 1 INTO orders2", "42501", "SELECT"),
        ("WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x", "42501", "WITH"),
        ("SELECT COUNT(*) FROM orders, pg_class", "0A000", "pg_class"),
        ("SELECT COUNT(*) FROM orders WHERE region IN (SELECT typname FROM pg_catalog.pg_type)", "0A000", ""),
    ],
)
def test_refusals_have_codes_and_places(study: Study, text: str, sqlstate: str, words: str) -> None:
    error = refused(study, text)
    assert error.sqlstate == sqlstate, error
    if words:
        assert error.position is not None
        assert text[error.position - 1 :].startswith(words) or words in text[error.position - 1 :][: len(words) + 12]


def test_row_level_requests_can_be_answered_empty() -> None:
    study = Study(row_level="empty")
    for text in (
        "SELECT * FROM orders LIMIT 200",
        'select "$Table"."order_id" as "order_id" from "public"."orders" "$Table" limit 1000',
        'SELECT SUBSTRING(CAST("public"."orders"."region" AS TEXT), 1, 1234) AS r FROM "public"."orders" LIMIT 10000',
        "SELECT note FROM orders WHERE note IS NULL LIMIT 1",
    ):
        answered = study.answer(text)
        assert answered.table.num_rows == 0
        assert answered.fields == study.engine.describe(text, (), "alice", {}).fields
        assert "not shown" in answered.notices[0]
    assert study.entries == 0
    study.close()


def test_row_level_requests_are_answered_with_synthetic_rows_where_there_are_some() -> None:
    study = Study(row_level="synopsis")
    text = 'select "public"."orders"."region", "$T"."qty" from "public"."orders" as "$T" limit 7'.replace(
        '"public"."orders"."region"', '"$T"."region"'
    )
    with pytest.raises(Refusal):
        study.answer(text)  # there is no synopsis yet
    session = study.engine._session("alice")
    session.synopsis("orders", ["region", "is_new"], epsilon="1000", rows=40)
    before = study.entries
    for asked, rows in (
        (text, 7),
        ("SELECT * FROM orders LIMIT 5", 5),
        ('SELECT SUBSTRING("public"."orders"."region", 1, 1234) AS r FROM "public"."orders" ORDER BY 1 LIMIT 9', 9),
        ("SELECT note FROM orders WHERE qty IS NOT NULL LIMIT 1", 0),
    ):
        answered = study.answer(asked)
        assert answered.table.num_rows == rows
        assert answered.fields == study.engine.describe(asked, (), "alice", {}).fields
        assert "synthetic" in answered.notices[0] and answered.notices[0].startswith("no charge")
    assert study.rows("SELECT COUNT(*) FROM synopsis.orders") == [(40,)]
    assert study.rows("SELECT MIN(qty) FROM synopsis.orders") == [(None,)]  # not the declared bound
    assert study.entries == before
    study.close()


def test_a_sum_of_integers_is_numeric(study: Study) -> None:
    """B9: as in PostgreSQL, so that a share of a total has a fraction."""
    described = study.engine.describe("SELECT SUM(qty), COUNT(*) FROM orders", (), "alice", {})
    assert [field.oid for field in described.fields] == [1700, 20]
    share = "SELECT COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region"
    assert [field.oid for field in study.engine.describe(share, (), "alice", {}).fields] == [701]


def test_parameters_get_types_from_what_they_stand_beside(study: Study) -> None:
    text = (
        "SELECT region, SUM(amount) FROM public.orders AS o WHERE o.ordered_on >= $1 AND qty = "
        "ANY($2) AND region LIKE $3 "
        "AND created_at < $4 AND amount BETWEEN $5 AND $6 AND is_new = $7 AND CAST($8 AS bigint) > "
        "qty AND price + $9 > 1 "
        "GROUP BY 1 HAVING COUNT(*) > $10 LIMIT $11 OFFSET $12"
    )
    described = study.engine.describe(text, (), "alice", {})
    assert described.parameters == (1082, 1016, 25, 1114, 1700, 1700, 16, 20, 701, 20, 20, 20)
    assert [field.oid for field in described.fields] == [25, 1700]
    given = study.engine.describe("SELECT COUNT(*) FROM orders WHERE qty > $1", (23,), "alice", {})
    assert given.parameters == (23,)
    over_catalogs = "SELECT relname FROM pg_class WHERE oid = $1 AND relname = $2"
    assert study.engine.describe(over_catalogs, (), "alice", {}).parameters == (26, 19)
    listed = "SELECT oid FROM pg_type WHERE oid = any($1::oid[]) AND typlen = any($2::int[])"
    assert study.engine.describe(listed, (), "alice", {}).parameters == (1028, 1007)
    for type, oid in (("text[]", 1009), ("varchar[]", 1015), ("name[]", 1003)):
        cast = f"SELECT COUNT(*) FROM orders WHERE region = ANY($1::{type})"
        assert study.engine.describe(cast, (), "alice", {}).parameters == (oid,)
    written = "SELECT quote_literal($1::pg_catalog.float8::text)"
    assert study.engine.describe(written, (), "alice", {}).parameters == (701,)
    renamed = 'SELECT "_"."n" FROM (SELECT region AS r, COUNT(*) AS n FROM orders GROUP BY 1) "_" WHERE "_"."n" > $1'
    assert study.engine.describe(renamed, (), "alice", {}).parameters == (20,)


def test_values_of_parameters_are_values(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    zero_noise(monkeypatch)
    text = "SELECT COUNT(*) FROM orders WHERE region = ANY($1) AND qty > $2 AND amount < $3"
    assert study.rows(text, ["east", "west"], 0, Decimal("900.5")) == study.rows(
        "SELECT COUNT(*) FROM orders WHERE region IN ('east', 'west') AND qty > 0 AND amount < 900.5"
    )
    hostile = "x' OR '1'='1"
    assert study.rows("SELECT COUNT(*) FROM orders WHERE region = $1", hostile) == [(0,)]
    assert study.rows("SELECT $1::text AS a, $2::int AS b", hostile, 3) == [(hostile, 3)]
    assert refused(study, "SELECT COUNT(*) FROM orders WHERE region = $1").sqlstate == "22023"
    assert refused(study, "SELECT COUNT(*) FROM orders WHERE region = $1", b"x").sqlstate == "22023"


def test_the_types_of_an_answer_are_those_described(study: Study) -> None:
    for text in (
        "SELECT COUNT(*), SUM(qty), SUM(amount), AVG(price), MAX(ordered_on), COUNT(DISTINCT customer_id) FROM orders",
        "SELECT is_new, ordered_on >= DATE '2023-06-01' AS late, SUM(amount) / 2 AS half FROM orders GROUP BY 1, 2",
        'SELECT COUNT(*) AS Total, COUNT(*) AS "Total", Region FROM Orders GROUP BY Region',
        "SELECT * FROM regions",
    ):
        answered = study.answer(text)
        assert study.engine.describe(text, (), "alice", {}).fields == answered.fields
        for field, column in zip(answered.fields, answered.table.columns, strict=True):
            assert field.oid == 1700 or column.type == arrow_type(PLAIN_TYPES[field.oid])
    assert [
        field.name
        for field in study.engine.describe(
            'SELECT COUNT(*) AS Total, COUNT(*) AS "Total", Region FROM Orders GROUP BY Region', (), "alice", {}
        ).fields
    ] == ["total", "Total", "region"]


def test_decimals_carry_their_digits() -> None:
    amount = catalog().tables["orders"].columns["amount"].type
    assert field_of("amount", amount).typmod == (10 << 16 | 2) + 4
    assert field_of("amount", amount, is_exact=False).typmod == -1


def test_explain_is_free_and_tells_the_price(study: Study) -> None:
    before = study.entries
    for text, words in (
        ("SELECT is_new, COUNT(*) FROM orders WHERE qty < 9 GROUP BY is_new", "Charge: epsilon 1"),
        ("SELECT DISTINCT region FROM orders", "Charge: nothing"),
        ("SELECT * FROM orders LIMIT 0", "Charge: nothing"),
        ("SELECT 1", "Charge: nothing"),
    ):
        explained = study.engine.explain(StatementRequest(text=text, analyst="alice", settings={}))
        assert words in explained.table["QUERY PLAN"].to_pylist()
    assert study.entries == before


def test_virtual_tables_show_the_own_account_alone() -> None:
    study = Study()
    study.answer(BY_REGION, analyst="bob")
    assert study.answer("SELECT * FROM dp.releases", analyst="alice").table.num_rows == 0
    (mine,) = study.answer("SELECT number, epsilon, query FROM dp.releases", analyst="bob").table.to_pylist()
    assert mine == {"number": 1, "epsilon": 1.0, "query": BY_REGION}
    (budget,) = study.answer("SELECT * FROM dp.budget", analyst="bob").table.to_pylist()
    assert budget == {"currency": "epsilon", "budget": 2.0, "spent": 1.0, "remaining": 1.0}
    bounds = study.answer("SELECT lower, upper, public_keys FROM dp.columns WHERE column_name = 'qty'").table
    assert bounds.to_pylist() == [{"lower": "0", "upper": "20", "public_keys": None}]
    study.close()
