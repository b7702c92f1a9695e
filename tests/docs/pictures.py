"""The picture of the demo: `python -m tests.docs.pictures` runs it and draws what a terminal shows."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # from a server elsewhere; the reader's own font does as well
QUERIES = 3
WIDTH = 100


def main() -> int:
    """Writes docs/images/demo.svg: the first queries of `dpquery demo`."""
    with tempfile.TemporaryDirectory() as folder:
        shown = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "dpquery", "demo", "demo"]
        done = subprocess.run(command, cwd=folder, env=shown, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    plain = [Text.from_ansi(line).plain for line in lines]
    last = next(number for number, line in enumerate(plain) if line.startswith(f"{QUERIES + 1}  "))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(["$ dpquery demo", *lines[: last - 1]])))
    picture = FONT.sub("", console.export_svg(title="dpquery demo", unique_id="demo"))
    (ROOT / "docs" / "images" / "demo.svg").write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
