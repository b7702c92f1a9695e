"""Packages that clients need in an environment of their own, kept in the folder `.cache` from one run to the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KEPT = Path(__file__).parents[3] / ".cache" / "clients"


def python_with(name: str, *packages: str) -> Path:
    """Returns the Python of an environment that has these packages."""
    folder = KEPT / name
    python = folder / "bin" / "python"
    if not _is_made(folder, packages):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "made").write_text("\n".join(packages))
    return python


def node_with(name: str, *packages: str) -> Path:
    """Returns the folder in which these packages of node are found."""
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    if not _is_made(folder, packages):
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *packages], cwd=folder, check=True)
        (folder / "made").write_text("\n".join(packages))
    return folder / "node_modules"


def _is_made(folder: Path, packages: tuple[str, ...]) -> bool:
    """Whether an installation has ended, and was of these packages."""
    made = folder / "made"
    return made.is_file() and made.read_text() == "\n".join(packages)
