"""Builds the wheel, installs it into a fresh environment, and asks it a query from there: `make wheel`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRIED = Path(__file__).with_name("tried.py")


def main() -> int:
    """Returns 0 if the wheel's package answers, outside this folder and without what tests need."""
    with tempfile.TemporaryDirectory(prefix="dpquery-wheel-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True)
        (wheel,) = folder.glob("dpquery-*.whl")
        fresh = environment(folder / "fresh")
        subprocess.run([fresh, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", wheel], check=True)
        done = subprocess.run([fresh, "-I", TRIED], cwd=folder, check=False)
    return done.returncode


def environment(folder: Path, python: str = sys.executable) -> Path:
    """Makes an environment of a Python with pip, and returns its Python."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


if __name__ == "__main__":
    sys.exit(main())
