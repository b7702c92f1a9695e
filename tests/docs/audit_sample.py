"""The sample of an audit in the docs, and pictures of reports: `python -m tests.docs.audit_sample` writes them anew."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT, blocks

PAGE, IMAGES = ROOT / "docs/how-to/audit-an-installation.md", ROOT / "docs/images"
QUERIES = (
    "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM patients GROUP BY sex",
    "SELECT COUNT(*) AS n FROM patients WHERE age > (SELECT AVG(age) FROM patients)",
)
COMMAND = ("audit", "demo/nafld.yaml", "--look", "--html", "audit.html")
MEANING = ("meaning", "--epsilon", "1", "--relatives", "3", "--catalog", "demo/nafld.yaml", "--html", "meaning.html")


def sample(folder: Path, *options: str) -> str:
    """Returns what the page's command prints of the demo after some queries; writes the report into the folder."""
    _dpquery(folder, "demo", "demo")
    for query in QUERIES:
        _dpquery(folder, "query", "demo/nafld.yaml", query, "--epsilon", "0.2")
    printed = _dpquery(folder, *COMMAND, *options)
    return printed.partition("[written to")[0].strip() + "\n"


def shown() -> str:
    """Returns the sample as the page shows it."""
    return next(block.text for block in blocks(PAGE) if block.language == "text")


def _dpquery(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "dpquery", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def _picture(page: Path, picture: Path, height: int) -> None:
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += [f"--user-data-dir={page.parent / 'browser'}", f"--window-size=1000,{height}"]
    subprocess.run([*command, f"--screenshot={picture}", f"file://{page}"], check=True, capture_output=True)


def main() -> int:
    """Writes the sample into the page, and the pictures of the report and of the page of meaning."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        printed = sample(folder)
        PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(shown(), printed), encoding="utf-8")
        _dpquery(folder, *MEANING)
        for name in ("audit", "meaning"):
            _picture(folder / f"{name}.html", IMAGES / f"{name}.png", 900)
    return 0


if __name__ == "__main__":
    sys.exit(main())
