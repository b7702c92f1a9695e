"""The documentation site: it builds without a warning, needs nothing from elsewhere, and names all functions."""

from __future__ import annotations

import html.parser
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import dpquery as dp
from dpquery.errors import ParameterError
from dpquery.frontends.cli import docs
from tests.architecture.package import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


def built(folder: Path) -> Path:
    """Returns the folder with the site in it."""
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _Assets(html.parser.HTMLParser):
    """Collects what a browser would load for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        loaded = named.get("src") if tag in ("script", "img", "iframe") else None
        if tag == "link" and named.get("rel") in ("stylesheet", "icon", "preload"):
            loaded = named.get("href")
        self.found += [loaded] if loaded else []


@pytest.mark.slow
def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    sources = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".ipynb")]
    assert len(pages) >= len(sources)
    for page in pages:
        assets = _Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        assert not [asset for asset in assets.found if re.match(r"(https?:)?//", asset)], page.name
    styles = [*site.rglob("*.css")]
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), style.name


@pytest.mark.slow
def test_each_page_names_the_version_that_it_tells_of(site: Path) -> None:
    for page in site.glob("how-to/*.html"):
        assert f"dpquery {dp.__version__}" in page.read_text(encoding="utf-8"), page.name


@pytest.mark.slow
def test_the_pages_of_functions_have_every_public_function(site: Path) -> None:
    for module in ("accounting", "mechanisms"):
        text = (site / "functions" / f"{module}.html").read_text(encoding="utf-8")
        for name in getattr(dp, module).__all__ if module == "mechanisms" else _functions():
            assert f".{name}" in text, f"{module}.{name}"


def _functions() -> list[str]:
    from dpquery import accounting

    return [name for name in accounting.__all__ if name.islower()]


@pytest.mark.slow
def test_the_command_serves_the_site_and_nothing_else(site: Path) -> None:
    with docs.site_server(site, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with urllib.request.urlopen(f"{address}/index.html", timeout=60) as answer:
            assert b"dpquery" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/../../etc/hostname", timeout=60)
        server.shutdown()


def test_where_no_site_was_built_the_command_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(docs, "_PACKAGED", tmp_path)
    monkeypatch.setattr(docs, "_BUILT", tmp_path)
    with pytest.raises(ParameterError, match="make site"):
        docs.site_folder()
