"""The owner's page: who may see it, what it shows, and that nothing in it runs."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import dpquery as dp
from dpquery.errors import DPQueryError
from dpquery.frontends.admin.app import application
from dpquery.frontends.admin.overview import LedgerWatch
from dpquery.frontends.admin.serving import OwnersPage
from dpquery.frontends.postgres.login.tokens import read_token
from dpquery.frontends.postgres.process.log import RefusedStatement
from dpquery.kernel.loss import PrivacyLoss
from dpquery.ledger.ledger import Ledger
from tests.waiting import PATIENCE


@dataclass
class Counted:
    """A server that did nothing, or what a test says."""

    open: int = 0
    refused: list[RefusedStatement] = field(default_factory=list)
    metrics: str = "# TYPE dpquery_connections_open gauge\ndpquery_connections_open 3\n"


TOKEN = "a-token-of-the-owner"
HOSTILE = "SELECT '<script>alert(1)</script>' AS \"x\" -- &amp; \"quoted\" 'single' {{ 'jag' ~ 'uar' }} {% raw %}"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    catalog = dp.Catalog(
        dataset="shop",
        privacy_unit="customer",
        budget={"epsilon": 2},
        analysts={"alice": {"epsilon": 1}, "bob": {"epsilon": 1}},
        tables={"visits": {"unit": "customer", "max_rows": 8, "columns": {"customer": {"type": "int64"}}}},
    )
    made = dp.create_ledger(catalog, tmp_path / "shop.ledger")
    made.charge(analyst="alice", loss=PrivacyLoss(epsilon=Fraction("0.95")), query=HOSTILE)
    made.set_limit("bob", dp.Budget.of(epsilon="0.5"), by="Ann", why="less for Bob")
    yield made
    made.close()


def client(ledger: Ledger, server: Counted | None = None) -> TestClient:
    app = application(LedgerWatch(ledger, ["alice", "bob"]), server or Counted(), TOKEN)
    return TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize("path", ["/", "/metrics"])
@pytest.mark.parametrize(
    "sent", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Cookie": "dpquery-owner=x"}]
)
def test_without_the_token_nothing_is_shown(ledger: Ledger, path: str, sent: dict[str, str]) -> None:
    app = application(LedgerWatch(ledger), Counted(), TOKEN)
    answer = TestClient(app).get(path, headers=sent)
    assert answer.status_code == 401
    assert "shop" not in answer.text and "alice" not in answer.text


def test_the_token_in_the_address_becomes_a_cookie(ledger: Ledger) -> None:
    browser = TestClient(application(LedgerWatch(ledger), Counted(), TOKEN))
    entered = browser.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert entered.status_code == 303 and entered.headers["location"] == "/"
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert "shop" in browser.get("/").text
    assert TestClient(browser.app).get("/", params={"token": TOKEN + "x"}).status_code == 401


def test_a_short_token_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="16"):
        application(LedgerWatch(ledger), Counted(), "short")


def test_accounts_entries_and_refusals_are_shown(ledger: Ledger) -> None:
    refused = RefusedStatement(
        time="2026-01-01 10:00:00", analyst="bob", sqlstate="42501", message="denied for rows <b>"
    )
    text = client(ledger, Counted(open=1, refused=[refused])).get("/").text
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    plain = [re.sub(r"<[^>]*>|\s+", " ", row).split() for row in rows]
    assert ["all", "together", "epsilon", "0.95", "2", "1.05", "48", "%"] in plain
    assert ["alice", "epsilon", "0.95", "1", "0.05", "95", "%"] in plain
    assert ["bob", "epsilon", "0", "0.5", "0.5", "0", "%"] in plain
    assert "1 open connection." in text
    assert "new limit, by Ann: less for Bob" in text
    assert "The ledger is unbroken: 2 entries" in text
    assert "denied for rows &lt;b&gt;" in text
    assert 'width="95.000"' in text and "filled most" in text


def test_no_word_of_a_query_is_markup_or_a_template(ledger: Ledger) -> None:
    text = client(ledger).get("/").text
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ &#39;jag&#39; ~ &#39;uar&#39; }}" in text and "jaguar" not in text


def test_a_browser_may_load_and_run_nothing_else(ledger: Ledger) -> None:
    answer = client(ledger).get("/")
    policy = answer.headers["content-security-policy"]
    nonce = re.search(r'<style nonce="([^"]+)"', answer.text)
    assert nonce is not None and f"'nonce-{nonce[1]}'" in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"(src|href)=\"(?!/metrics)", answer.text)
    assert client(ledger).get("/").text.count(nonce[1]) == 0, "a nonce is used once"


@pytest.mark.parametrize("budget", [{"epsilon": 1000}, {"rho": 2, "delta": "1e-6"}, {"epsilon": 4, "delta": "1e-6"}])
def test_the_page_says_what_any_budget_means(tmp_path: Path, budget: dict[str, object]) -> None:
    tables = {"visits": {"unit": "customer", "max_rows": 8, "columns": {"customer": {"type": "int64"}}}}
    catalog = dp.Catalog(dataset="wide", privacy_unit="customer", budget=budget, tables=tables)
    made = dp.create_ledger(catalog, tmp_path / "wide.ledger")
    answer = client(made).get("/")
    made.close()
    assert answer.status_code == 200
    assert ("3 relatives, wide" in answer.text) is ("rho" not in budget), "of a rho with a delta it is not known"


def test_a_ledger_that_lost_entries_is_told(ledger: Ledger, tmp_path: Path) -> None:
    watch = LedgerWatch(ledger)
    page = TestClient(application(watch, Counted(), TOKEN), headers={"Authorization": f"Bearer {TOKEN}"})
    file = tmp_path / "shop.ledger"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert watch.verify().entries is None
    text = page.get("/").text
    assert 'id="unreadable"' in text and "not whole" in text
    figures = {family.name: family for family in text_string_to_metric_families(page.get("/metrics").text)}
    assert figures["dpquery_ledger_verified"].samples[0].value == 0
    assert figures["dpquery_ledger_readable"].samples[0].value == 0
    file.write_bytes(content)


def test_metrics_are_what_the_ledger_holds(ledger: Ledger) -> None:
    answer = client(ledger).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["dpquery_budget_spent", "alice", "epsilon"] == 0.95
    assert samples["dpquery_budget_limit", "", "epsilon"] == 2
    assert samples["dpquery_connections_open",] == 3
    assert samples["dpquery_ledger_verified",] == 1


def test_new_analysts_and_charges_appear_on_the_next_view(ledger: Ledger) -> None:
    page = client(ledger)
    page.get("/")
    ledger.charge(analyst="bob", loss=PrivacyLoss(epsilon=Fraction("0.25")), query="SELECT COUNT(*) FROM visits")
    text = page.get("/").text
    assert "SELECT COUNT(*) FROM visits" in text and "0.25" in text


def test_a_token_is_kept_in_a_file_of_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    made = read_token(path)
    assert len(made) >= 40 and read_token(path) == made and path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(DPQueryError, match="chmod 600"):
        read_token(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(DPQueryError, match="16 characters"):
        read_token(path)
    with pytest.raises(DPQueryError, match="cannot be read"):
        read_token(tmp_path / "nowhere" / "token")


def test_it_serves_and_stops(ledger: Ledger) -> None:
    with OwnersPage(LedgerWatch(ledger), Counted(), TOKEN, host="127.0.0.1", port=0) as page:
        address = f"http://127.0.0.1:{page.port}/"
        asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            assert b"shop" in answer.read()
            assert answer.headers["server"] is None
        asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=PATIENCE)
        refused.value.close()
        assert refused.value.code == 400
        with pytest.raises(DPQueryError, match="cannot listen"):
            OwnersPage(LedgerWatch(ledger), Counted(), TOKEN, host="127.0.0.1", port=page.port)
        port = page.port
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_it_listens_on_the_machine_itself_alone(ledger: Ledger) -> None:
    with pytest.raises(DPQueryError, match="no TLS"):
        OwnersPage(LedgerWatch(ledger), Counted(), TOKEN, host="0.0.0.0", port=0)
