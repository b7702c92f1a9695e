"""The analyst's page: who gets in, which forms are taken, what is shown, and that nothing in it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from dpquery.frontends.page import logins as visits_module
from dpquery.frontends.page.app import COOKIE, application
from dpquery.frontends.page.chart import MOST_BARS, charts
from dpquery.frontends.page.logins import IDLE, MOST_OF_ONE, Visits
from dpquery.frontends.page.server_client import Answer, AnswerColumn, ServerAddress, ServerRefusal, _columns

PLACE = ServerAddress(host="127.0.0.1", port=1, database="shop")
HOSTILE = "SELECT '<script>alert(1)</script>' AS \"x\" {{ 7 * 191 }}"
NAN = float("nan")


class Stated(psycopg.Error):
    """An error with what a server says."""

    class Said:
        message_primary, message_hint, statement_position, sqlstate = "no <b>table</b>", "Did you mean?", "8", "42P01"

    diag = Said()  # type: ignore[assignment]


@dataclass
class Scripted:
    """A connection that notes what it is asked."""

    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    closed: bool = False
    error: Exception | None = None

    def price(self, text: str, loss: Any) -> tuple[str, ...]:
        self.asked.append(("price", text, loss))
        if self.error:
            raise self.error
        return ("Charge: epsilon 0.5", "<i>")

    def ask(self, text: str, loss: Any) -> Answer:
        self.asked.append(("ask", text, loss))
        region = AnswerColumn(name="region", cells=("<east>", "west"), values=("<east>", "west"))
        n = AnswerColumn(name="n", cells=("5 ± 1", "NULL"), values=(5, None), lows=(4.0, NAN), highs=(6.0, NAN))
        return Answer(columns=(region, n), notices=("charged <epsilon>",), is_cut=False)

    def budget(self) -> list[dict[str, Any]]:
        if self.error:
            raise self.error
        return [{"currency": "epsilon", "budget": 2.0, "spent": 0.5, "remaining": 1.5}]

    def declared(self) -> dict[str, list[dict[str, Any]]]:
        column = {"column_name": "<c>", "type": "int64", "lower": "0", "upper": "9", "public_keys": None}
        return {"visits": [column]}

    def history(self) -> list[dict[str, Any]]:
        return [{"time": "2026-01-02T03:04:05", "epsilon": 0.5, "rho": 0.0, "query": HOSTILE}]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def asker() -> Scripted:
    return Scripted()


@pytest.fixture
def browser(asker: Scripted) -> Iterator[TestClient]:
    def login(user: str, password: str) -> Any:
        if password != "right":
            raise ServerRefusal(Stated())
        return asker

    with TestClient(application(PLACE, ("page.test",), login=login), base_url="http://page.test") as made:
        made.headers["Origin"] = "http://page.test"
        yield made


def word_of(text: str) -> str:
    found = re.search(r'name="form" value="([^"]+)"', text)
    assert found
    return found[1]


def entered(browser: TestClient) -> str:
    """Logs in, and returns the word of the visit's forms."""
    shown = browser.post("/login", data={"user": "alice", "password": "right"})
    assert shown.status_code == 200
    return word_of(shown.text)


def test_without_a_login_nothing_but_the_form_is_shown(browser: TestClient, asker: Scripted) -> None:
    shown = browser.get("/")
    assert "password" in shown.text and "visits" not in shown.text
    assert browser.post("/ask", data={"sql": "SELECT 1", "do": "ask"}).status_code == 401
    refused = browser.post("/login", data={"user": "alice", "password": "wrong"})
    assert refused.status_code == 401 and COOKIE not in refused.cookies and "&lt;b&gt;" in refused.text
    assert not asker.asked


def test_a_price_and_then_an_answer(browser: TestClient, asker: Scripted) -> None:
    form = {"form": entered(browser), "sql": " SELECT 1; ", "amount": "0.5", "currency": "epsilon"}
    priced = browser.post("/ask", data={**form, "do": "price"})
    assert (
        "Nothing was charged" in priced.text
        and "<p>Charge: epsilon 0.5</p>" in priced.text
        and 'id="answer"' not in priced.text
    )
    answered = browser.post("/ask", data={**form, "do": "ask", "amount": ""})
    assert "5 ± 1" in answered.text and "<svg" in answered.text and "charged &lt;epsilon&gt;" in answered.text
    assert asker.asked == [("price", "SELECT 1", ("epsilon", "0.5")), ("ask", "SELECT 1", None)]


def test_what_is_shown_is_escaped_and_nothing_runs(browser: TestClient) -> None:
    shown = browser.post("/ask", data={"form": entered(browser), "sql": HOSTILE, "do": "ask"})
    assert "<script" not in shown.text and "1337" not in shown.text and "<east>" not in shown.text
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy and "form-action 'self'" in policy
    assert shown.headers["cache-control"] == "no-store"
    assert not re.search(r"(src|href)=", shown.text)


def test_a_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: TestClient) -> None:
    said = browser.post("/login", data={"user": "alice", "password": "right"}, follow_redirects=False)
    cookie = said.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie


@pytest.mark.parametrize("origin", ["http://elsewhere.test", "null", "", "http://page.test.evil"])
def test_forms_of_other_sites_are_refused(browser: TestClient, asker: Scripted, origin: str) -> None:
    form = {"form": entered(browser), "sql": "SELECT 1", "do": "ask"}
    browser.headers["Origin"] = origin
    assert browser.post("/ask", data=form).status_code == 403
    assert browser.post("/login", data={"user": "alice", "password": "right"}).status_code == 403
    assert not asker.asked


@pytest.mark.parametrize("word", ["", "x", "ünsinn"])
def test_forms_without_the_word_of_the_visit_are_refused(browser: TestClient, asker: Scripted, word: str) -> None:
    entered(browser)
    assert browser.post("/ask", data={"form": word, "sql": "SELECT 1", "do": "ask"}).status_code == 403
    assert browser.post("/ask", data={"sql": "SELECT 1", "do": "ask"}).status_code == 403
    browser.post("/logout", data={"form": word})
    assert not asker.asked and not asker.closed


def test_names_of_other_hosts_and_long_forms_are_refused(browser: TestClient, asker: Scripted) -> None:
    form = {"form": entered(browser), "sql": "x" * 200_000, "do": "ask"}
    assert browser.post("/ask", data=form).status_code == 403
    assert browser.get("/", headers={"Host": "rebound.test"}).status_code == 400
    assert browser.post("/ask", content=b"\xff=1").status_code == 403
    assert browser.post("/ask", data={str(n): "1" for n in range(11)}).status_code == 403
    assert not asker.asked


def test_a_refusal_marks_its_place_and_a_lost_connection_ends_the_visit(browser: TestClient, asker: Scripted) -> None:
    word = entered(browser)
    asker.error = ServerRefusal(Stated())
    shown = browser.post("/ask", data={"form": word, "sql": "SELECT foo FROM t", "do": "price"})
    assert "no &lt;b&gt;table" in shown.text and asker.closed
    assert "password" in browser.get("/").text


def test_logging_out_ends_the_connection(browser: TestClient, asker: Scripted) -> None:
    assert "password" in browser.post("/logout", data={"form": entered(browser)}).text
    assert asker.closed


def test_visits_end_by_themselves_and_one_user_has_few() -> None:
    now = [0.0]
    visits = Visits(lambda: now[0])
    askers = [Scripted() for _ in range(MOST_OF_ONE + 1)]
    words = [visits.begin("alice", asker) for asker in askers]  # type: ignore[arg-type]
    assert len(set(words)) == len(words) and visits.of(words[0]) is None and askers[0].closed
    for _ in range(3):
        now[0] += IDLE - 1
        assert visits.of(words[-1]) is not None
    assert visits.of(words[1]) is None and askers[1].closed
    now[0] += visits_module.LONGEST
    assert visits.of(words[-1]) is None and visits.of(None) is None


def test_columns_are_told_from_the_ends_of_their_intervals() -> None:
    names = ["k", "n", "n_low", "n_high", "n", "n_low_2", "n_high_2", "x_low"]
    found = _columns(names, [("a", 5, 4.0, 6.0, None, None, None, 1.5)])
    assert [(column.name, column.cells, column.lows is not None) for column in found] == [
        ("k", ("a",), False),
        ("n", ("5 ± 1",), True),
        ("n", ("NULL",), True),
        ("x_low", ("1.5",), False),
    ]


def column(name: str, values: tuple[Any, ...], half: float | None = None) -> AnswerColumn:
    ends = {} if half is None else {"lows": tuple(v - half for v in values), "highs": tuple(v + half for v in values)}
    return AnswerColumn(name=name, cells=tuple(map(str, values)), values=values, **ends)


@pytest.mark.parametrize(
    ("keys", "drawn", "without"),
    [
        (range(10), 'class="line"', "rect"),
        (["a", "b"], "rect", "line"),
        ([f"k{i}" for i in range(50)], "first 40", "x"),
    ],
)
def test_ordered_keys_get_a_line_others_bars(keys: Any, drawn: str, without: str) -> None:
    answer = Answer(
        columns=(column("k", tuple(keys)), column("n", tuple(range(len(keys))), 2.0)), notices=(), is_cut=False
    )
    (chart,) = charts(answer)
    assert drawn in chart and ("whisker" in chart or "band" in chart)
    assert chart.count("<rect") <= MOST_BARS and f'class="{without}"' not in chart


def test_one_row_or_no_noise_has_no_chart() -> None:
    one = Answer(columns=(column("k", ("a",)), column("n", (1,), 1.0)), notices=(), is_cut=False)
    plain = Answer(columns=(column("k", ("a", "b")),), notices=(), is_cut=False)
    empty = Answer(columns=(column("k", ()), column("n", (), 1.0)), notices=(), is_cut=False)
    assert charts(one) == charts(plain) == charts(empty) == []


def test_other_machines_must_show_a_certificate() -> None:
    assert PLACE.options["sslmode"] == "prefer"
    far = ServerAddress(host="db.example", port=5433, database="shop", ca="ca.pem")
    assert far.options["sslmode"] == "verify-full" and far.options["sslrootcert"] == "ca.pem"
