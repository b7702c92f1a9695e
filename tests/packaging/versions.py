"""Tries the lowest and the newest versions that the package allows of what it needs: `make versions`.

For each of the two an environment is made, the package is installed with its needs pinned to the lowest version of
their ranges or as new as possible, `tried.py` is run, and then the quick tests of reading, planning and running.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.packaging.wheel import ROOT, TRIED, environment

TESTS = ("tests/cases", "tests/backends/conformance/test_reading.py", "tests/backends/conformance/test_relations.py")
NEEDED_BY_TESTS = ("pytest", "hypothesis", "mpmath")
LOWEST = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)")


def main() -> int:
    """Returns 0 if both environments pass."""
    failed = [name for name, pins in (("lowest", lowest()), ("newest", [])) if not passes(name, pins)]
    if failed:
        print("failed with the", " and the ".join(failed), "versions")
    return len(failed)


def lowest() -> list[str]:
    """Returns a pin of each dependency to the lowest version of its range."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pins = [f"{match[1]}=={match[2]}" for match in map(LOWEST.match, needs) if match]
    if len(pins) != len(needs):
        raise SystemExit(f"a dependency has no lowest version: {needs}")
    return pins


def passes(name: str, pins: list[str]) -> bool:
    """Returns whether the package works in a fresh environment with some versions pinned."""
    with tempfile.TemporaryDirectory(prefix=f"dpquery-{name}-") as folder:
        python = environment(Path(folder) / "fresh")
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
            "install",
            "--upgrade",
        ]
        if subprocess.run([*install, ROOT, *NEEDED_BY_TESTS, *pins], check=False).returncode:
            return False
        subprocess.run([python, "-m", "pip", "list", "--format=freeze"], check=True)
        quick = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not clients", *TESTS]
        return not any(
            subprocess.run([python, *run], cwd=cwd, check=False).returncode
            for run, cwd in (([TRIED], folder), (quick, ROOT))
        )


if __name__ == "__main__":
    sys.exit(main())
