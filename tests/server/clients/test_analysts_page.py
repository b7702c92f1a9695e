"""The analyst's page over a real server, drawn by headless Chromium: nothing is wider than a telephone's window."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dpquery.frontends.page.app import application
from dpquery.frontends.page.server_client import ServerAddress
from tests.server.clients.study import DATABASE, USER, studying
from tests.server.clients.test_owners_page import NARROW, chromium
from tests.server.serving import PASSWORD

pytestmark = pytest.mark.clients

BY_DECADE = "SELECT age / 10 * 10 AS decade, COUNT(*) AS n, AVG(bmi) AS bmi FROM patients GROUP BY 1 ORDER BY 1"
BY_EVENT = "SELECT event, COUNT(*) AS n FROM events WHERE days = 77 GROUP BY event"
QUOTES = 'SELECT COUNT(*) FROM patients WHERE sex = "F"'
SITE = "http://page.test"


def test_prices_answers_and_refusals_fit_the_window(tmp_path: Path) -> None:
    with studying(tmp_path / "nafld", is_rich=False) as study:
        place = ServerAddress(host="127.0.0.1", port=study.port, database=DATABASE)
        with TestClient(application(place, ("page.test",)), base_url=SITE, headers={"Origin": SITE}) as browser:
            entered = browser.post("/login", data={"user": USER, "password": PASSWORD}).text
            found = re.search(r'name="form" value="([^"]+)"', entered)
            assert found
            pages = {
                (text, what): browser.post("/ask", data={"form": found[1], "sql": text, "do": what}).text
                for text, what in ((BY_DECADE, "price"), (BY_DECADE, "ask"), (BY_EVENT, "ask"), (QUOTES, "price"))
            }
            assert study.entries == 2
            browser.post("/logout", data={"form": found[1]})
    assert "Expected errors: n ± " in pages[BY_DECADE, "price"] and "<p>Charge: " in pages[BY_DECADE, "price"]
    assert pages[BY_DECADE, "ask"].count("<svg") == 2 and 'class="band"' in pages[BY_DECADE, "ask"]
    assert "no group was shown" in pages[BY_EVENT, "ask"] and "single quotes" in pages[QUOTES, "price"]
    for number, page in enumerate(pages.values()):
        for width in (400, 1200):
            framed = tmp_path / f"{number}-{width}.html"
            framed.write_text(NARROW.replace("width=400", f"width={width}").replace("@PAGE@", html.escape(page)))
            drawn = chromium(tmp_path / framed.stem, "--dump-dom", f"file://{framed}")
            assert re.search(rf"<output>{width}(,0)*</output>", drawn), (number, width)
