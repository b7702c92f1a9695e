"""The owner's page in headless Chromium: entered by its token, it shows what the ledger holds."""

from __future__ import annotations

import contextlib
import html
import os
import re
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.server.clients.study import studying

pytestmark = pytest.mark.clients

TOKEN = "a-token-of-the-owner-alone"
PICTURE = "DPQUERY_OWNERS_PAGE"
"""Names a file for the screenshot, to keep it: `docs/images/owners-page.png`."""
NARROW = """<!doctype html><iframe width=400 height=3000 style="border: 0" srcdoc="@PAGE@"></iframe><output></output>
<script>onload = () => { const page = document.querySelector("iframe").contentDocument;
const beyond = [...page.querySelectorAll(".scroll")].map(one => one.scrollWidth - one.clientWidth);
document.querySelector("output").textContent = [page.scrollingElement.scrollWidth, ...beyond]; };</script>"""
"""The page in a window of 400 pixels: how wide it became, and by how much each table is wider than its place."""


def chromium(folder: Path, *options: str) -> str:
    """Returns what a new browser prints."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += [f"--user-data-dir={folder / 'browser'}", "--window-size=1000,700", "--virtual-time-budget=5000"]
    made = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=True)
    return made.stdout


def test_the_page_opens_with_its_token_and_shows_budgets_and_queries(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    picture = Path(os.environ.get(PICTURE, tmp_path / "page.png"))
    options = ("--admin", f"127.0.0.1:{port}", "--admin-token", str(token))
    with (
        studying(tmp_path / "nafld", *options, is_rich=False) as study,
        psycopg.connect(study.url, autocommit=True) as connection,
    ):
        connection.execute("SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex")
        connection.execute("SET dpquery.epsilon = '0.5'")
        connection.execute("SELECT test, AVG(value) FROM labs GROUP BY test")
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM patients LIMIT 10")
        address = f"http://127.0.0.1:{port}/"
        dom = chromium(tmp_path, "--dump-dom", f"{address}?token={TOKEN}")
        chromium(tmp_path, f"--screenshot={picture}", f"{address}?token={TOKEN}")
        narrow = tmp_path / "narrow.html"
        narrow.write_text(NARROW.replace("@PAGE@", html.escape(dom)), encoding="utf-8")
        measured = chromium(tmp_path / "narrow", "--dump-dom", f"file://{narrow}")
        closed = chromium(tmp_path / "other", "--dump-dom", address)
    assert "<title>nafld" in dom and re.search(r"The ledger is unbroken: \d+ entr", dom)
    assert "reader" in re.sub(r"<[^>]*>", " ", dom)
    assert len(re.findall(r"<rect class=\"filled", dom)) >= 2
    assert "3 relatives, nafld" in dom and "GROUP BY test" in dom and "rows of a single patient are not shown" in dom
    assert "reader" not in closed and "GROUP BY" not in closed
    assert "<output>400,0,0,0,0,0</output>" in measured, "neither the page nor a table is wider than the window"
    assert re.search(r'class="quiet">epsilon [\d.]+<', dom)
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
