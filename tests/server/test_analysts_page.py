"""The analyst's page over a real server: prices are free, one statement is one charge, refusals keep their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpquery.frontends.page.server_client import Asker, ServerAddress, ServerRefusal
from tests.server.serving import PASSWORD, Serving, entries, make_shop, serving

BY_REGION = "SELECT region, COUNT(*) AS n FROM orders GROUP BY region"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Path]]:
    folder = tmp_path_factory.mktemp("shop")
    make_shop(folder)
    with serving(folder) as running:
        yield running, folder


def test_the_path_of_an_analyst(server: tuple[Serving, Path]) -> None:
    running, folder = server
    place = ServerAddress(host="127.0.0.1", port=running.port, database="shop")
    with pytest.raises(ServerRefusal):
        Asker(place, "alice", "wrong")
    asker = Asker(place, "alice", PASSWORD)
    try:
        before = entries(folder)
        price = asker.price(BY_REGION, ("epsilon", "0.5"))
        assert "Charge: epsilon 0.5" in price and any(line.startswith("Expected errors: n ±") for line in price)
        for text in (f"{BY_REGION}; SELECT 1", "ANALYZE " + BY_REGION, "SELECT * FROM orders"):
            with pytest.raises(ServerRefusal):
                asker.price(text, None)
        with pytest.raises(ServerRefusal):
            asker.ask(f"SET dpquery.epsilon = '9'; {BY_REGION}", None)
        with pytest.raises(ServerRefusal) as misspelt:
            asker.ask("SELECT regoin FROM orders", None)
        assert misspelt.value.position == 7 and "region" in misspelt.value.hint
        assert entries(folder) == before
        answer = asker.ask(BY_REGION, ("epsilon", "0.5"))
        assert entries(folder) == before + 1
        assert [column.name for column in answer.columns] == ["region", "n"] and answer.columns[1].lows is not None
        assert "charged epsilon 0.5" in answer.notices[0]
        assert asker.ask(BY_REGION, None).columns == answer.columns and entries(folder) == before + 1
        assert asker.budget()[0]["spent"] == 0.5
        assert [column["column_name"] for column in asker.declared()["orders"]][:2] == ["customer", "region"]
        assert asker.history()[0]["query"] == BY_REGION
    finally:
        asker.close()


def test_a_budget_in_rho_is_told_in_epsilon_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rho = {"currency": "rho", "budget": 0.5, "spent": 0.5, "remaining": 0.0}
    delta = {"currency": "delta", "budget": 1e-6, "spent": 0.0, "remaining": 1e-6}
    monkeypatch.setattr(Asker, "_table", lambda _, __: [dict(rho), dict(delta)])
    told, same = Asker.budget(object.__new__(Asker))
    assert told == rho | {"epsilon": {"budget": "5.22", "remaining": ""}} and same == delta
