"""Reports and the documentation in headless Chromium: no page is wider than its window, no report loads anything."""

from __future__ import annotations

import functools
import http.server
import json
import queue
import re
import subprocess
import threading
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.auditing.own_laws import audit_law
from dpquery.auditing.page import page
from dpquery.frontends.cli.demo_attack import run_attacks
from dpquery.frontends.cli.main import run
from tests.docs.test_site import built

pytestmark = pytest.mark.clients

CATALOG = Path(__file__).resolve().parents[2] / "audit/clinic.yaml"
WIDTHS = (400, 1200)
FRAME = """<!doctype html><iframe width=@WIDTH@ height=900 style="border: 0"></iframe>
<script>
  const pages = @PAGES@, found = [], frame = document.querySelector("iframe");
  const next = () => {
    if (found.length < pages.length) frame.src = "/" + pages[found.length];
    else fetch("/", {method: "POST", body: JSON.stringify(found)});
  };
  onload = () => {
    frame.onload = () => { found.push(frame.contentDocument.scrollingElement.scrollWidth); next(); };
    next();
  };
</script>"""
"""One page after the other in a window of this width, and how wide each became, which is posted at the end."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    report = dp.audit(CATALOG, pairs=1, answers=20)
    report.to_html(folder / "audit.html")
    opened = (folder / "audit.html").read_text().replace("<details>", "<details open>")
    (folder / "audit-open.html").write_text(opened)
    law, _ = audit_law("tests.audit.own_laws:Geometric", samples=20_000)
    (folder / "law.html").write_text(page(law))
    asked = ["meaning", "--epsilon", "1", "--relatives", "3", "--catalog", str(CATALOG)]
    assert run([*asked, "--html", str(folder / "meaning.html")]) == 0
    run_attacks(folder)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


def widths(folder: Path, width: int, browser: Path) -> dict[str, int]:
    """Returns how wide each page of a folder is, shown in a window of this width."""
    pages = sorted(str(one.relative_to(folder)) for one in folder.rglob("*.html"))
    frame = FRAME.replace("@WIDTH@", str(width)).replace("@PAGES@", json.dumps(pages)).encode()
    posted: queue.SimpleQueue[list[int]] = queue.SimpleQueue()

    class Framed(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/frame":
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(frame)

        def do_POST(self) -> None:
            posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Says nothing about requests."""

    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += [f"--user-data-dir={browser}", f"--window-size={width + 100},1000", "--remote-debugging-port=0"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Framed, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/frame"
        with subprocess.Popen([*command, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as shown:
            try:
                found = posted.get(timeout=600)
            finally:
                shown.terminate()
        server.shutdown()
    return dict(zip(pages, found, strict=True))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("pages", ["reports", "site"])
def test_no_page_is_wider_than_its_window(
    pages: str, width: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = widths(request.getfixturevalue(pages), width, tmp_path)
    assert len(found) >= 5 and {name: wide for name, wide in found.items() if wide != width} == {}


def test_a_page_that_is_too_wide_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "wide.html").write_text('<body style="margin: 0"><div style="width: 700px">wide</div>')
    assert widths(folder, 400, tmp_path / "browser") == {"wide.html": 700}


def test_no_report_loads_anything(reports: Path) -> None:
    for one in reports.glob("*.html"):
        assert not re.search(r"https?:|src=|<link|@import|url\(|<script", one.read_text()), one.name
